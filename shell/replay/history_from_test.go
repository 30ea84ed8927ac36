package replay_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
)

// machinesOf lists all machines of a store.
func machinesOf(t *testing.T, st store.Store) (refs []effects.Ref) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Records(func(r store.Record) error {
			refs = append(refs, effects.Ref{Kind: r.Kind, ID: r.ID})
			return nil
		})
	}))
	return refs
}

func TestAHistoryGoesOnWhereOneEndedAndIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 0)
		paged := 0
		for _, ref := range machinesOf(t, st) {
			whole, err := replay.History(t.Context(), st, ref, replay.HistoryOptions{Limit: 10_000})
			require.NoError(t, err)
			var steps []replay.Step
			for from, last := uint64(0), false; !last; paged++ {
				part, err := replay.History(t.Context(), st, ref, replay.HistoryOptions{Limit: 2, From: from})
				require.NoError(t, err)
				steps = append(steps, part.Steps...)
				from, last = part.Before, part.Before == 0
			}
			require.Equal(t, whole.Steps, steps, "%s", ref)

			_, err = replay.History(t.Context(), st, ref, replay.HistoryOptions{From: steps[0].Seq + 1})
			require.ErrorIs(t, err, replay.ErrFrom, "a batch behind its last")
		}
		assert.Greater(t, paged, 300)
	})
}

func TestAHistoryKeepsTheStepsThatAreAskedForAndGoesOnBehindThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 0)
		isCreate := func(inputs []core.Input) bool {
			for _, in := range inputs {
				if in.Event.EventType() == "create" {
					return true
				}
			}
			return false
		}
		kept := 0
		for _, ref := range machinesOf(t, st) {
			whole, err := replay.History(t.Context(), st, ref, replay.HistoryOptions{Limit: 10_000})
			require.NoError(t, err)
			var want []replay.Step
			for _, s := range whole.Steps {
				if isCreate(s.Inputs) {
					want = append(want, s)
				}
			}
			got, err := replay.History(t.Context(), st, ref, replay.HistoryOptions{Keep: isCreate})
			require.NoError(t, err)
			require.Zero(t, got.Before)
			require.Equal(t, want, got.Steps)
			kept += len(want)
		}
		assert.Greater(t, kept, 5)
	})
}

func TestAHistoryTellsWhichEffectsAMachineBeganAndCeasedToWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 0)
		told := map[string]int{}
		for _, ref := range machinesOf(t, st) {
			trail, err := replay.History(t.Context(), st, ref, replay.HistoryOptions{Limit: 10_000})
			require.NoError(t, err)
			pending := map[uint32]bool{}
			for _, s := range slices.Backward(trail.Steps) {
				for _, e := range s.Effects {
					told[e.What+" "+e.Type()]++
					require.Equal(t, e.What != replay.EffectRequested, pending[e.Effect.Number()], "%s: batch %d: %s %d", ref, s.Seq, e.What, e.Effect.Number())
					pending[e.Effect.Number()] = e.What == replay.EffectRequested
				}
				after, err := core.DecodeState(ref.Kind, s.After)
				require.NoError(t, err)
				for _, e := range core.Outstanding(after) {
					require.True(t, pending[e.Number()])
				}
			}
		}
		assert.Greater(t, told["requested run_tool"], 10)
		assert.Greater(t, told["answered run_tool"], 10)
		t.Log(told)
	})
}
