package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// records are what a machine keeps beside its own record, as a batch has them: each is a slot
// of its own, looked up when the transition asks for it.
type records struct {
	t   *Batch
	err error // the first thing that could not be read
}

// slot gives the slot of a record; nil if something could not be read.
func (r *records) slot(ref effects.Ref) (s *slot) {
	if r.err == nil {
		s, r.err = r.t.slot(ref)
	}
	return s
}

func (r *records) record(kind effects.Kind, id uuid.UUID) State {
	if s := r.slot(effects.Ref{Kind: kind, ID: id}); s != nil {
		return s.now
	}
	return nil
}

func (r *records) put(record State) { r.change(record.Ref(), record) }

func (r *records) drop(kind effects.Kind, id uuid.UUID) { r.change(refOf(kind, id), zero(kind)) }

func (r *records) change(ref effects.Ref, to State) {
	if s := r.slot(ref); s != nil {
		r.t.change(s, to)
	}
}
