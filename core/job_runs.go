package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

func runRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: KindOrchestrator, ID: id} }

// makeRun makes a run, which waits for its time.
func (t *jobTransition) makeRun(run RunSpec) {
	t.Active = append(slices.Clip(t.Active), ActiveRun{
		Run: run.ID, RunID: run.RunID, ScheduledAt: run.ScheduledAt, Manual: run.Manual, Stage: StageWaiting,
	})
	t.send(runRef(run.ID), OrchestratorCreate{Spec: run, Owner: Owner{Ref: t.Ref()}})
}

// runRefused: a run could not be made, since there is one of that time already, of
// the job before it was deleted and made anew, and that one has the time's verdict; or
// since the tenant has as many runs as its limit allows, and the time is skipped.
func (t *jobTransition) runRefused(e ChildEnded) {
	i := t.activeRun(e.Child.ID)
	if e.Outcome != ChildRefused || i < 0 || t.Active[i].Stage != StageWaiting {
		t.refuse(effects.CodeConflict, "job %s does not wait for %s", clip(t.ID), e.Child)
		return
	}
	a, reason := t.Active[i], boundedReason(e.Reason, "it was refused")
	t.announce("run_refused", announcementTexts("run_id", a.RunID, "reason", reason))
	t.Active, t.UpdatedAt = slices.Concat(t.Active[:i], t.Active[i+1:]), t.clock.Now
	if !e.Limited {
		return
	}
	t.recordVerdict(VerdictSkipped, ActiveRun{ScheduledAt: a.ScheduledAt, Manual: a.Manual}, reason)
	t.Triggers = slices.DeleteFunc(slices.Clone(t.Triggers), func(k KeyedTrigger) bool { return a.Manual && k.At == a.ScheduledAt })
}

// activeRun is the index of a run that has not ended, or -1.
func (j Job) activeRun(run uuid.UUID) int {
	return slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == run })
}

// admit: the time of a run has come. Here its verdict is decided, and not when it
// is made, which is some time ahead: what holds at its time counts.
func (t *jobTransition) admit(e JobAdmit) {
	i := t.activeRun(e.Run)
	if i < 0 || t.Active[i].Stage != StageWaiting {
		t.refuse(effects.CodeConflict, "run %s is none of job %s that waits for its time", e.Run, clip(t.ID))
		return
	}
	a := t.Active[i]
	why := t.deny(a)
	a.Stage, t.UpdatedAt = StageAsked, t.clock.Now
	if why != "" {
		a.Stage = StageDenied
	}
	t.Active = append(slices.Concat(t.Active[:i], t.Active[i+1:]), a)
	if why != "" {
		t.recordVerdict(VerdictSkipped, a, why)
		t.cancelRun(a, "skipped: "+why)
		return
	}
	if t.Overlap == OverlapReplace {
		for _, other := range t.Active {
			if other.Run != a.Run && other.arrived() {
				t.cancelRun(other, "replaced by run "+a.RunID)
			}
		}
	}
	t.fillSlots()
}

// arrived reports whether the run's time has come, and it is to go on.
func (a ActiveRun) arrived() bool { return a.Stage == StageAsked || a.Stage == StageAdmitted }

// deny says why a run is skipped; empty: it is not. A run by hand is never skipped.
func (t *jobTransition) deny(a ActiveRun) string {
	switch {
	case a.Manual:
		return ""
	case a.Dropped:
		return "its time is none of the schedule any more"
	case t.exhausted():
		return exhaustedReason(t.Executions)
	case t.Paused:
		return "the job is paused: " + t.PausedReason
	case t.SkipNext > 0:
		t.SkipNext--
		return "skipNext"
	}
	if i := slices.IndexFunc(t.Active, ActiveRun.arrived); t.Overlap == OverlapForbid && i >= 0 {
		return fmt.Sprintf("overlap is %s, and run %s has not ended", OverlapForbid, t.Active[i].RunID)
	}
	return ""
}

// slots is how many runs may go on at a time; 0: any number.
func (j Job) slots() int {
	if j.Overlap != OverlapAllow {
		return 1
	}
	return int(min(j.MaxConcurrentRuns, MaxActiveRuns))
}

