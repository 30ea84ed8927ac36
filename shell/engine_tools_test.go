package shell_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// gate is a tool that runs until it is opened or its context ends.
type gate struct {
	counting
	once sync.Once
	c    chan struct{}
}

func newGate() *gate { return &gate{c: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.c) }) }

func (g *gate) Run(ctx context.Context, call shell.Call) (json.RawMessage, error) {
	if _, err := g.counting.Run(ctx, call); err != nil {
		return nil, err
	}
	select {
	case <-g.c:
		return json.RawMessage(`"through"`), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestAPanickingToolFailsItsActionAndNothingElse(t *testing.T) {
	c := &counting{}
	e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{
		"count": c,
		"panic": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { panic("at the disco") }),
	}})
	a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "panic"})
	require.NoError(t, err)
	assert.Equal(t, core.StatusFailed, a.Status.Type)
	assert.Contains(t, a.Status.Reason, "at the disco")
	a, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	assert.Equal(t, core.StatusCompleted, a.Status.Type)
}

func TestAResultThatIsNotJSONFailsTheAction(t *testing.T) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(shell.ToolFunc(
		func(context.Context, shell.Call) (json.RawMessage, error) { return json.RawMessage(`{oops`), nil }))})
	a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: "the tool's result is not valid JSON"}, a.Status)
}

func TestASlowToolDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick := newGate(), &counting{}
		e := running(t, shell.Options{
			Store: inMemory(t), Tools: map[string]shell.Tool{"slow": slow, "quick": quick},
			Concurrency: map[string]int{"slow": 2},
		})
		for range 50 {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "slow"})
			require.NoError(t, err)
		}
		begin := time.Now()
		for range 20 {
			a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "quick"})
			require.NoError(t, err)
			assert.Equal(t, core.StatusCompleted, a.Status.Type)
		}
		assert.Zero(t, time.Since(begin))
		synctest.Wait()
		assert.EqualValues(t, 2, slow.n.Load(), "no more than its concurrency")
		slow.open()
		synctest.Wait()
		assert.EqualValues(t, 50, slow.n.Load(), "what waited runs in the end, with nothing else happening")
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 70, s.ActionsByStatus[core.StatusCompleted])
	})
}

func TestWhatWaitsForAPlaceStartsInTheOrderOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		first := newGate()
		e := running(t, shell.Options{Store: inMemory(t), Concurrency: map[string]int{"count": 1}, Tools: tools(blockedBy(first, &mu, &order))})
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Label: "blocker"})
		require.NoError(t, err)
		for i, label := range []string{"c", "a", "b"} {
			due := []time.Duration{3 * time.Second, time.Second, 2 * time.Second}[i]
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Label: label, Trigger: at(due)})
			require.NoError(t, err)
		}
		elapse(time.Minute)
		first.open()
		synctest.Wait()
		assert.Equal(t, []string{"blocker", "a", "b", "c"}, order)
	})
}

func TestARunThatReachesItsTimeLimitIsCancelledAndFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(g)})
		begin := time.Now()
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{TimeoutMS: 5000}})
		require.NoError(t, err)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Contains(t, a.Status.Reason, "time limit")
		assert.Equal(t, 5*time.Second, time.Since(begin))
	})
}

func TestAToolThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		e := running(t, shell.Options{Store: inMemory(t), AbandonAfter: 10 * time.Second, Concurrency: map[string]int{"count": 1}, Tools: tools(shell.ToolFunc(
			func(_ context.Context, c shell.Call) (json.RawMessage, error) {
				if c.Label == "hangs" {
					<-hang
				}
				return nil, nil
			}))})
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Label: "hangs", Policy: core.RunPolicy{TimeoutMS: 5000}})
		require.NoError(t, err)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Contains(t, a.Status.Reason, "did not return")
		a, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Label: "next"})
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type, "its place is free again")
		close(hang)
	})
}

