package runbook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/spans"
)

// table reads the keys of a table. Which keys there are is known from those that
// are asked for; the others are unknown, see [table.done].
type table struct {
	c     *compiler
	n     *node
	off   int    // of the key that it stands at
	field string // for messages
	core  string // what core calls it in its errors
	asked []string
	typed bool // an agent below it gets its prompt by typing alone
}

// mark is the place in the file of what core calls by a path.
type mark struct {
	off   int
	field string
	n     *node // the value; nil: it is not one value
}

func under(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// get gives the value of a key; nil: the table has no such key.
func (t *table) get(key string) *node { return t.entry(key).value }

func (t *table) entry(key string) entry {
	t.asked = append(t.asked, key)
	e, _ := t.n.get(key)
	return e
}

// present gives those of the keys that the table has.
func (t *table) present(keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return t.get(key) == nil })
}

// as notes what core calls a value.
func (t *table) as(name string, n *node, key string) {
	t.c.marks[under(t.core, name)] = mark{n.off, join(t.field, key), n}
}

func (t *table) say(n *node, key, format string, args ...any) {
	t.c.say(n.off, join(t.field, key), format, args...)
}

// missing says that the table lacks a key.
func (t *table) missing(key, want string) {
	t.c.say(t.off, t.field, "%s is missing: %s", key, want)
}

// done says which keys are unknown.
func (t *table) done() {
	for _, e := range t.n.keys {
		if !slices.Contains(t.asked, e.name) {
			t.c.say(e.off, join(t.field, e.name), "unknown key%s", didYouMean(e.name, t.asked, true))
		}
	}
}

// is checks the kind of a value, and says it if it is wrong; false for nil too.
func (t *table) is(n *node, key string, want kind, text string) bool {
	if n == nil {
		return false
	}
	if n.kind != want {
		t.say(n, key, "got a TOML %s, want %s", n.kind, text)
		return false
	}
	return true
}

// value reads a value of one kind, and notes what core calls it; nil: there is none.
func (t *table) value(key, name string, want kind, text string) *node {
	n := t.get(key)
	if n != nil {
		t.as(name, n, key)
	}
	if !t.is(n, key, want, text) {
		return nil
	}
	return n
}

// text reads a string.
func (t *table) text(key string) string { return t.textAs(key, key) }

func (t *table) textAs(key, name string) string {
	if n := t.value(key, name, kindText, "a TOML string"); n != nil {
		return n.text
	}
	return ""
}

// boolean reads true or false.
func (t *table) boolean(key string) bool {
	n := t.value(key, key, kindBoolean, "true or false")
	return n != nil && n.text == "true"
}

// integer reads a whole number between two bounds.
func (t *table) integer(key string, least, most int64) int64 {
	return t.integerOf(t.get(key), key, least, most)
}

func (t *table) integerOf(n *node, key string, least, most int64) int64 {
	if !t.is(n, key, kindInteger, "a whole number") {
		return 0
	}
	t.as(key, n, key)
	v, err := strconv.ParseInt(n.text, 0, 64)
	if err != nil || v < least || v > most {
		t.say(n, key, "%s is not between %d and %d", clip.Text(n.text, maxQuoted), least, most)
		return 0
	}
	return v
}

func (t *table) number(key string) uint32 { return uint32(t.integer(key, 0, math.MaxUint32)) }

// duration reads a duration, in milliseconds. In core the name ends in _ms.
func (t *table) duration(key string) int64 { return t.durationBetween(key, 0, core.MaxTimeout) }

func (t *table) durationBetween(key string, least, most time.Duration) int64 {
	if n := t.value(key, key+"_ms", kindText, `a duration in quotes such as "90s", "5m" or "1h30m"`); n != nil {
		return t.parseDuration(n, key, n.text, least, most)
	}
	return 0
}

func (t *table) parseDuration(n *node, key, s string, least, most time.Duration) int64 {
	switch d, err := spans.Parse(s); {
	case err != nil:
		t.say(n, key, `%q is not a duration such as "90s", "5m", "1h30m" or "7d"`, clip.Text(s, maxQuoted))
	case d < least || d > most:
		t.say(n, key, "%s is not between %s and %s", clip.Text(s, maxQuoted), spans.Text(least), spans.Text(most))
	case d%time.Millisecond != 0:
		t.say(n, key, "%s is no whole number of milliseconds", clip.Text(s, maxQuoted))
	default:
		return d.Milliseconds()
	}
	return 0
}

// texts reads an array of strings.
func (t *table) texts(key string) []string {
	if n := t.value(key, key, kindArray, "an array of strings"); n != nil {
		return t.textsOf(n, key)
	}
	return nil
}

func (t *table) textsOf(n *node, key string) []string {
	var out []string
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		if i < maxList {
			t.as(at, item, at)
		}
		if t.is(item, at, kindText, "a TOML string") {
			out = append(out, item.text)
		}
	}
	return out
}

// textMap reads a table of strings.
func (t *table) textMap(key string) map[string]string {
	return mapOf(t, key, "a table of strings", func(in *table, e entry) (string, bool) {
		return e.value.text, in.is(e.value, e.name, kindText, "a TOML string")
	})
}

// mapOf reads a table of values of one type; of reports whether it could read one.
func mapOf[V any](t *table, key, want string, of func(in *table, e entry) (V, bool)) map[string]V {
	n := t.value(key, key, kindTable, want)
	if n == nil || len(n.keys) == 0 {
		return nil
	}
	out := make(map[string]V, len(n.keys))
	in := t.into(entry{value: n}, key, key)
	for _, e := range n.keys {
		in.as(e.name, e.value, e.name)
		if v, ok := of(in, e); ok {
			out[e.name] = v
		}
	}
	return out
}

