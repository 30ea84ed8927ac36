package page

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

func TestTheLinesOfACalendarReadBackAsItsDays(t *testing.T) {
	days := core.CalendarDays{
		Dates:  []core.CalendarDate{{Date: "2026-12-25", Name: "Christmas Day"}, {Date: "2026-12-31", To: "2027-01-01"}},
		Weekly: []core.CalendarWindow{{Days: []string{"mon", "tue"}, From: "09:00", To: "17:00", Name: "Office hours"}, {From: "12:00", To: "13:00"}, {Days: []string{"sun"}, From: "00:00", To: "24:00"}},
	}
	assert.Equal(t, days.Dates, readDates(dateLines(days)))
	weekly, err := readWeekly(weekLines(days))
	require.NoError(t, err)
	for i := range weekly {
		if len(weekly[i].Days) == 0 {
			weekly[i].Days = nil
		}
	}
	assert.Equal(t, days.Weekly, weekly)
}
