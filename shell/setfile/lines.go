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
	l := lines{}
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
			l[path] = placeOf(data, at)
		}
	}
	return l
}

func join(table, key string) string {
	if table == "" {
		return key
	}
	return table + "." + key
}

func placeOf(data []byte, at int) place {
	before := data[:min(at, len(data))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return place{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[begin:]) + 1}
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
