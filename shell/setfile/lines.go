package setfile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
)

// lines say where each key of a file stands, by its path: "recurring.nightly.cron". The library's own decoding keeps no
// places.
type lines map[string]place

type place struct{ line, column int }

func linesOf(data []byte) lines {
	l := lines{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	places := placesOf(data)
	for p.NextExpression() {
		e := p.Expression()
		path, at := "", 0
		for key := e.Key(); key.Next(); {
			n := key.Node()
			path, at = join(path, string(n.Data)), int(n.Raw.Offset)
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = path
		case unstable.KeyValue:
			path = join(table, path)
		default:
			continue
		}
		if _, twice := l[path]; !twice {
			l[path] = places.at(at)
		}
	}
	return l
}

// Bounds of a file in TOML. Reading compares each key with its neighbours, so that its time grows with their square; what
// files declare is far below.
const (
	maxKeyParts  = 64
	maxTableKeys = 10_000
	maxTables    = 4 * shell.MaxSetEntries
)

// tooMuch refuses a file that could keep the reader for very long, before it is decoded.
func tooMuch(file string, data []byte) *Error {
	var p unstable.Parser
	p.Reset(data)
	places := placesOf(data)
	tables, keys := 0, 0
	for p.NextExpression() {
		e := p.Expression()
		problem := ""
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			keys = 0
			if tables++; tables > maxTables {
				problem = fmt.Sprintf("more than %d tables in a file: split it", maxTables)
			}
		case unstable.KeyValue:
			keys++
			problem = cmp.Or(tooManyKeys(keys), tooMuchIn(e.Value()))
		default:
			continue
		}
		if problem = cmp.Or(problem, tooManyParts(e.Key())); problem != "" {
			key := e.Key()
			key.Next()
			where := places.at(int(key.Node().Raw.Offset))
			return &Error{File: file, Line: where.line, Column: where.column, Problem: problem}
		}
	}
	return nil
}

// tooMuchIn says what is too much in a value; empty: nothing.
func tooMuchIn(v *unstable.Node) string {
	if v.Kind != unstable.Array && v.Kind != unstable.InlineTable {
		return ""
	}
	keys := 0
	for it := v.Children(); it.Next(); {
		n, problem := it.Node(), ""
		if v.Kind == unstable.InlineTable {
			keys++
			problem = cmp.Or(tooManyKeys(keys), tooManyParts(n.Key()))
			n = n.Value()
		}
		if problem = cmp.Or(problem, tooMuchIn(n)); problem != "" {
			return problem
		}
	}
	return ""
}

func tooManyKeys(n int) string {
	if n <= maxTableKeys {
		return ""
	}
	return fmt.Sprintf("more than %d keys in a table", maxTableKeys)
}

func tooManyParts(key unstable.Iterator) string {
	parts := 0
	for key.Next() {
		parts++
	}
	if parts <= maxKeyParts {
		return ""
	}
	return fmt.Sprintf("a key of %d parts: at most %d are read", parts, maxKeyParts)
}

// join gives the path of a key in a table; one that is empty stands for the other.
func join(table, key string) string {
	switch "" {
	case table:
		return key
	case key:
		return table
	}
	return table + "." + key
}

// places tell lines and columns of offsets, of one after the other without beginning anew.
type places struct {
	data        []byte
	line, begin int // of the line that was told last, from 1, and where it begins
}

func placesOf(data []byte) *places { return &places{data: data, line: 1} }

func (p *places) at(offset int) place {
	offset = min(offset, len(p.data))
	if offset < p.begin {
		p.line, p.begin = 1, 0
	}
	for {
		i := bytes.IndexByte(p.data[p.begin:offset], '\n')
		if i < 0 {
			return place{p.line, utf8.RuneCount(p.data[p.begin:offset]) + 1}
		}
		p.line, p.begin = p.line+1, p.begin+i+1
	}
}

// has reports whether a key stands in the file.
func (l lines) has(key string) bool {
	_, ok := l[key]
	return ok
}

// at gives the error at a key: where that stands, or else what it is within.
func (l lines) at(file, key, problem string) Error {
	e := Error{File: file, Line: 1, Column: 1, Field: key, Problem: problem}
	for path := key; path != ""; {
		if p, ok := l[path]; ok {
			e.Line, e.Column = p.line, p.column
			return e
		}
		i := strings.LastIndexByte(path, '.')
		if strings.HasSuffix(path, "]") { // an item of a list stands where the list does
			i = strings.LastIndexByte(path, '[')
		}
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return e
}

// unknownKey says which part of a path to a key nobody knows, and what may stand there.
func unknownKey(path []string) string {
	for i, name := range path {
		known := keysAt(path[:i])
		if len(known) > 0 && !slices.Contains(known, name) {
			if meant := texts.Nearest(name, known); meant != "" {
				return fmt.Sprintf("unknown key %q: did you mean %q?", name, meant)
			}
			return fmt.Sprintf("unknown key %q: use %s", name, strings.Join(known, ", "))
		}
	}
	return "unknown key"
}
