// Package text makes texts fit to be shown: in a terminal, in a table, as JSON.
package text

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sayf prints for people. If the output is closed, nobody can be told of it.
func Sayf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// Clean makes a stored text safe to show: whatever could steer a terminal or
// change the reading order is written as an escape.
func Clean(s string) string { return cleanBut(s, "") }

// CleanLines is [Clean] for texts of several lines.
func CleanLines(s string) string { return cleanBut(s, "\n\t") }

func cleanBut(s, keep string) string {
	harmless := func(r rune) bool {
		return strings.ContainsRune(keep, r) || unicode.IsPrint(r)
	}
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case harmless(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		s = s[size:]
	}
	return b.String()
}

// Clip cuts a text for a column of a table.
func Clip(s string, most int) string {
	s = Clean(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// OrDash shows an empty cell.
func OrDash(s string) string { return cmp.Or(s, "-") }

// PlainJSON leaves <, > and & as they are: people read it again.
func PlainJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
