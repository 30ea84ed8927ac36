package tables

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store"
)

var testID = uuid.MustParse("01234567-89ab-cdef-0123-456789abcdef")

func TestAValueReadsAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.SliceOf(rapid.Byte()).Draw(t, "state")
		want := store.Record{Kind: "action", ID: testID, Version: rapid.Uint64().Draw(t, "version"), Seq: rapid.Uint64().Draw(t, "seq"), State: state}
		got, err := ParseRecord("action", testID, AppendRecord(nil, "action", testID, want.Version, want.Seq, state), new(Texts))
		require.NoError(t, err)
		require.Equal(t, want.Version, got.Version)
		require.Equal(t, want.Seq, got.Seq)
		require.True(t, bytes.Equal(state, got.State))

		e := store.OutboxEntry{
			Seq: rapid.Uint64().Draw(t, "batch"), Kind: "k", Lane: rapid.String().Draw(t, "lane"), Holder: rapid.String().Draw(t, "holder"),
			Token: rapid.Uint64().Draw(t, "token"), Effect: state,
		}
		o, err := parseOutbox([]byte("key"), appendOutbox(nil, []byte("key"), &e))
		require.NoError(t, err)
		require.Equal(t, []any{e.Seq, e.Lane, e.Holder, e.Token}, []any{o.seq, string(o.lane), string(o.holder), o.token})
		require.True(t, bytes.Equal(state, o.effect))

		batch, err := parseEntry([]byte("key"), appendEntry(nil, []byte("key"), effects.Time(rapid.Int64().Draw(t, "at")), state), new(Texts))
		require.NoError(t, err)
		require.True(t, bytes.Equal(state, batch))
	})
}

func TestAnyChangeOfAValueOrItsKeyIsNoticed(t *testing.T) {
	for _, raw := range [][]byte{AppendRecord(nil, "action", testID, 3, 123, []byte(`{"a":1,"created_at":null}`)), []byte(formerRecord)} {
		for i := range raw {
			for bit := range 8 {
				bad := bytes.Clone(raw)
				bad[i] ^= 1 << bit
				r, err := ParseRecord("action", testID, bad, new(Texts))
				// Only the case of a hexadecimal digit makes no difference.
				if isEnvelope(raw) && i >= len(crcOpen) && i < len(crcOpen)+crcDigits && bit == 5 && err == nil {
					assert.Equal(t, uint64(3), r.Version)
					continue
				}
				require.ErrorIs(t, err, store.ErrCorrupt, "byte %d, bit %d", i, bit)
			}
		}
		_, err := ParseRecord("other", testID, raw, new(Texts))
		require.ErrorIs(t, err, store.ErrCorrupt)
		_, err = ParseRecord("action", uuid.Max, raw, new(Texts))
		require.ErrorIs(t, err, store.ErrCorrupt)
		for n := range raw {
			_, err = ParseRecord("action", testID, raw[:n], new(Texts))
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
	}
}

// FuzzEnvelopes holds every parser to take any bytes: an error or what the
// checksum vouches for, never a panic.
func FuzzEnvelopes(f *testing.F) {
	f.Add(AppendRecord(nil, "action", testID, 3, 123, []byte(`{}`)), true)
	f.Add(appendOutbox(nil, testID[:], &store.OutboxEntry{Lane: "l\"", Effect: []byte(`1`)}), true)
	f.Add(appendEntry(nil, testID[:], 5, []byte(`1`)), true)
	f.Add(appendWebhookInfo(nil, &store.Webhook{ID: testID, Route: "r"}), true)
	f.Add(appendMeta(nil, testID[:], []byte("v")), false)
	f.Fuzz(func(t *testing.T, raw []byte, seal bool) {
		defer boundtest.Within(t, len(raw))()
		if seal { // what follows the checksum reaches the field parsers
			former := closeSeal(append(openSeal(nil), raw...), 0, sumOf(testID[:]))
			_, _ = ParseRecord("action", testID, former, new(Texts))
			_, _ = parseEntry(testID[:], former, new(Texts))
			_, _ = parseOutbox(testID[:], former)
			_, _, _ = parseWebhookInfo(testID[:], former)
			_, _ = parseMeta(testID[:], former)
			head := []byte{formPacked, 0, 0, 0, 0}
			raw = closePacked(append(head, raw...), 0, sumOf(testID[:]))
		}
		_, _ = ParseRecord("action", testID, raw, new(Texts))
		_, _ = parseEntry(testID[:], raw, new(Texts))
		_, _ = parseOutbox(testID[:], raw)
		_, _, _ = parseWebhookInfo(testID[:], raw)
		_, _ = parseMeta(testID[:], raw)
		var v claimValue
		_ = ParseJSON(testID[:], raw, &v)
		_, _, _ = splitBaseKey(raw)
		_, _ = laneOf(raw)
	})
}
