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

// IDs gives the ids of the machines of a kind from one on to another, both included, in their order, at most limit. It is a range scan,
// whatever is stored; what cannot be read is left out. The error is [errors.ErrUnsupported] if the store is no [store.Walker].
func (e *Engine) IDs(ctx context.Context, kind effects.Kind, from, to uuid.UUID, limit int) (ids []uuid.UUID, err error) {
	after := effects.Ref{Kind: kind, ID: before(from)}
	err = e.o.Store.View(ctx, func(tx store.ReadTx) error { // itself: the engine's own view of it is no store.Walker
		w, ok := tx.(store.Walker)
		if !ok {
			return fmt.Errorf("look for ids of %s: the store does not walk through records: %w", kind, errors.ErrUnsupported)
		}
		ids = nil
		_, err := w.RecordPage(after, limit, func(r store.Record) error {
			if r.Kind != kind || bytes.Compare(r.ID[:], to[:]) > 0 {
				return errBehind
			}
			ids = append(ids, r.ID)
			return nil
		})
		if _, rest := store.Unreadable(err); rest != nil && !errors.Is(rest, errBehind) {
			return rest
		}
		return nil
	})
	return ids, err
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
