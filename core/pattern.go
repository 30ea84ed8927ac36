package core

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of the patterns of a new input. The time of a match is at most their size times the
// length of the text, of which [MaxTextBytes] are kept. A stored definition keeps the patterns
// that it has.
const (
	MaxPatternSize  = 256     // of one pattern, see [PatternSize]
	MaxPatternsSize = 4 * 256 // of all patterns of one list together
	categorySize    = 16      // of \pL and its like, which stand for hundreds of ranges
)

// MatchPattern reports whether an error text matches a pattern: a regular
// expression (RE2) that may stand anywhere in it, in upper or lower case. Plain
// text matches itself.
func MatchPattern(pattern, text string) bool {
	re, err := regexp.Compile("(?i)" + pattern)
	return err == nil && re.MatchString(text)
}

// PatternSize gives how many steps a regular expression (RE2) takes for each character of a
// text at most: a character or class is one, what is repeated up to n times counts n times.
// It reads the text of the pattern alone, so that no release of Go changes what is refused. A
// pattern that is none has a size, too.
func PatternSize(pattern string) int {
	p := patternReader{rest: pattern, groups: []patternGroup{{}}}
	for p.rest != "" {
		p.next()
	}
	for len(p.groups) > 1 {
		p.closeGroup()
	}
	return p.groups[0].whole()
}

// patternReader reads a pattern from left to right.
type patternReader struct {
	rest   string
	groups []patternGroup // that are open, the outermost first
}

// patternGroup is what was read of a group: what may still be repeated is held apart.
type patternGroup struct{ before, last int }

func (g patternGroup) whole() int { return saturatingInt(g.before, g.last) }

// saturatingInt adds two sizes.
func saturatingInt(a, b int) int {
	if a > math.MaxInt32-b {
		return math.MaxInt32
	}
	return a + b
}

// put adds an atom to the group that is read.
func (p *patternReader) put(size int) {
	g := &p.groups[len(p.groups)-1]
	g.before, g.last = g.whole(), size
}

// repeat lets the last atom count several times.
func (p *patternReader) repeat(times int) {
	g := &p.groups[len(p.groups)-1]
	if times > 0 && g.last > (math.MaxInt32-1)/times {
		g.last = math.MaxInt32 - 1
	} else {
		g.last *= max(times, 1)
	}
	g.last = saturatingInt(g.last, 1)
}

func (p *patternReader) closeGroup() {
	size := saturatingInt(p.groups[len(p.groups)-1].whole(), 2)
	p.groups = p.groups[:len(p.groups)-1]
	p.put(size)
}

// next reads one atom or operator.
func (p *patternReader) next() {
	switch p.rest[0] {
	case '\\':
		p.escape()
	case '[':
		p.class()
	case '(':
		p.rest = p.rest[1:]
		if strings.HasPrefix(p.rest, "?") {
			p.flags()
			return
		}
		p.groups = append(p.groups, patternGroup{})
	case ')':
		p.rest = p.rest[1:]
		if len(p.groups) > 1 {
			p.closeGroup()
		}
	case '*', '+', '?':
		p.rest = p.rest[1:]
		p.repeat(1)
	case '{':
		p.count()
	default:
		_, n := utf8.DecodeRuneInString(p.rest)
		p.rest = p.rest[n:]
		p.put(1)
	}
}

// flags reads what stands after "(?": flags for the rest of the group, or the beginning of a
// group.
func (p *patternReader) flags() {
	end := strings.IndexAny(p.rest, ":>)")
	if end < 0 {
		p.rest = ""
		return
	}
	if p.rest[end] != ')' {
		p.groups = append(p.groups, patternGroup{})
	}
	p.rest = p.rest[end+1:]
}

// escape reads what a backslash begins.
func (p *patternReader) escape() {
	switch {
	case strings.HasPrefix(p.rest, `\Q`):
		text, rest, _ := strings.Cut(p.rest[2:], `\E`)
		for range utf8.RuneCountInString(text) {
			p.put(1)
		}
		p.rest = rest
	default:
		n, size := escapeLength(p.rest)
		p.rest = p.rest[n:]
		p.put(size)
	}
}

