package wire

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// FoundList is the answer to GET /v1/find: what has an id that begins with a text, by kind and id.
type FoundList struct {
	Found []Found `json:"found"`
	More  bool    `json:"more"` // there is more than the limit
}

// Found is a machine that was found by the beginning of its id.
type Found struct {
	Kind      effects.Kind `json:"kind"`
	ID        uuid.UUID    `json:"id"`
	Namespace string       `json:"namespace"`
	Tenant    string       `json:"tenant"`
	Name      string       `json:"name"` // what people call it; may be empty
}
