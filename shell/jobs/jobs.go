// Package jobs carries out what the runs of jobs ask for (004): it creates, reads
// and deletes their pods by way of a [Runner], checks constraints and takes actions,
// sends the runs' heartbeats, and compares what the runners hold with the store. It
// knows no Kubernetes: package kube has a Runner for that, package local one of
// processes of this machine.
//
// The files, in the order in which they are best read:
//
//   - jobs.go: attempts, what a [Runner] does and observes, and what evaluates constraints
//     and takes actions;
//   - service.go: the [Service], its options, and its goroutines;
//   - interpret.go: each effect that a run asks for;
//   - places.go, queued.go: how many pods of a runner live at a time, and who waits for room;
//   - sink.go: what runners observe, on its way into the runs;
//   - looks.go: what there was when the process began, and whether its runner has looked at it;
//   - heartbeats.go, beating.go: who reports the heartbeats of runs, and which runs beat;
//   - database.go, place.go: whose pods are, if databases share a cluster;
//   - reconcile.go: lost attempts, strays, and what else nobody cleans up;
//   - logs.go: the logs of an attempt, live and stored;
//   - feeds.go: updates and metrics for an embedder;
//   - tool.go: the tool kubernetes.
//
// # Duties of the caller
//
//  1. Make the service with [New], and give [shell.Options] its Interpreters, and its
//     Tool under [ToolName] if actions are to run pods.
//  2. Begin [shell.Engine.Run], then [Service.Run] with the same engine. Effects of
//     runs wait until then.
//  3. Call [Service.Check] before a job is applied: what it refuses would fail as
//     soon as a run begins.
//  4. End [Service.Run] once the engine has stopped; it ends by itself then.
package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/told"
)

// Attempt names one attempt of a run: in a cluster there is at most one pod of it.
type Attempt struct {
	Run uuid.UUID // the id of the run's machine
	N   uint32    // 0 for the first
}

// Name is what the attempt is called in a cluster: a DNS label, the same for the
// same attempt, so that creating it again finds it.
func (a Attempt) Name() string { return fmt.Sprintf("orrery-%x-%d", a.Run[:], a.N) }

// Run is an attempt with all that a Runner needs to create it.
type Run struct {
	Attempt
	RunID       string // "jobID:timestamp"
	JobID       string
	Namespace   string // Orrery's, not the cluster's
	Tenant      string
	ScheduledAt core.Time
	Occurrence  uuid.UUID // its entry in the ledger; zero: none
	// Spec is the job's configuration: the pod spec, the labels and the limit of the
	// pod's start.
	Spec core.JobSpec
	// MaxAllowedRunTimeMS is how long the pod may run; 0: no bound. Orrery itself
	// kills it then: a Runner may have the cluster do so a little later, for the case
	// that Orrery is gone.
	MaxAllowedRunTimeMS int64
	// Confirm, unless it is nil, is asked right before each call that creates something, by a Runner that has to wait before it, or repeats it. An error says
	// that the database may be another process's by now: then nothing is created, and Create returns the error as it is.
	Confirm func() error `json:"-"`
}

// EnvVar is a variable of a container's environment.
type EnvVar struct{ Name, Value string }

// Env gives the variables that each container of the attempt has, whatever its runner: the
// run's id, the job's, the scheduled time (RFC 3339), which is the occurrence that it stands for,
// and the attempt (0: the first), which a job must not set itself, see [SetsEnv]; then namespace,
// tenant and labels (a JSON object; empty without labels), where a container's own variable of
// that name wins: the first two are also defaults of the command line of orreryd; and the id of
// the run's occurrence, if it has one.
func (r Run) Env() []EnvVar {
	env := append(r.identity(),
		EnvVar{"ORRERY_NAMESPACE", r.Namespace}, EnvVar{"ORRERY_TENANT", r.Tenant},
		EnvVar{"ORRERY_LABELS", told.Object(r.Spec.Labels)})
	if r.Occurrence != uuid.Nil {
		env = append(env, EnvVar{"ORRERY_OCCURRENCE", r.Occurrence.String()})
	}
	return env
}

// identity gives the variables that say which attempt it is.
func (r Run) identity() []EnvVar {
	return []EnvVar{
		{"ORRERY_RUN_ID", r.RunID}, {"ORRERY_JOB_ID", r.JobID},
		{"ORRERY_SCHEDULED_AT", r.ScheduledAt.String()}, {"ORRERY_ATTEMPT", strconv.FormatUint(uint64(r.N), 10)},
	}
}

// SetsEnv reports whether a variable is one of [Run.Env] that a job must not set itself.
func SetsEnv(name string) bool {
	return slices.ContainsFunc(Run{}.identity(), func(v EnvVar) bool { return v.Name == name })
}

