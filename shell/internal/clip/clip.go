// Package clip shortens texts that stand in a message.
package clip

import "strings"

// Text is s if it has at most most bytes, and else the whole characters of its first
// bytes, and an ellipsis. What is not UTF-8 in them is left out.
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
