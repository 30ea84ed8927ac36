package core

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

const (
	dayMS      = 24 * 60 * 60 * 1000
	dayMinutes = 24 * 60
)

// calendarTable is a calendar made ready to be asked. It is immutable, and many schedules ask it.
type calendarTable struct {
	zone             *schedule.Zone
	exclude, include calendarSpans
	lastDay          int64 // of the dates, counted from 1970-01-01
	end              Time  // of the last day; zero: there are no dates
}

// calendarSpans are the instants of [CalendarDays]: days counted from 1970-01-01, and minutes
// counted from Monday, 00:00.
type calendarSpans struct {
	of           CalendarDays
	days, weekly []calendarSpan
}

// calendarSpan is the span from first to last, inclusive, of one entry. Spans are in their order,
// and none has what another one has.
type calendarSpan struct {
	first, last int64
	entry       int // the index of the date or window
}

// compile checks a spec in its normal form.
func (s CalendarSpec) compile() (*calendarTable, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	zone, err := schedule.LoadZone(s.Timezone)
	if err != nil {
		return nil, err
	}
	t := &calendarTable{zone: zone}
	if t.exclude, err = s.Exclude.spans("exclude"); err != nil {
		return nil, err
	}
	if t.include, err = s.Include.spans("include"); err != nil {
		return nil, err
	}
	for _, spans := range [][]calendarSpan{t.exclude.days, t.include.days} {
		if n := len(spans); n > 0 {
			t.lastDay = max(t.lastDay, spans[n-1].last)
			t.end = t.midnight(t.lastDay + 1)
		}
	}
	return t, nil
}

// midnight is when a day begins in the zone, or where the clocks skip that, about then.
func (t *calendarTable) midnight(day int64) Time {
	wall := Time(day * dayMS)
	return wall.Add(-t.zone.Offset(wall.Add(-t.zone.Offset(wall))))
}

func (d CalendarDays) spans(field string) (calendarSpans, error) {
	s := calendarSpans{of: d}
	for i, date := range d.Dates {
		first, last, err := date.days(fmt.Sprintf("%s.dates[%d]", field, i))
		if err != nil {
			return s, err
		}
		s.days = append(s.days, calendarSpan{first, last, i})
	}
	for i, w := range d.Weekly {
		days, from, to, err := w.minutes(fmt.Sprintf("%s.weekly[%d]", field, i))
		if err != nil {
			return s, err
		}
		for _, day := range days {
			s.weekly = append(s.weekly, weekSpans(day*dayMinutes+from, day*dayMinutes+to, i)...)
		}
	}
	s.days, s.weekly = apartSpans(s.days), apartSpans(s.weekly)
	return s, nil
}

// weekSpans are the minutes of a window, to exclusive, of which those behind Sunday are on Monday.
func weekSpans(from, to, entry int) []calendarSpan {
	const week = 7 * dayMinutes
	if to <= week {
		return []calendarSpan{{int64(from), int64(to - 1), entry}}
	}
	return []calendarSpan{{int64(from), week - 1, entry}, {0, int64(to - week - 1), entry}}
}

// apartSpans puts spans into their order. What two of them have is left to the one that begins
// first, or else to the first entry.
func apartSpans(spans []calendarSpan) []calendarSpan {
	slices.SortFunc(spans, func(a, b calendarSpan) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.entry, b.entry))
	})
	var out []calendarSpan
	for _, s := range spans {
		if n := len(out); n > 0 {
			s.first = max(s.first, out[n-1].last+1)
		}
		if s.first <= s.last {
			out = append(out, s)
		}
	}
	return out
}

// wallOf reads the wall clock: the day, the Monday with which its week began, both counted from
// 1970-01-01, and the minute of that week.
func wallOf(wall Time) (day, monday, minute int64) {
	day = floorDiv(int64(wall), dayMS)
	monday = day - floorMod(day+3, 7) // 1970-01-01 was a Thursday
	return day, monday, (int64(wall) - monday*dayMS) / 60_000
}

// leavesOut says why an instant is left out; empty: it is not.
func (t *calendarTable) leavesOut(at Time) string {
	day, _, minute := wallOf(at.Add(t.zone.Offset(at)))
	if entry := t.exclude.at(day, minute); entry != nil {
		return "excludes " + entry.String()
	}
	if !t.include.of.empty() && t.include.at(day, minute) == nil {
		return "does not include this time of " + dateText(day)
	}
	return ""
}

// leftOutUntil gives an instant before which, from the given one on, all instants are left out; zero:
// the given one is not.
func (t *calendarTable) leftOutUntil(at Time) Time {
	off := t.zone.Offset(at)
	day, monday, minute := wallOf(at.Add(off))
	until := t.exclude.endOf(day, monday, minute)
	if until == 0 {
		if t.include.of.empty() || t.include.at(day, minute) != nil {
			return 0
		}
		until = t.include.nextAfter(day, monday, minute)
	}
	end := effects.MaxTime + 1
	if until < int64(end) {
		end = Time(until).Add(-off)
	}
	if change, ok := t.zone.OffsetUntil(at); ok {
		end = min(end, change) // then the wall clock is another one
	}
	return max(end, at+1)
}

// endOf gives when the span ends that has an instant, in milliseconds of the wall clock; 0: none has.
// monday is the day with which the week of the instant begins, minute is counted from there.
func (s calendarSpans) endOf(day, monday, minute int64) int64 {
	if i, ok := spanIndex(s.days, day); ok {
		return (s.days[i].last + 1) * dayMS
	}
	if i, ok := spanIndex(s.weekly, minute); ok {
		return monday*dayMS + (s.weekly[i].last+1)*60_000
	}
	return 0
}

// nextAfter gives when the next span begins after an instant that none has, in milliseconds of the wall
// clock; [math.MaxInt64] if none does.
func (s calendarSpans) nextAfter(day, monday, minute int64) int64 {
	next := int64(math.MaxInt64)
	if i, _ := spanIndex(s.days, day); i < len(s.days) {
		next = s.days[i].first * dayMS
	}
	if len(s.weekly) == 0 {
		return next
	}
	if i, _ := spanIndex(s.weekly, minute); i < len(s.weekly) {
		return min(next, monday*dayMS+s.weekly[i].first*60_000)
	}
	return min(next, (monday+7)*dayMS+s.weekly[0].first*60_000)
}

// at gives the date or window that has an instant; nil: none has.
func (s calendarSpans) at(day, minute int64) fmt.Stringer {
	if i, ok := spanIndex(s.days, day); ok {
		return s.of.Dates[s.days[i].entry]
	}
	if i, ok := spanIndex(s.weekly, minute); ok {
		return s.of.Weekly[s.weekly[i].entry]
	}
	return nil
}

// spanIndex gives the span that has the value, or else the first one behind it.
func spanIndex(spans []calendarSpan, v int64) (i int, has bool) {
	i, _ = slices.BinarySearchFunc(spans, v, func(s calendarSpan, v int64) int { return cmp.Compare(s.last, v) })
	return i, i < len(spans) && spans[i].first <= v
}

func floorMod(v, by int64) int64 { return ((v % by) + by) % by }

func floorDiv(v, by int64) int64 { return (v - floorMod(v, by)) / by }
