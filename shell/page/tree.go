package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// Bounds of a tree. What lies beyond is counted, and is in the download.
const (
	maxTreeValues  = 1000     // in all
	maxTreeMembers = 100      // of one object or list
	maxTreeString  = 4 << 10  // bytes of one string
	maxTreeDepth   = 20       // levels
	openTreeValues = 60       // a tree with no more is open as a whole
	maxTreeSource  = 16 << 20 // bytes of JSON that are looked through
)

// A tree is a JSON object or list as it is shown: its members, each of which opens and closes.
type tree struct {
	treeNode
	Left string // what is not shown; empty: nothing
}

// A treeNode is one value of a tree.
type treeNode struct {
	ID    string // that of its element, which stays the same while the value changes
	Name  string // as JSON, with its colon; empty: it is an element of a list
	Value string // of a scalar, as JSON
	Lines string // of a string of several lines, as it is
	Size  string // of an object or list: how much is in it
	List  bool
	Nodes []treeNode
	More  string // what of its members is not shown
	Open  bool
}

// jsonTree makes the tree of a JSON object or list; nil if it is neither, is empty, or cannot be read.
func jsonTree(raw json.RawMessage) *tree {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 3 || raw[0] != '{' && raw[0] != '[' || len(raw) > maxTreeSource {
		return nil
	}
	m := treeMaker{d: json.NewDecoder(bytes.NewReader(raw)), bytes: maxShown}
	m.d.UseNumber()
	root, err := m.value(0)
	if err != nil || len(root.Nodes) == 0 && root.More == "" {
		return nil
	}
	if m.shown <= openTreeValues {
		root.openAll()
	}
	t := &tree{treeNode: root}
	if m.left > 0 || m.cut > 0 {
		t.Left = "Not shown: " + hiddenPart(m.left, m.cut) + "."
	}
	return t
}

// treeMaker reads JSON once from its beginning to its end.
type treeMaker struct {
	d     *json.Decoder
	bytes int // how many more may be shown
	shown int // values
	left  int // values that are not
	cut   int // the bytes of JSON that they have, and those of strings that are not shown whole
}

// value reads the next value.
func (m *treeMaker) value(depth int) (n treeNode, err error) {
	token, err := m.d.Token()
	if err != nil {
		return n, err
	}
	if open, ok := token.(json.Delim); ok {
		return m.members(treeNode{List: open == '['}, depth)
	}
	switch v := token.(type) {
	case string:
		n.Value, n.Lines = m.text(v)
	case nil:
		n.Value = "null"
	default: // a number, as it was written, or a truth value
		n.Value = fmt.Sprint(v)
	}
	m.bytes -= len(n.Value) + len(n.Lines)
	return n, nil
}

// text shows a string: as JSON has it, or as it is if it has several lines.
func (m *treeMaker) text(s string) (value, lines string) {
	end := ""
	if len(s) > maxTreeString {
		cut := maxTreeString
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		m.cut += len(s) - cut
		end = "… " + texts.Thousands(len(s)-cut) + " more bytes"
		s = s[:cut]
	}
	if strings.Contains(strings.TrimRight(s, "\n"), "\n") {
		return "", strings.TrimRight(s, "\n") + strings.Replace(end, "… ", "\n… ", 1)
	}
	quoted, err := plainjson.Marshal(s)
	if err != nil { // a string has a JSON form
		return "", s
	}
	return string(quoted) + end, ""
}

// members reads those of an object or list up to its end.
func (m *treeMaker) members(n treeNode, depth int) (treeNode, error) {
	total, left, cut := 0, m.left, m.cut
	for ; m.d.More(); total++ {
		name := ""
		if !n.List {
			token, err := m.d.Token()
			if err != nil {
				return n, err
			}
			quoted, err := plainjson.Marshal(clip(fmt.Sprint(token), 300))
			if err != nil {
				return n, err
			}
			name = string(quoted) + ":"
		}
		if total >= maxTreeMembers || m.shown >= maxTreeValues || m.bytes <= 0 || depth >= maxTreeDepth {
			if err := m.skip(); err != nil {
				return n, err
			}
			continue
		}
		m.shown++
		m.bytes -= len(name)
		member, err := m.value(depth + 1)
		if err != nil {
			return n, err
		}
		member.Name = name
		n.Nodes = append(n.Nodes, member)
	}
	if hidden := total - len(n.Nodes); hidden > 0 {
		n.More = "… " + hiddenPart(m.left-left, m.cut-cut)
	}
	n.Size = sized(total, n.List)
	_, err := m.d.Token() // the bracket at the end
	return n, err
}

// skip reads a value that is not shown.
func (m *treeMaker) skip() error {
	begin := m.d.InputOffset()
	for depth := 0; ; {
		token, err := m.d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			break
		}
	}
	m.left++
	m.cut += int(m.d.InputOffset() - begin)
	return nil
}

// name gives each value that opens an id, by the way to it.
func (n *treeNode) name(id string) {
	n.ID = id
	for i := range n.Nodes {
		n.Nodes[i].name(id + "-" + strconv.Itoa(i))
	}
}

func (n *treeNode) openAll() {
	n.Open = true
	for i := range n.Nodes {
		n.Nodes[i].openAll()
	}
}

func sized(n int, list bool) string {
	one, many := "member", "members"
	if list {
		one, many = "element", "elements"
	}
	if n == 1 {
		return "1 " + one
	}
	return texts.Thousands(n) + " " + many
}

// hiddenPart says how much of a tree is not shown.
func hiddenPart(values, cut int) string {
	switch values {
	case 0:
		return texts.Thousands(cut) + " bytes"
	case 1:
		return "1 more value with " + texts.Thousands(cut) + " bytes"
	}
	return texts.Thousands(values) + " more values with " + texts.Thousands(cut) + " bytes"
}

// slug makes a part of an element's id of a title.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, title)
}
