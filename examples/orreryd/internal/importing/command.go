package importing

import "strings"

// splitPercent takes the command of a line apart as cron does: up to the first percent sign it is for the
// shell, what follows is its standard input, with each further percent sign a line feed. A backslash before a percent sign
// makes it one.
func splitPercent(text string) (command, stdin string) {
	command, rest, _ := cutPercent(text)
	if rest == "" {
		return command, ""
	}
	var b strings.Builder
	escaped := false
	for _, c := range []byte(rest) {
		switch {
		case escaped && c != '%':
			b.WriteByte('\\')
		case !escaped && c == '%':
			c = '\n'
		}
		if escaped = c == '\\'; !escaped {
			b.WriteByte(c)
		}
	}
	if escaped {
		b.WriteByte('\\')
	}
	if stdin = b.String(); !strings.HasSuffix(stdin, "\n") {
		stdin += "\n" // cron ends the last line
	}
	return command, stdin
}

// cutPercent cuts a text at its first percent sign that has no backslash before it.
func cutPercent(text string) (before, after string, found bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '%':
			return b.String(), text[i+1:], true
		case text[i] == '\\' && i+1 < len(text):
			if text[i+1] != '%' {
				b.WriteByte('\\')
			}
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), "", false
}
