package core

import (
	"bytes"
	"encoding/json"
	"math"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// scan reads stored forms as this package writes them: the fields in their order, without
// white space. encoding/json takes ten times as long for what a replay reads by the
// million, and reads all else: a scan that meets anything that it does not expect goes off,
// gives zeros from then on, and whoever uses it has encoding/json read the whole. So it must
// never take what encoding/json refuses or reads otherwise; a fuzz test holds that.
type scan struct {
	b   []byte
	i   int
	off bool
}

// maxScanDepth bounds the nesting of the JSON values that a scan passes over: far below
// the bound of encoding/json, which counts from the outside.
const maxScanDepth = 1000

// done reports whether all was read as expected.
func (s *scan) done() bool { return !s.off && s.i == len(s.b) }

// fail goes off.
func (s *scan) fail() {
	s.off = true
	s.i = len(s.b)
}

// next tells whether the text comes next, and passes over it if it does.
func (s *scan) next(text string) bool {
	if len(s.b)-s.i < len(text) || string(s.b[s.i:s.i+len(text)]) != text {
		return false
	}
	s.i += len(text)
	return true
}

// want passes over a text that must come next.
func (s *scan) want(text string) {
	if !s.next(text) {
		s.fail()
	}
}

// quoted passes over a string that has no escapes, and gives what stands between its
// quotes; it must not be kept.
func (s *scan) quoted() []byte {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		s.fail()
		return nil
	}
	begin, ascii := s.i+1, true
	for i := begin; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			if !ascii && !utf8.Valid(s.b[begin:i]) {
				s.fail()
			}
			return s.b[begin:i]
		case c < 0x20 || c == '\\':
			s.fail()
			return nil
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.fail()
	return nil
}

// str reads a string; encoding/json does it where it has escapes.
func (s *scan) str() string {
	begin := s.i
	if plain := s.quoted(); !s.off {
		return string(plain)
	}
	if s.i = begin; begin >= len(s.b) || s.b[begin] != '"' {
		return ""
	}
	s.off = false
	value, text := s.value(), ""
	if s.off || json.Unmarshal(value, &text) != nil {
		s.fail()
	}
	return text
}

// field reads a string field.
func (s *scan) field(name string) string {
	s.want(name)
	return s.str()
}

// uint reads a number up to most.
func (s *scan) uint(most uint64) (n uint64) {
	begin := s.i
	for ; s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9'; s.i++ {
		d := uint64(s.b[s.i] - '0')
		if n > (math.MaxUint64-d)/10 {
			s.fail()
			return 0
		}
		n = 10*n + d
	}
	if digits := s.i - begin; digits == 0 || digits > 1 && s.b[begin] == '0' || n > most {
		s.fail()
		return 0
	}
	return n
}

func (s *scan) uint32() uint32 { return uint32(s.uint(math.MaxUint32)) }

// int reads a number from -most-1 to most.
func (s *scan) int(most int64) int64 {
	if s.next("-") {
		if n := s.uint(uint64(most) + 1); n > 0 {
			return -int64(n)
		}
		s.fail() // -0
		return 0
	}
	return int64(s.uint(uint64(most)))
}

func (s *scan) int32() int32 { return int32(s.int(math.MaxInt32)) }
func (s *scan) int64() int64 { return s.int(math.MaxInt64) }

// id reads an id in the form of appendID.
func (s *scan) id() (id uuid.UUID) {
	const length = 38
	if len(s.b)-s.i < length || s.b[s.i] != '"' || s.b[s.i+length-1] != '"' {
		s.fail()
		return id
	}
	text := s.b[s.i+1 : s.i+length-1]
	at := 0
	for i := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			if text[at] != '-' {
				s.fail()
				return uuid.UUID{}
			}
			at++
		}
		high, low := hexDigit(text[at]), hexDigit(text[at+1])
		if high|low > 0xf {
			s.fail()
			return uuid.UUID{}
		}
		id[i] = high<<4 | low
		at += 2
	}
	s.i += length
	return id
}

// hexDigit gives 0xff for what is no digit.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// time reads a time in the form of [effects.Time.AppendJSON].
func (s *scan) time() effects.Time {
	if s.next("null") {
		return 0
	}
	const length = len(`"2006-01-02T15:04:05.000Z"`)
	if len(s.b)-s.i < length {
		s.fail()
		return 0
	}
	t, ok := parseTime(s.b[s.i : s.i+length])
	if !ok {
		s.fail()
		return 0
	}
	s.i += length
	return t
}

