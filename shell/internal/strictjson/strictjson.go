// Package strictjson decodes JSON that comes from outside, and refuses what
// encoding/json lets pass in silence: unknown fields, names that differ from
// the field's in case, duplicate keys, null where a value is needed, arrays of
// the wrong length, nesting without bound, invalid UTF-8, lone surrogates, NUL
// characters and trailing data. Every refusal names the place and the bad
// value: `payload.items[3].count: want an integer, got string "x"`.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// MaxDepth is how many arrays and objects may stand inside one another. It
// bounds the stack that an input can make the program use.
const MaxDepth = 200

// Error is a refused input. It is the only type of error that an input can
// cause; a wrong use of this package gives another.
type Error struct {
	// Path is where the fault stands, such as `payload.items[3].count`; it is
	// empty for the whole document.
	Path string
	// Problem says what is wrong there, with the bad value, and what would be right.
	Problem string
	// Err is what a type's own UnmarshalJSON or UnmarshalText said, or nil.
	Err error
}

// Error gives "path: problem", or the problem alone for the whole document.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// Unwrap gives e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Decode reads exactly one JSON document from data into dst, a non-nil pointer,
// by the rules of the package's documentation. On an error dst is as it was.
//
// Types are decoded as encoding/json does it. null is accepted for pointers,
// slices, maps, interfaces, [json.RawMessage] and types with an UnmarshalJSON;
// elsewhere leave the field out instead. What is decoded into a
// [json.RawMessage] is checked like the rest, except that its numbers may be of
// any size. data is not kept. The size of data is the caller's to bound; a field
// that is a slice and has the tag most:"N" takes N elements at most, and nothing is
// allocated for more.
func Decode(data []byte, dst any) error { return DecodeAt("", data, dst) }

// DecodeAt is [Decode] for a document that is itself a field: root is put in
// front of every path, so that DecodeAt("tool_input", …) says
// `tool_input.argv: …`.
func DecodeAt(root string, data []byte, dst any) error {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("strictjson: dst must be a non-nil pointer, got %T", dst)
	}
	if err := check(root, data, v.Type().Elem()); err != nil {
		return err
	}
	// Into a value of its own, so that a late failure leaves dst untouched. What
	// dst holds already stays the default for fields that are not given.
	fresh := reflect.New(v.Type().Elem())
	fresh.Elem().Set(v.Elem())
	if err := json.Unmarshal(data, fresh.Interface()); err != nil {
		return &Error{Path: root, Problem: strings.TrimPrefix(err.Error(), "json: "), Err: err}
	}
	v.Elem().Set(fresh.Elem())
	return nil
}

// Check reports whether data is exactly one JSON document that [Decode] would
// accept into a [json.RawMessage].
func Check(data []byte) error { return check("", data, nil) }

func check(root string, data []byte, t reflect.Type) error {
	s := &scanner{data: data, root: root}
	if !utf8.Valid(data) {
		return s.problem("the byte at offset %d is not valid UTF-8", invalidOffset(data))
	}
	if strings.HasPrefix(string(data[:min(len(data), 3)]), "\ufeff") {
		return s.problem("starts with a byte order mark: leave it out")
	}
	s.space()
	if s.pos == len(data) {
		return s.problem("is empty: want %s", wanted(targetOf(t)))
	}
	if err := s.value(targetOf(t), 1); err != nil {
		return err
	}
	s.space()
	if s.pos < len(data) {
		return s.problem("has more after its end, from offset %d: %s", s.pos, s.here())
	}
	return nil
}

func invalidOffset(data []byte) int {
	for i, r := range string(data) {
		if _, n := utf8.DecodeRune(data[i:]); r == utf8.RuneError && n == 1 {
			return i
		}
	}
	return len(data)
}

// scanner walks the document once, beside the type that it will be decoded
// into. Its recursion is bounded by MaxDepth.
type scanner struct {
	data []byte
	pos  int
	root string
	path []step
}

// step is one part of a path: a key, or an index where key is empty and
// isIndex is set.
type step struct {
	key     string
	index   int
	isIndex bool
}

