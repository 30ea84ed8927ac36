package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	logbuffer "github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// scarceFor gives a procedure that cannot be started for a while, and counts its starts.
func scarceFor(lack time.Duration, starts *atomic.Int32) engine.Hooks {
	enough := time.Now().Add(lack)
	return engine.Hooks{Procedure: func(engine.OuterEffect) engine.Procedure {
		return engine.Procedure{What: "tool", Subject: "action", Limit: time.Second, Call: func(context.Context) (json.RawMessage, error) {
			starts.Add(1)
			if time.Now().Before(enough) {
				return nil, engine.NotStarted(errors.New("too many open files"))
			}
			return json.RawMessage(`1`), nil
		}}
	}}
}

func readAction(t *testing.T, e *engine.Engine, r engine.Request) core.Action {
	t.Helper()
	s, err := e.Read(t.Context(), r.Want)
	require.NoError(t, err)
	return s.(core.Action)
}

func TestAStartForWhichTheSystemLacksSomethingIsTriedAgainAndIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int32
		logs := &logbuffer.Buffer{}
		e, err := engine.New(engine.Options{Store: memory.New(), Hooks: scarceFor(10*time.Minute, &starts), Logger: slog.New(slog.NewTextHandler(logs, nil))})
		require.NoError(t, err)
		begin(t, e)
		r := runningTool(1)
		_, err = e.Do(t.Context(), r)
		require.NoError(t, err)

		<-time.After(9 * time.Minute)
		synctest.Wait()
		s, err := e.Stats(t.Context(), nil)
		require.NoError(t, err)
		assert.EqualValues(t, 1, s.DeferredNow)
		assert.EqualValues(t, starts.Load(), s.Deferred)
		assert.Less(t, starts.Load(), int32(50), "it is no busy loop")
		assert.Equal(t, core.StatusRunning, readAction(t, e, r).Status.Type, "it keeps its slot")

		<-time.After(2 * time.Minute)
		synctest.Wait()
		a := readAction(t, e, r)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.EqualValues(t, 1, a.Attempt)
		s, err = e.Stats(t.Context(), nil)
		require.NoError(t, err)
		assert.Zero(t, s.DeferredNow)
		lines := strings.Count(logs.String(), "the system lacks what a start needs")
		assert.LessOrEqual(t, lines, 11, "one a minute")
		assert.GreaterOrEqual(t, lines, 5)
		assert.Contains(t, logs.String(), "level=WARN")
	})
}

func TestWhatWaitsForItsStartCanBeCancelledAndGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int32
		e := idle(t, engine.Options{Store: memory.New(), Hooks: scarceFor(time.Minute, &starts), Concurrency: map[string]int{"http": 1}})
		begin(t, e)
		first, second := runningTool(1), runningTool(2)
		for _, r := range []engine.Request{first, second} {
			_, err := e.Do(t.Context(), r)
			require.NoError(t, err)
		}
		_, err := e.Send(t.Context(), first.Want, core.ActionCancel{})
		require.NoError(t, err)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, core.StatusCancelled, readAction(t, e, first).Status.Type)
		assert.Equal(t, core.StatusCompleted, readAction(t, e, second).Status.Type)
	})
}

func TestWhatWaitsForItsStartWhenTheEngineStopsRunsAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int32
		st := memory.New()
		o := engine.Options{Store: st, Hooks: scarceFor(time.Hour, &starts), StopTimeout: time.Second}
		e := idle(t, o)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		r := runningTool(1)
		r.Inputs[0].Event = core.ActionCreate{Spec: core.ActionSpec{ID: r.Want.ID, ToolName: "http", Trigger: core.Scheduled(effects.TimeOf(time.Now())), Policy: core.RunPolicy{OnInterrupt: core.InterruptFail}}}
		_, err := e.Do(t.Context(), r)
		require.NoError(t, err)
		synctest.Wait()
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			return tx.Outbox(func(o store.OutboxEntry) error {
				assert.True(t, o.Waiting(), "nobody has it")
				return nil
			})
		}))

		<-time.After(time.Hour)
		e = idle(t, o)
		begin(t, e)
		<-time.After(time.Minute)
		synctest.Wait()
		a := readAction(t, e, r)
		assert.Equal(t, core.StatusCompleted, a.Status.Type, a.Status.Reason)
	})
}
