package effects_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
)

const noon effects.Time = 1_770_724_800_000 // 2026-02-10T12:00:00.000Z

func TestATimeIsReadInAnyOffsetAndWrittenInUTCWithMilliseconds(t *testing.T) {
	for in, want := range map[string]string{
		"2026-02-10T12:00:00Z":           "2026-02-10T12:00:00.000Z",
		"2026-02-10T12:00:00.5Z":         "2026-02-10T12:00:00.500Z",
		"2026-02-10T13:00:00+01:00":      "2026-02-10T12:00:00.000Z",
		"2026-02-10T06:30:00-05:30":      "2026-02-10T12:00:00.000Z",
		"2024-02-29T23:59:59.999Z":       "2024-02-29T23:59:59.999Z",
		"2000-02-29T00:00:00Z":           "2000-02-29T00:00:00.000Z",
		"2026-02-10T12:00:00.999999999Z": "2026-02-10T12:00:00.999Z", // cut, not rounded: never later than what was said
		"1970-01-01T00:00:00.001Z":       "1970-01-01T00:00:00.001Z",
		"9999-12-31T23:59:59.999Z":       "9999-12-31T23:59:59.999Z",
		"9999-12-31T23:59:59.9999Z":      "9999-12-31T23:59:59.999Z",
		"1970-01-01T00:30:00+00:29":      "1970-01-01T00:01:00.000Z",
	} {
		got, err := effects.ParseTime(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got.String(), in)
	}
}

func TestATimeThatIsNoTimeOrOutOfRangeIsRefusedWithTheValue(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "is not RFC 3339",
		"now":                       `time "now" is not RFC 3339, such as "2026-02-10T14:00:00Z"`,
		"2026-02-10":                "is not RFC 3339",
		"2026-02-10 12:00:00Z":      "is not RFC 3339",
		"2026-02-10T12:00:00":       "is not RFC 3339",
		"2025-02-29T00:00:00Z":      "is not RFC 3339",
		"2100-02-29T00:00:00Z":      "is not RFC 3339",
		"2026-13-01T00:00:00Z":      "is not RFC 3339",
		"2026-02-10T24:00:00Z":      "is not RFC 3339",
		"2026-02-10T12:00:60Z":      "is not RFC 3339",
		"10000-01-01T00:00:00Z":     "is not RFC 3339",
		"2026-02-10T4:00:00Z":       "is not RFC 3339",
		"2026-02-10T4:00:00+01:00":  "is not RFC 3339",
		"2026-02-10T12:00:00,5Z":    "is not RFC 3339",
		"2026-02-10T12:00:00+01:60": "is not RFC 3339",
		"2026-02-10T12:00:00+24:00": "is not RFC 3339",
		"1970-01-01T00:00:00Z":      "is out of range: it must be after 1970-01-01T00:00:00Z and before the year 10000",
		"1969-12-31T23:59:59.999Z":  "is out of range",
		"0000-01-01T00:00:00Z":      "is out of range",
		"9999-12-31T23:59:59-00:01": "is out of range",
		"1969-12-31T00:00:00." + strings.Repeat("0", 9000) + "Z": "is out of range",
		strings.Repeat("x", 10_000):                              "is not RFC 3339",
		"\xff\x00":                                               `time "\xff\x00" is not RFC 3339`,
		strings.Repeat("x", 63) + "€":                            strings.Repeat("x", 63) + `\xe2\u2026" is not RFC 3339`, // stored states have it so
	} {
		_, err := effects.ParseTime(in)
		require.Error(t, err, in)
		assert.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 600, "a bad value must not flood the log")
	}
}

func TestTheClockIsClampedIntoTheRangeThatEncodes(t *testing.T) {
	for _, row := range []struct {
		in   time.Time
		want effects.Time
	}{
		{time.Time{}, effects.MinTime},
		{time.Unix(0, 0), effects.MinTime},
		{time.Unix(0, 1_999_999), 1},
		{time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC), effects.MinTime},
		{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), effects.MaxTime},
		{time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), effects.MaxTime},
		{time.UnixMilli(int64(noon)).In(time.FixedZone("", 3600)), noon},
	} {
		assert.Equal(t, row.want, effects.TimeOf(row.in), "%s", row.in)
	}
	assert.Equal(t, time.UTC, noon.Std().Location())
	assert.Equal(t, time.Time{}, effects.Time(0).Std())
}

