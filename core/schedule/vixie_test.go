package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// A vixieField is a field as Vixie cron keeps it: a bit for each value, and whether
// the field begins with a star.
type vixieField struct {
	bits map[int]bool
	star bool
}

// vixie reads a field as get_list and get_range of Vixie cron's entry.c do: the
// values of a range are counted from its first on by its step, and never leave it.
func vixie(t require.TestingT, text string, lo, hi int) vixieField {
	f := vixieField{bits: map[int]bool{}, star: text[0] == '*'}
	for item := range strings.SplitSeq(text, ",") {
		first, last, step := lo, hi, 1
		body, stepText, stepped := strings.Cut(item, "/")
		if stepped {
			_, err := fmt.Sscan(stepText, &step)
			require.NoError(t, err)
		}
		if body != "*" {
			from, to, ranged := strings.Cut(body, "-")
			_, err := fmt.Sscan(from, &first)
			require.NoError(t, err)
			if last = first; ranged {
				_, err = fmt.Sscan(to, &last)
				require.NoError(t, err)
			}
		}
		for v := first; v <= last; v += step {
			f.bits[v] = true
		}
	}
	return f
}

// vixieDay is the test of cron.c: both must match if one of the fields begins with a
// star, and either otherwise.
func vixieDay(dom, dow vixieField, at time.Time) bool {
	d := dom.bits[at.Day()]
	w := dow.bits[int(at.Weekday())] || at.Weekday() == time.Sunday && dow.bits[7]
	if dom.star || dow.star {
		return d && w
	}
	return d || w
}

// drawVixie draws a field of Vixie cron's language, steps beyond the range included.
// A list that names every value by a star which is not its first item is left out: to
// Vixie cron it restricts, to Orrery it does not.
func drawVixie(t *rapid.T, label string, lo, hi int) string {
	var items []string
	for i := range rapid.IntRange(1, 3).Draw(t, label+" items") {
		a := rapid.IntRange(lo, hi).Draw(t, fmt.Sprint(label, i, " from"))
		b := rapid.IntRange(a, hi).Draw(t, fmt.Sprint(label, i, " to"))
		step := rapid.IntRange(1, hi+20).Draw(t, fmt.Sprint(label, i, " step"))
		if rapid.Bool().Draw(t, fmt.Sprint(label, i, " short step")) {
			step = 1 + step%4
		}
		switch rapid.IntRange(min(i, 1), 4).Draw(t, fmt.Sprint(label, i, " form")) {
		case 0:
			items = append(items, "*")
		case 1:
			items = append(items, fmt.Sprintf("*/%d", max(step, 1+min(i, 1))))
		case 2:
			items = append(items, fmt.Sprintf("%d-%d", a, b))
		case 3:
			items = append(items, fmt.Sprintf("%d-%d/%d", a, b, step))
		default:
			items = append(items, fmt.Sprint(a))
		}
	}
	return strings.Join(items, ",")
}

// TestADayMatchGivesTheDaysOfVixieCron: a crontab's line means in Orrery what it
// means there, with "both" if one of its day fields begins with a star, and a line
// that means something else without it is warned of.
func TestADayMatchGivesTheDaysOfVixieCron(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := []string{
			drawVixie(t, "minute", 0, 59), drawVixie(t, "hour", 0, 23), drawVixie(t, "dom", 1, 31), drawVixie(t, "month", 1, 12), drawVixie(t, "dow", 0, 7),
		}
		minute, hour, month := vixie(t, fields[0], 0, 59), vixie(t, fields[1], 0, 23), vixie(t, fields[3], 1, 12)
		dom, dow := vixie(t, fields[2], 1, 31), vixie(t, fields[4], 0, 7)
		spec := schedule.Spec{Expr: strings.Join(fields, " "), DayMatch: schedule.DayMatchEither}
		if dom.star || dow.star {
			spec.DayMatch = schedule.DayMatchBoth
		}
		s, err := spec.Compile()
		require.NoError(t, err, spec)
		from := time.Unix(rapid.Int64Range(1, 129*365).Draw(t, "day")*86400-60, 0).UTC()
		var want []effects.Time
		for day := range 12 {
			midnight := from.Add(time.Minute).AddDate(0, 0, day)
			if !month.bits[int(midnight.Month())] || !vixieDay(dom, dow, midnight) {
				continue
			}
			for m := range 24 * 60 {
				if hour.bits[m/60] && minute.bits[m%60] {
					want = append(want, effects.TimeOf(midnight.Add(time.Duration(m)*time.Minute)))
				}
			}
		}
		to := effects.TimeOf(from.AddDate(0, 0, 12))
		got, _ := s.Between(effects.TimeOf(from), to, 1_000_000)
		require.True(t, slices.Equal(want, got), "%+v from %s: %d and %d", spec, from, len(want), len(got))

		spec.DayMatch = ""
		plain, err := spec.Compile()
		require.NoError(t, err)
		if other, _ := plain.Between(effects.TimeOf(from), to, 1_000_000); len(other) != len(want) {
			require.Contains(t, strings.Join(plain.Warnings(), "\n"), "Vixie cron takes the days that match both", "%+v", spec)
		}
	})
}

func TestTheDaysThatMatchBothAreThoseThatEachFieldNamesAlone(t *testing.T) {
	from, to := instant(t, "2026-12-31T23:00:00Z"), instant(t, "2033-01-01T00:00:00Z")
	days := func(dom, dow string, match schedule.DayMatch) []effects.Time {
		s, err := schedule.Spec{Expr: "0 0 " + dom + " 2-12 " + dow, DayMatch: match}.Compile()
		require.NoError(t, err)
		times, _ := s.Between(from, to, 10_000)
		return times
	}
	for _, dom := range []string{"13", "*/2", "22-24", "L", "LW", "1W", "15W", "31W", "30W,31W,L", "29", "3,L"} {
		for _, dow := range []string{"MON", "*/2", "SAT,SUN", "5L", "0L,6L", "MON#1", "TUE#5", "1-5", "3,FRI#L"} {
			alone := days("*", dow, schedule.DayMatchBoth)
			var want []effects.Time
			for _, at := range days(dom, "*", schedule.DayMatchBoth) {
				if slices.Contains(alone, at) {
					want = append(want, at)
				}
			}
			require.Equal(t, want, days(dom, dow, schedule.DayMatchBoth), "%s and %s", dom, dow)
		}
	}
}
