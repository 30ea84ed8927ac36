package core_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var (
	everyAlert = core.ScheduleOptions{Alerts: core.AlertRules{LateSeconds: 600, Missed: true, Failing: 1, SlowSeconds: 60}}
	ofBackfill = core.Owner{Ref: effects.Ref{Kind: core.KindBackfill, ID: id(30)}, N: 1}
)

// viewOf gives what the alert of a schedule is to know of it.
func viewOf(t *testing.T, s core.State) core.AlertView {
	t.Helper()
	w, has := core.Watched(s)
	require.True(t, has)
	return w.View
}

func TestAnAlertKnowsTheOldestRunOfItsJobThatTheScheduleMade(t *testing.T) {
	at := func(minutes int) core.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	job := func(runs ...core.ActiveRun) core.Job {
		return core.Job{JobSpec: core.JobSpec{ID: "nightly", ScheduleOptions: everyAlert}, NextRunAt: at(60), Active: runs}
	}
	began := core.ActiveRun{Run: id(1), ScheduledAt: at(2), Stage: core.StageAdmitted, BeganAt: at(3)}
	sooner, asked := began, began
	sooner.Run, sooner.BeganAt = id(2), at(1)
	asked.Stage, asked.BeganAt = core.StageAsked, 0
	for name, row := range map[string]struct {
		runs  []core.ActiveRun
		since core.Time
		of    int
		next  core.Time
	}{
		"no run":                   {nil, 0, 0, at(60)},
		"the one that has begun":   {[]core.ActiveRun{began}, at(3), 1, at(60)},
		"the oldest is first":      {[]core.ActiveRun{sooner, began}, at(1), 2, at(60)},
		"the oldest is last":       {[]core.ActiveRun{began, sooner}, at(1), 2, at(60)},
		"one that has not begun":   {[]core.ActiveRun{began, asked}, at(3), 1, at(2)},
		"it is denied":             {[]core.ActiveRun{{Run: id(1), ScheduledAt: at(2), Stage: core.StageDenied}}, 0, 0, at(60)},
		"its time is gone":         {[]core.ActiveRun{{Run: id(1), ScheduledAt: at(2), Stage: core.StageWaiting, Dropped: true}}, 0, 0, at(60)},
		"by hand, not begun":       {[]core.ActiveRun{{Run: id(1), ScheduledAt: at(2), Stage: core.StageAsked, Manual: true}}, 0, 0, at(60)},
		"by hand, it runs":         {[]core.ActiveRun{{Run: id(1), ScheduledAt: at(2), Stage: core.StageAdmitted, Manual: true, BeganAt: at(3)}}, at(3), 1, at(60)},
		"of a backfill, not begun": {[]core.ActiveRun{{Run: id(1), ScheduledAt: at(2), Stage: core.StageAsked, Owner: ofBackfill}}, 0, 0, at(60)},
		"of a backfill, it runs":   {[]core.ActiveRun{{Run: id(1), ScheduledAt: at(2), Stage: core.StageAdmitted, Owner: ofBackfill, BeganAt: at(3)}}, 0, 0, at(60)},
	} {
		v := viewOf(t, job(row.runs...))
		assert.Equal(t, row.since, v.RunsSince, name)
		assert.Equal(t, row.next, v.ExpectedAt, name)
		if row.of > 0 {
			assert.Equal(t, id(row.of), v.Runs, name)
		}
	}
}

func TestAnAlertKnowsTheOldestDispatchOfItsRecurringAction(t *testing.T) {
	at := func(minutes int) core.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	of := func(running []core.RunningTime, waiting ...core.WaitingTime) core.AlertView {
		spec := core.RecurringSpec{ID: id(1), Enabled: true, ScheduleOptions: everyAlert}
		return viewOf(t, core.RecurringAction{RecurringSpec: spec, NextExecutionAt: at(60), Running: running, Waiting: waiting})
	}
	one, sooner := core.RunningTime{Action: id(7), StartedAt: at(3)}, core.RunningTime{Action: id(8), StartedAt: at(1), Manual: true}
	backfilled := core.RunningTime{Action: id(9), StartedAt: start, For: ofBackfill}
	assert.Zero(t, of(nil).RunsSince)
	assert.Zero(t, of([]core.RunningTime{backfilled}).RunsSince, "a backfill takes as long as it takes")
	for _, running := range [][]core.RunningTime{{one, sooner, backfilled}, {backfilled, sooner, one}} {
		v := of(running)
		assert.Equal(t, at(1), v.RunsSince)
		assert.Equal(t, id(8), v.Runs)
	}
	assert.Equal(t, at(60), of(nil).ExpectedAt)
	assert.Equal(t, at(10), of(nil, core.WaitingTime{DueAt: at(20)}, core.WaitingTime{DueAt: at(10)}).ExpectedAt, "what waits has not begun")
}

