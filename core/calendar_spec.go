package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CalendarSpec is what a creator says of a calendar.
//
// An instant is left out that Exclude has. Where Include has anything, an instant is left out,
// too, that it has not: "Monday to Friday, but for the holidays" is a weekly window to include,
// and dates to exclude. Exclude decides where both have the instant.
type CalendarSpec struct {
	Namespace   string       `json:"namespace"`
	Tenant      string       `json:"tenant"`
	Name        string       `json:"name"`
	Timezone    string       `json:"timezone"` // in which dates begin, and windows are meant
	Description string       `json:"description,omitempty"`
	Exclude     CalendarDays `json:"exclude"`
	Include     CalendarDays `json:"include"`
}

// CalendarDays are dates and weekly windows. The zero CalendarDays has no instant.
type CalendarDays struct {
	Dates  []CalendarDate   `json:"dates,omitempty"`
	Weekly []CalendarWindow `json:"weekly,omitempty"`
}

// CalendarDate is a date, or several in a row, from midnight to midnight.
type CalendarDate struct {
	Date string `json:"date"`           // such as "2026-12-25"
	To   string `json:"to,omitempty"`   // the last date, inclusive; empty: Date
	Name string `json:"name,omitempty"` // such as "Christmas"
}

// CalendarWindow is a span of each week, as the clocks show it: where they are set back it has the
// hour twice, where they are set forward it misses it.
type CalendarWindow struct {
	Days []string `json:"days,omitempty"` // "mon" to "sun", those on which it begins; empty: each
	From string   `json:"from,omitempty"` // such as "09:00"; empty: "00:00"
	// To is when it ends, exclusive, on the next day if it is not later than From; empty: "24:00".
	To   string `json:"to,omitempty"`
	Name string `json:"name,omitempty"`
}

// Limits of a calendar.
const (
	MaxCalendarDates   = 2000 // to exclude and to include each
	MaxCalendarWindows = 100  // likewise
)

// weekdays are the names of the days, Monday first, as windows have them.
var weekdays = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} // read-only: a table

func (s CalendarSpec) scope() Scope { return Scope{s.Namespace, s.Tenant} }

// normal gives the one form of what is said: dates in their order and each once, the days of
// windows in that of the week.
func (s CalendarSpec) normal() CalendarSpec {
	s.Timezone = zoneOr(s.Timezone)
	s.Exclude, s.Include = s.Exclude.normal(), s.Include.normal()
	return s
}

func (d CalendarDays) normal() CalendarDays {
	dates := slices.Clone(d.Dates)
	for i := range dates {
		if dates[i].To == dates[i].Date {
			dates[i].To = ""
		}
	}
	slices.SortStableFunc(dates, func(a, b CalendarDate) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.To, b.To), cmp.Compare(a.Name, b.Name))
	})
	dates = slices.Compact(dates)
	weekly := slices.Clone(d.Weekly)
	for i := range weekly {
		weekly[i] = weekly[i].normal()
	}
	return CalendarDays{nilIfEmpty(dates, len(dates)), nilIfEmpty(weekly, len(weekly))}
}

func (w CalendarWindow) normal() CalendarWindow {
	days := slices.Clone(w.Days)
	for i, d := range days {
		days[i] = strings.ToLower(d)
	}
	slices.SortStableFunc(days, func(a, b string) int {
		return cmp.Compare(slices.Index(weekdays, a), slices.Index(weekdays, b))
	})
	days = slices.Compact(days)
	w.Days = nilIfEmpty(days, len(days)%len(weekdays))
	if w.From == "00:00" {
		w.From = ""
	}
	if w.To == "24:00" {
		w.To = ""
	}
	return w
}

func (s CalendarSpec) equal(o CalendarSpec) bool {
	return string(appendMarshaled(nil, s)) == string(appendMarshaled(nil, o))
}

// Validate says what is wrong with a calendar that is to be made; nil: nothing.
func (s CalendarSpec) Validate() error {
	_, err := s.normal().compile()
	return err
}

// empty reports whether there is no instant.
func (d CalendarDays) empty() bool { return len(d.Dates)+len(d.Weekly) == 0 }

// validate checks what compile does not.
func (s CalendarSpec) validate() error {
	return errors.Join(
		checkTenant("", s.Namespace, s.Tenant),
		checkName("name", s.Name, true),
		checkText("description", s.Description),
		s.Exclude.validate("exclude"),
		s.Include.validate("include"),
		checkSize("calendar", s),
	)
}