// fillSlots gives the free slots to the runs that wait for one, in the order in which
// they asked.
func (t *jobTransition) fillSlots() {
	taken := 0
	for _, a := range t.Active {
		if a.Stage == StageAdmitted {
			taken++
		}
	}
	t.Active, t.UpdatedAt = slices.Clone(t.Active), t.clock.Now
	for i, a := range t.Active {
		if a.Stage != StageAsked {
			continue
		}
		if t.slots() > 0 && taken >= t.slots() {
			break
		}
		if !a.Manual && t.exhausted() { // as this run waited
			t.Active[i].Stage = StageDenied
			t.recordVerdict(VerdictSkipped, a, exhaustedReason(t.Executions))
			t.cancelRun(a, "skipped: "+exhaustedReason(t.Executions))
			continue
		}
		taken++
		t.Active[i].Stage = StageAdmitted
		if !a.Manual && t.MaxExecutions > 0 {
			t.Executions++
		}
		occurrence := t.recordVerdict(VerdictDispatched, a, "")
		t.send(runRef(a.Run), OrchestratorAdmit{Occurrence: occurrence})
	}
}

// runEnded frees the slot of a run. One that never had a slot gets its verdict now.
func (t *jobTransition) runEnded(e JobRunEnded) {
	i := t.activeRun(e.Run)
	switch {
	case i < 0:
		t.refuse(effects.CodeConflict, "run %s is none of job %s that has not ended", e.Run, clip(t.ID))
		return
	case !e.State.Terminal():
		t.refuse(effects.CodeInvalid, "state: %q is no end of a run", clip(string(e.State)))
		return
	}
	a := t.Active[i]
	t.Active = slices.Concat(t.Active[:i], t.Active[i+1:])
	reason := boundedReason(e.Error, "it ended before it had a place")
	switch {
	case a.Stage == StageAdmitted:
		t.countOutcome(e, a)
	case a.Stage == StageDenied: // its verdict is recorded
	case e.State == OrchestratorCancelled:
		t.recordVerdict(VerdictSkipped, a, reason)
	default:
		t.recordVerdict(VerdictMissed, a, reason)
	}
	t.fillSlots()
}

// countOutcome notes how a run ended that had a slot.
func (t *jobTransition) countOutcome(e JobRunEnded, a ActiveRun) {
	t.LastRun = EndedRun{RunID: a.RunID, State: e.State, ScheduledAt: a.ScheduledAt, EndedAt: t.clock.Now, ExitCode: e.ExitCode, Error: firstText(e.Error)}
	n := &t.Counts.Failed
	switch e.State {
	case OrchestratorCompleted:
		n = &t.Counts.Completed
	case OrchestratorCancelled:
		n = &t.Counts.Cancelled
	case OrchestratorOrphaned:
		n = &t.Counts.Orphaned
	default: // of the terminal states failed alone is left
	}
	*n = saturatingAdd(*n, 1)
}

// kill cancels the other run that asked last of those that have a slot, or all
// whose time has come.
func (t *jobTransition) kill(e JobKill) {
	for _, a := range slices.Backward(t.Active) {
		reached := a.Stage == StageAdmitted || e.All && a.Stage == StageAsked
		if a.Run == e.Except || !reached {
			continue
		}
		t.cancelRun(a, boundedReason(e.Reason, "killed"))
		if !e.All {
			break
		}
	}
}

func (t *jobTransition) cancelRun(a ActiveRun, reason string) {
	t.send(runRef(a.Run), OrchestratorCancel{Reason: reason})
}

// recordVerdict records what was decided about a run's time, and gives the id of the
// occurrence.
func (t *jobTransition) recordVerdict(v Verdict, a ActiveRun, reason string) uuid.UUID {
	return t.record(Occurrence{
		DueAt: a.ScheduledAt, LastDueAt: a.ScheduledAt, Verdict: v, Count: 1, Manual: a.Manual, ActionID: a.Run, Reason: reason,
	})
}

// record notes a verdict for the history, counts it, and says what did not run.
func (t *jobTransition) record(o Occurrence) uuid.UUID {
	t.Sequence++
	o.ID, o.RecurringID, o.DecidedAt = ChildID(t.Key, "occurrence", t.clock.Step, t.Sequence), t.Key, t.clock.Now
	n := &t.Counts.Dispatched
	switch o.Verdict {
	case VerdictMissed:
		n = &t.Counts.Missed
	case VerdictSkipped:
		n = &t.Counts.Skipped
	case VerdictDispatched, VerdictDeduplicated:
	}
	*n = saturatingAdd(*n, o.Count)
	if !o.Manual {
		t.LastVerdictAt = max(t.LastVerdictAt, o.LastDueAt)
	}
	t.send(effects.Ref{Kind: KindOccurrence, ID: o.ID}, OccurrenceRecord{o})
	if o.Verdict != VerdictDispatched {
		t.announce(string(o.Verdict), announcementData(struct {
			ScheduledAt Time   `json:"scheduled_at"`
			Until       Time   `json:"until"`
			Count       uint64 `json:"count"`
			Reason      string `json:"reason"`
		}{o.DueAt, o.LastDueAt, o.Count, o.Reason}))
	}
	return o.ID
}
