package shell

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// ApplyJob makes a job, or gives it a new configuration, which also the runs take
// that wait for their time. What of the spec only a runner or the modules of
// constraints can check is checked by package jobs. The error is a [*Refusal] where
// the spec is wrong.
func (e *Engine) ApplyJob(ctx context.Context, spec core.JobSpec) (core.Job, error) {
	return sendTo[core.Job](ctx, e, core.JobRef(spec.Namespace, spec.Tenant, spec.ID), core.JobApply{Spec: spec})
}

// SendJob gives an event to the job of that id, and returns its state afterwards;
// the zero Job where it is deleted.
func (e *Engine) SendJob(ctx context.Context, s Scope, id string, ev core.JobEvent) (core.Job, error) {
	return sendTo[core.Job](ctx, e, core.JobRef(s.Namespace, s.Tenant, id), ev)
}

// TriggerOptions are those of a run by hand.
type TriggerOptions struct {
	By string // who asks, in words
	// DedupKey makes it safe to ask again where an answer was lost: see
	// [core.JobTrigger].
	DedupKey string
}

// TriggerJob makes a run of a job now, out of turn, unless the dedup key has made
// one, and says which.
func (e *Engine) TriggerJob(ctx context.Context, s Scope, id string, o TriggerOptions) (core.JobTriggered, error) {
	ref := core.JobRef(s.Namespace, s.Tenant, id)
	rep, err := e.ask(ctx, &request{inputs: []core.Input{{To: ref, Actor: ActorFrom(ctx), Event: core.JobTrigger{By: o.By, DedupKey: o.DedupKey}}}, want: ref})
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

// Job reads the job of that id; [ErrNotFound] where there is none.
func (e *Engine) Job(ctx context.Context, s Scope, id string) (core.Job, error) {
	return readAs[core.Job](ctx, e, core.JobRef(s.Namespace, s.Tenant, id))
}

// JobFilter chooses jobs; zero fields choose all.
type JobFilter struct {
	Scope  *Scope
	Paused *bool
	Labels map[string]string // all of them
}

// Jobs lists jobs, newest first.
func (e *Engine) Jobs(ctx context.Context, f JobFilter, p Page) ([]core.Job, string, error) {
	term := core.TermAll
	switch {
	case f.Scope != nil:
		term = core.ScopeTerm(f.Scope.Namespace, f.Scope.Tenant)
	case f.Paused != nil:
		term = core.EnabledTerm(!*f.Paused)
	}
	return page(ctx, e.store, core.KindJob, term, p, func(j core.Job) bool {
		return (f.Paused == nil || j.Paused == *f.Paused) && hasLabels(j.Labels, f.Labels)
	})
}

// JobHistory lists what was decided about a job's times, newest first.
func (e *Engine) JobHistory(ctx context.Context, s Scope, id string, p Page) ([]core.Occurrence, string, error) {
	return e.History(ctx, core.JobRef(s.Namespace, s.Tenant, id).ID, p)
}

// SendJobRun gives an event to a run, and returns its state afterwards.
func (e *Engine) SendJobRun(ctx context.Context, run uuid.UUID, ev core.OrchestratorEvent) (core.Orchestrator, error) {
	return sendTo[core.Orchestrator](ctx, e, effects.Ref{Kind: core.KindOrchestrator, ID: run}, ev)
}

// JobRun reads a run; [ErrNotFound] where there is none. [core.RunRef] gives its id
// from the tenant and the run's "jobID:timestamp".
func (e *Engine) JobRun(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	return readAs[core.Orchestrator](ctx, e, effects.Ref{Kind: core.KindOrchestrator, ID: run})
}

// WaitJobRun returns the run once it has ended: at once where it has already.
func (e *Engine) WaitJobRun(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	s, err := e.waitFor(ctx, effects.Ref{Kind: core.KindOrchestrator, ID: run})
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

// JobRuns lists runs, newest first.
func (e *Engine) JobRuns(ctx context.Context, f JobRunFilter, p Page) ([]core.Orchestrator, string, error) {
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
	return page(ctx, e.store, core.KindOrchestrator, term, p, func(o core.Orchestrator) bool {
		return (f.Status == "" || o.State == f.Status) && (f.Job == "" || o.JobID == f.Job) &&
			(f.Scope == nil || *f.Scope == Scope{Namespace: o.Namespace, Tenant: o.Tenant})
	})
}
