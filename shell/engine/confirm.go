package engine

import "errors"

// errUnsure is why an outer effect is not begun for now.
var errUnsure = NotStarted(errors.New("the store may be another process's by now: no sign of life of this one was confirmed for nearly a lease"))

// Confirm is asked right before something is done outside that a commit of this process says to do: a process that was frozen after the commit may have lost
// the store meanwhile, and another one decides what becomes of that. The error, if that may be so ([Handover].Holds), is one that says [NotStarted]: whoever begins the effect
// tries again later, if it is still wanted. Confirm asks a clock, and nobody else, so what follows a nil at once may still come too late, if the process is frozen in between.
func (e *Engine) Confirm() error {
	if h := e.o.Handover; h == nil || h.Holds == nil || h.Holds() {
		return nil
	}
	return errUnsure
}
