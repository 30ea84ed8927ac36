package shell_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// bitten changes the checksum of a stored record, so that what it says is not believed, and can
// still be read.
func bitten(t *testing.T, path string, ref effects.Ref) store.Store {
	t.Helper()
	return damaged(t, path, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("records/" + string(ref.Kind)))
		v := append([]byte(nil), b.Get(ref.ID[:])...)
		require.NotEmpty(t, v)
		v[2] ^= 1
		return b.Put(ref.ID[:], v)
	})
}

// Whatever record of a queue cannot be read: it is named, all other items are
// given out in their order and under their limits, another queue notices nothing,
// and the journal replays to what is stored.
func TestADamagedRecordOfAQueueStopsNeitherItsQueueNorAnother(t *testing.T) {
	for name, c := range map[string]struct {
		lost func(items []core.QueueItem) effects.Ref
		left []int // items that are given out, by their number
	}{
		"the first item of its key": {func(items []core.QueueItem) effects.Ref { return items[1].Ref() }, []int{2, 3, 4}},
		"an item behind it":         {func(items []core.QueueItem) effects.Ref { return items[2].Ref() }, []int{1, 3, 4}},
		"an item without a key":     {func(items []core.QueueItem) effects.Ref { return items[4].Ref() }, []int{1, 2, 3}},
		"an item in flight":         {func(items []core.QueueItem) effects.Ref { return items[0].Ref() }, []int{1, 2, 3, 4}},
		"a key":                     {func([]core.QueueItem) effects.Ref { return core.QueueKeyRef(work.ID, "k") }, []int{1, 2, 3, 4}},
		"the key of one in flight":  {func([]core.QueueItem) effects.Ref { return core.QueueKeyRef(work.ID, "flying") }, []int{1, 2, 3, 4}},
		"a dedup key":               {func([]core.QueueItem) effects.Ref { return core.QueueDedupRef(work.ID, "d") }, []int{1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "orrery.db")
			synctest.Test(t, func(t *testing.T) {
				st := openBolt(t, path)
				o := shell.Options{Store: st, TickRate: time.Minute}
				e, stop := start(t, o)
				_, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{KeyConcurrency: 1, VisibilityTimeoutMS: 3_600_000})
				require.NoError(t, err)
				items := []core.QueueItem{push(t, e, shell.PushOptions{Key: "flying", Priority: 9})}
				require.Len(t, take(t, e, shell.TakeOptions{}), 1)
				for range 2 {
					items = append(items, push(t, e, shell.PushOptions{Key: "k"}))
				}
				items = append(items, push(t, e, shell.PushOptions{Key: "flying"}), push(t, e, shell.PushOptions{DedupKey: "d"}))
				_, _, err = e.Queues().Push(bg(), "ns", "t", "other", shell.PushOptions{})
				require.NoError(t, err)
				require.NoError(t, stop())
				require.NoError(t, st.Close())
				lost := c.lost(items)
				o.Store = bitten(t, path, lost)
				e, stop = start(t, o)
				flight := core.QueueItem{ID: items[0].ID, Attempts: 1}
				if lost == items[0].Ref() { // nobody can say that it is done: its lease ends
					elapse(2 * time.Hour)
				} else {
					require.NoError(t, e.Queues().Complete(bg(), shell.Hold{Queue: work, Item: flight.ID, Holder: "w", Attempt: 1}, nil))
				}
				_, duplicate, err := e.Queues().Push(bg(), "ns", "t", "work", shell.PushOptions{DedupKey: "d", Delay: 1000 * time.Hour})
				require.NoError(t, err)
				assert.Equal(t, lost.Kind != core.KindQueueDedup && lost != items[4].Ref(), duplicate)
				var got []uuid.UUID
				for {
					taken, err := e.Queues().Take(bg(), work, shell.TakeOptions{Holder: "w", Max: 5})
					if len(taken) == 0 {
						require.NoError(t, err)
						break
					}
					seen := map[string]bool{}
					for _, i := range taken {
						assert.False(t, i.Key != "" && seen[i.Key], "two of key %q at once", i.Key)
						seen[i.Key] = true
						got = append(got, i.ID)
						require.NoError(t, e.Queues().Complete(bg(), shell.Hold{Queue: work, Item: i.ID, Holder: "w", Attempt: i.Attempts}, json.RawMessage("1")))
					}
				}
				var want []uuid.UUID
				for _, n := range c.left {
					want = append(want, items[n].ID)
				}
				assert.ElementsMatch(t, want, got)
				other, err := e.Queues().Take(bg(), core.QueueRef("ns", "t", "other"), shell.TakeOptions{Holder: "w"})
				require.NoError(t, err)
				assert.Len(t, other, 1)
				aside := setAside(t, o.Store)
				require.Len(t, aside, 1)
				assert.Equal(t, lost.String(), effects.Ref{Kind: aside[0].Kind, ID: aside[0].ID}.String())
				assert.Contains(t, aside[0].Reason, "checksum")
				q, err := e.Queues().Get(bg(), "ns", "t", "work")
				require.NoError(t, err)
				assert.Equal(t, [4]uint64{}, [4]uint64{q.Ready, q.Waiting, q.InFlight, q.KeyCount}, "ready, waiting, in flight, keys")
				require.NoError(t, stop())
				verify(t, o.Store)
			})
		})
	}
}

