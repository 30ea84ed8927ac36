package core

import (
	"maps"

	"github.com/orrery-go/orrery/effects"
)

// ApplyAll takes inputs as one: each in its order, as [Batch.Apply] does, or none of them. At
// the first one that is refused and changes nothing, all that the earlier ones did is undone,
// and refused is its index; -1: all were taken. mayPass, if there is one, says which refused
// inputs the others do without.
//
// An error means that the input of that index could not be decided; nothing is left of any of
// them then.
//
// The results are those of the inputs up to the refused one. Where all were taken, those that
// changed something belong into the journal one by one, each with its own [Result.Full]: a
// replay needs not know that they came together, as it meets the same states.
func (t *Batch) ApplyAll(inputs []Input, mayPass func(i int, r *effects.Refused) bool) (results []Result, refused int, err error) {
	t.undo = t.undo[:0]
	t.together = true
	defer func() { t.together = false }()
	before, taken, made := t.mark(), t.taken, maps.Clone(t.bounds.made)
	undo := func() {
		t.backTo(before)
		t.taken, t.bounds.made = taken, made
	}
	results = make([]Result, 0, len(inputs))
	for i, in := range inputs {
		res, err := t.Apply(in)
		if err != nil {
			undo()
			return results, i, err
		}
		results = append(results, res)
		if res.Stopped() && (mayPass == nil || !mayPass(i, res.Refused)) {
			undo()
			return results, i, nil
		}
	}
	return results, -1, nil
}

// Stopped reports whether the input was refused as a whole.
func (r Result) Stopped() bool { return r.Refused != nil && !r.Changed }

// mark is a point of a batch to which it can go back.
type mark struct {
	undo     int
	outer    []OuterEffect
	withdraw []WithdrawnEffect
	stop     []StoppedEffect
	events   []effects.Event
	order    []*slot
}

func (t *Batch) mark() mark { return mark{len(t.undo), t.outer, t.withdraw, t.stop, t.events, t.order} }

// backTo undoes all that was done since the mark.
func (t *Batch) backTo(m mark) {
	t.rollback(m.undo)
	t.outer, t.withdraw, t.stop, t.events, t.order = m.outer, m.withdraw, m.stop, m.events, m.order
}
