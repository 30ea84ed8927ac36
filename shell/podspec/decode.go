package podspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

var strictForm = regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`)

// strictErrors puts the path of each field first.
func strictErrors(errs []error) error {
	out := make([]error, 0, len(errs))
	for _, err := range errs {
		m := strictForm.FindStringSubmatch(err.Error())
		switch {
		case m == nil:
			out = append(out, fmt.Errorf("the pod spec: %w", err))
		case m[1] == "unknown":
			out = append(out, fmt.Errorf("%s: unknown field", clip.Text(m[2], maxQuoted)))
		default:
			out = append(out, fmt.Errorf("%s: given twice", clip.Text(m[2], maxQuoted)))
		}
	}
	return errors.Join(out...)
}

// locate names the fields that could not be decoded: the decoder names a Go type.
func locate(tree map[string]any, err error) error {
	var f findings
	blame(&f, tree, reflect.TypeFor[corev1.PodSpec](), "")
	if len(f) == 0 {
		return fmt.Errorf("the pod spec: %s", clip.Text(err.Error(), maxQuoted))
	}
	return errors.Join(f...)
}

// blame finds the innermost values that their types cannot take.
func blame(f *findings, v any, t reflect.Type, path string) {
	err := decodes(v, t)
	if err == nil || len(*f) >= maxErrors {
		return
	}
	before := len(*f)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if inner, ok := typeOf(t, k); ok {
				blame(f, v[k], inner, strings.TrimPrefix(path+"."+k, "."))
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			break
		}
		for i := range v {
			blame(f, v[i], t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	}
	if len(*f) == before && path != "" {
		f.add(clip.Text(path, maxQuoted), "%s", clip.Text(reason(v, t, err), maxQuoted))
	}
}

func decodes(v any, t reflect.Type) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(b, reflect.New(t).Interface())
}

// typeOf gives the type of what stands under a key.
func typeOf(t reflect.Type, key string) (reflect.Type, bool) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == key {
				return f.Type, true
			}
			// An inlined struct, such as VolumeSource, has its fields here.
			if name == "" && f.Anonymous {
				if inner, ok := typeOf(f.Type, key); ok {
					return inner, true
				}
			}
		}
	default:
	}
	return nil, false
}

// reason says what would be right instead.
func reason(v any, t reflect.Type, err error) string {
	b, _ := json.Marshal(v) // it was JSON before
	got := clip.Text(string(b), maxQuoted)
	_, isBool := v.(bool)
	_, isObject := v.(map[string]any)
	switch kind, name := t.Kind(), t.Name(); {
	case kind == reflect.String && isBool:
		return got + " is not a string: put it in quotes (in YAML yes, no, on, off, y and n are true or false)"
	case kind == reflect.Struct && name == "Quantity":
		return got + " is not a quantity, such as 500m, 2 or 64Mi"
	case kind == reflect.Struct && name == "IntOrString":
		return got + " is neither a whole number nor a string"
	case wanted[kind] != "" && (kind != reflect.Struct || !isObject && name != "Time"):
		return got + " is not " + wanted[kind]
	}
	return fmt.Sprintf("%s: %s", got, err)
}

// wanted says what a type wants of a JSON value.
var wanted = map[reflect.Kind]string{
	reflect.String: "a string: put it in quotes", reflect.Bool: "true or false", reflect.Slice: "a list",
	reflect.Int: wholeNumber, reflect.Int32: wholeNumber, reflect.Int64: wholeNumber,
	reflect.Map: "an object", reflect.Struct: "an object",
}

const wholeNumber = "a whole number of this size"
