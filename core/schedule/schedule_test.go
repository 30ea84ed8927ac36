package schedule_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t testing.TB, expr string) *schedule.Schedule {
	s, err := schedule.Parse(expr, "UTC", 0)
	require.NoError(t, err, expr)
	return s
}

func TestExpressionsFireWhenVixieCronAndCronerSay(t *testing.T) {
	for _, row := range []struct{ expr, after, next string }{
		{"*/10 * * * * *", "2026-02-10T14:00:00Z", "2026-02-10T14:00:10Z"}, // six fields: the first is the second
		{"0 9 * * MON-FRI", "2026-02-13T09:00:00Z", "2026-02-16T09:00:00Z"},
		{"0 9 * * mon-fri", "2026-02-13T08:59:59.999Z", "2026-02-13T09:00:00Z"},
		{"0 22-2 * * *", "2026-02-10T22:30:00Z", "2026-02-10T23:00:00Z"}, // reversed ranges wrap around
		{"0 22-2 * * *", "2026-02-10T02:00:00Z", "2026-02-10T22:00:00Z"},
		{"0 0 * * FRI-MON", "2026-02-09T12:00:00Z", "2026-02-13T00:00:00Z"},
		{"0 10-7 * * *", "2026-02-10T07:00:00Z", "2026-02-10T10:00:00Z"},
		{"0 0 28-2 * *", "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"0 0 1 NOV-FEB *", "2026-02-01T00:00:00Z", "2026-11-01T00:00:00Z"},
		{"0 22-4/2 * * *", "2026-02-10T22:00:00Z", "2026-02-11T00:00:00Z"},
		{"3/5 * * * *", "2026-02-10T14:54:00Z", "2026-02-10T14:58:00Z"},
		{"3/5 * * * *", "2026-02-10T14:58:00Z", "2026-02-10T15:03:00Z"},
		{"0 0 1-30/7 * *", "2026-02-22T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"0 0 13 * FRI", "2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z"}, // both restricted: either
		{"0 0 13 * FRI", "2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"},
		{"0 0 14 * FRI", "2026-02-13T00:00:00Z", "2026-02-14T00:00:00Z"},
		{"0 0 14 * ?", "2026-02-13T00:00:00Z", "2026-02-14T00:00:00Z"},
		{"0 0 ? * FRI", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"},
		{"0 0 */2 * FRI", "2026-02-12T00:00:00Z", "2026-02-13T00:00:00Z"}, // a step restricts too
		{"0 0 */1 * FRI", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}, // unless it is every day
		{"0 0 * * 7", "2026-02-10T00:00:00Z", "2026-02-15T00:00:00Z"},
		{"0 0 * * 0", "2026-02-10T00:00:00Z", "2026-02-15T00:00:00Z"},
		{"0 0 * * 5-7", "2026-02-14T00:00:00Z", "2026-02-15T00:00:00Z"},
		{"0 0 * * 7-2", "2026-02-11T00:00:00Z", "2026-02-15T00:00:00Z"},
		{"0 0 * * 7-7", "2026-02-10T00:00:00Z", "2026-02-15T00:00:00Z"},
		{"0 0 * * 7#2", "2026-02-01T00:00:00Z", "2026-02-08T00:00:00Z"},
		{"0 0 * * 7L", "2026-02-10T00:00:00Z", "2026-02-22T00:00:00Z"},
		{"0 0 L * *", "2026-02-10T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"0 0 L 2 *", "2026-03-01T00:00:00Z", "2027-02-28T00:00:00Z"},
		{"0 0 LW * *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z"},
		{"0 0 15W * *", "2026-02-01T00:00:00Z", "2026-02-16T00:00:00Z"}, // the 15th is a Sunday
		{"0 0 1W * *", "2026-07-31T12:00:00Z", "2026-08-03T00:00:00Z"},  // never in another month
		{"0 0 31W * *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z"}, // the 31st is a Sunday
		{"0 0 31W * *", "2026-06-01T00:00:00Z", "2026-07-31T00:00:00Z"}, // June has no 31st
		{"0 0 * * MON#2", "2026-02-01T00:00:00Z", "2026-02-09T00:00:00Z"},
		{"0 0 * * 5#5", "2026-02-01T00:00:00Z", "2026-05-29T00:00:00Z"},
		{"0 0 * * 5L", "2026-02-01T00:00:00Z", "2026-02-27T00:00:00Z"},
		{"0 0 * * FRI#L", "2026-02-01T00:00:00Z", "2026-02-27T00:00:00Z"},
		{"0 0 29 2 *", "2096-02-29T00:00:00Z", "none"}, // 2100 is no leap year, and beyond the calendar
		{"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 * 2 SUN#5", "2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"}, // 28 years apart
		{"0 0 30 2 *", "2026-01-01T00:00:00Z", "none"},
		{"0 0 31 4,6,9,11 *", "2026-01-01T00:00:00Z", "none"},
		{"0 0 0 1 1 ? 2020-2025", "2026-01-01T00:00:00Z", "none"},
		{"0 0 0 29 2 ? 2027", "2026-01-01T00:00:00Z", "none"},
		{"0 0 0 1 1 ? 2027,2030", "2027-01-01T00:00:00Z", "2030-01-01T00:00:00Z"},
		{"0 0 12 * * ? 2099", "2099-12-31T11:00:00Z", "2099-12-31T12:00:00Z"},
		{"* * * * * *", "2099-12-31T23:59:59Z", "none"},
		{"* * * * *", "9999-12-31T23:59:59.999Z", "none"},
		{" \t0  9\t* * * ", "2026-02-10T14:00:00Z", "2026-02-11T09:00:00Z"},
		{"@yearly", "2026-02-10T14:00:00Z", "2027-01-01T00:00:00Z"},
		{"@Annually", "2026-02-10T14:00:00Z", "2027-01-01T00:00:00Z"},
		{"@monthly", "2026-02-10T14:00:00Z", "2026-03-01T00:00:00Z"},
		{"@weekly", "2026-02-10T14:00:00Z", "2026-02-15T00:00:00Z"},
		{"@daily", "2026-02-10T14:00:00Z", "2026-02-11T00:00:00Z"},
		{"@midnight", "2026-02-10T14:00:00Z", "2026-02-11T00:00:00Z"},
		{"@hourly", "2026-02-10T14:00:00Z", "2026-02-10T15:00:00Z"},
		{"@every 90s", "2026-02-10T14:00:00Z", "2026-02-10T14:01:30Z"}, // from 1970 on, where there is no anchor
		{"@at 2026-02-10T15:00:00.250+01:00", "2026-02-10T14:00:00Z", "2026-02-10T14:00:00.250Z"},
		{"@at 2026-02-10T15:00:00Z", "2026-02-10T15:00:00Z", "none"},
	} {
		next, ok := parse(t, row.expr).Next(instant(t, row.after))
		if row.next == "none" {
			assert.False(t, ok, "%q after %s gave %s", row.expr, row.after, next)
			assert.Zero(t, next)
			assert.True(t, parse(t, row.expr).Impossible(instant(t, row.after)))
			continue
		}
		require.True(t, ok, row.expr)
		assert.Equal(t, instant(t, row.next), next, "%q after %s gave %s", row.expr, row.after, next)
	}
}

func TestWhatIsNoExpressionIsRefusedWithTheFieldAndTheReason(t *testing.T) {
	datadriven.RunTest(t, "testdata/refused.txt", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			_, err := schedule.Parse(strings.TrimSuffix(line, "\n"), "UTC", 0)
			var bad *schedule.Error
			require.ErrorAs(t, err, &bad, line)
			b.WriteString(err.Error() + "\n")
		}
		return b.String()
	})
	for name, expr := range map[string]string{
		"nothing":       "",
		"blanks":        " \t ",
		"NUL":           "0 9 * * \x00",
		"newline":       "0 9 * * *\n",
		"invalid UTF-8": "0 9 * * \xff",
		"other blanks":  "0\u00a09 * * *",
		"other digits":  "٠ 9 * * *",
		"10 kB commas":  strings.Repeat(",", 10_000) + " * * * *",
		"1 kB commas":   strings.Repeat(",", 1000) + " * * * *",
		"long":          "0 9 * * *" + strings.Repeat(" ", 1024),
	} {
		_, err := schedule.Parse(expr, "UTC", 0)
		require.ErrorContains(t, err, "cron_expr: ", name)
		assert.Less(t, len(err.Error()), 500, name)
		assert.NotContains(t, err.Error(), "\x00")
	}
}

func TestDescriptionsReadAsEnglish(t *testing.T) {
	datadriven.RunTest(t, "testdata/describe.txt", func(t *testing.T, d *datadriven.TestData) string {
		zone, match := "UTC", ""
		d.MaybeScanArgs(t, "zone", &zone)
		d.MaybeScanArgs(t, "day_match", &match)
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			s, err := schedule.Spec{Expr: strings.TrimSuffix(line, "\n"), Zone: zone, DayMatch: schedule.DayMatch(match)}.Compile()
			require.NoError(t, err, line)
			b.WriteString(s.Describe() + "\n")
		}
		return b.String()
	})
}

func TestWhatMeansSomethingElseThanItSeemsToIsWarnedOf(t *testing.T) {
	datadriven.RunTest(t, "testdata/warnings.txt", func(t *testing.T, d *datadriven.TestData) string {
		match := ""
		d.MaybeScanArgs(t, "day_match", &match)
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			s, err := schedule.Spec{Expr: strings.TrimSuffix(line, "\n"), DayMatch: schedule.DayMatch(match)}.Compile()
			require.NoError(t, err, line)
			for _, w := range s.Warnings() {
				b.WriteString(w + "\n")
			}
		}
		if b.Len() == 0 {
			return "none\n"
		}
		return b.String()
	})
}

