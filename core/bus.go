package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Bus routes the events that machines announce to subscribers (003 EventBus, D7).
// Each tenant has one ([BusOf]). That of the tenant whose namespace and name are empty ([BusRef]) also
// keeps which subscribers the program brings along, and takes what belongs to no tenant.
//
//	            subscribe, register       subscribe, unsubscribe, register, divide
//	(empty) ────────────────▶ listening ──┐
//	 │ ▲ ▲                      │  ▲ └────┘
//	 └─┘ └── unsubscribe, ──────┘  └─ publish, heartbeat
//	publish,  register, divide: the last one goes
//	heartbeat
//
// A [Batch] routes each event as soon as it is announced, and carries out what
// comes of it in the same transaction. What the bus itself announces it does not
// route.
//
// Invariants, held by property tests:
//   - Each subscriber has a name of its own, acts in the tenant of the bus, and is one that would be accepted.
//   - There are at most MaxSubscribers, of at most MaxBusBytes together.
//   - The successor of a subscriber stands where that one stood, a new one comes last.
//   - Only a publication or a heartbeat announces anything, and it changes nothing.
//   - A bus without subscribers does not exist.
type Bus struct {
	ID          uuid.UUID      `json:"id"`
	Namespace   string         `json:"namespace,omitempty"`
	Tenant      string         `json:"tenant,omitempty"`
	Subscribers []Subscription `json:"subscribers"` // in the order of subscription
	CreatedAt   Time           `json:"created_at"`
	// Program names the subscribers that the program brings along ([BusRegister]), in
	// their order. They hear an event after the others.
	Program []string `json:"program,omitempty"`
}

// busRules are the rules since which each tenant has a bus of its own. Before, that of [BusRef] had the
// subscribers of all.
const busRules = 15

// BusRef names the bus that knows the subscribers of the program: that of the tenant whose namespace and name are
// empty. What is published, heartbeats and registrations go to it, whichever tenant they are of.
func BusRef() effects.Ref { return commonBus }

var commonBus = effects.Ref{Kind: KindBus, ID: namedID("bus", "", "", "")} // read-only

// BusOf names the bus of a tenant.
func BusOf(namespace, tenant string) effects.Ref {
	if namespace == "" && tenant == "" {
		return commonBus
	}
	return effects.Ref{Kind: KindBus, ID: namedID("bus", namespace, tenant, "")}
}

// BusEvent is an event of [Bus]. The set is closed.
//
//sumtype:decl
type BusEvent interface {
	Event
	busEvent()
}

type (
	// BusSubscribe adds a subscriber to the bus of its tenant, or replaces the one of that name. It acts in that
	// tenant: where it names none, that is meant.
	BusSubscribe struct {
		Namespace  string       `json:"namespace,omitempty"`
		Tenant     string       `json:"tenant,omitempty"`
		Subscriber Subscription `json:"subscriber"`
	}
	// BusUnsubscribe removes the subscriber of that name.
	BusUnsubscribe struct {
		Name string `json:"name"`
	}
	// BusPublish announces an event of a runbook's own (003 Custom). Its category
	// must not be a reserved one ([effects.ReservedCategory]). Subscribers that act in its tenant hear
	// it; without namespace and tenant, those of all.
	BusPublish struct {
		Namespace string              `json:"namespace,omitempty"`
		Tenant    string              `json:"tenant,omitempty"`
		Kind      effects.EventKind   `json:"kind"`
		Source    effects.EventSource `json:"source"`
		Data      json.RawMessage     `json:"data,omitempty"`
	}
)

func (BusSubscribe) busEvent()   {}
func (BusUnsubscribe) busEvent() {}
func (BusPublish) busEvent()     {}

// EventType gives the discriminator in the journal.
func (BusSubscribe) EventType() string   { return "subscribe" }
func (BusUnsubscribe) EventType() string { return "unsubscribe" }
func (BusPublish) EventType() string     { return "publish" }

func (e BusSubscribe) stored() Event {
	e.Subscriber = e.Subscriber.normalised()
	return e
}
func (e BusPublish) stored() Event {
	e.Data = storedResult(e.Data)
	return e
}

