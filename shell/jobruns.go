package shell

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Jobs are the calls for jobs.
type Jobs struct{ e *Engine }

// Jobs gives the calls for jobs, which make runs.
func (e *Engine) Jobs() Jobs { return Jobs{e} }

// Apply makes a job, or gives it a new configuration, which also the runs take
// that wait for their time. What of the spec only a runner or the modules of
// constraints can check is checked by package jobs. The error is a [*Refusal] where
// the spec is wrong.
func (j Jobs) Apply(ctx context.Context, spec core.JobSpec) (core.Job, error) {
	return sendTo[core.Job](ctx, j.e, core.JobRef(spec.Namespace, spec.Tenant, spec.ID), core.JobApply{Spec: spec})
}

// Send gives an event to the job of that id, and returns its state afterwards;
// the zero Job where it is deleted.
func (j Jobs) Send(ctx context.Context, s Scope, id string, ev core.JobEvent) (core.Job, error) {
	return sendTo[core.Job](ctx, j.e, core.JobRef(s.Namespace, s.Tenant, id), ev)
}

// TriggerOptions are those of a run by hand.
type TriggerOptions struct {
	By string // who asks, in words
	// DedupKey makes it safe to ask again where an answer was lost: see
	// [core.JobTrigger].
	DedupKey string
}

// Trigger makes a run of a job now, out of turn, unless the dedup key has made
// one, and says which.
func (j Jobs) Trigger(ctx context.Context, s Scope, id string, o TriggerOptions) (core.JobTriggered, error) {
	ref := core.JobRef(s.Namespace, s.Tenant, id)
	rep, err := j.e.ask(ctx, &request{inputs: []core.Input{{To: ref, Actor: ActorFrom(ctx), Event: core.JobTrigger{By: o.By, DedupKey: o.DedupKey}}}, want: ref})
	if err != nil {
		return core.JobTriggered{}, err
	}
	if _, err := rep.answer(); err != nil {
		return core.JobTriggered{}, notFound(err)
	}
	made, ok := rep.result.Answer.(core.JobTriggered)
	if !ok {
		return core.JobTriggered{}, fmt.Errorf("trigger job %q: the answer names no run", id)
	}
	return made, nil
}

// Get reads the job of that id; [ErrNotFound] where there is none.
func (j Jobs) Get(ctx context.Context, s Scope, id string) (core.Job, error) {
	return readAs[core.Job](ctx, j.e, core.JobRef(s.Namespace, s.Tenant, id))
}

// JobFilter chooses jobs; zero fields choose all.
type JobFilter struct {
	Scope  *Scope
	Paused *bool
	Labels map[string]string // all of them
}

// List lists jobs, newest first.
func (j Jobs) List(ctx context.Context, f JobFilter, p Page) ([]core.Job, string, error) {
	term := core.TermAll
	switch {
	case f.Scope != nil:
		term = core.ScopeTerm(f.Scope.Namespace, f.Scope.Tenant)
	case f.Paused != nil:
		term = core.EnabledTerm(!*f.Paused)
	}
	return page(ctx, j.e.store, core.KindJob, term, p, func(j core.Job) bool {
		return (f.Paused == nil || j.Paused == *f.Paused) && hasLabels(j.Labels, f.Labels)
	})
}

// History lists what was decided about a job's times, newest first.
func (j Jobs) History(ctx context.Context, s Scope, id string, p Page) ([]core.Occurrence, string, error) {
	return j.e.Recurring().History(ctx, core.JobRef(s.Namespace, s.Tenant, id).ID, p)
}

// Runs are the calls for the runs of jobs.
type Runs struct{ e *Engine }

// Runs gives the calls for the runs of jobs, their heartbeats and logs.
func (e *Engine) Runs() Runs { return Runs{e} }

// Send gives an event to a run, and returns its state afterwards.
func (r Runs) Send(ctx context.Context, run uuid.UUID, ev core.OrchestratorEvent) (core.Orchestrator, error) {
	return sendTo[core.Orchestrator](ctx, r.e, effects.Ref{Kind: core.KindOrchestrator, ID: run}, ev)
}

// Get reads a run; [ErrNotFound] where there is none. [core.RunRef] gives its id
// from the tenant and the run's "jobID:timestamp".
func (r Runs) Get(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	return readAs[core.Orchestrator](ctx, r.e, effects.Ref{Kind: core.KindOrchestrator, ID: run})
}

// Wait returns the run once it has ended: at once where it has already.
func (r Runs) Wait(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	s, err := r.e.waitFor(ctx, effects.Ref{Kind: core.KindOrchestrator, ID: run})
	o, _ := s.(core.Orchestrator)
	return o, err
}

// JobRunFilter chooses runs; zero fields choose all.
type JobRunFilter struct {
	Scope  *Scope
	Job    string // of the Scope, which is then needed
	Status core.OrchestratorStatus
	// InCluster chooses those that may have something in a cluster.
	InCluster bool
}

// List lists runs, newest first.
func (r Runs) List(ctx context.Context, f JobRunFilter, p Page) ([]core.Orchestrator, string, error) {
	term := core.TermAll
	switch {
	case f.InCluster:
		term = core.TermInCluster
	case f.Job != "" && f.Scope == nil:
		return nil, "", fmt.Errorf("shell: JobRunFilter.Job is %q: it needs a Scope", f.Job)
	case f.Job != "":
		term = core.JobTerm(core.JobRef(f.Scope.Namespace, f.Scope.Tenant, f.Job).ID)
	case f.Scope != nil:
		term = core.ScopeTerm(f.Scope.Namespace, f.Scope.Tenant)
	case f.Status != "":
		term = core.StatusTerm(core.StatusType(f.Status))
	}
	return page(ctx, r.e.store, core.KindOrchestrator, term, p, func(o core.Orchestrator) bool {
		return (f.Status == "" || o.State == f.Status) && (f.Job == "" || o.JobID == f.Job) &&
			(f.Scope == nil || *f.Scope == Scope{Namespace: o.Namespace, Tenant: o.Tenant})
	})
}
