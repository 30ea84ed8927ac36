package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/spans"
)

// mapping reads the keys of a mapping.
type mapping struct {
	f     *file
	n     *yaml.Node
	field string // empty: the job itself
	known []string
}

func (m *mapping) at(key string) string { return strings.TrimPrefix(m.field+"."+key, ".") }

func (m *mapping) say(key string, at *yaml.Node, format string, args ...any) {
	m.f.say(at, m.at(key), format, args...)
}

func (m *mapping) find(key string) *yaml.Node {
	for i := 0; i+1 < len(m.n.Content); i += 2 {
		if m.n.Content[i].Value == key {
			return m.n.Content[i+1]
		}
	}
	return nil
}

// get gives the value of a key that may be there; nil where it is not, or empty.
func (m *mapping) get(key string) *yaml.Node {
	m.known = append(m.known, key)
	if n := m.find(key); n != nil && !isNull(n) {
		return n
	}
	return nil
}

// done notes the keys that nobody asked for.
func (m *mapping) done() {
	for i := 0; i+1 < len(m.n.Content); i += 2 {
		if k := m.n.Content[i]; !slices.Contains(m.known, k.Value) {
			m.say(clip.Text(k.Value, maxQuoted), k, "unknown key%s", m.meant(k.Value))
		}
	}
}

// otherNames are what others call our keys.
var otherNames = map[string]string{
	"cron": "schedule", "cronexpr": "schedule", "tz": "timezone", "spec": "podSpec", "pod": "podSpec", "template": "podSpec",
	"retries": "retry", "retryconfig": "retry", "constraintconfig": "constraints", "actionconfig": "actions",
	"concurrencypolicy": "overlap", "startingdeadlineseconds": "startDeadline", "startdeadlineseconds": "startDeadline",
	"podstarttimeoutms": "podStartTimeout", "createaheadms": "createAhead", "initialdelayms": "initialDelay", "maxdelayms": "maxDelay",
	"headbytes": "head", "tailbytes": "tail", "backofflimit": "retry", "calendar": "calendars", "catchupseconds": "catchUp", "catchupwindow": "catchUp", "catchupspacingseconds": "catchUpSpacing", "maxwaitseconds": "maxWait",
}

// meant says what a key that is unknown may have been meant for.
func (m *mapping) meant(key string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, alike := range []func(known string) bool{
		func(k string) bool { return plain(k) == plain(key) || otherNames[plain(key)] == k },
		func(k string) bool { return oneEdit(plain(k), plain(key)) },
	} {
		if i := slices.IndexFunc(m.known, alike); i >= 0 {
			return fmt.Sprintf(": did you mean %q?", m.known[i])
		}
	}
	return ": known are " + strings.Join(slices.Compact(slices.Sorted(slices.Values(m.known))), ", ")
}

// oneEdit reports whether one letter, or two that are swapped, make a and b differ.
func oneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 0:
		return i == len(a) || a[i+1:] == b[i+1:] || i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	case 1:
		return a[i:] == b[i+1:]
	}
	return false
}

// text reads a text; a number without quotes is refused, since YAML may change it.
func (m *mapping) text(key string) string {
	n := m.get(key)
	if n == nil {
		return ""
	}
	return m.textOf(key, n)
}

func (m *mapping) textOf(key string, n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		m.say(key, n, "it is %s: want a text", kindOf(n))
	case n.Tag != "!!str" && n.Tag != "!!timestamp":
		m.say(key, n, "it is %s: want a text: write %q in quotes", kindOf(n), clip.Text(n.Value, maxQuoted))
	default:
		return n.Value
	}
	return ""
}

// texts reads a mapping of texts.
func (m *mapping) texts(key string) map[string]string {
	in := m.inner(key)
	if in == nil || len(in.n.Content) == 0 {
		return nil
	}
	out := map[string]string{}
	for i := 0; i+1 < len(in.n.Content); i += 2 {
		k := in.n.Content[i].Value
		out[k] = in.textOf(k, in.n.Content[i+1])
	}
	return out
}

// list reads a list of texts.
func (m *mapping) list(key string) []string {
	n := m.get(key)
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		m.say(key, n, "it is %s: want a list of texts", kindOf(n))
		return nil
	}
	var out []string
	for i, item := range n.Content {
		out = append(out, m.textOf(fmt.Sprintf("%s[%d]", key, i), item))
	}
	return out
}

// inner gives a mapping within; nil where there is none.
func (m *mapping) inner(key string) *mapping {
	n := m.get(key)
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.MappingNode:
		m.say(key, n, "it is %s: want a mapping", kindOf(n))
		return nil
	}
	return &mapping{f: m.f, n: n, field: m.at(key)}
}

func (m *mapping) boolean(key string) bool {
	n := m.get(key)
	if n != nil && (n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || !isBool(n.Value)) {
		m.say(key, n, "it is %s: want true or false", kindOf(n))
		return false
	}
	return n != nil && strings.EqualFold(n.Value, "true")
}

// isBool reports whether a text is a boolean: with a tag anything might be one.
func isBool(s string) bool { return strings.EqualFold(s, "true") || strings.EqualFold(s, "false") }

// octal reports whether a number begins with a zero: to some it is another number.
func octal(s string) bool { return len(s) > 1 && s[0] == '0' }

