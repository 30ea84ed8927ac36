package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
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
	job, _, err := j.Configure(ctx, spec)
	return job, err
}

// Check refuses a spec that is right by itself, and that this engine does not take: [Jobs.Apply] asks it, too.
func (j Jobs) Check(spec core.JobSpec) error {
	return j.e.checkChannel(core.JobRef(spec.Namespace, spec.Tenant, spec.ID), Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}, "apply", spec.Alerts)
}

// Configure is [Jobs.Apply], and says besides at which times the job runs next, as they were
// before and as they are now.
func (j Jobs) Configure(ctx context.Context, spec core.JobSpec) (core.Job, core.JobApplied, error) {
	if err := j.Check(spec); err != nil {
		return core.Job{}, core.JobApplied{}, err
	}
	res, s, err := j.e.ask(ctx, core.JobRef(spec.Namespace, spec.Tenant, spec.ID), core.JobApply{Spec: spec}, 0)
	job, err := as[core.Job](s, err)
	applied, _ := res.Answer.(core.JobApplied)
	return job, applied, err
}

// Calendars reads the calendars that a job names, for [core.Job.Upcoming]. One that does not
// exist is left out.
func (j Jobs) Calendars(ctx context.Context, spec core.JobSpec) (core.Calendars, error) {
	return j.e.Calendars().Named(ctx, Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}, spec.Calendars)
}

// PauseOptions are those of a pause.
type PauseOptions struct {
	By     string // who pauses the job, in words
	Reason string
	Until  time.Time // the job resumes by itself then; zero: it does not
}

// Pause lets the job make no runs but by hand, until it is resumed. Those of its schedule that
// wait for a slot are cancelled, and the times that pass are skipped, with the reason. The error
// is a [*Refusal] if the job is paused already, or Until is not in the future.
func (j Jobs) Pause(ctx context.Context, s Scope, id string, o PauseOptions) (core.Job, error) {
	e := core.JobPause{By: o.By, Reason: o.Reason}
	if !o.Until.IsZero() {
		e.Until = effects.TimeOf(o.Until)
	}
	return j.Send(ctx, s, id, e)
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
	// Env are variables that the containers of this run get, beside those of the pod spec or
	// instead of them. Names that begin with ORRERY_ are refused.
	Env map[string]string
}

