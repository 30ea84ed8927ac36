package core

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/internal/texts"
)

// What a task does about its session: heartbeats, recovery, and the effects
// that it waits for.

// sessionName derives the name of a task's session; that after the first
// restart ends in "-2". The last digits of an id differ also among those that
// were made in the same millisecond (UUID version 7).
func sessionName(id uuid.UUID, restarts uint32) string {
	name := "orrery-" + id.String()[24:]
	if restarts > 0 {
		name += fmt.Sprintf("-%d", uint64(restarts)+1)
	}
	return name
}

// bounded gives what is kept of a heartbeat.
func (e TaskHeartbeat) bounded() TaskHeartbeat {
	e.Output = texts.Tail(e.Output, MaxScreenBytes)
	e.Progress = firstText(e.Progress)
	return e
}

// heartbeat is 003's table; what is not in it moves the last heartbeat alone.
func (t Task) heartbeat(e TaskHeartbeat, c Clock) (Task, []effects.Effect) {
	if e.Session != "" && e.Session != t.SessionID {
		return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("session: %q is not the present session of task %s, %q", clip(e.Session), t.ID, t.SessionID))
	}
	if e.IdleMS < 0 {
		return t, t.refuse(e, effects.CodeInvalid, fmt.Sprintf("idle_ms: %d is less than 0", e.IdleMS))
	}
	before := t
	if e.Output != "" {
		t.Screen = e.Output
	}
	t.UpdatedAt = c.Now
	switch e.Status {
	case LivenessActive:
		return t.beat(e, c).active(e.Progress == "" || e.Progress != t.Progress, c)
	case LivenessIdle:
		return t.beat(e, c).idle(e, c)
	case LivenessSessionDead:
		if len(t.Command) > 0 {
			return t.dead(e, c)
		}
		return before, t.refuse(e, effects.CodeConflict, fmt.Sprintf("status: task %s has no session that could be dead", t.ID))
	}
	return before, t.refuse(e, effects.CodeInvalid, fmt.Sprintf("status: %q is unknown: use %q, %q or %q",
		clip(string(e.Status)), LivenessActive, LivenessIdle, LivenessSessionDead))
}

// beat notes a sign of life, and the progress in it: what the work says of
// itself, or else that something moved.
func (t Task) beat(e TaskHeartbeat, c Clock) Task {
	t.LastHeartbeat = c.Now
	if e.Progress == "" || e.Progress != t.Progress {
		// A clock that jumped back must not leave the last progress in the future.
		t.LastProgress = min(max(t.LastProgress, laterMS(c.Now, -e.IdleMS)), c.Now)
	}
	if e.Progress != "" {
		t.Progress = e.Progress
	}
	return t
}

// active: stuck → running. One that runs has told its heartbeat.
func (t Task) active(progress bool, c Clock) (Task, []effects.Effect) {
	if t.State.Type != TaskStuck {
		t.Nudged = t.Nudged && !progress
		return t, nil
	}
	t.State = TaskState{Type: TaskRunning, StartedAt: t.State.StartedAt}
	t.LastProgress, t.RecoverAt = c.Now, 0
	return t, []effects.Effect{t.announce("recovered", nil)}
}

// idle: running → stuck where it was so for longer than the time-out.
func (t Task) idle(e TaskHeartbeat, c Clock) (Task, []effects.Effect) {
	idle := max(e.IdleMS, betweenMS(t.LastProgress, c.Now))
	if t.State.Type == TaskRunning && idle > t.Config.IdleTimeoutMS {
		return t.stuck(StuckReason{Type: StuckNoProgress, DurationMS: idle}, nil, c)
	}
	return t, nil
}

// dead: running → stuck, to be restarted at once; running, stuck → done where
// the session ended well. One that is stuck is so for this reason from here on.
func (t Task) dead(e TaskHeartbeat, c Clock) (Task, []effects.Effect) {
	if e.ExitCode != nil && *e.ExitCode == 0 {
		output, err := json.Marshal(struct {
			ExitCode int32  `json:"exit_code"`
			Screen   string `json:"screen,omitempty"`
		}{0, t.Screen})
		if err != nil {
			output = nil
		}
		return t.finish(TaskResult{Type: TaskSuccess, Output: output}, c)
	}
	reason := StuckReason{Type: StuckSessionDead, ExitCode: e.ExitCode}
	if t.State.Type == TaskRunning {
		t, effs := t.stuck(reason, nil, c)
		t.RecoverAt = c.Now
		return t, effs
	}
	if t.State.Reason.Type != StuckSessionDead {
		t.RecoverAt = c.Now
	}
	t.State.Reason = reason
	return t, nil
}

