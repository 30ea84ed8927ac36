package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Owner names the machine that waits for another one to end, and the number
// under which it waits. The zero Owner: nobody waits.
type Owner struct {
	Ref effects.Ref
	N   uint32
}

// IsZero reports whether nobody waits.
func (o Owner) IsZero() bool { return o == Owner{} }

func (o Owner) appendJSON(b []byte) []byte {
	if o.IsZero() {
		return append(b, "null"...)
	}
	w := begin(b)
	w.str("kind", string(o.Ref.Kind))
	w.id("id", o.Ref.ID)
	w.num("n", uint64(o.N))
	return w.end()
}

// MarshalJSON encodes {"kind":…,"id":…,"n":…}, nobody as null.
func (o Owner) MarshalJSON() ([]byte, error) { return o.appendJSON(nil), nil }

// UnmarshalJSON decodes both forms.
func (o *Owner) UnmarshalJSON(b []byte) error {
	var w struct {
		effects.Ref
		N uint32 `json:"n"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*o = Owner{Ref: w.Ref, N: w.N}
	return nil
}

// ended tells the owner, if there is one, how its child ended.
func (o Owner) ended(e ChildEnded) []effects.Effect {
	if o.IsZero() {
		return nil
	}
	e.N = o.N
	return []effects.Effect{effects.Send{To: o.Ref, Event: e}}
}

// validate refuses an owner that could never be told: the end would not go
// through.
func (o Owner) validate() error {
	if !o.IsZero() && (o.Ref.ID == uuid.Nil || zero(o.Ref.Kind) == nil) {
		return fmt.Errorf("owner: %q with id %s names no machine", clip(string(o.Ref.Kind)), o.Ref.ID)
	}
	return nil
}

// ChildOutcome says how a child ended.
type ChildOutcome string

// Outcomes of a child.
const (
	ChildSucceeded ChildOutcome = "succeeded"
	ChildFailed    ChildOutcome = "failed"
	ChildCancelled ChildOutcome = "cancelled"
	ChildRefused   ChildOutcome = "refused" // it was never made; Reason says why
)

// known reports whether it is one of the outcomes.
func (o ChildOutcome) known() bool {
	return o == ChildSucceeded || o == ChildFailed || o == ChildCancelled || o == ChildRefused
}
