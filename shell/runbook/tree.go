package runbook

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// kind is what a value of TOML is.
type kind int

const (
	kindTable kind = iota
	kindArray
	kindText
	kindInteger
	kindFloat
	kindBoolean
	kindDate
)

// String names the kind in TOML's words.
func (k kind) String() string {
	return [...]string{"table", "array", "string", "integer", "float", "boolean", "date or time"}[k]
}

// node is a value and where it stands.
type node struct {
	kind  kind
	off   int    // in the file, in bytes
	text  string // of a string; of another scalar as it is written
	keys  []entry
	index map[string]int // of keys, once there are many
	items []*node

	closed bool // an inline table, or one that has had its header
	tables bool // an array that is made of [[headers]]
}

// entry is a key of a table.
type entry struct {
	name  string
	off   int
	value *node
}

// get gives the entry of that name.
func (n *node) get(name string) (entry, bool) {
	i, ok := n.index[name]
	if n.index == nil {
		i = slices.IndexFunc(n.keys, func(e entry) bool { return e.name == name })
		ok = i >= 0
	}
	if !ok {
		return entry{}, false
	}
	return n.keys[i], true
}

func (n *node) set(name string, off int, v *node) {
	n.keys = append(n.keys, entry{name, off, v})
	switch {
	case n.index != nil:
		n.index[name] = len(n.keys) - 1
	case len(n.keys) > 8:
		n.index = make(map[string]int, 2*len(n.keys))
		for i, e := range n.keys {
			n.index[e.name] = i
		}
	}
}

// tree makes a tree of a file. The library's own decoding keeps no places.
type tree struct {
	c      *compiler
	parser unstable.Parser
}

// parse gives the tree of the file; where it is no TOML, errors are noted.
func (c *compiler) parse() *node {
	t := &tree{c: c}
	t.parser.Reset(c.data)
	root := &node{kind: kindTable}
	at, field := root, ""
	for t.parser.NextExpression() {
		switch e := t.parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			at, field = t.header(root, e)
		case unstable.KeyValue:
			t.keyValue(at, field, e, 0)
		default:
		}
	}
	if err := t.parser.Error(); err != nil {
		t.syntax(err)
		return root
	}
	if len(c.errs) == 0 { // what is left are rules of TOML about tables that are opened twice
		if err := toml.Unmarshal(c.data, &map[string]any{}); err != nil {
			t.syntax(err)
		}
	}
	return root
}

// syntax notes what the library says.
func (t *tree) syntax(err error) {
	what, off := strings.TrimPrefix(err.Error(), "toml: "), 0
	if bad, ok := errors.AsType[*unstable.ParserError](err); ok {
		what = bad.Message
		if n := cap(t.c.data) - cap(bad.Highlight); n >= 0 && n <= len(t.c.data) {
			off = n
		}
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := bad.Position()
		if row >= 1 && row <= len(t.c.lines) {
			off = min(t.c.lines[row-1]+max(column-1, 0), len(t.c.data))
		}
	}
	t.c.say(off, "", "%s", what)
}

// dropped takes what follows a header that is wrong.
func dropped() *node { return &node{kind: kindTable} }

// keyPart is a part of a dotted key.
type keyPart struct {
	name string
	off  int
}

func (t *tree) key(e *unstable.Node) []keyPart {
	var parts []keyPart
	for key := e.Key(); key.Next(); {
		n := key.Node()
		parts = append(parts, keyPart{string(n.Data), int(n.Raw.Offset)})
	}
	if len(parts) > maxKeyParts {
		t.c.say(parts[0].off, "", "a key of %d parts is more than %d", len(parts), maxKeyParts)
		return nil
	}
	return parts
}

// header opens a [table] or an element of [[tables]], and gives its name.
func (t *tree) header(root *node, e *unstable.Node) (*node, string) {
	parts := t.key(e)
	if len(parts) == 0 {
		return dropped(), ""
	}
	last, field := parts[len(parts)-1], path("", parts)
	at := t.walk(root, "", parts[:len(parts)-1])
	if at == nil {
		return dropped(), field
	}
	was, ok := at.get(last.name)
	made := &node{kind: kindTable, off: last.off, closed: true}
	switch isList := e.Kind == unstable.ArrayTable; {
	case !ok && isList:
		at.set(last.name, last.off, &node{kind: kindArray, off: last.off, tables: true, items: []*node{made}})
		return made, field
	case !ok:
		at.set(last.name, last.off, made)
		return made, field
	case isList && was.value.tables:
		was.value.items = append(was.value.items, made)
		return made, field
	case !isList && was.value.kind == kindTable && !was.value.closed:
		was.value.closed = true
		return was.value, field
	}
	t.twice(last, field, was)
	return dropped(), field
}

