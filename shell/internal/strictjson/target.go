package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// class is what a Go type wants of JSON.
type class uint8

const (
	raw        class = iota // anything, numbers of any size
	anything                // anything that fits Go's interface{}
	custom                  // has an UnmarshalJSON
	text                    // a string, judged by UnmarshalText
	bytes                   // a string of base64
	structure               // an object with known fields
	dictionary              // an object with any names
	list                    // an array
	fixed                   // an array of one length
	boolean
	str
	signed
	unsigned
	float
	number // json.Number
	object // only to ask takes
	array  // only to ask takes
)

// target is a Go type, seen with JSON's eyes.
type target struct {
	class    class
	typ      reflect.Type
	nullable bool
	most     int // elements of a list; 0: any number
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawMessage      = reflect.TypeFor[json.RawMessage]()
	jsonNumber      = reflect.TypeFor[json.Number]()
)

// targetOf classifies t; nil stands for a document that goes nowhere.
func targetOf(t reflect.Type) target {
	nullable := false
	for t != nil && t.Kind() == reflect.Pointer {
		t, nullable = t.Elem(), true
	}
	switch {
	case t == nil || t == rawMessage:
		return target{class: raw, typ: t, nullable: true}
	case reflect.PointerTo(t).Implements(jsonUnmarshaler):
		return target{class: custom, typ: t, nullable: nullable}
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		return target{class: text, typ: t, nullable: nullable}
	case t == jsonNumber:
		return target{class: number, typ: t, nullable: nullable}
	}
	switch t.Kind() {
	case reflect.Struct:
		return target{class: structure, typ: t, nullable: nullable}
	case reflect.Map:
		return target{class: dictionary, typ: t, nullable: true}
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && targetOf(e).class == unsigned {
			return target{class: bytes, typ: t, nullable: true}
		}
		return target{class: list, typ: t, nullable: true}
	case reflect.Array:
		return target{class: fixed, typ: t, nullable: nullable}
	case reflect.Bool:
		return target{class: boolean, typ: t, nullable: nullable}
	case reflect.String:
		return target{class: str, typ: t, nullable: nullable}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return target{class: signed, typ: t, nullable: nullable}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return target{class: unsigned, typ: t, nullable: nullable}
	case reflect.Float32, reflect.Float64:
		return target{class: float, typ: t, nullable: nullable}
	default: // an interface; what it cannot hold, encoding/json refuses
		return target{class: anything, typ: t, nullable: true}
	}
}

// takes reports whether a value of the given class may go into t.
func (t target) takes(c class) bool {
	switch t.class {
	case raw, anything:
		return true
	case structure, dictionary:
		return c == object
	case list, fixed:
		return c == array
	default:
		return c == t.class
	}
}

// words say what the classes accept whose types all accept the same.
var words = map[class]string{
	raw: "JSON", anything: "JSON with numbers that fit 64 bits", custom: "JSON",
	text: "a string", bytes: "a string in base64", str: "a string",
	structure: "an object", dictionary: "an object", list: "an array",
	boolean: "true or false", number: "a number",
}

// wanted says in words what t accepts.
func wanted(t target) string {
	switch t.class {
	case fixed:
		return fmt.Sprintf("an array of %d elements", t.typ.Len())
	case signed:
		bits := t.typ.Bits()
		if bits == 64 {
			return "an integer"
		}
		return fmt.Sprintf("an integer from %d to %d", -1<<(bits-1), 1<<(bits-1)-1)
	case unsigned:
		if bits := t.typ.Bits(); bits < 64 {
			return fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
		}
		return "an integer of at least 0"
	case float:
		return fmt.Sprintf("a number that fits %d bits", t.typ.Bits())
	default:
		return words[t.class]
	}
}

// fields are the names that a struct type knows.
type fields struct {
	byName map[string]target
	names  []string // in the order of the type
}

var fieldCache sync.Map // reflect.Type → *fields

func fieldsOf(t reflect.Type) *fields {
	if f, ok := fieldCache.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{byName: map[string]target{}}
	f.collect(t, map[reflect.Type]bool{})
	kept, _ := fieldCache.LoadOrStore(t, f)
	return kept.(*fields)
}

// collect adds t's fields, then those of its embedded structs that are not
// hidden by a field nearer to the surface.
func (f *fields) collect(t reflect.Type, visited map[reflect.Type]bool) {
	if visited[t] {
		return
	}
	visited[t] = true
	var embedded []reflect.Type
	for sf := range t.Fields() {
		tag, present := sf.Tag.Lookup("json")
		if present && tag == "-" {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if base := deref(sf.Type); sf.Anonymous && name == "" && base.Kind() == reflect.Struct {
			embedded = append(embedded, base)
			continue
		}
		if !sf.IsExported() {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		if _, hidden := f.byName[name]; hidden {
			continue
		}
		child := targetOf(sf.Type)
		if most, err := strconv.Atoi(sf.Tag.Get("most")); err == nil {
			child.most = most
		}
		if slices.Contains(strings.Split(opts, ","), "string") {
			child = target{class: raw, nullable: true} // in quotes: encoding/json judges it
		}
		f.byName[name] = child
		f.names = append(f.names, name)
	}
	for _, e := range embedded {
		f.collect(e, visited)
	}
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// unknown says that there is no such field, and which there are.
func (f *fields) unknown(name string) string {
	for _, n := range f.names {
		if strings.EqualFold(n, name) {
			return fmt.Sprintf("unknown field: names are case-sensitive, use %q", n)
		}
	}
	if len(f.names) == 0 {
		return "unknown field: none is known here"
	}
	return "unknown field: use one of " + strings.Join(f.names, ", ")
}
