package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/orrery-go/orrery/store"
)

// EndLeft deletes all attempts of the database that a runner holds, and gives those that it has deleted. A process calls it for a database that it does not work on any more: its computer
// has begun the attempts, and another process, which works on the database now, has told their runs that the pods are lost. No [Service] may use the runner
// meanwhile. The database is only read; one that no service has ever run on has no attempts. After an error EndLeft goes on with the next attempt.
func EndLeft(ctx context.Context, r Runner, st store.Store) (ended []Attempt, err error) {
	id, err := readIdentity(ctx, st, databaseMeta)
	if err != nil || id == "" {
		return nil, err
	}
	if m, ok := as[Marker](r); ok {
		m.UseDatabase(id)
	}
	ctx, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop(nil)
	watching.Go(func() { // what is held is known while it is watched
		err := r.Watch(ctx, unheard{})
		if err == nil {
			err = errors.New("the runner has ended its watch")
		}
		stop(err)
	})
	held, err := r.Held(ctx)
	if err != nil {
		return nil, fmt.Errorf("list what is held: %w", errors.Join(err, context.Cause(ctx)))
	}
	var errs []error
	for _, a := range held {
		if _, err := r.Delete(ctx, a); err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", a.Name(), err))
			continue
		}
		ended = append(ended, a)
	}
	return ended, errors.Join(errs...)
}

// unheard takes observations that nobody waits for.
type unheard struct{}

// Observe implements [Sink].
func (unheard) Observe(context.Context, Observation) {}
