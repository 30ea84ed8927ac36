package effects

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Time is an instant in wall-clock UTC with millisecond precision, counted
// from 1970-01-01T00:00:00Z (R10). It is the only form in which time stands in
// state, journal and effects: unlike [time.Time] it is comparable with ==,
// carries neither zone nor monotonic reading, and encodes the same way
// everywhere.
//
// The zero Time means "none": it is how an optional time says that it is
// absent, and its JSON form is null. JSON of any other Time is RFC 3339 in UTC
// with exactly three decimals: "2026-02-10T14:00:00.000Z".
type Time int64

// MinTime and MaxTime bound what [ParseTime] and [Time.UnmarshalJSON] accept.
const (
	MinTime Time = 1                   // the first millisecond after 1970-01-01T00:00:00Z
	MaxTime Time = 253_402_300_799_999 // 9999-12-31T23:59:59.999Z
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// TimeOf gives t in UTC, cut to the millisecond. An instant outside
// [MinTime, MaxTime] is clamped into it, so that a broken system clock can
// never produce a Time that does not encode.
func TimeOf(t time.Time) Time {
	return min(max(Time(t.UnixMilli()), MinTime), MaxTime)
}

// ParseTime reads an RFC 3339 timestamp with any zone offset, and cuts it to
// the millisecond. The error names the value and the range that is accepted.
func ParseTime(s string) (Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !strict(s) {
		return 0, fmt.Errorf("time %s is not RFC 3339, such as %q", strconv.QuoteToASCII(clipTime(s)), "2026-02-10T14:00:00Z")
	}
	ms := Time(t.UnixMilli())
	if ms < MinTime || ms > MaxTime {
		return 0, fmt.Errorf("time %q is out of range: it must be after 1970-01-01T00:00:00Z and before the year 10000", clipTime(s))
	}
	return ms, nil
}

// strict refuses what time.Parse takes beyond RFC 3339 (golang.org/issue/54580):
// an hour of one digit, a comma for the point, an offset of a day or more.
func strict(s string) bool {
	if s[13] != ':' || strings.Contains(s, ",") {
		return false
	}
	n := len(s)
	return s[n-1] == 'Z' || s[n-5:n-3] <= "23" && s[n-2:] <= "59"
}

// IsZero reports whether t is the absent time.
func (t Time) IsZero() bool { return t == 0 }

// Std gives t as a [time.Time] in UTC. The zero Time gives the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// Add gives t+d, cut to the millisecond and clamped to [MinTime, MaxTime].
// The sum saturates, it never wraps around.
func (t Time) Add(d time.Duration) Time {
	t = min(max(t, 0), MaxTime)
	ms := d.Milliseconds() // at most 9.2e12, and t at most 2.5e14: the sum fits
	return min(max(t+Time(ms), MinTime), MaxTime)
}

// Sub gives t-u. A difference of more than 292 years saturates at the longest
// [time.Duration], it never wraps around.
func (t Time) Sub(u Time) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	// Both are clamped first, so that their difference fits.
	ms := int64(min(max(t, -MaxTime), MaxTime) - min(max(u, -MaxTime), MaxTime))
	switch {
	case ms > most:
		return math.MaxInt64
	case ms < -most:
		return math.MinInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// Before reports whether t comes before u.
func (t Time) Before(u Time) bool { return t < u }

// After reports whether t comes after u.
func (t Time) After(u Time) bool { return t > u }

// String gives the JSON form without quotes, or "none" for the zero Time.
func (t Time) String() string {
	if t == 0 {
		return "none"
	}
	return string(t.append(nil))
}

// append writes the layout by hand: it is encoded several times per action.
func (t Time) append(b []byte) []byte {
	u := t.Std()
	year, month, day := u.Date()
	hour, minute, sec := u.Clock()
	b = append(b,
		digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(int(month)/10), digit(int(month)), '-',
		digit(day/10), digit(day), 'T')
	ms := int(t % 1000)
	return append(b,
		digit(hour/10), digit(hour), ':',
		digit(minute/10), digit(minute), ':',
		digit(sec/10), digit(sec), '.',
		digit(ms/100), digit(ms/10), digit(ms), 'Z')
}

func digit(n int) byte { return byte('0' + n%10) }

// AppendJSON appends the JSON form of t to b.
func (t Time) AppendJSON(b []byte) []byte {
	if t == 0 {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.append(b)
	return append(b, '"')
}

// MarshalJSON encodes t as described at [Time].
func (t Time) MarshalJSON() ([]byte, error) {
	return t.AppendJSON(make([]byte, 0, len(timeLayout)+2)), nil
}

// UnmarshalJSON accepts null or any RFC 3339 string in range.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = 0
		return nil
	}
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return fmt.Errorf("time %s is not a string in RFC 3339", strconv.QuoteToASCII(clipTime(string(b))))
	}
	v, err := ParseTime(string(b[1 : len(b)-1]))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// clipTime shortens a bad time for an error. It may part a character, whose bytes are then
// quoted, as in "\xe2…": pipelines that fail with such an error have it in their stored state,
// and a replay must make it again byte for byte.
func clipTime(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
