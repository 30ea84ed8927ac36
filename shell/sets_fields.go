package shell

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// changedFields compares two definitions: which of their fields differ, in the order of their names.
func changedFields(before, after json.RawMessage) []SetField {
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	flatten("", before, was)
	flatten("", after, is)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []SetField
	all := slices.Sorted(maps.Keys(names))
	opened := func(name string, a, b json.RawMessage) bool { // what is within says the same, and more
		return string(a) == "{}" && b == nil && slices.ContainsFunc(all, func(n string) bool { return strings.HasPrefix(n, name+".") })
	}
	for _, name := range all {
		a, b := was[name], is[name]
		if !sameJSON(a, b) && !opened(name, a, b) && !opened(name, b, a) {
			out = append(out, SetField{Field: name, Before: plainjson.Readable(a), After: plainjson.Readable(b)})
		}
	}
	return out
}

// sameJSON reports whether two documents say the same, in whatever order their members stand.
func sameJSON(a, b json.RawMessage) bool {
	read := func(doc json.RawMessage) (v any, err error) {
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber() // exactly as it is written
		err = dec.Decode(&v)
		return v, err
	}
	x, errX := read(a)
	y, errY := read(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// flatten gives each value within objects under its path. Lists are values.
func flatten(path string, v json.RawMessage, out map[string]json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(v, &object) != nil || object == nil || len(object) == 0 {
		if path != "" && string(v) != "null" {
			out[path] = v
		}
		return
	}
	for name, value := range object {
		at := name
		if path != "" {
			at = path + "." + name
		}
		flatten(at, value, out)
	}
}