func TestCancellingARunningActionCancelsItsToolAndALateResultChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := make(chan error, 1)
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(shell.ToolFunc(
			func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return json.RawMessage(`"too late"`), nil
			}))})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		require.Equal(t, core.StatusRunning, a.Status.Type)
		a, err = e.Actions().Cancel(bg(), a.ID, "changed my mind")
		require.NoError(t, err)
		assert.Equal(t, core.Status{Type: core.StatusCancelled, Reason: "changed my mind"}, a.Status)
		require.ErrorIs(t, <-cause, shell.ErrCancelled)
		synctest.Wait()
		got := actionOf(t, e, a.ID)
		assert.Equal(t, a, got)
		_, err = e.Actions().Cancel(bg(), a.ID, "")
		var refusal *shell.Refusal
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, effects.CodeConflict, refusal.Code)
	})
}

func TestCancellingAnActionThatWaitsForAPlaceTakesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(g), Concurrency: map[string]int{"count": 1}})
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		waits, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		_, err = e.Actions().Cancel(bg(), waits.ID, "")
		require.NoError(t, err)
		g.open()
		synctest.Wait()
		assert.EqualValues(t, 1, g.n.Load())
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			return tx.Outbox(func(o store.OutboxEntry) error {
				t.Errorf("outbox entry %v is left over", o.Key)
				return nil
			})
		}))
	})
}

func TestAnActionForAToolThatIsNotThereIsRefusedByName(t *testing.T) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
	for name, want := range map[string]string{
		"":     "tool_name: must not be empty: use one of count",
		"none": `tool_name: "none" is unknown: use one of count`,
	} {
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: name})
		require.EqualError(t, err, want)
	}
}

func TestASecondActionWithTheSameIdOrDedupKeyIsRefused(t *testing.T) {
	g := newGate()
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(g)})
	id := uuid.New()
	_, err := e.Actions().Create(bg(), core.ActionSpec{ID: id, ToolName: "count", DedupKey: "k"})
	require.NoError(t, err)
	var refusal *shell.Refusal
	_, err = e.Actions().Create(bg(), core.ActionSpec{ID: id, ToolName: "count"})
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, effects.CodeExists, refusal.Code)
	_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k"})
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, effects.CodeConflict, refusal.Code)
	assert.Contains(t, refusal.Reason, id.String())
	_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k", Tenant: "another"})
	require.NoError(t, err, "keys belong to a tenant")
	g.open()
	_, err = e.Actions().Wait(bg(), id)
	require.NoError(t, err)
	_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k"})
	require.NoError(t, err, "the key is free when its holder has ended")
}

// A4.
func TestACompletedRecurringActionIsPendingAgainAtItsNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c)})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Recurrence: core.Every(time.Hour)})
		require.NoError(t, err)
		elapse(150 * time.Minute)
		assert.EqualValues(t, 3, c.n.Load())
		got := actionOf(t, e, a.ID)
		assert.Equal(t, core.StatusPending, got.Status.Type)
		assert.Equal(t, a.Trigger.NextTickAt.Add(3*time.Hour), got.Trigger.NextTickAt)
		assert.Equal(t, core.StatusCompleted, got.LastRun.Status.Type)
	})
}

// B4.
func TestAWebhookIsKeptRawAndHandedToItsTool(t *testing.T) {
	body := []byte("\x00raw \xff not JSON\n")
	got := make(chan shell.Call, 1)
	e := running(t, shell.Options{
		Store: inBolt(t),
		Tools: map[string]shell.Tool{"hook": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			got <- c
			return nil, nil
		})},
		Webhooks: map[string]shell.WebhookRoute{"deploy": {Tool: "hook", ToolInput: []byte(`{"a":1}`), Namespace: "ns", Tenant: "t"}},
	})
	id, err := e.Webhooks().Receive(bg(), "deploy", map[string]string{"content-type": "text/plain"}, body)
	require.NoError(t, err)
	c := <-got
	assert.Equal(t, id, c.ActionID)
	assert.Equal(t, body, c.Payload)
	assert.JSONEq(t, `{"content-type":"text/plain"}`, string(c.Header))
	assert.JSONEq(t, `{"a":1}`, string(c.Input))
	a, err := e.Actions().Wait(bg(), id)
	require.NoError(t, err)
	assert.Equal(t, core.TriggerWebhook, a.Trigger.Type)
	assert.Equal(t, body, a.Trigger.RawPayload)
	_, err = e.Webhooks().Receive(bg(), "unknown", nil, nil)
	require.ErrorIs(t, err, shell.ErrNotFound)
	require.NoError(t, e.Store().View(bg(), func(tx store.ReadTx) error {
		left, err := tx.Webhooks(10)
		assert.Empty(t, left)
		return err
	}))
}

