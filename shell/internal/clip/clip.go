// Package clip shortens texts that stand in a message.
package clip

import "strings"

// Text is s if it has at most most bytes, and else its beginning and an ellipsis. What is
// not UTF-8 in a beginning is left out, and so is a character that is parted.
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
