package text

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// emojiStyle asks a terminal to show the character before it as an emoji, two columns wide.
const emojiStyle = '\ufe0f'

// Width is how many columns of a terminal a clean text takes: see [Clean].
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r == emojiStyle:
		return 1 // of a character that was counted as one column: never too few
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	switch width.LookupRune(r).Kind() { //nolint:exhaustive // all others are narrow
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut cuts a clean text to that many columns of a terminal; what was cut off is an ellipsis.
func Cut(s string, most int) string {
	if Width(s) <= most {
		return s
	}
	return s[:head(s, most-1)] + "…"
}

// CutMiddle is [Cut], but keeps the beginning and the end.
func CutMiddle(s string, most int) string {
	if Width(s) <= most {
		return s
	}
	first := (most - 1) / 2
	rest := most - 1 - first
	end := len(s)
	for _, r := range slices.Backward([]rune(s)) {
		if rest -= runeWidth(r); rest < 0 {
			break
		}
		end -= utf8.RuneLen(r)
	}
	return s[:head(s, first)] + "…" + s[end:]
}

// head is how many bytes of a text take that many columns at most.
func head(s string, most int) int {
	for i, r := range s {
		if most -= runeWidth(r); most < 0 {
			return i
		}
	}
	return len(s)
}
