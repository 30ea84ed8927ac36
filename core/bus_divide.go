package core

import (
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// BusDivide takes the subscribers that the common bus ([BusRef]) has of other tenants to the buses of these: before
// [Version] 15 it had those of all. One that signals a pipeline goes to the tenant of that; it stays if the pipeline
// does not exist. What a set of files has declared, it owns as before.
type BusDivide struct{}

func (BusDivide) busEvent() {}

// EventType gives the discriminator in the journal.
func (BusDivide) EventType() string { return "divide" }

// applyIn carries out one transition: to divide, a bus needs the other ones.
func (s Bus) applyIn(t *Batch, e Event) (State, []effects.Effect, error) {
	divide, ok := e.(BusDivide)
	if !ok {
		next, effs := kinds[KindBus].apply(s, e, t.clock)
		return next, effs, nil
	}
	r := records{t: t}
	next, effs := s.divide(&r, divide, t.clock)
	return next, effs, r.err
}

// divide: listening → listening, or empty.
func (s Bus) divide(r *records, e BusDivide, c Clock) (Bus, []effects.Effect) {
	if err := s.checkCommon(); err != nil {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	var stay []Subscription
	for _, sub := range s.Subscribers {
		if of := r.tenantOf(&sub); of == (Scope{}) {
			stay = append(stay, sub)
		} else {
			r.resubscribe(sub, of, c)
		}
	}
	if len(stay) == len(s.Subscribers) {
		return s, refused(s.Ref(), e, effects.CodeExists, "no subscriber is of another tenant")
	}
	s.Subscribers = stay
	return s.orNone(), nil
}

// tenantOf gives the tenant in which a subscriber acts; the one whose names are empty if nobody knows.
func (r *records) tenantOf(sub *Subscription) Scope {
	acts := sub.acts()
	if signal := sub.Do.Signal; signal != nil {
		acts = sphereOf(r.record(KindPipeline, signal.Pipeline))
	}
	return acts.Scope
}

// resubscribe takes a subscriber from the common bus to that of its tenant. One of that name that is there already is
// the later one, and stays.
func (r *records) resubscribe(sub Subscription, of Scope, c Clock) {
	to := BusOf(of.Namespace, of.Tenant)
	bus, ok := r.record(KindBus, to.ID).(Bus)
	if !ok {
		bus = Bus{ID: to.ID, Namespace: of.Namespace, Tenant: of.Tenant, CreatedAt: c.Now}
	}
	owned := DeclaredRef(commonBus, sub.Name)
	declared, isDeclared := r.record(KindDeclared, owned.ID).(Declared)
	if isDeclared {
		r.drop(KindDeclared, owned.ID)
	}
	if bus.find(sub.Name) >= 0 {
		return
	}
	bus.Subscribers = append(slices.Clone(bus.Subscribers), sub)
	r.put(bus)
	if isDeclared {
		declared.ID, declared.Machine = DeclaredRef(to, sub.Name).ID, to.ID
		declared.Namespace, declared.Tenant = of.Namespace, of.Tenant
		r.put(declared)
	}
}
