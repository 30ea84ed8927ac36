package httpapi

import (
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

// The bus belongs to all tenants, so that its routes need a token that is not bound.
func (s *Server) busRoutes() []route {
	return []route{
		{"GET", "/v1/subscribers", unboundToken, noQuery(s.listSubscribers)},
		{"GET", "/v1/subscribers/{name}", unboundToken, noQuery(s.getSubscriber)},
		{"PUT", "/v1/subscribers/{name}", unboundWritingToken | edits, noQuery(s.putSubscriber)},
		{"DELETE", "/v1/subscribers/{name}", unboundWritingToken | edits, noQuery(s.deleteSubscriber)},
		{"POST", "/v1/events", unboundWritingToken, noQuery(s.publishEvent)},
		{"GET", "/v1/events", unboundToken | streams, s.streamEvents},
	}
}

func (s *Server) listSubscribers(w http.ResponseWriter, r *http.Request, _ *call) error {
	b, err := s.engine.Subscribers().Get(r.Context())
	if err != nil && !errors.Is(err, shell.ErrNotFound) {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.SubscriberList{Subscribers: append([]core.Subscription{}, b.Subscribers...), Program: b.Program})
}

func (s *Server) getSubscriber(w http.ResponseWriter, r *http.Request, c *call) error {
	b, err := s.engine.Subscribers().Get(r.Context())
	if err != nil && !errors.Is(err, shell.ErrNotFound) {
		return err
	}
	i := slices.IndexFunc(b.Subscribers, func(sub core.Subscription) bool { return sub.Name == r.PathValue("name") })
	if i < 0 {
		return notFound("subscriber", shell.ErrNotFound)
	}
	c.tagRevision(w, r, b.Subscribers[i].Revision())
	by, err := s.declaredBy(r.Context(), core.BusRef(), b.Subscribers[i].Name)
	return reply(w, wire.SubscriberDetail{Subscription: b.Subscribers[i], Declared: by}, err)
}

func (s *Server) putSubscriber(w http.ResponseWriter, r *http.Request, c *call) error {
	var body wire.SubscriberRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return err
	}
	sub := core.Subscription{Name: r.PathValue("name"), Match: body.Match, Do: body.Do}
	if p := body.Do.StartPipeline; p != nil {
		if err := s.permitUses(r.Context(), c.token, shell.Scope{}, usesOf("do.start_pipeline.definition", p.Definition, nil)); err != nil {
			return err
		}
	}
	b, err := s.engine.Subscribers().Send(r.Context(), core.BusSubscribe{Subscriber: sub})
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(b.Subscribers, func(s core.Subscription) bool { return s.Name == sub.Name }); i >= 0 {
		sub = b.Subscribers[i]
	}
	c.tagRevision(w, r, sub.Revision())
	return writeJSON(w, http.StatusOK, sub)
}

func (s *Server) deleteSubscriber(w http.ResponseWriter, r *http.Request, _ *call) error {
	if err := s.noBody(w, r); err != nil {
		return err
	}
	_, err := s.engine.Subscribers().Send(r.Context(), core.BusUnsubscribe{Name: r.PathValue("name")})
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
	if _, err := s.engine.Subscribers().Send(r.Context(), core.BusPublish{Namespace: body.Namespace, Tenant: body.Tenant, Kind: body.Kind, Source: source, Data: body.Data}); err != nil {
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
