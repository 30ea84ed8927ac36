package core

import (
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// announceRefused says that a machine for which nobody waits was not made, because of a
// limit. If the bus itself was to start it, no subscriber hears it: they would feed one
// another.
func (t *Batch) announceRefused(d delivery, r *effects.Refused, res *Result) error {
	ev := effects.Event{
		Kind:   effects.EventKind{Category: string(d.to.Kind), Action: "refused"},
		Source: effects.EventSource{Component: string(d.to.Kind), ID: d.to.ID},
		Data:   announcementTexts("reason", r.Reason, "by", fmt.Sprintf("%s:%s", d.from.Kind, d.from.ID)),
	}
	if d.from.Kind == KindBus {
		t.announce(ev)
		return nil
	}
	return t.emit(ev, res)
}

// routed is what one subscriber makes of an event, and in which tenant it acts.
type routed struct {
	bus  effects.Ref // whose subscriber it is
	effs []effects.Effect
	of   sphere
}

// emit gives an announcement its id and time, and routes it on the bus (003).
func (t *Batch) emit(ev effects.Event, res *Result) error {
	ev = t.announce(ev)
	all, err := t.route(ev)
	if err != nil {
		return err
	}
	s, err := t.slot(commonBus)
	if err != nil {
		return err
	}
	if bus, ok := s.now.(Bus); ok && len(bus.Program) > 0 {
		more, err := t.routeToProgram(bus, ev)
		if err != nil {
			return err
		}
		if len(more) > 0 {
			all = append(all, routed{commonBus, more, t.of})
		}
	}
	if len(all) == 0 {
		return nil
	}
	if t.hops == MaxRoutings {
		t.announce(Bus{}.escalate(ev))
		return nil
	}
	of := t.of
	t.hops++
	defer func() { t.hops, t.of = t.hops-1, of }()
	for _, one := range all {
		t.of = one.of
		for _, e := range one.effs {
			if err := t.carry(one.bus, e, res); err != nil {
				return err
			}
		}
	}
	return nil
}

// route asks the subscribers on the buses that may want the event: that of its tenant, the common one, and that of the tenant
// that tells people of all events; or those of all tenants if it is of none. By earlier rules there is the common one only.
func (t *Batch) route(ev effects.Event) (all []routed, err error) {
	refs := []effects.Ref{commonBus}
	switch {
	case t.clock.Rules.before(busRules):
	case t.of.bound:
		if own := BusOf(t.of.Namespace, t.of.Tenant); own != commonBus {
			refs = append(refs, own)
		}
		if t.of.Scope != (Scope{NotifyNamespace, NotifyTenant}) {
			refs = append(refs, notifyBus)
		}
	default:
		if refs, err = t.buses(); err != nil {
			return nil, err
		}
	}
	for _, ref := range refs {
		s, err := t.slot(ref)
		if err != nil {
			return nil, err
		}
		bus, ok := s.now.(Bus)
		if !ok {
			continue
		}
		for sub := range bus.matching(ev) {
			acts := t.of
			if t.keepsTenantsApart() {
				if acts = bus.actsFor(sub); !acts.hears(t.of) {
					continue
				}
				acts = acts.or(t.of)
			}
			effs := sub.handle(ev, bus.causeOf(ev))
			if len(effs) == 0 {
				continue
			}
			if len(all) == MaxReactions {
				t.announce(bus.complain(ev.ID, fmt.Sprintf("event %s is of no tenant, and %d subscribers have heard it: the others have not, for one event reaches no more", ev.Kind, MaxReactions)))
				return all, nil
			}
			all = append(all, routed{ref, effs, acts})
		}
	}
	return all, nil
}

// HeardOn names the buses on which is routed what follows from an event that comes from outside, as far as the event says
// of which tenant it is: a batch is going to read them.
func HeardOn(e Event) []effects.Ref {
	of := sphereOfEvent(e)
	if !of.bound {
		return nil
	}
	return []effects.Ref{BusOf(of.Namespace, of.Tenant), commonBus, notifyBus}
}

var notifyBus = BusOf(NotifyNamespace, NotifyTenant) // read-only

// actsFor gives the tenant in which a subscriber acts. That of a signal is the one of the bus, if it is not the common one.
func (s Bus) actsFor(sub *Subscription) sphere {
	acts := sub.acts()
	if !acts.bound && !s.ofNobody() {
		acts = ofTenant(s.scope())
	}
	return acts
}

// buses names all buses that there are now, in the order in which they were made. What there was before is read once by a
// batch; what the batch itself has made comes after it, and is sorted in.
func (t *Batch) buses() ([]effects.Ref, error) {
	if !t.busesRead {
		t.busesBefore = t.busesBefore[:0]
		for after := (Cursor{}); ; {
			page, err := t.loader.Scan(KindBus, TermAll, after, lastPage)
			if err != nil {
				t.lost = true
				return nil, err
			}
			t.busesBefore = append(t.busesBefore, page...)
			if len(page) < lastPage {
				break
			}
			after = page[len(page)-1]
		}
		t.busesRead = true
	}
	now := slices.DeleteFunc(slices.Clone(t.busesBefore), func(p Cursor) bool {
		s, seen := t.slots[effects.Ref{Kind: KindBus, ID: p.ID}]
		return seen && s.changed
	})
	for _, s := range t.order {
		if bus, ok := s.now.(Bus); ok && s.changed {
			now = append(now, Cursor{bus.CreatedAt, bus.ID})
		}
	}
	slices.SortFunc(now, Cursor.compare)
	refs := make([]effects.Ref, len(now))
	for i, p := range now {
		refs[i] = effects.Ref{Kind: KindBus, ID: p.ID}
	}
	return refs, nil
}
