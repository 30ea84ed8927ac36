package tables

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

// As formats before 4 had them.
const (
	formerRecord = `{"crc":"d4b08c22","version":3,"seq":123,"state":{"a":1}}`
	formerEntry  = `{"crc":"6590df25","at":"2026-11-23T14:45:01.250Z","batch":{"a":1}}`
)

func TestValuesOfFormerFormatsAreRead(t *testing.T) {
	r, err := ParseRecord("action", testID, []byte(formerRecord), new(Texts))
	require.NoError(t, err)
	assert.Equal(t, store.Record{Kind: "action", ID: testID, Version: 3, Seq: 123, State: []byte(`{"a":1}`)}, r)
	entry, err := parseEntry([]byte("key"), []byte(formerEntry), new(Texts))
	require.NoError(t, err)
	assert.Equal(t, `{"a":1}`, string(entry))
}

func TestARecordHasAFewBytesBesideItsState(t *testing.T) {
	state := []byte(`{"a":1}`)
	assert.LessOrEqual(t, len(AppendRecord(nil, "action", testID, 1<<64-1, 1<<64-1, state)), len(state)+recordRoom)
	assert.Len(t, AppendRecord(nil, "action", testID, 3, 100, state), len(state)+8)
}

// A value whose checksum is right and whose form is not is damage, too, and asks for no more memory
// than it can mean.
func TestAValueOfAnotherFormIsDamaged(t *testing.T) {
	value := func(fields ...byte) []byte {
		return closePacked(append([]byte{formPacked, 0, 0, 0, 0}, fields...), 0, recordSum("action", testID))
	}
	good := value(3, 100, 2, '{', '}')
	r, err := ParseRecord("action", testID, good, new(Texts))
	require.NoError(t, err)
	assert.Equal(t, "{}", string(r.State))
	for name, raw := range map[string][]byte{
		"no fields": value(), "no batch": value(3), "no length": value(3, 100), "too long": value(3, 100, 1, '{', '}'),
		"too short": value(3, 100, 3, '{', '}'), "no code": value(3, 100, 1, 0),
		"a long one":      value(append([]byte{3, 100}, binary.AppendUvarint(nil, 1<<60)...)...),
		"of another form": append([]byte{2}, good[1:]...),
	} {
		_, err := ParseRecord("action", testID, raw, new(Texts))
		require.ErrorIs(t, err, store.ErrCorrupt, name)
	}
}

// TestOfADamagedRecordWhatCanBeReadIsKept: the machines that wait for it are told by that.
func TestOfADamagedRecordWhatCanBeReadIsKept(t *testing.T) {
	state := `{"id":"01a208df-3c3f-77fd-a5e8-13cf23c1a87a","name":"deploy"}`
	raw := AppendRecord(nil, "action", testID, 3, 123, []byte(state))
	raw[2] ^= 1
	assert.Equal(t, state, string(Legible(raw)))
	assert.Equal(t, state[:len(state)-4], string(Legible(raw[:len(raw)-4])), "as much as there is")
	for _, none := range []string{"", "{", formerRecord, "\x01abc", "\x01abcd\xff\xff", "\x01abcd\x01\x01\x05\x03"} {
		assert.Equal(t, none, string(Legible([]byte(none))))
	}
}

func TestTextsOfATransactionStayAsTheyAre(t *testing.T) {
	var room Texts
	var all [][]byte
	for i := range 3000 {
		n := i % 700
		b := room.take(n)
		require.GreaterOrEqual(t, cap(b), n)
		for range n {
			b = append(b, byte(i))
		}
		all = append(all, b)
	}
	for i, b := range all {
		for _, c := range b {
			require.Equal(t, byte(i), c)
		}
	}
	assert.LessOrEqual(t, cap(room.free), textsShare)
}
