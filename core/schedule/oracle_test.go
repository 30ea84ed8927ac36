package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// hardZones have rules that break naive cron code.
var hardZones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Europe/Dublin", "Australia/Lord_Howe", "Asia/Beirut",
	"America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Africa/Casablanca", "Africa/Cairo", "Africa/Monrovia",
	"America/Santiago", "Antarctica/Troll", "Antarctica/Casey", "America/St_Johns", "America/Scoresbysund",
	"Asia/Gaza", "Asia/Kathmandu", "Asia/Tehran", "Pacific/Chatham", "Pacific/Kwajalein", "America/Caracas", "Asia/Pyongyang",
}

// An oracle says what a schedule must do, by reading R4 literally and looking
// at every second or minute in turn. It shares nothing with the package: zones
// come from the standard library, and matches is built beside the expression's
// text, not from it.
type oracle struct {
	loc     *time.Location
	elapsed bool                   // wildcard or step in the hour field
	dst     schedule.DST           // of fixed times
	matches func(w time.Time) bool // on a wall clock reading, carried as UTC
	step    int64                  // seconds between looks
}

// between lists the occurrences in (from, to].
func (o oracle) between(from, to int64) []effects.Time {
	const warmUp = 50 * 60 * 60 // longer than any fold or gap
	passed := map[int64]bool{}  // readings that were shown or skipped
	var fires []effects.Time
	first := from - warmUp
	previous := wall(o.loc, first-o.step)
	for t := first; t <= to; t += o.step {
		w := wall(o.loc, t)
		fire := false
		shown := o.matches(time.Unix(w, 0).UTC())
		if o.elapsed {
			fire = shown
		} else {
			for skipped := previous + o.step; skipped < w; skipped += o.step {
				fire = o.dst != schedule.DSTSkip && !passed[skipped] && o.matches(time.Unix(skipped, 0).UTC()) || fire
				passed[skipped] = true
			}
			fire = shown && (!passed[w] || o.dst == schedule.DSTTwice) || fire
			passed[w] = true
		}
		if fire && t > from {
			fires = append(fires, effects.Time(t*1000))
		}
		previous = w
	}
	return fires
}

// later gives the end of a zone's bounds; the standard library takes the end of
// some years for one and stays there.
func later(at, end time.Time) time.Time {
	if end.After(at) {
		return end
	}
	return at.Add(12 * time.Hour)
}

// wall is what the zone's clock shows at t, as if it were UTC.
func wall(loc *time.Location, t int64) int64 {
	_, off := time.Unix(t, 0).In(loc).Zone()
	return t + int64(off)
}

// A drawnField is a field's text with its meaning.
type drawnField struct {
	text    string
	has     func(int) bool
	every   bool
	elapsed bool
}

func drawField(t *rapid.T, label string, lo, hi int, starShare int) drawnField {
	if rapid.IntRange(0, 99).Draw(t, label+" star") < starShare {
		return drawnField{"*", func(int) bool { return true }, true, true}
	}
	f := drawnField{has: func(int) bool { return false }}
	var items []string
	for i := range rapid.IntRange(1, 3).Draw(t, label+" items") {
		item := drawItem(t, fmt.Sprint(label, i), lo, hi)
		items = append(items, item.text)
		before := f.has
		f.has = func(v int) bool { return before(v) || item.has(v) }
		f.elapsed = f.elapsed || item.elapsed
	}
	f.text = strings.Join(items, ",")
	return f
}

func drawItem(t *rapid.T, label string, lo, hi int) drawnField {
	size := hi - lo + 1
	a, b := rapid.IntRange(lo, hi).Draw(t, label+" a"), rapid.IntRange(lo, hi).Draw(t, label+" b")
	step := rapid.IntRange(1, size+9).Draw(t, label+" step")
	if a != b && rapid.Bool().Draw(t, label+" short step") {
		step = min(step, 1+step%4)
	}
	length := (b - a + size) % size // a reversed range wraps around
	up := func(v int) int { return (v - a + size) % size }
	switch rapid.IntRange(0, 4).Draw(t, label+" form") {
	case 0:
		return drawnField{fmt.Sprintf("%d-%d", a, b), func(v int) bool { return up(v) <= length }, false, false}
	case 1:
		return drawnField{fmt.Sprintf("%d-%d/%d", a, b, step), func(v int) bool { return up(v) <= length && up(v)%step == 0 }, false, true}
	case 2:
		return drawnField{fmt.Sprintf("%d/%d", a, step), func(v int) bool { return v >= a && (v-a)%step == 0 }, false, true}
	case 3:
		if step > 1 {
			return drawnField{fmt.Sprintf("*/%d", step), func(v int) bool { return (v-lo)%step == 0 }, false, true}
		}
	}
	return drawnField{fmt.Sprintf("%d", a), func(v int) bool { return v == a }, false, false}
}

