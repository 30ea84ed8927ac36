package shell

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// watchedStore is the store as the typed front reads it: whatever is met there and cannot be
// read is set aside, however it was met.
type watchedStore struct {
	store.Store
	suspect func(context.Context, ...effects.Ref)
}

// View is the store's; afterwards the loop looks at the records that could not be read.
func (w watchedStore) View(ctx context.Context, fn func(store.ReadTx) error) error {
	var met []effects.Ref
	err := w.Store.View(ctx, func(tx store.ReadTx) error { return fn(watchedTx{tx, &met}) })
	if len(met) > 0 {
		if n, ok := ctx.Value(damageKey{}).(*atomic.Int64); ok {
			n.Add(int64(len(met)))
		}
		w.suspect(ctx, met...)
	}
	return err
}

type watchedTx struct {
	store.ReadTx
	met *[]effects.Ref
}

// Get is the store's.
func (t watchedTx) Get(kind effects.Kind, id uuid.UUID) (store.Record, error) {
	r, err := t.ReadTx.Get(kind, id)
	if errors.Is(err, store.ErrCorrupt) {
		t.undecodable(effects.Ref{Kind: kind, ID: id})
	}
	return r, err
}

// GetMany is the store's.
func (t watchedTx) GetMany(dst []store.Record, refs []effects.Ref) ([]store.Record, error) {
	dst, err := t.ReadTx.GetMany(dst, refs)
	bad, _ := store.Unreadable(err)
	for _, b := range bad {
		t.undecodable(effects.Ref{Kind: b.Kind, ID: b.ID})
	}
	return dst, err
}

// undecodable notes a record that is no state of a machine.
func (t watchedTx) undecodable(ref effects.Ref) { *t.met = append(*t.met, ref) }

type damageKey struct{}

// CountDamaged gives a context under which lists count the records that they left out
// since they could not be read, and how many those are so far. Each of them is set aside
// soon after it was met, and no later list meets it.
func CountDamaged(ctx context.Context) (context.Context, func() int) {
	n := new(atomic.Int64)
	return context.WithValue(ctx, damageKey{}, n), func() int { return int(n.Load()) }
}
