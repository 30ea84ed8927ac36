package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// More dispatches of one transition than are kept otherwise are all kept, until it is known whether
// their actions are made.
func TestOfManyTimesThatAreCaughtUpAtOnceEachHasItsOwnVerdict(t *testing.T) {
	for _, dedup := range []string{"", "k", "at {{execution_time}}"} {
		w, seq := world{}, new(uint64)
		spec := everyMinute(dedup)
		spec.Missed, spec.CatchUpLimit = core.MissedAll, core.MaxCatchUpLimit
		ref := w.made(t, seq, recurringRef, core.RecurringCreate{Spec: spec})
		state := func() core.RecurringAction { return load[core.RecurringAction](w, core.KindRecurring)[ref] }
		now := state().Deadline().Add(core.MaxCatchUpLimit * time.Minute)
		res, _ := w.bounded(t, room{core.KindAction: 3}, now, seq, dueInput(ref))
		require.True(t, res.Changed, "%v", res.Refused)
		r := state()
		made := map[string]int{"": 3, "k": 1, "at {{execution_time}}": 3}[dedup]
		assert.Len(t, load[core.Action](w, core.KindAction), made)
		assert.Len(t, r.Running, made)
		assert.EqualValues(t, made, r.ExecutionCount)
		assert.Equal(t, now, r.LastExecutedAt)
		assert.EqualValues(t, core.MaxCatchUpLimit-made, r.DeduplicatedCount+r.SkippedCount)
		for _, o := range load[core.Occurrence](w, core.KindOccurrence) {
			assert.NotEqual(t, o.Verdict == core.VerdictDispatched, o.Reason != "", "%s: %q", o.Verdict, o.Reason)
		}
		assert.Len(t, load[core.Dedup](w, core.KindDedup), map[bool]int{true: made}[dedup != ""], "no key is held by an action that was not made")
	}
}

// Of a schedule whose dispatches may overlap, the last ones are kept: what was dispatched earlier
// tells its end to nobody.
func TestOfDispatchesThatMayOverlapTheLastOnesAreKept(t *testing.T) {
	w, seq := world{}, new(uint64)
	ref := w.made(t, seq, recurringRef, core.RecurringCreate{Spec: everyMinute("")})
	state := func() core.RecurringAction { return load[core.RecurringAction](w, core.KindRecurring)[ref] }
	first := effects.Ref{}
	for range core.MaxRunningKept + 1 {
		w.bounded(t, room{core.KindAction: 1000}, state().Deadline(), seq, dueInput(ref))
		if first.IsZero() {
			first = effects.Ref{Kind: core.KindAction, ID: state().Running[0].Action}
		}
	}
	require.Len(t, state().Running, core.MaxRunningKept)
	before := state()
	res, _ := w.bounded(t, room{core.KindAction: 1000}, before.LastExecutedAt, seq, core.Input{To: first, Event: core.ActionCancel{}})
	assert.True(t, res.Changed)
	assert.Equal(t, before, state())
	settled := 0
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) {
		if o.Outcome != "" {
			settled++
		}
	}
	assert.Equal(t, 1, settled, "its entry has the outcome")
}

// An edit of what has nothing to do with the times is not refused since the last executions wait.
func TestTimesThatWaitStandInNoEditsWay(t *testing.T) {
	spec := everyMinute("")
	spec.Overlap, spec.MaxExecutions = core.OverlapBufferAll, 2
	r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	for range 3 {
		require.Nil(t, refusal(effs))
		r, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: r.Deadline(), Step: uint64(r.Deadline())})
	}
	require.Len(t, r.Waiting, 1)
	require.Len(t, recordedIn(effs), 1)
	assert.Equal(t, "limit: the schedule has dispatched 1 of its times, and 1 wait: as many as it may", recordedIn(effs)[0].Reason)
	text := "d"
	after, effs := r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{Description: &text}}, core.Clock{Now: r.LastDueAt})
	assert.Nil(t, refusal(effs))
	assert.Equal(t, r.Waiting, after.Waiting)
	most := uint64(5)
	after, _ = r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{ScheduleOptionsPatch: core.ScheduleOptionsPatch{MaxExecutions: &most}}}, core.Clock{Now: r.LastDueAt})
	assert.Empty(t, after.Waiting, "another bound cancels them: it must not be passed by what was not counted")
	assert.EqualValues(t, 1, after.Executions)
}