// Runner runs pods: in a cluster, or as processes. It must be safe for concurrent
// use.
//
// An error with a method Permanent() bool that returns true says that a repetition is
// pointless. Other errors may pass: a Runner repeats its calls for as long as its
// context lasts, with a growing wait and within the limits that the other side sets.
// calls is how many calls of the cluster's API it made, also beside an error.
type Runner interface {
	// Check reports what of a job's pod spec, which is a JSON object, this runner
	// cannot run: an error names the field.
	Check(spec core.JobSpec) error
	// Create creates the attempt. That it exists already is no error, as long as it is
	// ours. The context ends when nobody wants the attempt any more; it may exist
	// nonetheless.
	Create(ctx context.Context, r Run) (calls int, err error)
	// Logs copies what the attempt's pod has written to w: all containers, in the
	// order of the pod spec, each line as it was written; several containers with their
	// names, see [Sections]. With o.Follow it goes on until the pod has ended. The error
	// is an [ErrNoPod] if there is no pod.
	Logs(ctx context.Context, a Attempt, o LogOptions, w io.Writer) (calls int, err error)
	// Delete deletes the attempt with its pods and processes, and returns once all
	// are gone. That there is no such attempt is no error.
	Delete(ctx context.Context, a Attempt) (calls int, err error)
	// Watch tells sink of all pods that this runner holds, and then of each change of
	// them, until ctx ends; it goes on over errors of the cluster. One watch serves all
	// runs.
	Watch(ctx context.Context, sink Sink) error
	// Held lists the attempts that the runner holds, once these are known: Watch must
	// run. It costs no call of the API.
	Held(ctx context.Context) ([]Attempt, error)
	// Beat reports whether the runner works: it answers as soon as what the cluster has
	// told it before has gone through its Watch. A runner that hangs does not answer,
	// and the runs whose pods it holds have no heartbeat. That the cluster cannot be
	// reached is no failure.
	Beat(ctx context.Context) error
}

// Keeper is implemented by a [Runner] whose Delete leaves some attempts that have ended for a
// time, for people to look at. Such an attempt counts as deleted for its run, and is held until
// it is deleted after its time.
type Keeper interface {
	// Keeps is until when the attempt stays; zero if it is not kept. The time may be over:
	// then Delete deletes it. It costs no call of the API.
	Keeps(a Attempt) time.Time
}

// Doubter is implemented by a [Runner] that tells some of what it sees only after a while, as
// more may be seen that says otherwise.
type Doubter interface {
	// Doubtful lists the attempts of which the runner is about to tell something within a
	// minute, though nothing else changes. After a start their runs' limits do not count
	// before it has. It costs no call of the cluster.
	Doubtful() []Attempt
}

// Noter is implemented by a [Runner] that can say why what is left of an attempt takes so long.
type Noter interface {
	// NoteOf says what an attempt waits for that is being deleted, in a clause such as "pod
	// p is being deleted: …"; empty: nothing that is unusual. It costs no call of the cluster.
	NoteOf(a Attempt) string
}

// LogOptions say which of a pod's logs are wanted.
type LogOptions struct {
	Follow    bool
	Container string // empty: all
	// Opened, with Follow, is called once as soon as what the pod writes from then on will
	// be read; nil: nobody asks. The pod is about to be deleted then: a Runner whose Delete
	// removes the logs with the pod waits for such a reader, a few seconds at most. A Runner
	// that does not know it may leave it uncalled: the deletion waits for it a moment.
	Opened func()
	// Kept, without Follow, is for [Service.Logs] alone: it is called before anything is written,
	// where the runner is down and what was stored of the logs so far is given instead. Where
	// it is nil the error says so, after what was written.
	Kept func(*DownError)
}

// Sink takes what a [Runner] observes. Its methods may block for a while: there is
// one order of all observations of an attempt.
type Sink interface {
	Observe(ctx context.Context, o Observation)
}

// Observation is what a [Runner] sees of an attempt. The same may be told more
// than once.
type Observation struct {
	Attempt
	Phase Phase
	Pod   core.Pod // what is known of it; with PhaseLost the Reason alone counts
	// Final says with PhaseRefused that no other pod of the job would start either: the run
	// fails, whatever attempts it has left.
	Final bool
}

// Phase says how far a pod is.
type Phase string

// Phases of a pod, in the order in which they are reached.
const (
	PhaseCreated Phase = "created" // there is a pod, or a reason why there is none yet
	PhaseRunning Phase = "running"
	PhaseEnded   Phase = "ended" // with an exit code, or for a reason
	PhaseLost    Phase = "lost"  // it is gone, and nobody saw it end
	// PhaseRefused: it has not run, and will not; the pod's Reason and Message say why.
	PhaseRefused Phase = "refused"
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
	// the pod, and zero if the pod never ran. exitCode is -1 if the pod has none.
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
