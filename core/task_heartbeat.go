package core

import (
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// bounded gives what is kept of a heartbeat.
func (e TaskHeartbeat) bounded() TaskHeartbeat {
	e.Output = texts.Tail(e.Output, MaxScreenBytes)
	e.Progress = firstText(e.Progress)
	return e
}

// heartbeat is 003's table; a heartbeat that is not in it moves the last heartbeat alone.
func (t *taskTransition) heartbeat(e TaskHeartbeat) {
	switch {
	case e.Session != "" && e.Session != t.SessionID:
		t.refuse(effects.CodeConflict, "session: %q is not the present session of task %s, %q", clip(e.Session), t.ID, t.SessionID)
		return
	case e.IdleMS < 0:
		t.refuse(effects.CodeInvalid, "idle_ms: %d is less than 0", e.IdleMS)
		return
	}
	if e.Output != "" {
		t.Screen = e.Output
	}
	t.UpdatedAt = t.clock.Now
	switch {
	case e.Status == LivenessActive:
		t.active(t.noteLife(e))
	case e.Status == LivenessIdle:
		t.noteLife(e)
		t.idle(e)
	case e.Status != LivenessSessionDead:
		t.invalid(checkOneOf("status", e.Status, LivenessActive, LivenessIdle, LivenessSessionDead))
	case len(t.Command) == 0:
		t.refuse(effects.CodeConflict, "status: task %s has no session that could be dead", t.ID)
	default:
		t.sessionDied(e)
	}
}

// noteLife notes a sign of life, and the progress in it: what the work says of
// itself, or else that something moved.
func (t *taskTransition) noteLife(e TaskHeartbeat) (progress bool) {
	now := t.clock.Now
	t.LastHeartbeat = now
	if progress = e.Progress == "" || e.Progress != t.Progress; progress {
		// A clock that jumped back must not leave the last progress in the future.
		t.LastProgress = min(max(t.LastProgress, laterMS(now, -e.IdleMS)), now)
	}
	if e.Progress != "" {
		t.Progress = e.Progress
	}
	return progress
}

// active: stuck → running. A task that runs has told its heartbeat.
func (t *taskTransition) active(progress bool) {
	if t.State.Type != TaskStuck {
		t.Nudged = t.Nudged && !progress
		return
	}
	t.State = TaskState{Type: TaskRunning, StartedAt: t.State.StartedAt}
	t.LastProgress, t.RecoverAt = t.clock.Now, 0
	t.announce("recovered", nil)
}

// idle: running → stuck if it was idle for longer than the time-out.
func (t *taskTransition) idle(e TaskHeartbeat) {
	idle := max(e.IdleMS, betweenMS(t.LastProgress, t.clock.Now))
	if t.State.Type == TaskRunning && idle > t.Config.IdleTimeoutMS {
		t.becomeStuck(StuckReason{Type: StuckNoProgress, DurationMS: idle})
	}
}

// sessionDied: running → stuck, to be restarted at once; running, stuck → done if the
// session ended well. A task that is stuck is so for this reason from here on.
func (t *taskTransition) sessionDied(e TaskHeartbeat) {
	if e.ExitCode != nil && *e.ExitCode == 0 {
		output := announcementData(struct {
			ExitCode int32  `json:"exit_code"`
			Screen   string `json:"screen,omitempty"`
		}{0, t.Screen})
		t.endWith(TaskResult{Type: TaskSuccess, Output: output})
		return
	}
	reason := StuckReason{Type: StuckSessionDead, ExitCode: e.ExitCode}
	was := t.State
	if was.Type == TaskRunning {
		t.becomeStuck(reason)
	}
	if was.Type == TaskRunning || was.Reason.Type != StuckSessionDead {
		t.RecoverAt = t.clock.Now
	}
	t.State.Reason = reason
}
