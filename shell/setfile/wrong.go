package setfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/orrery-go/orrery/effects/texts"
)

// wrong notes what the decoder says of a file: where, of which key and value, and what would be right.
func (l *loader) wrong(d *document, data []byte, err error) {
	if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		for _, e := range unknown.Errors {
			row, column := e.Position()
			key := e.Key()
			l.errs = append(l.errs, Error{File: d.file.name, Line: row, Column: column, Field: strings.Join(key, "."), Problem: unknownKey(key)})
		}
		return
	}
	e := Error{File: d.file.name, Line: 1, Column: 1}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		e.Line, e.Column = bad.Position()
		e.Field = strings.Join(bad.Key(), ".")
	}
	if full := keyOn(data, e.Line); full == e.Field || strings.HasSuffix(full, "."+e.Field) || e.Field == "" {
		e.Field = full
	}
	e.Problem = inWords(strings.TrimPrefix(err.Error(), "toml: "), valueAt(data, e.Line, e.Column))
	if e.Line == 1 && e.Column == 1 && e.Field != "" { // the decoder does not say where lists within lists stand
		e = d.lines.at(e.File, e.Field, e.Problem)
	}
	l.errs = append(l.errs, e)
}

// What the decoder says of values.
var (
	mismatch   = regexp.MustCompile(`^cannot decode TOML (.+?) into (?:a )?(?:struct field \S+ of type |Go value of type )?(.+)$`)
	outOfRange = regexp.MustCompile(`^(negative )?integer value \S+ cannot be stored in (\S+)$`)
	manyTables = regexp.MustCompile(`^cannot store an array table in a `)
	tooLarge   = regexp.MustCompile(`too large to fit in a 64-bit`)
)

// inWords says what is wrong with a value in words of its file, without types of Go.
func inWords(problem, value string) string {
	it := cmp.Or(value, "it")
	if m := outOfRange.FindStringSubmatch(problem); m != nil {
		return fmt.Sprintf("%s is not between 0 and %d", it, most(m[2]))
	}
	if manyTables.MatchString(problem) {
		return "it is a list of tables, want one table: write [NAME], not [[NAME]]"
	}
	if tooLarge.MatchString(problem) {
		return it + " is too large: want a whole number of at most 19 digits"
	}
	m := mismatch.FindStringSubmatch(problem)
	if m == nil {
		return problem
	}
	return fmt.Sprintf("%s is a TOML %s, want %s", it, m[1], wanted(strings.TrimPrefix(m[2], "setfile.")))
}

// wanted says what a type of Go is in a file.
func wanted(t string) string {
	switch {
	case t == "string":
		return "a text, in quotes"
	case t == "duration":
		return `a text such as "90s" or "10m"`
	case t == "rate":
		return `a text such as "100/1s"`
	case strings.HasPrefix(t, "uint"):
		return "a whole number"
	case t == "bool":
		return "true or false"
	case strings.HasPrefix(t, "[]"):
		return "a list of texts"
	}
	return "a table"
}

// most is the largest number of a type of Go, as TOML can have it.
func most(t string) uint64 {
	if t == "uint32" {
		return math.MaxUint32
	}
	return math.MaxInt64
}

// lineOf gives a line, from 1.
func lineOf(data []byte, line int) string {
	for range line - 1 {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	text, _, _ := bytes.Cut(data, []byte("\n"))
	return strings.TrimSuffix(string(text), "\r")
}

// valueAt gives the number, the text or the word that stands at a place; "" if it is a list or a table, or nothing.
func valueAt(data []byte, line, column int) string {
	const longest = 60
	rest := []rune(lineOf(data, line))
	rest = rest[min(max(column-1, 0), len(rest)):]
	if len(rest) == 0 {
		return ""
	}
	text := string(rest)
	switch quote := rest[0]; quote {
	case '[', '{':
		return ""
	case '"', '\'':
		end := strings.IndexRune(text[1:], quote)
		if end < 0 {
			return ""
		}
		text = text[:end+2]
	default:
		if end := strings.IndexAny(text, ",]}#="); end >= 0 {
			text = text[:end]
		}
	}
	return texts.Clip(strings.TrimSpace(text), longest)
}

// What a line begins with.
var (
	keyLine   = regexp.MustCompile(`^\s*([\w."'-]+(?:\s*\.\s*[\w."'-]+)*)\s*=`)
	tableLine = regexp.MustCompile(`^\s*\[+\s*([^\[\]]+?)\s*\]`)
)

// keyOn gives the key that a line sets, with the table in which it stands; "" if it sets none. It is for files that cannot be
// read, of which no better is known.
func keyOn(data []byte, line int) string {
	m := keyLine.FindStringSubmatch(lineOf(data, line))
	if m == nil {
		return ""
	}
	bare := strings.NewReplacer(`"`, "", "'", "", " ", "")
	lines := bytes.Split(data, []byte("\n"))
	for _, before := range slices.Backward(lines[:line-1]) {
		if table := tableLine.FindStringSubmatch(string(before)); table != nil {
			return join(bare.Replace(table[1]), bare.Replace(m[1]))
		}
	}
	return bare.Replace(m[1])
}
