package rewind_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// kit is a store that a test writes as an engine would; batch n is decided at n seconds.
type kit struct {
	t    *testing.T
	st   rewind.Source
	seq  uint64
	live map[effects.Ref]core.State
	prev map[effects.Ref]store.Prev
}

func newKit(t *testing.T) *kit { return newKitOf(t, memory.New()) }

func newKitOf(t *testing.T, st rewind.Source) *kit {
	return &kit{t: t, st: st, live: map[effects.Ref]core.State{}, prev: map[effects.Ref]store.Prev{}}
}

func at(seq uint64) effects.Time { return effects.TimeOf(time.Unix(int64(seq), 0)) }

func (k *kit) Load(ref effects.Ref) (core.State, error) { return k.live[ref], nil }

func (k *kit) Scan(effects.Kind, string, core.Cursor, int) ([]core.Cursor, error) { return nil, nil }

func (k *kit) update(do func(tx store.Tx) error) {
	k.t.Helper()
	require.NoError(k.t, k.st.Update(k.t.Context(), do))
}

// batch commits one; what its machines ask for waits in the outbox.
func (k *kit) batch(inputs ...core.Input) {
	k.t.Helper()
	k.seq++
	b := core.NewBatch(k, core.Clock{Now: at(k.seq)}, k.seq)
	entry := core.NewEntry(k.seq, at(k.seq), "test")
	for _, in := range inputs {
		res, err := b.Apply(in)
		require.NoError(k.t, err)
		require.True(k.t, res.Changed, "%v", res.Refused)
		entry.Inputs = append(entry.Inputs, in)
	}
	k.update(func(tx store.Tx) error {
		var writes []store.Write
		for _, c := range b.Changes() {
			w := store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID, Prev: k.prev[c.Ref]}
			k.live[c.Ref], k.prev[c.Ref] = c.After, store.Prev{}
			if c.After != nil {
				w.State, w.Due, w.Terms = c.After.AppendJSON(nil), c.After.Deadline(), c.After.Terms()
				k.prev[c.Ref] = store.Prev{Version: w.Prev.Version + 1, Seq: k.seq, Due: w.Due, Terms: w.Terms}
			}
			writes = append(writes, w)
		}
		for _, in := range inputs {
			if in.Ack != 0 {
				require.NoError(k.t, tx.DeleteOutbox(store.EffectKey{ID: in.To.ID, N: in.Ack}))
			}
		}
		for _, o := range b.Outer() {
			e := store.OutboxEntry{Key: store.EffectKey{ID: o.From.ID, N: o.Effect.Number()}, Seq: k.seq, Kind: o.From.Kind, Lane: o.Effect.Lane()}
			require.NoError(k.t, tx.PutOutbox(e))
		}
		require.NoError(k.t, tx.Put(k.seq, writes))
		return tx.AppendJournal(k.seq, at(k.seq), entry.AppendJSON(nil))
	})
}

func action(n byte) effects.Ref { return effects.Ref{Kind: core.KindAction, ID: uuid.UUID{n}} }

func create(n byte) core.Input {
	return core.Input{To: action(n), Event: core.ActionCreate{Spec: core.ActionSpec{ID: action(n).ID, ToolName: "t", Trigger: core.Scheduled(at(1000))}}}
}

func to(n byte, ev core.Event, ack ...uint32) core.Input {
	in := core.Input{To: action(n), Event: ev}
	if len(ack) > 0 {
		in.Ack = ack[0]
	}
	return in
}

func (k *kit) to(o rewind.Options) (*memory.Store, *rewind.Rewind, error) {
	r := rewind.New(k.st, o)
	back := memory.New()
	err := back.Import(context.Background(), r)
	return back, r, err
}

func (k *kit) mustTo(batch uint64) (*memory.Store, rewind.Report) {
	k.t.Helper()
	back, r, err := k.to(rewind.Options{Batch: batch})
	require.NoError(k.t, err)
	return back, r.Report()
}

func view(t *testing.T, st store.Store, do func(tx store.ReadTx)) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		do(tx)
		return nil
	}))
}

// records gives how many there are after a batch.
func (k *kit) records(t *testing.T, batch uint64) (n uint64) {
	back, _ := k.mustTo(batch)
	view(t, back, func(tx store.ReadTx) {
		require.NoError(t, tx.Records(func(store.Record) error { n++; return nil }))
	})
	return n
}

// entries gives the outbox.
func entries(t *testing.T, st store.Store) map[string]bool {
	waiting := map[string]bool{}
	view(t, st, func(tx store.ReadTx) {
		require.NoError(t, tx.Outbox(func(e store.OutboxEntry) error {
			waiting[e.Key.String()] = e.Waiting()
			return nil
		}))
	})
	return waiting
}

func key(n byte, run uint32) string { return store.EffectKey{ID: action(n).ID, N: run}.String() }
