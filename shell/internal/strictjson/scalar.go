package strictjson

import (
	"encoding"
	"encoding/base64"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// stringValue checks a string value against t.
func (s *scanner) stringValue(t target) error {
	raw, err := s.chars()
	if err != nil || t.class != bytes && t.class != text && t.takes(str) { // any string will do
		return err
	}
	v := string(raw)
	switch {
	case t.class == bytes:
		if _, err := base64.StdEncoding.DecodeString(v); err != nil {
			return s.mismatch(t, "string "+quote(v))
		}
	case t.class == text:
		if err := reflect.New(t.typ).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v)); err != nil {
			return &Error{Path: s.pathString(), Problem: "string " + quote(v) + ": " + err.Error(), Err: err}
		}
	case !t.takes(str):
		return s.mismatch(t, "string "+quote(v))
	}
	return nil
}

// quote shows a value as JSON's reader would know it, and never lets a control
// character through.
func quote(v string) string { return strconv.Quote(clip.Text(v, maxQuoted)) }

// str consumes the string that starts here, and gives its value.
func (s *scanner) str() (string, error) {
	v, err := s.chars()
	return string(v), err
}

// chars is str without a copy: what it gives may be part of the document.
func (s *scanner) chars() ([]byte, error) {
	s.pos++
	text := slices.Clip(s.plain()) // an escape is appended to a copy
	for s.pos < len(s.data) && s.data[s.pos] == '\\' {
		r, err := s.escape()
		if err != nil {
			return nil, err
		}
		text = append(utf8.AppendRune(text, r), s.plain()...)
	}
	switch {
	case s.accept(`"`):
		return text, nil
	case s.pos < len(s.data):
		return nil, s.syntax("an escape such as \\n instead of a raw control character in a string")
	}
	return nil, s.syntax("'\"' to end the string")
}

// plain consumes the characters of a string that stand for themselves.
func (s *scanner) plain() []byte {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] != '"' && s.data[s.pos] != '\\' && s.data[s.pos] >= 0x20 {
		s.pos++
	}
	return s.data[start:s.pos]
}

func (s *scanner) escape() (rune, error) {
	s.pos++
	if s.pos < len(s.data) && s.data[s.pos] == 'u' {
		return s.unicode()
	}
	// The character that a name stands for is the byte of stand at the same index.
	const names, stand = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	for i := range names {
		if s.accept(names[i : i+1]) {
			return rune(stand[i]), nil
		}
	}
	return 0, s.syntax("an escape sequence")
}

// unicode reads what follows "\": uXXXX, or the two of a surrogate pair.
func (s *scanner) unicode() (rune, error) {
	at := s.pos - 1
	r, err := s.hex4()
	if err != nil {
		return 0, err
	}
	if r == 0 {
		// No environment variable, path, header or PostgreSQL text can hold it.
		return 0, s.problem("has a NUL character (\\u0000) at offset %d: leave it out", at)
	}
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
		s.pos++
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, s.problem("has half a surrogate pair (\\u%04x) at offset %d, which is no character", r, at)
}

// hex4 reads "uXXXX".
func (s *scanner) hex4() (rune, error) {
	s.pos++
	for range 4 {
		if !s.accept("0123456789abcdefABCDEF") {
			return 0, s.syntax("four hexadecimal digits")
		}
	}
	n, err := strconv.ParseUint(string(s.data[s.pos-4:s.pos]), 16, 16)
	return rune(n), err
}

// number checks a number against JSON's grammar and then against t's range.
func (s *scanner) number(t target) error {
	start := s.pos
	s.accept("-")
	ok := (s.accept("0") || s.digits()) && (!s.accept(".") || s.digits())
	if ok && s.accept("eE") {
		s.accept("+-")
		ok = s.digits()
	}
	if !ok {
		return s.syntax("a digit")
	}
	return s.inRange(t, string(s.data[start:s.pos]))
}

// digits consumes the digits that stand here, and reports whether there is one.
func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) inRange(t target, lit string) error {
	var err error
	switch {
	case t.class == signed:
		_, err = strconv.ParseInt(lit, 10, t.typ.Bits())
	case t.class == unsigned:
		_, err = strconv.ParseUint(lit, 10, t.typ.Bits())
	case t.class == float:
		_, err = strconv.ParseFloat(lit, t.typ.Bits())
	case t.class == anything:
		_, err = strconv.ParseFloat(lit, 64)
	case !t.takes(number):
		err = strconv.ErrSyntax
	}
	if err != nil {
		return s.mismatch(t, "number "+clip.Text(lit, maxQuoted))
	}
	return nil
}
