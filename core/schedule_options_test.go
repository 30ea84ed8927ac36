package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// drawOptions draws what a schedule means beyond its expression. Its start, if it has one, is not
// far from now.
func drawOptions(t *rapid.T, now core.Time) core.ScheduleOptions {
	o := core.ScheduleOptions{
		DST:           rapid.SampledFrom([]schedule.DST{"", schedule.DSTOnceShifted, schedule.DSTSkip, schedule.DSTTwice}).Draw(t, "dst"),
		DayMatch:      rapid.SampledFrom([]schedule.DayMatch{"", schedule.DayMatchBoth}).Draw(t, "days"),
		MaxExecutions: rapid.SampledFrom([]uint64{0, 0, 1, 4, 7}).Draw(t, "max"),
		JitterSeconds: rapid.SampledFrom([]int64{0, 0, 1, 50, 4000, core.MaxJitterSeconds}).Draw(t, "jitter"),
	}
	if rapid.Bool().Draw(t, "starts") {
		o.StartsAt = now.Add(drawJump(t) / 10)
	}
	return o
}

// oracle says what is due, and what of it is left out, from the two rules of a schedule alone.
type oracle struct{ all, fires *schedule.Schedule }

func oracleOf(t require.TestingT, expr, zone string, o core.ScheduleOptions, created core.Time) oracle {
	spec := schedule.Spec{Expr: expr, Zone: zone, DayMatch: o.DayMatch, DST: o.DST, Anchor: created}
	if o.StartsAt != 0 {
		spec.Anchor = o.StartsAt
	}
	fires, err := spec.Compile()
	require.NoError(t, err)
	if o.DST == schedule.DSTSkip {
		spec.DST = schedule.DSTOnceShifted
	}
	all, err := spec.Compile()
	require.NoError(t, err)
	return oracle{all, fires}
}

// within lists the due instants in (from, to] that are not before the start.
func (o oracle) within(from, to, starts core.Time) []core.Time {
	return slices.Collect(o.all.Due(max(from, starts-1), to))
}

// Whatever the options are, each due instant gets one verdict: skipped if the clocks skip it,
// dispatched if it is the last that came and is not too late, else missed; none is dispatched
// before its time, after its jitter, or beyond what the schedule may dispatch.
func TestEachTimeOfARecurringActionWithOptionsGetsOneVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := goldenRecurringSpec()
		spec.CronExpr, spec.Timezone = drawTimes(t)
		spec.EndsAt, spec.StartDeadlineSeconds = 0, 3600
		now := rapid.SampledFrom([]core.Time{start, springForward}).Draw(t, "made")
		spec.ScheduleOptions = drawOptions(t, now)
		r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: now})
		require.False(t, r.CreatedAt.IsZero(), "%v", effs)
		made := now
		model := oracleOf(t, spec.CronExpr, spec.Timezone, spec.ScheduleOptions, now)
		jitter := core.Time(spec.JitterSeconds * 1000)
		var ledger []core.Occurrence
		for round := 0; round < 12 && r.Deadline() != 0; round++ {
			now = max(now, r.Deadline()).Add(time.Duration(rapid.SampledFrom([]int64{0, 0, 0, 1, 3599, 3601, 90_000}).Draw(t, "late")) * time.Second)
			r, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: now, Step: uint64(round + 1)})
			for _, more := range sends[core.OccurrenceExtend](step{effs: effs}) { // equal neighbours are one entry
				last := &ledger[len(ledger)-1]
				last.LastDueAt, last.Count = more.LastDueAt, last.Count+more.Count
			}
			for _, o := range recordedIn(effs) {
				if o.Verdict == core.VerdictDispatched {
					next, ok := model.all.Next(o.DueAt)
					latest := o.DueAt + jitter
					if ok {
						latest = min(latest, next-1)
					}
					require.GreaterOrEqual(t, now, o.DueAt)
					require.LessOrEqual(t, now, latest+3_600_000, "dispatched later than its start deadline")
				}
				ledger = append(ledger, o)
			}
		}
		for r.Enabled && r.Deadline() <= now { // it has dispatched as many as it may, and ends at once
			r, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: now, Step: 13})
			require.Empty(t, recordedIn(effs))
		}
		checkLedger(t, r, model, ledger, made)
		dispatched := uint64(len(verdicts(ledger, core.VerdictDispatched)))
		require.Equal(t, dispatched, r.ExecutionCount)
		if spec.MaxExecutions > 0 {
			require.Equal(t, dispatched, r.Executions)
			require.LessOrEqual(t, dispatched, spec.MaxExecutions)
			require.Equal(t, dispatched == spec.MaxExecutions, r.DisabledReason != "", r.DisabledReason)
		}
	})
}

// springForward is some minutes before the clocks of Europe/Berlin go forward.
var springForward = effects.TimeOf(time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC))

