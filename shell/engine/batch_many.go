package engine

import (
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Many says how the inputs of a request are taken that are answered each by itself. They are
// taken in their order, in one batch.
type Many struct {
	// All has them taken as one: all of them or none ([core.Batch.ApplyAll]). The first
	// that is refused is named by the error of the reply, which is an [*EntryError] then.
	All bool
	// MayPass says with All which refused inputs the others do without; nil: none.
	MayPass func(i int, r *effects.Refused) bool
	// If, if there is one, looks with All at the state of the machine of each input, as it is
	// before any of them; nil: it does not exist. Its error is that of the entry, and nothing is done.
	If func(i int, s core.State) error
	// Want names for each input the machine whose state the caller wants to see: as the
	// whole batch leaves it, but of an input that was refused as it is at that moment.
	// A zero Ref: none.
	Want []effects.Ref
}

// Answered is the answer to one of many inputs.
type Answered struct {
	Result core.Result
	State  core.State // of the machine that was wanted; nil: it does not exist
	Err    error      // why it could not be decided, or its refusal
}

// EntryError is the error of one of several things that were asked for in one request.
type EntryError struct {
	Index int // from 0
	Err   error
}

// Error names the entry by its index, from 0.
func (e *EntryError) Error() string { return fmt.Sprintf("entry %d: %v", e.Index, e.Err) }

// Unwrap gives what was wrong with the entry.
func (e *EntryError) Unwrap() error { return e.Err }

// applyMany takes the inputs of a request that are answered each by itself.
func (b *batch) applyMany(r *request) Reply {
	if r.Many.All {
		return b.applyAsOne(r)
	}
	each := make([]Answered, len(r.Inputs))
	for i, in := range r.Inputs {
		res, err := b.apply(b.shortened(in))
		each[i] = b.answered(r, i, res, err)
	}
	return Reply{Each: each}
}

// applyAsOne takes all the inputs of a request, or none.
func (b *batch) applyAsOne(r *request) Reply {
	var results []core.Result
	refused := -1
	if i, err := b.allowedAll(r); err != nil {
		return Reply{Err: &EntryError{Index: i, Err: err}}
	}
	for i, in := range r.Inputs {
		r.Inputs[i] = b.informed(in)
	}
	err := b.decide(func() (err error) {
		results, refused, err = b.fold.ApplyAll(r.Inputs, r.Many.MayPass)
		return err
	})
	switch {
	case err != nil:
		refused = max(refused, 0) // below, if what was met on the way could not be set aside
		b.undecided(r.Inputs[refused], err)
		return Reply{Err: &EntryError{Index: refused, Err: err}}
	case refused >= 0:
		b.taken(r.Inputs[refused], results[refused])
		return Reply{Err: &EntryError{Index: refused, Err: results[refused].Refused}}
	}
	each := make([]Answered, len(r.Inputs))
	for i, res := range results {
		b.taken(r.Inputs[i], res)
		each[i] = b.answered(r, i, res, nil)
	}
	return Reply{Each: each}
}

// allowedAll asks whether each input of a request still holds, and names the first that does not. If a
// machine's record cannot be read, the input says so.
func (b *batch) allowedAll(r *request) (refused int, err error) {
	for i := 0; r.Many.If != nil && i < len(r.Inputs); i++ {
		s, err := b.fold.State(r.Inputs[i].To)
		if err != nil {
			continue
		}
		if err := r.Many.If(i, s); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// answered is the answer to one of the inputs of a request, as far as it is known before the
// end of the batch.
func (b *batch) answered(r *request, i int, res core.Result, err error) Answered {
	a := Answered{Result: res, Err: err}
	if err == nil && res.Stopped() {
		a.Err = res.Refused
		a.State, _ = b.wanted(r, i) // which the refusal says more of, if it can be read
	}
	return a
}

// wanted gives the state that is to be seen of one of the inputs; nil if none is.
func (b *batch) wanted(r *request, i int) (core.State, error) {
	if i >= len(r.Many.Want) || r.Many.Want[i].IsZero() {
		return nil, nil
	}
	return b.fold.State(r.Many.Want[i])
}

// seeMany notes the states that the i-th request, if it has many inputs, wants to see as the
// whole batch leaves them.
func (b *batch) seeMany(i int, r *request) {
	if r.Many == nil || b.replies[i].Err != nil {
		return
	}
	for j := range b.replies[i].Each {
		a := &b.replies[i].Each[j]
		if a.Err == nil {
			a.State, a.Err = b.wanted(r, j)
		}
	}
}
