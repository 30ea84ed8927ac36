package shell

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Usage is what one tenant has in the store.
type Usage struct {
	Schedules   int64 // recurring actions, jobs, and live actions that recur
	LiveActions int64 // that have not ended
	Queues      int64
	// StoredBytes are those of the states of its machines and of the items of its
	// queues, without their indexes, the journal, logs, webhooks and history.
	StoredBytes int64
}

func (u *Usage) add(v Usage, sign int64) {
	u.Schedules += sign * v.Schedules
	u.LiveActions += sign * v.LiveActions
	u.Queues += sign * v.Queues
	u.StoredBytes += sign * v.StoredBytes
}

// usages counts what each tenant has: from the store at the start, then with each commit.
type usages struct {
	mu      sync.Mutex
	of      map[Scope]Usage
	ready   chan struct{} // closed once what was stored before the start is counted
	counted bool
	base    uint64         // the last batch that the count of the store has seen
	pending []pendingUsage // commits before that is known
}

type pendingUsage struct {
	seq uint64
	of  map[Scope]Usage
}

func (u *usages) init() {
	u.of, u.ready = make(map[Scope]Usage), make(chan struct{})
}

// itemScope tells whose an item is: a batch changes items by their queue alone.
func itemScope(c engine.Committed, i core.QueueItem) Scope {
	ref := effects.Ref{Kind: core.KindQueue, ID: i.Queue}
	if q, err := c.State(ref); err == nil && q != nil {
		return core.ScopeOf(q)
	}
	for _, ch := range c.Changes { // it went with its queue
		if ch.Ref == ref {
			return core.ScopeOf(ch.Before)
		}
	}
	return Scope{}
}

// usageOf is what one machine adds to what its tenant has.
func usageOf(s core.State, bytes int) Usage {
	v := Usage{StoredBytes: int64(bytes)}
	switch s := s.(type) {
	case core.Action:
		if !s.Status.Type.Terminal() {
			v.LiveActions = 1
		}
		if !s.Recurrence.IsZero() && v.LiveActions == 1 {
			v.Schedules = 1
		}
	case core.Queue:
		v.Queues = 1
	case core.RecurringAction, core.Job:
		v.Schedules = 1
	}
	return v
}

// observe counts a batch that is durable.
func (u *usages) observe(c engine.Committed) {
	delta := make(map[Scope]Usage, 1)
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, ch := range c.Changes {
		before, after := c.Sizes(i)
		for _, side := range []struct {
			s     core.State
			bytes int
			sign  int64
		}{{ch.Before, before, -1}, {ch.After, after, 1}} {
			if side.s != nil {
				scope := core.ScopeOf(side.s)
				if item, ok := side.s.(core.QueueItem); ok {
					scope = itemScope(c, item)
				}
				sum := delta[scope]
				sum.add(usageOf(side.s, side.bytes), side.sign)
				delta[scope] = sum
			}
		}
	}
	switch {
	case !u.counted:
		u.pending = append(u.pending, pendingUsage{c.Seq(), delta})
	case c.Seq() > u.base:
		u.merge(delta)
	}
}

func (u *usages) merge(delta map[Scope]Usage) {
	for scope, d := range delta { // order-free: sums
		sum := u.of[scope]
		sum.add(d, 1)
		if sum == (Usage{}) {
			delete(u.of, scope)
		} else {
			u.of[scope] = sum
		}
	}
}

// count counts what is stored.
func (u *usages) count(ctx context.Context, st store.Store) error {
	of := make(map[Scope]Usage)
	queues := make(map[uuid.UUID]Scope) // whose items are whose
	var base uint64
	err := st.View(ctx, func(tx store.ReadTx) (err error) {
		if base, err = tx.Seq(); err != nil {
			return err
		}
		err = tx.Records(func(r store.Record) error {
			s, err := core.DecodeState(r.Kind, r.State)
			if err != nil {
				return nil //nolint:nilerr // what cannot be decoded is nobody's: it is set aside when it is met
			}
			scope := core.ScopeOf(s)
			switch s := s.(type) {
			case core.Queue: // they come before their items: records are ordered by kind
				queues[s.ID] = scope
			case core.QueueItem:
				scope = queues[s.Queue]
			}
			sum := of[scope]
			sum.add(usageOf(s, len(r.State)), 1)
			of[scope] = sum
			return nil
		})
		_, err = store.Unreadable(err)
		return err
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.base, u.counted = base, true
	u.merge(of)
	for _, p := range u.pending {
		if p.seq > base {
			u.merge(p.of)
		}
	}
	u.pending = nil
	close(u.ready)
	return nil
}

// countUsage counts what is stored, until it has succeeded once.
func (e *Engine) countUsage(ctx context.Context) {
	for {
		err := e.usages.count(ctx, e.store)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			e.log.Error("counting what tenants have failed; trying again", "error", err)
		}
		if e.wait(ctx, nil, e.o.TickRate) != nil {
			return
		}
	}
}

// Usage gives what a tenant has in the store, as of the last commit. Right after the
// start it waits until what is stored has been counted. It fails if Limits.Count is off.
func (e *Engine) Usage(ctx context.Context, of Scope) (Usage, error) {
	if err := e.counted(ctx); err != nil {
		return Usage{}, err
	}
	e.usages.mu.Lock()
	defer e.usages.mu.Unlock()
	return e.usages.of[of], nil
}

// Usages is [Engine.Usage] of all tenants that have anything.
func (e *Engine) Usages(ctx context.Context) (map[Scope]Usage, error) {
	if err := e.counted(ctx); err != nil {
		return nil, err
	}
	e.usages.mu.Lock()
	defer e.usages.mu.Unlock()
	return maps.Clone(e.usages.of), nil
}

// ErrNotCounted is the error of [Engine.Usage] where Limits.Count is off.
var ErrNotCounted = errors.New("shell: Options.Limits.Count is off: what tenants have is not counted")

// counted waits until what was stored before the start is counted.
func (e *Engine) counted(ctx context.Context) error {
	if !e.o.Limits.Count {
		return ErrNotCounted
	}
	select {
	case <-e.usages.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.Stopped():
		return ErrStopped
	}
}
