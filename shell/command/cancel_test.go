package command_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/store/memory"
)

// ignoring gives an engine and an action whose program is there and ignores SIGTERM.
func ignoring(t *testing.T) (*shell.Engine, core.Action, *actor) {
	t.Helper()
	s := newStage(t)
	e, err := shell.New(shell.Options{
		Store: memory.New(), Logger: slog.New(slog.DiscardHandler), AbandonAfter: time.Hour, StopTimeout: time.Second,
		Tools: map[string]shell.Tool{command.Name: newTool(t, command.Options{KillGrace: time.Hour})},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	a, err := e.Actions().Create(t.Context(), core.ActionSpec{ToolName: command.Name, ToolInput: s.input("ignore")})
	require.NoError(t, err)
	return e, a, s.await()
}

func TestACommandThatIsCancelledByAwaitKeepsItsActionRunningUntilItHasEnded(t *testing.T) {
	e, a, program := ignoring(t)
	a, err := e.Actions().CancelWith(t.Context(), a.ID, core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait})
	require.NoError(t, err)
	assert.Equal(t, core.StatusRunning, a.Status.Type)
	program.goOn(t)
	program.dead(t)
	a, err = e.Actions().Wait(t.Context(), a.ID)
	require.NoError(t, err)
	assert.Equal(t, core.Status{Type: core.StatusCancelled, Reason: "a newer one"}, a.Status)
}

// The grace is an hour: only the kill ends what ignores SIGTERM within the test.
func TestAKillEndsACommandThatIgnoresSIGTERM(t *testing.T) {
	for _, modes := range [][]core.CancelMode{{core.CancelKill}, {core.CancelAwait, core.CancelKill}} {
		e, a, program := ignoring(t)
		var err error
		for _, mode := range modes {
			a, err = e.Actions().CancelWith(t.Context(), a.ID, core.ActionCancel{Mode: mode})
			require.NoError(t, err)
		}
		assert.Equal(t, core.StatusCancelled, a.Status.Type)
		program.dead(t)
	}
}
