package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// trimJSON cuts JSON's white space, and no other, which would make an invalid
// value valid.
func trimJSON(v json.RawMessage) json.RawMessage {
	if n := len(v); n > 0 && v[0] > ' ' && v[n-1] > ' ' {
		return v
	}
	return bytes.Trim(v, " \t\r\n")
}

// storable reports whether v is JSON that can stand in a state and a journal.
func storable(v json.RawMessage) bool {
	if len(v) == 0 {
		return false
	}
	sound, _ := soundJSON(v)
	return sound || json.Valid(v) && !tooDeep(v)
}

// tooDeep reports whether valid JSON is nested deeper than [MaxJSONDepth].
func tooDeep(v json.RawMessage) bool {
	if len(v) <= 2*MaxJSONDepth { // each level takes two bytes
		return false
	}
	depth, text := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			if depth++; depth > MaxJSONDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// storedResult is what is kept of a result from outside: nothing where it cannot
// be stored. A machine must use it too before it looks at a result, so that a
// replay, which sees the journal, sees the same.
func storedResult(v json.RawMessage) json.RawMessage {
	v = trimJSON(v)
	if len(v) == 0 || string(v) == "null" || !storable(v) || !utf8.Valid(v) {
		return nil
	}
	return v
}

// compacted gives JSON as encoding/json stores it, so that what is seen of it is
// the same before it is stored and after. What is not JSON stays what it is, and
// nothing becomes null.
func compacted(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	b, err := json.Marshal(v)
	if err != nil {
		return v
	}
	return b
}

// boundedJSON gives the form in which a value from outside is stored, nil for
// none. What is measured is what encoding/json makes of it, so that a replay
// measures the same.
func boundedJSON(field string, v json.RawMessage) (json.RawMessage, error) {
	v = trimJSON(v)
	if len(v) == 0 || string(v) == "null" {
		return nil, nil
	}
	if err := checkJSON(field, v, MaxInputBytes); err != nil {
		return nil, err
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return plain, checkJSON(field, plain, MaxInputBytes)
}

func appendMarshaled(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil { // the states are validated: only a payload that is not JSON could fail
		return append(b, "null"...)
	}
	return append(b, j...)
}
