package icalendar

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/boundtest"
)

var from, until = time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC), time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)

// file is an iCalendar file with the events.
func file(events ...string) string {
	lines := []string{"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN"}
	for _, e := range events {
		lines = append(lines, "BEGIN:VEVENT", "UID:x", "DTSTAMP:20260101T000000Z")
		lines = append(append(lines, strings.Split(e, "|")...), "END:VEVENT")
	}
	return strings.Join(append(lines, "END:VCALENDAR", ""), "\r\n")
}

func TestTheWholeDaysOfAFileAreDates(t *testing.T) {
	for name, tc := range map[string]struct {
		event string
		want  []core.CalendarDate
	}{
		"a day":               {"DTSTART;VALUE=DATE:20261225|DTEND;VALUE=DATE:20261226|SUMMARY:Christmas\\, first day", []core.CalendarDate{{Date: "2026-12-25", Name: "Christmas, first day"}}},
		"without an end":      {"DTSTART;VALUE=DATE:20261225", []core.CalendarDate{{Date: "2026-12-25"}}},
		"several days":        {"DTSTART;VALUE=DATE:20261224|DTEND;VALUE=DATE:20270102|SUMMARY:closed", []core.CalendarDate{{Date: "2026-12-24", To: "2027-01-01", Name: "closed"}}},
		"a length":            {"DTSTART;VALUE=DATE:20261224|DURATION:P3D", []core.CalendarDate{{Date: "2026-12-24", To: "2026-12-26"}}},
		"past":                {"DTSTART;VALUE=DATE:20261123", nil},
		"today":               {"DTSTART;VALUE=DATE:20261124", []core.CalendarDate{{Date: "2026-11-24"}}},
		"from before today":   {"DTSTART;VALUE=DATE:20261120|DTEND;VALUE=DATE:20261125", []core.CalendarDate{{Date: "2026-11-20", To: "2026-11-24"}}},
		"far ahead":           {"DTSTART;VALUE=DATE:20290101", nil},
		"cancelled":           {"DTSTART;VALUE=DATE:20261225|STATUS:CANCELLED", nil},
		"each year":           {"DTSTART;VALUE=DATE:20001003|RRULE:FREQ=YEARLY|SUMMARY:Unity", []core.CalendarDate{{Date: "2027-10-03", Name: "Unity"}, {Date: "2028-10-03", Name: "Unity"}}},
		"a rule with holes":   {"DTSTART;VALUE=DATE:20261201|RRULE:FREQ=DAILY;COUNT=4|EXDATE;VALUE=DATE:20261202,20261203", []core.CalendarDate{{Date: "2026-12-01"}, {Date: "2026-12-04"}}},
		"and some more":       {"DTSTART;VALUE=DATE:20261201|RDATE;VALUE=DATE:20261205,20261207", []core.CalendarDate{{Date: "2026-12-01"}, {Date: "2026-12-05"}, {Date: "2026-12-07"}}},
		"the 4th of November": {"DTSTART;VALUE=DATE:20251127|RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH|SUMMARY:Thanksgiving", []core.CalendarDate{{Date: "2026-11-26", Name: "Thanksgiving"}, {Date: "2027-11-25", Name: "Thanksgiving"}, {Date: "2028-11-23", Name: "Thanksgiving"}}},
	} {
		got, err := Read(strings.NewReader(file(tc.event)), from, until)
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, got.Dates, name)
		assert.NoError(t, core.CalendarSpec{Name: "x", Exclude: core.CalendarDays{Dates: got.Dates}}.Validate(), name)
	}
}

func TestEventsOfATimeOfDayAreLeftOutAndNamed(t *testing.T) {
	got, err := Read(strings.NewReader(file("DTSTART:20261225T090000Z|DTEND:20261225T100000Z|SUMMARY:breakfast", "DTSTART;VALUE=DATE:20261226")), from, until)
	require.NoError(t, err)
	assert.Equal(t, Dates{Dates: []core.CalendarDate{{Date: "2026-12-26"}}, TimesOfDay: []string{"breakfast"}}, got)
}

func TestAFileThatCannotBeReadIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "it is empty: it must be an iCalendar file, which begins with BEGIN:VCALENDAR",
		"date,name\n2026-12-25,x":       "it is no iCalendar file: ",
		"BEGIN:VCALENDAR\r\nX;A=":       "it is no iCalendar file: a line cannot be read: ",
		file("SUMMARY:x"):               `event 1, "x": it has no DTSTART`,
		file("DTSTART;VALUE=DATE:2026"): `event 1, "": DTSTART: `,
		file("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=OFTEN"):    `event 1, "": RRULE: `,
		file("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=SECONDLY"): `event 1, "": RRULE: SECONDLY recurs more often than daily, which a whole day cannot`,
		file("DTSTART;VALUE=DATE:20261225|EXDATE:x"):            `event 1, "": EXDATE: "x" is no date`,
		file("DTSTART;VALUE=DATE:20200101|RRULE:FREQ=DAILY") + file("DTSTART;VALUE=DATE:20200101|RRULE:FREQ=DAILY") + file("DTSTART;VALUE=DATE:20200101|RRULE:FREQ=DAILY"): "it has more than 2000 dates from 2026-11-24 until 2029-01-01: choose a shorter time",
		strings.Repeat("x", MaxBytes+1): "it has more than 8388608 bytes",
	} {
		_, err := Read(strings.NewReader(text), from, until)
		if assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), want)
		}
	}
}

// Whatever a file has, reading it ends, and what it gives can stand in a calendar.
func FuzzRead(f *testing.F) {
	f.Add(file("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY|SUMMARY:x"))
	f.Add(file("DTSTART;VALUE=DATE:20261201|RRULE:FREQ=DAILY;COUNT=4|EXDATE;VALUE=DATE:20261202"))
	f.Add("BEGIN:VCALENDAR\r\nX;A=")
	f.Fuzz(func(t *testing.T, text string) {
		defer boundtest.Within(t, len(text))()
		got, err := Read(strings.NewReader(text), from, until)
		if err == nil && len(got.Dates) > 0 {
			require.NoError(t, core.CalendarSpec{Name: "x", Exclude: core.CalendarDays{Dates: got.Dates}}.Validate())
		}
	})
}
