package setfile

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// variableName is what a variable may be called.
var variableName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*$`)

// substitute puts the values of the variables that a file declares into its texts. What else looks like one stays.
func (l *loader) substitute(d *document) {
	if len(d.body.Variables) == 0 {
		return
	}
	with := &expansion{values: map[string]string{}, left: maxExpanded}
	for _, name := range slices.Sorted(maps.Keys(d.body.Variables)) {
		if !variableName.MatchString(name) {
			l.say(d, "variables."+name, "is no name of a variable: letters, digits and \"_\", a letter first")
			continue
		}
		l.used[name] = true
		value, given := l.o.Variables[name]
		if !given {
			value = d.body.Variables[name]
		}
		with.values[name] = value
	}
	rest := d.body
	rest.Variables, rest.Runbooks = nil, nil
	replaced, _ := reflect.TypeAssert[body](replaceTexts(reflect.ValueOf(rest), with))
	if with.left < 0 {
		l.say(d, "variables", "with the values of its variables the texts of the file have more than %d bytes: split it", maxExpanded)
		return
	}
	replaced.Variables, replaced.Runbooks = d.body.Variables, d.body.Runbooks
	d.body = replaced
}

// maxExpanded bounds the texts of a file once the values of its variables stand in them.
const maxExpanded = 16 << 20

// expansion puts values of variables into texts.
type expansion struct {
	values map[string]string
	left   int // how many bytes the texts may still have; negative: there were more
}

// replace gives a text with the values in it. What is in a value stays as it is.
func (x *expansion) replace(s string) string {
	var b strings.Builder
	for x.left >= 0 {
		before, rest, found := strings.Cut(s, "${")
		if x.left -= len(before); !found {
			b.WriteString(before)
			return b.String()
		}
		b.WriteString(before)
		end := strings.IndexFunc(rest, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		value, known := "", false
		if end > 0 && rest[end] == '}' {
			value, known = x.values[rest[:end]]
		}
		if known {
			s = rest[end+1:]
		} else {
			value, s = "${", rest
		}
		if x.left -= len(value); x.left >= 0 {
			b.WriteString(value)
		}
	}
	return ""
}

// replaceTexts gives a value with the texts in it replaced; names of tables stay.
func replaceTexts(v reflect.Value, with *expansion) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(with.replace(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(replaceTexts(v.Field(i), with))
		}
	case reflect.Slice:
		if v.IsNil() {
			return out
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(replaceTexts(v.Index(i), with))
		}
	case reflect.Map:
		if v.IsNil() {
			return out
		}
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for it := v.MapRange(); it.Next(); { // order-free: into another map
			out.SetMapIndex(it.Key(), replaceTexts(it.Value(), with))
		}
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return out
		}
		inner := replaceTexts(v.Elem(), with)
		if v.Kind() == reflect.Pointer {
			p := reflect.New(inner.Type())
			p.Elem().Set(inner)
			inner = p
		}
		out.Set(inner)
	default:
	}
	return out
}
