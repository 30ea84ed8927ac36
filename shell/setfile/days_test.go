package setfile_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/setfile"
)

func TestWindowsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]core.CalendarWindow{
		"sat,sun":                    {Days: []string{"sat", "sun"}},
		"fri-mon 22:00-06:00=closed": {Days: []string{"fri", "sat", "sun", "mon"}, From: "22:00", To: "06:00", Name: "closed"},
		"daily 00:00-01:00":          {From: "00:00", To: "01:00"},
	} {
		got, err := setfile.ParseWindow(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, got, s)
	}
	_, err := setfile.ParseWindow("holidays")
	require.EqualError(t, err, `"holidays" is no day: use mon, tue, wed, thu, fri, sat, sun, or daily`)
	_, err = setfile.ParseWindow("mon 22:00")
	require.EqualError(t, err, `"mon 22:00" has no span of the day: write it such as "mon-fri 22:00-06:00"`)
}

func TestDatesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]core.CalendarDate{
		"2026-12-24":                       {Date: "2026-12-24"},
		"2026-12-25..2026-12-26=Christmas": {Date: "2026-12-25", To: "2026-12-26", Name: "Christmas"},
	} {
		assert.Equal(t, want, setfile.ParseDate(s), s)
	}
}
