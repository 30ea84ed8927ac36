package repartition_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/repartition"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// viewed is a partition of which a test changes what a transaction reads.
type viewed struct {
	*memory.Store
	tx func(store.ReadTx) store.ReadTx
}

func (v viewed) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return v.Store.View(ctx, func(tx store.ReadTx) error { return fn(v.tx(tx)) })
}

type epochsTx struct {
	store.ReadTx
	epochs []store.Epoch
}

func (tx epochsTx) Epochs() ([]store.Epoch, error) { return tx.epochs, nil }

type claimsTx struct {
	store.ReadTx
	claims []store.Claim
}

func (tx claimsTx) Claims(string) ([]store.Claim, error) { return tx.claims, nil }

// The batches before an epoch are given to locks as tokens, also if the store does not have them any more.
func TestTheFirstBatchOfACopyIsAboveThoseThatWereBeforeTheEpochsOfItsSources(t *testing.T) {
	w := newWorld(t, 2)
	for k := range 2 {
		w.tell(k, "ops")
	}
	from := w.sources()
	from[0] = viewed{w.parts[0], func(tx store.ReadTx) store.ReadTx {
		return epochsTx{tx, []store.Epoch{{Number: 1, First: 1, Started: start}, {Number: 2, First: 31, Started: start}}}
	}}
	stores, to := targets(3)
	report, err := repartition.Copy(t.Context(), from, to, options)
	require.NoError(t, err)
	assert.EqualValues(t, 30, report.Batch)
	for k, p := range stores {
		require.NoError(t, p.View(t.Context(), func(tx store.ReadTx) error {
			seq, err := tx.Seq()
			assert.EqualValues(t, 30, seq, "partition %d", k)
			return err
		}))
	}
}

func TestAClaimThatNobodyHoldsIsNoSignOfLife(t *testing.T) {
	w := newWorld(t, 1)
	held := start.Add(time.Minute)
	from := []repartition.Source{viewed{w.parts[0], func(tx store.ReadTx) store.ReadTx {
		return claimsTx{tx, []store.Claim{
			{Name: engine.ClaimPrefix + "0", Holder: "one", Token: 1, Renewed: held},
			{Name: engine.ClaimPrefix + "1", Token: 2, Renewed: held.Add(time.Hour)},
		}}
	}}}
	stores, to := targets(2)
	_, err := repartition.Copy(t.Context(), from, to, options)
	require.NoError(t, err)
	for k, p := range stores {
		assert.JSONEq(t, fmt.Sprintf(`{"stopped":%q}`, held), meta(t, p, "presence"), "partition %d", k)
	}
}

func TestTheBatchOfASchedulerIsTheGreatestWhicheverSourceHasIt(t *testing.T) {
	for ahead := range 2 {
		t.Run(fmt.Sprintf("partition %d is ahead", ahead), func(t *testing.T) {
			w := newWorld(t, 2)
			for range 50 {
				w.tell(ahead, "busy")
			}
			id := uuid.UUID{42}
			var batches [2]uint64
			for k := range w.parts {
				n := 0
				for w.in(tenant(n)) != k {
					n++
				}
				w.step(tenant(n), 5, uuid.UUID{byte(k)})
				var run uuid.UUID
				require.NoError(t, w.parts[k].View(t.Context(), func(tx store.ReadTx) error {
					return tx.Records(func(r store.Record) error {
						if r.Kind == core.KindOrchestrator {
							run = r.ID
						}
						return nil
					})
				}))
				w.put(k, core.Scheduler{ID: id, Runs: []core.TrackedRun{{Run: run, Last: start}}})
				batches[k] = w.seq(k, id)
			}
			require.Greater(t, batches[ahead], batches[1-ahead])
			stores, to := targets(1)
			_, err := repartition.Copy(t.Context(), w.sources(), to, options)
			require.NoError(t, err)
			assert.Equal(t, batches[ahead], (&world{t: t, parts: stores}).seq(0, id))
		})
	}
}

// seq gives the batch that has written a scheduler.
func (w *world) seq(partition int, id uuid.UUID) (seq uint64) {
	require.NoError(w.t, w.parts[partition].View(context.Background(), func(tx store.ReadTx) error {
		r, err := tx.Get(core.KindScheduler, id)
		seq = r.Seq
		return err
	}))
	return seq
}

func TestASourceThatBreaksOffFailsTheCopyAlthoughTheTargetsSayNothing(t *testing.T) {
	w := newWorld(t, 1)
	broken := errors.New("a page of the file cannot be read")
	from := []repartition.Source{exported{w.parts[0], func(context.Context, *memory.Store, store.Sink) error { return broken }}}
	quiet := func(ctx context.Context, from store.Exporter) error {
		_ = from.Export(ctx, &lines{})
		return nil
	}
	_, err := repartition.Copy(t.Context(), from, []repartition.Target{quiet, quiet}, options)
	require.ErrorIs(t, err, broken)
}

// givenUp is a partition after whose survey the copy is given up.
type givenUp struct {
	*memory.Store
	cancel func()
}

func (g givenUp) View(ctx context.Context, fn func(store.ReadTx) error) error {
	defer g.cancel()
	return g.Store.View(ctx, fn)
}

// The context has ended before the copy waits for its targets: whoever of the two is noticed first, the error is that of the context.
func TestTargetsThatEndBecauseTheCopyIsGivenUpHaveNotRefused(t *testing.T) {
	w := newWorld(t, 1)
	ended := func(ctx context.Context, _ store.Exporter) error {
		<-ctx.Done()
		return nil
	}
	to := make([]repartition.Target, 2000) // so many that the first ones end while the last ones begin
	for k := range to {
		to[k] = ended
	}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		from := []repartition.Source{givenUp{w.parts[0], cancel}}
		_, err := repartition.Copy(ctx, from, to, options)
		require.ErrorIs(t, err, context.Canceled)
	}
}
