// Package texts makes texts valid UTF-8, cuts them to a length in bytes without parting
// a character, says how far two of them are apart, and writes numbers for people.
package texts

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ellipsis marks where a text was cut.
const ellipsis = "…"

// Valid puts U+FFFD in the place of each invalid byte, as encoding/json does: who
// sees the text after JSON must see the same as who saw it before.
func Valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// Clip shortens a value that is quoted in a message: of a longer one it keeps the
// first bytes, and "…" beside them. A character that is parted becomes U+FFFD.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "\uFFFD") + ellipsis
}

// Head makes a text valid and keeps its beginning, at most that many bytes.
func Head(s string, most int) string {
	s = Valid(s)
	return s[:start(s, most)]
}

// Tail makes a text valid and keeps its end, at most that many bytes.
func Tail(s string, most int) string {
	s = Valid(s)
	if len(s) <= most {
		return s
	}
	from := len(s) - most
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}

// Bound makes a text valid and keeps its beginning: at most that many bytes, "…"
// included.
func Bound(s string, most int) string {
	s = Valid(s)
	if len(s) <= most {
		return s
	}
	return s[:start(s, max(most-len(ellipsis), 0))] + ellipsis
}

// start gives the last beginning of a character, or the end, that is at most n.
func start(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// Distance counts the bytes to add, remove and replace so that a becomes b. Its time is
// that of the product of their lengths: the caller bounds them.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// Nearest gives the name that was probably meant by a misspelt one: at most two letters differ, in whatever case they
// are; empty if none is so near, and where there are so many names that the search would take long.
func Nearest(name string, names []string) string {
	best, distance := "", 3
	if len(name) > maxNear || len(names) > maxNearNames {
		return ""
	}
	for _, n := range names {
		if len(n) > maxNear || len(n)-len(name) > 2 || len(name)-len(n) > 2 {
			continue
		}
		if d := Distance(strings.ToLower(name), strings.ToLower(n)); d < distance && d < max(len(n), 2) {
			best, distance = n, d
		}
	}
	return best
}

// What [Nearest] looks at.
const (
	maxNear      = 64   // bytes of a name
	maxNearNames = 1000 // names
)

// Thousands writes a number with a comma for each thousand.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
