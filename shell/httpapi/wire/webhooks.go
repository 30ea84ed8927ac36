package wire

import "github.com/google/uuid"

// WebhookAccepted is the answer to POST /v1/webhooks/{route}. The action that
// the webhook becomes, at once or with a strict tick at the next one, has its id.
type WebhookAccepted struct {
	WebhookID uuid.UUID `json:"webhook_id"`
	ActionID  uuid.UUID `json:"action_id"`
}

// WebhookIgnored is the answer to a POST /v1/webhooks/{route} that the route does not take.
type WebhookIgnored struct {
	Ignored string `json:"ignored"` // why
}

// WebhookRouteList is the answer to GET /v1/webhooks.
type WebhookRouteList struct {
	Routes []WebhookRoute `json:"routes"`
}

// WebhookRoute is a route of the configuration, without its secrets.
type WebhookRoute struct {
	Name       string         `json:"name"`
	Namespace  string         `json:"namespace"`
	Tenant     string         `json:"tenant"`
	Tool       string         `json:"tool"`
	ActionType string         `json:"action_type"`
	Label      string         `json:"label"`
	Signature  string         `json:"signature"` // how its requests are signed
	Events     []string       `json:"events"`    // the types of event that it takes; empty: all
	Match      []WebhookMatch `json:"match"`     // what a body must have
	// What became of its requests since this instance began: stored; refused for their signature; answered as before, since
	// they came again; left out by the filter.
	Accepted uint64 `json:"accepted"`
	Rejected uint64 `json:"rejected"`
	Replayed uint64 `json:"replayed"`
	Ignored  uint64 `json:"ignored"`
}

// WebhookMatch is a condition on the bodies of a route.
type WebhookMatch struct {
	Path   string   `json:"path"`
	Values []string `json:"values"` // one of them; empty: anything
}