func TestTheAbsentTimeIsNull(t *testing.T) {
	var none effects.Time
	assert.True(t, none.IsZero())
	assert.Equal(t, "none", none.String())
	b, err := json.Marshal(struct{ A, B effects.Time }{B: noon})
	require.NoError(t, err)
	want := []byte(`{"A":null,"B":"2026-02-10T12:00:00.000Z"}`)
	assert.Equal(t, want, b)
	at := noon
	require.NoError(t, json.Unmarshal([]byte("null"), &at))
	assert.Zero(t, at)
	for _, bad := range []string{`""`, "0", "1770724800000", "{}", "[]", "true", `"null"`, `"2026-02-10T12:00:00\u005a"`} {
		at := noon
		require.Error(t, json.Unmarshal([]byte(bad), &at), bad)
		assert.Equal(t, noon, at, "a refused value changes nothing")
	}
}

func TestEveryTimeInRangeReadsBackAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := effects.Time(rapid.Int64Range(int64(effects.MinTime), int64(effects.MaxTime)).Draw(t, "at"))
		b, err := json.Marshal(at)
		require.NoError(t, err)
		require.Len(t, b, len(`"2026-02-10T12:00:00.000Z"`))
		require.Equal(t, string(b), string(at.AppendJSON(nil)))
		var back effects.Time
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, at, back)
		require.Equal(t, at, effects.TimeOf(at.Std()))
		parsed, err := effects.ParseTime(at.String())
		require.NoError(t, err)
		require.Equal(t, at, parsed)
	})
}

func TestTimesOrderAsTheirTextsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.Int64Range(int64(effects.MinTime), int64(effects.MaxTime))
		a, b := effects.Time(gen.Draw(t, "a")), effects.Time(gen.Draw(t, "b"))
		require.Equal(t, a.Before(b), a.String() < b.String())
		require.Equal(t, a.After(b), b.Before(a))
	})
}

func TestASumSaturatesAndNeverWrapsAround(t *testing.T) {
	for _, row := range []struct {
		at   effects.Time
		add  time.Duration
		want effects.Time
	}{
		{noon, 1500 * time.Microsecond, noon + 1},
		{noon, -1500 * time.Microsecond, noon - 1},
		{noon, -time.Hour, noon - 3_600_000},
		{effects.MaxTime, 1, effects.MaxTime},
		{effects.MaxTime, time.Millisecond, effects.MaxTime},
		{effects.MaxTime, math.MaxInt64, effects.MaxTime},
		{effects.MinTime, -time.Millisecond, effects.MinTime},
		{effects.MinTime, math.MinInt64, effects.MinTime},
		{0, -time.Hour, effects.MinTime},
		{math.MaxInt64, time.Hour, effects.MaxTime},
		{math.MinInt64, -time.Hour, effects.MinTime},
	} {
		assert.Equal(t, row.want, row.at.Add(row.add), "%d + %s", row.at, row.add)
	}
}

func TestADifferenceSaturatesAndNeverWrapsAround(t *testing.T) {
	for _, row := range []struct {
		a, b effects.Time
		want time.Duration
	}{
		{noon, noon, 0},
		{noon + 1, noon, time.Millisecond},
		{noon, noon + 1, -time.Millisecond},
		{effects.MaxTime, effects.MinTime, math.MaxInt64},
		{effects.MinTime, effects.MaxTime, math.MinInt64},
		{math.MaxInt64, math.MinInt64, math.MaxInt64},
		{math.MinInt64, math.MaxInt64, math.MinInt64},
		{9_223_372_036_854, 0, 9_223_372_036_854 * time.Millisecond},
		{9_223_372_036_855, 0, math.MaxInt64},
	} {
		assert.Equal(t, row.want, row.a.Sub(row.b), "%d - %d", row.a, row.b)
	}
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-02-10T12:00:00Z", "1970-01-01T00:00:00.001+00:00", "9999-12-31T23:59:59,9Z", "2024-02-29T4:00:00+24:00", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer boundtest.Within(t, len(s))()
		at, err := effects.ParseTime(s)
		quoted, jsonErr := json.Marshal(s)
		require.NoError(t, jsonErr)
		var viaJSON effects.Time
		jsonErr = viaJSON.UnmarshalJSON(quoted)
		if err != nil {
			require.Zero(t, at)
			require.Error(t, jsonErr)
			return
		}
		require.GreaterOrEqual(t, at, effects.MinTime)
		require.LessOrEqual(t, at, effects.MaxTime)
		std, stdErr := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, stdErr)
		require.Equal(t, std.UnixMilli(), int64(at))
		again, err := effects.ParseTime(at.String())
		require.NoError(t, err)
		require.Equal(t, at, again)
		if jsonErr == nil { // text that JSON escapes is refused
			require.Equal(t, at, viaJSON)
		}
	})
}
