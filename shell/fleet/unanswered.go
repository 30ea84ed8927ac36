package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// question is what a process asks the database again and again by itself, such as for a sign of life to be taken.
type question struct {
	mu    sync.Mutex
	since time.Time // when that was asked which has no answer yet, on the steady clock; zero: all has one
	wrong error     // why the last one has failed; nil: it has not
}

// ask notes that it is asked. What it returns is called with the answer.
func (q *question) ask(clock engine.Clock) (answered func(context.Context, error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = clock.Steady()
	return func(ctx context.Context, err error) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.since = time.Time{}
		if ctx.Err() == nil { // else it was given up
			q.wrong = err
		}
	}
}

// unanswered gives why the database does not answer, or that it has not for longer than within.
func (q *question) unanswered(clock engine.Clock, within time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wrong != nil && !errors.Is(q.wrong, store.ErrFenced) { // which is an answer
		return q.wrong
	}
	if q.since.IsZero() {
		return nil
	}
	if d := clock.Steady().Sub(q.since); d > within {
		return fmt.Errorf("%w: it has not answered for %s", store.ErrUnreachable, d.Round(time.Millisecond))
	}
	return nil
}

// Unanswered tells, without asking it, why the database is not available: the last sign of life of this process was not taken, or it waits for an answer for
// longer than within. Nil: nothing is known of that. An outage is known a fifth of the lease and within after it has begun.
func (m *Member) Unanswered(within time.Duration) error { return m.process.unanswered(within) }

// Unanswered tells, without asking it, why the database is not available: the last look at the partitions has failed, or the last sign of life of this process was
// not taken, or one of them waits for an answer for longer than within. Nil: nothing is known of that. An outage is known half a second and within after it has begun.
func (g *Group) Unanswered(within time.Duration) error { return g.process.unanswered(within) }

func (p *process) unanswered(within time.Duration) error {
	for _, q := range []*question{&p.looks, &p.signs} {
		if err := q.unanswered(p.o.Clock, within); err != nil {
			return err
		}
	}
	return nil
}
