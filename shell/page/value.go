package page

import (
	"bytes"
	"encoding/json"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
)

// maxShown bounds how much of a value a page shows: the rest is in the API.
const maxShown = 64 << 10

// result shows what a tool gave, as people read it: what a command has printed as text, all else
// as JSON.
func result(title string, raw json.RawMessage) []block {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	var printed struct {
		ExitCode *int64  `json:"exit_code"`
		Stdout   *string `json:"stdout"`
		Stderr   *string `json:"stderr"`
	}
	if err := json.Unmarshal(raw, &printed); err != nil || printed.Stdout == nil {
		return []block{{Title: title, Text: jsonText(raw)}}
	}
	out := []block{{Title: title}}
	if printed.ExitCode != nil {
		out[0].Note = "Exit code " + strconv.FormatInt(*printed.ExitCode, 10)
	}
	if *printed.Stdout != "" {
		out[0].Text = longText(*printed.Stdout)
	} else {
		out[0].Empty = "It printed nothing."
	}
	if printed.Stderr != nil && *printed.Stderr != "" {
		out = append(out, block{Title: title + ": standard error", Text: longText(*printed.Stderr)})
	}
	return out
}

// jsonText shows JSON with an indent, unless it is so long that most of it is not shown.
func jsonText(raw json.RawMessage) *text {
	if len(raw) > 4*maxShown {
		return longText(string(raw))
	}
	return longText(indentedJSON(raw))
}

// longText shows a text with the colours that a terminal would, and says so if it is not shown
// whole.
func longText(s string) *text {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "\n… " + strconv.Itoa(len(s)-maxShown) + " more bytes: the API and the command line give all of it"
	}
	if strings.Contains(s, "\x1b") {
		return &text{HTML: ansi(s), Wrap: true}
	}
	return &text{Plain: s, Wrap: true}
}

// ansi makes HTML of a text with the escape sequences of a terminal: its colours and weights are classes of the style
// sheet, all other sequences go.
func ansi(s string) template.HTML {
	html, _ := ansiFrom(nil, s)
	return html
}

// ansiFrom is [ansi] of a text that follows on another one: on are the classes that hold at its beginning, and
// then those that hold at its end.
func ansiFrom(on []string, s string) (template.HTML, []string) {
	var b strings.Builder
	write := func(part string) {
		if part == "" {
			return
		}
		escaped := template.HTMLEscapeString(part)
		if len(on) == 0 {
			b.WriteString(escaped)
			return
		}
		b.WriteString(`<span class="` + strings.Join(on, " ") + `">` + escaped + `</span>`)
	}
	for {
		before, rest, found := strings.Cut(s, "\x1b")
		write(before)
		if !found {
			return template.HTML(b.String()), on //nolint:gosec // all of its parts are escaped above
		}
		var codes string
		if codes, s = cutSequence(rest); codes != "" {
			on = styled(on, codes)
		}
	}
}

// cutSequence takes an escape sequence off a text behind its ESC. codes are those of a sequence that sets
// colours, "0" if it has none; "" of all others.
func cutSequence(s string) (codes, rest string) {
	switch {
	case s == "":
		return "", ""
	case s[0] == ']': // a title or a link: up to BEL or ST
		if i := strings.IndexAny(s, "\x07\x1b"); i >= 0 {
			return "", strings.TrimPrefix(strings.TrimPrefix(s[i:], "\x07"), "\x1b\\")
		}
		return "", ""
	case s[0] != '[':
		return "", s[1:]
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; c >= 0x40 && c <= 0x7e {
			if c != 'm' {
				return "", s[i+1:]
			}
			if codes = s[1:i]; codes == "" {
				codes = "0"
			}
			return codes, s[i+1:]
		}
	}
	return "", ""
}

// styled gives the classes that hold after a sequence.
func styled(on []string, codes string) []string {
	set := func(prefix, class string) {
		on = slices.DeleteFunc(slices.Clone(on), func(c string) bool { return strings.HasPrefix(c, prefix) })
		if class != "" {
			on = append(on, class)
		}
	}
	parts := strings.FieldsFunc(codes, func(r rune) bool { return r == ';' || r == ':' })
	for i := 0; i < len(parts); i++ {
		n, err := strconv.Atoi(parts[i])
		switch {
		case err != nil:
		case n == 0:
			on = nil
		case n == 1:
			set("ansi-bold", "ansi-bold")
		case n == 2:
			set("ansi-faint", "ansi-faint")
		case n == 3:
			set("ansi-italic", "ansi-italic")
		case n == 4:
			set("ansi-underline", "ansi-underline")
		case n == 22:
			set("ansi-bold", "")
			set("ansi-faint", "")
		case n >= 30 && n <= 37:
			set("ansi-fg-", "ansi-fg-"+strconv.Itoa(n-30))
		case n >= 90 && n <= 97:
			set("ansi-fg-", "ansi-fg-"+strconv.Itoa(n-90))
		case n == 39:
			set("ansi-fg-", "")
		case n == 38 || n == 48: // of 256 colours or more: not shown
			if i+1 < len(parts) && parts[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
	return on
}

// pairs shows names with their values.
func pairs(m map[string]string) (c cell) {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c.Lines = append(c.Lines, clip(name, 100)+" = "+clip(m[name], 300))
	}
	return c
}

// attemptRow shows an attempt that did not succeed.
func (q *visit) attemptRow(a core.Attempt) []cell {
	why := badge(a.Cause)
	why.Hint = clip(a.Reason, 300)
	if a.ExitCode != nil {
		why.Hint = "exit code " + strconv.FormatInt(*a.ExitCode, 10) + ": " + why.Hint
	}
	if a.Output != "" {
		why.More = append(why.More, cell{Text: clip(a.Output, 500), Code: true})
	}
	return []cell{number(uint64(a.Number)), q.at(a.StartedAt), q.lasted(a.StartedAt, a.FinishedAt), why.wide()}
}
