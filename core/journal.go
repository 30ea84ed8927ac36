package core

import (
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// Entry is one entry of the journal: the inputs of one [Batch] that changed
// something, with all that is needed to make the same batch again (F3).
type Entry struct {
	Seq      uint64  `json:"seq"`
	At       Time    `json:"at"`       // the clock reading
	Core     string  `json:"core"`     // [Version] of the build that decided
	TZDB     string  `json:"tzdb"`     // version of its time zone database
	Instance string  `json:"instance"` // the engine that committed it
	Inputs   []Input `json:"inputs"`
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
	o.key("event")
	o.b = AppendEvent(o.b, in.Event)
	return o.end()
}

// DecodeEntry reads the journal form.
func DecodeEntry(b []byte) (Entry, error) {
	var w struct {
		Entry
		Inputs []struct {
			effects.Ref
			Actor string          `json:"actor"`
			Ack   uint32          `json:"ack"`
			Full  []Full          `json:"full"`
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
		out.Inputs[i] = Input{To: in.Ref, Actor: in.Actor, Event: e, Ack: in.Ack, Full: in.Full}
	}
	return out, nil
}