// json reads any value; nil: the table has no such key.
func (t *table) json(key string) json.RawMessage {
	n := t.get(key)
	if n == nil {
		return nil
	}
	t.as(key, n, key)
	return t.jsonOf(n, key)
}

func (t *table) jsonOf(n *node, key string) json.RawMessage {
	var b bytes.Buffer
	if bad, problem := appendJSON(&b, n); bad != nil {
		t.say(bad, key, "%s", problem)
		return nil
	}
	return b.Bytes()
}

// jsonMap reads a table of any values.
func (t *table) jsonMap(key string) map[string]json.RawMessage {
	return mapOf(t, key, "a table", func(in *table, e entry) (json.RawMessage, bool) {
		return in.jsonOf(e.value, e.name), true
	})
}

// into reads the table at a key.
func (t *table) into(e entry, key, name string) *table {
	off := cmp.Or(e.off, e.value.off)
	in := &table{c: t.c, n: e.value, off: off, field: join(t.field, key), core: under(t.core, name)}
	t.as(name, &node{off: off}, key)
	return in
}

// sub reads the table at a key; nil: the key is missing, or its value is no table.
func (t *table) sub(key string) *table { return t.tableAt(t.entry(key), key, "a table") }

func (t *table) tableAt(e entry, key, want string) *table {
	if !t.is(e.value, key, kindTable, want) {
		return nil
	}
	return t.into(e, key, key)
}

// orText reads the table at a key, or a string that stands for one member of it.
func (t *table) orText(key, member, want string) *table {
	e := t.entry(key)
	if e.value != nil && e.value.kind == kindText {
		short := &node{kind: kindTable, off: e.value.off}
		short.set(member, e.value.off, e.value)
		e.value = short
	}
	return t.tableAt(e, key, want)
}

// list reads an array of tables.
func (t *table) list(key string) []*table { return t.listAs(key, key) }

func (t *table) listAs(key, name string) []*table {
	e := t.entry(key)
	if e.value == nil {
		return nil
	}
	t.as(name, &node{off: e.off}, key)
	want := "an array of tables: write [[" + join(t.field, key) + "]] in double brackets"
	if !t.is(e.value, key, kindArray, want) {
		return nil
	}
	items := e.value.items
	if len(items) > maxList {
		t.say(items[maxList], fmt.Sprintf("%s[%d]", key, maxList), "%d are more than %d", len(items), maxList)
		items = items[:maxList]
	}
	out := make([]*table, 0, len(items))
	for i, item := range items {
		at := fmt.Sprintf("[%d]", i)
		if !t.is(item, key+at, kindTable, "a table") {
			continue
		}
		in := &table{c: t.c, n: item, off: item.off, field: join(t.field, key) + at, core: under(t.core, name) + at}
		t.c.marks[in.core] = mark{item.off, in.field, item}
		out = append(out, in)
	}
	return out
}

// named gives the tables of a table of tables.
func (t *table) named() []named {
	out := make([]named, 0, len(t.n.keys))
	for _, e := range t.n.keys {
		if t.is(e.value, e.name, kindTable, "a table: write ["+join(t.field, e.name)+"]") {
			in := &table{c: t.c, n: e.value, off: e.off, field: join(t.field, e.name)}
			out = append(out, named{e.name, in})
		}
	}
	return out
}

// named is a table of a table of tables.
type named struct {
	name string
	*table
}

// appendJSON writes a value as JSON, or gives the node that is wrong and the reason.
func appendJSON(b *bytes.Buffer, n *node) (*node, string) {
	switch n.kind {
	case kindText, kindDate:
		text, _ := json.Marshal(n.text) // a string always encodes
		b.Write(text)
	case kindBoolean:
		b.WriteString(n.text)
	case kindInteger:
		v, err := strconv.ParseInt(n.text, 0, 64)
		if err != nil {
			return n, fmt.Sprintf("%s is no number of 64 bits", clip.Text(n.text, maxQuoted))
		}
		b.WriteString(strconv.FormatInt(v, 10))
	case kindFloat:
		v, err := strconv.ParseFloat(strings.ReplaceAll(n.text, "_", ""), 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return n, fmt.Sprintf("%s is no number that JSON has", clip.Text(n.text, maxQuoted))
		}
		text, _ := json.Marshal(v) // finite
		b.Write(text)
	case kindArray:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			if bad, problem := appendJSON(b, item); bad != nil {
				return bad, problem
			}
		}
		b.WriteByte(']')
	case kindTable:
		b.WriteByte('{')
		for i, e := range n.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			key, _ := json.Marshal(e.name)
			b.Write(append(key, ':'))
			if bad, problem := appendJSON(b, e.value); bad != nil {
				return bad, problem
			}
		}
		b.WriteByte('}')
	}
	return nil, ""
}

// didYouMean suggests the name that was probably meant, or else all if they are few.
func didYouMean(name string, names []string, list bool) string {
	if len(names) > maxList {
		return "" // it would take long, for each that is wrong
	}
	best := texts.Nearest(name, names)
	switch {
	case best != "":
		return fmt.Sprintf(": did you mean %q?", best)
	case list && len(names) > 0:
		sorted := slices.Compact(slices.Sorted(slices.Values(names)))
		if len(sorted) <= 24 {
			return ": known are " + strings.Join(sorted, ", ")
		}
	}
	return ""
}
