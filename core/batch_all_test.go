package core_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// machines are those of a world to which anybody may send events: all but what machines keep
// as records of their own.
func (w world) machines() world {
	out := world{}
	for ref, b := range w {
		if k := string(ref.Kind); !strings.HasPrefix(k, "queue_") && !strings.HasPrefix(k, "pipeline_") && ref.Kind != core.KindName && ref.Kind != core.KindDeclared {
			out[ref] = b
		}
	}
	return out
}

// drawTogether gives inputs that may be sent together: those of [drawInputs], and items for a
// queue, of which it takes some.
func drawTogether(t *rapid.T, w world, c core.Clock) []core.Input {
	inputs := drawInputs(t, w.machines(), c)
	q := core.QueueRef("n", "t", "mail")
	for range rapid.IntRange(0, 4).Draw(t, "pushes") {
		in := core.Input{To: q, Actor: "test"}
		if rapid.IntRange(0, 3).Draw(t, "take") == 0 {
			in.Event = core.QueueTake{Holder: "h", Max: uint32(rapid.IntRange(1, 3).Draw(t, "max"))}
		} else {
			in.Event = core.QueuePush{
				Namespace: "n", Tenant: "t", Name: "mail", Data: json.RawMessage(`1`),
				Key:      rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"),
				DedupKey: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "dedup"),
				DelayMS:  rapid.SampledFrom([]int64{0, 0, 50, -1}).Draw(t, "delay"),
			}
		}
		at := rapid.IntRange(0, len(inputs)).Draw(t, "at")
		inputs = append(inputs[:at:at], append([]core.Input{in}, inputs[at:]...)...)
	}
	return inputs
}

// One batch takes inputs together; a second one takes the same one by one, but only those of
// which the first one has taken all.
func TestInputsThatComeTogetherAreAllTakenAsOneByOneOrLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		w := world{}
		left := rapid.Int64Range(0, 3).Draw(t, "left")
		allowed := func(core.Scope, effects.Kind) core.Allowance {
			return core.Allowance{Left: left, Most: left, What: "machines"}
		}
		for seq := uint64(1); seq <= uint64(rapid.IntRange(1, 5).Draw(t, "batches")); seq++ {
			clock = drawClock(t, clock)
			together, single := core.NewBatch(w, clock, seq), core.NewBatch(w, clock, seq)
			together.Bound(allowed)
			single.Bound(allowed)
			for range rapid.IntRange(1, 3).Draw(t, "groups") {
				inputs := drawTogether(t, w, clock)
				before := observe(together)
				results, refused, err := together.ApplyAll(inputs, nil)
				if err != nil || refused >= 0 {
					require.Equal(t, before, observe(together), "what was refused left a trace")
					require.Equal(t, err == nil, len(results) == refused+1)
					continue
				}
				for i, in := range inputs {
					res, err := single.Apply(in)
					require.NoError(t, err)
					require.Equal(t, res, results[i])
					require.False(t, res.Stopped())
				}
			}
			for _, in := range drawInputs(t, w.machines(), clock) { // what follows finds nothing of what was refused
				a, errA := together.Apply(in)
				b, errB := single.Apply(in)
				require.Equal(t, errB == nil, errA == nil)
				require.Equal(t, b, a)
			}
			require.Equal(t, observe(single), observe(together))
			w.store(together)
		}
	})
}

func TestTheRefusedOfInputsThatComeTogetherIsNamedByItsIndex(t *testing.T) {
	create := func(n int) core.Input {
		spec := core.ActionSpec{ID: id(n), Namespace: "n", Tenant: "t", ToolName: "command", Trigger: core.Scheduled(start)}
		return core.Input{To: effects.Ref{Kind: core.KindAction, ID: id(n)}, Event: core.ActionCreate{Spec: spec}}
	}
	inputs := []core.Input{create(1), create(2), create(1), create(3)}
	for _, row := range []struct {
		name    string
		mayPass func(int, *effects.Refused) bool
		refused int
		changes int
	}{
		{"refused, with all", nil, 2, 0},
		{"refused although another one might pass", func(i int, _ *effects.Refused) bool { return i == 1 }, 2, 0},
		{"passed over", func(i int, r *effects.Refused) bool { return i == 2 && r.Code == effects.CodeExists }, -1, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			batch := core.NewBatch(world{}, core.Clock{Now: start}, 1)
			results, refused, err := batch.ApplyAll(inputs, row.mayPass)
			require.NoError(t, err)
			assert.Equal(t, row.refused, refused)
			assert.Len(t, batch.Changes(), row.changes)
			require.Greater(t, len(results), 2)
			assert.True(t, results[2].Stopped())
			assert.Equal(t, effects.CodeExists, results[2].Refused.Code)
		})
	}
}

func TestOfInputsThatComeTogetherOneThatCannotBeDecidedUndoesTheOthers(t *testing.T) {
	spec := core.ActionSpec{ID: id(1), Namespace: "n", Tenant: "t", ToolName: "command", Trigger: core.Scheduled(start)}
	first := core.Input{To: effects.Ref{Kind: core.KindAction, ID: id(1)}, Event: core.ActionCreate{Spec: spec}}
	hole := effects.Ref{Kind: core.KindAction, ID: id(2)}
	batch := core.NewBatch(broken{world{}, hole}, core.Clock{Now: start}, 1)
	results, refused, err := batch.ApplyAll([]core.Input{first, {To: hole, Event: core.ActionTrigger{}}}, nil)
	require.ErrorIs(t, err, errDisk)
	assert.Equal(t, 1, refused)
	assert.Len(t, results, 1)
	assert.Empty(t, batch.Changes())
	results, refused, err = batch.ApplyAll([]core.Input{first}, nil)
	require.NoError(t, err, "the batch goes on")
	assert.Equal(t, -1, refused)
	assert.Len(t, results, 1)
	assert.Len(t, batch.Changes(), 1)
}
