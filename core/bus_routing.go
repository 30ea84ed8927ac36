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
	routed := bus.Route(ev)
	if len(bus.Program) > 0 {
		more, err := t.routeToProgram(bus, ev)
		if err != nil {
			return err
		}
		routed = append(routed, more...)
	}
	if len(routed) == 0 {
		return nil
	}
	if t.hops == MaxRoutings {
		t.announce(bus.escalate(ev))
		return nil
	}
	t.hops++
	defer func() { t.hops-- }()
	for _, e := range routed {
		if err := t.carry(BusRef(), e, res); err != nil {
			return err
		}
	}
	return nil
}
