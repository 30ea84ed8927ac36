package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// A kind that is new has to say here with whom its records go if tenants are divided otherwise.
func TestEachKindOfRecordBelongsToATenantOrWithAMachineOrToEachPartition(t *testing.T) {
	with := map[effects.Kind]effects.Kind{
		core.KindDedup: core.KindAction, core.KindName: core.KindRecurring,
		core.KindQueueItem: core.KindQueue, core.KindQueueKey: core.KindQueue, core.KindQueueDedup: core.KindQueue,
	}
	each := map[effects.Kind]bool{core.KindScheduler: true, core.KindDigest: true}
	seen := map[effects.Kind]bool{}
	states := append(goldenStates(), // and parts of which there is none
		core.QueueItem{ID: id(1), Queue: id(2)}, core.QueueKey{ID: id(1), Queue: id(2)}, core.QueueDedup{ID: id(1), Queue: id(2)},
		core.PipelineDefinition{ID: id(1), Namespace: "n", Tenant: "t"}, core.PipelineRuns{ID: id(1), Namespace: "n", Tenant: "t"},
		core.HistoryPage{ID: id(1), Namespace: "n", Tenant: "t"}, core.ContextPage{ID: id(1), Namespace: "n", Tenant: "t"},
	)
	for _, s := range states {
		kind := s.Ref().Kind
		got, err := core.StoredBelonging(kind, s.AppendJSON(nil))
		require.NoError(t, err, "%s", s.Ref())
		seen[kind] = true
		early := false
		if o, ok := s.(core.Occurrence); ok {
			early = o.Schedule == ""
		}
		switch {
		case early:
			assert.Equal(t, core.KindRecurring, got.With.Kind, "%s", s.Ref())
		case with[kind] != "":
			assert.Equal(t, with[kind], got.With.Kind, "%s", s.Ref())
			assert.False(t, got.Each)
		case each[kind]:
			assert.Equal(t, core.Belonging{Each: true}, got, "%s", s.Ref())
		default:
			assert.Equal(t, core.Belonging{Of: core.ScopeOf(s)}, got, "%s", s.Ref())
		}
	}
	for _, want := range wantKinds {
		if want.kind == "planet" { // of a test
			continue
		}
		assert.True(t, seen[want.kind], "no golden state is of the kind %s", want.kind)
	}
}

func TestWhatChannelsAreToTellBelongsToEachPartition(t *testing.T) {
	q := core.Queue{ID: core.QueueRef(core.NotifyNamespace, core.NotifyTenant, "ops").ID, Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant, Name: "ops"}
	got, err := core.StoredBelonging(core.KindQueue, q.AppendJSON(nil))
	require.NoError(t, err)
	assert.True(t, got.Each)
}

func TestWhatCannotBeDecodedBelongsToNobody(t *testing.T) {
	for _, kind := range []effects.Kind{core.KindScheduler, core.KindDedup, core.KindAction} {
		_, err := core.StoredBelonging(kind, []byte("no state"))
		require.Error(t, err, "%s", kind)
	}
}

func TestSchedulersOfSeveralPartitionsAreMergedByTheirRuns(t *testing.T) {
	a := core.Scheduler{ID: id(1), IntervalMS: 5000, MaxMissed: 3, CreatedAt: start.Add(2), ReportedAt: start.Add(9), Runs: []core.TrackedRun{{Run: id(4), Sent: 4}, {Run: id(6), Sent: 6, Missed: 1}}}
	b := core.Scheduler{ID: id(1), IntervalMS: 7000, MaxMissed: 2, CreatedAt: start.Add(1), ReportedAt: start.Add(8), Runs: []core.TrackedRun{{Run: id(3), Sent: 3}, {Run: id(5), Sent: 5}}}
	want := core.Scheduler{
		ID: id(1), IntervalMS: 7000, MaxMissed: 3, CreatedAt: start.Add(1), ReportedAt: start.Add(9),
		Runs: []core.TrackedRun{{Run: id(3), Sent: 3}, {Run: id(4), Sent: 4}, {Run: id(5), Sent: 5}, {Run: id(6), Sent: 6, Missed: 1}},
	}
	assert.Equal(t, want, core.MergeSchedulers(a, b))
	assert.Equal(t, a, core.MergeSchedulers(a))
	assert.Nil(t, core.MergeSchedulers())
	a.ReportedAt = 0
	assert.Zero(t, core.MergeSchedulers(a, b).(core.Scheduler).ReportedAt, "nobody is silent for too long by a count that was not made")
}
