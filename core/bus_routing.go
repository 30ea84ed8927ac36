package core

import (
	"fmt"

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
	if d.from == BusRef() {
		t.announce(ev)
		return nil
	}
	return t.emit(ev, res)
}

// routed is what one subscriber makes of an event, and in which tenant it acts.
type routed struct {
	effs []effects.Effect
	of   sphere
}

// emit gives an announcement its id and time, and routes it on the bus (003).
func (t *Batch) emit(ev effects.Event, res *Result) error {
	ev = t.announce(ev)
	s, err := t.slot(BusRef())
	if err != nil {
		return err
	}
	bus, ok := s.now.(Bus)
	if !ok {
		return nil
	}
	all := t.route(bus, ev)
	if len(bus.Program) > 0 {
		more, err := t.routeToProgram(bus, ev)
		if err != nil {
			return err
		}
		if len(more) > 0 {
			all = append(all, routed{more, t.of})
		}
	}
	if len(all) == 0 {
		return nil
	}
	if t.hops == MaxRoutings {
		t.announce(bus.escalate(ev))
		return nil
	}
	of := t.of
	t.hops++
	defer func() { t.hops, t.of = t.hops-1, of }()
	for _, one := range all {
		t.of = one.of
		for _, e := range one.effs {
			if err := t.carry(BusRef(), e, res); err != nil {
				return err
			}
		}
	}
	return nil
}

// route asks the subscribers that the bus keeps: those that act in the tenant of the event, or all if it is of none. By
// earlier rules each of them hears all.
func (t *Batch) route(bus Bus, ev effects.Event) (all []routed) {
	for s := range bus.matching(ev) {
		acts := t.of
		if t.keepsTenantsApart() {
			if acts = s.acts(); !acts.hears(t.of) {
				continue
			}
			acts = acts.or(t.of)
		}
		if effs := s.Handle(ev); len(effs) > 0 {
			all = append(all, routed{effs, acts})
		}
	}
	return all
}
