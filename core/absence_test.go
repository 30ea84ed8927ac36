package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// drawAbsences draws absences in the order of time, from one instant on and until another.
func drawAbsences(t *rapid.T, from, until core.Time) (out []core.Absence) {
	at := from
	for range rapid.IntRange(0, 5).Draw(t, "absences") {
		unit := rapid.SampledFrom([]int64{1, 1000}).Draw(t, "unit") // whole seconds may be times of the schedule
		length := func(label string, least int64) time.Duration {
			return time.Duration(rapid.Int64Range(least, 200_000/unit).Draw(t, label)*unit) * time.Millisecond
		}
		a := core.Absence{
			From: at.Add(length("from", 0)),
			Cause: rapid.SampledFrom([]core.AbsenceCause{
				core.AbsentStopped, core.AbsentKilled, core.AbsentSuspended, core.AbsentClockSet, core.AbsentJump, core.AbsentOff, core.AbsentPaused, "odd",
			}).Draw(t, "cause"),
		}
		a.To = a.From.Add(length("to", 1))
		if a.To.After(until) {
			break
		}
		out, at = append(out, a), a.To
	}
	return out
}

// causeOf is the model: what kept the daemon from a time of the schedule. It is read off second
// by second: the absence that the time came in, or had come in within a second; else how long it
// took until the next absence, or until it was decided.
func causeOf(absences []core.Absence, at, decided core.Time) (cause string, behind time.Duration) {
	for late := time.Duration(0); late <= time.Second; late += time.Millisecond {
		for _, a := range absences {
			in := at.Add(late)
			if a.From <= in && in < a.To && at < a.To {
				return a.String(), 0
			}
		}
	}
	for _, a := range absences {
		if a.From > at {
			return "the daemon was behind before " + a.From.String(), a.From.Sub(at)
		}
	}
	return "the daemon was behind", decided.Sub(at)
}

// R20: each time that is missed has the reason that the model gives, one entry for those that
// follow one another and have the same, of recurring actions and of jobs.
func TestEachMissedTimeHasTheCauseThatKeptTheDaemon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, time.Minute}).Draw(t, "period")
		cron := map[time.Duration]string{time.Second: "* * * * * *", 20 * time.Second: "*/20 * * * * *", time.Minute: "* * * * *"}[period]
		now := start.Add(time.Duration(rapid.Int64Range(1000, 900_000).Draw(t, "outage")) * time.Millisecond)
		known := drawAbsences(t, start.Add(-time.Minute), now)
		var recorded []core.Occurrence
		var missed uint64
		ending := "of the times that passed only the latest is dispatched, and only within the start deadline of 2m0s"
		if rapid.Bool().Draw(t, "job") {
			ending = "of the times that passed only the latest gets a run, and only within the start deadline of 2m0s"
			spec := goldenJobSpec()
			spec.Schedule, spec.Timezone, spec.StartDeadlineSeconds, spec.CreateAheadMS = cron, "UTC", 0, 0
			j, _ := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start})
			known = slices.DeleteFunc(known, func(a core.Absence) bool { return a.Cause == core.AbsentOff }) // of recurring actions alone
			e := core.Informed(j, core.JobDue{}, known, now).(core.JobDue)
			after, effs := j.Apply(e, core.Clock{Now: now})
			if refusal(effs) != nil {
				return // no time has come
			}
			recorded, missed = recordedBy(effs), after.Counts.Missed
		} else {
			spec := made(core.KindRecurring).(core.RecurringAction).RecurringSpec
			spec.CronExpr, spec.Timezone, spec.StartDeadlineSeconds, spec.EndsAt = cron, "UTC", 0, 0
			r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
			require.Nil(t, refusal(effs))
			e := core.Informed(r, core.RecurringDue{}, known, now).(core.RecurringDue)
			after, effs := r.Apply(e, core.Clock{Now: now})
			if refusal(effs) != nil {
				return
			}
			recorded, missed = recordedBy(effs), after.MissedCount
		}

		latest := now - (now-start)%core.Time(period.Milliseconds())
		until := latest // dispatched
		if now.Sub(latest) > core.DefaultStartDeadline {
			until = now + 1
		}
		var want []core.Occurrence
		before := ""
		for at := start.Add(period); at < until; at = at.Add(period) {
			cause, behind := causeOf(known, at, now)
			if cause != before {
				reason := ending
				switch {
				case behind >= time.Second:
					reason = fmt.Sprintf("the daemon was behind by %s; %s", behind, ending)
				case behind == 0:
					reason = cause + "; " + ending
				}
				want, before = append(want, core.Occurrence{DueAt: at, Reason: reason}), cause
			}
			last := &want[len(want)-1]
			last.LastDueAt, last.Count = at, last.Count+1
		}
		total := uint64(0)
		var got []core.Occurrence
		for _, o := range recorded {
			if o.Verdict == core.VerdictMissed {
				total += o.Count
				got = append(got, core.Occurrence{DueAt: o.DueAt, LastDueAt: o.LastDueAt, Count: o.Count, Reason: o.Reason})
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, total, missed)
	})
}

