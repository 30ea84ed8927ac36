package openapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// ordered is a JSON object whose members stand in the order in which they were set.
type ordered struct {
	keys   []string
	values map[string]any
}

func (o *ordered) set(key string, value any) {
	if o.values == nil {
		o.values = make(map[string]any)
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

// first are the members that stand before the others of a map, which are sorted.
var first = []string{
	"openapi", "info", "security", "tags", "paths", "components",
	"$ref", "operationId", "name", "in", "type", "format", "title", "version", "summary", "description", "required",
}

func rank(key string) int {
	if i := slices.Index(first, key); i >= 0 {
		return i
	}
	return len(first)
}

const lineBytes = 120

// encode writes v as JSON that people can read: what fits into a line stands in one.
func encode(v any, indent string) []byte {
	if line := flat(v); len(line)+len(indent) <= lineBytes {
		return line
	}
	deeper := indent + "  "
	var parts []string
	open, end := "{", "}"
	switch v := v.(type) {
	case []any:
		open, end = "[", "]"
		for _, e := range v {
			parts = append(parts, string(encode(e, deeper)))
		}
	case map[string]any, *ordered:
		for key, e := range members(v) {
			parts = append(parts, string(flat(key))+": "+string(encode(e, deeper)))
		}
	default:
		return flat(v)
	}
	return []byte(open + "\n" + deeper + strings.Join(parts, ",\n"+deeper) + "\n" + indent + end)
}

// members goes over an object's members in their order.
func members(v any) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		values, keys := map[string]any(nil), []string(nil)
		switch v := v.(type) {
		case *ordered:
			values, keys = v.values, v.keys
		case map[string]any:
			values = v
			keys = slices.SortedStableFunc(maps.Keys(v), func(a, b string) int {
				if d := rank(a) - rank(b); d != 0 {
					return d
				}
				return strings.Compare(a, b)
			})
		}
		for _, key := range keys {
			if !yield(key, values[key]) {
				return
			}
		}
	}
}

// flat writes v into one line.
func flat(v any) []byte {
	var b bytes.Buffer
	separate := func(i int) {
		if i > 0 {
			b.WriteString(", ")
		}
	}
	switch v := v.(type) {
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			separate(i)
			b.Write(flat(e))
		}
		b.WriteByte(']')
	case map[string]any, *ordered:
		b.WriteByte('{')
		i := 0
		for key, e := range members(v) {
			separate(i)
			b.Write(append(append(flat(key), ": "...), flat(e)...))
			i++
		}
		b.WriteByte('}')
	default:
		text, err := plainjson.Marshal(v)
		if err != nil { // what YAML has read, JSON can say
			text = json.RawMessage("null")
		}
		b.Write(text)
	}
	return b.Bytes()
}