func TestAStepBeyondItsRangeStandsForTheFirstValueAlone(t *testing.T) {
	for _, row := range []struct{ odd, plain string }{
		{"9-15/10 * * * *", "9 * * * *"},
		{"30 18-21/7 * * *", "30 18 * * *"},
		{"*/90 * * * *", "0 * * * *"},
		{"5/77 * * * *", "5 * * * *"},
		{"*/123456 9 * * *", "0 9 * * *"},
		{"0 22-2/5 * * *", "0 22 * * *"},
		{"0 0 */40 * *", "0 0 1 * *"},
		{"0 0 3-5/3,20 * *", "0 0 3,20 * *"},
		{"0 0 1 11-2/4 *", "0 0 1 11 *"},
		{"0 0 * * 5-7/3", "0 0 * * FRI"},
		{"0 0 * * 7-7/3", "0 0 * * SUN"},
		{"0 0 0 1 1 ? 2030-2035/6", "0 0 0 1 1 ? 2030"},
	} {
		from := instant(t, "2026-02-10T14:00:00Z")
		assert.Equal(t, parse(t, row.plain).Preview(from, 50), parse(t, row.odd).Preview(from, 50), row.odd)
		assert.Equal(t, parse(t, row.plain).Describe(), parse(t, row.odd).Describe(), row.odd)
		assert.Len(t, parse(t, row.odd).Warnings(), 1, row.odd)
		assert.Empty(t, parse(t, row.plain).Warnings())
	}
}

