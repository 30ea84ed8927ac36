package schedule

import "math"

// never is later than every reading of every wall clock.
const never = math.MaxInt64

// A cron finds the occurrences of a cron expression in a zone. It keeps two
// questions apart: which wall clock readings the expression names, on a calendar
// without zones, and at which instants a wall clock shows them, which is the rule
// of R4.
type cron struct {
	fields *cronFields
	// eitherDay is set where a day matches if one of the two day fields names it.
	eitherDay bool
	zone      *Zone
	// elapsed is set where the hour field has a wildcard or step (R4).
	elapsed bool
	dst     DST // of fixed times
	// impossible is set where no reading of the calendar matches.
	impossible bool
}

func newCron(f *cronFields, zone *Zone, spec Spec) *cron {
	c := &cron{
		fields: f, eitherDay: f.restrictsBoth() && spec.DayMatch != DayMatchBoth,
		zone: zone, elapsed: f[hour].elapsed, dst: spec.DST,
	}
	c.impossible = c.reading(-1) == never
	return c
}

// reading gives the first wall clock reading after the given one that the
// expression names, both in seconds as if the wall clock showed UTC; never
// where the calendar ends before.
func (c *cron) reading(after int64) int64 {
	first := max(after+1, 0)
	for d := c.firstDay(first / day); d != never; d = c.firstDay(d + 1) {
		if s, ok := c.fields.firstTime(int(max(first-d*day, 0))); ok {
			return d*day + int64(s)
		} // on the first day its times may be over
	}
	return never
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
