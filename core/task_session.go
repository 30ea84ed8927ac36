package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

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

// spawn starts a new session.
func (t *taskTransition) spawn() {
	t.SessionID, t.Spawned, t.Home = sessionName(t.ID, t.Restarts), true, ""
	t.request(&t.Pending, effects.Spawn{
		N: t.Pending.next(), Session: t.SessionID, Workspace: t.Workspace, Command: t.Command, Env: t.Env, Input: t.Prompt,
	})
}

// endSession takes back what was asked of the session, and kills the session if it may
// be there.
func (t *taskTransition) endSession() {
	t.takeBack(func(e effects.Outer) bool { return !isKill(e) })
	if t.Spawned && !t.awaits(isKill) {
		t.request(&t.Pending, effects.Kill{N: t.Pending.next(), Session: t.SessionID})
	}
}

// input types into the session.
func (t *taskTransition) input(e TaskInput) {
	if t.invalid(checkLongText("text", e.Text)) {
		return
	}
	open := 0
	for _, o := range t.Pending.Open {
		if isInput(o.Effect) {
			open++
		}
	}
	switch {
	case len(t.Command) == 0:
		t.refuse(effects.CodeConflict, "task %s has no session to type into", t.ID)
	case t.awaits(isSpawn):
		t.refuse(effects.CodeConflict, "the session of task %s is being started", t.ID)
	case open >= MaxOpenInputs:
		t.refuse(effects.CodeConflict, "the session of task %s has %d inputs to take yet, and cannot have more", t.ID, open)
	default:
		t.UpdatedAt = t.clock.Now
		t.request(&t.Pending, effects.SendInput{N: t.Pending.next(), Session: t.SessionID, Input: e.Text})
	}
}

func isSpawn(e effects.Outer) bool { _, ok := e.(effects.Spawn); return ok }
func isKill(e effects.Outer) bool  { _, ok := e.(effects.Kill); return ok }
func isNudge(e effects.Outer) bool { _, ok := e.(effects.Nudge); return ok }
func isInput(e effects.Outer) bool { _, ok := e.(effects.SendInput); return ok }

// awaits reports whether such an effect is pending.
func (t Task) awaits(which func(effects.Outer) bool) bool {
	return slices.ContainsFunc(t.Pending.Open, func(o PendingEffect) bool { return which(o.Effect) })
}

// takeBack withdraws such effects as are pending.
func (t *taskTransition) takeBack(which func(effects.Outer) bool) {
	for _, o := range t.Pending.Open { // the numbers are those from before
		if which(o.Effect) {
			t.Pending, _ = t.Pending.answered(o.Effect.Number())
			t.add(effects.Withdraw{N: o.Effect.Number()})
		}
	}
}

func (t Task) outstanding() []effects.Outer { return t.Pending.outstanding() }

// effectDone notes that an effect was carried out. From its start on the session
// is heard of; once the one before is killed, a restarted task is due.
func (t *taskTransition) effectDone(of effects.Outer, e EffectDone) {
	t.Repeats, t.UpdatedAt = 0, t.clock.Now
	switch {
	case isSpawn(of):
		t.Home = homeIn(e.Result, t.clock)
		if t.State.Type == TaskRunning {
			t.LastHeartbeat, t.LastProgress = t.clock.Now, t.clock.Now
		}
	case isKill(of):
		t.Spawned = false
	}
}

// effectFailed: running → stuck, or done, if the session could not be started;
// pending → done if the one before could not be ended, since two must not work in
// one directory. After a nudge that failed the next step of the recovery follows.
func (t *taskTransition) effectFailed(of effects.Outer, e EffectFailed) {
	t.Repeats, t.UpdatedAt = 0, t.clock.Now
	reason := boundedReason(e.Reason, "failed without a reason")
	switch {
	case isSpawn(of):
		t.spawnFailed(reason, e.Permanent)
	case isKill(of):
		t.killFailed(reason)
	case isInput(of):
		t.announce("input_lost", announcementTexts("reason", reason))
	}
}

func (t *taskTransition) spawnFailed(reason string, permanent bool) {
	stuck := StuckReason{Type: StuckSessionDead, Detail: reason}
	switch {
	case permanent:
		t.fail(firstText("the session could not be started: " + reason))
	case t.State.Type == TaskRunning:
		t.becomeStuck(stuck)
	default:
		t.State.Reason = stuck
	}
}

func (t *taskTransition) killFailed(reason string) {
	t.Spawned = false // the kill is not retried
	why := firstText(fmt.Sprintf("session %s could not be ended: %s", t.SessionID, reason))
	if t.State.Type == TaskPending {
		t.fail(why)
		return
	}
	t.escalate(firstText(t.title() + ": " + why))
}

// effectInterrupted issues the effect once more, [MaxEffectRepeats] times in a row; an
// input is not repeated. A kill always is: if it were given up, the session and its
// processes would stay, though the task does not want them any more.
func (t *taskTransition) effectInterrupted(of effects.Outer, e EffectInterrupted) {
	always := isKill(of) && !t.clock.Rules.before(10)
	if isInput(of) || t.Repeats >= MaxEffectRepeats && !always {
		t.effectFailed(of, EffectFailed{N: e.N, Reason: boundedReason(e.Reason, ReasonRecovered)})
		return
	}
	t.Repeats = min(t.Repeats+1, MaxEffectRepeats)
	t.effectHandedBack(of)
}

// effectHandedBack issues the effect once more: it was not begun.
func (t *taskTransition) effectHandedBack(of effects.Outer) {
	t.UpdatedAt = t.clock.Now
	t.reissue(&t.Pending, of)
}
