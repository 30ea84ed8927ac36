// Package clip shortens texts that stand in a message.
package clip

import (
	"strings"
	"unicode/utf8"
)

// Text is s if it has at most most bytes, and else its beginning, which ends with a
// whole character, and an ellipsis. What is not UTF-8 in a beginning is left out.
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
