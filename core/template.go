package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of templates.
const (
	maxTemplateText = 64 << 10 // of a text, before and after its references are filled in
	// Of all texts of a phase together: a few bytes refer to a megabyte, so that a
	// small definition could ask for more than there is.
	maxExpansion      = 4 << 20
	maxExpansionStart = 16 << 20  // of one that starts pipelines, each with a context of its own
	maxLookups        = 128 << 20 // bytes of values that are read for their members
)

// A template is a text with references to a context: "${name}" stands for the
// value of that name, "${name.member.0}" for a part of it, "$${" for "${". A
// string in a text stands for itself, null for nothing, any other value for its
// JSON.

// part is a piece of a template: plain text, or else a reference.
type part struct {
	text string
	ref  string
}

// splitTemplate gives the parts of a template. An error quotes what is wrong.
func splitTemplate(s string) ([]part, error) {
	var parts []part
	for {
		i := strings.Index(s, "${")
		switch {
		case i < 0:
			return append(parts, part{text: s}), nil
		case i > 0 && s[i-1] == '$':
			parts = append(parts, part{text: s[:i-1] + "${"})
			s = s[i+2:]
			continue
		}
		n := strings.IndexByte(s[i:], '}')
		if n < 0 {
			return nil, fmt.Errorf(`%q has no closing "}": write "$${" for a "${" that is none`, clip(s[i:]))
		}
		ref := s[i+2 : i+n]
		if err := checkReference(ref); err != nil {
			return nil, err
		}
		parts = append(parts, part{text: s[:i]}, part{ref: ref})
		s = s[i+n+1:]
	}
}

func checkReference(ref string) error {
	for segment := range strings.SplitSeq(ref, ".") {
		if segment == "" || strings.ContainsAny(segment, "${") {
			return fmt.Errorf("${%s}: a reference is a name, and the names or places of members after points: ${build.files.0}", clip(ref))
		}
	}
	return nil
}

// scope is what references can see.
type scope struct {
	context map[string]json.RawMessage
	system  map[string]json.RawMessage // built in: they hide the context's
	read    *int                       // the bytes that were read for members; nil: not counted
}

// lookup gives the value of a reference.
func (s scope) lookup(ref string) (json.RawMessage, error) {
	name, rest, more := strings.Cut(ref, ".")
	v, ok := s.system[name]
	if !ok {
		v, ok = s.context[name]
	}
	if !ok {
		return nil, fmt.Errorf("${%s}: the context has no %q", clip(ref), clip(name))
	}
	for more {
		if s.read != nil {
			if *s.read += len(v); *s.read > maxLookups {
				return nil, fmt.Errorf("${%s}: to find the members that are referred to, more than %d bytes would be read", clip(ref), maxLookups)
			}
		}
		name, rest, more = strings.Cut(rest, ".")
		if v, ok = memberOf(v, name); !ok {
			return nil, fmt.Errorf("${%s}: there is no %q", clip(ref), clip(name))
		}
	}
	return v, nil
}

// textOf gives what a value stands for within a text.
func textOf(v json.RawMessage) string {
	v = trimJSON(v)
	var s string
	switch {
	case string(v) == "null":
		return ""
	case len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil:
		return s
	}
	return string(v)
}

// expand fills in the references of a text.
func (s scope) expand(text string, limit int) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	parts, err := splitTemplate(text)
	if err != nil {
		return "", err
	}
	// One value may be referred to a thousand times: it is read once, and nothing is put
	// together before it is known to be short enough.
	texts, pieces, length := make(map[string]string), make([]string, len(parts)), 0
	for i, p := range parts {
		pieces[i] = p.text
		if p.ref != "" {
			if pieces[i], err = s.text(p.ref, texts); err != nil {
				return "", err
			}
		}
		if length += len(pieces[i]); length > limit {
			return "", fmt.Errorf("with what it refers to it is longer than %d bytes", limit)
		}
	}
	return strings.Join(pieces, ""), nil
}

// text gives what a reference stands for within a text, among those that are known. It is
// looked up each time, since what is read for its members counts each time.
func (s scope) text(ref string, known map[string]string) (string, error) {
	v, err := s.lookup(ref)
	if err != nil {
		return "", err
	}
	if _, ok := known[ref]; !ok {
		known[ref] = textOf(v)
	}
	return known[ref], nil
}

