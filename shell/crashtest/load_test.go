//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// errRefused: the target said no, so nothing has changed. Any other error leaves
// open whether the request was taken.
var errRefused = errors.New("refused")

// errExists is a refusal because the thing is there already.
var errExists = fmt.Errorf("%w: it exists", errRefused)

// target is what the clients load: the daemon over HTTP, or an engine.
type target interface {
	createAction(ctx context.Context, o order) error
	createAll(ctx context.Context, list []order) error // all or none
	action(ctx context.Context, id uuid.UUID) (core.Action, error)
	cancel(ctx context.Context, id uuid.UUID) error
	trigger(ctx context.Context, id uuid.UUID) error
	webhook(ctx context.Context, body string) (uuid.UUID, error)
	createRecurring(ctx context.Context, r recurringOrder) (uuid.UUID, error)
	recurring(ctx context.Context, id uuid.UUID) (recState, error)
	// changeRecurring carries out pause, resume, delete or fire.
	changeRecurring(ctx context.Context, id uuid.UUID, what op) error
}

// recurringOrder is a recurring action of every second, as a client asks for it.
type recurringOrder struct {
	Retry bool
	Dedup string // template
	Work  work
}

// caller is one client. It sends one request after the other, and has its own
// recurring actions, which nobody else touches.
type caller struct {
	t     target
	book  notebook
	rng   *rand.Rand
	now   func() time.Time
	pause time.Duration // between requests, on the average
	most  int           // recurring actions at a time
	slow  int           // the greatest BeforeMS and AfterMS

	recent []order // created lately
	again  *order  // to be created once more: nobody knows whether it is there
	own    []uuid.UUID
	// waited is called after a request of unknown outcome, to await a victim that
	// lives again.
	waited func(context.Context) error
}

// run sends requests until ctx ends.
func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.step(ctx)
		if err != nil && !errors.Is(err, errRefused) && c.waited != nil {
			_ = c.waited(ctx) // the context says it, too
		}
		idle(ctx, time.Duration(c.rng.Int64N(int64(2*c.pause)+1)))
	}
}

// idle waits for d, or for the context's end.
func idle(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *caller) step(ctx context.Context) error {
	if c.again != nil {
		o := *c.again
		c.again = nil
		return c.create(ctx, o)
	}
	switch n := c.rng.IntN(100); {
	case n < 8:
		return c.createAll(ctx)
	case n < 50:
		return c.create(ctx, c.order())
	case n < 65:
		return c.sendWebhook(ctx)
	case n < 75:
		if o, ok := c.pick(); ok {
			return c.do(ctx, opCancel, o.ID, c.t.cancel)
		}
	case n < 80:
		if o, ok := c.pick(); ok {
			return c.do(ctx, opTrigger, o.ID, c.t.trigger)
		}
	case n < 90:
		if o, ok := c.pick(); ok {
			return c.look(ctx, o)
		}
	default:
		return c.recurringStep(ctx)
	}
	return nil
}

// order thinks of an action.
func (c *caller) order() order {
	o := order{ID: c.id(), Retry: c.rng.IntN(2) == 0, Attempts: 3, Work: c.work()}
	switch c.rng.IntN(4) {
	case 0: // soon
		o.AtMS = c.now().UnixMilli() + c.rng.Int64N(1000)
	case 1: // in a while, so that it outlives some kills
		o.AtMS = c.now().UnixMilli() + c.rng.Int64N(2500)
	}
	o.Again = c.rng.IntN(3) == 0
	if o.Retry || o.Again {
		o.Attempts = 1 + c.rng.Uint32N(4)
	}
	switch c.rng.IntN(12) {
	case 0, 1:
		o.Dedup = fmt.Sprintf("key-%d", c.rng.IntN(6))
	case 2:
		o.Every = true
	}
	return o
}

func (c *caller) work() work {
	var w work
	switch c.rng.IntN(8) {
	case 0:
		w.BeforeMS = 1 + c.rng.IntN(c.slow)
	case 1, 2:
		w.AfterMS = 1 + c.rng.IntN(c.slow)
	case 3:
		w.Fails = true
	}
	return w
}

