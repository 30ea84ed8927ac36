// Package plainjson writes JSON that people read, and text that any reader of
// JSON and any store takes.
package plainjson

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Marshal is [json.Marshal], but that <, > and & stay as they are: what it
// writes is never part of a page.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Readable gives JSON in which <, > and & stand as they are: what [json.Marshal] has written, such as all that is stored, has them
// escaped for the sake of HTML.
func Readable(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`\u00`)) {
		return raw
	}
	out := make(json.RawMessage, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		if char, ok := htmlEscapes[strings.ToLower(string(raw[i:min(i+6, len(raw))]))]; ok {
			out = append(out, char)
			i += 5
			continue
		}
		out = append(out, raw[i], raw[i+1]) // an escape of two characters, or one that stays
		i++
	}
	return out
}

var htmlEscapes = map[string]byte{`\u003c`: '<', `\u003e`: '>', `\u0026`: '&'} // read-only: a table

// Compact gives JSON without the space between its parts, as [Marshal] writes it. What has
// none is given back as it is.
func Compact(b []byte) json.RawMessage {
	for i, quoted := 0, false; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case c <= ' ' && !quoted:
			var out bytes.Buffer
			if err := json.Compact(&out, b); err != nil {
				return b
			}
			return out.Bytes()
		}
	}
	return b
}

// Text puts U+FFFD in the place of what is not UTF-8, and of NUL, which
// PostgreSQL cannot hold.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}
