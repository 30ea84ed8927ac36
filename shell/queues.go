package shell

import (
	"context"
	"errors"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Queues are the calls for queues and their items.
type Queues struct{ e *Engine }

// Queues gives the calls for queues and their items.
func (e *Engine) Queues() Queues { return Queues{e} }

// Configure declares a queue, or replaces the configuration of one.
func (q Queues) Configure(ctx context.Context, namespace, tenant, name string, c core.QueueConfig) (core.Queue, error) {
	c.Retry.NoRetry = slices.Clone(c.Retry.NoRetry)
	ref := core.QueueRef(namespace, tenant, name)
	header, err := q.change(ctx, ref, core.QueueConfigure{Config: c})
	if errors.Is(err, ErrNotFound) {
		header, err = q.change(ctx, ref, core.QueueCreate{Namespace: namespace, Tenant: tenant, Name: name, Config: c})
		if refusedFor(err, effects.CodeExists) { // somebody else was quicker
			header, err = q.change(ctx, ref, core.QueueConfigure{Config: c})
		}
	}
	return header, err
}

// Pause stops takes from a queue; all else goes on.
func (q Queues) Pause(ctx context.Context, queue effects.Ref, by, reason string) (core.Queue, error) {
	return q.change(ctx, queue, core.QueuePause{By: by, Reason: reason})
}

// Resume lets takes go on.
func (q Queues) Resume(ctx context.Context, queue effects.Ref) (core.Queue, error) {
	return q.change(ctx, queue, core.QueueResume{})
}

// Delete removes a queue that holds no item.
func (q Queues) Delete(ctx context.Context, queue effects.Ref) error {
	_, err := q.tell(ctx, queue, core.QueueDelete{})
	return err
}

// Get reads a queue's header: its configuration, counters and gauges.
func (q Queues) Get(ctx context.Context, namespace, tenant, name string) (core.Queue, error) {
	return readAs[core.Queue](ctx, q.e, core.QueueRef(namespace, tenant, name))
}

// QueueFilter chooses queues; zero fields choose all.
type QueueFilter struct {
	Scope  *Scope
	Paused *bool
}

// List lists queues, newest first.
func (q Queues) List(ctx context.Context, f QueueFilter, p Page) (list []core.Queue, next string, err error) {
	return page(ctx, q.e.store, newest(core.KindQueue, scopeOr(f.Scope, flagTerm(f.Paused, core.QueueStatusTerm))), p, func(q core.Queue) bool {
		return f.Paused == nil || q.Paused == *f.Paused
	})
}

// tell sends an event to a queue, and gives what it was answered.
func (q Queues) tell(ctx context.Context, queue effects.Ref, ev core.QueueEvent) (core.Result, error) {
	res, _, err := q.e.ask(ctx, queue, ev, 0)
	return res, err
}

// change sends an event to a queue, and gives its header afterwards.
func (q Queues) change(ctx context.Context, queue effects.Ref, ev core.QueueEvent) (core.Queue, error) {
	_, s, err := q.e.ask(ctx, queue, ev, 0)
	header, _ := s.(core.Queue)
	return header, err
}
