// Package wire has the bodies of the HTTP API's requests and answers, as its server and
// its clients share them. openapi.json describes each of them under the name of its type.
//
// A request leaves out the fields that have their zero value, except those that must be
// given; a field is a pointer if the server tells "left out" from an empty value. An answer
// has all of its fields.
package wire

import "github.com/orrery-go/orrery/effects"

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	Status string `json:"status"`
	// Runners are with GET /readyz the runners of jobs that do not work, with how they are.
	Runners map[string]string `json:"runners,omitempty"`
	// Database is with GET /readyz what keeps the log from being brought into the database file, and what to
	// do. All is stored nonetheless, until the log is full.
	Database string `json:"database,omitempty"`
	// PausedSince is with GET /readyz since when the engine is paused: the status is paused then. Requests are taken,
	// and nothing happens by itself.
	PausedSince effects.Time `json:"paused_since,omitzero"`
	// Store is with GET /readyz what the server keeps its records in; nil: it was not told.
	Store *Store `json:"store,omitempty"`
}

// Store says what a server keeps its records in, and how much of that is its own.
type Store struct {
	Kind       string `json:"kind"`       // such as file or postgres
	Partitions int    `json:"partitions"` // into which it is divided; 1: it is not
	Owned      int    `json:"owned"`      // of these, by the process that answers
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
	// Refused are, of a set, the declarations that are refused, in the order of the entries.
	Refused []SetRefused `json:"refused,omitempty"`
}
