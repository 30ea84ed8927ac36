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

// IDs gives the ids of the machines of a kind that come after one, up to another, in their order, at most limit. It is a range scan,
// whatever is stored; what cannot be read is left out. next is the id after which the rest comes; zeros if there is no rest. The error is
// [errors.ErrUnsupported] if the store is no [store.Walker].
func (e *Engine) IDs(ctx context.Context, kind effects.Kind, after, to uuid.UUID, limit int) (ids []uuid.UUID, next uuid.UUID, err error) {
	err = e.o.Store.View(ctx, func(tx store.ReadTx) error { // itself: the engine's own view of it is no store.Walker
		w, ok := tx.(store.Walker)
		if !ok {
			return fmt.Errorf("look for ids of %s: the store does not walk through records: %w", kind, errors.ErrUnsupported)
		}
		last, err := w.RecordPage(effects.Ref{Kind: kind, ID: after}, limit, func(r store.Record) error {
			if r.Kind != kind || bytes.Compare(r.ID[:], to[:]) > 0 {
				return errBehind
			}
			ids = append(ids, r.ID)
			return nil
		})
		switch _, rest := store.Unreadable(err); {
		case errors.Is(rest, errBehind):
		case rest != nil:
			return rest
		case last.Kind == kind && bytes.Compare(last.ID[:], to[:]) < 0:
			next = last.ID
		}
		return nil
	})
	return ids, next, err
}
