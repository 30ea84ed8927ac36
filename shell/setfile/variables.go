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
	var pairs []string
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
		pairs = append(pairs, "${"+name+"}", value)
	}
	with := strings.NewReplacer(pairs...)
	rest := d.body
	rest.Variables, rest.Runbooks = nil, nil
	replaced, _ := reflect.TypeAssert[body](replaceTexts(reflect.ValueOf(rest), with))
	replaced.Variables, replaced.Runbooks = d.body.Variables, d.body.Runbooks
	d.body = replaced
}

// replaceTexts gives a value with the texts in it replaced; names of tables stay.
func replaceTexts(v reflect.Value, with *strings.Replacer) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(with.Replace(v.String()))
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
