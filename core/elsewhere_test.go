package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestWhatIsMadeForATenantOfAnotherPartitionIsRefused(t *testing.T) {
	const partitions = 8
	home := core.Partition(core.Scope{Namespace: "n", Tenant: "a"}, partitions)
	other := (home + 1) % partitions
	action := core.ActionSpec{ID: id(1), Namespace: "n", Tenant: "a", ToolName: "command", Trigger: core.Scheduled(start), DedupKey: "k"}
	notify := core.QueueCreate{Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant, Name: "ops"}
	for name, row := range map[string]struct {
		in      core.Input
		refused bool
	}{
		"an action":                  {core.Input{To: effects.Ref{Kind: core.KindAction, ID: id(1)}, Event: core.ActionCreate{Spec: action}}, true},
		"an action by its key":       {core.Input{To: core.DedupRef("n", "a", "k"), Event: core.DedupClaim{Create: action}}, true},
		"a lock":                     {core.Input{To: core.LockRef("n", "a", "l"), Event: core.LockAcquire{Namespace: "n", Tenant: "a", Name: "l", Holder: "me"}}, true},
		"a queue":                    {core.Input{To: core.QueueRef("n", "a", "q"), Event: core.QueueCreate{Namespace: "n", Tenant: "a", Name: "q"}}, true},
		"what channels are to tell":  {core.Input{To: core.QueueRef(notify.Namespace, notify.Tenant, notify.Name), Event: notify}, false},
		"an event of the common bus": {core.Input{To: core.BusRef(), Event: core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: id(9)}}}, false},
	} {
		for _, at := range []struct{ partition, of int }{{home, partitions}, {other, partitions}, {other, 0}} {
			b := core.NewBatch(world{}, core.Clock{Now: start}, 1)
			b.Partition(uint16(at.partition))
			b.Divided(at.of)
			b.Reset(world{}, core.Clock{Now: start}, 2) // both hold
			res, err := b.Apply(row.in)
			require.NoError(t, err, name)
			if !row.refused || at.of == 0 || at.partition == home {
				assert.Nil(t, res.Refused, "%s in partition %d of %d", name, at.partition, at.of)
				assert.True(t, res.Changed, name)
				continue
			}
			require.NotNil(t, res.Refused, name)
			assert.Equal(t, effects.CodeElsewhere, res.Refused.Code, name)
			assert.Equal(t, `the tenant "a" of namespace "n" lives in partition 0 of 8, not in 1: nothing was done`, res.Refused.Reason, name)
			assert.False(t, res.Changed, name)
			assert.Empty(t, b.Changes(), name)
		}
	}
}

// Whatever comes, a divided batch makes what one that knows nothing of that makes, but for what comes from outside and has its home elsewhere.
func TestWhateverComesFromOutsideMakesNothingForATenantOfAnotherPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock, w := core.Clock{Now: start}, world{}
		partitions := rapid.IntRange(1, 5).Draw(t, "partitions")
		partition := uint16(rapid.IntRange(0, partitions-1).Draw(t, "partition"))
		for seq := uint64(1); seq <= uint64(rapid.IntRange(1, 8).Draw(t, "turns")); seq++ {
			clock = drawClock(t, clock)
			for _, in := range drawInputs(t, w, clock) {
				plain, divided := core.NewBatch(w, clock, seq), core.NewBatch(w, clock, seq)
				plain.Partition(partition)
				divided.Partition(partition)
				divided.Divided(partitions)
				want, wantErr := plain.Apply(in)
				got, err := divided.Apply(in)
				if got.Refused != nil && got.Refused.Code == effects.CodeElsewhere {
					require.False(t, got.Changed)
					require.Empty(t, divided.Changes())
					require.NotZero(t, strangers(plain, partitions, partition), "nothing of another partition would have been made")
					require.True(t, in.To.Kind == core.KindDedup || w[in.To] == "", "it was there before")
					continue
				}
				require.Equal(t, wantErr == nil, err == nil)
				require.Equal(t, want, got)
				require.Equal(t, observe(plain), observe(divided))
				if _, there := w[in.To]; !there && in.To.Kind != core.KindDedup {
					require.Zero(t, strangers(divided, partitions, partition))
				}
				w.store(divided)
			}
		}
	})
}

// strangers counts what a batch has made for tenants of other partitions.
func strangers(b *core.Batch, partitions int, partition uint16) (n int) {
	for _, c := range b.Changes() {
		if of := core.ScopeOf(c.After); c.Before == nil && of != (core.Scope{}) && core.Partition(of, partitions) != int(partition) {
			n++
		}
	}
	return n
}

// It came there by an engine that did not know how many partitions there are.
func TestAMachineThatIsInAnotherPartitionThanItsTenantGoesOn(t *testing.T) {
	w, seq := world{}, new(uint64)
	recurring := w.made(t, seq, effects.Ref{Kind: core.KindRecurring, ID: id(1)}, core.RecurringCreate{Spec: everyMinute("")})
	at := load[core.RecurringAction](w, core.KindRecurring)[recurring].Deadline()
	b := core.NewBatch(w, core.Clock{Now: at}, *seq+1)
	of := core.ScopeOf(load[core.RecurringAction](w, core.KindRecurring)[recurring])
	b.Partition(uint16((core.Partition(of, 8) + 1) % 8))
	b.Divided(8)
	for _, e := range []core.Event{core.RecurringDue{}, core.RecurringPause{By: "me"}} { // the first one makes an action
		res, err := b.Apply(core.Input{To: recurring, Event: e})
		require.NoError(t, err)
		assert.Nil(t, res.Refused, e.EventType())
		assert.True(t, res.Changed)
	}
	w.store(b)
	assert.Len(t, load[core.Action](w, core.KindAction), 1)
}
