package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// Each tenant has a bus with its subscribers. What is announced is streamed of all tenants, so that these routes need a token
// that is not bound.
func (s *Server) busRoutes() []route {
	return []route{
		{"GET", "/v1/subscribers", anyToken | lists, s.subscribers().page(s, "subscribers")},
		{"GET", "/v1/subscribers/{name}", anyToken, s.getSubscriber},
		{"PUT", "/v1/subscribers/{name}", writingToken | edits, s.putSubscriber},
		{"DELETE", "/v1/subscribers/{name}", writingToken | edits, s.deleteSubscriber},
		{"POST", "/v1/events", unboundWritingToken, noQuery(s.publishEvent)},
		{"GET", "/v1/events", unboundToken | streams, s.streamEvents},
	}
}

// subscribers says how subscribers are listed: those of one tenant stand together, in the order in which they hear an event.
func (s *Server) subscribers() listing[core.Bus, wire.Subscriber] {
	return listing[core.Bus, wire.Subscriber]{
		may: maySeeSubscribers,
		find: func(_ query, scope *shell.Scope) (source[core.Bus], error) {
			if scope == nil {
				return source[core.Bus]{next: s.engine.Subscribers().List}, nil
			}
			return source[core.Bus]{next: func(ctx context.Context, _ shell.Page) ([]core.Bus, string, error) {
				b, err := s.engine.Subscribers().Get(ctx, *scope)
				if errors.Is(err, shell.ErrNotFound) {
					return nil, "", nil
				}
				return []core.Bus{b}, "", err
			}}, nil
		},
		scope: func(b core.Bus) (string, string) { return b.Namespace, b.Tenant },
		each: func(b core.Bus) (out []wire.Subscriber) {
			for _, sub := range b.Subscribers {
				out = append(out, wire.Subscriber{Namespace: b.Namespace, Tenant: b.Tenant, Subscription: sub})
			}
			return out
		},
		size: func(b core.Bus) int { return 1024 * len(b.Subscribers) },
		also: func(ctx context.Context, c *call) (string, any, error) {
			if !c.token.unbound() {
				return "", nil, nil
			}
			b, err := s.engine.Subscribers().Get(ctx, shell.Scope{})
			if len(b.Program) == 0 || errors.Is(err, shell.ErrNotFound) {
				return "", nil, nil
			}
			return "program", b.Program, err
		},
	}
}

// maySeeSubscribers refuses a token that is bound to tools: what a subscriber does no list of tools allows.
func maySeeSubscribers(c *call) error {
	return c.token.notBoundToTools("see subscribers, or make one")
}

var bySubscriber = naming{param: "name", bounded: true, may: maySeeSubscribers} // read-only

// subscriber reads the subscriber of the path.
func (s *Server) subscriber(ctx context.Context, of named) (core.Subscription, error) {
	b, err := s.engine.Subscribers().Get(ctx, of.Scope)
	if err != nil && !errors.Is(err, shell.ErrNotFound) {
		return core.Subscription{}, err
	}
	i := slices.IndexFunc(b.Subscribers, func(sub core.Subscription) bool { return sub.Name == of.name })
	if i < 0 {
		return core.Subscription{}, notFound("subscriber", shell.ErrNotFound)
	}
	return b.Subscribers[i], nil
}

func (s *Server) getSubscriber(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := bySubscriber.of(r, c)
	if err != nil {
		return err
	}
	sub, err := s.subscriber(r.Context(), of)
	if err != nil {
		return err
	}
	c.tagRevision(w, r, sub.Revision())
	by, err := s.declaredBy(r.Context(), core.BusOf(of.Namespace, of.Tenant), sub.Name)
	return reply(w, wire.SubscriberDetail{Subscriber: wire.Subscriber{Namespace: of.Namespace, Tenant: of.Tenant, Subscription: sub}, Declared: by}, err)
}

// permitSubscriber refuses a subscriber that the token may not make: what it does, and that it hears the events of all
// tenants, as those do which tell channels.
func (s *Server) permitSubscriber(ctx context.Context, c *call, of shell.Scope, do core.Reaction) error {
	if of == (shell.Scope{Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant}) && !c.token.unbound() {
		return failf(http.StatusForbidden, "tenant: the subscribers of %s/%s hear the events of all tenants: that takes a token that is not bound", of.Namespace, of.Tenant)
	}
	if p := do.StartPipeline; p != nil {
		if err := s.permitUses(ctx, c.token, of, usesOf("do.start_pipeline.definition", p.Definition, nil)); err != nil {
			return err
		}
	}
	return s.within(ctx, c.token, of, want{asked: map[string]any{"do": do}})
}

// permitHearing refuses a subscriber of a tenant that hears the events of others, where the others live in several partitions: it would hear one of these.
func (s *Server) permitHearing(of shell.Scope) error {
	switch {
	case s.o.Partitions <= 1:
		return nil
	case of == shell.Scope{Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant}:
		return failf(http.StatusNotImplemented, "tenant: the subscribers of %s/%s hear the events of all tenants, and here only those of one of %d partitions: make a subscriber for each tenant", of.Namespace, of.Tenant, s.o.Partitions)
	case of == shell.Scope{}:
		return failf(http.StatusNotImplemented, "tenant: the subscribers of the tenant without a name hear events of other tenants, and here only those of one of %d partitions: make a subscriber for each tenant", s.o.Partitions)
	}
	return nil
}

