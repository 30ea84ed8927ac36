package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where the clocks skip midnight the day begins at one, and the day after it is another one.
func TestADayBeginsWhereTheClocksSkipMidnightOrRepeatIt(t *testing.T) {
	for _, test := range []struct{ zone, day, from, to string }{
		{"America/Santiago", "2026-09-06", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
		{"America/Santiago", "2026-09-05", "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"America/Havana", "2026-03-08", "2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"},
		{"America/Havana", "2026-11-01", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"Europe/Berlin", "2026-03-29", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
	} {
		zone, err := time.LoadLocation(test.zone)
		require.NoError(t, err)
		date, err := time.Parse(time.DateOnly, test.day)
		require.NoError(t, err)
		day := dayOf(date, zone)
		assert.Equal(t, []string{test.from, test.to}, []string{day.from.Format(time.RFC3339), day.to.Format(time.RFC3339)}, "%s %s", test.zone, test.day)
		after, err := time.Parse(time.DateOnly, day.beside(1))
		require.NoError(t, err)
		assert.Equal(t, day.to, dayOf(after, zone).from, "the days follow one another")
		assert.NotEqual(t, test.day, day.beside(1))
	}
}

// An hour with too many entries is counted by times, of which an entry may have many.
func TestACountedHourCountsTimesAndNotEntries(t *testing.T) {
	q := &visit{zone: time.UTC}
	rows := q.countedHour(time.Unix(0, 0).UTC(), []dayTime{
		{count: 30, name: cell{Text: "a", Href: "a"}, what: badge("skipped")}, {count: 12, name: cell{Text: "a", Href: "a"}, what: badge("skipped")},
		{count: 1, name: cell{Text: "a", Href: "a"}, what: badge("completed")},
	})
	require.Len(t, rows, 1)
	assert.Equal(t, []string{"× 1", "× 42"}, []string{rows[0][2].More[0].Hint, rows[0][2].More[1].Hint})
}