// recover is 003's table.
func (t Task) recover(e TaskRecover, c Clock) (Task, []effects.Effect) {
	switch e.Action {
	case RecoverNudge:
		if len(t.Command) == 0 {
			return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("action: task %s has no session to nudge", t.ID))
		}
		if t.waits(isSpawn) {
			return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("action: the session of task %s is being started", t.ID))
		}
		return t.nudge(c)
	case RecoverRestart:
		return t.restart(c)
	case RecoverEscalate:
		t.UpdatedAt = c.Now
		return t, []effects.Effect{t.escalate(boundedReason(e.Message, t.title()+" needs attention"))}
	}
	return t, t.refuse(e, effects.CodeInvalid, fmt.Sprintf("action: %q is unknown: use %q, %q or %q",
		clip(string(e.Action)), RecoverNudge, RecoverRestart, RecoverEscalate))
}

// step is the next one of the recovery of a task that is stuck.
func (t Task) step(c Clock) (Task, []effects.Effect) {
	switch {
	case len(t.Command) == 0, t.RecoveryAttempts >= t.Config.recoveries():
		why := t.State.Reason.String() + t.tried()
		escalate := t.escalate(firstText(t.title() + ": " + why))
		t, effs := t.fail(firstText(why), c)
		return t, append([]effects.Effect{escalate}, effs...)
	case t.State.Reason.Type == StuckSessionDead, t.Nudged, t.waits(isSpawn):
		return t.restart(c)
	}
	return t.nudge(c)
}

// tried says how often recovery was tried.
func (t Task) tried() string {
	if len(t.Command) == 0 {
		return "; it has no session that could be recovered"
	}
	return fmt.Sprintf("; %d of %d recovery attempts used", t.RecoveryAttempts, t.Config.recoveries())
}

// attempt counts an attempt of the recovery, up to the maximum.
func (t Task) attempt() Task {
	if t.RecoveryAttempts < t.Config.recoveries() {
		t.RecoveryAttempts++
	}
	return t
}

// nudge reminds the session. One that was not carried out yet is replaced.
func (t Task) nudge(c Clock) (Task, []effects.Effect) {
	t, effs := t.attempt().takeBack(isNudge)
	t.UpdatedAt = c.Now
	if t.State.Type == TaskStuck {
		t.Nudged, t.RecoverAt = true, laterMS(c.Now, t.Config.RecoveryIntervalMS)
	}
	return t.ask(effects.Nudge{N: t.Asked.next(), Session: t.SessionID, Input: t.Config.Nudge}, effs)
}

// restart: running, stuck → pending, to be started again once the session is
// killed; → done where no attempt is left.
func (t Task) restart(c Clock) (Task, []effects.Effect) {
	if t.RecoveryAttempts >= t.Config.recoveries() {
		why := "a restart was asked for"
		if t.State.Type == TaskStuck {
			why = t.State.Reason.String()
		}
		return t.fail(firstText(why+t.tried()), c)
	}
	t, effs := t.attempt().endSession()
	t.Restarts = min(t.Restarts, math.MaxUint32-1) + 1
	t.State = TaskState{Type: TaskPending}
	t.RecoverAt, t.CheckpointAt, t.Nudged, t.UpdatedAt = 0, 0, false, c.Now
	return t, append(effs, t.announce("restarting", nil))
}

// endSession takes back what was asked of the session, and kills it where it
// may be there.
func (t Task) endSession() (Task, []effects.Effect) {
	t, effs := t.takeBack(func(e effects.Outer) bool { return !isKill(e) })
	if !t.Spawned || t.waits(isKill) {
		return t, effs
	}
	return t.ask(effects.Kill{N: t.Asked.next(), Session: t.SessionID}, effs)
}

// escalate calls for a person (003 Escalate).
func (t Task) escalate(message string) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "system", Action: "escalate"},
		Source: effects.EventSource{Component: "task", ID: t.ID},
		Data:   announcementTexts("message", message),
	}}
}

// input types into the session.
func (t Task) input(e TaskInput, c Clock) (Task, []effects.Effect) {
	if err := checkLongText("text", e.Text); err != nil {
		return t, t.refuse(e, effects.CodeInvalid, err.Error())
	}
	open := 0
	for _, o := range t.Asked.Open {
		if isInput(o.Effect) {
			open++
		}
	}
	switch {
	case len(t.Command) == 0:
		return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("task %s has no session to type into", t.ID))
	case t.waits(isSpawn):
		return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("the session of task %s is being started", t.ID))
	case open >= MaxOpenInputs:
		return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("the session of task %s has %d inputs to take yet, and cannot have more", t.ID, open))
	}
	t.UpdatedAt = c.Now
	return t.ask(effects.SendInput{N: t.Asked.next(), Session: t.SessionID, Input: e.Text}, nil)
}

func isSpawn(e effects.Outer) bool { _, ok := e.(effects.Spawn); return ok }
func isKill(e effects.Outer) bool  { _, ok := e.(effects.Kill); return ok }
func isNudge(e effects.Outer) bool { _, ok := e.(effects.Nudge); return ok }
func isInput(e effects.Outer) bool { _, ok := e.(effects.SendInput); return ok }

