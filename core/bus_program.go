package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

type (
	// BusRegister says which subscribers the program brings along ([Batch.Subscribers]), by
	// their names: from here on these hear events, and none that it brought before.
	BusRegister struct {
		Names []string `json:"names"`
	}
	// BusHeartbeat says that an instance is at work: it announces system:heartbeat
	// (003 Heartbeat).
	BusHeartbeat struct {
		Instance uuid.UUID `json:"instance"` // whose heartbeat it is
		EveryMS  int64     `json:"every_ms"` // when the next one follows
	}
)

func (BusRegister) busEvent()  {}
func (BusHeartbeat) busEvent() {}

// EventType gives the discriminator in the journal.
func (BusRegister) EventType() string  { return "register" }
func (BusHeartbeat) EventType() string { return "heartbeat" }

// register: → listening, or empty.
func (s Bus) register(e BusRegister, c Clock) (Bus, []effects.Effect) {
	if err := s.checkCommon(); err != nil {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	names := slices.Compact(slices.Sorted(slices.Values(e.Names)))
	if len(names) > MaxSubscribers {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "names: %d subscribers of the program are more than %d", len(names), MaxSubscribers)
	}
	for _, name := range names {
		if err := checkName("names", name, true); err != nil {
			return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
		}
	}
	if slices.Equal(names, s.Program) {
		return s, refused(s.Ref(), e, effects.CodeExists, "these subscribers of the program are registered already")
	}
	if s.ID == uuid.Nil {
		s.ID, s.CreatedAt = commonBus.ID, c.Now
	}
	if s.Program = names; len(names) == 0 {
		s.Program = nil
	}
	return s.orNone(), nil
}

// orNone gives the bus, or none if it has no subscriber.
func (s Bus) orNone() Bus {
	if len(s.Subscribers)+len(s.Program) == 0 {
		return Bus{}
	}
	return s
}

// heartbeat announces that an instance is at work.
func (s Bus) heartbeat(e BusHeartbeat) (Bus, []effects.Effect) {
	if err := s.checkCommon(); err != nil {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	if err := checkBetween("every_ms", e.EveryMS, 1, 24*60*60*1000); err != nil {
		return s, refused(s.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	data := begin(nil)
	data.num("every_ms", uint64(e.EveryMS))
	return s, []effects.Effect{effects.Emit{Event: effects.Event{
		Kind: effects.KindHeartbeat, Source: effects.EventSource{Component: "engine", ID: e.Instance}, Data: data.end(),
	}}}
}

// Subscribers gives the batch the subscribers that the program brings along, by name. The bus
// routes events to those that a [BusRegister] has named: a batch that has to and lacks one
// cannot decide. What [Subscriber.Handle] gives is carried out as if a machine had: it may
// hold what stays inside, that is [effects.Send] of an [Event], [effects.Emit] of a custom kind
// and other [effects.Inner] effects. One that gives something else, or panics, has done
// nothing, and an escalation says so. So it is with all of them where an input cannot be
// carried out because of what they gave: it is carried out without that.
func (t *Batch) Subscribers(program map[string]Subscriber) { t.program = program }

// routeToProgram gives what the subscribers of the program make of an event, in the order of
// their names.
func (t *Batch) routeToProgram(bus Bus, e effects.Event) (effs []effects.Effect, err error) {
	if t.muted || e.Source.ID == bus.ID {
		return nil, nil
	}
	for _, name := range bus.Program {
		s, known := t.program[name]
		if !known {
			t.lost = true
			return nil, fmt.Errorf("subscriber %q of the program hears events, and is not here: give it as it was registered", name)
		}
		made, problem := handled(s, e, t.clock)
		if problem != "" {
			t.announce(bus.complain(e.ID, fmt.Sprintf("subscriber %q of the program %s: it has done nothing", name, problem)))
			continue
		}
		effs = append(effs, made...)
	}
	t.heeded = t.heeded || len(effs) > 0
	return effs, nil
}

// try runs one input; without what the program's subscribers make of it, if it is they for whom
// it cannot be carried out: its sender knows nothing of them.
func (t *Batch) try(in Input) (Result, error) {
	res, err := t.attempt(in)
	if err == nil || !t.heeded || t.lost {
		return res, err
	}
	reason := err.Error()
	if errors.Is(err, errHalf) {
		reason = res.Refused.Reason
	}
	t.muted = true
	defer func() { t.muted = false }()
	if res, err = t.attempt(in); err == nil && res.Changed {
		t.announce(Bus{}.complain(uuid.Nil, fmt.Sprintf("what subscribers of the program made of %q to %s cannot be carried out: %s: they have done nothing", in.Event.EventType(), in.To, reason)))
	}
	return res, err
}

// handled asks a subscriber of the program, which may panic or give what it must not. Of a
// panic no more is told: what it says may differ from one run to the next.
func handled(s Subscriber, e effects.Event, c Clock) (effs []effects.Effect, problem string) {
	defer func() {
		if recover() != nil {
			effs, problem = nil, "panicked"
		}
	}()
	e.Data = slices.Clone(e.Data)
	if s == nil || !s.Matches(e) {
		return nil, ""
	}
	effs = s.Handle(e)
	for _, made := range effs {
		if problem := mustNotGive(made, c); problem != "" {
			return nil, problem
		}
	}
	return effs, ""
}

// mustNotGive says why a subscriber of the program must not give an effect; empty: it may.
func mustNotGive(e effects.Effect, c Clock) string {
	switch e := e.(type) {
	case effects.Send:
		if _, ok := e.Event.(Event); !ok || kinds[e.To.Kind].apply == nil {
			return fmt.Sprintf("sends %T to %q, which no machine takes", e.Event, clip(string(e.To.Kind)))
		}
	case effects.Emit:
		own := BusPublish{Kind: e.Event.Kind, Source: e.Event.Source, Data: e.Event.Data}
		if err := own.validate(c); err != nil {
			return fmt.Sprintf("announces what it may not: %s", err)
		}
	case effects.Withdraw, effects.Stop, effects.Answer, effects.Refused, effects.Outer:
		return fmt.Sprintf("gives %T, which only a machine may", e)
	case effects.Inner: // stays inside
	}
	return ""
}
