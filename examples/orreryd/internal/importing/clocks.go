package importing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// clockYears is how far changes of the clocks are looked for.
const clockYears = 2

// A clockChange is a change of a zone's clocks: they go from one reading to another. Readings are in
// seconds, as if they were UTC.
type clockChange struct{ from, to int64 }

// skips reports whether readings are skipped, and not shown twice.
func (c clockChange) skips() bool { return c.to > c.from }

// span are the readings that are skipped, or shown twice, without the last.
func (c clockChange) span() (first, end int64) { return min(c.from, c.to), max(c.from, c.to) }

// changesOf lists the changes of the years that begin with from. Those of three hours and more are
// corrections to cron, for which it has no rule.
func changesOf(zone *schedule.Zone, from effects.Time) []clockChange {
	const most = 3 * 60 * 60
	until := effects.TimeOf(from.Std().AddDate(clockYears, 0, 0))
	var list []clockChange
	for at := from; ; {
		end, ok := zone.OffsetUntil(at)
		if !ok || end >= until {
			return list
		}
		s := int64(end) / 1000
		c := clockChange{from: s + int64(zone.Offset(at)/time.Second), to: s + int64(zone.Offset(end)/time.Second)}
		if d := c.to - c.from; d != 0 && d < most && d > -most {
			list = append(list, c)
		}
		at = end
	}
}

// readings counts how many readings of an expression lie from first to before end.
func readings(spec schedule.Spec, first, end int64) int {
	spec.Zone, spec.DST = "UTC", ""
	s, err := spec.Compile()
	if err != nil || first >= end {
		return 0
	}
	n, _ := s.Count(effects.Time(first*1000-1), effects.Time(end*1000-1), 10_000)
	return n
}

// elapsed reports whether times of an expression with this hour field fire whenever the clocks show
// them: the rule of package schedule.
func elapsed(hour string) bool { return strings.ContainsAny(hour, "*/") }

// atClockChanges makes the hour field of times so that they do what cron does when the clocks change, as far as that
// can be said here. Where it cannot, the answer says what is different.
//
// To cron a line whose minute or hour begins with a star is one that fires whenever the clocks show its
// times. Of the others it runs each time that is skipped when the gap ends, and none a second time (cron(8)).
func (t *times) atClockChanges(spec schedule.Spec, changes []clockChange) (different string) {
	switch hour := &t.fields[cronHour]; {
	case !touched(spec, changes):
		return ""
	case t.star[cronMinute] || t.star[cronHour]:
		return asShown(hour, spec, changes, "cron")
	case elapsed(*hour):
		*hour = listed(*hour)
	}
	for _, c := range changes {
		first, end := c.span()
		if n := readings(spec, first, end+minute); c.skips() && n > 1 {
			return fmt.Sprintf("where the clocks skip %s cron runs it %d times at %s, once for each time; here it fires once then", span(first, end), n, clock(end))
		}
	}
	return ""
}

// minute is one of a reading.
const minute = 60

// touched reports whether a change of the clocks skips or repeats any reading of an expression.
func touched(spec schedule.Spec, changes []clockChange) bool {
	return slices.ContainsFunc(changes, func(c clockChange) bool {
		first, end := c.span()
		return readings(spec, first, end) > 0
	})
}

// asShown makes an hour field so that its times fire whenever the clocks show them, as those of another program do. Where that
// cannot be written, the answer says what is different.
func asShown(hour *string, spec schedule.Spec, changes []clockChange, program string) (different string) {
	if elapsed(*hour) || !touched(spec, changes) {
		return ""
	}
	if stepped, ok := asElapsed(*hour); ok {
		*hour = stepped
		return ""
	}
	var list []string
	for _, c := range changes {
		first, end := c.span()
		text := fmt.Sprintf("where the clocks show %s twice %s runs it at each; here it fires the first time alone", span(first, end), program)
		if c.skips() {
			text = fmt.Sprintf("where the clocks skip %s %s leaves its times out; here it fires once then, at %s", span(first, end), program, clock(end))
		}
		if readings(spec, first, end) > 0 && (!c.skips() || readings(spec, end, end+minute) == 0) && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}

// asElapsed writes a range of an hour field with a step of 1, if it has one: that fires whenever the clocks show its times.
func asElapsed(hour string) (string, bool) {
	items := strings.Split(hour, ",")
	for i, item := range items {
		if from, to, ranged := strings.Cut(item, "-"); ranged && from != to {
			items[i] = item + "/1"
			return strings.Join(items, ","), true
		}
	}
	return "", false
}

// listed writes the hours of a field one by one: they are fixed times then.
func listed(hour string) string {
	var list []string
	for _, v := range cronFieldsOf[cronHour].values(hour) {
		list = append(list, strconv.Itoa(v))
	}
	return strings.Join(list, ",")
}

func clock(reading int64) string { return time.Unix(reading, 0).UTC().Format("15:04") }

func span(first, end int64) string { return clock(first) + "-" + clock(end) }