// expandJSON fills in the references in the strings of a JSON value. A string
// that is one reference and nothing else becomes the value itself. Names of
// members stay as they are.
func (s scope) expandJSON(v json.RawMessage, limit int) (json.RawMessage, error) {
	if !bytes.Contains(v, []byte("${")) {
		return v, nil
	}
	var out []byte
	err := eachString(v, func(plain, str []byte) error {
		out = append(out, plain...)
		if str == nil {
			return nil
		}
		filled, err := s.expandString(str, limit)
		if len(out)+len(filled) > limit {
			return fmt.Errorf("with what it refers to it is longer than %d bytes", limit)
		}
		out = append(out, filled...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// expandString gives what stands in the place of one JSON string.
func (s scope) expandString(str []byte, limit int) ([]byte, error) {
	var text string
	if err := json.Unmarshal(str, &text); err != nil {
		return nil, fmt.Errorf("%s is no JSON string: %w", clip(string(str)), err)
	}
	parts, err := splitTemplate(text)
	if err != nil {
		return nil, err
	}
	if len(parts) == 3 && parts[0].text == "" && parts[2] == (part{}) {
		return s.lookup(parts[1].ref)
	}
	filled, err := s.expand(text, limit)
	if err != nil {
		return nil, err
	}
	return json.Marshal(filled)
}

// eachString hands over a JSON value in pieces: what stands before a string that
// has a reference and is no member's name, and that string; nil at the end.
func eachString(v []byte, do func(plain, str []byte) error) error {
	from := 0
	for i := 0; i < len(v); i++ {
		if v[i] != '"' {
			continue
		}
		end := i + 1
		for end < len(v) && v[end] != '"' {
			if v[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(v))
		str := v[i:end]
		if bytes.Contains(str, []byte("${")) && !bytes.HasPrefix(bytes.TrimLeft(v[end:], " \t\r\n"), []byte(":")) {
			if err := do(v[from:i], str); err != nil {
				return err
			}
			from = end
		}
		i = end - 1
	}
	return do(v[from:], nil)
}

// rewriter goes through all templates of a definition.
type rewriter interface {
	text(field, s string) string
	json(field string, v json.RawMessage) json.RawMessage
}

// firstError keeps the first error, with the field in which it is.
type firstError struct {
	where string // goes before each field
	err   error
}

func (x *firstError) keep(field string, err error) {
	if x.err == nil && err != nil {
		x.err = fmt.Errorf("%s%s: %w", x.where, field, err)
	}
}

// expander fills the references in. It keeps the first error, and does nothing
// after it.
type expander struct {
	firstError
	scope scope
	limit int // of the bytes of all that it gives
	given int
}

func newExpander(s scope, limit int) *expander {
	s.read = new(int)
	return &expander{scope: s, limit: limit}
}

func (x *expander) text(field, s string) string {
	if x.err != nil {
		return s
	}
	out, err := x.scope.expand(s, maxTemplateText)
	x.give(field, len(out), err)
	return out
}

func (x *expander) json(field string, v json.RawMessage) json.RawMessage {
	if x.err != nil {
		return v
	}
	out, err := x.scope.expandJSON(v, MaxInputBytes)
	x.give(field, len(out), err)
	return out
}

func (x *expander) give(field string, n int, err error) {
	if x.given += n; err == nil && x.given > x.limit {
		err = fmt.Errorf("with what they refer to, all texts together are longer than %d bytes", x.limit)
	}
	x.keep(field, err)
}

// refChecker looks for references that can never be filled in: to names that are not known. With used it
// notes the names instead.
type refChecker struct {
	firstError
	known map[string]bool
	used  map[string]bool
}

func (x *refChecker) text(field, s string) string {
	if len(s) > maxTemplateText {
		x.keep(field, fmt.Errorf("%d bytes is longer than %d", len(s), maxTemplateText))
		return s
	}
	x.keep(field, checkPlain(s))
	if strings.Contains(s, "${") {
		x.keep(field, x.references(s))
	}
	return s
}

func (x *refChecker) json(field string, v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return v
	}
	if err := checkJSON(x.where+field, v, MaxInputBytes); err != nil {
		if x.err == nil {
			x.err = err
		}
		return v
	}
	x.keep(field, eachString(v, func(_, str []byte) error {
		var s string
		if str == nil || json.Unmarshal(str, &s) != nil {
			return nil
		}
		return x.references(s)
	}))
	return v
}

func (x *refChecker) references(s string) error {
	parts, err := splitTemplate(s)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.ref == "" {
			continue
		}
		if err := x.reference(p.ref); err != nil {
			return err
		}
	}
	return nil
}

func (x *refChecker) reference(ref string) error {
	if err := checkReference(ref); err != nil {
		return err
	}
	name, _, _ := strings.Cut(ref, ".")
	if x.used != nil {
		x.used[name] = true
		return nil
	}
	if !x.known[name] {
		return fmt.Errorf("${%s}: %q is neither an input nor the output of an earlier phase", clip(ref), clip(name))
	}
	return nil
}

// checkPlain refuses what cannot stand in a text.
func checkPlain(s string) error {
	if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
		return fmt.Errorf("%q has a NUL byte or is not valid UTF-8", clip(s))
	}
	return nil
}

// canonical gives JSON as it reads after one way through the stored form, so
// that sizes and comparisons are the same in a replay. It must be valid.
func canonical(v json.RawMessage) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

// sameJSON compares two values; strings by what they say.
func sameJSON(a, b json.RawMessage) bool {
	a, b = trimJSON(a), trimJSON(b)
	if len(a) > 0 && len(b) > 0 && a[0] == '"' && b[0] == '"' {
		return textOf(a) == textOf(b)
	}
	return bytes.Equal(canonical(a), canonical(b))
}
