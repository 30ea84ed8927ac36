package openapi

import (
	"cmp"
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

func byRank(a, b string) int {
	rank := func(key string) int {
		if i := slices.Index(first, key); i >= 0 {
			return i
		}
		return len(first)
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

const lineBytes = 120

// encode writes v as JSON that people can read: what fits into a line stands in one.
func encode(v any, indent string) string {
	deeper := indent + "  "
	var parts []string
	begin, end := "{", "}"
	switch v := v.(type) {
	case []any:
		begin, end = "[", "]"
		for _, e := range v {
			parts = append(parts, encode(e, deeper))
		}
	case *ordered:
		for _, key := range v.keys {
			parts = append(parts, text(key)+": "+encode(v.values[key], deeper))
		}
	case map[string]any:
		for _, key := range slices.SortedFunc(maps.Keys(v), byRank) {
			parts = append(parts, text(key)+": "+encode(v[key], deeper))
		}
	default:
		return text(v)
	}
	line := begin + strings.Join(parts, ", ") + end
	if len(indent)+len(line) <= lineBytes && !strings.Contains(line, "\n") {
		return line
	}
	return begin + "\n" + deeper + strings.Join(parts, ",\n"+deeper) + "\n" + indent + end
}

// text writes a text, a number or a boolean.
func text(v any) string {
	b, err := plainjson.Marshal(v)
	if err != nil { // what YAML has read, JSON can say
		return "null"
	}
	return string(b)
}
