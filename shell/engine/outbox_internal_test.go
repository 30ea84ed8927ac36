package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store/memory"
)

// Between the start of an execution's goroutine and its first step a stop may cancel
// it: it was not begun, so that its policy does not concern it.
func TestAnExecutionThatIsCancelledByAStopBeforeItWasBegunIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := false
		p := Procedure{What: "tool", Call: func(context.Context) (json.RawMessage, error) {
			called = true
			return nil, nil
		}}
		e, err := New(Options{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		a := core.Action{ActionSpec: core.ActionSpec{ID: uuid.Max, ToolName: "count"}, Status: core.Status{Type: core.StatusRunning}, Run: 3}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrStopping)
		e.execute(ctx, &execution{key: effectKey(a.Ref(), a.Run), ref: a.Ref(), queue: "count", cancel: cancel}, p)
		require.Len(t, e.result, 1)
		assert.Equal(t, core.ActionHandBack{Run: 3}, (<-e.result).event)
		assert.False(t, called)
	})
}
