package core

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

const maxTime = effects.MaxTime

// The stored forms are appended by hand, in a fixed order of fields: the bytes
// reach state and journal, encode several times per action, and are compared
// byte for byte. Tests hold that encoding/json reads them back to the same
// value.

// object appends fields to a JSON object.
type object struct {
	b     []byte
	comma bool
}

func begin(b []byte) object { return object{b: append(b, '{')} }

func (o *object) end() []byte { return append(o.b, '}') }

func (o *object) key(k string) {
	if o.comma {
		o.b = append(o.b, ',')
	}
	o.comma = true
	o.b = append(append(append(o.b, '"'), k...), `":`...)
}

// value appends what appends itself.
func (o *object) value(k string, appendJSON func([]byte) []byte) {
	o.key(k)
	o.b = appendJSON(o.b)
}

func (o *object) str(k, v string) {
	o.key(k)
	if standsForItself(v) {
		o.b = append(append(append(o.b, '"'), v...), '"')
		return
	}
	o.b = effects.AppendString(o.b, validText(v))
}

// standsForItself reports whether a text is the same between quotes in JSON, as encoding/json
// writes it.
func standsForItself(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

func (o *object) id(k string, v uuid.UUID) {
	o.key(k)
	o.b = appendID(o.b, v)
}

func (o *object) time(k string, v Time) {
	o.value(k, v.AppendJSON)
}

func (o *object) num(k string, v uint64) {
	o.key(k)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *object) int(k string, v int64) {
	o.key(k)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// raw appends JSON as it is, without white space around it, which would not
// survive reading; nothing becomes null.
func (o *object) raw(k string, v json.RawMessage) {
	o.key(k)
	v = trimJSON(v)
	if len(v) == 0 {
		o.b = append(o.b, "null"...)
		return
	}
	o.b = append(o.b, v...)
}

func (o *object) bytes(k string, v []byte) {
	o.key(k)
	o.b = append(o.b, '"')
	o.b = appendBase64(o.b, v)
	o.b = append(o.b, '"')
}

func (o *object) strings(k string, m map[string]string) {
	o.key(k)
	if m == nil {
		o.b = append(o.b, "null"...)
		return
	}
	in := begin(o.b)
	for _, key := range sortedKeys(m) {
		if in.comma {
			in.b = append(in.b, ',')
		}
		in.comma = true
		in.b = effects.AppendString(in.b, key)
		in.b = append(in.b, ':')
		in.b = effects.AppendString(in.b, m[key])
	}
	o.b = in.end()
}

func appendID(b []byte, id uuid.UUID) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i, c := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, digits[c>>4], digits[c&15])
	}
	return append(b, '"')
}

func appendBase64(b, v []byte) []byte { return base64.StdEncoding.AppendEncode(b, v) }