// Apply carries out one transition.
func (s Bus) Apply(e BusEvent, c Clock) (Bus, []effects.Effect) {
	switch e := e.(type) {
	case BusSubscribe:
		return s.subscribe(e, c)
	case BusUnsubscribe:
		return s.unsubscribe(e)
	case BusPublish:
		return s.publish(e, c)
	case BusRegister:
		return s.register(e, c)
	case BusHeartbeat:
		return s.heartbeat(e)
	case BusDivide: // see applyIn
		return s, refused(s.Ref(), e, effects.CodeInvalid, "a bus alone is not divided: a batch does it, with the other ones")
	}
	return s, refused(s.Ref(), e, effects.CodeInvalid, "a bus takes no event %q", e.EventType())
}

func (s Bus) find(name string) int {
	return slices.IndexFunc(s.Subscribers, func(sub Subscription) bool { return sub.Name == name })
}

// subscribe: → listening.
func (s Bus) subscribe(e BusSubscribe, c Clock) (Bus, []effects.Effect) {
	sub := e.Subscriber.normalised()
	if !c.Rules.before(busRules) {
		sub = sub.Within(e.scope())
	}
	if err := e.validate(s, sub, c); err != nil {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	if n := len(appendMarshaled(nil, sub)); n > MaxSubscriberBytes {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "subscriber %q: %d bytes are more than %d", clip(sub.Name), n, MaxSubscriberBytes)
	}
	next := s
	if next.ID == uuid.Nil {
		next.ID, next.Namespace, next.Tenant, next.CreatedAt = BusOf(e.Namespace, e.Tenant).ID, e.Namespace, e.Tenant, c.Now
	}
	next.Subscribers = slices.Clone(s.Subscribers)
	if i := s.find(sub.Name); i >= 0 {
		next.Subscribers[i] = sub
	} else {
		next.Subscribers = append(next.Subscribers, sub)
	}
	if n := len(next.Subscribers); n > MaxSubscribers {
		return s, refused(s.Ref(), e, effects.CodeConflict, "subscriber %q would be number %d: at most %d are possible", clip(sub.Name), n, MaxSubscribers)
	}
	if n := len(next.AppendJSON(nil)); n > MaxBusBytes {
		return s, refused(s.Ref(), e, effects.CodeConflict, "subscriber %q: all subscribers together would have %d bytes, which are more than %d", clip(sub.Name), n, MaxBusBytes)
	}
	return next, nil
}

func (e BusSubscribe) scope() Scope { return Scope{e.Namespace, e.Tenant} }

func (e BusSubscribe) validate(s Bus, sub Subscription, c Clock) error {
	if err := checkTenant("", e.Namespace, e.Tenant); err != nil {
		return err
	}
	if err := sub.Validate(); err != nil || c.Rules.before(busRules) {
		return err
	}
	if s.ID != uuid.Nil && s.scope() != e.scope() {
		return fmt.Errorf("namespace: the bus is of namespace %q and tenant %q, not of %q and %q: send it to that of its tenant",
			clip(s.Namespace), clip(s.Tenant), clip(e.Namespace), clip(e.Tenant))
	}
	if of := sub.acts(); of.apart(ofTenant(e.scope())) {
		return fmt.Errorf("do: acts in namespace %q and tenant %q, and the subscriber is of namespace %q and tenant %q: leave namespace and tenant out of do, or subscribe there",
			clip(of.Namespace), clip(of.Tenant), clip(e.Namespace), clip(e.Tenant))
	}
	return nil
}

// unsubscribe: listening → listening, or empty.
func (s Bus) unsubscribe(e BusUnsubscribe) (Bus, []effects.Effect) {
	i := s.find(e.Name)
	if i < 0 {
		return s, refused(s.Ref(), e, effects.CodeNotFound, "name: no subscriber is called %q", clip(e.Name))
	}
	s.Subscribers = without(s.Subscribers, i)
	return s.orNone(), nil
}