// What was asked to end, and has not, is killed if the policy has become terminate_other.
func TestTerminateOtherEndsWhatWasAskedToEnd(t *testing.T) {
	spec := everyMinute("")
	spec.Overlap = core.OverlapCancelOther
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	var effs []effects.Effect
	due := func() []core.ActionCancel {
		r, effs = r.Apply(core.RecurringDue{}, core.Clock{Now: r.Deadline(), Step: uint64(r.Deadline())})
		return sends[core.ActionCancel](step{effs: effs})
	}
	require.Empty(t, due())
	cancels := due()
	require.Len(t, cancels, 1)
	assert.Equal(t, core.CancelAwait, cancels[0].Mode)
	require.Empty(t, due(), "it is asked once")
	policy := core.OverlapTerminateOther
	r, _ = r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{Overlap: &policy}}, core.Clock{Now: r.LastDueAt})
	cancels = due()
	require.Len(t, cancels, 1)
	assert.Equal(t, core.CancelKill, cancels[0].Mode)
}

// A schedule whose times are left out and missed by turns is decided even after years.
func TestAnOutageOfYearsOverACalendarIsDecided(t *testing.T) {
	w, seq := world{}, new(uint64)
	c := core.CalendarSpec{Namespace: "n", Tenant: "t", Name: "odd", Exclude: core.CalendarDays{}}
	for i := range 48 {
		if i%2 == 0 {
			from, to := start.Add(time.Duration(i) * 30 * time.Minute).String()[11:16], start.Add(time.Duration(i+1) * 30 * time.Minute).String()[11:16]
			c.Exclude.Weekly = append(c.Exclude.Weekly, core.CalendarWindow{From: from, To: to})
		}
	}
	w.made(t, seq, core.CalendarRef("n", "t", "odd"), core.CalendarCreate{Spec: c})
	spec := everyMinute("")
	spec.CronExpr, spec.Calendars = "*/30 * * * *", []string{"odd"}
	ref := w.made(t, seq, recurringRef, core.RecurringCreate{Spec: spec})
	now := start.Add(3 * 365 * 24 * time.Hour)
	res, _ := w.bounded(t, nil, now, seq, dueInput(ref))
	require.True(t, res.Changed)
	r := load[core.RecurringAction](w, core.KindRecurring)[ref]
	assert.Greater(t, r.Deadline(), now)
	assert.LessOrEqual(t, r.Sequence, uint64(1002), "entries")
	assert.EqualValues(t, 500, r.SkippedCount)
}

// A schedule that has ended, and is paused until later: what came in between is not due, nor missed.
func TestTheEndOfAPauseMakesNoTimeDueThatCameBeforeThePause(t *testing.T) {
	spec := everyMinute("")
	spec.MaxExecutions, spec.EndsAt = 1, start.Add(10*time.Minute)
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	apply := func(e core.RecurringEvent, at core.Time) []core.Occurrence {
		var effs []effects.Effect
		r, effs = r.Apply(e, core.Clock{Now: at, Step: uint64(at)})
		require.Nil(t, refusal(effs))
		return recordedIn(effs)
	}
	apply(core.RecurringDue{}, r.Deadline())
	apply(core.RecurringDue{}, r.Deadline())
	require.False(t, r.Enabled, "it has dispatched as many as it may")
	hour := start.Add(time.Hour)
	apply(core.RecurringPause{Until: hour.Add(90 * time.Second)}, hour)
	assert.Empty(t, apply(core.RecurringDue{}, r.Deadline()))
	assert.Contains(t, r.DisabledReason, "ends_at")
}

