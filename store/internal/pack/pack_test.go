package pack_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/internal/pack"
)

// state is a finished action as the core writes it.
const state = `{"id":"01a208df-3c3f-77fd-a5e8-13cf23c1a87a","namespace":"bench","tenant":"t","label":"benchmark","tool_name":"count","action_type":"","tool_input":{"to":"team@example.com","subject":"Daily Digest"},"trigger":{"type":"scheduled","next_tick_at":"2026-11-23T14:46:17.407Z"},"recurrence":null,"policy":{"on_interrupt":"fail","max_attempts":3,"timeout_ms":0},"dedup_key":"","metadata":null,"labels":null,"occurrence":"00000000-0000-0000-0000-000000000000","owner":null,"status":{"type":"completed","result":null},"created_at":"2026-11-23T14:46:17.415Z","updated_at":"2026-11-23T14:46:17.417Z","run":1,"cycle":1,"attempt":1,"started_at":"2026-11-23T14:46:17.415Z","finished_at":"2026-11-23T14:46:17.417Z","last_run":null,"resume_at":null}`

func entries(t testing.TB) []string {
	text, err := os.ReadFile("dictionary.txt")
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func roundTrip(t require.TestingT, text string) (packed []byte) {
	packed = pack.Append([]byte("before"), []byte(text))
	require.Equal(t, "before", string(packed[:6]))
	packed = packed[6:]
	back, err := pack.AppendText([]byte("before"), packed)
	require.NoError(t, err)
	require.Equal(t, "before"+text, string(back))
	return packed
}

func TestAnActionIsAQuarterOfItsText(t *testing.T) {
	assert.Less(t, len(roundTrip(t, state)), len(state)/4+20)
}

// A dictionary that changes makes what was stored before unreadable.
func TestTheDictionaryDoesNotChange(t *testing.T) {
	text, err := os.ReadFile("dictionary.txt")
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	assert.Equal(t, "28695cfa3250961b81846aa6fe4c590e6e770ad0b5fb0d78c865022299491294", hex.EncodeToString(sum[:]))
	assert.Len(t, entries(t), 36+255)
}

func TestWhatWasPackedBeforeIsStillRead(t *testing.T) {
	for _, row := range []struct{ packed, text string }{
		{"00ff", "\xff"},
		{"000a", "\n"},
		{"0101a208df3c3f77fda5e813cf23c1a87a", `"01a208df-3c3f-77fd-a5e8-13cf23c1a87a"`},
		{"0201a208df3c3f", `"2026-11-23T14:46:17.407Z"`},
		{"02e677d21fdbff", `"9999-12-31T23:59:59.999Z"`},
		{"02000000000000", `"1970-01-01T00:00:00.000Z"`},
		{"04", `,"metadata":null,"labels":null,"occurrence":"00000000-0000-0000-0000-000000000000","owner":null`},
		{"1f", `{"id":`},
		{"f8", `,"at":`},
		{"fe", `,"owner":{"kind":"`},
		{"ff", `,"queue":"`},
		{"0300", `,"holder":"`},
		{"03fe", `,"action_id":`},
		{"7b7d", `{}`},
	} {
		packed, err := hex.DecodeString(row.packed)
		require.NoError(t, err)
		text, err := pack.AppendText(nil, packed)
		require.NoError(t, err, row.packed)
		assert.Equal(t, row.text, string(text), row.packed)
		if len(row.text) > 7 { // an entry is looked for in eight bytes
			assert.Equal(t, row.packed, hex.EncodeToString(pack.Append(nil, []byte(row.text))))
		}
	}
}

func TestEachEntryIsOneCodeAndEachDayIsOneTime(t *testing.T) {
	for _, e := range entries(t) {
		packed := roundTrip(t, e+"  ")
		assert.LessOrEqual(t, len(packed), 2+2, e)
	}
	for day := time.Unix(0, 0).UTC(); day.Year() < 10000; day = day.AddDate(0, 0, 1) {
		text := day.Add(time.Duration(day.Unix()%86399) * 1001 * time.Millisecond).Format(`"2006-01-02T15:04:05.000Z"`)
		if packed := roundTrip(t, text); len(packed) != 7 {
			t.Fatal(text, packed)
		}
	}
	for _, text := range []string{
		`"2026-02-29T00:00:00.000Z"`, `"2026-04-31T00:00:00.000Z"`, `"2026-00-10T00:00:00.000Z"`, `"2026-13-10T00:00:00.000Z"`,
		`"2026-01-00T00:00:00.000Z"`, `"2026-01-01T24:00:00.000Z"`, `"2026-01-01T00:60:00.000Z"`, `"2026-01-01T00:00:60.000Z"`,
		`"1969-12-31T23:59:59.999Z"`, `"2026-01-01t00:00:00.000Z"`, `"2026-01-01T00:00:00,000Z"`, `"2026-01-01T00:00:00.0/0Z"`,
		`"2026-01-01T00:00:00.000z"`, `"2026-01-01T00:00:0a.000Z"`, `"2100-02-29T00:00:00.000Z"`,
		`"01A208df-3c3f-77fd-a5e8-13cf23c1a87a"`, `"01g208df-3c3f-77fd-a5e8-13cf23c1a87a"`, `"01a208df-3c3f-77fd-a5e8_13cf23c1a87a"`,
	} {
		assert.Len(t, roundTrip(t, text), len(text), "it stands as it is: %s", text)
	}
	assert.Len(t, roundTrip(t, `"2000-02-29T00:00:00.000Z"`), 7)
}

func TestEveryTextComesBack(t *testing.T) {
	all := entries(t)
	part := rapid.OneOf(
		rapid.SampledFrom(all),
		rapid.Map(rapid.SampledFrom(all), func(e string) string { return e[:len(e)-1] }),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) string { return `"` + uuid.UUID(b).String() + `"` }),
		rapid.Map(rapid.Int64Range(-1e14, 3e14), func(ms int64) string {
			return time.UnixMilli(ms).UTC().Format(`"2006-01-02T15:04:05.000Z"`)
		}),
		rapid.Just(state),
	)
	rapid.Check(t, func(t *rapid.T) {
		roundTrip(t, strings.Join(rapid.SliceOf(part).Draw(t, "parts"), ""))
	})
}