func TestNamesMayBeWhole(t *testing.T) {
	for _, row := range []struct{ whole, short string }{
		{"0 0 * * Monday", "0 0 * * 1"},
		{"0 0 * january *", "0 0 * 1 *"},
		{"0 0 * * FRIDAY-sunday", "0 0 * * 5-7"},
		{"0 0 * November-FEB/2 TUESDAY,Wed", "0 0 * 11-2/2 2,3"},
		{"0 0 * * thursday#2,SATURDAYL,Monday#L", "0 0 * * 4#2,6L,1L"},
		{"0 0 * May *", "0 0 * 5 *"},
	} {
		from := instant(t, "2026-02-10T14:00:00Z")
		assert.Equal(t, parse(t, row.short).Preview(from, 50), parse(t, row.whole).Preview(from, 50), row.whole)
		assert.Equal(t, parse(t, row.short).Describe(), parse(t, row.whole).Describe())
	}
}

func TestARuleForChangesOfTheClocksThatIsUnknownIsRefused(t *testing.T) {
	_, err := schedule.Spec{Expr: "@daily", DST: "never"}.Compile()
	assert.EqualError(t, err, `dst: "never" is unknown: write "once_shifted", "skip" or "twice"`)
}

func TestADayMatchThatIsUnknownIsRefused(t *testing.T) {
	_, err := schedule.Spec{Expr: "@daily", DayMatch: "and"}.Compile()
	assert.EqualError(t, err, `day_match: "and" is unknown: write "either" or "both"`)
	var bad *schedule.Error
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, "day_match", bad.Field)
}

