package jobfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// Bounds of a file once its aliases are written out.
const (
	maxNodes = 100_000 // of all its documents
	maxDepth = 200
)

// documents reads all documents of a file, without those that are empty. Aliases
// and merges are written out, and no mapping has a key twice.
func (f *file) documents(data []byte) []*yaml.Node {
	switch {
	case len(data) > MaxBytes:
		f.say(nil, "", "%d bytes are more than %d, the most that a job file may have", len(data), MaxBytes)
		return nil
	case !utf8.Valid(data):
		at, b := notUTF8(data)
		f.say(at, "", "the byte 0x%02x is not UTF-8 text: save the file as UTF-8", b)
		return nil
	}
	if b := bytes.TrimSpace(data); len(b) > 0 && b[0] == '{' && json.Valid(b) {
		// JSON has escapes that YAML has not.
		return f.expand(jsonTree(data))
	}
	var docs []*yaml.Node
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		err := decode(d, &n)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			f.syntax(err)
			return nil
		}
		if n.Kind != yaml.DocumentNode || len(n.Content) != 1 || isNull(n.Content[0]) {
			continue
		}
		docs = append(docs, f.expand(n.Content[0])...)
		if f.nodes > maxNodes {
			return docs
		}
	}
}

// notUTF8 finds the first byte of data that is none of UTF-8.
func notUTF8(data []byte) (*yaml.Node, byte) {
	at := &yaml.Node{Line: 1, Column: 1}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return at, data[i]
		case r == '\n':
			at.Line, at.Column = at.Line+1, 1
		default:
			at.Column++
		}
		i += size
	}
	return at, 0
}

// decode reads one document; a panic of the library is an error.
func decode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: it cannot be read: %v", p)
		}
	}()
	return d.Decode(n)
}

var lineOf = regexp.MustCompile(`(?s)^yaml: line (\d+): (.*)$`)

// syntax notes an error of the library.
func (f *file) syntax(err error) {
	at, what := &yaml.Node{Line: 1, Column: 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := lineOf.FindStringSubmatch(err.Error()); m != nil {
		at.Line, _ = strconv.Atoi(m[1]) // digits
		what = m[2]
	}
	f.say(at, "", "it is no YAML: %s", what)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// expand writes out a document's aliases and merges; nothing if that fails.
func (f *file) expand(n *yaml.Node) []*yaml.Node {
	e := &expander{f: f}
	out := e.node(n, 0)
	if out == nil {
		return nil
	}
	return []*yaml.Node{out}
}

type expander struct {
	f    *file
	open []*yaml.Node // anchors that are being written out
	full bool
}

// node gives a copy without aliases; nil where it grows without bound.
func (e *expander) node(n *yaml.Node, depth int) *yaml.Node {
	if e.f.nodes++; e.f.nodes > maxNodes || depth > maxDepth {
		if !e.full {
			e.full = true
			e.f.say(n, "", "it has more than %d values, or is nested deeper than %d levels, once its aliases are written out", maxNodes, maxDepth)
		}
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		if slices.Contains(e.open, n.Alias) {
			e.f.say(n, "", "*%s is within what it stands for", clip.Text(n.Value, maxQuoted))
			e.full = true
			return nil
		}
		e.open = append(e.open, n.Alias)
		out := e.node(n.Alias, depth+1)
		e.open = e.open[:len(e.open)-1]
		if out != nil {
			out.Line, out.Column = n.Line, n.Column // where the user has to look
		}
		return out
	case yaml.MappingNode:
		return e.mapping(n, depth)
	case yaml.SequenceNode:
		out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Line: n.Line, Column: n.Column}
		for _, c := range n.Content {
			v := e.node(c, depth+1)
			if v == nil {
				return nil
			}
			out.Content = append(out.Content, v)
		}
		return out
	case yaml.ScalarNode:
		return &yaml.Node{Kind: n.Kind, Tag: n.ShortTag(), Value: n.Value, Style: n.Style, Line: n.Line, Column: n.Column}
	case yaml.DocumentNode:
	}
	e.f.say(n, "", "it cannot be read")
	return nil
}

func (e *expander) mapping(n *yaml.Node, depth int) *yaml.Node {
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Line: n.Line, Column: n.Column}
	seen := map[string]*yaml.Node{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], e.node(n.Content[i+1], depth+1)
		if v == nil {
			return nil
		}
		key := e.node(k, depth+1)
		switch {
		case key == nil:
			return nil
		case key.Tag == "!!merge":
			merged = append(merged, v)
			continue
		case key.Kind != yaml.ScalarNode || key.Tag == "!!null":
			e.f.say(k, "", "a key must be a text")
			continue
		}
		if before := seen[key.Value]; before != nil {
			e.f.say(k, "", "the key %q is there twice: the first one is at line %d", clip.Text(key.Value, maxQuoted), before.Line)
			continue
		}
		seen[key.Value] = key
		out.Content = append(out.Content, key, v)
	}
	for _, m := range merged {
		e.merge(out, m, seen)
	}
	return out
}

// merge adds what << names, as far as it is not there.
func (e *expander) merge(out, from *yaml.Node, seen map[string]*yaml.Node) {
	switch from.Kind {
	case yaml.SequenceNode:
		for _, c := range from.Content {
			if c.Kind == yaml.MappingNode {
				e.merge(out, c, seen)
				continue
			}
			e.f.say(c, "<<", "it is no mapping that could be merged")
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(from.Content); i += 2 {
			if k := from.Content[i]; seen[k.Value] == nil {
				seen[k.Value] = k
				out.Content = append(out.Content, k, from.Content[i+1])
			}
		}
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
		e.f.say(from, "<<", "it is no mapping that could be merged")
	}
}

// jsonTree makes a tree of JSON that is valid.
func jsonTree(data []byte) *yaml.Node {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	t := &jsonReader{d: d, data: data}
	return t.value()
}

type jsonReader struct {
	d      *json.Decoder
	data   []byte
	at     int
	line   int // lines before at
	column int // characters before at, in its line
}

// place gives line and column of the token that comes next.
func (t *jsonReader) place() (line, column int) {
	next := int(t.d.InputOffset())
	for next < len(t.data) && strings.IndexByte(" \t\r\n,:", t.data[next]) >= 0 {
		next++
	}
	for ; t.at < next; t.at++ {
		switch c := t.data[t.at]; {
		case c == '\n':
			t.line, t.column = t.line+1, 0
		case utf8.RuneStart(c):
			t.column++
		}
	}
	return t.line + 1, t.column + 1
}

func (t *jsonReader) value() *yaml.Node {
	n := &yaml.Node{}
	n.Line, n.Column = t.place()
	tok, _ := t.d.Token() // valid: there is one
	switch v := tok.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for t.d.More() {
			n.Content = append(n.Content, t.value()) // the keys of an object come as values of their own
		}
		_, _ = t.d.Token() // its end
		return n
	case string:
		n.Value, n.Tag, n.Style = v, "!!str", yaml.DoubleQuotedStyle
	case json.Number:
		n.Value, n.Tag = v.String(), "!!float"
		if strings.Trim(n.Value, "-0123456789") == "" {
			n.Tag = "!!int"
		}
	case bool:
		n.Value, n.Tag = strconv.FormatBool(v), "!!bool"
	default:
		n.Value, n.Tag = "null", "!!null"
	}
	n.Kind = yaml.ScalarNode
	return n
}
