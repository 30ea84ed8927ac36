package shell

import (
	"context"
	"fmt"

	"github.com/orrery-go/orrery/core"
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

// Trigger makes a run of a job now, beside its schedule, unless the dedup key has made
// one, and says which.
func (j Jobs) Trigger(ctx context.Context, s Scope, id string, o TriggerOptions) (core.JobTriggered, error) {
	res, _, err := j.e.ask(ctx, core.JobRef(s.Namespace, s.Tenant, id), core.JobTrigger{By: o.By, DedupKey: o.DedupKey}, 0)
	if err != nil {
		return core.JobTriggered{}, err
	}
	made, ok := res.Answer.(core.JobTriggered)
	if !ok {
		return core.JobTriggered{}, fmt.Errorf("trigger job %q: the answer names no run", id)
	}
	return made, nil
}

// Get reads the job of that id; [ErrNotFound] if it does not exist.
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
	term := scopeOr(f.Scope, flagTerm(f.Paused, func(paused bool) string { return core.EnabledTerm(!paused) }))
	return page(ctx, j.e.store, newest(core.KindJob, term), p, func(j core.Job) bool {
		return (f.Paused == nil || j.Paused == *f.Paused) && hasLabels(j.Labels, f.Labels)
	})
}

// History lists what was decided about a job's times, newest first.
func (j Jobs) History(ctx context.Context, s Scope, id string, p Page) ([]core.Occurrence, string, error) {
	return j.e.Recurring().History(ctx, core.JobRef(s.Namespace, s.Tenant, id).ID, p)
}
