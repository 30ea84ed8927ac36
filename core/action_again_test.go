package core_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestAnActionIsMadeAgainWithAllThatItWasMadeOfAndNamesTheOneBefore(t *testing.T) {
	old := core.Action{ActionSpec: goldenActionSpec(), Status: core.Status{Type: core.StatusFailed, Reason: "r"}}
	old.Policy.OnFailure, old.Trigger = core.FailureRetry, core.Scheduled(start)
	now := core.Clock{Now: start.Add(1e9)}
	spec, err := old.Again(id(7), false, now)
	require.NoError(t, err)
	want := goldenActionSpec()
	want.ID, want.Occurrence, want.Recurrence = id(7), uuid.Nil, core.Recurrence{}
	want.Policy.OnFailure, want.Trigger = core.FailureRetry, core.Scheduled(now.Now)
	want.Metadata = map[string]string{"a": "1", "b": "2", core.MetaRetryOf: old.ID.String()}
	assert.Equal(t, want, spec)
	assert.NotContains(t, old.Metadata, core.MetaRetryOf, "the old one stays as it was")
}

func TestAWebhookIsDeliveredAgainWithItsBodyHeadersAndRoute(t *testing.T) {
	old := core.Action{ActionSpec: goldenActionSpec(), Status: core.Status{Type: core.StatusCompleted}}
	old.Metadata = nil
	old.Trigger = core.Trigger{Type: core.TriggerWebhook, ReceivedAt: start, Route: "git", RawPayload: []byte{0, 0xff}, Header: json.RawMessage(`{"x-event":"push"}`)}
	now := core.Clock{Now: start.Add(1e9)}
	spec, err := old.Again(id(7), true, now)
	require.NoError(t, err)
	want := old.Trigger
	want.ReceivedAt = now.Now
	assert.Equal(t, want, spec.Trigger)
	assert.Equal(t, map[string]string{core.MetaRetryOf: old.ID.String()}, spec.Metadata)
}

func TestTheIDOfWhatIsMadeAgainOnceFollowsFromTheActionAlone(t *testing.T) {
	a, b := core.Action{ActionSpec: goldenActionSpec()}, core.Action{ActionSpec: goldenActionSpec()}
	b.ID = id(8)
	assert.Equal(t, a.OnceID(false), a.OnceID(false))
	assert.NotEqual(t, a.OnceID(false), a.OnceID(true), "a retry is no redelivery")
	assert.NotEqual(t, a.OnceID(false), b.OnceID(false))
	assert.EqualValues(t, 5, a.OnceID(false).Version(), "which nobody can give from outside")
}

func TestWhatCannotBeMadeAgainSaysWhy(t *testing.T) {
	hook := core.Trigger{Type: core.TriggerWebhook, ReceivedAt: start}
	owned := func(kind effects.Kind) core.Owner { return core.Owner{Ref: effects.Ref{Kind: kind, ID: id(9)}, N: 1} }
	for _, tc := range []struct {
		status    core.StatusType
		trigger   core.Trigger
		owner     core.Owner
		redeliver bool
		code      effects.Code
		want      string
	}{
		{status: core.StatusPending, code: effects.CodeConflict, want: "is pending: only an action that has ended can be retried"},
		{status: core.StatusRunning, code: effects.CodeConflict, want: "is running: only an action that has ended can be retried"},
		{status: core.StatusRunning, trigger: hook, redeliver: true, code: effects.CodeConflict, want: "is running: only an action that has ended can be delivered again"},
		{status: core.StatusCompleted, code: effects.CodeConflict, want: "is completed: only one that failed or was cancelled can be retried"},
		{status: core.StatusCompleted, trigger: hook, code: effects.CodeConflict, want: "is completed: only one that failed or was cancelled can be retried; its webhook can be delivered again"},
		{status: core.StatusFailed, redeliver: true, code: effects.CodeConflict, want: "was made by no webhook: only what a webhook made can be delivered again"},
		{status: core.StatusFailed, owner: owned(core.KindPipeline), code: effects.CodeConflict, want: "is a part of pipeline/" + id(9).String() + ", which waits for its end: it cannot be retried by itself; start the pipeline again instead"},
		{status: core.StatusFailed, owner: owned(core.KindStrategy), code: effects.CodeConflict, want: "is a part of strategy/" + id(9).String() + ", which waits for its end: it cannot be retried by itself; start the strategy again instead"},
		{status: core.StatusFailed, owner: owned(core.KindOrchestrator), code: effects.CodeConflict, want: "is a part of " + effects.Ref{Kind: core.KindOrchestrator, ID: id(9)}.String() + ", which waits for its end: it cannot be retried by itself; trigger the job of that run instead"},
		{status: core.StatusCancelled, owner: owned(core.KindWorker), code: effects.CodeConflict, want: "is a part of worker/" + id(9).String() + ", which waits for its end: it cannot be retried by itself; redrive or push the item of the worker's queue instead"},
	} {
		a := core.Action{ActionSpec: core.ActionSpec{ID: id(1), Trigger: tc.trigger, Owner: tc.owner}, Status: core.Status{Type: tc.status}}
		if a.Trigger.Type == "" {
			a.Trigger = core.Scheduled(start)
		}
		_, err := a.Again(id(7), tc.redeliver, core.Clock{Now: start})
		var refused *effects.Refused
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, tc.code, refused.Code)
		assert.Equal(t, "action "+id(1).String()+" "+tc.want, refused.Reason)
	}
}

// What was made once can be made again: no machine refuses it.
func TestWhatIsMadeAgainIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		spec := drawActionSpec(t, clock)
		spec.Owner = core.Owner{}
		a, effs := core.Action{}.Apply(core.ActionCreate{Spec: spec}, clock)
		if refusal(effs) != nil {
			t.Skip()
		}
		a, _ = a.Apply(core.ActionCancel{}, clock)
		again, err := a.Again(id(7), a.Trigger.Type == core.TriggerWebhook, clock)
		if len(a.Metadata) == core.MaxMapEntries {
			require.ErrorContains(t, err, "has 64 entries of metadata: another one, _retry_of, would be more than 64")
			return
		}
		require.NoError(t, err)
		made, effs := core.Action{}.Apply(core.ActionCreate{Spec: again}, clock)
		require.Nil(t, refusal(effs))
		require.Equal(t, a.ToolInput, made.ToolInput)
		require.Equal(t, a.Policy, made.Policy)
		require.Equal(t, a.Trigger.RawPayload, made.Trigger.RawPayload)
	})
}
