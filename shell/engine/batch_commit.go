package engine

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// committed carries the batch over into the loop, answers, and lets the effects
// go.
func (l *loop) committed(b *batch) {
	e := l.e
	if b.fold == nil {
		return
	}
	l.sweep, l.webhooks, l.retention, l.nextRecover = b.sweep, b.webhooks, b.retain, b.recover
	l.nextDue = b.nextDue
	if b.renewed {
		l.nextRenew = b.mono.Add(l.renewEvery())
	}
	if len(b.entry.Inputs) > 0 {
		l.lastSeq = b.entry.Seq
		l.remember(b)
		e.stats.batches.Add(1)
		e.stats.expired.Add(b.expired)
		e.stats.inputs.Add(uint64(len(b.entry.Inputs)))
	}
	for name, w := range b.waiting {
		l.lane(name).waiting = w
	}
	for _, w := range b.fold.Withdrawn() {
		if r, ok := l.running[effectKey(w.From, w.N)]; ok {
			r.dropped = true
			r.cancel(ErrCancelled)
		}
	}
	for _, s := range b.launches {
		l.lane(s.Lane).running++
		e.stats.running.Add(1)
		l.start(s)
	}
	l.reply(b)
	clear(l.outcomes)
	l.outcomes = l.outcomes[:0]
	e.announce(b)
}

// remember keeps the new states for the batches that follow.
func (l *loop) remember(b *batch) {
	for i, c := range b.changes {
		w := b.writes[i]
		if c.After == nil {
			l.cache.drop(c.Ref)
			continue
		}
		if at := w.Due; !at.IsZero() && (l.nextDue.IsZero() || at < l.nextDue) && !b.skips(c.Ref.Kind) {
			l.nextDue = at
		}
		if !core.Cacheable(c.After) {
			l.cache.drop(c.Ref)
			continue
		}
		l.cache.put(c.Ref, cached{state: c.After, version: w.Prev.Version + 1, seq: b.entry.Seq, size: len(w.State)})
	}
}

func (l *loop) reply(b *batch) {
	for i, r := range l.requests {
		r.done <- b.replies[i]
	}
	clear(l.requests)
	l.requests = l.requests[:0]
}

// announce tells subscribers, the front and those who wait what a batch has made
// true.
func (e *Engine) announce(b *batch) {
	e.bus.publish(b.fold.Events())
	if told := e.o.Hooks.Committed; told != nil {
		told(Committed{Events: b.fold.Events(), Changes: b.changes, b: b})
	}
	for _, c := range b.changes {
		if c.After == nil {
			continue
		}
		if _, ended := core.EndedAt(c.After); ended {
			e.wait.wake(c.After)
		}
	}
}

// Committed is a batch that is durable.
type Committed struct {
	Events  []effects.Event // what was announced, in order
	Changes []core.Change
	b       *batch
}

// State gives a machine as the batch leaves it; nil if it does not exist.
func (c Committed) State(ref effects.Ref) (core.State, error) { return c.b.fold.State(ref) }

// Cached gives a machine if it is at hand, and reads nothing.
func (c Committed) Cached(ref effects.Ref) (core.State, bool) {
	cached, ok := c.b.l.cache.get(ref)
	return cached.state, ok
}
