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
			out = append(out, fmt.Errorf("%s: unknown field", clip(m[2])))
		default:
			out = append(out, fmt.Errorf("%s: given twice", clip(m[2])))
		}
	}
	return errors.Join(out...)
}

// locate says of a spec that could not be decoded which field is to blame: the
// decoder itself names at best the Go type.
func locate(tree map[string]any, err error) error {
	if path, why := blame(tree, reflect.TypeFor[corev1.PodSpec](), ""); path != "" {
		return fmt.Errorf("%s: %s", clip(path), clip(why))
	}
	return fmt.Errorf("the pod spec: %s", clip(err.Error()))
}

// blame gives the path of the innermost value that its type cannot take; empty where
// there is none.
func blame(v any, t reflect.Type, path string) (string, string) {
	err := decodes(v, t)
	if err == nil {
		return "", ""
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			inner, ok := typeOf(t, k)
			if !ok {
				continue
			}
			if p, why := blame(v[k], inner, join(path, k)); p != "" {
				return p, why
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			break
		}
		for i := range v {
			if p, why := blame(v[i], t.Elem(), fmt.Sprintf("%s[%d]", path, i)); p != "" {
				return p, why
			}
		}
	}
	return path, reason(v, t, err)
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
	got := clip(string(b))
	switch t.Kind() {
	case reflect.String:
		if _, ok := v.(bool); ok {
			return fmt.Sprintf("%s is not a string: put it in quotes (in YAML yes, no, on, off, y and n are true or false)", got)
		}
		return fmt.Sprintf("%s is not a string: put it in quotes", got)
	case reflect.Bool:
		return fmt.Sprintf("%s is not true or false", got)
	case reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("%s is not a whole number of this size", got)
	case reflect.Slice:
		return fmt.Sprintf("%s is not a list", got)
	case reflect.Map:
		return fmt.Sprintf("%s is not an object", got)
	case reflect.Struct:
		switch _, isObject := v.(map[string]any); {
		case t.Name() == "Quantity":
			return fmt.Sprintf("%s is not a quantity, such as 500m, 2 or 64Mi", got)
		case t.Name() == "IntOrString":
			return fmt.Sprintf("%s is neither a whole number nor a string", got)
		case !isObject && t.Name() != "Time":
			return fmt.Sprintf("%s is not an object", got)
		}
	default:
	}
	return fmt.Sprintf("%s: %s", got, err)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