// escapeLength gives how many bytes an escape has, and its size.
func escapeLength(s string) (n, size int) {
	if len(s) < 2 {
		return len(s), 1
	}
	_, n = utf8.DecodeRuneInString(s[1:])
	n++
	braced := func(otherwise int) int {
		if end := strings.IndexByte(s, '}'); n < len(s) && s[n] == '{' && end > 0 {
			return end + 1
		}
		return min(n+otherwise, len(s))
	}
	switch s[1] {
	case 'p', 'P':
		return braced(1), categorySize
	case 'x':
		return braced(2), 1
	}
	return n, 1
}

// class reads a class of characters, which is one atom. A "]" that comes first is one of the
// characters.
func (p *patternReader) class() {
	s := strings.TrimPrefix(p.rest[1:], "^")
	size := 1
	for first := true; s != "" && (first || s[0] != ']'); first = false {
		switch {
		case strings.HasPrefix(s, "[:") && strings.Contains(s, ":]"):
			s = s[strings.Index(s, ":]")+2:]
		case s[0] == '\\':
			n, atom := escapeLength(s)
			s, size = s[n:], size+atom-1
		default:
			_, n := utf8.DecodeRuneInString(s)
			s = s[n:]
		}
	}
	p.rest = strings.TrimPrefix(s, "]")
	p.put(size)
}

// count reads "{2}", "{2,}" or "{2,5}"; another brace stands for itself.
func (p *patternReader) count() {
	inner, rest, closed := strings.Cut(p.rest[1:], "}")
	low, high, ranged := strings.Cut(inner, ",")
	least, err := strconv.ParseUint(low, 10, 16)
	times := int(least)
	switch {
	case !closed || err != nil:
		p.rest = p.rest[1:]
		p.put(1)
		return
	case ranged && high == "":
		times++
	case ranged:
		most, err := strconv.ParseUint(high, 10, 16)
		if err != nil {
			p.rest = p.rest[1:]
			p.put(1)
			return
		}
		times = max(times, int(most))
	}
	p.rest = rest
	p.repeat(times)
}

func matchesAny(patterns []string, text string) bool {
	for _, p := range patterns {
		if MatchPattern(p, text) {
			return true
		}
	}
	return false
}

func checkPatterns(field string, patterns []string) error {
	if len(patterns) > maxPatterns {
		return fmt.Errorf("%s: %d patterns are more than %d", field, len(patterns), maxPatterns)
	}
	for i, p := range patterns {
		if err := checkPattern(fmt.Sprintf("%s[%d]", field, i), p); err != nil {
			return err
		}
	}
	return nil
}

func checkPattern(field, p string) error {
	if p == "" {
		return fmt.Errorf("%s: must not be empty", field)
	}
	if err := checkText(field, p); err != nil {
		return err
	}
	if _, err := regexp.Compile("(?i)" + p); err != nil {
		return fmt.Errorf("%s: %q is no regular expression: %w", field, clip(p), err)
	}
	return nil
}

// checkPatternSizes refuses patterns that are too large, by their fields; all of them are
// looked for in one text.
func checkPatternSizes(fields []string, patterns []string) error {
	sum := 0
	for i, p := range patterns {
		n := PatternSize(p)
		if n > MaxPatternSize {
			return fmt.Errorf("%s: %q has the size %d, which is more than %d: each character, class or operator counts one, a group two more, and what is repeated {n} times counts n times: repeat less, or give a part of the text", fields[i], clip(p), n, MaxPatternSize)
		}
		if sum += n; sum > MaxPatternsSize {
			return fmt.Errorf("%s: with the size %d of %q all patterns here have the size %d, which is more than %d: give shorter or fewer ones", fields[i], n, clip(p), sum, MaxPatternsSize)
		}
	}
	return nil
}
