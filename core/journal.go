package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// Entry is one entry of the journal: the inputs of one [Batch] that changed
// something, with all that is needed to make the same batch again (F3).
type Entry struct {
	Seq      uint64 `json:"seq"`
	At       Time   `json:"at"`       // the clock reading
	Core     string `json:"core"`     // [Version] of the build that decided
	TZDB     string `json:"tzdb"`     // version of its time zone database
	Instance string `json:"instance"` // the engine that committed it
	// Partition is the one whose journal it is, see [Batch.Partition]; 0 is left out of the stored form.
	Partition uint16  `json:"partition,omitempty"`
	Inputs    []Input `json:"inputs"`
}

// NewEntry starts the batch of a batch.
func NewEntry(seq uint64, at Time, instance string) Entry {
	return Entry{Seq: seq, At: at, Core: Version, TZDB: schedule.TZVersion, Instance: instance}
}

// AppendJSON appends the journal form.
func (b Entry) AppendJSON(dst []byte) []byte {
	o := begin(dst)
	o.num("seq", b.Seq)
	o.time("at", b.At)
	o.str("core", b.Core)
	o.str("tzdb", b.TZDB)
	o.str("instance", b.Instance)
	if b.Partition != 0 {
		o.num("partition", uint64(b.Partition))
	}
	o.key("inputs")
	o.b = append(o.b, '[')
	for i, in := range b.Inputs {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = in.appendJSON(o.b)
	}
	o.b = append(o.b, ']')
	return o.end()
}

func (in Input) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("kind", string(in.To.Kind))
	o.id("id", in.To.ID)
	o.str("actor", in.Actor)
	if in.Ack != 0 {
		o.num("ack", uint64(in.Ack))
	}
	if len(in.Full) > 0 {
		o.key("full")
		o.b = append(o.b, '[')
		for i, f := range in.Full {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			o.b = f.appendJSON(o.b)
		}
		o.b = append(o.b, ']')
	}
	if in.BySet != nil {
		o.key("by_set")
		o.b = appendMarshaled(o.b, in.BySet)
	}
	o.key("event")
	o.b = AppendEvent(o.b, in.Event)
	return o.end()
}

// DecodeEntry reads the journal form. What it returns keeps no part of b.
func DecodeEntry(b []byte) (Entry, error) {
	if e, ok := scanEntry(b); ok {
		return e, nil
	}
	return decodeEntry(b)
}

// scanEntry reads an entry as this package writes it, and has encoding/json read only
// events of which there are few; ok is false if there is anything else in it.
func scanEntry(b []byte) (e Entry, ok bool) {
	s := &scan{b: b}
	s.want(`{"seq":`)
	e.Seq = s.uint(math.MaxUint64)
	s.want(`,"at":`)
	e.At = s.time()
	e.Core = s.field(`,"core":`)
	e.TZDB = s.field(`,"tzdb":`)
	e.Instance = s.field(`,"instance":`)
	if s.next(`,"partition":`) {
		e.Partition = uint16(s.uint(MaxPartitions - 1))
	}
	s.want(`,"inputs":[`)
	e.Inputs = make([]Input, 0, bytes.Count(b, []byte(`,"actor":`))) // about
	for more := !s.next("]"); more && !s.off; {
		e.Inputs = append(e.Inputs, s.input())
		if more = !s.next("]"); more {
			s.want(",")
		}
	}
	s.want("}")
	return e, s.done()
}

func (s *scan) input() (in Input) {
	s.want(`{"kind":`)
	in.To.Kind = s.kind()
	s.want(`,"id":`)
	in.To.ID = s.id()
	in.Actor = s.field(`,"actor":`)
	if s.next(`,"ack":`) {
		in.Ack = s.uint32()
	}
	if s.next(`,"full":`) && json.Unmarshal(s.value(), &in.Full) != nil {
		s.fail()
	}
	if s.next(`,"by_set":`) && json.Unmarshal(s.value(), &in.BySet) != nil {
		s.fail()
	}
	s.want(`,"event":`)
	in.Event = s.event(in.To.Kind)
	s.want("}")
	return in
}

// event reads the event of a machine.
func (s *scan) event(kind effects.Kind) (e Event) {
	if s.off {
		return nil
	}
	begin := s.i
	if known := kinds[kind].scanEvent; known != nil {
		s.want(`{"type":`)
		e = known(s, s.quoted())
		if s.want("}"); !s.off {
			return e
		}
		s.i, s.off = begin, false
	}
	e, err := DecodeEvent(kind, s.value())
	if err != nil {
		s.fail()
	}
	return e
}

// decodeEntry reads whatever encoding/json takes for a journal form.
func decodeEntry(b []byte) (Entry, error) {
	var w struct {
		Entry
		Inputs []struct {
			effects.Ref
			Actor string          `json:"actor"`
			Ack   uint32          `json:"ack"`
			Full  []Full          `json:"full"`
			BySet *Declaration    `json:"by_set"`
			Event json.RawMessage `json:"event"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return Entry{}, fmt.Errorf("decode journal batch: %w", err)
	}
	out := w.Entry
	out.Inputs = make([]Input, len(w.Inputs))
	for i, in := range w.Inputs {
		e, err := DecodeEvent(in.Kind, in.Event)
		if err != nil {
			return Entry{}, fmt.Errorf("journal batch %d, input %d: %w", w.Seq, i, err)
		}
		out.Inputs[i] = Input{To: in.Ref, Actor: in.Actor, Event: e, Ack: in.Ack, Full: in.Full, BySet: in.BySet}
	}
	return out, nil
}
