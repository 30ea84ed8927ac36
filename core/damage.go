package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// ReasonUnreadable is the reason that a machine is given when the record of a machine,
// item or lock that it waits for was set aside.
const ReasonUnreadable = "its record could not be read, and was set aside"

// LostTo gives the inputs for the machines that wait for a machine whose record could
// not be read and was set aside, so that none of them waits for ever. The waiting
// machines are those that the bytes of the record still name.
func LostTo(lost effects.Ref, raw []byte) []Input {
	was := salvage(raw)
	var out []Input
	tell := func(o Owner, e Event) {
		if !o.IsZero() && zero(o.Ref.Kind) != nil {
			out = append(out, Input{To: o.Ref, Actor: "recovery", Event: e})
		}
	}
	switch kind := kinds[lost.Kind]; {
	case kind.child:
		for _, o := range append([]Owner{was.Owner}, was.Watchers...) {
			tell(o, ChildEnded{Child: lost, N: o.N, Outcome: ChildFailed, Reason: ReasonUnreadable, Interrupted: true})
		}
	case kind.release != nil:
		tell(was.Owner, Lost{N: was.Owner.N, Name: was.Name, Reason: ReasonUnreadable})
		for _, w := range append(was.Holders, was.Waiters...) {
			tell(w.Owner, Lost{N: w.Owner.N, Name: was.Name, Reason: ReasonUnreadable})
		}
	}
	return out
}

// salvaged is what is of use of a record that could not be read.
type salvaged struct {
	Name     string                  `json:"name"`
	Key      string                  `json:"key"` // of an item
	DedupKey string                  `json:"dedup_key"`
	Owner    Owner                   `json:"owner"`    // of a child, or who holds a lock
	Watchers []Owner                 `json:"watchers"` // of a pipeline
	Holders  []struct{ Owner Owner } `json:"holders"`  // of a semaphore
	Waiters  []struct{ Owner Owner } `json:"waiters"`
}

// salvage reads what may be left in the bytes of a record: of its state, or of
// the state within a store's envelope. It may be anything.
func salvage(raw []byte) (s salvaged) {
	var envelope struct {
		CRC   string          `json:"crc"`
		State json.RawMessage `json:"state"`
	}
	if json.Unmarshal(raw, &envelope) == nil && envelope.CRC != "" {
		raw = envelope.State
	}
	if json.Unmarshal(raw, &s) != nil {
		return salvaged{}
	}
	return s
}