func setAside(t *testing.T, st store.Store) (aside []store.Quarantined) {
	t.Helper()
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) (err error) {
		aside, err = tx.Quarantine(99)
		return err
	}))
	return aside
}

// A queue whose own record is lost has lost its configuration, not its items: what
// makes it again finds them.
func TestAQueueWhoseHeaderIsDamagedKeepsItsItems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	synctest.Test(t, func(t *testing.T) {
		st := openBolt(t, path)
		o := shell.Options{Store: st, TickRate: time.Minute}
		e, stop := start(t, o)
		var want []uuid.UUID
		for range 40 {
			want = append(want, push(t, e, shell.PushOptions{Key: "k"}).ID)
		}
		delayed := push(t, e, shell.PushOptions{Delay: time.Hour})
		held := take(t, e, shell.TakeOptions{Visibility: time.Hour})
		require.Len(t, held, 1)
		require.NoError(t, stop())
		require.NoError(t, st.Close())
		o.Store = bitten(t, path, work)
		e, stop = start(t, o)
		_, err := e.Queues().Take(bg(), work, shell.TakeOptions{Holder: "w"})
		require.ErrorIs(t, err, shell.ErrNotFound, "nobody knows its configuration")
		q, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{})
		require.NoError(t, err)
		assert.Equal(t, [4]uint64{1, 38, 1, 1}, [4]uint64{q.Ready, q.Waiting, q.InFlight, q.Delayed}, "%+v", q)
		last := push(t, e, shell.PushOptions{Key: "k"})
		require.NoError(t, e.Queues().Complete(bg(), shell.Hold{Queue: work, Item: held[0].ID, Holder: "w", Attempt: 1}, nil))
		var got []uuid.UUID
		for range 40 {
			for _, i := range take(t, e, shell.TakeOptions{}) {
				got = append(got, i.ID)
				require.NoError(t, e.Queues().Complete(bg(), shell.Hold{Queue: work, Item: i.ID, Holder: "w", Attempt: i.Attempts}, nil))
			}
		}
		assert.Equal(t, append(want[1:], last.ID), got, "in their order")
		elapse(2 * time.Hour)
		again := take(t, e, shell.TakeOptions{Max: 5})
		require.Len(t, again, 1)
		assert.Equal(t, delayed.ID, again[0].ID)
		require.NoError(t, stop())
		verify(t, o.Store)
	})
}

// Who waits for a child, an item or a lock whose record is lost does not wait for
// ever.
func TestAPipelineThatWaitsForALostRecordFails(t *testing.T) {
	for name, c := range map[string]struct {
		phase core.PhaseDef
		lost  func(p core.Pipeline) effects.Ref
	}{
		"a task": {core.PhaseDef{Name: "one", Task: &core.AgentPrompt{Prompt: "x"}}, func(p core.Pipeline) effects.Ref { return p.Waiting.Children[0].Ref }},
		"a lock": {core.PhaseDef{Name: "one", Lock: &core.LockPhase{Name: "l"}}, func(core.Pipeline) effects.Ref { return core.LockRef("ns", "t", "l") }},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "orrery.db")
			synctest.Test(t, func(t *testing.T) {
				st := openBolt(t, path)
				hangs := carrying(func(ctx context.Context) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
				o := shell.Options{Store: st, TickRate: time.Minute, StopTimeout: time.Second, Interpreters: map[string]shell.Interpreter{effects.LaneSession: hangs}}
				e, stop := start(t, o)
				_, err := e.Locks().Send(bg(), flow, "l", core.LockAcquire{Name: "l", Namespace: "ns", Tenant: "t", Holder: "somebody", TTLMS: 3_600_000})
				require.NoError(t, err)
				p := begin(t, e, c.phase)
				synctest.Wait()
				p = state(t, e, p.ID)
				require.Equal(t, core.PhaseRunning, p.Phase.Type)
				require.NoError(t, stop())
				require.NoError(t, st.Close())
				o.Store = bitten(t, path, c.lost(p))
				e, stop = start(t, o)
				elapse(2 * time.Hour)
				got := state(t, e, p.ID)
				assert.Equal(t, core.PhaseFailure, got.Phase.Type)
				assert.Contains(t, got.Phase.Error, core.ReasonUnreadable)
				require.NoError(t, stop())
			})
		})
	}
}
