package core

// soundJSON reports whether v certainly is one JSON value of at most [MaxJSONDepth] levels, and
// whether all of its bytes are ASCII. It takes a third of the time of encoding/json, which
// decides where it says no.
func soundJSON(v []byte) (sound, ascii bool) {
	s := jsonScan{v: v, ascii: true}
	i := s.value(s.space(0), 0)
	return i >= 0 && s.space(i) == len(v), s.ascii
}

// jsonScan walks along a JSON text. Its methods give where the thing that begins at i ends, and
// -1 where it does not, or is none.
type jsonScan struct {
	v     []byte
	ascii bool // no other byte was met in a string so far
}

// space gives where white space ends: there may be none.
func (s *jsonScan) space(i int) int {
	for i < len(s.v) && (s.v[i] == ' ' || s.v[i] == '\n' || s.v[i] == '\t' || s.v[i] == '\r') {
		i++
	}
	return i
}

// is reports whether c stands at i.
func (s *jsonScan) is(i int, c byte) bool { return i >= 0 && i < len(s.v) && s.v[i] == c }

func (s *jsonScan) value(i, depth int) int {
	if i < 0 || i >= len(s.v) {
		return -1
	}
	switch s.v[i] {
	case '"':
		return s.text(i)
	case '{':
		return s.members(i, depth+1, '}', true)
	case '[':
		return s.members(i, depth+1, ']', false)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

// members walks along an object or an array, up to its last byte.
func (s *jsonScan) members(i, depth int, last byte, named bool) int {
	if depth > MaxJSONDepth {
		return -1
	}
	if i = s.space(i + 1); s.is(i, last) {
		return i + 1
	}
	for {
		if named {
			if !s.is(i, '"') {
				return -1
			}
			if i = s.text(i); i < 0 {
				return -1
			}
			if i = s.space(i); !s.is(i, ':') {
				return -1
			}
			i = s.space(i + 1)
		}
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		switch i = s.space(i); {
		case s.is(i, last):
			return i + 1
		case !s.is(i, ','):
			return -1
		}
		i = s.space(i + 1)
	}
}

func (s *jsonScan) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.v) && string(s.v[i:end]) == word {
		return end
	}
	return -1
}

// text walks along a string.
func (s *jsonScan) text(i int) int {
	v := s.v
	for i++; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c >= 0x80:
			s.ascii = false
		case c == '\\':
			if i++; i >= len(v) {
				return -1
			}
			switch v[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i += 4; i >= len(v) || !isHex(v[i-3:i+1]) {
					return -1
				}
			default:
				return -1
			}
		}
	}
	return -1
}

func isHex(v []byte) bool {
	for _, c := range v {
		if lower := c | 0x20; (c < '0' || c > '9') && (lower < 'a' || lower > 'f') {
			return false
		}
	}
	return true
}

func (s *jsonScan) number(i int) int {
	if s.is(i, '-') {
		i++
	}
	if s.is(i, '0') {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if s.is(i, '.') {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if s.is(i, 'e') || s.is(i, 'E') {
		if i++; s.is(i, '+') || s.is(i, '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits walks along one digit or more.
func (s *jsonScan) digits(i int) int {
	begin := i
	for i < len(s.v) && '0' <= s.v[i] && s.v[i] <= '9' {
		i++
	}
	if i == begin {
		return -1
	}
	return i
}
