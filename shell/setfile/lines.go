package setfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/orrery-go/orrery/effects/texts"
)

// lines say where each key of a file stands, by its path: "recurring.nightly.cron". The library's own decoding keeps no
// places.
type lines map[string]place

type place struct{ line, column int }

func linesOf(data []byte) lines {
	l, from := lines{}, counted{line: 1}
	var p unstable.Parser
	p.Reset(data)
	table := ""
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
			l[path] = from.to(data, at)
		}
	}
	return l
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

// counted is how far a file's lines have been counted: each key is counted from the one before it.
type counted struct{ line, begin, upTo int }

// to gives the place of a byte that is not before the last one that was asked for.
func (c *counted) to(data []byte, at int) place {
	at = max(c.upTo, min(at, len(data)))
	part := data[c.upTo:at]
	c.line += bytes.Count(part, []byte("\n"))
	if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
		c.begin = c.upTo + i + 1
	}
	c.upTo = at
	return place{c.line, utf8.RuneCount(data[c.begin:at]) + 1}
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