func TestWhatIsNotPackedIsRefused(t *testing.T) {
	for _, text := range []string{"\x00", "\x00a", "\x01123456789012345", "\x0212345", "\x02\xe6\x77\xd2\x1f\xdc\x00", "\x02\xff\xff\xff\xff\xff\xff", "\x03", "abc\x03"} {
		_, err := pack.AppendText(nil, []byte(text))
		assert.ErrorIs(t, err, pack.ErrDamaged, "%q", text)
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte(state))
	f.Add([]byte("\x00\xff\"2026-11-23T14:46:17.407Z\""))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer boundtest.Within(t, len(text))()
		roundTrip(t, string(text))
	})
}

func FuzzAppendText(f *testing.F) {
	f.Add(pack.Append(nil, []byte(state)))
	f.Fuzz(func(t *testing.T, packed []byte) {
		defer boundtest.Within(t, len(packed))()
		if text, err := pack.AppendText(nil, packed); err == nil {
			roundTrip(t, string(text))
		} else {
			require.ErrorIs(t, err, pack.ErrDamaged)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	var dst []byte
	b.SetBytes(int64(len(state)))
	b.ReportAllocs()
	for b.Loop() {
		dst = pack.Append(dst[:0], []byte(state))
	}
	b.ReportMetric(float64(len(dst)), "packed-bytes")
}

func BenchmarkAppendText(b *testing.B) {
	packed := pack.Append(nil, []byte(state))
	var dst []byte
	b.SetBytes(int64(len(state)))
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = pack.AppendText(dst[:0], packed)
	}
}
