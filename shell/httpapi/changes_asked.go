package httpapi

import (
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
)

// askedFor reports whether one of a machine's inputs is what somebody asked for: no part of how the daemon, its runners and
// the programs that work on items and tasks go about their work.
func askedFor(inputs []core.Input) bool {
	return slices.ContainsFunc(inputs, func(in core.Input) bool { return !byMachine(in.Actor) && !isWork(in.Event) })
}

// byMachine reports whether an actor is a part of the daemon, or what works for it.
func byMachine(actor string) bool {
	switch actor {
	case "clock", "engine", "jobs", "recovery", "retention", "tool", "watcher":
		return true
	}
	return strings.HasPrefix(actor, "runner:") || strings.HasPrefix(actor, "action:")
}

// isWork reports whether an event is a step of a program's work, as it sends them all the time: a sign of life, or what becomes of an
// item.
func isWork(e core.Event) bool {
	switch e.(type) {
	case core.TaskHeartbeat, core.LockRenew, core.SemaphoreRenew,
		core.QueuePush, core.QueueTake, core.QueueComplete, core.QueueFail, core.QueueExtend, core.QueueRelease:
		return true
	}
	return false
}
