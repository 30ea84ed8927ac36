package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/orrery-go/orrery/effects/texts"
)

// readFile decodes a configuration file over the present settings. An unknown
// key and a wrong type are errors that name line and column.
func (c *Config) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	// Into a map everything goes that is TOML: what fails here is syntax.
	if err := toml.Unmarshal(data, &map[string]any{}); err != nil {
		return tomlError(path, err)
	}
	if err := checkDocument(path, data); err != nil {
		return err
	}
	return tomlError(path, toml.Unmarshal(data, c))
}

// tomlError says where the library found what.
func tomlError(path string, err error) error {
	if err == nil {
		return nil
	}
	what := strings.TrimPrefix(err.Error(), "toml: ")
	wrong, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		return fmt.Errorf("%s: %s", path, what)
	}
	row, column := wrong.Position()
	if key := strings.Join(wrong.Key(), "."); key != "" {
		what = key + ": " + what
	}
	return fmt.Errorf("%s:%d:%d: %s", path, row, column, what)
}

// document is a file that is compared with the fields of [Config]. The library
// would take keys in any case, and its errors name the types of this program.
type document struct {
	path   string
	parser unstable.Parser
	errs   []error
}

// field is what a key sets: its full name, and the type of its value; nil if the key is
// unknown, which an error says already.
type field struct {
	name string
	typ  reflect.Type
}

// checkDocument finds the unknown keys and the values of a wrong type in a file
// whose syntax is right.
func checkDocument(path string, data []byte) error {
	d := &document{path: path}
	d.parser.Reset(data)
	root := field{typ: reflect.TypeFor[Config]()}
	table := root
	for d.parser.NextExpression() {
		switch e := d.parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = d.table(root, e)
		case unstable.KeyValue:
			d.keyValue(table, e)
		default:
		}
	}
	return errors.Join(append(d.errs, d.parser.Error())...)
}

func (d *document) say(at *unstable.Node, format string, args ...any) {
	pos := d.parser.Shape(at.Raw).Start
	d.errs = append(d.errs, fmt.Errorf("%s:%d:%d: "+format, append([]any{d.path, pos.Line, pos.Column}, args...)...))
}

// table gives the field of what follows a [table] or a [[list.of.tables]].
func (d *document) table(root field, e *unstable.Node) field {
	at, last := d.walk(root, e)
	if at.typ == nil || at.typ.Kind() == reflect.Interface {
		return at
	}
	isList := at.typ.Kind() == reflect.Slice && isTable(at.typ.Elem())
	switch {
	case e.Kind == unstable.ArrayTable && isList:
		return field{at.name, at.typ.Elem()}
	case e.Kind == unstable.ArrayTable && isTable(at.typ):
		d.say(last, "%s: got a TOML array of tables, want a TOML table: write [%s] in single brackets", at.name, tableName(at))
	case e.Kind == unstable.ArrayTable:
		d.say(last, "%s: got a TOML array of tables, want %s", at.name, wanted(at.typ))
	case isTable(at.typ):
		return at
	case isList:
		d.say(last, "%s: got a TOML table, want a TOML array of tables: write [[%s]] in double brackets", at.name, at.name)
	default:
		d.say(last, "%s: got a TOML table, want %s", at.name, wanted(at.typ))
	}
	return field{}
}

// tableName is how the header of a table reads.
func tableName(at field) string {
	if at.typ.Kind() == reflect.Map {
		return at.name + ".NAME"
	}
	return at.name
}

// walk follows the key of an expression, and gives the field and the node of its
// last part.
func (d *document) walk(at field, e *unstable.Node) (field, *unstable.Node) {
	var last *unstable.Node
	for key := e.Key(); key.Next(); {
		if e.Kind != unstable.KeyValue && at.typ != nil && at.typ.Kind() == reflect.Slice && isTable(at.typ.Elem()) {
			at.typ = at.typ.Elem() // [tokens.x] after [[tokens]]
		}
		last = key.Node()
		at = d.step(at, last)
	}
	return at, last
}