func (d CalendarDays) validate(field string) error {
	if n := len(d.Dates); n > MaxCalendarDates {
		return fmt.Errorf("%s.dates: %d are more than %d: make one of those that follow one another, with to", field, n, MaxCalendarDates)
	}
	if n := len(d.Weekly); n > MaxCalendarWindows {
		return fmt.Errorf("%s.weekly: %d are more than %d", field, n, MaxCalendarWindows)
	}
	return nil
}

// days gives the first and the last day, counted from 1970-01-01.
func (d CalendarDate) days(field string) (first, last int64, err error) {
	if first, err = parseDate(field+".date", d.Date); err != nil {
		return 0, 0, err
	}
	last = first
	if d.To != "" {
		if last, err = parseDate(field+".to", d.To); err != nil {
			return 0, 0, err
		}
	}
	if last < first {
		return 0, 0, fmt.Errorf("%s.to: %s is before %s", field, d.To, d.Date)
	}
	return first, last, checkShortText(field+".name", d.Name)
}

func parseDate(field, v string) (day int64, err error) {
	at, err := time.Parse(time.DateOnly, v)
	switch {
	case v == "":
		return 0, fmt.Errorf(`%s: missing: give a date, such as "2026-12-25"`, field)
	case err != nil:
		return 0, fmt.Errorf(`%s: %q is no date: write it such as "2026-12-25"`, field, clip(v))
	case at.Year() < 1970:
		return 0, fmt.Errorf("%s: %s is before 1970", field, v)
	}
	return at.UnixMilli() / dayMS, nil
}

func dateText(day int64) string { return time.UnixMilli(day * dayMS).UTC().Format(time.DateOnly) }

// minutes gives the days, 0 for Monday, on which the window begins, and its minutes of the day.
// To is up to a day behind From, and may be on the next day.
func (w CalendarWindow) minutes(field string) (days []int, from, to int, err error) {
	for i, d := range w.Days {
		n := slices.Index(weekdays, d)
		if n < 0 {
			return nil, 0, 0, fmt.Errorf("%s.days[%d]: %q is no day: use %s", field, i, clip(d), strings.Join(weekdays, ", "))
		}
		days = append(days, n)
	}
	if len(days) == 0 {
		days = []int{0, 1, 2, 3, 4, 5, 6}
	}
	if from, err = parseClock(field+".from", cmp.Or(w.From, "00:00")); err != nil {
		return nil, 0, 0, err
	}
	if to, err = parseClock(field+".to", cmp.Or(w.To, "24:00")); err != nil {
		return nil, 0, 0, err
	}
	switch {
	case from == dayMinutes:
		return nil, 0, 0, fmt.Errorf(`%s.from: "24:00" ends a day: write "00:00" and the day after`, field)
	case from == to:
		return nil, 0, 0, fmt.Errorf(`%s.to: %s is also from: leave both out for the whole day`, field, w.To)
	case to < from:
		to += dayMinutes
	}
	return days, from, to, checkShortText(field+".name", w.Name)
}

// parseClock reads "HH:MM", up to "24:00".
func parseClock(field, v string) (minute int, err error) {
	if v == "24:00" {
		return dayMinutes, nil
	}
	at, err := time.Parse("15:04", v)
	if err != nil || len(v) != len("15:04") {
		return 0, fmt.Errorf(`%s: %q is no time of the day: write it such as "09:00"`, field, clip(v))
	}
	return at.Hour()*60 + at.Minute(), nil
}

// String says the window in a reason.
func (w CalendarWindow) String() string {
	days := "daily"
	if len(w.Days) > 0 {
		days = strings.Join(w.Days, ",")
	}
	return named(fmt.Sprintf("%s %s-%s", days, cmp.Or(w.From, "00:00"), cmp.Or(w.To, "24:00")), w.Name)
}

// String says the date in a reason.
func (d CalendarDate) String() string {
	dates := d.Date
	if d.To != "" {
		dates += " to " + d.To
	}
	return named(dates, d.Name)
}

func named(what, name string) string {
	if name == "" {
		return what
	}
	return what + " (" + name + ")"
}

// checkShortText checks a name that people read.
func checkShortText(field, v string) error { return checkTextWithin(field, v, MaxNameBytes) }
