// Package pack writes JSON texts shorter: names and phrases that are frequent in them, UUIDs
// and times become codes. It knows no meaning and loses nothing: whatever the text is, JSON
// or not, it comes back byte for byte.
//
// A packed text is made of bytes that stand for themselves and of codes. Codes begin with the bytes
// that no JSON text has outside of blanks, 0 to 31 and 248 to 255; where a text has one of these, [escape]
// stands before it:
//
//	0 byte      that byte
//	1 16 bytes  a UUID in lower case, in quotes
//	2 6 bytes   a time to the millisecond, in quotes: "2026-11-23T14:45:01.250Z" as milliseconds since 1970, big endian
//	3 byte      an entry of the dictionary, from the 37th on
//	others      the first 36 entries of the dictionary
//
// The dictionary is a part of the form, as the codes are: it never changes. Better ones
// would be another form.
//
// All functions are safe for concurrent use.
package pack

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

const (
	escape = iota
	codeUUID
	codeTime
	codeFar // of an entry that needs a second byte
	codeNear
)

const (
	blanks   = 0x20 // bytes below it
	noText   = 0xf8 // and from it on are codes
	nearLow  = blanks - codeNear
	near     = nearLow + 256 - noText
	uuidText = 38
	timeText = 26
	timeLen  = 6
	probe    = 6 // bytes that say where an entry may be found
	word     = 8 // bytes that are read at once to see these
)

//go:embed dictionary.txt
var dictionaryText string

var (
	dictionary = strings.Split(strings.TrimSuffix(dictionaryText, "\n"), "\n")
	// slots has the first of the entries with a hash, follow the one that comes next: the numbers
	// of entries, longest first, with one added; 0: none.
	slots  [1 << slotBits]uint16
	follow [near + 256 + 1]uint16
	// special says of a byte that it is no text, or that an entry, a UUID or a time may begin there.
	special [256]byte
)

const (
	slotBits = 10
	isCode   = 1
	begins   = 2
)

// hash takes the first [probe] bytes of the word.
func hash(w uint64) uint64 {
	return (w << (64 - 8*probe)) * 0x9e3779b97f4a7c15 >> (64 - slotBits)
}

func init() {
	for i := range blanks {
		special[i] = isCode
	}
	for i := noText; i < 256; i++ {
		special[i] = isCode
	}
	special['"'] = begins
	order := make([]int, len(dictionary))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(dictionary[a]) - len(dictionary[b]) })
	for _, i := range order { // the longest is put last, and so stands first
		entry := dictionary[i]
		special[entry[0]] = begins
		h := hash(binary.LittleEndian.Uint64(append([]byte(entry), 0, 0)[:word]))
		follow[i+1] = slots[h]
		slots[h] = uint16(i + 1)
	}
}

// Append appends the packed form of a text.
func Append(dst, text []byte) []byte {
	run := 0 // where what stands for itself begins
	for i := 0; i < len(text); {
		c := text[i]
		if special[c] == 0 {
			i++
			continue
		}
		if special[c] == isCode {
			dst = append(append(dst, text[run:i]...), escape, c)
			i++
			run = i
			continue
		}
		n := i
		if entry := find(text[i:]); entry > 0 {
			dst = appendEntry(append(dst, text[run:i]...), entry-1)
			n += len(dictionary[entry-1])
		} else if c == '"' {
			var code [1 + 16]byte
			if size, took := quoted(&code, text[i:]); took > 0 {
				dst = append(append(dst, text[run:i]...), code[:size]...)
				n += took
			}
		}
		if n == i {
			i++
			continue
		}
		i, run = n, n
	}
	return append(dst, text[run:]...)
}

// find gives the number of the longest entry that the text begins with, with one added; 0: none.
func find(text []byte) uint16 {
	if len(text) < word {
		return 0
	}
	i := slots[hash(binary.LittleEndian.Uint64(text))]
	for ; i > 0; i = follow[i] {
		entry := dictionary[i-1]
		if len(text) >= len(entry) && string(text[:len(entry)]) == entry {
			return i
		}
	}
	return 0
}

func appendEntry(dst []byte, i uint16) []byte {
	switch {
	case i < nearLow:
		return append(dst, codeNear+byte(i))
	case i < near:
		return append(dst, noText+byte(i-nearLow))
	}
	return append(dst, codeFar, byte(i-near))
}

// quoted packs the UUID or the time that the text begins with; took is how long that is,
// 0: there is none.
func quoted(code *[1 + 16]byte, text []byte) (size, took int) {
	if len(text) >= uuidText && text[uuidText-1] == '"' && parseUUID(code, text[1:]) {
		return 1 + 16, uuidText
	}
	if len(text) >= timeText && text[timeText-1] == '"' && text[timeText-2] == 'Z' {
		if ms, ok := parseTime(text[1:]); ok {
			code[0] = codeTime
			for i := range timeLen {
				code[1+i] = byte(ms >> (8 * (timeLen - 1 - i)))
			}
			return 1 + timeLen, timeText
		}
	}
	return 0, 0
}

// parts of a UUID's text: where they begin and end.
var parts = [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}}

func parseUUID(code *[1 + 16]byte, s []byte) bool {
	if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	code[0] = codeUUID
	n := 1
	for _, p := range parts {
		for i := p[0]; i < p[1]; i += 2 {
			high, low := digits[s[i]], digits[s[i+1]]
			if high|low > 15 {
				return false
			}
			code[n] = high<<4 | low
			n++
		}
	}
	return true
}

// digits has the values of hexadecimal digits in lower case; 255: it is none.
var digits = func() (d [256]byte) {
	for i := range d {
		d[i] = 255
	}
	for i, c := range []byte("0123456789abcdef") {
		d[c] = byte(i)
	}
	return d
}()

func appendUUID(dst, id []byte) []byte {
	dst = append(dst, '"')
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, '-')
		}
		n := (p[1] - p[0]) / 2
		dst = hex.AppendEncode(dst, id[:n])
		id = id[n:]
	}
	return append(dst, '"')
}

// ErrDamaged says that what was to be unpacked is none of what [Append] makes.
var ErrDamaged = errors.New("the packed text ends within a code, or has one that is unknown")

// AppendText appends the text that was packed. Its error is [ErrDamaged].
func AppendText(dst, packed []byte) ([]byte, error) {
	for i := 0; i < len(packed); {
		run := i
		for i < len(packed) && special[packed[i]] != isCode {
			i++
		}
		dst = append(dst, packed[run:i]...)
		if i == len(packed) {
			break
		}
		rest := packed[i+1:]
		entry, size := 0, 0
		switch c := packed[i]; {
		case c == escape && len(rest) > 0 && special[rest[0]] == isCode:
			dst, size = append(dst, rest[0]), 1
		case c == codeUUID && len(rest) >= 16:
			dst, size = appendUUID(dst, rest[:16]), 16
		case c == codeTime && len(rest) >= timeLen:
			ms := int64(0)
			for _, b := range rest[:timeLen] {
				ms = ms<<8 | int64(b)
			}
			if ms > lastTime {
				return dst, ErrDamaged
			}
			dst, size = appendTime(dst, ms), timeLen
		case c == codeFar && len(rest) > 0:
			entry, size = near+int(rest[0]), 1
		case c >= noText:
			entry = nearLow + int(c) - noText
		case c >= codeNear:
			entry = int(c) - codeNear
		default:
			return dst, ErrDamaged
		}
		if c := packed[i]; c >= codeFar {
			if entry >= len(dictionary) {
				return dst, ErrDamaged
			}
			dst = append(dst, dictionary[entry]...)
		}
		i += 1 + size
	}
	return dst, nil
}
