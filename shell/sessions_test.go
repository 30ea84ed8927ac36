package shell_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// screens is what a watcher sees: all sessions alike.
type screens struct {
	mu  sync.Mutex
	now shell.SessionObservation
}

func (s *screens) show(o shell.SessionObservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = o
}

func (s *screens) Observe(_ context.Context, names []string) ([]shell.SessionObservation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []shell.SessionObservation
	for _, n := range names {
		o := s.now
		o.Session = n
		out = append(out, o)
	}
	return out, nil
}

func TestAStuckTaskRecoversWhenItsSessionMovesAndIsDoneByItsExitCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screens{now: shell.SessionObservation{Alive: true, IdleFor: time.Hour}}
		e := running(t, shell.Options{
			Store: inMemory(t), TickRate: time.Hour, Sessions: s, WatchEvery: time.Second,
			Interpreters: map[string]shell.Interpreter{effects.LaneSession: carrying(func(context.Context) (json.RawMessage, error) { return nil, nil })},
		})
		task, err := e.Tasks().Create(bg(), core.TaskSpec{Workspace: "w", Command: []string{"agent"}, Config: core.TaskConfig{IdleTimeoutMS: 60_000, HeartbeatTimeoutMS: 60_000}})
		require.NoError(t, err)
		state := func() core.TaskStateType {
			task, err = e.Tasks().Get(bg(), task.ID)
			require.NoError(t, err)
			return task.State.Type
		}
		elapse(2 * time.Second)
		require.Equal(t, core.TaskStuck, state(), "it is idle for longer than it may")
		s.show(shell.SessionObservation{Alive: true, Changed: true})
		elapse(2 * time.Second)
		require.Equal(t, core.TaskRunning, state())
		zero := 0
		s.show(shell.SessionObservation{ExitCode: &zero, Tail: "all done"})
		elapse(2 * time.Second)
		require.Equal(t, core.TaskDone, state())
		assert.Equal(t, core.TaskSuccess, task.State.Result.Type)
	})
}
