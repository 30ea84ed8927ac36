package core

import "github.com/orrery-go/orrery/effects"

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
