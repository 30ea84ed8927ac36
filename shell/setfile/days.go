package setfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/texts"
)

// weekdays are the names of the days, in their order.
var weekdays = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} // read-only: a table

// ParseDate reads what a calendar's dates are written as: "DATE[..DATE][=NAME]". Whether they are dates is for
// [core.CalendarSpec] to say.
func ParseDate(s string) core.CalendarDate {
	span, name, _ := strings.Cut(s, "=")
	date, to, _ := strings.Cut(span, "..")
	return core.CalendarDate{Date: date, To: to, Name: name}
}

// ParseWindow reads what a calendar's weekly windows are written as: "DAYS[ FROM-TO][=NAME]", where days are some such as
// "sat,sun", a span such as "mon-fri", or "daily". An error says which part is none; the times are for
// [core.CalendarSpec] to check.
func ParseWindow(s string) (core.CalendarWindow, error) {
	span, name, _ := strings.Cut(s, "=")
	days, clock, timed := strings.Cut(strings.TrimSpace(span), " ")
	w := core.CalendarWindow{Name: name}
	if timed {
		from, to, ok := strings.Cut(clock, "-")
		if !ok {
			return w, fmt.Errorf("%q has no span of the day: write it such as \"mon-fri 22:00-06:00\"", texts.Clip(s, 60))
		}
		w.From, w.To = from, to
	}
	if days == "daily" {
		return w, nil
	}
	for part := range strings.SplitSeq(days, ",") {
		list, err := daysOf(part)
		if err != nil {
			return w, err
		}
		w.Days = append(w.Days, list...)
	}
	return w, nil
}

// daysOf are the days of "mon", or of "fri-mon".
func daysOf(part string) ([]string, error) {
	first, last, isSpan := strings.Cut(strings.ToLower(part), "-")
	if !isSpan {
		last = first
	}
	i, end := slices.Index(weekdays, first), slices.Index(weekdays, last)
	if i < 0 || end < 0 {
		return nil, fmt.Errorf("%q is no day: use %s, or daily", texts.Clip(part, 40), strings.Join(weekdays, ", "))
	}
	days := []string{weekdays[i]}
	for i != end {
		i = (i + 1) % len(weekdays)
		days = append(days, weekdays[i])
	}
	return days, nil
}

// textsOfDays writes dates and weekly windows.
func textsOfDays(d core.CalendarDays) (dates, weekly []string) {
	for _, of := range d.Dates {
		s := of.Date
		if of.To != "" {
			s += ".." + of.To
		}
		dates = append(dates, named(s, of.Name))
	}
	for _, w := range d.Weekly {
		s := "daily"
		if len(w.Days) > 0 {
			s = strings.Join(w.Days, ",")
		}
		if w.From != "" || w.To != "" {
			s += " " + cmp.Or(w.From, "00:00") + "-" + cmp.Or(w.To, "24:00")
		}
		weekly = append(weekly, named(s, w.Name))
	}
	return dates, weekly
}

func named(what, name string) string {
	if name == "" {
		return what
	}
	return what + "=" + name
}
