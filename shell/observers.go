package shell

import (
	"log/slog"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
)

// observers is the table of machines that are observed.
var observers = [...]observer{
	actionObserver, recurringObserver,
	pipelineObserver, taskObserver, strategyObserver, queueObserver, lockObserver, semaphoreObserver, systemObserver,
	jobObserver, runObserver, schedulerObserver,
}

// observersBy gives the observers by what names them.
func observersBy[K comparable](key func(o observer) K) map[K]observer {
	var none K
	out := make(map[K]observer)
	for _, o := range observers {
		if k := key(o); k != none {
			out[k] = o
		}
	}
	return out
}

var (
	observersByKind     = observersBy(func(o observer) effects.Kind { return o.kind })
	observersByCategory = observersBy(func(o observer) string { return o.category })
)

// observe counts and logs what a batch has made true.
func (e *Engine) observe(committed engine.Committed) {
	c := &commit{Committed: committed}
	e.counts.count(c)
	for _, ev := range c.Events {
		o := observersByCategory[ev.Kind.Category]
		if o.event != nil {
			o.event(e, c, ev)
		}
		if l, ok := o.lines[ev.Kind.Action]; ok {
			e.logLine(c, ev, l)
		}
	}
	for _, ch := range c.Changes {
		if o := observersByKind[ch.Ref.Kind]; o.change != nil {
			o.change(e, c, ch)
		}
	}
}

// logLine writes the line of an event.
func (e *Engine) logLine(c *commit, ev effects.Event, l line) {
	e.logEvent(l, ev, func() []slog.Attr {
		attrs := make([]slog.Attr, 0, 8)
		if ev.Source.ID != uuid.Nil {
			attrs = append(attrs, slog.String(ev.Source.Component+"_id", ev.Source.ID.String()))
		}
		ref := effects.Ref{Kind: effects.Kind(ev.Source.Component), ID: ev.Source.ID}
		if s, err := c.State(ref); err == nil && s != nil {
			if of := observersByKind[ref.Kind].attrs; of != nil {
				attrs = append(attrs, of(s)...)
			}
		}
		return attrs
	})
}

// count notes what a batch has announced and changed.
func (s *counts) count(c *commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range c.Events {
		if o := observersByCategory[ev.Kind.Category]; o.tally != nil {
			o.tally(s, ev)
		}
		if !effects.ReservedCategory(ev.Kind.Category) {
			ev.Kind = OtherEvents
		}
		s.runbooks.Events[ev.Kind]++
	}
	for _, ch := range c.Changes {
		if o := observersByKind[ch.Ref.Kind]; o.count != nil {
			o.count(s, ch.Before, ch.After)
		}
	}
}
