package strictjson

import (
	"encoding/base64"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// stringValue checks a string value against t.
func (s *scanner) stringValue(t target) error {
	v, err := s.str()
	if err != nil {
		return err
	}
	switch {
	case t.class == bytes:
		if _, err := base64.StdEncoding.DecodeString(v); err != nil {
			return s.mismatch(t, "string "+quote(v))
		}
	case t.class == text:
		if err := t.text(v); err != nil {
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
	s.pos++
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return string(s.data[start : s.pos-1]), nil
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return "", s.syntax("an escape such as \\n instead of a raw control character in a string")
		default:
			s.pos++
		}
	}
	return "", s.syntax("'\"' to end the string")
}

// escaped is str from the first backslash on.
func (s *scanner) escaped(start int) (string, error) {
	out := append([]byte(nil), s.data[start:s.pos]...)
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return string(out), nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < 0x20:
			return "", s.syntax("an escape such as \\n instead of a raw control character in a string")
		default:
			out = append(out, c)
			s.pos++
		}
	}
	return "", s.syntax("'\"' to end the string")
}

func (s *scanner) escape() (rune, error) {
	s.pos++
	if s.pos >= len(s.data) {
		return 0, s.syntax("an escape sequence")
	}
	var r rune
	switch s.data[s.pos] {
	case '"', '\\', '/':
		r = rune(s.data[s.pos])
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		return s.unicode()
	default:
		return 0, s.syntax("an escape sequence")
	}
	s.pos++
	return r, nil
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
	var r rune
	for range 4 {
		if s.pos >= len(s.data) {
			return 0, s.syntax("four hexadecimal digits")
		}
		c := s.data[s.pos]
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, s.syntax("four hexadecimal digits")
		}
		s.pos++
	}
	return r, nil
}

// number checks a number against JSON's grammar and then against t's range.
func (s *scanner) number(t target) error {
	start := s.pos
	if s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if err := s.digits(); err != nil {
			return err
		}
	}
	return s.inRange(t, string(s.data[start:s.pos]))
}

func (s *scanner) digits() error {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		return s.syntax("a digit")
	}
	return nil
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
		return s.mismatch(t, "number "+clip.Text(lit, maxQuoted))
	}
	if err != nil {
		return s.mismatch(t, "number "+clip.Text(lit, maxQuoted))
	}
	return nil
}