// TestATimeThatIsSpreadIsExpectedAsItIsSpread has schedules whose times begin up to ten minutes later.
func TestATimeThatIsSpreadIsExpectedAsItIsSpread(t *testing.T) {
	spec := alertingSpec(1, everyAlert.Alerts)
	spec.JitterSeconds = 600
	r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	begins := viewOf(t, r).ExpectedAt
	assert.Greater(t, begins, r.NextExecutionAt)
	assert.LessOrEqual(t, begins, r.NextExecutionAt.Add(10*time.Minute))
	assert.Equal(t, r.Deadline(), begins)
	_, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: begins})
	assert.Equal(t, begins, newsOf(t, effs).DecidedAt, "it is not late by what it is spread")
	_, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: begins.Add(time.Hour - time.Second)})
	n := newsOf(t, effs)
	assert.EqualValues(t, 1, n.Missed)
	assert.Equal(t, begins, n.DecidedAt, "also if it is missed")
	assert.Equal(t, r.NextExecutionAt, n.MissedFrom, "which is told by the time itself")
	r.Waiting = []core.WaitingTime{{DueAt: r.NextExecutionAt}}
	r.NextExecutionAt = r.NextExecutionAt.Add(time.Hour)
	assert.Equal(t, begins, viewOf(t, r).ExpectedAt)

	job := madeJob(core.JobSpec{ID: "nightly", Schedule: "0 * * * *", PodSpec: json.RawMessage(`{"containers":[]}`), ScheduleOptions: spec.ScheduleOptions})
	begins = viewOf(t, job).ExpectedAt
	assert.Greater(t, begins, job.NextRunAt)
	assert.LessOrEqual(t, begins, job.NextRunAt.Add(10*time.Minute))
	_, effs = job.Apply(core.JobDue{}, core.Clock{Now: job.NextRunAt.Add(59 * time.Minute), Step: 2})
	n = newsOf(t, effs)
	assert.EqualValues(t, 1, n.Missed)
	assert.Equal(t, [2]core.Time{begins, job.NextRunAt}, [2]core.Time{n.DecidedAt, n.MissedFrom})
	job.Active = []core.ActiveRun{{Run: id(5), ScheduledAt: job.NextRunAt, Stage: core.StageAdmitted}}
	job.NextRunAt = job.NextRunAt.Add(time.Hour)
	assert.Equal(t, begins, viewOf(t, job).ExpectedAt)
	_, effs = job.Apply(core.JobRunBegan{Run: id(5)}, core.Clock{Now: begins})
	assert.Equal(t, begins, newsOf(t, effs).DecidedAt)
}

// newsOf gives what an alert is told that has happened; nothing if it is told nothing.
func newsOf(t *testing.T, effs []effects.Effect) core.AlertNews {
	t.Helper()
	require.Nil(t, refusal(effs))
	told := sends[core.AlertWatch](step{effs: effs})
	if len(told) == 0 {
		return core.AlertNews{}
	}
	require.Len(t, told, 1)
	return told[0].News
}

func TestWhatIsDoneByHandOrForABackfillIsNoTimeOfTheSchedule(t *testing.T) {
	r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: alertingSpec(1, everyAlert.Alerts)}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	_, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: r.NextExecutionAt})
	assert.Equal(t, core.AlertNews{Dispatched: true, DecidedAt: r.NextExecutionAt}, newsOf(t, effs))
	skips, effs := r.Apply(core.RecurringSkipNext{}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	_, effs = skips.Apply(core.RecurringDue{}, core.Clock{Now: r.NextExecutionAt})
	assert.Zero(t, newsOf(t, effs), "what is skipped is not missed")
	by, effs := r.Apply(core.RecurringTrigger{}, core.Clock{Now: start.Add(time.Minute)})
	assert.Zero(t, newsOf(t, effs), "a time that was missed stays so")

	ended := func(r core.RecurringAction, outcome core.ChildOutcome) core.AlertNews {
		n := r.Running[0]
		_, effs := r.Apply(core.ChildEnded{Child: effects.Ref{Kind: core.KindAction, ID: n.Action}, N: uint32(n.N), Outcome: outcome, Reason: "why"}, core.Clock{Now: start.Add(3 * time.Minute)})
		return newsOf(t, effs)
	}
	require.Len(t, by.Running, 1)
	of := by.Running[0].Action
	assert.Equal(t, core.AlertNews{Outcome: core.ChildFailed, Child: of, Reason: "why", RanMS: 120_000}, ended(by, core.ChildFailed), "how it ends is told")
	assert.Equal(t, core.AlertNews{Outcome: core.ChildCancelled, Child: of, RanMS: 120_000}, ended(by, core.ChildCancelled), "why is told of failures")
	by.Running[0].For = ofBackfill
	assert.Zero(t, ended(by, core.ChildFailed), "but for what a backfill had asked for")
}

