package jobs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orrery-go/orrery/core"
)

// Job is a job's configuration (004 Job).
type Job = core.JobSpec

// ConstraintChecker evaluates the constraints of a run's job (004
// ConstraintChecker). What it changes it must be able to change twice: after a crash
// the same evaluation is repeated. An error says that it could not evaluate them; the
// job's constraint_errors says what that means. It must be safe for concurrent use.
//
// Other than in 004 it does not take the actions itself: it names them in
// [ConstraintCheckResult.Checks], and the run's machine has each taken once, in
// order, and records how it came out.
type ConstraintChecker interface {
	// CheckPreExecution evaluates all constraints that count before the run.
	CheckPreExecution(ctx context.Context, job *Job, runID string) (ConstraintCheckResult, error)
	// CheckPostExecution evaluates those that count after it. The times are those of
	// the pod; they are zero where it never ran. exitCode is -1 where it has none.
	CheckPostExecution(ctx context.Context, job *Job, runID string, startTime, endTime time.Time, exitCode int) (ConstraintCheckResult, error)
}

// ConstraintCheckResult is what an evaluation came to (004
// ConstraintCheckResult).
type ConstraintCheckResult struct {
	ShouldProceed bool   // false if constraints prevent execution
	Message       string // sums up the evaluation
	// Checks are the evaluations of each constraint, with the actions to be taken.
	Checks []core.ConstraintCheck
	// MaxAllowedRunTime is how long the pod may run; 0: no bound (R15).
	MaxAllowedRunTime time.Duration
	// Locks are the names of the locks that the checker took for the run: the run
	// gives them back when it ends.
	Locks []string
}

// ActionExecutor takes the actions of constraints that the machines do not carry
// out themselves (004 Action.Take): webhook, notify, log, and others of its own. An
// error with a method Permanent() bool is as with a Runner; an action is taken at
// least once. It must be safe for concurrent use.
type ActionExecutor interface {
	Take(ctx context.Context, job *Job, runID string, a Action) error
}

// Action is an action of a constraint that is to be taken.
type Action struct {
	Constraint string          // whose action it is
	Type       string          // "webhook", say
	Config     json.RawMessage // a JSON object, or empty
	// Key is the same when the action is repeated after a crash.
	Key string
}

// Reach is what a job's constraints and actions reach, for whoever decides whether
// somebody may apply the job.
type Reach struct {
	Tools     []string           // that hooks run
	Queues    []string           // that enqueue pushes into
	Jobs      []string           // that kickOffJob triggers
	Cancels   []string           // jobs whose runs cancelRun cancels
	Locks     []string           // that lock takes
	Pipelines []core.PipelineDef // that startPipeline starts
	Notify    bool               // notify
	Webhooks  bool               // webhook, and hooks with a URL
}
