package tables

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Every value but those of packed.go is a JSON object that begins with a checksum (CRC-32C, eight hex
// digits) of the value's key and of all that follows the checksum:
//
//	{"crc":"1a2b3c4d","version":3,"seq":123,"state":{...}}
//
// Neither bbolt nor a database's row has one of its own for data, so without it a flipped bit would be read
// as truth. Values are built and read by hand, field by field in one order: no
// JSON parser stands on the way of a batch. An embedded part, such as the state,
// stands as it was given.

const (
	crcOpen   = `{"crc":"`
	crcClose  = `",`
	crcDigits = 8
	sealed    = len(crcOpen) + crcDigits + len(crcClose) // length of what stands before the first field
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum so far: of the key.
type sum uint32

func sumOf(key []byte) sum { return sum(crc32.Update(0, castagnoli, key)) }

// recordSum is the same for a record and for its copy in an epoch's base. It goes byte by byte:
// for so few that takes less than to have them where hash/crc32 can get at them.
func recordSum(kind effects.Kind, id uuid.UUID) sum {
	c := ^uint32(0)
	for i := range len(kind) {
		c = castagnoli[byte(c)^kind[i]] ^ c>>8
	}
	for _, b := range id {
		c = castagnoli[byte(c)^b] ^ c>>8
	}
	return sum(^c)
}

// openSeal appends the beginning of a value, with room for the checksum.
func openSeal(b []byte) []byte {
	return append(b, crcOpen+"00000000"+crcClose...)
}

// closeSeal ends the value that begins at start: it fills in the checksum.
func closeSeal(b []byte, start int, s sum) []byte {
	b = append(b, '}')
	c := crc32.Update(uint32(s), castagnoli, b[start+sealed:])
	var raw [4]byte
	raw[0], raw[1], raw[2], raw[3] = byte(c>>24), byte(c>>16), byte(c>>8), byte(c)
	hex.Encode(b[start+len(crcOpen):], raw[:])
	return b
}

// unseal checks a value and gives its fields, without the last brace.
func unseal(raw []byte, s sum) ([]byte, error) {
	if len(raw) <= sealed || string(raw[:len(crcOpen)]) != crcOpen ||
		string(raw[sealed-len(crcClose):sealed]) != crcClose || raw[len(raw)-1] != '}' {
		return nil, fmt.Errorf("%w: the value is no envelope of this package", store.ErrCorrupt)
	}
	var c [4]byte
	if _, err := hex.Decode(c[:], raw[len(crcOpen):len(crcOpen)+crcDigits]); err != nil {
		return nil, fmt.Errorf("%w: the checksum is not hexadecimal", store.ErrCorrupt)
	}
	want := uint32(c[0])<<24 | uint32(c[1])<<16 | uint32(c[2])<<8 | uint32(c[3])
	if got := crc32.Update(uint32(s), castagnoli, raw[sealed:]); got != want {
		return nil, fmt.Errorf("%w: the checksum is %08x, the content has %08x", store.ErrCorrupt, want, got)
	}
	return raw[sealed : len(raw)-1], nil
}

// fields reads the fields of a value in their order. The first thing that is not as
// expected spoils all that follows.
type fields struct {
	rest []byte
	err  error
}

// openFields checks a value and gives its fields.
func openFields(raw []byte, s sum) fields {
	rest, err := unseal(raw, s)
	return fields{rest, err}
}

var errFields = fmt.Errorf("%w: the envelope has other fields than expected", store.ErrCorrupt)

func (f *fields) spoil() {
	if f.err == nil {
		f.err = errFields
	}
}

// name takes the literal that stands before a value.
func (f *fields) name(s string) {
	if f.err == nil && len(f.rest) >= len(s) && string(f.rest[:len(s)]) == s {
		f.rest = f.rest[len(s):]
		return
	}
	f.spoil()
}

func (f *fields) number(name string) uint64 {
	f.name(name)
	n := 0
	for n < len(f.rest) && '0' <= f.rest[n] && f.rest[n] <= '9' {
		n++
	}
	if f.err != nil || n == 0 || n > 20 {
		f.spoil()
		return 0
	}
	var v uint64
	if n < 20 { // cannot overflow
		for _, c := range f.rest[:n] {
			v = v*10 + uint64(c-'0')
		}
	} else {
		var err error
		if v, err = strconv.ParseUint(string(f.rest[:n]), 10, 64); err != nil {
			f.spoil()
		}
	}
	f.rest = f.rest[n:]
	return v
}

// text gives the bytes of a JSON string: part of the value where it holds no
// escape, else a copy.
func (f *fields) text(name string) []byte {
	s, escaped := f.quoted(name)
	if escaped {
		return f.unescape(s)
	}
	return s
}

// quoted gives the inside of a JSON string as it stands there.
func (f *fields) quoted(name string) (s []byte, escaped bool) {
	f.name(name)
	f.name(`"`)
	if f.err != nil {
		return nil, false
	}
	for i := 0; i < len(f.rest); i++ {
		switch f.rest[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			s, f.rest = f.rest[:i], f.rest[i+1:]
			return s, escaped
		}
	}
	f.spoil()
	return nil, false
}

// unitSeparator stands in the names of lanes (see [store.ShareLane]) and of terms.
const (
	unitSeparator        = '\x1f'
	escapedUnitSeparator = `\u001f`
)

// unescape gives the text that the inside of a JSON string stands for.
func (f *fields) unescape(s []byte) []byte {
	if plain := bytes.ReplaceAll(s, []byte(escapedUnitSeparator), []byte{unitSeparator}); !bytes.ContainsRune(plain, '\\') {
		return plain // every other escape leaves a backslash
	}
	var out string
	if json.Unmarshal(append(append([]byte{'"'}, s...), '"'), &out) != nil {
		f.spoil()
	}
	return []byte(out)
}

// remainder gives the last value: all that is left.
func (f *fields) remainder(name string) []byte {
	f.name(name)
	return f.rest
}

// appendNumber appends the literal that stands before a value, and the value.
func appendNumber(b []byte, name string, n uint64) []byte {
	return strconv.AppendUint(append(b, name...), n, 10)
}

// appendText is appendNumber for a JSON string, which must be UTF-8.
func appendText(b []byte, name, s string) []byte {
	separators := false
	for i := range len(s) {
		switch c := s[i]; {
		case c == unitSeparator:
			separators = true
		case c < ' ' || c > '~' || c == '"' || c == '\\':
			q, _ := json.Marshal(s) // a string always encodes
			return append(append(b, name...), q...)
		}
	}
	b = append(append(b, name...), '"')
	for separators {
		var part string
		part, s, separators = strings.Cut(s, string(unitSeparator))
		b = append(b, part...)
		if separators {
			b = append(b, escapedUnitSeparator...)
		} else {
			s = ""
		}
	}
	b = append(b, s...)
	return append(b, '"')
}

func appendOutbox(b, key []byte, e *store.OutboxEntry) []byte {
	start := len(b)
	b = appendNumber(openSeal(b), `"seq":`, e.Seq)
	b = appendText(b, `,"kind":`, string(e.Kind))
	b = appendText(b, `,"lane":`, e.Lane)
	b = appendText(b, `,"holder":`, e.Holder)
	b = appendNumber(b, `,"token":`, e.Token)
	if len(e.Effect) > 0 {
		b = append(append(b, `,"effect":`...), e.Effect...)
	}
	return closeSeal(b, start, sumOf(key))
}

// outboxFields is an outbox entry whose names are not yet strings.
type outboxFields struct {
	seq, token                 uint64
	kind, lane, holder, effect []byte
}

func parseOutbox(key, raw []byte) (o outboxFields, err error) {
	f := openFields(raw, sumOf(key))
	o.seq = f.number(`"seq":`)
	o.kind = f.text(`,"kind":`)
	o.lane = f.text(`,"lane":`)
	o.holder = f.text(`,"holder":`)
	o.token = f.number(`,"token":`)
	if len(f.rest) > 0 {
		o.effect = f.remainder(`,"effect":`)
	}
	return o, f.err
}

// isHandedOut reports whether an outbox entry has a holder; false where it cannot be read. It
// takes no more of the entry apart than it must: all answers come this way.
func isHandedOut(key, raw []byte) bool {
	f := openFields(raw, sumOf(key))
	f.number(`"seq":`)
	f.quoted(`,"kind":`)
	f.quoted(`,"lane":`)
	holder, _ := f.quoted(`,"holder":`)
	return f.err == nil && len(holder) > 0
}

// SealJSON seals a small value that is not on the way of a batch; v must
// encode to an object with at least one field.
func SealJSON(key []byte, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) < 3 || body[0] != '{' {
		return nil, errors.New("not an object with fields")
	}
	b := append(openSeal(nil), body[1:len(body)-1]...)
	return closeSeal(b, 0, sumOf(key)), nil
}

// ParseJSON reads what SealJSON made into v.
func ParseJSON(key, raw []byte, v any) error {
	if _, err := unseal(raw, sumOf(key)); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return nil
}

// ClampTime keeps a time that is no part of a state within what its JSON form
// can say.
func ClampTime(t effects.Time) effects.Time { return min(max(t, 0), effects.MaxTime) }