func (s *scanner) pathString() string {
	var b strings.Builder
	b.WriteString(s.root)
	for _, p := range s.path {
		switch {
		case p.isIndex:
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(p.index))
			b.WriteByte(']')
		case plainKey(p.key):
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p.key)
		default:
			b.WriteByte('[')
			b.WriteString(strconv.QuoteToASCII(clip.Text(p.key, maxQuoted)))
			b.WriteByte(']')
		}
	}
	// A path through 200 objects with long keys is of no use to a reader.
	return clip.Text(b.String(), 512)
}

func plainKey(k string) bool {
	for _, r := range k {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return k != "" && len(k) <= 64
}

func (s *scanner) problem(format string, args ...any) error {
	return &Error{Path: s.pathString(), Problem: fmt.Sprintf(format, args...)}
}

// syntax is a fault in the JSON itself; it says where, since the path alone
// does not find it.
func (s *scanner) syntax(want string) error {
	return s.problem("is not JSON: want %s at offset %d, got %s", want, s.pos, s.here())
}

// here describes what stands at the current offset.
func (s *scanner) here() string {
	if s.pos >= len(s.data) {
		return "the end of the input"
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return strconv.QuoteRuneToASCII(r)
}

// accept consumes the next byte if it is one of those.
func (s *scanner) accept(bytes string) bool {
	if s.pos >= len(s.data) || strings.IndexByte(bytes, s.data[s.pos]) < 0 {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) space() {
	for s.pos < len(s.data) && s.data[s.pos] <= ' ' && s.accept(" \t\n\r") {
	}
}

// value checks the value at the current offset, where no space stands.
func (s *scanner) value(t target, depth int) error {
	if s.pos >= len(s.data) {
		return s.syntax("a value")
	}
	if t.class == custom {
		return s.customValue(t, depth)
	}
	switch c := s.data[s.pos]; {
	case c == '{':
		return s.object(t, depth)
	case c == '[':
		return s.array(t, depth)
	case c == '"':
		return s.stringValue(t)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(t)
	case s.literal("true"):
		return s.fits(t, t.takes(boolean), "true")
	case s.literal("false"):
		return s.fits(t, t.takes(boolean), "false")
	case s.literal("null"):
		return s.fits(t, t.nullable, "null")
	default:
		return s.syntax("a value")
	}
}

// literal consumes word if it stands here.
func (s *scanner) literal(word string) bool {
	if !strings.HasPrefix(string(s.data[s.pos:min(len(s.data), s.pos+len(word))]), word) {
		return false
	}
	s.pos += len(word)
	return true
}

func (s *scanner) mismatch(t target, got string) error {
	return s.problem("want %s, got %s", wanted(t), got)
}

// fits refuses what t does not take.
func (s *scanner) fits(t target, ok bool, got string) error {
	if ok {
		return nil
	}
	return s.mismatch(t, got)
}

// customValue finds the value's extent and lets the type itself judge it.
func (s *scanner) customValue(t target, depth int) error {
	start := s.pos
	if err := s.value(target{class: raw, nullable: true}, depth); err != nil {
		return err
	}
	text := s.data[start:s.pos]
	if t.nullable && string(text) == "null" {
		return nil
	}
	if err := reflect.New(t.typ).Interface().(json.Unmarshaler).UnmarshalJSON(text); err != nil {
		if inner, ok := errors.AsType[*Error](err); ok { // a type that decodes itself with this package
			return &Error{Path: join(s.pathString(), inner.Path), Problem: inner.Problem, Err: err}
		}
		return &Error{Path: s.pathString(), Problem: strings.TrimPrefix(err.Error(), "json: "), Err: err}
	}
	return nil
}

func join(outer, inner string) string {
	if outer == "" || inner == "" || strings.HasPrefix(inner, "[") {
		return outer + inner
	}
	return outer + "." + inner
}

func (s *scanner) object(t target, depth int) error {
	var seen keys
	_, err := s.nested(t, depth, objects, func(int) error {
		child, err := s.member(t, &seen)
		if err != nil {
			return err
		}
		return s.value(child, depth+1)
	})
	return err
}

func (s *scanner) array(t target, depth int) error {
	child := t
	if t.class == list || t.class == fixed {
		child = targetOf(t.typ.Elem())
	}
	n, err := s.nested(t, depth, arrays, func(i int) error {
		if t.class == list && t.most > 0 && i >= t.most {
			return s.problem("has more than %d elements", t.most)
		}
		s.path = append(s.path, step{index: i, isIndex: true})
		return s.value(child, depth+1)
	})
	if err == nil && t.class == fixed && n != t.typ.Len() { // encoding/json would cut it, or fill it up with zeros
		return s.mismatch(t, fmt.Sprintf("%d elements", n))
	}
	return err
}

// nesting is what arrays and objects differ in.
type nesting struct {
	class            class
	what, end, piece string
}

var (
	objects = nesting{object, "an object", "}", "the field's value"}
	arrays  = nesting{array, "an array", "]", "the array's element"}
)

// nested checks an array or an object by its elements, each of which adds its step to the
// path, and counts them.
func (s *scanner) nested(t target, depth int, k nesting, element func(i int) error) (n int, err error) {
	if !t.takes(k.class) {
		return 0, s.mismatch(t, k.what)
	}
	if depth > MaxDepth {
		return 0, s.problem("is nested deeper than %d levels", MaxDepth)
	}
	s.pos++
	s.space()
	if s.accept(k.end) {
		return 0, nil
	}
	for {
		if err := element(n); err != nil {
			return n, err
		}
		n++
		s.path = s.path[:len(s.path)-1]
		s.space()
		switch {
		case s.accept(k.end):
			return n, nil
		case !s.accept(","):
			return n, s.syntax(fmt.Sprintf("',' or '%s' after %s", k.end, k.piece))
		}
		s.space()
	}
}

// member reads the name of a field of an object that goes into t, up to its value, and
// gives what the value goes into.
func (s *scanner) member(t target, seen *keys) (target, error) {
	if s.pos >= len(s.data) || s.data[s.pos] != '"' {
		return t, s.syntax("a field name in double quotes")
	}
	name, err := s.str()
	if err != nil {
		return t, err
	}
	s.path = append(s.path, step{key: name})
	if !seen.add(name) {
		return t, s.problem("is given twice")
	}
	s.space()
	if !s.accept(":") {
		return t, s.syntax("':' after the field name")
	}
	s.space()
	return s.field(t, name)
}

// field gives what stands under a name of an object that goes into t.
func (s *scanner) field(t target, name string) (target, error) {
	switch t.class {
	case structure:
		fields := fieldsOf(t.typ)
		child, ok := fields.byName[name]
		if !ok {
			return target{}, s.problem("%s", fields.unknown(name))
		}
		return child, nil
	case dictionary:
		return targetOf(t.typ.Elem()), nil
	default:
		return t, nil
	}
}

// keys is the set of an object's names. Most objects are small: those need no map.
type keys struct {
	few  []string
	many map[string]struct{}
}

// add reports whether name is new.
func (k *keys) add(name string) bool {
	if _, dup := k.many[name]; dup || slices.Contains(k.few, name) {
		return false
	}
	if len(k.few) < 16 {
		if k.few == nil {
			k.few = make([]string, 0, 8)
		}
		k.few = append(k.few, name)
		return true
	}
	if k.many == nil {
		k.many = make(map[string]struct{}, 64)
	}
	k.many[name] = struct{}{}
	return true
}

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 64

// Checked is [DecodeAt] into a new value, which then passes all checks: else it is the
// zero value, and the error that of the first check which fails.
func Checked[T any](at string, raw []byte, checks ...func(*T) error) (T, error) {
	var v, none T
	if err := DecodeAt(at, raw, &v); err != nil {
		return none, err
	}
	for _, check := range checks {
		if err := check(&v); err != nil {
			return none, err
		}
	}
	return v, nil
}

// Or gives the value of an optional member, or what one that is left out stands for.
func Or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// Seconds is [Or] of a length of time, which a member gives in seconds.
func Seconds(s *float64, otherwise time.Duration) time.Duration {
	if s == nil {
		return otherwise
	}
	return time.Duration(*s * float64(time.Second))
}

// Within reports an optional member, by its path, that is not between two bounds.
func Within[T int64 | float64](path string, v *T, least, most T) error {
	if v == nil || *v >= least && *v <= most {
		return nil
	}
	return fmt.Errorf("%s: %v is out of range: want %v to %v", path, *v, least, most)
}
