package core

import (
	"fmt"

	"github.com/google/uuid"
)

// awaitSlot: pre_run → pending, where the run asks its job for a slot; → failed if it
// is too late for that.
func (t *orchestratorTransition) awaitSlot(e OrchestratorDue) {
	missed := !t.overdueSince(t.clock.Now).IsZero()
	t.to(OrchestratorPending)
	if !missed {
		t.send(t.job(), JobAdmit{Run: t.ID})
		return
	}
	why := lateReason(t.clock, "a run begins within its start deadline of "+lengthText(t.Config.startDeadline()), t.placeless(), e.Absences)
	t.missStart(why.text(t.begins()))
}

// overdueSince is the time of a run that has not asked for a slot within its start deadline;
// zero: the run is none of those.
func (o Orchestrator) overdueSince(now Time) Time {
	if o.State != OrchestratorPreRun || o.Manual || betweenMS(o.begins(), now) < o.Config.startDeadline() {
		return 0
	}
	return o.begins()
}

// placeless is the reason of a run to which its job has given no slot by now.
func (t *orchestratorTransition) placeless() string {
	return fmt.Sprintf("it has no place %s after its time, and its start deadline is %s",
		lengthText(betweenMS(t.begins(), t.clock.Now)), lengthText(t.Config.startDeadline()))
}

// missStart: pending → failed: the run has missed its start deadline.
func (t *orchestratorTransition) missStart(reason string) { t.fail("missed: "+reason, true) }

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
