package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Describe says in English when the schedule fires: "At 09:00, Monday through
// Friday". The time zone is named where it is not UTC. An expression that
// names no existing day ends in "(never)".
func (s *Schedule) Describe() string {
	switch {
	case s.period > 0:
		return "Every " + describePeriod(s.period)
	case s.cron == nil:
		return "Once, at " + s.at.String()
	}
	parts := describeTime(s.fields)
	for _, part := range []string{describeDays(s.fields, s.spec.DayMatch), describeMonths(&s.fields[month]), describeYears(&s.fields[year])} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, ", ")
	text = strings.ToUpper(text[:1]) + text[1:]
	if s.spec.Zone != "UTC" {
		text += " (" + s.spec.Zone + ")"
	}
	if s.cron.impossible {
		text += " (never)"
	}
	return text
}

func describePeriod(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		if n := int(d / u.size); n > 0 {
			parts = append(parts, plural(n, u.name))
		}
		d %= u.size
	}
	if len(parts) == 1 {
		return strings.TrimPrefix(parts[0], "1 ")
	}
	return strings.Join(parts, " ")
}

func plural(n int, noun string) string { return strconv.Itoa(n) + " " + countedNoun(n, noun) }

// describeTime puts the second, minute and hour fields into words.
func describeTime(c *cronFields) []string {
	if times := clockTimes(c); times != nil {
		return []string{"at " + list(times)}
	}
	s, m, h := &c[second], &c[minute], &c[hour]
	var parts []string
	if v, single := s.single(); !single || v != 0 {
		parts = append(parts, within(s, "second", "minute"))
	}
	v, single := m.single()
	onHour := single && v == 0 && len(parts) == 0
	oneRange := len(h.spans) == 1 && h.spans[0].ranged
	switch {
	case m.every && len(parts) > 0 && s.set.len() > 1: // "every second" says it
	case onHour && oneRange: // "every hour" says it
	case onHour:
		parts = append(parts, "on the hour")
	default:
		parts = append(parts, within(m, "minute", "hour"))
	}
	switch {
	case h.every && onHour:
		parts = append(parts, "every hour")
	case h.every:
	case onHour && stepsEvenly(h):
		parts = append(parts, fmt.Sprintf("every %d hours", h.spans[0].step))
	case onHour && oneRange && h.spans[0].step == 1:
		parts = append(parts, fmt.Sprintf("every hour from %02d:00 through %02d:00", h.spans[0].lo, h.spans[0].hi))
	default:
		parts = append(parts, describeHours(h, m.every))
	}
	return parts
}

// clockTimes lists the times of day, where they are few and each is written.
func clockTimes(c *cronFields) []string {
	const most = 12
	seconds, minutes, hours := c[second].plain(), c[minute].plain(), c[hour].plain()
	if !seconds || !minutes || !hours || c[second].set.len()*c[minute].set.len()*c[hour].set.len() > most {
		return nil
	}
	var times []string
	for h := range c[hour].set.values(24) {
		for m := range c[minute].set.values(60) {
			for s := range c[second].set.values(60) {
				text := fmt.Sprintf("%02d:%02d", h, m)
				if c[second].text != "0" {
					text += fmt.Sprintf(":%02d", s)
				}
				times = append(times, text)
			}
		}
	}
	return times
}

// within puts a second or minute field into words.
func within(f *field, noun, of string) string {
	if f.every {
		return "every " + noun
	}
	if stepsEvenly(f) {
		return fmt.Sprintf("every %d %ss", f.spans[0].step, noun)
	}
	if v, single := f.single(); single {
		return fmt.Sprintf("at %s past the %s", plural(v, noun), of)
	}
	if len(f.spans) == 1 && f.spans[0].star {
		return fmt.Sprintf("at every %s %s of the %s", ordinal(f.spans[0].step), noun, of)
	}
	return "at " + describeSpans(f, noun, strconv.Itoa) + " of the " + of
}

// describeHours puts the hour field into words where it is no time of day.
func describeHours(f *field, wholeHours bool) string {
	clock := func(v int) string { return fmt.Sprintf("%02d:00", v) }
	if len(f.spans) == 1 && f.spans[0].ranged {
		s := f.spans[0]
		if s.step == 1 {
			return fmt.Sprintf("from %s through %02d:59", clock(s.lo), s.hi)
		}
		if s.star {
			return "every " + ordinal(s.step) + " hour from 00:00"
		}
		return fmt.Sprintf("every %s hour from %s through %s", ordinal(s.step), clock(s.lo), clock(s.hi))
	}
	names := make([]string, 0, 24)
	for v := range f.set.values(24) {
		names = append(names, fmt.Sprintf("%02d", v))
	}
	named := countedNoun(len(names), "hour") + " " + list(names)
	if wholeHours {
		return "throughout " + named
	}
	return "in " + named
}

