package core

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// memberOf gives a member of an object or an element of an array. The value is valid JSON, as
// all of a context is; it is read once, and no further than it must be, since one phase may
// refer to hundreds of members of a megabyte.
func memberOf(v json.RawMessage, name string) (json.RawMessage, bool) {
	v = trimJSON(v)
	switch {
	case len(v) > 0 && v[0] == '{':
		return objectMember(v, name)
	case len(v) > 0 && v[0] == '[':
		i, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return nil, false
		}
		return arrayElement(v, i)
	}
	return nil, false
}

// objectMember gives the member of that name; of several the last one.
func objectMember(v []byte, name string) (found json.RawMessage, ok bool) {
	for at := skipSpace(v, 1); at < len(v) && v[at] == '"'; {
		end := skipValue(v, at)
		key := v[at:end]
		at = skipSpace(v, end)
		if at >= len(v) || v[at] != ':' {
			return nil, false
		}
		at = skipSpace(v, at+1)
		end = skipValue(v, at)
		if isKey(key, name) {
			found, ok = v[at:end:end], true
		}
		at = nextValue(v, end)
	}
	return found, ok
}

func arrayElement(v []byte, n uint64) (json.RawMessage, bool) {
	for at := skipSpace(v, 1); at < len(v) && v[at] != ']'; n-- {
		end := skipValue(v, at)
		if n == 0 {
			return v[at:end:end], true
		}
		at = nextValue(v, end)
	}
	return nil, false
}

// isKey reports whether a JSON string, with its quotes, says that name.
func isKey(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 && utf8.Valid(key) && len(key) >= 2 {
		return string(key[1:len(key)-1]) == name
	}
	var text string
	return json.Unmarshal(key, &text) == nil && text == name
}

func skipSpace(v []byte, at int) int {
	for at < len(v) && (v[at] == ' ' || v[at] == '\t' || v[at] == '\n' || v[at] == '\r') {
		at++
	}
	return at
}

// nextValue gives where the value after a comma begins, or what closes the whole.
func nextValue(v []byte, at int) int {
	at = skipSpace(v, at)
	if at < len(v) && v[at] == ',' {
		at = skipSpace(v, at+1)
	}
	return at
}

// skipValue gives the end of the value that begins there.
func skipValue(v []byte, at int) int {
	depth := 0
	for at < len(v) {
		switch v[at] {
		case '"':
			at = skipString(v, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\t', '\n', '\r':
			at++
			continue
		default:
			for at < len(v) && strings.IndexByte(",:]} \t\n\r", v[at]) < 0 {
				at++
			}
		}
		if depth <= 0 {
			return at
		}
	}
	return len(v)
}

// skipString gives the end of the string that begins there.
func skipString(v []byte, at int) int {
	for at++; at < len(v); at++ {
		switch v[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
	}
	return len(v)
}
