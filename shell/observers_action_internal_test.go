package shell

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

// A cycle is counted when it ends, and only then: a run that is given back, or
// repeated, is not the end of the cycle before it.
func TestOnlyTheEndOfACycleIsCountedAsItsEnd(t *testing.T) {
	var s counts
	done := core.Status{Type: core.StatusCompleted}
	action := func(status core.StatusType, run uint32, last *core.LastRun) core.Action {
		return core.Action{ActionSpec: core.ActionSpec{ID: uuid.Max}, Status: core.Status{Type: status}, Run: run, LastRun: last}
	}
	first, second := &core.LastRun{Cycle: 1, Status: done}, &core.LastRun{Cycle: 2, Status: done}
	ended := func(before core.State, after core.Action) uint64 {
		was := s.actions.ActionsCompleted
		actionObserver.count(&s, before, after)
		return s.actions.ActionsCompleted - was
	}
	assert.EqualValues(t, 0, ended(nil, action(core.StatusRunning, 1, nil)))
	assert.EqualValues(t, 1, ended(action(core.StatusRunning, 1, nil), action(core.StatusPending, 1, first)))
	assert.EqualValues(t, 0, ended(action(core.StatusPending, 1, first), action(core.StatusRunning, 2, first)))
	assert.EqualValues(t, 0, ended(action(core.StatusRunning, 2, first), action(core.StatusPending, 2, first)), "given back")
	assert.EqualValues(t, 1, ended(action(core.StatusRunning, 3, first), action(core.StatusRunning, 4, second)), "and the next one began in the same batch")
	assert.EqualValues(t, 1, s.actions.ActionsCreated)
}
