package shell

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Usage is what one tenant has in the store.
type Usage struct {
	Schedules   int64 // recurring actions, jobs, and live actions that recur
	LiveActions int64 // that have not ended
	// LiveRuns, LivePipelines, LiveTasks and LiveStrategies have not ended. A pipeline
	// that has failed, and may be retried, has ended.
	LiveRuns, LivePipelines, LiveTasks, LiveStrategies int64

	Queues int64
	// StoredBytes are those of the states of its machines and of the items of its
	// queues, without their indexes, the journal, logs, webhooks and history.
	StoredBytes int64
}

// Plus gives what two tenants have together.
func (u Usage) Plus(v Usage) Usage {
	u.add(v, 1)
	return u
}

func (u *Usage) add(v Usage, sign int64) {
	u.Schedules += sign * v.Schedules
	u.LiveActions += sign * v.LiveActions
	u.LiveRuns += sign * v.LiveRuns
	u.LivePipelines += sign * v.LivePipelines
	u.LiveTasks += sign * v.LiveTasks
	u.LiveStrategies += sign * v.LiveStrategies
	u.Queues += sign * v.Queues
	u.StoredBytes += sign * v.StoredBytes
}

// usages are the sums of what each tenant has: counted from the store at the start, a part
// at a time, and kept with each commit.
type usages struct {
	mu    sync.Mutex
	shown *tally        // what is known
	next  *tally        // of the walk through the store under way; at first the same; nil: none
	again chan struct{} // holds a value where the sums may have missed something

	limited map[limitedOf]limitedCount // as many as there are tenants that have met a limit
}

func (u *usages) init() {
	u.shown, u.again = newTally(), make(chan struct{}, 1)
	u.next = u.shown
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
	live := int64(1)
	if _, ended := core.EndedAt(s); ended {
		live = 0
	}
	switch s := s.(type) {
	case core.Action:
		v.LiveActions = live
		if !s.Recurrence.IsZero() {
			v.Schedules = live
		}
	case core.Orchestrator:
		v.LiveRuns = live
	case core.Pipeline:
		v.LivePipelines = live
	case core.Task:
		v.LiveTasks = live
	case core.Strategy:
		v.LiveStrategies = live
	case core.Queue:
		v.Queues = 1
	case core.RecurringAction, core.Job:
		v.Schedules = 1
	}
	return v
}

// observe counts a batch that is durable.
func (u *usages) observe(c engine.Committed) {
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
				u.change(usageChange{c.Seq(), ch.Ref, scope, usageOf(side.s, side.bytes), side.sign})
			}
		}
	}
	for _, t := range []*tally{u.shown, u.next} {
		t.observed(c.Seq())
	}
}

func (u *usages) change(c usageChange) {
	u.shown.change(c)
	if u.next != u.shown {
		u.next.change(c)
	}
}

// countUsage counts what is stored, and again whenever something was missed.
func (e *Engine) countUsage(ctx context.Context) {
	u := &e.usages
	for {
		for err := e.countStored(ctx, u.next); err != nil; err = e.countStored(ctx, u.next) {
			if ctx.Err() == nil {
				e.log.Error("counting what tenants have: the store cannot be read; trying again", "error", err)
			}
			if e.wait(ctx, nil, e.o.TickRate) != nil {
				return
			}
		}
		u.mu.Lock()
		u.shown, u.next = u.next, nil
		gaps := u.shown.gaps
		u.mu.Unlock()
		if gaps > 0 {
			e.log.Error("what tenants have is counted but for what could not be read", "gaps", gaps)
		}
		select {
		case <-u.again:
		case <-ctx.Done():
			return
		}
		if e.wait(ctx, nil, e.o.TickRate) != nil { // there may be more of it
			return
		}
		u.mu.Lock()
		u.next = newTally()
		u.mu.Unlock()
	}
}

// recount has what is stored counted again.
func (e *Engine) recount() {
	select {
	case e.usages.again <- struct{}{}:
	default: // it will be
	}
}

// countStored counts the rest of what is stored, a part at a time.
func (e *Engine) countStored(ctx context.Context, t *tally) error {
	for {
		part := usagePart{t: t, of: make(map[Scope]Usage)}
		err := e.o.Store.View(ctx, part.read) // itself: the engine's own view of it is no [store.Walker]
		if !part.walked || ctx.Err() != nil {
			return err
		}
		unreadable, rest := store.Unreadable(err)
		if part.last == t.at {
			part.last = effects.Ref{}
		}
		if rest != nil {
			e.log.Error("counting what tenants have: passing over what cannot be read", "after", t.at.String(), "error", rest)
		}
		e.usages.mu.Lock()
		t.gaps += len(unreadable)
		if rest != nil {
			t.gaps++
		}
		t.merge(part)
		done := t.done
		e.usages.mu.Unlock()
		if done {
			return nil
		}
	}
}

// Usage gives what a tenant has in the store, as of the last commit. Until what was stored
// before the start has been counted it is what is known so far, and less than all: see
// [Engine.UsageState]. It fails if Limits.Count is off.
func (e *Engine) Usage(_ context.Context, of Scope) (Usage, error) {
	if !e.o.Limits.Count {
		return Usage{}, ErrNotCounted
	}
	e.usages.mu.Lock()
	defer e.usages.mu.Unlock()
	return e.usages.shown.of[of], nil
}

// Usages is [Engine.Usage] of all tenants that have anything.
func (e *Engine) Usages(context.Context) (map[Scope]Usage, error) {
	if !e.o.Limits.Count {
		return nil, ErrNotCounted
	}
	e.usages.mu.Lock()
	defer e.usages.mu.Unlock()
	return maps.Clone(e.usages.shown.of), nil
}

// UsageState says how far what tenants have is known.
type UsageState struct {
	Counted bool  // what was stored before the start is counted
	Gaps    int64 // records, and parts of the store, that could not be read and are not in the sums
}

// UsageState tells what [Engine.Usage] rests on. It is zero if Limits.Count is off.
func (e *Engine) UsageState() UsageState {
	e.usages.mu.Lock()
	defer e.usages.mu.Unlock()
	t := e.usages.shown
	return UsageState{Counted: t.done, Gaps: int64(t.gaps)}
}

// ErrNotCounted is the error of [Engine.Usage] where Limits.Count is off.
var ErrNotCounted = errors.New("shell: Options.Limits.Count is off: what tenants have is not counted")