// checkLedger checks that the entries, put in order, are the due instants of the model from the
// time it was made until the last that is decided: each once, and skipped where it is left out.
func checkLedger(t require.TestingT, r core.RecurringAction, model oracle, ledger []core.Occurrence, made core.Time) {
	slices.SortFunc(ledger, func(a, b core.Occurrence) int { return int(a.DueAt - b.DueAt) })
	times := model.within(made, r.LastDueAt, r.StartsAt)
	fires := map[core.Time]bool{}
	for at := range model.fires.Due(max(made, r.StartsAt-1), r.LastDueAt) {
		fires[at] = true
	}
	var missed, skipped uint64
	decided := map[core.Time]core.Verdict{}
	for _, o := range ledger {
		missed, skipped = missed+o.Count*oneIf(o.Verdict == core.VerdictMissed), skipped+o.Count*oneIf(o.Verdict == core.VerdictSkipped)
		covered := uint64(0)
		first, _ := slices.BinarySearch(times, o.DueAt)
		for _, at := range times[first:] {
			if at > o.LastDueAt {
				break
			}
			if fires[at] == (o.Verdict == core.VerdictSkipped) {
				continue
			}
			require.Empty(t, decided[at], "%s has two verdicts", at)
			decided[at], covered = o.Verdict, covered+1
		}
		require.Equal(t, covered, o.Count, "%s from %s to %s", o.Verdict, o.DueAt, o.LastDueAt)
	}
	require.Len(t, decided, len(times), "each has a verdict")
	require.Equal(t, missed, r.MissedCount)
	require.Equal(t, skipped, r.SkippedCount)
}

func oneIf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// recordedIn gives the occurrences that are recorded.
func recordedIn(effs []effects.Effect) (all []core.Occurrence) {
	for _, e := range effs {
		if send, ok := e.(effects.Send); ok {
			if record, ok := send.Event.(core.OccurrenceRecord); ok {
				all = append(all, record.Occurrence)
			}
		}
	}
	return all
}

// verdicts gives those entries that have the verdict.
func verdicts(all []core.Occurrence, v core.Verdict) []core.Occurrence {
	return slices.DeleteFunc(slices.Clone(all), func(o core.Occurrence) bool { return o.Verdict != v })
}

// A schedule that spreads what is due at one instant does so evenly, by the id.
func TestJitterSpreadsWhatIsDueAtOneInstant(t *testing.T) {
	const jitterSeconds, parts = 600, 10
	counts := make([]int, parts)
	for n := range 1000 {
		spec := goldenRecurringSpec()
		spec.ID = core.ChildID(spec.ID, "definition", 1, uint64(n))
		spec.CronExpr, spec.Timezone, spec.EndsAt, spec.JitterSeconds = "0 * * * *", "UTC", 0, jitterSeconds
		r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
		late := r.Deadline() - r.NextExecutionAt
		again, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start + 1})
		require.Equal(t, r.Deadline(), again.Deadline(), "it follows from the id and the time alone")
		counts[int(late)*parts/(jitterSeconds*1000+1)]++
	}
	for part, n := range counts {
		assert.InDelta(t, 100, n, 50, "part %d of %d", part, parts)
	}
}

// The options are refused with the field, the value and what would be right, in both kinds.
func TestOptionsOfASchedule(t *testing.T) {
	for _, row := range []struct {
		options core.ScheduleOptions
		want    string
	}{
		{core.ScheduleOptions{JitterSeconds: -1}, "jitter_seconds: -1 is not between 0 and 86400"},
		{core.ScheduleOptions{JitterSeconds: 86401}, "jitter_seconds: 86401 is not between 0 and 86400"},
		{core.ScheduleOptions{StartsAt: -5}, "starts_at: "},
		{core.ScheduleOptions{StartsAt: start.Add(3000 * time.Hour)}, "ends_at: 2026-06-01T00:00:00.000Z is not after starts_at, "},
		{core.ScheduleOptions{MaxExecutions: core.MaxMaxExecutions + 1}, "max_executions: 1000000000001 is not between 0 and 1000000000000"},
		{core.ScheduleOptions{DST: "never"}, `dst: "never" is unknown: write "once_shifted", "skip" or "twice"`},
		{core.ScheduleOptions{DayMatch: "none"}, `day_match: "none" is unknown: write "either" or "both"`},
	} {
		recurring := goldenRecurringSpec()
		recurring.EndsAt = effects.TimeOf(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
		recurring.ScheduleOptions = row.options
		_, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: recurring}, core.Clock{Now: start})
		assert.Contains(t, fmt.Sprint(effs), row.want)
		job := goldenJobSpec()
		job.EndsAt = recurring.EndsAt
		job.ScheduleOptions = row.options
		_, effs = core.Job{}.Apply(core.JobApply{Spec: job}, core.Clock{Now: start})
		assert.Contains(t, fmt.Sprint(effs), row.want)
	}
}

