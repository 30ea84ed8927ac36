package config

import (
	"reflect"
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
	table := ""
	for line := range strings.SplitSeq(shown, "\n") {
		if strings.HasPrefix(line, "[") {
			table, _, _ = strings.Cut(strings.Trim(line, "[]"), ".")
		}
		key, value, _ := strings.Cut(line, " = ")
		for _, secret := range withSecrets {
			if table == secret && strings.Contains(value, "s3cret") {
				assert.Contains(t, harmless, key, "%s in %s", line, table)
			}
		}
	}
	assert.Contains(t, shown, `listen = "s3cret"`)
	assert.Contains(t, shown, "[tools.one]\n")
	assert.Contains(t, shown, `sha256 = "…"`)
	assert.Contains(t, shown, "max_lists_per_token = 7")
}
