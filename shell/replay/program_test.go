package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// tidyUp makes an action for each one that fails.
type tidyUp struct{ label string }

func (tidyUp) Matches(e effects.Event) bool { return e.Kind.String() == "action:failed" }

func (s tidyUp) Handle(e effects.Event) []effects.Effect {
	id := core.ChildID(e.ID, "tidy-up", 0, 0)
	return []effects.Effect{effects.Send{To: effects.Ref{Kind: core.KindAction, ID: id}, Event: core.ActionCreate{Spec: core.ActionSpec{
		ID: id, ToolName: "ok", Label: s.label, Trigger: core.Scheduled(e.Timestamp),
	}}}}
}

// failOnce runs an engine that has those subscribers, in which one action fails.
func failOnce(t *testing.T, st store.Store, program map[string]core.Subscriber, every time.Duration) (tidied int, heard []effects.Event) {
	t.Helper()
	e, err := shell.New(shell.Options{
		Store: st, Logger: slog.New(slog.DiscardHandler), TickRate: time.Hour, Subscribers: program, HeartbeatEvery: every,
		Tools: map[string]shell.Tool{
			"ok": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil }),
			"no": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errors.New("no") }),
		},
	})
	require.NoError(t, err)
	sub := e.Subscribe(func(ev effects.Event) bool { return ev.Kind == effects.KindHeartbeat }, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	_, err = e.Actions().Create(t.Context(), core.ActionSpec{ToolName: "no"})
	require.NoError(t, err)
	<-time.After(150 * time.Second)
	synctest.Wait()
	list, _, err := e.Actions().List(t.Context(), shell.ActionFilter{Tool: "ok"}, shell.Page{})
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-done)
	sub.Close()
	for ev := range sub.C {
		heard = append(heard, ev)
	}
	return len(list), heard
}

func TestASubscriberOfTheProgramReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		program := map[string]core.Subscriber{"tidy-up": tidyUp{"a"}}
		tidied, _ := failOnce(t, st, program, 0)
		assert.Equal(t, 1, tidied)
		tidied, _ = failOnce(t, st, program, 0)
		assert.Equal(t, 2, tidied, "it is registered after a restart, too")

		rep, err := replay.Verify(t.Context(), st, replay.Options{Subscribers: program})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)

		rep, err = replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		require.NotEmpty(t, rep.Divergences)
		assert.Contains(t, rep.Divergences[0].What, `subscriber "tidy-up" of the program hears events, and is not here`)

		rep, err = replay.Verify(t.Context(), st, replay.Options{Subscribers: map[string]core.Subscriber{"tidy-up": tidyUp{"b"}}})
		require.NoError(t, err)
		require.NotEmpty(t, rep.Divergences, "it decides otherwise than then")

		tidied, _ = failOnce(t, st, nil, 0)
		assert.Equal(t, 2, tidied, "a program without it has taken it away")
		rep, err = replay.Verify(t.Context(), st, replay.Options{Subscribers: program})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
	})
}

func TestAnEngineAnnouncesThatItIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		begin := effects.TimeOf(time.Now())
		_, heard := failOnce(t, st, nil, time.Minute)
		require.Len(t, heard, 3, "at its start, and after each minute")
		for i, e := range heard {
			assert.Equal(t, begin.Add(time.Duration(i)*time.Minute), e.Timestamp)
			assert.JSONEq(t, `{"every_ms":60000}`, string(e.Data))
			assert.Equal(t, "engine", e.Source.Component)
			assert.NotZero(t, e.Source.ID)
		}
		_, heard = failOnce(t, st, nil, 0)
		assert.Empty(t, heard, "nobody asked for it")
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
	})
}