// drawDays draws both day fields and what they mean together.
func drawDays(t *rapid.T, starShare int, together schedule.DayMatch) (dom, dow string, match func(time.Time) bool) {
	d, w := drawField(t, "dom", 1, 31, starShare), drawField(t, "dow", 0, 6, starShare)
	domHas := func(at time.Time) bool { return d.has(at.Day()) }
	dowHas := func(at time.Time) bool { return w.has(int(at.Weekday())) }
	n := rapid.IntRange(1, 31).Draw(t, "special dom")
	switch rapid.IntRange(0, 9).Draw(t, "special day of month") {
	case 0:
		d.text, d.every, domHas = "L", false, func(at time.Time) bool { return at.AddDate(0, 0, 1).Day() == 1 }
	case 1:
		d.text, d.every, domHas = fmt.Sprintf("%dW", n), false, func(at time.Time) bool { return at.Day() == nearestWeekday(at, n) }
	case 2:
		d.text, d.every, domHas = fmt.Sprintf("lw,%d", n), false, func(at time.Time) bool {
			last := at.AddDate(0, 1, -at.Day())
			return at.Day() == n || at.Day() == nearestWeekday(at, last.Day()) && at.Month() == last.Month()
		}
	}
	weekday := rapid.IntRange(0, 6).Draw(t, "special dow")
	week := rapid.IntRange(1, 5).Draw(t, "special week")
	switch rapid.IntRange(0, 9).Draw(t, "special day of week") {
	case 0:
		w.text, w.every, dowHas = fmt.Sprintf("%dL", weekday), false, func(at time.Time) bool {
			return int(at.Weekday()) == weekday && at.AddDate(0, 0, 7).Month() != at.Month()
		}
	case 1:
		w.text, w.every, dowHas = fmt.Sprintf("%d#%d", weekday, week), false, func(at time.Time) bool {
			return int(at.Weekday()) == weekday && (at.Day()+6)/7 == week
		}
	}
	return d.text, w.text, func(at time.Time) bool {
		switch {
		case d.every:
			return w.every || dowHas(at)
		case w.every:
			return domHas(at)
		case together == schedule.DayMatchBoth:
			return domHas(at) && dowHas(at)
		}
		return domHas(at) || dowHas(at)
	}
}

func drawDST(t *rapid.T) schedule.DST {
	return rapid.SampledFrom([]schedule.DST{"", schedule.DSTOnceShifted, schedule.DSTSkip, schedule.DSTTwice}).Draw(t, "dst")
}

func drawDayMatch(t *rapid.T) schedule.DayMatch {
	return rapid.SampledFrom([]schedule.DayMatch{"", schedule.DayMatchEither, schedule.DayMatchBoth, schedule.DayMatchBoth}).Draw(t, "day match")
}