// However many of a backfill's actions are under way, the schedule hears how its own ones end.
func TestActionsOfBackfillsPushNoLiveDispatchOut(t *testing.T) {
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: everyMinute("")}, core.Clock{Now: start})
	first := r.NextExecutionAt
	backfill := func(i int) *effects.Refused {
		var effs []effects.Effect
		r, effs = r.Apply(core.BackfillTime{At: first.Add(-time.Duration(i) * time.Minute), Owner: recurringOwner}, core.Clock{Now: start, Step: uint64(i)})
		return refusal(effs)
	}
	for i := range core.MaxUnended {
		require.Nil(t, backfill(i+1))
	}
	refused := backfill(core.MaxUnended + 1)
	require.NotNil(t, refused, "what has not ended is bounded")
	assert.Contains(t, refused.Reason, "500 actions of recurring action")
	_, effs := r.Apply(core.RecurringTrigger{}, core.Clock{Now: start, Step: 1000})
	assert.Nil(t, refusal(effs), "an occurrence by hand is not held up: those that may overlap are forgotten instead")

	r, _ = r.Apply(core.RecurringDue{}, core.Clock{Now: r.Deadline(), Step: 1001})
	last := r.Running[len(r.Running)-1]
	require.Equal(t, first, last.DueAt)
	r, effs = r.Apply(core.ChildEnded{
		Child: effects.Ref{Kind: core.KindAction, ID: last.Action}, N: uint32(last.N), Outcome: core.ChildRefused, Limited: true, Reason: "full",
	}, core.Clock{Now: first, Step: 1001})
	require.Nil(t, refusal(effs))
	assert.EqualValues(t, 1, r.SkippedCount, "the dispatch is taken back")
}

// The numbers of a schedule that is made anew under its id begin again, and actions of the former one
// may still run.
func TestAnActionOfAFormerScheduleWithTheSameIDEndsNothing(t *testing.T) {
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: everyMinute("")}, core.Clock{Now: start})
	r, _ = r.Apply(core.RecurringDue{}, core.Clock{Now: r.Deadline(), Step: 1})
	require.Len(t, r.Running, 1)
	_, effs := r.Apply(core.ChildEnded{Child: effects.Ref{Kind: core.KindAction, ID: id(77)}, N: uint32(r.Running[0].N), Outcome: core.ChildFailed}, core.Clock{Now: r.LastExecutedAt, Step: 2})
	assert.NotNil(t, refusal(effs))
}

// Each entry of the ledger has the schedule's name, by which it is found: of a long one the head.
func TestAnEntryHasTheHeadOfALongDescription(t *testing.T) {
	spec := everyMinute("")
	spec.Description = strings.Repeat("d", core.MaxNameBytes+1)
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	_, effs := r.Apply(core.RecurringDue{}, core.Clock{Now: r.Deadline()})
	require.Len(t, recordedIn(effs), 1)
	assert.LessOrEqual(t, len(recordedIn(effs)[0].Name), core.MaxNameBytes)
	assert.Equal(t, spec.Description, r.Title())
}

func TestASuccessCountsThoughSoManyOverlapThatTheirDispatchesAreNotKept(t *testing.T) {
	r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: goldenRecurringSpec()}, core.Clock{Now: start, Step: 1})
	require.Nil(t, refusal(effs))
	for n := range core.MaxRunningKept + 1 {
		r, effs = r.Apply(core.RecurringTrigger{}, core.Clock{Now: start, Step: uint64(n) + 2})
		require.Nil(t, refusal(effs))
	}
	require.Len(t, r.Running, core.MaxRunningKept)
	require.NotEqualValues(t, 1, r.Running[0].N)
	later := start.Add(time.Second)
	was := r
	r, effs = r.Apply(core.ChildEnded{N: 1, Outcome: core.ChildSucceeded}, core.Clock{Now: later, Step: 501})
	assert.Nil(t, refusal(effs))
	assert.Equal(t, later, r.LastSuccessAt)
	r.LastSuccessAt = was.LastSuccessAt
	assert.Equal(t, was, r, "nothing else")
	_, effs = was.Apply(core.ChildEnded{N: 1, Outcome: core.ChildFailed}, core.Clock{Now: later, Step: 501})
	assert.NotNil(t, refusal(effs))
	_, effs = was.Apply(core.ChildEnded{N: 9999, Outcome: core.ChildSucceeded}, core.Clock{Now: later, Step: 501})
	assert.NotNil(t, refusal(effs), "it has made no such dispatch")
}

func TestTheReasonOfAWaitThatIsCancelledIsJournaledAsItIsRead(t *testing.T) {
	checkEventJSON(t, core.KindRecurring, core.RecurringCancelWaiting{Occurrence: id(5), Reason: "a character that is cut: \xe2\x82"})
}