// recordedBy gives the occurrences that effects record.
func recordedBy(effs []effects.Effect) (out []core.Occurrence) {
	for _, r := range sends[core.OccurrenceRecord](step{effs: effs}) {
		out = append(out, r.Occurrence)
	}
	return out
}

// A journal of an earlier build gives the reasons that it gave.
func TestABuildBeforeVersion8KnewNoAbsences(t *testing.T) {
	absences := []core.Absence{{From: start, To: start.Add(time.Hour), Cause: core.AbsentKilled}}
	now := start.Add(time.Hour)
	for rules, want := range map[core.Rules]string{7: "not dispatched within the start deadline of 2m0s", 8: absences[0].String() + "; "} {
		r := made(core.KindRecurring).(core.RecurringAction)
		r.RecurringSpec.StartDeadlineSeconds = 0
		_, effs := r.Apply(core.RecurringDue{Absences: absences}, core.Clock{Now: now, Rules: rules})
		assert.Contains(t, recordedBy(effs)[0].Reason, want)
		_, effs = r.Apply(core.RecurringPause{Absences: absences}, core.Clock{Now: now, Rules: rules})
		assert.Equal(t, rules == 7, recordedBy(effs)[0].Reason == "paused before it was dispatched")
		assert.Equal(t, rules == 7, !strings.Contains(fmt.Sprint(effs), "recurring missed") && len(effs) == 2, "it announced no missed times")

		j := madeJob(changed(goldenJobSpec(), func(s *core.JobSpec) { s.Schedule, s.StartDeadlineSeconds = "* * * * * *", 0 }))
		_, effs = j.Apply(core.JobDue{Absences: absences}, core.Clock{Now: now, Rules: rules})
		assert.Equal(t, rules == 7, recordedBy(effs)[0].Reason == "no run was made within the start deadline of 2m0s")
	}
}

// The count of what was missed is bounded over all causes, and each of them is named.
func TestTheCountOfMissedTimesIsBoundedOverAllCauses(t *testing.T) {
	spec := made(core.KindRecurring).(core.RecurringAction).RecurringSpec
	spec.CronExpr, spec.Timezone, spec.EndsAt = "* * * * * *", "UTC", 0
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	day := 24 * time.Hour
	known := []core.Absence{{From: start, To: start.Add(day), Cause: core.AbsentStopped}, {From: start.Add(2 * day), To: start.Add(3 * day), Cause: core.AbsentKilled}}
	now := start.Add(3*day + 500*time.Millisecond)
	after, effs := r.Apply(core.RecurringDue{Absences: known}, core.Clock{Now: now})
	got := recordedBy(effs)
	require.Len(t, got, 4)
	assert.EqualValues(t, 20_000+3, after.MissedCount, "20,000 are told apart, and one more is counted of each cause that goes on or follows")
	assert.Equal(t, start.Add(day)-1, got[0].LastDueAt)
	assert.Contains(t, got[0].Reason, "stopped")
	assert.Equal(t, start.Add(day), got[1].DueAt)
	assert.Contains(t, got[1].Reason, "behind by 24h0m0s")
	assert.Contains(t, got[2].Reason, "killed")
	for _, o := range got[:3] {
		assert.True(t, o.CountCapped)
	}
	assert.Equal(t, core.VerdictDispatched, got[3].Verdict)
}

func TestOnlyWhoWasHeldUpIsToldOfAnAbsence(t *testing.T) {
	r := made(core.KindRecurring).(core.RecurringAction)
	next := r.NextExecutionAt
	during := core.Absence{From: next - 1, To: next + 1, Cause: core.AbsentKilled}
	before := core.Absence{From: next - 10, To: next, Cause: core.AbsentStopped}
	known := []core.Absence{before, during}
	assert.Equal(t, core.RecurringDue{Refusal: "x", Absences: known[1:]}, core.Informed(r, core.RecurringDue{Refusal: "x"}, known, next+1))
	assert.Equal(t, core.RecurringDelete{}, core.Informed(r, core.RecurringDelete{}, known, next-1), "no time has come")
	assert.Equal(t, core.RecurringResume{}, core.Informed(r, core.RecurringResume{}, known, next+1), "it decides about nothing")
	r, _ = r.Apply(core.RecurringPause{}, core.Clock{Now: start})
	assert.Equal(t, core.RecurringDelete{}, core.Informed(r, core.RecurringDelete{}, known, next+1), "it waits for nothing")
}
