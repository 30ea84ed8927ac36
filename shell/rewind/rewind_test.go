package rewind_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestATimeIsTheLastBatchBeforeTheFirstLaterOne(t *testing.T) {
	k := newKit(t)
	for n := range byte(4) {
		k.batch(create(n + 1))
	}
	for _, tc := range []struct {
		at   effects.Time
		want uint64
	}{{at(1), 1}, {at(2).Add(time.Millisecond), 2}, {at(3).Add(999 * time.Millisecond), 3}, {at(4), 4}, {at(9), 4}} {
		_, r, err := k.to(rewind.Options{At: tc.at})
		require.NoError(t, err)
		assert.Equal(t, rewind.Place{Batch: tc.want, At: at(tc.want)}, r.Report().To, "%s", tc.at)
		assert.Equal(t, rewind.Place{Batch: 4, At: at(4)}, r.Report().From)
		assert.Equal(t, tc.want, k.records(t, tc.want), "each batch has made one")
	}
	_, _, err := k.to(rewind.Options{At: at(1).Add(-time.Millisecond)})
	require.ErrorIs(t, err, rewind.ErrUnreachable)
	require.ErrorContains(t, err, "it begins with batch 1 of 1970-01-01T00:00:01.000Z, which is later than 1970-01-01T00:00:00.999Z")
	_, _, err = k.to(rewind.Options{Batch: 5})
	require.ErrorContains(t, err, "batch 5 is to come: the store has batch 4 of")
	for _, o := range []rewind.Options{{}, {Batch: 1, At: at(1)}} {
		_, _, err = k.to(o)
		require.ErrorContains(t, err, "give a batch or a time")
	}
}

func TestWhatTheJournalDoesNotHaveIsNamed(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	k.batch(create(2))
	k.batch(create(3))
	k.update(func(tx store.Tx) error {
		epochs, err := tx.Epochs()
		require.NoError(t, err)
		_, err = tx.DropEpochs(epochs[1].Number, 100)
		return err
	})
	back, rep := k.mustTo(1)
	assert.Equal(t, "batch 1", rep.To.String())
	view(t, back, func(tx store.ReadTx) {
		seq, err := tx.Seq()
		require.NoError(t, err)
		assert.Equal(t, uint64(1), seq)
	})
	k.batch(create(4))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(4)) })
	k.batch(create(5))
	k.update(func(tx store.Tx) error {
		epochs, err := tx.Epochs()
		require.NoError(t, err)
		_, err = tx.DropEpochs(epochs[1].Number, 100)
		return err
	})
	_, _, err := k.to(rewind.Options{Batch: 2})
	require.ErrorIs(t, err, rewind.ErrUnreachable)
	require.ErrorContains(t, err, "it begins with batch 5, so batch 4 is the first one that can be had")
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(6)) })
	k.update(func(tx store.Tx) error {
		epochs, err := tx.Epochs()
		require.NoError(t, err)
		_, err = tx.DropEpochs(epochs[1].Number, 100)
		return err
	})
	_, _, err = k.to(rewind.Options{At: at(5)})
	require.ErrorIs(t, err, rewind.ErrUnreachable)
	require.ErrorContains(t, err, "it has no batch that tells a time")
}

// harmed gives other changes, or none, or another digest, or other bases, than the store has.
type harmed struct {
	rewind.Source
	batch func(*store.Batch)
	base  func(store.Record) bool
}

func (h *harmed) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return h.Source.View(ctx, func(tx store.ReadTx) error { return fn(&harmedTx{tx, h}) })
}

type harmedTx struct {
	store.ReadTx
	h *harmed
}

func (t *harmedTx) Batches(from uint64, fn func(store.Batch) error) error {
	return t.ReadTx.Batches(from, func(b store.Batch) error {
		if t.h.batch != nil {
			for i := range b.Changes {
				b.Changes[i].Delta.Middle = bytes.Clone(b.Changes[i].Delta.Middle)
			}
			t.h.batch(&b)
		}
		return fn(b)
	})
}

func (t *harmedTx) Base(epoch uint64, fn func(store.Record) error) error {
	return t.ReadTx.Base(epoch, func(r store.Record) error {
		r.State = bytes.Clone(r.State)
		if t.h.base != nil && !t.h.base(r) {
			return nil
		}
		return fn(r)
	})
}

