package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// carry puts one effect where it belongs.
func (t *Batch) carry(from effects.Ref, e effects.Effect, res *Result) error {
	switch e := e.(type) {
	case effects.Send:
		ev, ok := e.Event.(Event)
		if !ok {
			return fmt.Errorf("%s sends %T, which is no event of a machine", from, e.Event)
		}
		t.send(from, e.To, ev)
	case effects.Emit:
		return t.emit(e.Event, res)
	case effects.Withdraw:
		// An effect of this very batch has not left yet: it just goes.
		mine := func(o OuterEffect) bool { return o.From == from && o.Effect.Number() == e.N }
		if i := slices.IndexFunc(t.outer, mine); i >= 0 {
			t.outer = slices.Delete(slices.Clone(t.outer), i, i+1)
			return nil
		}
		t.withdraw = append(t.withdraw, WithdrawnEffect{From: from, N: e.N, Kill: e.Kill})
	case effects.Stop:
		t.stop = append(t.stop, StoppedEffect{From: from, N: e.N})
	case effects.Answer: // taken by deliver
	case effects.Refused:
		return errors.New("a refusal stands beside other effects")
	case effects.Inner:
		return t.carryRequest(from, e)
	case effects.Outer:
		t.outer = append(t.outer, OuterEffect{From: from, Effect: e})
	}
	return nil
}

// announce gives an announcement its id and time.
func (t *Batch) announce(ev effects.Event) effects.Event {
	ev.ID = t.eventID(len(t.events))
	ev.Timestamp = t.clock.Now
	t.events = append(t.events, ev)
	return ev
}

// eventID derives the id of an announcement (UUID version 8): 48 bits of the
// number of the journal entry, 12 of that of the partition, then its index among the announcements.
func (t *Batch) eventID(n int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], t.seq<<16)
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	id[6] = 0x80
	id[8] = 0x80
	putPartition(&id, t.part)
	return id
}
