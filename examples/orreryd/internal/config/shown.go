package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// openTables are the tables whose texts hold no secret. Those of any other table may, be it in a header, a URL or an argument.
var openTables = []string{"background", "cluster", "engine", "retention", "redact", "http", "page", "audit", "limits"}

// harmless are the keys of the other tables whose texts hold none.
var harmless = []string{"name", "type", "scheme", "profile", "namespaces", "tenants"}

// hidden stands for a text that is not shown.
const hidden = "…"

// Shown gives the settings in force as TOML reads them, for people: of tables that may hold secrets numbers, switches and names
// alone.
func (c Config) Shown() string {
	var b strings.Builder
	if c.Database != "" {
		c.Database = DatabaseName(c.Database)
	}
	showTable(&b, "", reflect.ValueOf(c), false)
	return b.String()
}

// showTable writes what a struct sets, then its tables.
func showTable(b *strings.Builder, path string, v reflect.Value, secret bool) {
	var tables []func()
	for f, value := range v.Fields() {
		key := tomlKey(f)
		if key == "" || key == "-" {
			continue
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		inner := secret || path == "" && !slices.Contains(openTables, key)
		for value.Kind() == reflect.Pointer && !value.IsNil() {
			value = value.Elem()
		}
		switch value.Kind() {
		case reflect.Pointer: // nil: it is not set, and TOML has no word for that
		case reflect.Struct:
			tables = append(tables, func() {
				fmt.Fprintf(b, "\n[%s]\n", at)
				showTable(b, at, value, inner)
			})
		case reflect.Map:
			tables = append(tables, func() { showMap(b, at, value, inner) })
		case reflect.Slice:
			if value.Type().Elem().Kind() != reflect.Struct {
				showValue(b, key, value, secret)
				continue
			}
			tables = append(tables, func() {
				for i := range value.Len() {
					fmt.Fprintf(b, "\n[[%s]]\n", at)
					showTable(b, at, value.Index(i), inner)
				}
			})
		default:
			showValue(b, key, value, secret)
		}
	}
	for _, show := range tables {
		show()
	}
}

func showMap(b *strings.Builder, path string, m reflect.Value, secret bool) {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	for _, k := range keys {
		if v := m.MapIndex(k); v.Kind() == reflect.Struct {
			fmt.Fprintf(b, "\n[%s.%s]\n", path, k)
			showTable(b, path+"."+k.String(), v, secret)
		} else {
			showValue(b, path+"."+k.String(), v, secret)
		}
	}
}

func showValue(b *strings.Builder, key string, v reflect.Value, secret bool) {
	if v.IsZero() && secret { // what is not set says nothing
		return
	}
	if kind := v.Kind(); secret && kind != reflect.Bool && !v.CanInt() && !v.CanUint() && !v.CanFloat() && !slices.Contains(harmless, key) {
		fmt.Fprintf(b, "%s = %q\n", key, hidden)
		return
	}
	switch v.Kind() {
	case reflect.String:
		fmt.Fprintf(b, "%s = %q\n", key, v.String())
	case reflect.Slice:
		fmt.Fprintf(b, "%s = %q\n", key, v.Interface())
	default:
		fmt.Fprintf(b, "%s = %v\n", key, v.Interface())
	}
}