func TestWhatDoesNotFitTogetherIsRefusedWithTheBatch(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2), create(3))
	k.batch(to(1, core.ActionTrigger{}))
	k.batch(to(1, core.ActionComplete{Run: 1}, 1))
	k.batch(to(2, core.ActionCancel{Reason: "no"}))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(5)) })
	k.batch(to(1, core.ActionExpire{}), to(3, core.ActionCancel{}))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(6)) })
	k.batch(to(2, core.ActionExpire{}))
	in := func(seq uint64, do func(*store.Batch)) func(*store.Batch) {
		return func(b *store.Batch) {
			if b.Seq == seq {
				do(b)
			}
		}
	}
	for name, tc := range map[string]struct {
		h    harmed
		want string
	}{
		"the state before a change":        {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Delta.Middle[0] ^= 1 })}, "batch 2"},
		"a length":                         {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Delta.Prefix += 1000 })}, "batch 3"},
		"a digest":                         {harmed{batch: in(4, func(b *store.Batch) { b.Digest++ })}, "batch 4"},
		"the digest of what stays":         {harmed{batch: in(1, func(b *store.Batch) { b.Digest++ })}, "batch 1"},
		"a change that is not there":       {harmed{batch: in(3, func(b *store.Batch) { b.Changes = nil })}, "batch 2"},
		"another batch before":             {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Before = 1 })}, "batch 2"},
		"a batch before that is later":     {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Before = 4 })}, "batch 3"},
		"a deletion that was none":         {harmed{batch: in(4, func(b *store.Batch) { b.Changes[0].Gone = true })}, "batch 4"},
		"a base that is not there at last": {harmed{base: func(r store.Record) bool { return r.ID != action(2).ID }}, "batch 6"},
		"a base that is another": {harmed{base: func(r store.Record) bool {
			if r.ID == action(3).ID {
				copy(r.State[bytes.Index(r.State, []byte(`"t"`)):], `"u"`)
			}
			return true
		}}, "batch 5: action/03000000-0000-0000-0000-000000000000: the state that the epoch keeps is another one"},
		"a base that is not there":    {harmed{base: func(r store.Record) bool { return r.ID != action(1).ID }}, "batch 5"},
		"a batch of an earlier build": {harmed{batch: in(3, func(b *store.Batch) { *b = store.Batch{Seq: b.Seq, Entry: b.Entry} })}, "batch 3 cannot be undone: an earlier build did not note what it changed: batch 3 is the first one"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.h.Source = k.st
			back := memory.New()
			err := back.Import(t.Context(), rewind.New(&tc.h, rewind.Options{Batch: 1}))
			require.Error(t, err)
			assert.ErrorContains(t, err, tc.want)
		})
	}
	_, _, err := k.to(rewind.Options{Batch: 5})
	require.NoError(t, err)
	err = memory.New().Import(t.Context(), rewind.New(&harmed{Source: k.st, base: func(store.Record) bool { return false }}, rewind.Options{Batch: 5}))
	require.ErrorIs(t, err, store.ErrCorrupt, "nothing of this epoch has changed it")
	require.ErrorContains(t, err, "batch 6: action/02000000-0000-0000-0000-000000000000: no epoch keeps the state")
	back, rep := k.mustTo(1)
	assert.Equal(t, rewind.Report{From: rewind.Place{Batch: 6, At: at(6)}, To: rewind.Place{Batch: 1, At: at(1)}, Records: 3, Gone: 2}, rep)
	view(t, back, func(tx store.ReadTx) {
		r, err := tx.Get(core.KindAction, action(1).ID)
		require.NoError(t, err)
		assert.Equal(t, uint64(1), r.Version)
	})
}

// TestADeletionStaysAlsoIfAnEarlierBuildDecidedPartOfTheEpoch: its digest does not depend on that part.
func TestADeletionStaysAlsoIfAnEarlierBuildDecidedPartOfTheEpoch(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2))
	k.batch(to(1, core.ActionCancel{}))
	k.batch(to(1, core.ActionExpire{}))
	k.batch(create(3))
	earlier := func(digest uint64) *harmed {
		return &harmed{Source: k.st, batch: func(b *store.Batch) {
			switch b.Seq {
			case 1:
				*b = store.Batch{Seq: b.Seq, Entry: b.Entry}
			case 3:
				b.Digest += digest
			}
		}}
	}
	require.NoError(t, memory.New().Import(t.Context(), rewind.New(earlier(0), rewind.Options{Batch: 3})))
	err := memory.New().Import(t.Context(), rewind.New(earlier(1), rewind.Options{Batch: 3}))
	require.ErrorContains(t, err, "batch 3: what it left is not what its digest says")
}