func (s *Server) putSubscriber(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := bySubscriber.of(r, c)
	if err != nil {
		return err
	}
	var body wire.SubscriberRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return err
	}
	if err := s.permitSubscriber(r.Context(), c, of.Scope, body.Do); err != nil {
		return err
	}
	if err := s.permitHearing(of.Scope); err != nil {
		return err
	}
	sub := core.Subscription{Name: of.name, Match: body.Match, Do: body.Do}
	b, err := s.engine.Subscribers().Send(r.Context(), of.Scope, core.BusSubscribe{Subscriber: sub})
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(b.Subscribers, func(s core.Subscription) bool { return s.Name == sub.Name }); i >= 0 {
		sub = b.Subscribers[i]
	}
	c.tagRevision(w, r, sub.Revision())
	return writeJSON(w, http.StatusOK, wire.Subscriber{Namespace: of.Namespace, Tenant: of.Tenant, Subscription: sub})
}

func (s *Server) deleteSubscriber(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := bySubscriber.of(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	if err := s.permitSubscriber(r.Context(), c, of.Scope, core.Reaction{}); err != nil {
		return err
	}
	_, err = s.engine.Subscribers().Send(r.Context(), of.Scope, core.BusUnsubscribe{Name: of.name})
	return done(w, notFound("subscriber", err))
}

func (s *Server) publishEvent(w http.ResponseWriter, r *http.Request, c *call) error {
	var body wire.EventRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return err
	}
	source := effects.EventSource{Component: c.actor}
	if body.Source != nil {
		id, err := idOf("source.id", body.Source.ID)
		if err != nil {
			return err
		}
		source = effects.EventSource{Component: body.Source.Component, ID: id}
	}
	if _, err := s.engine.Subscribers().Send(r.Context(), shell.Scope{Namespace: body.Namespace, Tenant: body.Tenant}, core.BusPublish{Kind: body.Kind, Source: source, Data: body.Data}); err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, wire.EventAccepted{Kind: body.Kind, Source: source})
}

const (
	eventBuffer = 1024             // events that a slow reader may lag behind
	eventPulse  = 15 * time.Second // between two signs of life of a stream without events
	eventWrite  = 30 * time.Second // how long a reader may receive nothing
	maxStreams  = 64
)

// streamEvents sends what the machines announce from now on, as server-sent
// events. Delivery is at most once; a reader that is too slow is told how many
// events it has missed.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "category*", "action")
	if err != nil {
		return err
	}
	leave, err := s.takeStream(&s.streams, func(f *inFlight) *slots { return &f.streams }, c, "streams of events are open", "close one", 60)
	if err != nil {
		return err
	}
	defer leave()
	sub := s.engine.Subscribe(eventFilter(q.v["category"], q.opt("action")), eventBuffer)
	defer sub.Close()
	out := newEventStream(w)
	if r.Method == http.MethodHead {
		return nil
	}
	if !out.write(": events from now on\n\n") {
		return nil
	}
	pulse := time.NewTicker(eventPulse)
	defer pulse.Stop()
	told := uint64(0)
	for {
		select {
		case ev := <-sub.C:
			if !out.event(ev) {
				return nil
			}
		case <-pulse.C:
			if c.token.expired(s.o.Clock.Now()) || !out.write(": \n\n") {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-s.engine.Stopped():
			return nil
		}
		if n := sub.Dropped(); n != told {
			if !out.write(fmt.Sprintf("event: dropped\ndata: {\"dropped\":%d}\n\n", n)) {
				return nil
			}
			told = n
		}
	}
}

func eventFilter(categories []string, action *string) func(effects.Event) bool {
	return func(e effects.Event) bool {
		return (len(categories) == 0 || slices.Contains(categories, e.Kind.Category)) && or(action, e.Kind.Action) == e.Kind.Action
	}
}

// eventStream writes server-sent events, each at once.
type eventStream struct {
	w  io.Writer
	rc *http.ResponseController
}

// newEventStream begins the answer.
func newEventStream(w http.ResponseWriter) *eventStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &eventStream{w: w, rc: http.NewResponseController(w)}
}

func (o *eventStream) event(ev effects.Event) bool {
	b, err := plainjson.Marshal(ev)
	if err != nil { // its data is JSON: it was journaled as such
		return true
	}
	id := ""
	if ev.ID != uuid.Nil {
		id = "id: " + ev.ID.String() + "\n"
	}
	return o.write(id + "data: " + string(b) + "\n\n")
}

// write reports whether the reader is still connected.
func (o *eventStream) write(text string) bool {
	// A deadline for each write instead of one for the whole answer; a recorder of
	// tests has none.
	_ = o.rc.SetWriteDeadline(time.Now().Add(eventWrite))
	if _, err := io.WriteString(o.w, text); err != nil {
		return false
	}
	return o.rc.Flush() == nil
}
