package wire

import (
	"encoding/json"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// SubscriberList is a page of GET /v1/subscribers. Those of one tenant stand together, and on one page.
type SubscriberList struct {
	Subscribers []Subscriber `json:"subscribers"`
	// Program names those that the daemon's program brings along: they hear an event after
	// the others, and cannot be changed here. Only for a token that is not bound.
	Program       []string `json:"program,omitempty"`
	NextPageToken string   `json:"next_page_token"`
}

// Subscriber is a subscriber of the event bus of a tenant.
type Subscriber struct {
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant"`
	core.Subscription
}

// SubscriberRequest is the body of PUT /v1/subscribers/{name}.
type SubscriberRequest struct {
	Match core.EventMatch `json:"match"`
	Do    core.Reaction   `json:"do"`
}

// EventRequest is the body of POST /v1/events: an event of a runbook's own.
type EventRequest struct {
	// Of which tenant it is: subscribers that act there hear it. Without both it is of none, and all hear it.
	Namespace string            `json:"namespace,omitempty"`
	Tenant    string            `json:"tenant,omitempty"`
	Kind      effects.EventKind `json:"kind"`
	Source    *SourceRequest    `json:"source,omitempty"`
	Data      json.RawMessage   `json:"data,omitempty"`
}

// SourceRequest says who announces an event.
type SourceRequest struct {
	Component string  `json:"component"`
	ID        *string `json:"id,omitempty"`
}

// EventAccepted is the answer to POST /v1/events: what was announced, and in whose name.
type EventAccepted struct {
	Kind   effects.EventKind   `json:"kind"`
	Source effects.EventSource `json:"source"`
}