// id makes an id that the seed fixes.
func (c *caller) id() uuid.UUID {
	var b [16]byte
	for i := range b {
		b[i] = byte(c.rng.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

func (c *caller) create(ctx context.Context, o order) error {
	c.book.write(note{Op: opAction, Phase: tried, ID: o.ID, Order: &o})
	err := c.t.createAction(ctx, o)
	switch {
	case err == nil, errors.Is(err, errExists):
		c.book.write(note{Op: opAction, Phase: acked, ID: o.ID})
		c.remember(o)
		return nil
	case errors.Is(err, errRefused):
		c.book.write(note{Op: opAction, Phase: refused, ID: o.ID})
	case o.Dedup == "" && c.rng.IntN(2) == 0:
		c.again = &o
	}
	return err
}

// createAll asks for some actions in one request: all of them, or none.
func (c *caller) createAll(ctx context.Context) error {
	list := make([]order, 2+c.rng.IntN(6))
	for i := range list {
		list[i] = c.order()
		list[i].Batch = list[0].ID
		c.book.write(note{Op: opAction, Phase: tried, ID: list[i].ID, Order: &list[i]})
	}
	err := c.t.createAll(ctx, list)
	for _, o := range list {
		switch {
		case err == nil:
			c.book.write(note{Op: opAction, Phase: acked, ID: o.ID})
			c.remember(o)
		case errors.Is(err, errRefused):
			c.book.write(note{Op: opAction, Phase: refused, ID: o.ID})
		}
	}
	return err
}

func (c *caller) remember(o order) {
	const most = 32
	if len(c.recent) == most {
		c.recent = c.recent[1:]
	}
	c.recent = append(c.recent, o)
}

func (c *caller) pick() (order, bool) {
	if len(c.recent) == 0 {
		return order{}, false
	}
	return c.recent[c.rng.IntN(len(c.recent))], true
}

// do sends a request about something, and takes note of it.
func (c *caller) do(ctx context.Context, what op, id uuid.UUID, send func(context.Context, uuid.UUID) error) error {
	c.book.write(note{Op: what, Phase: tried, ID: id})
	err := send(ctx, id)
	switch {
	case err == nil:
		c.book.write(note{Op: what, Phase: acked, ID: id})
	case errors.Is(err, errRefused):
		c.book.write(note{Op: what, Phase: refused, ID: id})
	}
	return err
}

// look reads an action that was acknowledged: it must be there.
func (c *caller) look(ctx context.Context, o order) error {
	a, err := c.t.action(ctx, o.ID)
	switch {
	case errors.Is(err, errRefused):
		c.book.write(note{Plaint: fmt.Sprintf("action %s was acknowledged, and is not there: %v", o.ID, err)})
	case err == nil && a.ID != o.ID:
		c.book.write(note{Plaint: fmt.Sprintf("action %s reads as %s", o.ID, a.ID)})
	case err == nil:
		c.book.write(note{Op: opLook, Phase: acked, ID: o.ID, Saw: &sight{Status: a.Status.Type, Run: a.Run, Cycle: a.Cycle}})
	}
	return err
}

func (c *caller) sendWebhook(ctx context.Context) error {
	// Bytes that any transformation would show.
	body := fmt.Sprintf("%s {\"b\" : 1,\"a\":1.0}\r\n\x00\u00e9", c.id())
	c.book.write(note{Op: opWebhook, Phase: tried, Body: body})
	id, err := c.t.webhook(ctx, body)
	if err == nil {
		c.book.write(note{Op: opWebhook, Phase: acked, ID: id, Body: body})
	}
	return err
}

// recurringStep makes, or changes, one of the caller's own recurring actions.
func (c *caller) recurringStep(ctx context.Context) error {
	if len(c.own) == 0 || len(c.own) < c.most && c.rng.IntN(4) == 0 {
		r := recurringOrder{Retry: c.rng.IntN(2) == 0, Work: c.work()}
		switch c.rng.IntN(3) {
		case 0:
			r.Dedup = "each-{{recurring_id}}-{{execution_time}}"
		case 1: // a slow one meets its own key
			r.Dedup = "one-{{recurring_id}}"
			r.Work = work{AfterMS: 700}
		}
		c.book.write(note{Op: opRecurring, Phase: tried})
		id, err := c.t.createRecurring(ctx, r)
		if err == nil {
			c.book.write(note{Op: opRecurring, Phase: acked, ID: id})
			c.own = append(c.own, id)
		} else if errors.Is(err, errRefused) {
			c.book.write(note{Op: opRecurring, Phase: refused})
		}
		return err
	}
	i := c.rng.IntN(len(c.own))
	id := c.own[i]
	if i == 0 { // the first one is left alone: all its times must be accounted for
		return c.lookRecurring(ctx, id)
	}
	what := []op{opPause, opPause, opResume, opResume, opResume, opFire, opFire, opFire, opSeen, opSeen, opSeen, opDelete}[c.rng.IntN(12)]
	if what == opSeen {
		return c.lookRecurring(ctx, id)
	}
	err := c.do(ctx, what, id, func(ctx context.Context, id uuid.UUID) error { return c.t.changeRecurring(ctx, id, what) })
	if what == opDelete && err == nil {
		c.own = append(c.own[:i], c.own[i+1:]...)
	}
	return err
}

func (c *caller) lookRecurring(ctx context.Context, id uuid.UUID) error {
	state, err := c.t.recurring(ctx, id)
	if err == nil {
		c.book.write(note{Op: opSeen, Phase: acked, ID: id, State: state})
	}
	return err
}
