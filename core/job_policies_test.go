package core_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// runIn gives the run of a job at a time.
func runIn(w world, spec core.JobSpec, at core.Time) core.Orchestrator {
	return load[core.Orchestrator](w, core.KindOrchestrator)[effects.Ref{Kind: core.KindOrchestrator, ID: runAt(spec, at)}]
}

func TestARunKeepsItsSlotWhileItWaitsForAnotherAttempt(t *testing.T) {
	spec := byHand()
	spec.Schedule, spec.Overlap = "* * * * *", core.OverlapSkip
	spec.RetryConfig = core.RetryConfig{MaxRetries: 1, InitialDelayMS: 300_000}
	w, key, seq := jobWorld(t, spec)
	first, second := start.Add(time.Minute), start.Add(2*time.Minute)
	w.pass(t, core.Clock{Now: first.Add(-30 * time.Second)}, &seq)
	w.pass(t, core.Clock{Now: first}, &seq)
	run := runIn(w, spec, first)
	w.send(t, run.Ref(), core.EffectFailed{N: core.Outstanding(run)[0].Number(), Reason: "no", Result: json.RawMessage(`{"not_created":true}`)}, first, &seq)
	require.Equal(t, core.OrchestratorRetrying, runIn(w, spec, first).State)

	w.pass(t, core.Clock{Now: second.Add(-30 * time.Second)}, &seq)
	w.pass(t, core.Clock{Now: second}, &seq)
	assert.Equal(t, "skipped: overlap is skip, and run "+run.RunID+" has not ended", runIn(w, spec, second).Error)
	assert.EqualValues(t, 1, load[core.Job](w, core.KindJob)[key].Counts.Skipped)
}

func TestARunThatIsCancelledWithGraceIsKilledOnceAnotherTerminatesIt(t *testing.T) {
	spec := byHand()
	o := madeRun(spec, core.OrchestratorDue{}, core.OrchestratorAdmit{Occurrence: id(5)}, core.PodRunning{Pod: podAt()})
	require.Equal(t, core.OrchestratorRunning, o.State)
	o, _ = o.Apply(core.OrchestratorCancel{Reason: "replaced"}, core.Clock{Now: start})
	graceful := core.Outstanding(o)[0].(effects.DeleteRun)
	assert.False(t, graceful.NoGrace)

	o, effs := o.Apply(core.OrchestratorCancel{Reason: "replaced", NoGrace: true}, core.Clock{Now: start})
	assert.Contains(t, effs, effects.Effect(effects.Withdraw{N: graceful.N}))
	assert.True(t, core.Outstanding(o)[0].(effects.DeleteRun).NoGrace)
	_, effs = o.Apply(core.OrchestratorCancel{Reason: "replaced", NoGrace: true}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs), "it is being killed already")
}

func TestACalendarDecidesAtTheTimeItself(t *testing.T) {
	w, seq := world{}, uint64(0)
	date := start.Std().UTC().Format(time.DateOnly)
	w.send(t, core.CalendarRef("", "", "holidays"), core.CalendarCreate{Spec: core.CalendarSpec{Name: "holidays"}}, start, &seq)
	spec := byHand()
	spec.Schedule, spec.Calendars = "* * * * *", []string{"holidays"}
	key := core.JobRef("", "", spec.ID)
	require.Nil(t, w.send(t, key, core.JobApply{Spec: spec}, start, &seq).Refused)
	at := start.Add(time.Minute)
	w.pass(t, core.Clock{Now: at.Add(-time.Second)}, &seq)
	assert.Empty(t, load[core.Job](w, core.KindJob)[key].Active, "the calendar may change until then")

	days := core.CalendarDays{Dates: []core.CalendarDate{{Date: date}}}
	w.send(t, core.CalendarRef("", "", "holidays"), core.CalendarUpdate{Patch: core.CalendarPatch{Exclude: &days}}, at.Add(-time.Second), &seq)
	w.pass(t, core.Clock{Now: at}, &seq)
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: there is one
		assert.Equal(t, core.VerdictSkipped, o.Verdict)
		assert.Equal(t, "calendar: calendar holidays excludes "+date, o.Reason)
	}
	assert.EqualValues(t, 1, load[core.Job](w, core.KindJob)[key].Counts.Skipped)

	other := byHand()
	other.ID, other.Calendars = "other", []string{"none"}
	res := w.send(t, core.JobRef("", "", "other"), core.JobApply{Spec: other}, start, &seq)
	require.NotNil(t, res.Refused)
	assert.Equal(t, `calendars[0]: the tenant has no calendar "none": create it first`, res.Refused.Reason)
}

