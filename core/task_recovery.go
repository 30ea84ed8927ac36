package core

import (
	"fmt"
	"math"

	"github.com/orrery-go/orrery/effects"
)

// recover is 003's table.
func (t *taskTransition) recover(e TaskRecover) {
	switch {
	case e.Action == RecoverNudge && len(t.Command) == 0:
		t.refuse(effects.CodeConflict, "action: task %s has no session to nudge", t.ID)
	case e.Action == RecoverNudge && t.awaits(isSpawn):
		t.refuse(effects.CodeConflict, "action: the session of task %s is being started", t.ID)
	case e.Action == RecoverNudge:
		t.nudge()
	case e.Action == RecoverRestart:
		t.restart()
	case e.Action == RecoverEscalate:
		t.UpdatedAt = t.clock.Now
		t.escalate(boundedReason(e.Message, t.title()+" needs attention"))
	default:
		t.invalid(checkOneOf("action", e.Action, RecoverNudge, RecoverRestart, RecoverEscalate))
	}
}

// recoverStuck takes the next step of the recovery of a task that is stuck.
func (t *taskTransition) recoverStuck() {
	switch {
	case len(t.Command) == 0, t.RecoveryAttempts >= t.Config.recoveries():
		why := t.State.Reason.String() + t.tried()
		t.escalate(firstText(t.title() + ": " + why))
		t.fail(firstText(why))
	case t.State.Reason.Type == StuckSessionDead, t.Nudged, t.awaits(isSpawn):
		t.restart()
	default:
		t.nudge()
	}
}

// tried says how often recovery was tried.
func (t Task) tried() string {
	if len(t.Command) == 0 {
		return "; it has no session that could be recovered"
	}
	return fmt.Sprintf("; %d of %d recovery attempts used", t.RecoveryAttempts, t.Config.recoveries())
}

// countAttempt counts an attempt of the recovery, up to the maximum.
func (t *taskTransition) countAttempt() {
	if t.RecoveryAttempts < t.Config.recoveries() {
		t.RecoveryAttempts++
	}
}

// nudge reminds the session. A nudge that was not carried out yet is replaced.
func (t *taskTransition) nudge() {
	t.countAttempt()
	t.takeBack(isNudge)
	t.UpdatedAt = t.clock.Now
	if t.State.Type == TaskStuck {
		t.Nudged, t.RecoverAt = true, laterMS(t.clock.Now, t.Config.RecoveryIntervalMS)
	}
	t.request(&t.Pending, effects.Nudge{N: t.Pending.next(), Session: t.SessionID, Input: t.Config.Nudge})
}

// restart: running, stuck → pending, to be started anew once the session is
// killed; → done if no attempt is left.
func (t *taskTransition) restart() {
	if t.RecoveryAttempts >= t.Config.recoveries() {
		why := "a restart was asked for"
		if t.State.Type == TaskStuck {
			why = t.State.Reason.String()
		}
		t.fail(firstText(why + t.tried()))
		return
	}
	t.countAttempt()
	t.endSession()
	t.Restarts = min(t.Restarts, math.MaxUint32-1) + 1
	t.State = TaskState{Type: TaskPending}
	t.RecoverAt, t.CheckpointAt, t.Nudged, t.UpdatedAt = 0, 0, false, t.clock.Now
	t.announce("restarting", nil)
}

// escalate calls for a person (003 Escalate).
func (t *taskTransition) escalate(message string) {
	t.transition.announce("system", "task", "escalate", t.ID, announcementTexts("message", message))
}
