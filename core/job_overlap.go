package core

import (
	"fmt"
	"slices"
)

// arrived reports whether the run's time has come, and it is to go on.
func (a ActiveRun) arrived() bool { return a.Stage == StageAsked || a.Stage == StageAdmitted }

// overlaps says why a run of the schedule is skipped because of those before it that have not
// ended, waits between attempts included; empty: it is not. Runs by hand are among those,
// runs of backfills are not.
func (t *jobTransition) overlaps() string {
	others, waiting := "", 0
	last := ""
	for _, a := range t.Active {
		if !a.arrived() || !a.Owner.IsZero() {
			continue
		}
		others = firstNonEmpty(others, a.RunID)
		if a.Stage == StageAsked && !a.Manual {
			waiting, last = waiting+1, a.RunID
		}
	}
	switch t.Overlap.Plain() {
	case OverlapSkip:
		if others != "" {
			return fmt.Sprintf("overlap is %s, and run %s has not ended", t.Overlap, others)
		}
	case OverlapBufferOne:
		if waiting > 0 {
			return fmt.Sprintf("buffer full: overlap is %s, and run %s waits already", t.Overlap, last)
		}
	case OverlapBufferAll:
		if waiting >= t.bufferLimit() {
			return fmt.Sprintf("buffer full: overlap is %s, and %d runs wait already", t.Overlap, waiting)
		}
	case OverlapAllow, OverlapCancelOther, OverlapTerminateOther, OverlapForbid, OverlapReplace:
	}
	return ""
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// takePlaces has a run take the place of the others, if overlap says so: it begins once they have
// ended. Those of backfills go on.
func (t *jobTransition) takePlaces(run ActiveRun) {
	policy := t.Overlap.Plain()
	if policy != OverlapCancelOther && policy != OverlapTerminateOther || !run.Owner.IsZero() {
		return
	}
	t.Active = slices.Clone(t.Active)
	for i, a := range t.Active {
		switch {
		case a.Run == run.Run || !a.Owner.IsZero():
		case a.Stage == StageAsked:
			t.denyRun(i, VerdictCancelled, "run "+run.RunID+" took its place")
		case a.Stage == StageAdmitted:
			t.send(runRef(a.Run), OrchestratorCancel{Reason: "replaced by run " + run.RunID, NoGrace: policy == OverlapTerminateOther})
		}
	}
}

// slots is how many runs may go on at a time; 0: any number.
func (j Job) slots() int {
	if j.Overlap.Plain() != OverlapAllow {
		return 1
	}
	return int(min(j.MaxConcurrentRuns, MaxActiveRuns))
}

// fillSlots gives the free slots to the runs that wait for one, in the order in which
// they asked. Runs of backfills take those that are left: they hold up no others.
func (t *jobTransition) fillSlots() {
	t.Active, t.UpdatedAt = slices.Clone(t.Active), t.clock.Now
	live, all := 0, 0
	for _, a := range t.Active {
		if a.Stage == StageAdmitted {
			all++
			if a.Owner.IsZero() {
				live++
			}
		}
	}
	for i, a := range t.Active {
		if a.Stage != StageAsked || !a.Owner.IsZero() {
			continue
		}
		if t.slots() > 0 && live >= t.slots() {
			break
		}
		if a.scheduled() && t.exhausted() { // as this run waited
			t.denyRun(i, VerdictSkipped, exhaustedReason(t.Executions))
			continue
		}
		live, all = live+1, all+1
		t.admitRun(i)
	}
	for i, a := range t.Active {
		if a.Stage != StageAsked || a.Owner.IsZero() {
			continue
		}
		if t.slots() > 0 && all >= t.slots() {
			break
		}
		all++
		t.admitRun(i)
	}
}

// admitRun gives a slot to an active run.
func (t *jobTransition) admitRun(i int) {
	a := &t.Active[i]
	a.Stage = StageAdmitted
	if a.Unheard {
		a.BeganAt = t.clock.Now
	}
	if a.scheduled() && t.MaxExecutions > 0 {
		t.Executions++
	}
	occurrence := t.decide(i, VerdictDispatched, "")
	t.send(runRef(a.Run), OrchestratorAdmit{Occurrence: occurrence})
}

// denyRun gives an active run a verdict by which it does not run, and ends it.
func (t *jobTransition) denyRun(i int, v Verdict, reason string) {
	a := &t.Active[i]
	a.Stage = StageDenied
	t.decide(i, v, reason)
	t.send(runRef(a.Run), OrchestratorCancel{Reason: string(v) + ": " + reason, Missed: v == VerdictMissed})
}
