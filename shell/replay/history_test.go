package replay_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// TestAHistoryHasEachBatchThatNamesTheMachine holds each machine's walk against a scan of the
// whole journal.
func TestAHistoryHasEachBatchThatNamesTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 0)
		named, stored := map[effects.Ref][]uint64{}, map[effects.Ref]string{}
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			err := tx.Records(func(r store.Record) error {
				stored[effects.Ref{Kind: r.Kind, ID: r.ID}] = string(r.State)
				return nil
			})
			require.NoError(t, err)
			return tx.Batches(0, func(b store.Batch) error {
				for _, c := range b.Changes {
					ref := effects.Ref{Kind: c.Kind, ID: c.ID}
					named[ref] = append(named[ref], b.Seq)
				}
				return nil
			})
		}))
		steps := 0
		for ref, state := range stored {
			trail, err := replay.History(t.Context(), st, ref, replay.HistoryOptions{Limit: 10_000})
			require.NoError(t, err)
			require.Zero(t, trail.Before)
			var seqs []uint64
			for _, s := range trail.Steps {
				seqs = append(seqs, s.Seq)
				require.Equal(t, state, string(s.After))
				state = string(s.Before)
				_, err := core.DecodeState(ref.Kind, s.After)
				require.NoError(t, err)
				require.NotEmpty(t, s.Fields)
			}
			require.Empty(t, state, "before the first one there was nothing")
			slices.Reverse(seqs)
			require.Equal(t, named[ref], seqs)
			steps += len(seqs)
		}
		assert.Greater(t, steps, 600)
	})
}

func TestAHistoryTellsWhoChangedWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 0)
		var cancelled core.Action
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			return tx.Records(func(r store.Record) error {
				if s, err := core.DecodeState(r.Kind, r.State); err == nil {
					if a, ok := s.(core.Action); ok && a.Status.Type == core.StatusCancelled {
						cancelled = a
					}
				}
				return nil
			})
		}))
		trail, err := replay.History(t.Context(), st, cancelled.Ref(), replay.HistoryOptions{})
		require.NoError(t, err)
		require.Len(t, trail.Steps, 2)
		cancel, create := trail.Steps[0], trail.Steps[1]
		require.Len(t, cancel.Inputs, 1)
		assert.IsType(t, core.ActionCancel{}, cancel.Inputs[0].Event)
		assert.NotEmpty(t, cancel.Inputs[0].Actor)
		var names []string
		for _, f := range cancel.Fields {
			names = append(names, f.Name)
			if f.Name == "status" {
				assert.Contains(t, string(f.Before), "pending")
				assert.Contains(t, string(f.After), "cancelled")
			}
		}
		assert.Contains(t, names, "status")
		assert.NotContains(t, names, "tool_name")
		assert.Nil(t, create.Before)
		assert.IsType(t, core.ActionCreate{}, create.Inputs[0].Event)

		one, err := replay.History(t.Context(), st, cancelled.Ref(), replay.HistoryOptions{MaxBytes: 1})
		require.NoError(t, err)
		assert.Len(t, one.Steps, 1)
		assert.Equal(t, create.Seq, one.Before)
		assert.False(t, one.Reached, "the journal has more")

		_, err = replay.History(t.Context(), st, effects.Ref{Kind: core.KindAction, ID: uuid.Max}, replay.HistoryOptions{})
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestAHistoryGoesAsFarAsTheJournalDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 7*time.Hour)
		first := uint64(0)
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			epochs, err := tx.Epochs()
			first = epochs[0].First
			return err
		}))
		require.Greater(t, first, uint64(1))
		cut := 0
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			return tx.Records(func(r store.Record) error {
				trail, err := replay.History(t.Context(), st, effects.Ref{Kind: r.Kind, ID: r.ID}, replay.HistoryOptions{Limit: 10_000})
				require.NoError(t, err)
				if trail.Reached {
					cut++
					require.Less(t, trail.Before, first)
				}
				for _, s := range trail.Steps {
					require.GreaterOrEqual(t, s.Seq, first)
				}
				return nil
			})
		}))
		assert.Greater(t, cut, 3)
	})
}

// A journal whose change leads nowhere is damage, and told as such.
func TestAChangeThatDoesNotFitItsStateIsDamage(t *testing.T) {
	st, err := bolt.Open(filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	ref := effects.Ref{Kind: core.KindAction, ID: uuid.UUID{1}}
	state := json.RawMessage(`{"a":1}`)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		require.NoError(t, tx.Put(1, []store.Write{{Kind: ref.Kind, ID: ref.ID, State: state}}))
		return tx.AppendJournal(1, 1, []byte("no entry"))
	}))
	_, err = replay.History(t.Context(), st, ref, replay.HistoryOptions{})
	require.ErrorContains(t, err, "batch 1")
}
