package jobs

import (
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
)

// HealthStatus says whether a runner works.
type HealthStatus string

// How a runner may be.
const (
	HealthWorks    HealthStatus = "works"
	HealthDegraded HealthStatus = "degraded" // it sees its pods, and something else does not work
	HealthDown     HealthStatus = "down"     // it does not see what becomes of its pods
)

// Health is how a runner stands with what it runs pods in.
type Health struct {
	Status HealthStatus
	Since  time.Time // when the status began; zero: it is not known
	Error  string    // why it does not work; empty if it does
	// Brief and LastBrief are Error and LastError for everybody: without the names of other
	// tenants' jobs, users and addresses that errors of a cluster may hold, such as "cannot
	// delete Job: forbidden". Where they are empty, nobody but admins is told why.
	Brief, LastBrief string
	// LastError is the last error that there was, also one that has passed, and LastErrorAt
	// when that was.
	LastError   string
	LastErrorAt time.Time
	// SeenAt is when its watch last heard of what it runs pods in, be it that nothing has
	// changed; zero: never, or it has no watch.
	SeenAt time.Time
}

// Healthy is what a [Runner] may have besides: it says how it is, at once and without a
// call of anything else. One that has no such method works as long as its Watch runs.
type Healthy interface{ Health() Health }

// A DownError says that a runner cannot be asked, because it is down.
type DownError struct {
	Runner string
	Health Health
}

// Error implements error.
func (e *DownError) Error() string { return "runner " + e.Runner + " " + e.Health.Trouble() }

// Trouble says in a sentence without its subject what is wrong with a runner; empty:
// nothing is.
func (h Health) Trouble() string {
	if h.Status == HealthWorks || h.Status == "" {
		return ""
	}
	text := "is " + string(h.Status)
	if !h.Since.IsZero() {
		text += " since " + h.Since.UTC().Format(time.RFC3339)
	}
	if h.Error != "" {
		text += ": " + h.Error
	}
	return text
}

// InBrief is the Health as everybody may be told it.
func (h Health) InBrief() Health {
	h.Error, h.LastError = h.Brief, h.LastBrief
	return h
}

// Health gives how each runner is, by its name. It costs no call of any cluster.
func (s *Service) Health() map[string]Health {
	out := make(map[string]Health, len(s.o.Runners))
	for name := range s.o.Runners { // order-free: it fills a map
		out[name] = s.healthOf(name)
	}
	return out
}

func (s *Service) healthOf(name string) Health { return s.withStrangers(name, s.watchHealthOf(name)) }

// watchHealthOf is how the runner is by itself, whatever pods of others there are.
func (s *Service) watchHealthOf(name string) Health {
	if r, ok := as[Healthy](s.o.Runners[name]); ok {
		return r.Health()
	}
	return s.watches.of(name)
}

// isDown reports whether nobody sees what becomes of the runner's pods. The engine's loop asks.
func (s *Service) isDown(name string) bool { return s.watchHealthOf(name).Status == HealthDown }

// NoteOf says what a run waits for that has something in a cluster, as its runner knows it;
// empty: nothing that is unusual. It costs no call of any cluster.
func (s *Service) NoteOf(o core.Orchestrator) string {
	if n, can := as[Noter](s.o.Runners[s.RunnerOf(o.Config)]); can && o.InCluster {
		return n.NoteOf(Attempt{Run: o.ID, N: o.RetryAttempt})
	}
	return ""
}

// watches are how the watches of runners are that do not say so themselves.
type watches struct {
	mu sync.Mutex
	by map[string]Health
}

func (w *watches) of(name string) Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h, known := w.by[name]; known {
		return h
	}
	return Health{Status: HealthWorks}
}

// set notes that a runner's watch begins, or that it ended with an error.
func (w *watches) set(name string, now time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]Health{}
	}
	h := w.by[name]
	status := HealthWorks
	h.Error, h.Brief = "", ""
	if err != nil {
		status, h.Error, h.Brief = HealthDown, "its watch ended: "+err.Error(), "its watch ended"
		h.LastError, h.LastBrief, h.LastErrorAt = h.Error, h.Brief, now
	}
	if h.Status != status {
		h.Status, h.Since = status, now
	}
	w.by[name] = h
}
