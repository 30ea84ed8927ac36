package wire

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// RunnerList is the answer of GET /v1/runners: the runners that the token may use, by name.
type RunnerList struct {
	Runners []Runner `json:"runners"`
}

// Runner is how a runner of jobs is.
type Runner struct {
	Name            string       `json:"name"`
	Status          string       `json:"status"` // works, degraded or down
	Since           effects.Time `json:"since"`  // of the status; null: it is not known
	Error           string       `json:"error"`  // why it does not work
	LastError       string       `json:"last_error"`
	LastErrorAt     effects.Time `json:"last_error_at"`
	SeenAt          effects.Time `json:"seen_at"`           // null: never, or it has no watch
	WatchAgeSeconds float64      `json:"watch_age_seconds"` // since SeenAt; 0 without one
	MaxPods         int          `json:"max_pods"`          // of one daemon; 0: no bound, and pods are not counted
	Pods            int          `json:"pods"`              // of all daemons of a divided database
	PodsWaiting     int          `json:"pods_waiting"`
}

// Run is the answer of GET /v1/runs/{id}: the run, and what there is to say of its runner.
type Run struct {
	core.Orchestrator
	// Note says what a pending run waits for, or that the run's runner does not work, and why;
	// it is no part of the run.
	Note string `json:"note,omitempty"`
}
