package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

func compiled(t require.TestingT, spec CalendarSpec) Calendar {
	table, err := spec.normal().compile()
	require.NoError(t, err)
	return Calendar{CalendarSpec: spec, compiled: table}
}

func at(text string) Time {
	v, err := effects.ParseTime(text)
	if err != nil {
		panic(err)
	}
	return v
}

// What a schedule goes over in one step is left out to the last instant, whatever the clocks do.
func TestACalendarLeavesOutAllInstantsThatAreGoneOverInOneStep(t *testing.T) {
	begins := at("2011-12-01T00:00:00Z")
	drawDays := func(t *rapid.T, name string) (d CalendarDays) {
		for range rapid.IntRange(0, 3).Draw(t, name+" dates") {
			day := rapid.IntRange(0, 400).Draw(t, "day")
			text := func(day int) string { return dateText(int64(begins)/dayMS + int64(day)) }
			d.Dates = append(d.Dates, CalendarDate{Date: text(day), To: text(day + rapid.IntRange(0, 40).Draw(t, "more"))})
		}
		for range rapid.IntRange(0, 3).Draw(t, name+" windows") {
			from := rapid.IntRange(0, 23).Draw(t, "from")
			to := (from + rapid.IntRange(1, 23).Draw(t, "hours")) % 24
			d.Weekly = append(d.Weekly, CalendarWindow{
				Days: rapid.SliceOfN(rapid.SampledFrom(weekdays), 0, 4).Draw(t, "days"),
				From: fmt.Sprintf("%02d:00", from), To: fmt.Sprintf("%02d:00", to),
			})
		}
		return d
	}
	rapid.Check(t, func(t *rapid.T) {
		c := compiled(t, CalendarSpec{
			Namespace: "n", Tenant: "t", Name: "c",
			Timezone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns"}).Draw(t, "zone"),
			Exclude:  drawDays(t, "exclude"), Include: drawDays(t, "include"),
		})
		from := begins.Add(time.Duration(rapid.IntRange(0, 400*24*60).Draw(t, "minute")) * time.Minute)
		until := c.leftOutUntil(from)
		assert.Equal(t, c.LeavesOut(from) == "", until == 0, "at %s", from)
		if until == 0 {
			return
		}
		require.Greater(t, until, from)
		last := min(until, from.Add(800*24*time.Hour)) - 1
		assert.NotEmpty(t, c.LeavesOut(last), "%s is gone over from %s on", last, from)
		for range 50 {
			between := Time(rapid.Int64Range(int64(from), int64(last)).Draw(t, "between"))
			assert.NotEmpty(t, c.LeavesOut(between), "%s is gone over from %s on", between, from)
		}
	})
}

// However often a schedule is due, what a calendar leaves out of it costs as many steps as the
// calendar has spans.
func TestAScheduleOfWhichACalendarLeavesOutNearlyAllIsAskedInFewSteps(t *testing.T) {
	minutely := schedule.Spec{Expr: "* * * * * *", Zone: "Europe/Berlin"}
	s, err := ScheduleOptions{}.timetable(minutely, namedID("x"), 0)
	require.NoError(t, err)
	rarely := s.with(CalendarSet(compiled(t, CalendarSpec{
		Namespace: "n", Tenant: "t", Name: "c", Timezone: "Europe/Berlin",
		Include: CalendarDays{Dates: []CalendarDate{{Date: "2026-12-24"}, {Date: "2027-12-24"}}},
	})).of([]string{"c"}))
	now := at("2026-12-25T00:00:00Z")
	assert.Equal(t, []Time{at("2027-12-23T23:00:00Z"), at("2027-12-23T23:00:01Z")}, rarely.upcoming(now, now, effects.MaxTime, 2))
	assert.Equal(t, []Time{at("2026-12-24T22:59:58Z"), at("2026-12-24T22:59:59Z")}, rarely.last(at("2026-01-01T00:00:00Z"), at("2027-12-23T00:00:00Z"), 2))

	for name, set := range map[string]calendarSet{
		"a calendar of whole weeks": CalendarSet(compiled(t, CalendarSpec{
			Namespace: "n", Tenant: "t", Name: "c", Timezone: "Europe/Berlin", Exclude: CalendarDays{Weekly: []CalendarWindow{{To: "12:00"}, {From: "12:00"}}},
		})).of([]string{"c"}),
		"a calendar that is gone": Calendars{}.of([]string{"c"}),
	} {
		steps := 0
		times, whole := s.with(set).firing(now, now.Add(366*24*time.Hour), 2*2*366)
		for range times {
			steps++
		}
		assert.Zero(t, steps, name)
		assert.True(t, *whole, "%s: a step goes over a window at least", name)
	}
}
