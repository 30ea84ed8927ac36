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
	Kind     effects.Kind
	From, To uuid.UUID // both included
	Limit    int       // of the records that are looked at
	// Wanted is asked with the state of each record, as it is stored, which is valid until it returns; nil: all are wanted.
	Wanted func(state []byte) bool
}

// IDs gives the ids of the machines of a range, in their order. It is a range scan, whatever is stored; what cannot be read is left
// out. looked is how many records were looked at, and last the last of their ids: where that is the limit there may be
// more behind it. The error is [errors.ErrUnsupported] if the store is no [store.Walker].
func (e *Engine) IDs(ctx context.Context, of IDRange) (ids []uuid.UUID, looked int, last uuid.UUID, err error) {
	after := effects.Ref{Kind: of.Kind, ID: before(of.From)}
	err = e.o.Store.View(ctx, func(tx store.ReadTx) error { // itself: the engine's own view of it is no store.Walker
		w, ok := tx.(store.Walker)
		if !ok {
			return fmt.Errorf("look for ids of %s: the store does not walk through records: %w", of.Kind, errors.ErrUnsupported)
		}
		ids, looked = nil, 0
		_, err := w.RecordPage(after, of.Limit, func(r store.Record) error {
			if r.Kind != of.Kind || bytes.Compare(r.ID[:], of.To[:]) > 0 {
				return errBehind
			}
			looked, last = looked+1, r.ID
			if of.Wanted == nil || of.Wanted(r.State) {
				ids = append(ids, r.ID)
			}
			return nil
		})
		if _, rest := store.Unreadable(err); rest != nil && !errors.Is(rest, errBehind) {
			return rest
		}
		return nil
	})
	return ids, looked, last, err
}

// before gives the id that comes right before another one; that of zeros has none, and no machine has it.
func before(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			return id
		}
	}
	return uuid.Nil
}
