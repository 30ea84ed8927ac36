// Package effects is the vocabulary that the pure core speaks to the shell:
// references to machines, instants, bus events, and the effects that a
// transition asks for. It decides nothing and does nothing.
//
// Effects are of two kinds, and their types say which. An [Inner] effect stays
// in the system and is carried out in the transaction that commits the
// transition. An [Outer] effect leaves the process: it is committed to the
// outbox with the state, interpreted afterwards, and answered by an event.
package effects

import (
	"fmt"

	"github.com/google/uuid"
)

// Kind names a kind of machine: "action", "recurring". It is part of the
// stored form and never changes once released.
type Kind string

// Ref names one machine. Ids are unique across kinds, since all kinds share
// one due index whose keys hold the id alone (A5).
type Ref struct {
	Kind Kind      `json:"kind"`
	ID   uuid.UUID `json:"id"`
}

// String gives "kind/id".
func (r Ref) String() string { return fmt.Sprintf("%s/%s", r.Kind, r.ID) }

// IsZero reports whether r names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }
