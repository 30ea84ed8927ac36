package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// errBehind ends a page of records behind the last id that is asked for.
var errBehind = errors.New("behind the last id")

// An IDRange says which ids [Engine.IDs] gives.
type IDRange struct {
	Kind  effects.Kind
	After uuid.UUID // excluded
	To    uuid.UUID // included
	Limit int       // of the records that are looked at
	// Wanted is asked with the state of each record, as it is stored, which is valid until it returns; nil: all are wanted.
	Wanted func(state []byte) bool
}

// IDs gives the ids of the machines of a range, in their order. It is a range scan, whatever is stored; what cannot be read is left
// out. next is the id after which the rest comes; zeros if there is no rest. The error is [errors.ErrUnsupported] if the store
// is no [store.Walker].
func (e *Engine) IDs(ctx context.Context, of IDRange) (ids []uuid.UUID, next uuid.UUID, err error) {
	err = e.o.Store.View(ctx, func(tx store.ReadTx) error { // itself: the engine's own view of it is no store.Walker
		w, ok := tx.(store.Walker)
		if !ok {
			return fmt.Errorf("look for ids of %s: the store does not walk through records: %w", of.Kind, errors.ErrUnsupported)
		}
		last, err := w.RecordPage(effects.Ref{Kind: of.Kind, ID: of.After}, of.Limit, func(r store.Record) error {
			if r.Kind != of.Kind || bytes.Compare(r.ID[:], of.To[:]) > 0 {
				return errBehind
			}
			if of.Wanted == nil || of.Wanted(r.State) {
				ids = append(ids, r.ID)
			}
			return nil
		})
		switch _, rest := store.Unreadable(err); {
		case errors.Is(rest, errBehind):
		case rest != nil:
			return rest
		case last.Kind == of.Kind && bytes.Compare(last.ID[:], of.To[:]) < 0:
			next = last.ID
		}
		return nil
	})
	return ids, next, err
}
