package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// drawTimes draws a schedule and the zone in which it is read.
func drawTimes(t *rapid.T) (expr, zone string) {
	return rapid.SampledFrom([]string{
			"0 9 * * MON-FRI", "*/10 * * * * *", "30 2 * * *", "0 */2 * * *", "0 0 13 * FRI", "*/90 9-15/10 * * *", "@every 90s", "@hourly",
		}).Draw(t, "schedule"),
		rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(t, "zone")
}

// drawJump draws how far the clock is from where it was: mostly a little later, and
// sometimes set back.
func drawJump(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(-int64(30*time.Hour), int64(90*24*time.Hour)).Draw(t, "jump")).Truncate(time.Millisecond)
}

func TestTheTimesOfAPreviewAreThoseAtWhichARecurringActionFires(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := goldenRecurringSpec()
		spec.CronExpr, spec.Timezone = drawTimes(t)
		spec.EndsAt = 0
		if rapid.Bool().Draw(t, "ends") {
			s, err := schedule.Parse(spec.CronExpr, spec.Timezone, start)
			require.NoError(t, err)
			at := rapid.SampledFrom(s.Preview(start, 7)).Draw(t, "end") // a time of the schedule itself, or near one
			spec.EndsAt = at + core.Time(rapid.IntRange(-1, 1).Draw(t, "beside"))
		}
		now := start
		spec.ScheduleOptions = drawOptions(t, now)
		if spec.EndsAt != 0 && spec.StartsAt >= spec.EndsAt { // which is refused
			spec.StartsAt = spec.EndsAt - 1
		}
		r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: now})
		require.False(t, r.CreatedAt.IsZero(), "%v", effs)
		for round := range 3 {
			promised := r.Upcoming(now, 5, nil)
			for _, want := range promised {
				for dispatched := 0; dispatched == 0; { // what is left out has a verdict, too
					require.True(t, r.Enabled, r.DisabledReason)
					now = r.Deadline()
					r, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: now, Step: uint64(now)})
					dispatched = len(dispatchedIn(effs))
				}
				require.Equal(t, want, now, "%s in %s, round %d", spec.CronExpr, spec.Timezone, round)
			}
			if len(promised) < 5 { // the end comes, or it has dispatched as many as it may
				for r.Enabled {
					r, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: r.Deadline(), Step: uint64(now)})
					require.Empty(t, dispatchedIn(effs))
				}
				require.NotEmpty(t, r.DisabledReason)
				return
			}
			if now = now.Add(drawJump(t)); now.After(r.NextExecutionAt) || r.EndsAt != 0 {
				return // what passed meanwhile is missed
			}
		}
	})
}

// dispatchedIn gives the times of the dispatches that are recorded.
func dispatchedIn(effs []effects.Effect) (times []core.Time) {
	for _, e := range effs {
		if send, ok := e.(effects.Send); ok {
			if record, ok := send.Event.(core.OccurrenceRecord); ok && record.Occurrence.Verdict == core.VerdictDispatched {
				times = append(times, record.Occurrence.DueAt)
			}
		}
	}
	return times
}

func TestTheTimesOfAPreviewAreThoseAtWhichAJobRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := goldenJobSpec()
		spec.Schedule, spec.Timezone = drawTimes(t)
		spec.Overlap = core.OverlapAllow
		spec.ScheduleOptions = drawOptions(t, start)
		spec.MaxExecutions = 0
		spec.CreateAheadMS = rapid.Int64Range(1, core.MaxCreateAheadMS).Draw(t, "ahead")
		now := start
		j, effs := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: now})
		require.False(t, j.CreatedAt.IsZero(), "%v", effs)
		begins := map[core.Time]core.Time{} // of the times with a jitter
		for range 3 {
			promised := j.Upcoming(now, 6, nil)
			require.Len(t, promised, 6)
			made := waitingAfter(j, begins, now)
			for len(made) < 5 {
				now = max(now, j.Deadline())
				before := len(j.Active)
				j, effs = j.Apply(core.JobDue{}, core.Clock{Now: now, Step: uint64(now)})
				if skipped := verdicts(recordedIn(effs), core.VerdictSkipped); len(skipped) > 0 {
					continue // the clocks skip it
				}
				require.Len(t, j.Active, before+1)
				at := j.Active[before].ScheduledAt
				begins[at] = beginsAt(effs, at)
				made = append(made, begins[at])
			}
			require.Equal(t, promised[:len(made)], made, "%s in %s", spec.Schedule, spec.Timezone)
			// The clock may be set back, not beyond what would be missed.
			now = now.Add(min(drawJump(t), 0))
		}
	})
}

func TestATimeThatIsToBeSkippedIsInNoPreview(t *testing.T) {
	spec := goldenJobSpec()
	spec.Schedule, spec.Timezone = "* * * * *", "UTC"
	minute := func(n int) core.Time { return start.Add(time.Duration(n) * time.Minute) }
	j, _ := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start})
	first := j.Upcoming(start, 4, nil)
	require.Equal(t, []core.Time{minute(1), minute(2), minute(3), minute(4)}, first)
	for range 2 {
		j, _ = j.Apply(core.JobSkipNext{}, core.Clock{Now: start})
	}
	assert.Equal(t, first[2:], j.Upcoming(start, 2, nil))

	ahead := minute(1).Add(-time.Second) // the run of the first time is made
	j, _ = j.Apply(core.JobDue{}, core.Clock{Now: ahead, Step: 7})
	require.Len(t, j.Active, 1)
	assert.Equal(t, first[2:], j.Upcoming(ahead, 2, nil), "the run that waits is one of those that are skipped")

	spec.MaxExecutions = 1
	j, _ = j.Apply(core.JobApply{Spec: spec}, core.Clock{Now: ahead, Step: 8})
	assert.Equal(t, first[2:3], j.Upcoming(ahead, 5, nil), "what is skipped is no execution")
}

// beginsAt gives the time at which the run begins that the effects make for a time.
func beginsAt(effs []effects.Effect, at core.Time) core.Time {
	for _, e := range effs {
		if send, ok := e.(effects.Send); ok {
			if create, ok := send.Event.(core.OrchestratorCreate); ok && create.Spec.ScheduledAt == at && create.Spec.NotBefore != 0 {
				return create.Spec.NotBefore
			}
		}
	}
	return at
}

// waitingAfter gives when the runs begin, after now, that were made ahead.
func waitingAfter(j core.Job, begins map[core.Time]core.Time, now core.Time) (times []core.Time) {
	for _, a := range j.Active {
		if at := begins[a.ScheduledAt]; at.After(now) {
			times = append(times, at)
		}
	}
	return times
}