func TestAPeriodCountsFromItsAnchorWhichIsItsFirstOccurrence(t *testing.T) {
	anchor := instant(t, "2026-02-10T14:00:00.500Z")
	s, err := schedule.Every(90*time.Second, anchor)
	require.NoError(t, err)
	for after, want := range map[effects.Time]effects.Time{
		0:                               anchor,
		anchor - 1:                      anchor,
		anchor:                          anchor + 90_000,
		anchor + 89_999:                 anchor + 90_000,
		anchor + 90_000:                 anchor + 180_000,
		anchor.Add(1000 * time.Hour):    anchor.Add(1000*time.Hour + 90*time.Second),
		anchor.Add(1000*time.Hour) - 10: anchor.Add(1000 * time.Hour),
	} {
		next, ok := s.Next(after)
		require.True(t, ok)
		assert.Equal(t, want, next, "after %s", after)
	}
	_, ok := s.Next(effects.MaxTime)
	assert.False(t, ok)
	for _, bad := range []time.Duration{0, -time.Hour, time.Millisecond, 1500 * time.Millisecond} {
		_, err := schedule.Every(bad, anchor)
		assert.ErrorContains(t, err, "cron_expr: @every", "%s", bad)
	}
	for _, bad := range []effects.Time{-1, effects.MaxTime + 1} {
		_, err := schedule.Every(time.Hour, bad)
		assert.ErrorContains(t, err, "anchor: ")
	}
}

func TestASingleInstantOccursOnce(t *testing.T) {
	at := instant(t, "2026-02-10T14:00:00.001Z")
	s, err := schedule.Once(at)
	require.NoError(t, err)
	assert.Equal(t, []effects.Time{at}, s.Preview(0, 5))
	assert.Equal(t, []effects.Time{at}, s.Preview(at-1, 5))
	assert.Empty(t, s.Preview(at, 5))
	assert.True(t, s.Impossible(at))
	_, err = schedule.Once(0)
	assert.Error(t, err)
}

func TestBetweenLeavesOutItsStartIncludesItsEndAndSaysWhenThereIsMore(t *testing.T) {
	s := parse(t, "0 * * * *")
	at := func(hour int) effects.Time {
		return instant(t, "2026-02-10T00:00:00Z").Add(time.Duration(hour) * time.Hour)
	}
	for _, row := range []struct {
		from, to effects.Time
		limit    int
		want     []effects.Time
		more     bool
	}{
		{at(1), at(3), 5, []effects.Time{at(2), at(3)}, false},
		{at(1), at(3), 2, []effects.Time{at(2), at(3)}, false},
		{at(1), at(3), 1, []effects.Time{at(2)}, true},
		{at(1), at(3), 0, nil, true},
		{at(1), at(3), -1, nil, true},
		{at(1), at(2) - 1, 5, nil, false},
		{at(3), at(1), 5, nil, false},
	} {
		times, more := s.Between(row.from, row.to, row.limit)
		assert.Equal(t, row.want, times)
		assert.Equal(t, row.more, more)
		n, capped := s.Count(row.from, row.to, row.limit)
		assert.Equal(t, max(len(row.want), 0), n)
		assert.Equal(t, row.more, capped)
	}
}