// Trigger makes a run of a job now, beside its schedule, unless the dedup key has made
// one, and says which.
func (j Jobs) Trigger(ctx context.Context, s Scope, id string, o TriggerOptions) (core.JobTriggered, error) {
	res, _, err := j.e.ask(ctx, core.JobRef(s.Namespace, s.Tenant, id), core.JobTrigger{By: o.By, DedupKey: o.DedupKey, Env: maps.Clone(o.Env)}, 0)
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
	status := flagTerm(f.Paused, func(paused bool) string { return core.EnabledTerm(!paused) })
	return list(ctx, j.e, filter{kind: core.KindJob, scope: f.Scope, status: status, labels: f.Labels}, p, func(j core.Job) bool {
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
	// CleanupFailed chooses those of which what is in the cluster could not be deleted so far.
	CleanupFailed bool
}

// List lists runs, newest first.
func (r Runs) List(ctx context.Context, f JobRunFilter, p Page) ([]core.Orchestrator, string, error) {
	of := filter{kind: core.KindOrchestrator, scope: f.Scope, status: statusTerm(f.Status)}
	if f.Job != "" && f.Scope == nil {
		return nil, "", fmt.Errorf("shell: JobRunFilter.Job is %q: it needs a Scope", f.Job)
	}
	if f.Job != "" {
		of.token = core.JobTerm(core.JobRef(f.Scope.Namespace, f.Scope.Tenant, f.Job).ID)
		of.more = append(of.more, of.token)
	}
	if f.InCluster {
		of.token = core.TermInCluster
		of.more = append(of.more, of.token)
	}
	if f.CleanupFailed {
		of.token = core.TermCleanupFailed
		of.more = append(of.more, of.token)
	}
	return list(ctx, r.e, of, p, func(o core.Orchestrator) bool {
		return (!f.InCluster || o.InCluster) && (!f.CleanupFailed || o.Cleanup.Failing()) && (f.Status == "" || o.State == f.Status) && (f.Job == "" || o.JobID == f.Job) &&
			(f.Scope == nil || *f.Scope == Scope{Namespace: o.Namespace, Tenant: o.Tenant})
	})
}

func runRef(run uuid.UUID) effects.Ref { return effects.Ref{Kind: core.KindOrchestrator, ID: run} }

// Schedulers reads all that is known of the heartbeats of runs, which is how to
// learn cheaply which runs have not ended: at most 256 records, and none of a run.
func (r Runs) Schedulers(ctx context.Context) ([]core.Scheduler, error) {
	list, _, err := page[core.Scheduler](ctx, r.e.store, newest(core.KindScheduler, core.TermAll), Page{Limit: MaxPage}, nil)
	return list, err
}

// InCluster lists the ids of the runs that may have something in a cluster,
// newest first. It reads no run.
func (r Runs) InCluster(ctx context.Context) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := r.e.store.View(ctx, func(tx store.ReadTx) error {
		for c, err := range cursors(tx, core.KindOrchestrator, core.TermInCluster, true) {
			if err != nil {
				return err
			}
			ids = append(ids, c.ID)
		}
		return nil
	})
	return ids, err
}

// HeartbeatReport is what is known of the heartbeats of all runs in one interval.
type HeartbeatReport struct {
	// Of are the schedulers whose runs it is about; those of the runs that beat belong to it
	// in any case. A run of theirs that does not beat has missed a heartbeat.
	Of []effects.Ref
	// Runs are those that beat (004 OrchestratorHeartbeatMsg).
	Runs []uuid.UUID
	// Some: it is about the Runs alone; nobody else has missed anything.
	Some bool
	// Begins: it is the first report of a process, or the first one after the process was
	// stopped for a while: what was missed before does not count.
	Begins bool
	// Unseen are runs whose pods nobody has looked at in this process: they miss nothing.
	Unseen []uuid.UUID
	// Every is the time until the next report, and Missed how many in a row may be without a
	// heartbeat of a run before the run is orphaned; 0: as they were.
	Every  time.Duration
	Missed uint32
}

// ReportHeartbeats reports, in one transaction, which runs beat in an interval (004
// Heartbeat Mechanism, E6): without reports no run is orphaned. It is taken also while the
// engine stops, but then says nothing of runs that do not beat.
func (r Runs) ReportHeartbeats(ctx context.Context, h HeartbeatReport) error {
	select {
	case <-r.e.loop.Closing():
		h.Some = true
	default:
	}
	inputs := h.inputs(ctx)
	if len(inputs) == 0 {
		return nil
	}
	_, err := r.e.loop.Do(ctx, engine.Request{Inputs: inputs, Late: true})
	if _, refused := errors.AsType[*Refusal](err); refused { // of the last one: its runs have ended meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("send heartbeats: %w", err)
	}
	return nil
}

// inputs are the report's parts, one for each scheduler.
func (h HeartbeatReport) inputs(ctx context.Context) []core.Input {
	shards := slices.Clone(h.Of) // and those of the runs, in their order
	if h.Some {
		shards = nil
	}
	beats, unseen := bySchedulers(h.Runs), bySchedulers(h.Unseen)
	for _, run := range h.Runs {
		if to := core.SchedulerRef(run); !slices.Contains(shards, to) {
			shards = append(shards, to)
		}
	}
	inputs := make([]core.Input, 0, len(shards))
	for _, to := range shards {
		e := core.SchedulerHeartbeats{Runs: beats[to], IntervalMS: h.Every.Milliseconds(), MaxMissed: h.Missed, Some: h.Some}
		if !h.Some {
			e.Begins, e.Unseen = h.Begins, unseen[to]
		}
		inputs = append(inputs, inputOf(ctx, to, e))
	}
	return inputs
}

// bySchedulers sorts runs by their schedulers.
func bySchedulers(runs []uuid.UUID) map[effects.Ref][]uuid.UUID {
	of := make(map[effects.Ref][]uuid.UUID)
	for _, run := range runs {
		to := core.SchedulerRef(run)
		of[to] = append(of[to], run)
	}
	return of
}

// MaxRunLog is how many bytes of an attempt's logs are stored at most.
const MaxRunLog = store.MaxRunLog

// PutLog stores what an attempt of a run has written (004 Log Retrieval),
// instead of what was stored of it before; it goes with the run's record. It is no
// state: no journal has it, and no replay. The error wraps [ErrNotFound] where there
// is no such run, and is a [*Refusal] where the run has had no such attempt, or the
// text has more than [MaxRunLog] bytes. It is taken also while the engine stops. The engine
// keeps the text until it returns.
func (r Runs) PutLog(ctx context.Context, run uuid.UUID, attempt uint32, text []byte) error {
	if len(text) > MaxRunLog {
		return invalid(runRef(run), "run_log", "text: %d bytes are more than %d: keep its head and its tail", len(text), MaxRunLog)
	}
	text = bytes.Clone(text) // a caller who goes leaves his request behind: the text must stay as it is
	_, err := r.e.loop.Do(ctx, engine.Request{Write: &engine.Write{
		Of: runRef(run), Size: len(text),
		Check: func(s core.State) error { return checkLog(s, run, attempt) },
		Put:   func(tx store.Tx) error { return tx.PutRunLog(run, attempt, text) },
	}, Late: true}) // what the engine waits for as it stops may be what reads them, and its pod is then deleted
	return err
}

// checkLog refuses the logs of an attempt that the run has not had.
func checkLog(s core.State, run uuid.UUID, attempt uint32) error {
	o, ok := s.(core.Orchestrator)
	switch {
	case !ok:
		return fmt.Errorf("%s %w", runRef(run), ErrNotFound)
	case attempt > o.RetryAttempt:
		return invalid(runRef(run), "run_log", "attempt: %d is to come: the run is at attempt %d", attempt, o.RetryAttempt)
	}
	return nil
}

// Log reads what is stored of an attempt's logs. The error wraps [ErrNotFound]
// if nothing is stored, and [store.ErrCorrupt] if it cannot be read.
func (r Runs) Log(ctx context.Context, run uuid.UUID, attempt uint32) ([]byte, error) {
	var text []byte
	err := r.e.store.View(ctx, func(tx store.ReadTx) error {
		b, err := tx.RunLog(run, attempt)
		text = append([]byte{}, b...)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("log of attempt %d of run %s %w", attempt, run, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