func countedNoun(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// describeDays puts the two day fields into words.
func describeDays(c *cronFields, match DayMatch) string {
	dom, dow := describeDaysOfMonth(&c[dayOfMonth]), describeDaysOfWeek(&c[dayOfWeek], c[dayOfMonth].every)
	switch {
	case dom == "" || dow == "":
		return dom + dow
	case match == DayMatchBoth:
		return dom + ", and only " + dow
	}
	return dom + " or " + dow
}

func describeDaysOfMonth(f *field) string {
	if f.every {
		return ""
	}
	var parts []string
	if len(f.spans) == 1 && f.spans[0].star {
		parts = append(parts, "every "+ordinal(f.spans[0].step)+" day")
	} else if len(f.spans) > 0 {
		parts = append(parts, describeSpans(f, "day", strconv.Itoa))
	}
	for v := range f.nearest.values(32) {
		parts = append(parts, "the weekday nearest day "+strconv.Itoa(v))
	}
	if f.last {
		parts = append(parts, "the last day")
	}
	if f.lastWeekday {
		parts = append(parts, "the last weekday")
	}
	return "on " + list(parts) + " of the month"
}

func describeDaysOfWeek(f *field, alone bool) string {
	if f.every {
		return ""
	}
	weekday := func(v int) string { return time.Weekday(v % 7).String() }
	var parts []string
	for _, s := range f.spans {
		switch {
		case s.star:
			parts = append(parts, "every "+ordinal(s.step)+" day of the week from Sunday")
		case s.ranged && s.step == 1:
			parts = append(parts, weekday(s.lo)+" through "+weekday(s.hi))
		case s.ranged:
			parts = append(parts, fmt.Sprintf("every %s day from %s through %s", ordinal(s.step), weekday(s.lo), weekday(s.hi)))
		default:
			parts = append(parts, weekday(s.lo))
		}
	}
	for v := range f.nth.values(35) {
		parts = append(parts, fmt.Sprintf("the %s %s of the month", ordinal(v/7+1), weekday(v)))
	}
	for v := range f.lastOf.values(7) {
		parts = append(parts, "the last "+weekday(v)+" of the month")
	}
	text := list(parts)
	if alone && len(f.spans) == 1 && len(parts) == 1 && f.spans[0].ranged {
		return text // "Monday through Friday"
	}
	return "on " + text
}

func describeMonths(f *field) string {
	if f.every {
		return ""
	}
	name := func(v int) string { return time.Month(v).String() }
	if len(f.spans) == 1 && f.spans[0].star {
		return "in every " + ordinal(f.spans[0].step) + " month from January"
	}
	return "in " + describeSpans(f, "", name)
}

func describeYears(f *field) string {
	if f.every {
		return ""
	}
	return "in " + describeSpans(f, "", strconv.Itoa)
}

// describeSpans lists a field's items: "minutes 0, 15 and 30 through 40".
func describeSpans(f *field, noun string, name func(int) string) string {
	if s := f.spans[0]; len(f.spans) == 1 && noun != "" && s.step > 1 {
		return fmt.Sprintf("every %s %s from %s through %s", ordinal(s.step), noun, name(s.lo), name(s.hi))
	}
	parts := make([]string, 0, len(f.spans))
	for _, s := range f.spans {
		switch {
		case !s.ranged:
			parts = append(parts, name(s.lo))
		case s.step == 1:
			parts = append(parts, name(s.lo)+" through "+name(s.hi))
		default:
			parts = append(parts, fmt.Sprintf("every %s from %s through %s", ordinal(s.step), name(s.lo), name(s.hi)))
		}
	}
	if noun == "" {
		return list(parts)
	}
	return countedNoun(f.set.len(), noun) + " " + list(parts)
}

// single gives the field's value where it has only one and that is written.
func (f *field) single() (int, bool) {
	if len(f.spans) != 1 || f.spans[0].ranged {
		return 0, false
	}
	return f.spans[0].lo, true
}

// plain reports whether all values of the field are written out.
func (f *field) plain() bool {
	for _, s := range f.spans {
		if s.ranged {
			return false
		}
	}
	return true
}

// stepsEvenly reports whether the field is "*/n" and n divides the whole, so
// that "every n" holds across its end too.
func stepsEvenly(f *field) bool {
	if len(f.spans) != 1 {
		return false
	}
	s := f.spans[0]
	size := s.hi - s.lo + 1
	return s.star && s.step > 1 && size%s.step == 0
}

func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return strconv.Itoa(n) + "st"
	case n%10 == 2:
		return strconv.Itoa(n) + "nd"
	case n%10 == 3:
		return strconv.Itoa(n) + "rd"
	}
	return strconv.Itoa(n) + "th"
}

// list joins with commas and, before the last, "and".
func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
