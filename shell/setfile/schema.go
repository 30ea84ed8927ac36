package setfile

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema gives a JSON Schema (2020-12) of the files in TOML, for editors.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[body]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "A file of a set of declarations"
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil
	}
	return append(data, '\n')
}

func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Struct:
		properties := map[string]any{}
		var required []string
		for f := range t.Fields() {
			p := schemaOf(f.Type)
			if doc := f.Tag.Get("doc"); doc != "" {
				p["description"] = doc
			}
			if words := f.Tag.Get("enum"); words != "" {
				p["enum"] = strings.Split(words, ",")
			}
			properties[keyOf(f)] = p
			if !strings.Contains(f.Tag.Get("toml"), "omitempty") {
				required = append(required, keyOf(f))
			}
		}
		s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		if required != nil {
			s["required"] = required
		}
		return s
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return map[string]any{"type": "object"}
		}
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	default:
	}
	switch t {
	case reflect.TypeFor[duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+d([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`}
	case reflect.TypeFor[rate]():
		return map[string]any{"type": "string", "pattern": `^[0-9]+/.+$`}
	}
	return map[string]any{"type": "string"}
}
