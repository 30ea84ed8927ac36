package httpapi

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// notes are what one answer says of its runs beside themselves: each is found out once, however
// many runs it concerns.
type notes struct {
	health map[string]jobs.Health // nil: nobody has asked yet
	waits  map[uuid.UUID]string   // what the pending runs of a job wait for
}

// noteOf says of a run what it waits for until it has a place, that its runner does not
// work, if that concerns it, or what the end of its pod waits for. It is derived as it is read: an outage writes nothing.
func (s *Server) noteOf(ctx context.Context, c *call, o core.Orchestrator) string {
	if o.State == core.OrchestratorPending {
		return s.waitNote(ctx, c, o)
	}
	if !o.InCluster || s.o.Jobs == nil {
		return ""
	}
	if c.notes.health == nil {
		c.notes.health = s.runnerHealth()
	}
	name := s.o.Jobs.RunnerOf(o.Config)
	h, known := c.notes.health[name]
	h = toldTo(c.token, h)
	if note := healthNote(name, h, o.State); known && note != "" {
		return note
	}
	if n, can := s.o.Jobs.(interface {
		NoteOf(o core.Orchestrator) string
	}); can {
		return oneLine(n.NoteOf(o))
	}
	return ""
}

// healthNote says what is wrong with the runner of a run in that state, if it concerns the run.
func healthNote(runner string, h jobs.Health, state core.OrchestratorStatus) string {
	switch {
	case h.Status == jobs.HealthDown && !h.SeenAt.IsZero():
		return fmt.Sprintf("as of when runner %s could last be asked: it %s", runner, oneLine(h.Trouble()))
	case h.Status == jobs.HealthDown, h.Status == jobs.HealthDegraded && state == core.OrchestratorContainerCreating:
		return fmt.Sprintf("runner %s %s", runner, oneLine(h.Trouble()))
	}
	return ""
}

// waitNote says what a pending run waits for; empty also where that cannot be read just now.
func (s *Server) waitNote(ctx context.Context, c *call, o core.Orchestrator) string {
	job := core.JobRef(o.Namespace, o.Tenant, o.JobID).ID
	note, known := c.notes.waits[job]
	if known {
		return note
	}
	note, err := s.engine.Runs().WaitsFor(ctx, o)
	if err != nil {
		s.log.Debug("could not find out what a run waits for", "run_id", o.RunID, "error", err)
		return ""
	}
	if c.notes.waits == nil {
		c.notes.waits = make(map[uuid.UUID]string)
	}
	note = oneLine(note)
	c.notes.waits[job] = note
	return note
}