// walk follows the parts of a key, and makes the tables that are missing.
func (t *tree) walk(at *node, field string, parts []keyPart) *node {
	for i, p := range parts {
		was, ok := at.get(p.name)
		switch {
		case !ok:
			next := &node{kind: kindTable, off: p.off}
			at.set(p.name, p.off, next)
			at = next
		case was.value.kind == kindTable:
			at = was.value
		case was.value.tables:
			at = was.value.items[len(was.value.items)-1]
		default:
			t.c.say(p.off, path(field, parts[:i+1]), "it is a TOML %s in line %d, and can have no keys", was.value.kind, t.c.line(was.off))
			return nil
		}
	}
	return at
}

func (t *tree) twice(key keyPart, field string, was entry) {
	t.c.say(key.off, field, "it is there twice: the first one stands in line %d", t.c.line(was.off))
}

func path(field string, parts []keyPart) string {
	for _, p := range parts {
		field = join(field, p.name)
	}
	return field
}

// join gives the name of a member as it is written in messages.
func join(field, key string) string {
	plain := key != ""
	for _, r := range key {
		plain = plain && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '[' || r == ']')
	}
	if !plain {
		key = strconv.Quote(clip.Text(key, maxQuoted))
	}
	if field == "" {
		return key
	}
	return field + "." + key
}

// keyValue adds key = value to a table.
func (t *tree) keyValue(at *node, field string, e *unstable.Node, depth int) {
	parts := t.key(e)
	if len(parts) == 0 {
		return
	}
	last := parts[len(parts)-1]
	if at = t.walk(at, field, parts[:len(parts)-1]); at == nil {
		return
	}
	field = path(field, parts)
	if was, ok := at.get(last.name); ok {
		t.twice(last, field, was)
		return
	}
	at.set(last.name, last.off, t.value(e.Value(), field, last.off, depth+1))
}

// value makes a node of a value; off is its place if the library gives none.
func (t *tree) value(v *unstable.Node, field string, off, depth int) *node {
	if v.Raw.Length > 0 {
		off = int(v.Raw.Offset)
	}
	n := &node{off: off, text: string(v.Data)}
	if depth > MaxNesting {
		t.c.say(off, field, "arrays and tables are nested deeper than %d levels", MaxNesting)
		return n
	}
	switch v.Kind {
	case unstable.String:
		n.kind = kindText
	case unstable.Bool:
		n.kind = kindBoolean
	case unstable.Integer:
		n.kind = kindInteger
	case unstable.Float:
		n.kind = kindFloat
	case unstable.Array:
		n.kind = kindArray
		for children := v.Children(); children.Next(); {
			n.items = append(n.items, t.value(children.Node(), field, off, depth+1))
		}
	case unstable.InlineTable:
		n.kind, n.closed = kindTable, true
		for children := v.Children(); children.Next(); {
			t.keyValue(n, field, children.Node(), depth+1)
		}
	default:
		n.kind = kindDate
	}
	return n
}

// line gives the line of a place, from 1.
func (c *compiler) line(off int) int {
	return sort.Search(len(c.lines), func(i int) bool { return c.lines[i] > off })
}

// place gives line and column, in characters.
func (c *compiler) place(off int) (line, column int) {
	line = c.line(off)
	return line, utf8.RuneCount(c.data[c.lines[line-1]:off]) + 1
}

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 64

// say notes an error.
func (c *compiler) say(off int, field, format string, args ...any) {
	c.errs = c.note(c.errs, off, field, fmt.Sprintf(format, args...))
}

// warn notes a warning.
func (c *compiler) warn(off int, field, format string, args ...any) {
	c.warnings = c.note(c.warnings, off, field, fmt.Sprintf(format, args...))
}

// maxNoted bounds what is kept while a file is looked at.
const maxNoted = 1000

func (c *compiler) note(list []Error, off int, field, problem string) []Error {
	if len(list) >= maxNoted {
		return list
	}
	line, column := c.place(min(max(off, 0), len(c.data)))
	e := Error{File: c.file, Line: line, Column: column, Field: field, Problem: problem}
	if slices.Contains(list, e) { // one cause that is found in two ways
		return list
	}
	return append(list, e)
}

// sorted gives errors in the order of the file, and no more than are read.
func sorted(list []Error) []Error {
	slices.SortStableFunc(list, func(a, b Error) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	if more := len(list) - MaxErrors; more > 0 {
		list = list[:MaxErrors]
		last := &list[MaxErrors-1]
		last.Problem += fmt.Sprintf(" (and %d more)", more)
	}
	return list
}

// result gives what is wrong; nil where nothing is.
func (c *compiler) result() error {
	if len(c.errs) == 0 {
		return nil
	}
	return Errors(sorted(c.errs))
}
