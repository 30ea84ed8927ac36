package schedule_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// dstZones change their clocks at many different times of the day, by an hour, by
// half an hour, by two hours, twice within a Ramadan, or by a whole day.
var dstZones = []string{
	"America/New_York", "America/Sao_Paulo", "America/Havana", "America/Santiago", "America/St_Johns", "America/Scoresbysund", "America/Asuncion",
	"America/Caracas", "Europe/Berlin", "Europe/Dublin", "Europe/Chisinau", "Africa/Casablanca", "Africa/Cairo", "Asia/Beirut", "Asia/Gaza",
	"Asia/Tehran", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "Pacific/Chatham", "Asia/Pyongyang", "Pacific/Norfolk",
}

// A lookedAt is a minute, and what the clock on the wall shows then, as if it were UTC.
type lookedAt struct{ t, wall int64 }

// look walks from one minute to another and reads the clock of the standard library.
func look(loc *time.Location, from, to int64) []lookedAt {
	var all []lookedAt
	for t := from; t <= to; t += 60 {
		all = append(all, lookedAt{t, wall(loc, t)})
	}
	return all
}

// ruled says at which of the minutes a fixed time fires, as docs/cron.md has it: a
// reading that the clock comes to for the first time fires then; one that it leaves
// out fires at the minute behind the gap, unless they are skipped; one that it comes
// to again fires again only under "twice".
func ruled(minutes []lookedAt, rule schedule.DST, has func(wall int64) bool) (fires []effects.Time) {
	highest := minutes[0].wall
	for _, m := range minutes[1:] {
		fire := false
		if rule != schedule.DSTSkip {
			for gap := highest + 60; gap < m.wall && !fire; gap += 60 {
				fire = has(gap)
			}
		}
		if m.wall > highest || rule == schedule.DSTTwice {
			fire = fire || has(m.wall)
		}
		if highest = max(highest, m.wall); fire {
			fires = append(fires, effects.Time(m.t*1000))
		}
	}
	return fires
}

// shown says at which of the minutes the clock shows one of the times.
func shown(minutes []lookedAt, has func(wall int64) bool) (fires []effects.Time) {
	for _, m := range minutes[1:] {
		if has(m.wall) {
			fires = append(fires, effects.Time(m.t*1000))
		}
	}
	return fires
}

// ruledExprs are expressions with what they mean.
var ruledExprs = []struct {
	text  string
	fixed bool
	has   func(hour, minute int64) bool
}{
	{"0 0 * * *", true, func(h, m int64) bool { return h == 0 && m == 0 }},
	{"30 2 * * *", true, func(h, m int64) bool { return h == 2 && m == 30 }},
	{"0,30,45 0-3 * * *", true, func(h, m int64) bool { return h <= 3 && (m == 0 || m == 30 || m == 45) }},
	{"*/7 1,2 * * *", true, func(h, m int64) bool { return (h == 1 || h == 2) && m%7 == 0 }},
	{"15 9-23 * * *", true, func(h, m int64) bool { return h >= 9 && m == 15 }},
	{"*/20 * * * *", false, func(_, m int64) bool { return m%20 == 0 }},
	{"10 */2 * * *", false, func(h, m int64) bool { return h%2 == 0 && m == 10 }},
}

var allRules = []schedule.DST{schedule.DSTOnceShifted, schedule.DSTSkip, schedule.DSTTwice}

// With ORRERY_SLOW=1 it takes all zones of the database.
func TestEachRuleHoldsOnTheDaysOfThirtyYearsOnWhichClocksChange(t *testing.T) {
	names, least := dstZones, 800
	if os.Getenv("ORRERY_SLOW") == "1" {
		names, least = schedule.ZoneNames(), 10_000
	}
	changes, differ := 0, map[string]bool{}
	for _, name := range names {
		changes += holdRules(t, name, differ)
	}
	require.Greater(t, changes, least)
	require.Equal(t, map[string]bool{"skiptrue": true, "twicetrue": true}, differ, "a rule is for fixed times alone, and each makes a difference")
}

// holdRules compares each rule with what the clock of a zone shows around its changes, notes which
// rules differ, and counts the changes.
func holdRules(t *testing.T, name string, differ map[string]bool) (changes int) {
	t.Helper()
	zone, err := schedule.LoadZone(name)
	require.NoError(t, err)
	loc := zone.Location()
	compiled := map[string]*schedule.Schedule{}
	for _, e := range ruledExprs {
		for _, rule := range allRules {
			compiled[e.text+string(rule)], err = schedule.Spec{Expr: e.text, DST: rule}.CompileIn(zone)
			require.NoError(t, err)
		}
	}
	for at := time.Date(2008, 1, 1, 0, 0, 0, 0, loc); ; {
		_, change := at.ZoneBounds()
		if at = later(at, change); change.IsZero() || at.Year() >= 2038 {
			return changes
		}
		if _, before := change.Add(-time.Second).Zone(); before == offset(change) {
			continue // the name of the zone changed, not the clock
		}
		changes++
		minutes := look(loc, change.Unix()-28*3600, change.Unix()+28*3600)
		from, to := effects.Time(minutes[0].t*1000), effects.Time(minutes[len(minutes)-1].t*1000)
		for _, e := range ruledExprs {
			has := func(wall int64) bool { return e.has(wall/3600%24, wall/60%60) }
			lists := map[schedule.DST][]effects.Time{}
			for _, rule := range allRules {
				want := shown(minutes, has)
				if e.fixed {
					want = ruled(minutes, rule, has)
				}
				s := compiled[e.text+string(rule)]
				lists[rule] = slices.Collect(s.Due(from, to))
				require.True(t, slices.Equal(want, lists[rule]), "%s %q in %s around %s:\nwant %s\ngot  %s", rule, e.text, name, change, want, lists[rule])
				for _, minute := range []int64{-60, 0, 60} { // whoever asks in two parts, one ending at the change, is told the same
					middle := effects.Time((change.Unix() + minute) * 1000)
					parts := slices.AppendSeq(slices.Collect(s.Due(from, middle)), s.Due(middle, to))
					require.True(t, slices.Equal(want, parts), "%s %q in %s, in two parts at %s:\nwant %s\ngot  %s", rule, e.text, name, middle, want, parts)
				}
			}
			for _, rule := range allRules[1:] {
				if !slices.Equal(lists[rule], lists[schedule.DSTOnceShifted]) {
					differ[fmt.Sprint(rule, e.fixed)] = true
				}
			}
		}
	}
}

func offset(at time.Time) int {
	_, off := at.Zone()
	return off
}
