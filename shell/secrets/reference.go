package secrets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// open begins a reference, unless a longer word begins with it, as in {{secretKeyRef}}.
const open = "{{secret"

// wordBytes are those of names.
const wordBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// openAt gives where a text has the next beginning of a reference; -1: nowhere.
func openAt(s string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], open)
		if i < 0 {
			return -1
		}
		end := from + i + len(open)
		if end == len(s) || strings.IndexByte(wordBytes, s[end]) < 0 {
			return end - len(open)
		}
		from = end
	}
}

// reference is {{secret "name"}}, with any quotes or none.
var reference = regexp.MustCompile("^\\{\\{secret\\s+(?:\"([A-Za-z0-9_.-]{1,64})\"|'([A-Za-z0-9_.-]{1,64})'|`([A-Za-z0-9_.-]{1,64})`|([A-Za-z0-9_.-]{1,64}))\\s*\\}\\}")

// fillText replaces the references of a text.
func fillText(s string, value func(string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		i := openAt(s)
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		m := reference.FindStringSubmatch(s[i:])
		if m == nil {
			return "", fmt.Errorf(`%.40q is no reference to a secret: write {{secret "name"}}, the name of 1 to 64 letters, digits, '-', '_' and '.'`, s[i:])
		}
		v, err := value(m[1] + m[2] + m[3] + m[4]) // one of them
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		s = s[i+len(m[0]):]
	}
}

// Fill replaces the references in the texts of a JSON value. The first error ends it. A
// value that is put in is not looked through again. Where there is no reference, the
// input is given as it is.
func Fill(input json.RawMessage, value func(name string) (string, error)) (json.RawMessage, error) {
	if !mayRefer(input) {
		return input, nil
	}
	return mapJSON(input, func(s string) (string, error) { return fillText(s, value) }, nil)
}

// mayRefer reports whether there may be a reference: a backslash may hide one.
func mayRefer(input json.RawMessage) bool {
	return bytes.Contains(input, []byte(open)) || bytes.Contains(input, []byte(`\u`)) || bytes.Contains(input, []byte(`\U`))
}

// Names lists the names that the texts of a JSON value refer to, in their order, each as
// often as it stands there.
func Names(input json.RawMessage) (names []string, err error) {
	_, err = Fill(input, func(name string) (string, error) {
		names = append(names, name)
		return "", nil
	})
	return names, err
}

// mapJSON gives a JSON value with other texts, and other numbers and words; all else is
// as it was. What is no JSON is given as it is.
func mapJSON(in json.RawMessage, text func(string) (string, error), other func(string) string) (json.RawMessage, error) {
	if !json.Valid(in) {
		return in, nil
	}
	out := make([]byte, 0, len(in)+256)
	for i := 0; i < len(in); {
		end := tokenEnd(in, i)
		token := in[i:end]
		switch c := in[i]; {
		case c == '"':
			var s string
			if err := json.Unmarshal(token, &s); err != nil {
				return nil, err
			}
			mapped, err := text(s)
			if err != nil {
				return nil, err
			}
			if mapped != s {
				token = quoteJSON(mapped)
			}
		case end > i+1 && other != nil:
			token = []byte(other(string(token)))
		}
		out, i = append(out, token...), end
	}
	return out, nil
}

// tokenEnd gives the end of the JSON token at i: a text, a number or word, or one byte.
func tokenEnd(in []byte, i int) int {
	j := i + 1
	if in[i] == '"' {
		for in[j] != '"' { // the input is valid
			if in[j] == '\\' {
				j++
			}
			j++
		}
		return j + 1
	}
	const marks = " \t\r\n{}[]:,\""
	if strings.IndexByte(marks, in[i]) >= 0 {
		return j
	}
	for j < len(in) && strings.IndexByte(marks, in[j]) < 0 {
		j++
	}
	return j
}

// quoteJSON gives a text as JSON, without the escapes that only HTML needs.
func quoteJSON(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
