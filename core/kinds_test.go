package core_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// What the engine reads of each kind: a row of the table of kinds that says something
// else is felt only where a machine is woken, forgotten or recovered.
var wantKinds = []struct {
	kind                     effects.Kind
	due, expire              core.Event
	outer                    string // "run": asks for runs; "effect": for other outer effects
	history                  bool   // is forgotten with the history
	paced, scanned, keepLogs bool
}{
	{kind: core.KindAction, due: core.ActionDue{}, expire: core.ActionExpire{}, outer: "run", keepLogs: true},
	{kind: core.KindOccurrence, expire: core.OccurrenceExpire{}, history: true},
	{kind: core.KindPipeline, due: core.PipelineDue{}, expire: core.PipelineExpire{}, outer: "effect"},
	{kind: core.KindTask, due: core.TaskDue{}, expire: core.TaskExpire{}, outer: "effect"},
	{kind: core.KindStrategy, due: core.StrategyDue{}, expire: core.StrategyExpire{}, outer: "effect"},
	{kind: core.KindOrchestrator, due: core.OrchestratorDue{}, expire: core.OrchestratorExpire{}, outer: "effect", keepLogs: true},
	{kind: core.KindRecurring, due: core.RecurringDue{}, paced: true},
	{kind: core.KindDedup},
	{kind: core.KindJob, due: core.JobDue{}},
	{kind: core.KindScheduler, due: core.SchedulerDue{}},
	{kind: core.KindWorker, due: core.WorkerDue{}},
	{kind: core.KindLock, due: core.LockDue{}},
	{kind: core.KindSemaphore, due: core.SemaphoreDue{}},
	{kind: core.KindCalendar},
	{kind: core.KindBackfill, due: core.BackfillDue{}, expire: core.BackfillExpire{}},
	{kind: core.KindAlert, due: core.AlertDue{}},
	{kind: core.KindDigest, due: core.DigestDue{}, outer: "effect"},
	{kind: core.KindBus, scanned: true},
	{kind: core.KindQueue, due: core.QueueDue{}},
	{kind: core.KindQueueItem, scanned: true},
	{kind: core.KindQueueKey, scanned: true},
	{kind: core.KindQueueDedup, scanned: true},
	{kind: core.KindName},
	{kind: core.KindDeclared},
	{kind: core.KindPipelineDefinition},
	{kind: core.KindPipelineRuns},
	{kind: core.KindPipelineHistory},
	{kind: core.KindPipelineContext},
	{kind: "planet"},
}

func TestEachKindIsWokenForgottenAndStoredAsTheTableSays(t *testing.T) {
	var retentions []core.Retention
	var outer []effects.Kind // the first one last
	for _, want := range wantKinds {
		assert.Equal(t, want.due, core.DueEvent(want.kind), "due event of %s", want.kind)
		assert.Equal(t, want.expire, core.ExpireEvent(want.kind), "expire event of %s", want.kind)
		assert.Equal(t, want.paced, core.Paced(want.kind), "%s is paced", want.kind)
		assert.Equal(t, want.scanned, core.Scanned(want.kind), "%s is scanned", want.kind)
		assert.Equal(t, want.keepLogs, core.KeepsLogs(want.kind), "%s keeps logs", want.kind)
		if want.outer != "" {
			outer = append([]effects.Kind{want.kind}, outer...)
		}
		if want.expire != nil {
			class, tenants := core.RetainMachines, ""
			if want.history {
				class, tenants = core.RetainHistory, core.TermOfAnyTenant
			}
			retentions = append(retentions, core.Retention{Kind: want.kind, Class: class, Tenants: tenants})
		}
	}
	assert.Equal(t, retentions, core.Retentions())
	assert.Equal(t, outer, core.OuterEffectKinds(), "actions, which are the most, stand last")
}

func TestEachKindIsToldWhatBecameOfItsOuterEffectsInItsOwnWords(t *testing.T) {
	result := json.RawMessage(`{"n":1}`)
	answers := map[string][5]core.Event{
		"": {},
		"run": {
			core.ActionComplete{Run: 7, Result: result}, core.ActionFail{Run: 7, Reason: "exit", Result: result},
			core.ActionFail{Run: 7, Reason: "exit", Permanent: true}, core.ActionInterrupt{Run: 7, Reason: "gone"}, core.ActionHandBack{Run: 7},
		},
		"effect": {
			core.EffectDone{N: 7, Result: result}, core.EffectFailed{N: 7, Reason: "exit", Result: result},
			core.EffectFailed{N: 7, Reason: "exit", Permanent: true}, core.EffectInterrupted{N: 7, Reason: "gone"}, core.EffectHandedBack{N: 7},
		},
	}
	for _, want := range wantKinds {
		given := [5]core.Event{
			core.AnswerEvent(want.kind, 7, result, core.Failure{}), core.AnswerEvent(want.kind, 7, result, core.Failure{Reason: "exit"}),
			core.AnswerEvent(want.kind, 7, nil, core.Failure{Reason: "exit", Permanent: true}), core.InterruptEvent(want.kind, 7, "gone"), core.HandBackEvent(want.kind, 7),
		}
		assert.Equal(t, answers[want.outer], given, want.kind)
	}
}

// What is kept in memory that nobody reads again costs room; what is not kept that is
// read again costs a read and a decoding.
func TestWhatIsReadAtMostOnceMoreIsNotKeptInMemory(t *testing.T) {
	item := func(state core.ItemStateType) core.State {
		return core.QueueItem{ID: id(1), State: core.ItemState{Type: state}}
	}
	passing := []core.State{
		core.Occurrence{ID: id(1), Verdict: core.VerdictDispatched}, core.QueueDedup{ID: id(1)},
		item(core.ItemCompleted), item(core.ItemDead), core.Action{ActionSpec: core.ActionSpec{ID: id(1)}, Status: core.Status{Type: core.StatusFailed}},
	}
	lasting := []core.State{
		core.Action{ActionSpec: core.ActionSpec{ID: id(1)}, Status: core.Status{Type: core.StatusRunning}}, core.Dedup{ID: id(1)}, core.Queue{ID: id(1)}, core.QueueKey{ID: id(1)},
		core.Lock{ID: id(1)}, item(core.ItemPending),
	}
	for _, s := range passing {
		assert.False(t, core.Cacheable(s), "%T %s", s, encoded(s))
	}
	for _, s := range lasting {
		assert.True(t, core.Cacheable(s), "%T %s", s, encoded(s))
	}
}

func TestEachStateThatNamesATenantBelongsToIt(t *testing.T) {
	owned := 0
	for _, s := range goldenStates() {
		var named struct{ Namespace, Tenant string }
		require.NoError(t, json.Unmarshal(s.AppendJSON(nil), &named))
		assert.Equal(t, core.Scope(named), core.ScopeOf(s), "%s", encoded(s))
		stored, err := core.StoredScope(s.Ref().Kind, s.AppendJSON(nil))
		require.NoError(t, err)
		assert.Equal(t, core.Scope(named), stored, "%s", encoded(s))
		if named.Tenant != "" {
			owned++
		}
	}
	assert.Greater(t, owned, 10)
	assert.Zero(t, core.ScopeOf(nil))
}
