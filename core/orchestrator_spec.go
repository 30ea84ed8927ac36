package core

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Limits of what a run records.
const (
	MaxConstraints = 64  // checks of one evaluation
	MaxRunActions  = 128 // actions of one evaluation
	MaxRunLocks    = 8   // locks that it holds: all active runs of a job can be killed at once, see [MaxDeliveries]
)

// RunSpec says which run of which job it is. Machines alone make it.
type RunSpec struct {
	ID          uuid.UUID `json:"id"`
	RunID       string    `json:"run_id"` // "jobID:timestamp", see [RunID]
	JobID       string    `json:"job_id"`
	Namespace   string    `json:"namespace"`
	Tenant      string    `json:"tenant"`
	ScheduledAt Time      `json:"scheduled_at"`
	// NotBefore is when the run may begin, where that is later than its time: by the jitter of
	// its schedule. Null: at its time.
	NotBefore Time    `json:"not_before,omitzero"`
	Manual    bool    `json:"manual"`       // triggered by hand
	By        string  `json:"by,omitempty"` // who triggered it, as [JobTrigger] says
	Config    JobSpec `json:"config"`       // the job as it was; follows changes only until the run begins
	// Env are variables that this run alone has, see [JobTrigger.Env].
	Env map[string]string `json:"env,omitempty"`
	// Backfill is the one that asked for it; zero: it is none of a backfill.
	Backfill uuid.UUID `json:"backfill,omitzero"`
}

// againSuffix ends the id of a run of a backfill if there was one of its time that never had a
// slot.
const againSuffix = ":backfill"

// again gives the run an id of its own beside that of its time.
func (s RunSpec) again() RunSpec {
	s.RunID += againSuffix
	s.ID = RunRef(s.Namespace, s.Tenant, s.RunID).ID
	return s
}

// waits reports whether the run waits for a slot as long as it takes, whatever its job says.
func (s RunSpec) waits() bool { return s.Manual || s.Backfill != uuid.Nil }

// begins is the instant at which the run asks for a slot, and from which its start deadline runs.
func (s RunSpec) begins() Time { return max(s.ScheduledAt, s.NotBefore) }

// Validate reports what a run cannot be.
func (s RunSpec) Validate() error {
	err := errors.Join(
		checkTime("scheduled_at", s.ScheduledAt),
		s.Config.validate(),
		checkRunEnv("env", s.Env),
	)
	if err != nil {
		return err
	}
	if s.JobID != s.Config.ID || s.Namespace != s.Config.Namespace || s.Tenant != s.Config.Tenant {
		return fmt.Errorf("config: it is of job %q, not of %q", clip(s.Config.ID), clip(s.JobID))
	}
	want := RunID(s.JobID, s.ScheduledAt)
	if s.RunID != want && (s.Backfill == uuid.Nil || s.RunID != want+againSuffix) {
		return fmt.Errorf("run_id: %q is not %q, job and time", clip(s.RunID), clip(want))
	}
	if want := RunRef(s.Namespace, s.Tenant, s.RunID).ID; s.ID != want {
		return fmt.Errorf("id: %s is not %s, which the run's id gives", s.ID, want)
	}
	return nil
}

// runOf is the run of a job at a time.
func runOf(job JobSpec, at Time, manual bool) RunSpec {
	id := RunID(job.ID, at)
	return RunSpec{
		ID: RunRef(job.Namespace, job.Tenant, id).ID, RunID: id, JobID: job.ID, Namespace: job.Namespace, Tenant: job.Tenant,
		ScheduledAt: at, Manual: manual, Config: job,
	}
}
