package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
)

func TestAnHourWithManyTimesCountsEachOfThemByItsSchedule(t *testing.T) {
	q := &visit{zone: time.UTC}
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	var all []dayTime
	for i := range calendarLines {
		all = append(all, dayTime{effects.TimeOf(day.Add(time.Duration(i) * time.Minute)), 1, textOf("often").to("/a"), badge("completed")})
	}
	all = append(all, dayTime{effects.TimeOf(day.Add(30 * time.Minute)), 25, textOf("often").to("/a"), badge("missed")}, dayTime{effects.TimeOf(day.Add(40 * time.Minute)), 1, textOf("seldom").to("/b"), badge("missed")})
	rows := q.hours(day, day.Add(24*time.Hour), all).Table.Rows
	require.Len(t, rows, 2)
	assert.Equal(t, "00:00 to 01:00 UTC", rows[0][0].Text)
	var counted []string
	for _, part := range append(rows[0][2].More, rows[1][2].More...) {
		counted = append(counted, part.Text+" "+part.Hint)
	}
	assert.Equal(t, []string{"completed × 12", "missed × 25", "missed × 1"}, counted)
}