// A dedup key gives back what the schedule may dispatch: only what is dispatched counts, and the
// last one ends it.
func TestWhatADedupKeyHeldBackIsNoExecution(t *testing.T) {
	spec := goldenRecurringSpec()
	spec.CronExpr, spec.Timezone, spec.EndsAt, spec.MaxExecutions = "* * * * *", "UTC", 0, 1
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	now := r.Deadline()
	r, _ = r.Apply(core.RecurringDue{}, core.Clock{Now: now, Step: 1})
	require.True(t, r.Enabled, "the key may give it back, in the same turn")
	require.Equal(t, now, r.Deadline(), "else it ends at once")
	given, _ := r.Apply(core.RecurringDeduplicated{N: 1}, core.Clock{Now: now, Step: 1})
	assert.Equal(t, now.Add(time.Minute), given.Deadline())
	byHand, _ := r.Apply(core.RecurringTrigger{}, core.Clock{Now: now, Step: 1})
	byHand, _ = byHand.Apply(core.RecurringDeduplicated{Manual: true, N: 2}, core.Clock{Now: now, Step: 1})
	assert.Equal(t, now, byHand.Deadline(), "a trigger by hand does not count")

	r, effs := r.Apply(core.RecurringDue{}, core.Clock{Now: now, Step: 2})
	assert.Empty(t, recordedIn(effs))
	assert.Equal(t, "the schedule has dispatched 1 time, as many as it may", r.DisabledReason)
	_, effs = r.Apply(core.RecurringResume{}, core.Clock{Now: now, Step: 3})
	assert.Contains(t, fmt.Sprint(effs), "max_executions: the schedule has dispatched 1 time, as many as it may: give more, or 0")
	r, _ = r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{ScheduleOptionsPatch: core.ScheduleOptionsPatch{MaxExecutions: new(uint64(2))}}}, core.Clock{Now: now, Step: 4})
	r, effs = r.Apply(core.RecurringResume{}, core.Clock{Now: now, Step: 5})
	assert.Equal(t, now.Add(time.Minute), r.Deadline(), "%v", effs)
}

// A change of how many executions there may be loses no time that waits for its delay.
func TestMoreExecutionsLoseNoTime(t *testing.T) {
	spec := goldenRecurringSpec()
	spec.CronExpr, spec.Timezone, spec.EndsAt, spec.JitterSeconds = "0 * * * *", "UTC", 0, 600
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	due := r.NextExecutionAt
	require.NotEqual(t, due, r.Deadline())
	r, effs := r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{ScheduleOptionsPatch: core.ScheduleOptionsPatch{MaxExecutions: new(uint64(9))}}}, core.Clock{Now: due + 1, Step: 1})
	assert.Empty(t, recordedIn(effs))
	r, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: r.Deadline(), Step: 2})
	assert.Equal(t, []core.Time{due}, dispatchedIn(effs))
	// One of the delay does: the time is missed, and it is said why.
	_, effs = r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{ScheduleOptionsPatch: core.ScheduleOptionsPatch{JitterSeconds: new(int64(0))}}}, core.Clock{Now: r.NextExecutionAt, Step: 3})
	require.Len(t, recordedIn(effs), 1)
	assert.Equal(t, "the schedule was changed before it was dispatched", recordedIn(effs)[0].Reason)
}

// A time of a job that the clocks skip is skipped when it comes, and also where the job is
// changed before anybody looked at it.
func TestAJobsTimeThatTheClocksSkipIsSkipped(t *testing.T) {
	spec := byHand()
	spec.Schedule, spec.Timezone, spec.DST = "30 2 * * *", "Europe/Berlin", schedule.DSTSkip
	j, effs := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: springForward})
	gap := springForward.Add(20 * time.Minute) // 02:00, which is 03:00
	require.Equal(t, gap, j.Deadline(), "%v", effs)

	const why = `clock change: in Europe/Berlin the clocks skipped its time, and dst is "skip"`
	check := func(j core.Job, effs []effects.Effect) {
		t.Helper()
		skipped := verdicts(recordedIn(effs), core.VerdictSkipped)
		require.Len(t, skipped, 1, "%v", effs)
		assert.Equal(t, []any{gap, uint64(1), why}, []any{skipped[0].DueAt, skipped[0].Count, skipped[0].Reason})
		assert.Len(t, recordedIn(effs), 1)
		assert.Empty(t, j.Active)
		assert.EqualValues(t, 1, j.Counts.Skipped)
	}
	came, effs := j.Apply(core.JobDue{}, core.Clock{Now: gap, Step: 1})
	check(came, effs)
	assert.Equal(t, gap.Add(23*time.Hour+30*time.Minute), came.NextRunAt)

	spec.Schedule = "0 12 * * *"
	changed, effs := j.Apply(core.JobApply{Spec: spec}, core.Clock{Now: gap.Add(time.Minute), Step: 1})
	check(changed, effs)
}