func TestTheTimesOfAJobAreToldAsTheyAreDecided(t *testing.T) {
	base := madeJob(core.JobSpec{ID: "nightly", Schedule: "0 * * * *", PodSpec: json.RawMessage(`{"containers":[]}`), ScheduleOptions: everyAlert})
	waits := core.ActiveRun{Run: id(5), ScheduledAt: base.NextRunAt, Stage: core.StageWaiting}
	told := func(change func(*core.ActiveRun), events ...core.JobEvent) core.AlertNews {
		j, a := base, waits
		change(&a)
		j.Active = []core.ActiveRun{a}
		var effs []effects.Effect
		for i, e := range events {
			j, effs = j.Apply(e, core.Clock{Now: base.NextRunAt.Add(time.Duration(i) * time.Minute), Step: uint64(i + 2)})
		}
		return newsOf(t, effs)
	}
	same := func(*core.ActiveRun) {}
	byHand := func(a *core.ActiveRun) { a.Manual = true }
	backfilled := func(a *core.ActiveRun) { a.Owner = ofBackfill }
	admitted := func(change func(*core.ActiveRun)) func(*core.ActiveRun) {
		return func(a *core.ActiveRun) { change(a); a.Stage = core.StageAdmitted }
	}
	admit, began := core.JobAdmit{Run: id(5)}, core.JobRunBegan{Run: id(5)}
	assert.Equal(t, core.AlertNews{Dispatched: true}, told(same, admit))
	assert.Zero(t, told(byHand, admit))
	assert.Zero(t, told(backfilled, admit))

	assert.Equal(t, core.AlertNews{DecidedAt: base.NextRunAt}, told(admitted(same), began))
	assert.Zero(t, told(admitted(same), began, began).DecidedAt, "another attempt of it begins nothing")
	assert.Zero(t, told(admitted(byHand), began).DecidedAt)
	assert.Zero(t, told(admitted(backfilled), began).DecidedAt)

	failed := core.JobRunEnded{Run: id(5), State: core.OrchestratorFailed, Error: "exit code 1", RanMS: -1}
	assert.Equal(t, core.AlertNews{Outcome: core.ChildFailed, Child: id(5), Reason: "exit code 1"}, told(admitted(same), failed), "no run takes less than no time")
	assert.Equal(t, core.ChildFailed, told(admitted(byHand), failed).Outcome)
	assert.Zero(t, told(admitted(backfilled), failed))

	// A run that waits for a slot does not begin: nobody would believe that.
	j := base
	j.Active = []core.ActiveRun{waits}
	_, effs := j.Apply(began, core.Clock{Now: base.NextRunAt})
	require.NotNil(t, refusal(effs))
}

func TestTheRunsThatThereAreWhenAJobGetsAlertsBeginWithTheirSlots(t *testing.T) {
	spec := core.JobSpec{ID: "nightly", Schedule: "0 * * * *", PodSpec: json.RawMessage(`{"containers":[]}`)}
	spec.Overlap = core.OverlapBufferOne
	j := madeJob(spec)
	j.Active = []core.ActiveRun{
		{Run: id(5), ScheduledAt: start, Stage: core.StageAdmitted}, {Run: id(6), ScheduledAt: start, Stage: core.StageAsked}, {Run: id(7), ScheduledAt: start.Add(time.Hour), Stage: core.StageWaiting},
	}
	spec.Alerts = everyAlert.Alerts
	now := start.Add(time.Minute)
	after, effs := j.Apply(core.JobApply{Spec: spec}, core.Clock{Now: now, Step: 2})
	require.Nil(t, refusal(effs))
	require.Len(t, after.Active, 3)
	assert.True(t, after.Active[0].Unheard)
	assert.Equal(t, now, after.Active[0].BeganAt)
	assert.True(t, after.Active[1].Unheard)
	assert.Zero(t, after.Active[1].BeganAt)
	assert.False(t, after.Active[2].Unheard, "its pod tells")
	assert.Equal(t, now, viewOf(t, after).RunsSince)
}
