package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// hasInstant is what [core.CalendarDays] mean, by the clocks of package time: a date has an instant
// that those show on it, a window one that they show at its time of one of its days.
func hasInstant(d core.CalendarDays, at time.Time) bool {
	today, clock := at.Format("2006-01-02"), at.Format("15:04")
	for _, date := range d.Dates {
		if date.Date <= today && (date.Date == today || today <= date.To) {
			return true
		}
	}
	begins := func(w core.CalendarWindow, on time.Weekday) bool {
		return len(w.Days) == 0 || slices.ContainsFunc(w.Days, func(day string) bool { return strings.EqualFold(day, on.String()[:3]) })
	}
	for _, w := range d.Weekly {
		from, to := w.From, w.To
		if from == "" {
			from = "00:00"
		}
		if to == "" {
			to = "24:00"
		}
		overnight := to < from
		if begins(w, at.Weekday()) && from <= clock && (overnight || clock < to) {
			return true
		}
		if overnight && begins(w, (at.Weekday()+6)%7) && clock < to {
			return true
		}
	}
	return false
}

// leftOutBy is what a calendar means.
func leftOutBy(s core.CalendarSpec, at time.Time) bool {
	includes := len(s.Include.Dates)+len(s.Include.Weekly) > 0
	return hasInstant(s.Exclude, at) || includes && !hasInstant(s.Include, at)
}

func TestACalendarLeavesOutWhatItsDatesAndWindowsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawCalendarSpec(t)
		if spec.Validate() != nil {
			t.Skip()
		}
		c := madeCalendar(spec)
		require.Equal(t, spec.Name, c.Name)
		zone, err := schedule.LoadZone(c.Timezone)
		require.NoError(t, err)
		for range 20 {
			near := rapid.SampledFrom([]string{"2026-02-10T00:00:00Z", "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2026-12-31T12:00:00Z"}).Draw(t, "near")
			base, err := time.Parse(time.RFC3339, near)
			require.NoError(t, err)
			minutes := rapid.IntRange(-4*24*60, 4*24*60).Draw(t, "minutes")
			at := base.Add(time.Duration(minutes)*time.Minute + time.Duration(rapid.SampledFrom([]int64{0, 1, 59_999}).Draw(t, "ms"))*time.Millisecond)
			why := c.LeavesOut(effects.TimeOf(at))
			require.Equal(t, leftOutBy(spec, at.In(zone.Location())), why != "", "%s at %s in %s: %q", encoded(c), at, c.Timezone, why)
		}
	})
}

func TestACalendarSaysByWhichDateOrWindowItLeavesOut(t *testing.T) {
	c := madeCalendar(holidays())
	for at, want := range map[string]string{
		"2026-12-24T23:30:00+01:00": "calendar holidays-de excludes 2026-12-24 to 2026-12-26 (Christmas)",
		"2026-12-23T23:30:00+01:00": "calendar holidays-de excludes wed,fri 22:00-02:00 (maintenance)",
		"2026-04-03T00:00:00+02:00": "calendar holidays-de excludes 2026-04-03",
		"2026-04-02T23:59:59+02:00": "",
		"2026-04-05T12:00:00+02:00": "calendar holidays-de does not include this time of 2026-04-05",
		"2026-04-11T13:29:59+02:00": "",
		"2026-04-11T13:30:00+02:00": "calendar holidays-de does not include this time of 2026-04-11",
	} {
		parsed, err := time.Parse(time.RFC3339, at)
		require.NoError(t, err)
		assert.Equal(t, want, c.LeavesOut(effects.TimeOf(parsed)), at)
	}
	unread := core.Calendar{CalendarSpec: core.CalendarSpec{Name: "old", Timezone: "Mars"}}
	assert.Contains(t, unread.LeavesOut(start), "calendar old cannot be read: timezone:")
}

func TestACalendarSaysAMonthBeforeThatItRunsOut(t *testing.T) {
	c := madeCalendar(holidays())
	end, err := time.Parse(time.RFC3339, "2026-12-27T00:00:00+01:00") // when its last date has passed
	require.NoError(t, err)
	month := core.CalendarNoticeDays * 24 * time.Hour
	assert.Empty(t, c.RunsOut(effects.TimeOf(end.Add(-month))))
	said := "calendar holidays-de runs out: its last date is 2026-12-26: add the dates that follow"
	assert.Equal(t, said, c.RunsOut(effects.TimeOf(end.Add(-month+time.Millisecond))))
	assert.Equal(t, said, c.RunsOut(effects.TimeOf(end.Add(time.Hour))))
	assert.Equal(t, "2026-12-26", c.LastDate())

	assert.Empty(t, madeCalendar(weekend()).RunsOut(effects.MaxTime), "windows go on")
	assert.Empty(t, madeCalendar(weekend()).LastDate())
}

func TestACalendarIsBounded(t *testing.T) {
	spec := core.CalendarSpec{Name: "long"}
	for n := range core.MaxCalendarDates {
		spec.Exclude.Dates = append(spec.Exclude.Dates, core.CalendarDate{Date: start.Std().AddDate(0, 0, n).Format(time.DateOnly)})
	}
	require.NoError(t, spec.Validate())
	spec.Exclude.Dates = append(spec.Exclude.Dates, core.CalendarDate{Date: "2066-01-01"})
	assert.EqualError(t, spec.Validate(), "exclude.dates: 2001 are more than 2000: make one of those that follow one another, with to")

	spec = core.CalendarSpec{Name: "long"}
	for n := range core.MaxCalendarWindows + 1 {
		spec.Include.Weekly = append(spec.Include.Weekly, core.CalendarWindow{From: fmt.Sprintf("%02d:%02d", n/60, n%60)})
	}
	assert.EqualError(t, spec.Validate(), "include.weekly: 101 are more than 100")
}
