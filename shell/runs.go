package shell

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
)

// Runs are the calls for the runs of jobs.
type Runs struct{ e *Engine }

// Runs gives the calls for the runs of jobs, their heartbeats and logs.
func (e *Engine) Runs() Runs { return Runs{e} }

// Send gives an event to a run, and returns its state afterwards.
func (r Runs) Send(ctx context.Context, run uuid.UUID, ev core.OrchestratorEvent) (core.Orchestrator, error) {
	return sendTo[core.Orchestrator](ctx, r.e, runRef(run), ev)
}

// SendIf gives an event to a run for which allowed returns no error, and returns its
// state afterwards. allowed is called by the loop with the state before the event, and
// must be quick; the zero Orchestrator if there is no such run. Its error is returned.
func (r Runs) SendIf(ctx context.Context, run uuid.UUID, ev core.OrchestratorEvent, allowed func(core.Orchestrator) error) (core.Orchestrator, error) {
	ref := runRef(run)
	s, err := r.e.loop.Do(ctx, engine.Request{
		Inputs: []core.Input{inputOf(ctx, ref, ev)}, Want: ref,
		If: func(s core.State) error {
			o, _ := s.(core.Orchestrator)
			return allowed(o)
		},
	})
	return as[core.Orchestrator](s, err)
}

// Get reads a run; [ErrNotFound] if it does not exist. [core.RunRef] gives its id
// from the tenant and the run's "jobID:timestamp".
func (r Runs) Get(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	return readAs[core.Orchestrator](ctx, r.e, runRef(run))
}

// Wait returns the run once it has ended: at once where it has already.
func (r Runs) Wait(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	return waitForAs[core.Orchestrator](ctx, r.e, runRef(run))
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
	term := scopeOr(f.Scope, statusTerm(f.Status))
	switch {
	case f.InCluster:
		term = core.TermInCluster
	case f.Job != "" && f.Scope == nil:
		return nil, "", fmt.Errorf("shell: JobRunFilter.Job is %q: it needs a Scope", f.Job)
	case f.Job != "":
		term = core.JobTerm(core.JobRef(f.Scope.Namespace, f.Scope.Tenant, f.Job).ID)
	}
	return page(ctx, r.e.store, newest(core.KindOrchestrator, term), p, func(o core.Orchestrator) bool {
		return (f.Status == "" || o.State == f.Status) && (f.Job == "" || o.JobID == f.Job) &&
			(f.Scope == nil || *f.Scope == Scope{Namespace: o.Namespace, Tenant: o.Tenant})
	})
}

func runRef(run uuid.UUID) effects.Ref { return effects.Ref{Kind: core.KindOrchestrator, ID: run} }
