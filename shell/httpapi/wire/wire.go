// Package wire has the bodies of the HTTP API's requests and answers, as its server and
// its clients share them. openapi.json describes each of them under the name of its type.
//
// A request leaves out the fields that have their zero value, except those that must be
// given; a field is a pointer if the server tells "left out" from an empty value. An answer
// has all of its fields.
package wire

import (
	"github.com/google/uuid"
)

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

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	Status string `json:"status"`
	// Runners are with GET /readyz the runners of jobs that do not work, with how they are.
	Runners map[string]string `json:"runners,omitempty"`
	// Database is with GET /readyz what keeps the log from being brought into the database file, and what to
	// do. All is stored nonetheless, until the log is full.
	Database string `json:"database,omitempty"`
}

// Info is the answer to GET /v1/info: what runs here, and what the token may use of it.
type Info struct {
	Version  string   `json:"version"`
	Instance string   `json:"instance"`
	Tools    []string `json:"tools"`
	Webhooks []string `json:"webhooks"`
	Core     string   `json:"core"`
	TZDB     string   `json:"tzdb"`
}

// Error is the answer to every request that failed.
type Error struct {
	Error string `json:"error"`
}