// step follows one part of a key.
func (d *document) step(at field, key *unstable.Node) field {
	if at.typ == nil {
		return field{}
	}
	name := string(key.Data)
	full := strings.TrimPrefix(at.name+"."+name, ".")
	switch at.typ.Kind() {
	case reflect.Interface: // it may hold anything, as deep as it likes
		return field{full, at.typ}
	case reflect.Map:
		return field{full, plain(at.typ.Elem())}
	case reflect.Struct:
		for f := range at.typ.Fields() {
			if tomlKey(f) == name {
				return field{full, plain(f.Type)}
			}
		}
		d.say(key, "unknown key %q%s", full, meant(at.typ, name))
	default:
		d.say(key, "%s: got a TOML table, want %s", at.name, wanted(at.typ))
	}
	return field{}
}

// meant says what was probably meant by a key that a table does not have; empty if nobody can tell.
func meant(table reflect.Type, name string) string {
	known := keysOf(table)
	is := func(tag string) bool { return strings.EqualFold(tag, name) }
	longer := func(tag string) bool { return strings.HasPrefix(tag, name+"_") } // "tick_rate" without its unit
	if i := slices.IndexFunc(known, is); i >= 0 {
		return fmt.Sprintf(": write %q: upper and lower case differ", known[i])
	}
	if near := texts.Nearest(name, known); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	if i := slices.IndexFunc(known, longer); i >= 0 {
		return fmt.Sprintf(": did you mean %q?", known[i])
	}
	if top := reflect.TypeFor[Config](); table != top && slices.Contains(keysOf(top), name) {
		return fmt.Sprintf(": %q stands at the top of the file, before the first table", name)
	}
	return ""
}

// keysOf lists the keys of a table.
func keysOf(table reflect.Type) (keys []string) {
	for f := range table.Fields() {
		if tag := tomlKey(f); tag != "" && tag != "-" {
			keys = append(keys, tag)
		}
	}
	return keys
}

// keyValue checks key = value in a table.
func (d *document) keyValue(table field, e *unstable.Node) {
	at, last := d.walk(table, e)
	d.value(at, last, e.Value())
}

// value checks the type of a value; key is its node, for values whose
// position the library does not keep.
func (d *document) value(at field, key, v *unstable.Node) {
	if at.typ == nil || at.typ.Kind() == reflect.Interface {
		return
	}
	got, where := cmp.Or(kindNames[v.Kind], "date or time"), v
	if v.Kind == unstable.Array || v.Kind == unstable.InlineTable {
		where = key
	}
	if want, kinds := taken(at.typ); !slices.Contains(kinds, v.Kind) {
		d.say(where, "%s: got a TOML %s, want %s", at.name, got, want)
		return
	}
	for children, i := v.Children(), 0; (v.Kind == unstable.Array || v.Kind == unstable.InlineTable) && children.Next(); i++ {
		if v.Kind == unstable.InlineTable {
			d.keyValue(at, children.Node())
		} else {
			d.value(field{fmt.Sprintf("%s[%d]", at.name, i), plain(at.typ.Elem())}, key, children.Node())
		}
	}
}

// kindNames are TOML's words for the kinds of values.
var kindNames = map[unstable.Kind]string{
	unstable.String: "string", unstable.Bool: "boolean", unstable.Integer: "integer", unstable.Float: "float",
	unstable.Array: "array", unstable.InlineTable: "table",
}

// wanted says in TOML's words what a field of that type takes.
func wanted(t reflect.Type) string {
	want, _ := taken(t)
	return want
}

// taken is what wanted says, with the kinds of such values.
func taken(t reflect.Type) (want string, kinds []unstable.Kind) {
	switch t.Kind() {
	case reflect.String:
		return "a TOML string", []unstable.Kind{unstable.String}
	case reflect.Bool:
		return "a TOML boolean", []unstable.Kind{unstable.Bool}
	case reflect.Int, reflect.Int64:
		return "a TOML integer", []unstable.Kind{unstable.Integer}
	case reflect.Float64:
		return "a number", []unstable.Kind{unstable.Float, unstable.Integer}
	case reflect.Slice:
		if isTable(t.Elem()) {
			return "a TOML array of tables", []unstable.Kind{unstable.Array}
		}
		return "a TOML array", []unstable.Kind{unstable.Array}
	default:
		return "a TOML table", []unstable.Kind{unstable.InlineTable}
	}
}

func isTable(t reflect.Type) bool { return t.Kind() == reflect.Struct || t.Kind() == reflect.Map }

// plain is a type without the pointer that tells a key that is left out.
func plain(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
