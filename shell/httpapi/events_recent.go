package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// Bounds of the events that a page shows.
const (
	maxRecentEvents = 1000
	maxRecentData   = 1 << 10          // bytes of an event's data; longer data is left out
	recentWatch     = 30 * time.Second // how long events are collected after somebody has looked
)

// RecentEvents are the events that machines announced since visitors began to look at them, newest first.
type RecentEvents struct {
	Events []effects.Event
	Since  time.Time
	Missed uint64 // those that came too fast, or of which the daemon holds no more
}

// recentEvents collects events while somebody looks at them: a page is loaded anew to show them, so that it needs no stream of its own.
type recentEvents struct {
	looked atomic.Int64 // when somebody looked last, in nanoseconds

	mu      sync.Mutex
	sub     *shell.Subscription // nil: nobody has ever looked
	events  []effects.Event     // oldest first
	since   time.Time
	left    uint64 // events that were dropped from events
	dropped uint64 // those of sub at since
}

// RecentEvents gives the events that machines announced on this instance since visitors began to look at them: once no visitor has looked for
// 30 seconds, the next one begins anew. The server tells them only to a visitor whose token is not bound.
func (s *Server) RecentEvents(v *Visitor) (RecentEvents, error) {
	if !v.Unbound() {
		return RecentEvents{}, failf(http.StatusForbidden, "token: %q is bound: events belong to all tenants", v.Name())
	}
	if s.locals != nil {
		return recentOf(s.locals(), v)
	}
	r, now := &s.recent, s.o.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sub == nil {
		r.sub = s.engine.Subscribe(func(effects.Event) bool { return s.o.Clock.Now().UnixNano()-r.looked.Load() < int64(recentWatch) }, eventBuffer)
	}
	if now.UnixNano()-r.looked.Load() >= int64(recentWatch) {
		r.drain()
		r.events, r.since, r.left, r.dropped = nil, now, 0, r.sub.Dropped()
	}
	r.looked.Store(now.UnixNano())
	r.drain()
	out := RecentEvents{Events: slices.Clone(r.events), Since: r.since, Missed: r.left + r.sub.Dropped() - r.dropped}
	slices.Reverse(out.Events)
	return out, nil
}

// drain takes over what has come.
func (r *recentEvents) drain() {
	for {
		select {
		case ev := <-r.sub.C:
			if len(ev.Data) > maxRecentData {
				ev.Data = nil
			}
			r.events = append(r.events, ev)
		default:
			if n := len(r.events) - maxRecentEvents; n > 0 {
				r.events, r.left = slices.Delete(r.events, 0, n), r.left+uint64(n)
			}
			return
		}
	}
}

// recentOf gives those of several partitions of this process.
func recentOf(all []*Server, v *Visitor) (out RecentEvents, err error) {
	for _, s := range all {
		of, err := s.RecentEvents(v)
		if err != nil {
			return out, err
		}
		out.Events, out.Missed = append(out.Events, of.Events...), out.Missed+of.Missed
		if out.Since.Before(of.Since) { // before that they are not complete
			out.Since = of.Since
		}
	}
	slices.SortStableFunc(out.Events, func(a, b effects.Event) int { return cmp.Compare(b.Timestamp, a.Timestamp) })
	return out, nil
}
