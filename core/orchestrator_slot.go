package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// awaitSlot: pre_run → pending, where the run asks its job for a slot, which says whether it is
// too late for that.
func (t *orchestratorTransition) awaitSlot(e OrchestratorDue) {
	late, old := !t.overdueSince(t.clock.Now).IsZero(), t.clock.Rules.before(ledgerRules)
	t.to(OrchestratorPending)
	if !old && (late || t.Config.MaxWaitSeconds > 0) {
		t.AskedAt = max(t.clock.Now, effects.MinTime)
	}
	switch {
	case !late:
		t.send(t.job(), JobAdmit{Run: t.ID})
	case old: // the run itself decided
		why := lateReason(t.clock, "a run begins within its start deadline of "+lengthText(t.Config.startDeadline()), t.placeless(), e.Absences)
		t.missStart(why.text(t.begins()))
	default:
		t.send(t.job(), JobAdmit{Run: t.ID, Late: true, Absences: e.Absences})
	}
}

// overdueSince is the time of a run that has not asked for a slot within its start deadline;
// zero: the run is none of those.
func (o Orchestrator) overdueSince(now Time) Time {
	if o.State != OrchestratorPreRun || o.waits() || betweenMS(o.begins(), now) < o.Config.startDeadline() {
		return 0
	}
	return o.begins()
}

// slotDeadline is until when a pending run waits for a slot; zero: as long as it takes.
func (o Orchestrator) slotDeadline() Time {
	limit := o.Config.waitLimit()
	if o.waits() || limit == 0 {
		return 0
	}
	return laterMS(max(o.begins(), o.AskedAt), limit)
}

// waitLimit is how long a run of the schedule may wait for a slot, in milliseconds; 0: any length.
// Those that a buffer has, or that replace others, wait for as long as these may take.
func (s JobSpec) waitLimit() int64 {
	if s.MaxWaitSeconds > 0 {
		return s.MaxWaitSeconds * 1000
	}
	if p := s.Overlap.Plain(); p == OverlapAllow || p == OverlapSkip {
		return s.startDeadline()
	}
	return 0
}

// placeless is the reason of a run to which its job has given no slot by now.
func (t *orchestratorTransition) placeless() string {
	bound, limit := "start deadline", t.Config.startDeadline()
	if s := t.Config.MaxWaitSeconds; s > 0 {
		bound, limit = "longest wait", s*1000
	}
	return fmt.Sprintf("it has no place %s after its time, and its %s is %s", lengthText(betweenMS(t.begins(), t.clock.Now)), bound, lengthText(limit))
}

// missStart: pending → failed: the run has missed its start deadline.
func (t *orchestratorTransition) missStart(reason string) { t.fail("missed: "+reason, true) }

// expire: pending → failed: the run has waited for a slot for too long.
func (t *orchestratorTransition) expire() {
	if t.clock.Rules.before(ledgerRules) {
		t.missStart(t.placeless())
		return
	}
	t.fail("expired: "+t.placeless(), true)
}

// admit: the job has given the run a slot, and its first attempt begins.
func (t *orchestratorTransition) admit(e OrchestratorAdmit) {
	if t.Admitted {
		t.refuseNow()
		return
	}
	t.Admitted, t.Occurrence = true, e.Occurrence
	t.beginAttempt()
}

// admitEnded: the job gave the run a slot as the run was cancelled.
func (t *orchestratorTransition) admitEnded(e OrchestratorAdmit) {
	if t.Occurrence != uuid.Nil || e.Occurrence == uuid.Nil {
		t.refuseNow()
		return
	}
	t.Occurrence = e.Occurrence
	t.settleOccurrence()
}