func TestWithAStrictTickAWebhookWaitsRawForTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(c), StrictTick: true, Webhooks: map[string]shell.WebhookRoute{"r": {Tool: "count"}}})
		synctest.Wait()
		id, err := e.Webhooks().Receive(bg(), "r", nil, []byte("x"))
		require.NoError(t, err)
		elapse(59 * time.Second)
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			raw, err := tx.Webhooks(10)
			require.Len(t, raw, 1)
			assert.Equal(t, id, raw[0].ID)
			return err
		}))
		assert.Zero(t, c.n.Load())
		elapse(time.Second)
		assert.EqualValues(t, 1, c.n.Load())
	})
}

func TestSubscribersHearWhatIsDurable(t *testing.T) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
	s := e.Subscribe(func(ev effects.Event) bool { return ev.Kind.Category == "action" }, 1)
	defer s.Close()
	a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	ev := <-s.C
	assert.Equal(t, "action:completed", ev.Kind.String())
	assert.Equal(t, a.ID, ev.Source.ID)
	assert.NotEqual(t, uuid.Nil, ev.ID)
	_, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	_, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	assert.EqualValues(t, 1, s.Dropped(), "a full buffer drops and counts")
}

func TestActionsAreListedNewestFirstWithFiltersAndPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		for i := range 10 {
			spec := core.ActionSpec{ToolName: "count", Label: string(rune('a' + i)), Namespace: "ns", Tenant: []string{"x", "y"}[i%2], Labels: map[string]string{"third": []string{"yes", "no", "no"}[i%3]}}
			if i >= 8 {
				spec.Trigger = at(time.Hour)
			}
			_, err := e.Actions().Create(bg(), spec)
			require.NoError(t, err)
			elapse(time.Millisecond)
		}
		labels := func(f shell.ActionFilter, limit int) string {
			var pages []string
			token := ""
			for {
				list, next, err := e.Actions().List(bg(), f, shell.Page{Token: token, Limit: limit})
				require.NoError(t, err)
				page := ""
				for _, a := range list {
					page += a.Label
				}
				pages = append(pages, page)
				if next == "" {
					return strings.Join(pages, "|")
				}
				token = next
			}
		}
		assert.Equal(t, "jihgfedcba", labels(shell.ActionFilter{}, 100))
		assert.Equal(t, "jihg|fedc|ba", labels(shell.ActionFilter{}, 4))
		assert.Equal(t, "ji", labels(shell.ActionFilter{Status: core.StatusPending}, 100))
		assert.Equal(t, "igeca", labels(shell.ActionFilter{Scope: &shell.Scope{Namespace: "ns", Tenant: "x"}}, 100))
		assert.Equal(t, "gda", labels(shell.ActionFilter{Status: core.StatusCompleted, Labels: map[string]string{"third": "yes"}}, 100))
		_, _, err := e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{Token: "forged"})
		require.ErrorIs(t, err, shell.ErrPageToken)
		_, next, err := e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{Limit: 1})
		require.NoError(t, err)
		_, _, err = e.Actions().List(bg(), shell.ActionFilter{Status: core.StatusPending}, shell.Page{Token: next})
		require.ErrorIs(t, err, shell.ErrPageToken, "a token belongs to its list")
	})
}

func TestWhatAToolGivesBesideItsErrorIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		output := json.RawMessage(`{"exit_code":1}`)
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			if c.Label == "huge" {
				return json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`), errBoom
			}
			return output, errBoom
		}))})
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: errBoom.Error(), Result: output}, a.Status)
		a, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Label: "huge"})
		require.NoError(t, err)
		assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: errBoom.Error()}, a.Status)
	})
}
