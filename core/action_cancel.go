package core

import (
	"github.com/orrery-go/orrery/effects"
)

// CancelMode says what becomes of the run of an action that is cancelled.
type CancelMode string

// Cancel modes. A pending action is cancelled at once in each of them.
const (
	// CancelNow cancels the action at once; its tool is asked to stop, and what it answers is dropped.
	CancelNow CancelMode = ""
	// CancelAwait asks the tool to stop. The action stays running until the tool has ended, or was
	// left behind as it did not end, and is cancelled then.
	CancelAwait CancelMode = "await"
	// CancelKill cancels the action at once; its tool is ended without the time that it is given
	// otherwise to end by itself. What it answers is dropped.
	CancelKill CancelMode = "kill"
)

// reasonCancelled is the reason of an action that was cancelled without one.
const reasonCancelled = "cancelled"

// cancel: pending, running → cancelled, or running until its run is answered (A3).
func (a *Action) cancel(e ActionCancel, c Clock) []effects.Effect {
	switch e.Mode {
	case CancelNow, CancelAwait, CancelKill:
	default:
		return refused(a.Ref(), e, effects.CodeInvalid, "mode: %q is unknown: use %q or %q, or leave it out", clip(string(e.Mode)), CancelAwait, CancelKill)
	}
	reason := reasonOr(e.Reason, reasonCancelled)
	switch a.Status.Type {
	case StatusPending:
		return a.endCancelled(reason, c)
	case StatusRunning:
	case StatusCompleted, StatusFailed, StatusCancelled:
		return refused(a.Ref(), e, effects.CodeConflict, "action %s is %s already", a.ID, a.Status.Type)
	}
	if e.Mode != CancelAwait {
		if e.Reason == "" && a.Cancelling != "" {
			reason = a.Cancelling
		}
		return append(a.endCancelled(reason, c), effects.Withdraw{N: a.Run, Kill: e.Mode == CancelKill})
	}
	if a.Cancelling != "" {
		return refused(a.Ref(), e, effects.CodeConflict,
			"action %s is being cancelled already: it waits for the end of run %d; mode %q does not wait", a.ID, a.Run, CancelKill)
	}
	a.Cancelling, a.UpdatedAt = reason, c.Now
	return []effects.Effect{effects.Stop{N: a.Run}}
}

// endCancelled: → cancelled.
func (a *Action) endCancelled(reason string, c Clock) []effects.Effect {
	status := Status{Type: StatusCancelled, Reason: reason}
	running := a.Status.Type == StatusRunning
	if running {
		a.FinishedAt = c.Now
	}
	ledger := a.closeLedger(!running, status, c)
	a.Status = status
	a.UpdatedAt, a.RetryAt, a.Cancelling = c.Now, 0, ""
	return append(a.tellEnd(status), ledger...)
}

// stopsEffect: see [Stopping].
func (a Action) stopsEffect(n uint32) bool { return a.Cancelling != "" && a.answers(n) }

// Stopping reports whether a machine waits for an outer effect that it has asked to stop
// ([effects.Stop]).
func Stopping(s State, n uint32) bool {
	w, ok := s.(interface{ stopsEffect(n uint32) bool })
	return ok && w.stopsEffect(n)
}