// number reads a whole number from 0.
func (m *mapping) number(key string, most uint64) uint64 {
	n := m.get(key)
	if n == nil {
		return 0
	}
	v, err := strconv.ParseUint(n.Value, 10, 64)
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float":
		m.say(key, n, "it is %s: want a whole number between 0 and %d", kindOf(n), most)
		return 0
	case n.Tag == "!!int" && octal(n.Value):
		m.say(key, n, "%s begins with a zero, and some would read it as another number: leave the zero out", clip.Text(n.Value, maxQuoted))
		return 0
	case n.Tag != "!!int" || err != nil || v > most:
		m.say(key, n, "%s is not a whole number between 0 and %d", clip.Text(n.Value, maxQuoted), most)
		return 0
	}
	return v
}

func (m *mapping) oneOf(key string, words ...string) string {
	s := m.text(key)
	if s != "" && !slices.Contains(words, s) {
		m.say(key, m.find(key), "%q is unknown: use %s", clip.Text(s, maxQuoted), strings.Join(words, ", "))
		return ""
	}
	return s
}

// multiplier reads a decimal number, digit by digit (R8).
func (m *mapping) multiplier(key string) core.Multiplier {
	n := m.get(key)
	if n == nil {
		return 0
	}
	v, err := core.ParseMultiplier(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		m.say(key, n, "%s is not a decimal number between 0 and 1000 with up to 6 digits after the point, such as 1.5", valueOf(n))
		return 0
	}
	return v
}

// duration reads a duration, which is a whole number of units.
func (m *mapping) duration(key string, unit, most time.Duration) time.Duration {
	n := m.get(key)
	if n == nil {
		return 0
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		m.say(key, n, "%s is not a duration such as 30s, 5m or 1h30m", valueOf(n))
		return 0
	}
	switch d, err := spans.Parse(n.Value); {
	case err != nil:
		m.say(key, n, "%s is not a duration such as 30s, 5m, 1h30m or 7d", valueOf(n))
	case d < 0 || d > most:
		m.say(key, n, "%s is not between 0s and %s", clip.Text(n.Value, maxQuoted), spans.Text(most))
	case d%unit != 0:
		names := map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}
		m.say(key, n, "%s is no whole number of %s", clip.Text(n.Value, maxQuoted), names[unit])
	default:
		return d
	}
	return 0
}

// time reads an instant in RFC 3339, with or without quotes.
func (m *mapping) time(key string) effects.Time {
	text := m.text(key)
	if text == "" {
		return 0
	}
	at, err := effects.ParseTime(text)
	if err != nil {
		m.say(key, m.find(key), "%q is not a time in RFC 3339 such as 2027-01-31T09:00:00Z", clip.Text(text, maxQuoted))
	}
	return at
}

// sizes are the units of sizes, as Kubernetes writes them.
var sizes = []struct {
	suffix string
	bytes  int64
}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}}

// maxSize bounds what is kept of logs; the service may bound it further.
const maxSize = 1 << 40

// size reads a number of bytes such as 256Ki.
func (m *mapping) size(key string) int64 {
	n := m.get(key)
	if n == nil {
		return 0
	}
	for _, u := range sizes {
		digits, ok := strings.CutSuffix(n.Value, u.suffix)
		if !ok || n.Kind != yaml.ScalarNode {
			continue
		}
		v, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || v < 0 || v > maxSize/u.bytes || octal(digits) {
			break
		}
		return v * u.bytes
	}
	m.say(key, n, "%s is not a number of bytes such as 65536, 256Ki or 1Mi, at most %dGi", valueOf(n), maxSize>>30)
	return 0
}

// kindOf says what a value is, in the words of YAML.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "empty"
	}
	return "a text"
}

// valueOf shows a value in an error.
func valueOf(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return strconv.Quote(clip.Text(n.Value, maxQuoted))
	}
	return kindOf(n)
}

// json gives a value as JSON, its keys in their order and its numbers digit by
// digit. ok: there is such JSON; otherwise it is noted why not.
func (f *file) json(n *yaml.Node, field string) (b json.RawMessage, ok bool) {
	before := len(f.errs)
	var out bytes.Buffer
	f.appendJSON(&out, n, field)
	return out.Bytes(), len(f.errs) == before
}

func (f *file) appendJSON(b *bytes.Buffer, n *yaml.Node, field string) {
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			appendText(b, n.Content[i].Value)
			b.WriteByte(':')
			f.appendJSON(b, n.Content[i+1], strings.TrimPrefix(field+"."+n.Content[i].Value, "."))
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			f.appendJSON(b, c, fmt.Sprintf("%s[%d]", field, i))
		}
		b.WriteByte(']')
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
		f.appendScalar(b, n, field)
	}
}

func (f *file) appendScalar(b *bytes.Buffer, n *yaml.Node, field string) {
	switch n.Tag {
	case "!!str", "!!timestamp":
		appendText(b, n.Value)
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		if !isBool(n.Value) {
			f.say(n, field, "%s is no boolean: want true or false", clip.Text(n.Value, maxQuoted))
			return
		}
		b.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if isNumber(n.Value) {
			b.WriteString(n.Value)
			return
		}
		var v any // 0x1f, 1_000, .5
		if err := n.Decode(&v); err == nil {
			if text, err := json.Marshal(v); err == nil {
				b.Write(text)
				return
			}
		}
		f.say(n, field, "%s is no number that JSON has", clip.Text(n.Value, maxQuoted))
	default:
		f.say(n, field, "the tag %s is unknown here", clip.Text(n.Tag, maxQuoted))
	}
}

// isNumber reports whether a text is a number of JSON.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// appendText appends a JSON text; "<" and "&" stay readable.
func appendText(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err == nil { // a text always encodes
		b.Truncate(b.Len() - 1) // its newline
	}
}
