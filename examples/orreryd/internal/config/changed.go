package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Changed lists the keys of the settings that differ, such as "engine.max_batch" and "tools.mail.url", sorted. A list,
// as that of the tokens, is one key. No value is in the answer.
func Changed(before, after Config) []string {
	var keys []string
	changed(&keys, "", reflect.ValueOf(before), reflect.ValueOf(after))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// changed compares two values of one type.
func changed(keys *[]string, name string, a, b reflect.Value) {
	switch {
	case a.Kind() == reflect.Struct:
		for f := range a.Type().Fields() {
			if f.IsExported() {
				changed(keys, strings.TrimPrefix(name+"."+tomlKey(f), "."), a.FieldByIndex(f.Index), b.FieldByIndex(f.Index))
			}
		}
	case a.Kind() == reflect.Map && a.Type().Elem().Kind() == reflect.Struct:
		all := map[string]bool{}
		for _, m := range []reflect.Value{a, b} {
			for _, k := range m.MapKeys() {
				all[k.String()] = true
			}
		}
		for _, k := range slices.Sorted(maps.Keys(all)) {
			key := reflect.ValueOf(k)
			is, will := a.MapIndex(key), b.MapIndex(key)
			if !is.IsValid() || !will.IsValid() {
				*keys = append(*keys, name+"."+k)
				continue
			}
			changed(keys, name+"."+k, is, will)
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		*keys = append(*keys, name)
	}
}
