package jobs

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// turns lets one call at a time change what a run has in a cluster: a deletion
// waits for a creation that is still going on, though nobody wants it any more.
type turns struct {
	mu sync.Mutex
	m  map[uuid.UUID]*turn
}

type turn struct {
	free  chan struct{} // holds a token while nobody has the turn
	users int           // who has it and who waits
}

// enter returns once it is the caller's turn; leave gives it on.
func (t *turns) enter(ctx context.Context, run uuid.UUID) (leave func(), err error) {
	t.mu.Lock()
	if t.m == nil {
		t.m = make(map[uuid.UUID]*turn)
	}
	w := t.m[run]
	if w == nil {
		w = &turn{free: make(chan struct{}, 1)}
		w.free <- struct{}{}
		t.m[run] = w
	}
	w.users++
	t.mu.Unlock()
	select {
	case <-w.free:
		return func() {
			w.free <- struct{}{}
			t.done(run, w)
		}, nil
	case <-ctx.Done():
		t.done(run, w)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) done(run uuid.UUID, w *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.users--; w.users == 0 {
		delete(t.m, run)
	}
}