func TestASpecKeepsItsJSONFormAndComesBackEqual(t *testing.T) {
	for _, row := range []struct {
		spec schedule.Spec
		json string
	}{
		{schedule.Spec{Expr: "0 9 * * MON-FRI", Zone: "US/Eastern"}, `{"expr":"0 9 * * MON-FRI","timezone":"US/Eastern"}`},
		{schedule.Spec{Expr: "0 9 */2 * MON", Zone: "UTC", DayMatch: schedule.DayMatchBoth}, `{"expr":"0 9 */2 * MON","timezone":"UTC","day_match":"both"}`},
		{schedule.Spec{Expr: "30 2 * * *", Zone: "US/Eastern", DST: schedule.DSTSkip}, `{"expr":"30 2 * * *","timezone":"US/Eastern","dst":"skip"}`},
		{schedule.Spec{Expr: "@daily", Zone: "UTC"}, `{"expr":"@daily","timezone":"UTC"}`},
		{schedule.Spec{Expr: "@every 1h0m0s", Zone: "UTC", Anchor: 1}, `{"expr":"@every 1h0m0s","timezone":"UTC","anchor":"1970-01-01T00:00:00.001Z"}`},
	} {
		s, err := row.spec.Compile()
		require.NoError(t, err)
		assert.Equal(t, row.spec, s.Spec())
		for _, v := range []any{row.spec, s} {
			b, err := json.Marshal(v)
			require.NoError(t, err)
			assert.Equal(t, row.json, string(b))
		}
		var back schedule.Schedule
		require.NoError(t, json.Unmarshal([]byte(row.json), &back))
		assert.Equal(t, row.spec, back.Spec())
		assert.Equal(t, s.Preview(0, 3), back.Preview(0, 3))
	}
	unzoned, err := schedule.Spec{Expr: "@daily"}.Compile()
	require.NoError(t, err)
	assert.Equal(t, "UTC", unzoned.Zone())

	for _, made := range []func() (*schedule.Schedule, error){
		func() (*schedule.Schedule, error) { return schedule.Every(90*time.Minute, 7) },
		func() (*schedule.Schedule, error) { return schedule.Once(7) },
	} {
		s, err := made()
		require.NoError(t, err)
		again, err := schedule.Parse(s.Expr(), s.Zone(), s.Anchor())
		require.NoError(t, err)
		assert.Equal(t, s.Preview(0, 3), again.Preview(0, 3))
		assert.Equal(t, s.Spec(), again.Spec())
	}
	var s schedule.Schedule
	for _, bad := range []string{`{"expr":"@daily","zone":"UTC"}`, `{"expr":"61 * * * *"}`, `{"expr":"@daily","timezone":"Local"}`, `[]`, `{`} {
		assert.Error(t, json.Unmarshal([]byte(bad), &s), bad)
	}
}

func TestASharedScheduleAnswersAllGoroutinesAlike(t *testing.T) {
	s, err := schedule.Parse("30 2 L,15W * MON#2", "America/New_York", 0)
	require.NoError(t, err)
	want := s.Preview(0, 300)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.Equal(t, want, s.Preview(0, 300)) })
	}
	wg.Wait()
}

func TestTheZeroTimeIsNeverAnOccurrence(t *testing.T) {
	for _, expr := range []string{"* * * * * *", "0 0 1 1 *", "@every 1s"} {
		for _, after := range []effects.Time{0, -1, -1 << 63} {
			next, ok := parse(t, expr).Next(after)
			require.True(t, ok)
			assert.Positive(t, next, expr)
		}
	}
}
