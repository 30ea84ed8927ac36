package schedule

import (
	"math"
	"time"

	"github.com/hashicorp/cronexpr"
)

// never is later than every reading of every wall clock.
const never = math.MaxInt64

// A cron finds the occurrences of a cron expression in a zone. It keeps two
// questions apart: which wall clock readings the expression names, which
// cronexpr answers on a calendar without zones, and at which instants a wall
// clock shows them, which is the rule of R4.
type cron struct {
	calendar cronexpr.Expression
	// days are the fields with the days, where both day fields must match: cronexpr
	// takes either. The calendar then names times of every day.
	days *cronFields
	zone *Zone
	// elapsed is set where the hour field has a wildcard or step (R4).
	elapsed bool
	dst     DST // of fixed times
	// impossible is set where no reading of the calendar matches.
	impossible bool
}

func newCron(f *cronFields, zone *Zone, spec Spec) (*cron, error) {
	searched, days := f, (*cronFields)(nil)
	if spec.DayMatch == DayMatchBoth && f.restrictsBoth() {
		times := *f
		for _, i := range []int{dayOfMonth, month, dayOfWeek, year} {
			times[i] = field{every: true}
		}
		searched, days = &times, f
	}
	canonical := searched.canonical()
	parsed, err := cronexpr.Parse(canonical)
	if err != nil { // our grammar admits nothing that cronexpr refuses
		return nil, exprError("%s cannot be searched: %v", quote(canonical), err)
	}
	c := &cron{calendar: *parsed, days: days, zone: zone, elapsed: f[hour].elapsed, dst: spec.DST}
	c.impossible = c.reading(-2*day) == never
	return c, nil
}

// reading gives the first wall clock reading after the given one that the
// expression names, both in seconds as if the wall clock showed UTC; never
// where the calendar ends before.
func (c *cron) reading(after int64) int64 {
	if c.days == nil {
		return c.search(after)
	}
	for d := c.days.firstDay((after + 1) / day); d != never; d = c.days.firstDay(d + 1) {
		if w := c.search(max(after, d*day-1)); w < (d+1)*day {
			return w // on the first day its times may be over
		}
	}
	return never
}

// search asks the calendar alone.
func (c *cron) search(after int64) int64 {
	// Next writes to the expression; it gets a copy, so that c is immutable. The
	// maps and slices that the copy shares are only read.
	calendar := c.calendar
	next := calendar.Next(time.Unix(after, 0).UTC())
	if next.IsZero() {
		return never
	}
	return next.Unix()
}

// next gives the first occurrence after the second t.
func (c *cron) next(t int64) (int64, bool) {
	switch {
	case c.impossible:
		return 0, false
	case c.elapsed:
		return c.nextElapsed(t)
	case c.dst == DSTSkip:
		return c.nextShown(t)
	case c.dst == DSTTwice:
		return c.nextOfEither(t)
	}
	return c.nextFixed(t)
}

// nextOfEither finds the next occurrence under [DSTTwice]: the shifted ones are those
// of nextFixed, the repeated ones those of nextElapsed, and all others are in both.
func (c *cron) nextOfEither(t int64) (int64, bool) {
	shown, ok := c.nextElapsed(t)
	fixed, also := c.nextFixed(t)
	if !ok || also && fixed < shown {
		return fixed, also
	}
	return shown, true
}

// nextShown finds the next occurrence under [DSTSkip]: that of nextFixed, unless the
// wall clock does not show the reading then, which was skipped.
func (c *cron) nextShown(t int64) (int64, bool) {
	for w := c.reading(c.zone.reached(c.zone.segmentAt(t), t)); w != never; {
		at := c.zone.firstShown(w)
		shown := at + c.zone.segs[c.zone.segmentAt(at)].off
		if shown == w {
			return at, true
		}
		w = c.reading(shown - 1) // the gap ends at this reading
	}
	return 0, false
}

// nextFixed finds the next occurrence of fixed times: each fires once, when
// the wall clock first shows it or a later reading. So one in a gap fires at
// the gap's end, several there fire together, and a repeated one fires the
// first time.
func (c *cron) nextFixed(t int64) (int64, bool) {
	w := c.reading(c.zone.reached(c.zone.segmentAt(t), t))
	if w == never {
		return 0, false
	}
	return c.zone.firstShown(w), true
}

// nextElapsed finds the next instant whose reading the expression names: in a
// gap there is none, in a repeated hour there are two.
func (c *cron) nextElapsed(t int64) (int64, bool) {
	segs := c.zone.segs
	i := c.zone.segmentAt(t)
	from := t + segs[i].off
	w := c.reading(from) // nothing matches between from and w
	for {
		end := int64(never)
		if i+1 < len(segs) {
			end = segs[i+1].start
		}
		if w != never && w-segs[i].off < end {
			return w - segs[i].off, true
		}
		if i++; i == len(segs) {
			return 0, false
		}
		// The next segment begins at another reading: an earlier one, where the
		// clock was set back, or one beyond w, where w was skipped.
		if first := segs[i].start + segs[i].off; first <= from || first > w {
			from = first - 1
			w = c.reading(from)
		}
	}
}