// publish announces an event from outside.
func (s Bus) publish(e BusPublish, c Clock) (Bus, []effects.Effect) {
	if err := s.checkCommon(); err != nil {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	if err := e.validate(c); err != nil {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	var data json.RawMessage
	if v := storedResult(e.Data); v != nil {
		data = compacted(v)
	}
	return s, []effects.Effect{effects.Emit{Event: effects.Event{Kind: e.Kind, Source: e.Source, Data: data}}}
}

// checkCommon refuses for the bus of a tenant what the one takes that belongs to none.
func (s Bus) checkCommon() error {
	if s.scope() == (Scope{}) {
		return nil
	}
	return fmt.Errorf("the bus of namespace %q and tenant %q takes only subscribers: send it to the one without", clip(s.Namespace), clip(s.Tenant))
}

func (e BusPublish) validate(c Clock) error {
	for _, part := range []struct{ field, v string }{{"kind.category", e.Kind.Category}, {"kind.action", e.Kind.Action}} {
		if err := checkName(part.field, part.v, true); err != nil {
			return err
		}
		if strings.ContainsAny(part.v, ":*") {
			return fmt.Errorf("%s: %q must not have %q or %q in it", part.field, clip(part.v), ":", "*")
		}
	}
	free := e.Kind.Category == alertCategory && c.Rules.before(alertRules)
	if effects.ReservedCategory(e.Kind.Category) && !free {
		return fmt.Errorf("kind.category: %q is reserved for what the machines announce: use one of your own", e.Kind.Category)
	}
	if err := cmp.Or(checkTenant("", e.Namespace, e.Tenant), checkName("source.component", e.Source.Component, true)); err != nil {
		return err
	}
	if len(trimJSON(e.Data)) == 0 {
		return nil
	}
	return checkJSON("data", e.Data, MaxPublishDataBytes)
}

// Route gives what the subscribers make of an event, in the order of their
// subscription (003 EventBus), but for those of the program, whose code a bus does not
// have. Of which tenant the event is, is not asked: a [Batch] routes it to those alone that act there. It is pure: the effects are carried out by whoever asked. What the bus itself
// announces concerns nobody.
func (s Bus) Route(e effects.Event) []effects.Effect {
	var effs []effects.Effect
	for sub := range s.matching(e) {
		effs = append(effs, sub.handle(e, s.causeOf(e))...)
	}
	return effs
}

// causeOf gives the id from which that of a pipeline is derived that a subscriber starts: subscribers of two tenants
// may have one name and hear one event.
func (s Bus) causeOf(e effects.Event) uuid.UUID {
	if s.scope() == (Scope{}) {
		return e.ID
	}
	return ChildID(e.ID, "bus/"+s.ID.String(), 0, 0)
}

// matching gives the subscribers that the bus keeps and that want an event, in their order.
func (s Bus) matching(e effects.Event) iter.Seq[*Subscription] {
	return func(yield func(*Subscription) bool) {
		if len(s.Subscribers) == 0 || e.Source.ID == commonBus.ID {
			return
		}
		view := seen{Event: e}
		for i := range s.Subscribers {
			if sub := &s.Subscribers[i]; sub.Match.matches(&view) && !yield(sub) {
				return
			}
		}
	}
}

// escalate is what the bus announces of an event that it routes no further.
func (s Bus) escalate(e effects.Event) effects.Event {
	return s.complain(e.ID, fmt.Sprintf("event %s of %s %s arose from %d routings in a row and was not routed: subscribers feed one another", e.Kind, e.Source.Component, e.Source.ID, MaxRoutings))
}

// complain is what the bus announces of an event that went wrong, or of an input.
func (s Bus) complain(event uuid.UUID, message string) effects.Event {
	data := begin(nil)
	data.str("message", message)
	if event != uuid.Nil {
		data.id("event", event)
	}
	return effects.Event{Kind: effects.KindEscalate, Source: effects.EventSource{Component: "bus", ID: commonBus.ID}, Data: data.end()}
}

// Ref names the bus.
func (s Bus) Ref() effects.Ref { return refOf(KindBus, s.ID) }

// Deadline is none: the bus waits for nothing.
func (s Bus) Deadline() Time { return 0 }

// Terms lists the bus under all.
func (s Bus) Terms() []effects.Term {
	return []effects.Term{{Name: TermAll, At: s.CreatedAt, Counted: true}}
}

func (s Bus) scope() Scope { return Scope{s.Namespace, s.Tenant} }

// ofNobody reports whether it is the bus of all: it acts in the tenant of whoever has reached it.
func (s Bus) ofNobody() bool { return s.scope() == Scope{} }

// AppendJSON appends the stored form.
func (s Bus) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

// busEvents are the events of Bus, as the journal has them.
var busEvents = []eventType{
	event[BusSubscribe](), event[BusUnsubscribe](), event[BusPublish](), event[BusRegister](), event[BusHeartbeat](), event[BusDivide](),
}