// nearestWeekday looks at all days of the month for the weekday nearest to day
// n; 0 where the month has no day n.
func nearestWeekday(at time.Time, n int) int {
	first := at.AddDate(0, 0, 1-at.Day())
	best, exists := 0, false
	for d := first; d.Month() == first.Month(); d = d.AddDate(0, 0, 1) {
		exists = exists || d.Day() == n
		if d.Weekday() == time.Saturday || d.Weekday() == time.Sunday {
			continue
		}
		if best == 0 || abs(d.Day()-n) < abs(best-n) {
			best = d.Day()
		}
	}
	if !exists {
		return 0
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// drawZone prefers the hard ones.
func drawZone(t *rapid.T) (*schedule.Zone, *time.Location) {
	names := hardZones
	if rapid.Bool().Draw(t, "any zone") {
		names = schedule.ZoneNames()
	}
	zone, err := schedule.LoadZone(rapid.SampledFrom(names).Draw(t, "zone"))
	require.NoError(t, err)
	return zone, zone.Location()
}

// drawStart prefers an instant close before a change of the clocks.
func drawStart(t *rapid.T, loc *time.Location, before, step int64) int64 {
	// From February 1972 on all offsets are whole minutes.
	at := rapid.Int64Range(3*365*86400, 129*365*86400).Draw(t, "at")
	if rapid.IntRange(0, 3).Draw(t, "near a change") > 0 {
		if _, end := time.Unix(at, 0).In(loc).ZoneBounds(); !end.IsZero() {
			at = end.Unix() - before
		}
	}
	return at - at%step
}

func TestTheOccurrencesAroundChangesOfTheClocksAreThoseOfTheRuleReadMinuteByMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, loc := drawZone(t)
		minute, hour := drawField(t, "minute", 0, 59, 15), drawField(t, "hour", 0, 23, 20)
		if rapid.Bool().Draw(t, "small hour") { // where clocks change
			h := rapid.IntRange(0, 4).Draw(t, "h")
			hour = drawnField{fmt.Sprint(h), func(v int) bool { return v == h }, false, false}
		}
		month := drawField(t, "month", 1, 12, 85)
		together := drawDayMatch(t)
		dom, dow, day := drawDays(t, 80, together)
		expr := strings.Join([]string{minute.text, hour.text, dom, month.text, dow}, " ")
		o := oracle{loc: loc, elapsed: hour.elapsed, dst: drawDST(t), step: 60, matches: func(w time.Time) bool {
			return minute.has(w.Minute()) && hour.has(w.Hour()) && month.has(int(w.Month())) && day(w)
		}}
		checkAgainst(t, o, schedule.Spec{Expr: expr, DayMatch: together, DST: o.dst}, zone, drawStart(t, loc, 30*3600, 60), 54*3600)
	})
}

func TestTheOccurrencesAroundChangesOfTheClocksAreThoseOfTheRuleReadSecondBySecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, loc := drawZone(t)
		second, minute := drawField(t, "second", 0, 59, 10), drawField(t, "minute", 0, 59, 20)
		hour := drawField(t, "hour", 0, 23, 30)
		o := oracle{loc: loc, elapsed: hour.elapsed, dst: drawDST(t), step: 1, matches: func(w time.Time) bool {
			return second.has(w.Second()) && minute.has(w.Minute()) && hour.has(w.Hour())
		}}
		expr := strings.Join([]string{second.text, minute.text, hour.text, "* * ?"}, " ")
		checkAgainst(t, o, schedule.Spec{Expr: expr, DST: o.dst}, zone, drawStart(t, loc, 3*3600, 1), 6*3600)
	})
}

// checkAgainst compares the oracle's list with what one call and what a chain
// of calls give.
func checkAgainst(t *rapid.T, o oracle, spec schedule.Spec, zone *schedule.Zone, from, length int64) {
	s, err := spec.CompileIn(zone)
	require.NoError(t, err, spec)
	want := o.between(from, from+length)
	start, end := effects.Time(from*1000), effects.Time((from+length)*1000)
	got, more := s.Between(start, end, 1_000_000)
	require.False(t, more)
	require.Equal(t, want, got, "%+v in %s from %s", spec, zone.Name(), start)

	for range 8 {
		checkNext(t, s, want, effects.Time(rapid.Int64Range(int64(start), int64(end)-1).Draw(t, "instant")), end)
	}
}

// checkNext asks at any instant, not only at an occurrence, as Between does.
func checkNext(t require.TestingT, s *schedule.Schedule, want []effects.Time, at, end effects.Time) {
	i, _ := slices.BinarySearch(want, at+1)
	next, ok := s.Next(at)
	if i < len(want) {
		require.True(t, ok)
		require.Equal(t, want[i], next, "%q in %s after %s", s.Expr(), s.Zone(), at)
	} else {
		require.True(t, !ok || next > end)
	}
}

func TestTheDaysOfManyYearsAreThoseOfTheFieldsReadDayByDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		month := drawField(t, "month", 1, 12, 50)
		years := drawnField{"*", func(int) bool { return true }, true, true}
		if rapid.Bool().Draw(t, "some years") {
			a := rapid.IntRange(1970, 2099).Draw(t, "first year")
			b := rapid.IntRange(a, 2099).Draw(t, "last year")
			years = drawnField{text: fmt.Sprintf("%d-%d", a, b), has: func(v int) bool { return a <= v && v <= b }}
		}
		together := drawDayMatch(t)
		dom, dow, day := drawDays(t, 40, together)
		expr := strings.Join([]string{"7 30 12", dom, month.text, dow, years.text}, " ")
		s, err := schedule.Spec{Expr: expr, DayMatch: together}.Compile()
		require.NoError(t, err, expr)
		at := time.Date(rapid.IntRange(1970, 2101).Draw(t, "year"), 1, 1, 12, 30, 7, 0, time.UTC)
		at = at.AddDate(0, 0, rapid.IntRange(0, 366).Draw(t, "day"))
		after := effects.TimeOf(at)
		var want []effects.Time
		for d := at.AddDate(0, 0, 1); d.Year() < 2100 && len(want) < 20; d = d.AddDate(0, 0, 1) {
			if years.has(d.Year()) && month.has(int(d.Month())) && day(d) {
				want = append(want, effects.TimeOf(d))
			}
		}
		require.Equal(t, want, s.Preview(after, 20), "%q %s after %s", expr, together, after)
		require.Equal(t, len(want) == 0, s.Impossible(after))
	})
}

