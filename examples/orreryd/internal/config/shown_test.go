package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// fill sets each text of a configuration to a secret, each number to 7, and makes one of each table.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("s3cret")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for f, value := range v.Fields() {
			if f.IsExported() {
				fill(value)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element)
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString("one")
		v.SetMapIndex(key, element)
	default:
	}
}

func TestTheSettingsThatAreShownHaveNoTextOfATableThatMayHoldSecrets(t *testing.T) {
	var c Config
	fill(reflect.ValueOf(&c).Elem())
	shown := c.Shown()
	hides := make(map[string]bool) // the tables of which a text is not shown
	table := ""
	for line := range strings.SplitSeq(shown, "\n") {
		if strings.HasPrefix(line, "[") {
			table, _, _ = strings.Cut(strings.Trim(line, "[]"), ".")
		}
		key, value, _ := strings.Cut(line, " = ")
		hides[table] = hides[table] || strings.Contains(value, hidden)
		if strings.Contains(value, "s3cret") && table != "" {
			assert.True(t, slices.Contains(harmless, key) || slices.Contains(openTables, table), "%s in %s", line, table)
		}
	}
	for _, table := range []string{"tools", "webhooks", "tokens", "secrets", "notify", "runners", "sessions", "git", "cgroup", "jobs"} {
		assert.True(t, hides[table], table)
	}
	assert.Contains(t, shown, `listen = "s3cret"`)
	assert.Contains(t, shown, "[tools.one]\n")
	assert.Contains(t, shown, `sha256 = "…"`)
	assert.Contains(t, shown, "max_lists_per_token = 7")
}
