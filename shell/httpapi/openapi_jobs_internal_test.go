package httpapi

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestAJobsBodyHasAllThatAJobIsConfiguredByButItsID(t *testing.T) {
	fields := jsonNames(reflect.TypeFor[core.JobSpec]())
	assert.ElementsMatch(t, fields, append(jsonNames(reflect.TypeFor[wire.JobRequest]()), "id"))
	full := wire.JobRequest{}
	v := reflect.ValueOf(&full).Elem()
	for f := range v.Type().Fields() {
		setSomething(t, v.FieldByIndex(f.Index))
	}
	spec := reflect.ValueOf(jobSpec(&full, named{name: "x"}))
	for f := range spec.Type().Fields() {
		if f.Name != "Namespace" && f.Name != "Tenant" { // decided with the token
			assert.False(t, spec.FieldByIndex(f.Index).IsZero(), "%s is passed on", f.Name)
		}
	}
}

// setSomething gives a field a value that is not zero.
func setSomething(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.String:
		v.SetString("x")
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.ValueOf([]string{"x"}))
			break
		}
		v.SetBytes([]byte("{}"))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.Struct:
		for f := range v.Type().Fields() {
			setSomething(t, v.FieldByIndex(f.Index))
		}
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}
