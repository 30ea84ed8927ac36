package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell"
)

// unreadError says why the logs of a pod that was deleted were not read to their end: others
// were.
type unreadError string

// Error implements error.
func (e unreadError) Error() string { return string(e) }

// readings are the places of those who read the logs of one runner's pods that are being
// deleted. Nobody waits while another tenant holds more: a tenant that finds no place free
// takes one from the tenant that holds the most, if that keeps as many as the taker then has.
type readings struct {
	most int

	mu    sync.Mutex
	n     int
	held  map[shell.Scope][]*reading // in the order in which they were taken
	freed chan struct{}              // closed when a place is given back
}

// reading is a place among readings.
type reading struct {
	of   shell.Scope
	lost chan struct{} // closed when the place is taken away
}

func newReadings(most int) *readings {
	return &readings{most: most, held: make(map[shell.Scope][]*reading), freed: make(chan struct{})}
}

// enter takes a place for a tenant, and waits for one until ctx or limit ends. The caller
// calls leave.
func (r *readings) enter(ctx context.Context, of shell.Scope, limit <-chan time.Time) (*reading, bool) {
	for {
		place, freed := r.take(of)
		if place != nil {
			return place, true
		}
		select {
		case <-freed:
		case <-limit:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
}

// take is enter without a wait; freed is closed when it is worth another try.
func (r *readings) take(of shell.Scope) (place *reading, freed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == r.most {
		from := r.largest()
		if len(r.held[from]) <= len(r.held[of])+1 {
			return nil, r.freed
		}
		first := r.held[from][0] // its pod has had the longest time to end
		r.drop(first)
		close(first.lost)
	}
	place = &reading{of: of, lost: make(chan struct{})}
	r.held[of] = append(r.held[of], place)
	r.n++
	return place, nil
}

// largest gives the tenant that holds the most.
func (r *readings) largest() shell.Scope {
	return slices.MaxFunc(slices.Collect(maps.Keys(r.held)), func(a, b shell.Scope) int {
		return cmp.Or(cmp.Compare(len(r.held[a]), len(r.held[b])), a.Compare(b))
	})
}

// leave gives a place back, unless it was taken away.
func (r *readings) leave(p *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drop(p) {
		close(r.freed)
		r.freed = make(chan struct{})
	}
}

// drop takes a place away, if it is held.
func (r *readings) drop(p *reading) bool {
	held := r.held[p.of]
	i := slices.Index(held, p)
	if i < 0 {
		return false
	}
	if r.held[p.of] = slices.Delete(held, i, i+1); len(held) == 1 {
		delete(r.held, p.of)
	}
	r.n--
	return true
}

// until bounds a reading by its place: the cause of the context's end is why if that is taken
// away.
func (p *reading) until(ctx context.Context, why error) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-p.lost:
			cancel(why)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}

// Why a pod that was deleted was not read to its end.
var (
	errNoPlaceBefore = unreadError(fmt.Sprintf("it was not read before its deletion: for %s, %d other pods of this runner were", readBeforeLimit, maxReadsBefore))
	errManyReadings  = unreadError(fmt.Sprintf("the last of it was not read: for %s, %d other pods of this runner were being deleted and read", readingWait, maxReadings))
	errPlaceLost     = unreadError("the last of it was not read: so many pods of this runner were being deleted that those of other tenants were read instead, which had fewer")
)

// isUnread reports whether logs were not read because others were.
func isUnread(err error) bool {
	_, is := errors.AsType[unreadError](err)
	return is
}