func TestEveryHardZoneFollowsTheRuleAtAllItsChanges(t *testing.T) {
	// The expressions that meet changes of the clocks most often, at each change
	// from 1972 on: the fixed seed picks some of the years.
	exprs := []struct {
		text    string
		elapsed bool
		has     func(w time.Time) bool
	}{
		{"0 0 * * *", false, func(w time.Time) bool { return w.Hour() == 0 && w.Minute() == 0 }},
		{"0,30 0-3 * * *", false, func(w time.Time) bool { return w.Hour() <= 3 && w.Minute()%30 == 0 }},
		{"*/15 * * * *", true, func(w time.Time) bool { return w.Minute()%15 == 0 }},
		{"10 */2 * * *", true, func(w time.Time) bool { return w.Hour()%2 == 0 && w.Minute() == 10 }},
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, name := range hardZones {
		zone, err := schedule.LoadZone(name)
		require.NoError(t, err)
		loc := zone.Location()
		for at := time.Date(1973, 1, 1, 0, 0, 0, 0, loc); at.Year() < 2099; {
			_, change := at.ZoneBounds()
			if change.IsZero() {
				break
			}
			at = later(at, change)
			if random.IntN(8) > 0 {
				continue
			}
			e := exprs[random.IntN(len(exprs))]
			s, err := schedule.ParseIn(e.text, zone, 0)
			require.NoError(t, err)
			from, to := change.Unix()-4*3600, change.Unix()+4*3600
			got, _ := s.Between(effects.Time(from*1000), effects.Time(to*1000), 1000)
			want := oracle{loc: loc, elapsed: e.elapsed, matches: e.has, step: 60}.between(from, to)
			assert.Equal(t, want, got, "%q in %s around %s", e.text, name, change)
			for minute := -100; minute < 200; minute += 10 {
				checkNext(t, s, want, effects.TimeOf(change.Add(time.Duration(minute)*time.Minute)), effects.Time(to*1000))
			}
		}
	}
}

func TestWhatIsDueInASpanIsWhatIsDueInItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, loc := drawZone(t)
		dom, dow, _ := drawDays(t, 80, "")
		spec := schedule.Spec{
			Expr:     strings.Join([]string{drawField(t, "minute", 0, 59, 15).text, drawField(t, "hour", 0, 23, 30).text, dom, "*", dow}, " "),
			DayMatch: drawDayMatch(t), DST: drawDST(t),
		}
		if rapid.IntRange(0, 9).Draw(t, "period") == 0 {
			spec = schedule.Spec{Expr: fmt.Sprintf("@every %ds", rapid.IntRange(1, 9999).Draw(t, "seconds")), Anchor: effects.Time(rapid.Int64Range(0, 1e12).Draw(t, "anchor"))}
		}
		s, err := spec.CompileIn(zone)
		require.NoError(t, err, spec)
		from := effects.Time(drawStart(t, loc, 20*3600, 1) * 1000)
		length := rapid.Int64Range(0, 40*3600_000).Draw(t, "length")
		to := from + effects.Time(length)
		at := from + effects.Time(rapid.Int64Range(0, length).Draw(t, "border"))
		whole := slices.Collect(s.Due(from, to))
		if len(whole) > 0 && rapid.Bool().Draw(t, "on an occurrence") {
			at = rapid.SampledFrom(whole).Draw(t, "occurrence")
		}
		parts := slices.AppendSeq(slices.Collect(s.Due(from, at)), s.Due(at, to))
		require.True(t, slices.Equal(whole, parts), "%+v in %s, (%s, %s] at %s", spec, zone.Name(), from, to, at)
		for _, due := range whole {
			require.True(t, due > from && due <= to)
		}
	})
}