// waits reports whether such an effect was not answered yet.
func (t Task) waits(which func(effects.Outer) bool) bool {
	return slices.ContainsFunc(t.Asked.Open, func(o PendingEffect) bool { return which(o.Effect) })
}

// ask asks for an effect that carries the next number.
func (t Task) ask(e effects.Outer, effs []effects.Effect) (Task, []effects.Effect) {
	t.Asked = t.Asked.ask(e)
	return t, append(effs, e)
}

// takeBack withdraws such effects as were not answered.
func (t Task) takeBack(which func(effects.Outer) bool) (Task, []effects.Effect) {
	var effs []effects.Effect
	for _, o := range t.Asked.Open { // the numbers are those from before
		if which(o.Effect) {
			t.Asked, _ = t.Asked.answered(o.Effect.Number())
			effs = append(effs, effects.Withdraw{N: o.Effect.Number()})
		}
	}
	return t, effs
}

func (t Task) outstanding() []effects.Outer { return t.Asked.outstanding() }

// refuseAnswer refuses an answer that nobody waits for.
func (t Task) refuseAnswer(e Event, n uint32) (Task, []effects.Effect) {
	return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("task %s is %s and does not wait for effect %d, which %q answers", t.ID, t.State.Type, n, e.EventType()))
}

// effectDone notes that an effect was carried out. From its start on the session
// is heard of; once the one before is killed, a restarted task is due.
func (t Task) effectDone(e EffectDone, c Clock) (Task, []effects.Effect) {
	asked, effect := t.Asked.answered(e.N)
	if effect == nil {
		return t.refuseAnswer(e, e.N)
	}
	t.Asked, t.Repeats, t.UpdatedAt = asked, 0, c.Now
	switch {
	case isSpawn(effect) && t.State.Type == TaskRunning:
		t.LastHeartbeat, t.LastProgress = c.Now, c.Now
	case isKill(effect):
		t.Spawned = false
	}
	return t, nil
}

// effectFailed: running → stuck, or done, where the session could not be
// started; pending → done where the one before could not be ended, since two
// must not work in one directory.
func (t Task) effectFailed(e EffectFailed, c Clock) (Task, []effects.Effect) {
	asked, effect := t.Asked.answered(e.N)
	if effect == nil {
		return t.refuseAnswer(e, e.N)
	}
	t.Asked, t.Repeats, t.UpdatedAt = asked, 0, c.Now
	reason := boundedReason(e.Reason, "failed without a reason")
	switch {
	case isSpawn(effect):
		return t.notSpawned(reason, e.Permanent, c)
	case isKill(effect):
		t.Spawned = false // it is not tried again
		why := firstText(fmt.Sprintf("session %s could not be ended: %s", t.SessionID, reason))
		if t.State.Type == TaskPending {
			return t.fail(why, c)
		}
		return t, []effects.Effect{t.escalate(firstText(t.title() + ": " + why))}
	case isInput(effect):
		return t, []effects.Effect{t.announce("input_lost", announcementTexts("reason", reason))}
	}
	return t, nil // a nudge: the next step of the recovery follows
}

func (t Task) notSpawned(reason string, permanent bool, c Clock) (Task, []effects.Effect) {
	if permanent {
		return t.fail(firstText("the session could not be started: "+reason), c)
	}
	stuck := StuckReason{Type: StuckSessionDead, Detail: reason}
	if t.State.Type == TaskRunning {
		return t.stuck(stuck, nil, c)
	}
	t.State.Reason = stuck
	return t, nil
}

// effectInterrupted asks once more for what may be repeated, some times; an
// input may not be.
func (t Task) effectInterrupted(e EffectInterrupted, c Clock) (Task, []effects.Effect) {
	asked, effect := t.Asked.answered(e.N)
	if effect == nil {
		return t.refuseAnswer(e, e.N)
	}
	if isInput(effect) || t.Repeats >= MaxEffectRepeats {
		t, effs := t.effectFailed(EffectFailed{N: e.N, Reason: boundedReason(e.Reason, ReasonRecovered)}, c)
		return t, effs
	}
	t.Asked, t.UpdatedAt = asked, c.Now
	t.Repeats++
	return t.ask(effect.WithNumber(t.Asked.next()), nil)
}

// effectHandedBack asks once more for what was not begun.
func (t Task) effectHandedBack(e EffectHandedBack, c Clock) (Task, []effects.Effect) {
	asked, effect := t.Asked.answered(e.N)
	if effect == nil {
		return t.refuseAnswer(e, e.N)
	}
	t.Asked, t.UpdatedAt = asked, c.Now
	return t.ask(effect.WithNumber(t.Asked.next()), nil)
}