func TestATimeIsBackfilledOnceAndOnlyIfItWasNotDispatched(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	w, key, seq := jobWorld(t, spec)
	w.pass(t, core.Clock{Now: start.Add(30 * time.Second)}, &seq) // makes the run of 14:01
	now := start.Add(10*time.Minute + 5*time.Second)
	w.pass(t, core.Clock{Now: now}, &seq)
	owner := core.Owner{Ref: effects.Ref{Kind: core.KindJob, ID: id(7)}, N: 3}
	backfill := func(at core.Time) *effects.Refused {
		return w.send(t, key, core.BackfillTime{At: at, Owner: owner}, now, &seq).Refused
	}
	missedRun, missedTime, dispatched := start.Add(time.Minute), start.Add(2*time.Minute), start.Add(10*time.Minute)
	require.Equal(t, core.OrchestratorFailed, runIn(w, spec, missedRun).State, "made ahead, and missed")
	for _, at := range []core.Time{missedRun, missedTime} {
		r := backfill(at)
		require.True(t, r == nil || r.To != key, "%v", r)
		again := backfill(at)
		require.NotNil(t, again)
		assert.Contains(t, again.Reason, "has not ended")
	}
	r := backfill(dispatched)
	require.NotNil(t, r)
	assert.Contains(t, r.Reason, "has not ended")

	w.pass(t, core.Clock{Now: now}, &seq)
	job := load[core.Job](w, core.KindJob)[key]
	assert.EqualValues(t, 3, job.Counts.Dispatched)
	backfilled := 0
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: counted
		if o.Backfill == id(7) {
			backfilled++
			assert.Equal(t, core.VerdictDispatched, o.Verdict)
		}
	}
	assert.Equal(t, 2, backfilled)
	assert.True(t, slices.ContainsFunc(job.Active, func(r core.ActiveRun) bool { return r.RunID == "nightly:"+missedRun.String()+":backfill" }), "%v", job.Active)
}

// As of a recurring action, so many of the next times can be skipped by hand; earlier builds knew no
// bound.
func TestNoMoreThanAThousandTimesOfAJobAreSkippedByHand(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	j, _ := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start})
	j.SkipNext = core.MaxSkipNext
	_, effs := j.Apply(core.JobSkipNext{}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Equal(t, "the next 1000 times are skipped already: pause it instead", refusal(effs).Reason)
	former, effs := j.Apply(core.JobSkipNext{}, core.Clock{Now: start, Rules: 9})
	assert.Nil(t, refusal(effs))
	assert.EqualValues(t, core.MaxSkipNext+1, former.SkipNext)
}

// The end of a pause and a run of that instant are due together, and either may be first.
func TestARunOfTheInstantAtWhichAPauseEndsGoesOnThoughItIsToldFirst(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	waits := madeJob(spec, core.JobDue{})
	at := waits.Active[0].ScheduledAt
	for until, want := range map[core.Time]core.RunStage{at: core.StageAdmitted, at.Add(-time.Second): core.StageAdmitted, at + 1: core.StageDenied} {
		j, effs := waits.Apply(core.JobPause{By: "ann", Until: until}, core.Clock{Now: at.Add(-10 * time.Second), Step: 8})
		require.Nil(t, refusal(effs))
		j, effs = j.Apply(core.JobAdmit{Run: runAt(spec, at)}, core.Clock{Now: at.Add(time.Second), Step: 9})
		require.Nil(t, refusal(effs))
		assert.Equal(t, want, j.Active[0].Stage, "until %s", until)
	}
	j, _ := waits.Apply(core.JobPause{By: "ann"}, core.Clock{Now: at.Add(-10 * time.Second), Step: 8})
	j, effs := j.Apply(core.JobAdmit{Run: runAt(spec, at)}, core.Clock{Now: at, Step: 9})
	assert.Equal(t, core.StageDenied, j.Active[0].Stage)
	assert.Equal(t, "paused by ann", recordedIn(effs)[0].Reason)
}

func TestThePreviewOfAJobLeavesOutWhatIsToBeSkippedByHand(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	for _, made := range [][]core.JobEvent{nil, {core.JobDue{}}} { // no run waits for its time, or one does
		all := madeJob(spec, made...).Upcoming(start, 6, nil)
		require.Len(t, all, 6)
		skips := madeJob(spec, append(made, core.JobSkipNext{}, core.JobSkipNext{})...)
		assert.Equal(t, all[2:5], skips.Upcoming(start, 3, nil))
	}
}