// parseTime reads `"2006-01-02T15:04:05.000Z"`.
func parseTime(b []byte) (effects.Time, bool) {
	for i, c := range []byte(`"0000-00-00T00:00:00.000Z"`) {
		if c == '0' && (b[i] < '0' || b[i] > '9') || c != '0' && b[i] != c {
			return 0, false
		}
	}
	two := func(i int) int64 { return 10*int64(b[i]-'0') + int64(b[i+1]-'0') }
	year, month, day := 100*two(1)+two(3), two(6), two(9)
	hour, minute, second, ms := two(12), two(15), two(18), 10*two(21)+int64(b[23]-'0')
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	t := effects.Time((((daysUpTo(year, month, day)*24+hour)*60+minute)*60+second)*1000 + ms)
	return t, t >= effects.MinTime && t <= effects.MaxTime
}

func isLeap(year int64) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int64) int64 {
	switch {
	case month == 2 && isLeap(year):
		return 29
	case month == 2:
		return 28
	case month == 4 || month == 6 || month == 9 || month == 11:
		return 30
	}
	return 31
}

// daysUpTo counts the days from 1970-01-01 to a date.
func daysUpTo(year, month, day int64) int64 {
	if month <= 2 { // the year begins in March, so that the leap day is its last
		year--
		month += 12
	}
	era, inEra := year/400, year%400
	if year < 0 {
		era, inEra = -1, 399
	}
	inYear := (153*(month-3)+2)/5 + day - 1
	return era*146_097 + inEra*365 + inEra/4 - inEra/100 + inYear - 719_468
}

// value passes over a JSON value, which it checks, and gives it; it must not be kept.
func (s *scan) value() []byte {
	begin := s.i
	if s.i >= len(s.b) || !s.skip() || !json.Valid(s.b[begin:s.i]) {
		s.fail()
		return nil
	}
	return s.b[begin:s.i]
}

// skip passes over what is a JSON value if it is valid.
func (s *scan) skip() bool {
	depth := 0
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '"':
			if !s.skipString() {
				return false
			}
		case '{', '[':
			if depth++; depth > maxScanDepth {
				return false
			}
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return false
			}
		default:
			if depth > 0 {
				continue
			}
			if !s.skipPlain() {
				return false
			}
		}
		if depth == 0 {
			s.i++
			return true
		}
	}
	return false
}

// skipString ends at the closing quote.
func (s *scan) skipString() bool {
	for s.i++; s.i < len(s.b); s.i++ {
		end := bytes.IndexByte(s.b[s.i:], '"')
		if end < 0 {
			return false
		}
		end += s.i
		if escape := bytes.IndexByte(s.b[s.i:end], '\\'); escape >= 0 {
			s.i += escape + 1 // over what is escaped
			continue
		}
		s.i = end
		return true
	}
	return false
}

// skipPlain ends at the last byte of a number, true, false or null.
func (s *scan) skipPlain() bool {
	begin := s.i
	for s.i < len(s.b) && bytes.IndexByte([]byte(`,:{}[]" `), s.b[s.i]) < 0 {
		s.i++
	}
	s.i--
	return s.i >= begin
}

// raw reads a JSON value as it stands.
func (s *scan) raw() json.RawMessage {
	if s.next("null") {
		return json.RawMessage("null")
	}
	if v := s.value(); v != nil {
		return bytes.Clone(v)
	}
	return nil
}

// strings reads a map of texts; null is nil.
func (s *scan) strings() map[string]string {
	if s.next("null") {
		return nil
	}
	s.want("{")
	m := make(map[string]string)
	if s.next("}") {
		return m
	}
	for !s.off {
		key := s.str()
		s.want(":")
		m[key] = s.str()
		if s.next("}") {
			return m
		}
		s.want(",")
	}
	return nil
}

// bool reads true or false.
func (s *scan) bool() bool {
	if s.next("true") {
		return true
	}
	s.want("false")
	return false
}

// scanStateAs gives a [kind]'s scanState: nil for what is not as expected, or has no id.
func scanStateAs[S State](read func(*scan) S) func(*scan) State {
	return func(s *scan) State {
		if state := read(s); s.done() && !state.Ref().IsZero() {
			return state
		}
		return nil
	}
}
