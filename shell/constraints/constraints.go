// Package constraints has the constraints of jobs that come with Orrery, and their
// actions (004 Constraint-Action System).
package constraints

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	_ "cel.dev/cel-go/cel" // the skeleton's: keeps the dependency
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Source is what constraints read of the engine, and the locks that they take:
// [shell.Engine] has it.
type Source interface {
	Job(ctx context.Context, s shell.Scope, id string) (core.Job, error)
	JobRun(ctx context.Context, run uuid.UUID) (core.Orchestrator, error)
	JobRuns(ctx context.Context, f shell.JobRunFilter, p shell.Page) ([]core.Orchestrator, string, error)
	SendLock(ctx context.Context, s shell.Scope, name string, ev core.LockEvent) (core.Lock, error)
}

// Options configure a [Checker] and an [Executor].
type Options struct {
	// Tools are those that hooks may run, by name.
	Tools map[string]shell.Tool
	// Client carries out webhooks; nil: one that refuses private addresses, as
	// package httpcall does.
	Client *http.Client
	// Notify sends notifications; nil: the action notify fails.
	Notify func(ctx context.Context, n effects.Notify) error
	// Now is the clock; nil: time.Now.
	Now    func() time.Time
	Logger *slog.Logger // default slog.Default()
}

// Checker is a [jobs.ConstraintChecker] and a [jobs.ActionExecutor] in one. It is
// safe for concurrent use.
type Checker struct{ o Options }

var (
	_ jobs.ConstraintChecker = (*Checker)(nil)
	_ jobs.ActionExecutor    = (*Checker)(nil)
)

// New makes a Checker. The error names the option that cannot be right.
func New(o Options) (*Checker, error) { return &Checker{o: o}, nil }

// Use gives the Checker the engine that it reads from: before the first check.
func (c *Checker) Use(s Source) {}

// Validate reports what of a job's constraint_config and action_config cannot be
// right: an error names the field.
func (c *Checker) Validate(job *jobs.Job) error { return errors.New("not written yet") }

// CheckPreExecution implements [jobs.ConstraintChecker].
func (c *Checker) CheckPreExecution(ctx context.Context, job *jobs.Job, runID string) (jobs.ConstraintCheckResult, error) {
	return jobs.ConstraintCheckResult{}, errors.New("not written yet")
}

// CheckPostExecution implements [jobs.ConstraintChecker].
func (c *Checker) CheckPostExecution(ctx context.Context, job *jobs.Job, runID string, startTime, endTime time.Time, exitCode int) (jobs.ConstraintCheckResult, error) {
	return jobs.ConstraintCheckResult{}, errors.New("not written yet")
}

// Take implements [jobs.ActionExecutor].
func (c *Checker) Take(ctx context.Context, job *jobs.Job, runID string, a jobs.Action) error {
	return errors.New("not written yet")
}

// Uses lists what a job's constraints and actions reach, for whoever decides
// whether somebody may apply it.
func Uses(job *jobs.Job) (Reach, error) { return Reach{}, errors.New("not written yet") }

// Reach is what a job's constraints and actions reach.
type Reach struct {
	Tools     []string           // that hooks run
	Queues    []string           // that enqueue pushes into
	Jobs      []string           // that kickOffJob triggers
	Locks     []string           // that lock takes
	Pipelines []core.PipelineDef // that startPipeline starts
	Notify    bool               // notify
	Webhooks  bool               // webhook
}
