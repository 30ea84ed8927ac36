package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// remembering is a tool that fails its first run, and keeps what it was called with.
func remembering(calls *[]shell.Call) shell.Tool {
	return shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		*calls = append(*calls, c) // one at a time
		if len(*calls) == 1 {
			return nil, errors.New("no luck")
		}
		return json.RawMessage(`1`), nil
	})
}

func codeOf(t *testing.T, err error) effects.Code {
	t.Helper()
	var refusal *shell.Refusal
	require.ErrorAs(t, err, &refusal)
	return refusal.Code
}

func TestARetriedActionRunsWithWhatTheFailedOneHadAndClaimsItsDedupKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []shell.Call
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(remembering(&calls))})
		spec := core.ActionSpec{
			ToolName: "count", ToolInput: json.RawMessage(`{"n":1}`), Label: "l", DedupKey: "k",
			Metadata: map[string]string{"m": "1"}, Labels: map[string]string{"x": "y"}, Namespace: "ns", Tenant: "t",
		}
		old, err := e.Actions().Execute(bg(), spec)
		require.NoError(t, err)
		require.Equal(t, core.StatusFailed, old.Status.Type)

		spec.Trigger = at(1e15)
		other, err := e.Actions().Create(bg(), spec)
		require.NoError(t, err)
		_, err = e.Actions().Retry(bg(), old.ID, uuid.Nil)
		require.ErrorContains(t, err, other.ID.String(), "another action holds the key")
		_, err = e.Actions().Cancel(bg(), other.ID, "")
		require.NoError(t, err)

		id := uuid.New()
		made, err := e.Actions().Retry(bg(), old.ID, id)
		require.NoError(t, err)
		assert.Equal(t, id, made.ID)
		made, err = e.Actions().Wait(bg(), id)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, made.Status.Type)
		assert.Equal(t, map[string]string{"m": "1", core.MetaRetryOf: old.ID.String()}, made.Metadata)
		require.Len(t, calls, 2)
		assert.JSONEq(t, `{"n":1}`, string(calls[1].Input))
		assert.Equal(t, "t", calls[1].Tenant)
		assert.NotEqual(t, calls[0].IdempotencyKey, calls[1].IdempotencyKey, "it is another action")
		assert.Equal(t, old, actionOf(t, e, old.ID), "the old one stays as it was")

		_, err = e.Actions().Retry(bg(), old.ID, id)
		assert.Equal(t, effects.CodeExists, codeOf(t, err), "the same id makes no second one")
		_, err = e.Actions().Retry(bg(), id, uuid.Nil)
		assert.Equal(t, effects.CodeConflict, codeOf(t, err), "it has completed")
		_, err = e.Actions().Retry(bg(), uuid.New(), uuid.Nil)
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

func TestAWebhookIsDeliveredAgainToItsToolWithItsBodyAndHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []shell.Call
		e := running(t, shell.Options{
			Store: inMemory(t), Tools: tools(remembering(&calls)),
			Webhooks: map[string]shell.WebhookRoute{"git": {Tool: "count", Namespace: "ns", Tenant: "t"}},
		})
		id, err := e.Webhooks().Receive(bg(), "git", map[string]string{"x-github-event": "push"}, []byte("\x00\xffbody"))
		require.NoError(t, err)
		synctest.Wait()
		for _, want := range []core.StatusType{core.StatusFailed, core.StatusCompleted} {
			old := actionOf(t, e, id)
			require.Equal(t, want, old.Status.Type)
			made, err := e.Webhooks().Redeliver(bg(), id, uuid.Nil)
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, id.String(), made.Metadata[core.MetaRetryOf])
			id = made.ID
		}
		require.Len(t, calls, 3)
		for _, c := range calls {
			assert.Equal(t, []byte("\x00\xffbody"), c.Payload)
			assert.JSONEq(t, `{"x-github-event":"push"}`, string(c.Header))
		}
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		_, err = e.Webhooks().Redeliver(bg(), a.ID, uuid.Nil)
		assert.Equal(t, effects.CodeConflict, codeOf(t, err))
	})
}
