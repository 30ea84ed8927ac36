// Package jobs carries out what the runs of jobs ask for (004): it creates, reads
// and deletes their pods by way of a [Runner], checks constraints and takes actions,
// sends the runs' heartbeats, and compares what the runners hold with the store. It
// knows no Kubernetes: package kube has a Runner for that, package local one of
// processes of this machine.
//
// The files, in the order in which they are best read:
//
//   - jobs.go: attempts, and what a [Runner] does and observes;
//   - constraints.go: what evaluates constraints and takes actions;
//   - service.go: the [Service], its options, and its goroutines;
//   - interpret.go: each effect that a run asks for;
//   - sink.go: what runners observe, on its way into the runs;
//   - heartbeats.go: the heartbeats of the runs whose runners work;
//   - reconcile.go: lost attempts, strays, and what else nobody cleans up;
//   - logs.go, headtail.go, sections.go: the logs of an attempt, live and stored;
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
//  4. End [Service.Run] before the engine: what runners observe goes into the engine.
package jobs

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
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
	// Spec is the job's configuration: the pod spec, the labels and the limit of the
	// pod's start.
	Spec core.JobSpec
	// MaxAllowedRunTimeMS is how long the pod may run; 0: no bound. Orrery itself
	// kills it then: a Runner may have the cluster do so a little later, for the case
	// that Orrery is gone.
	MaxAllowedRunTimeMS int64
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

// LogOptions say which of a pod's logs are wanted.
type LogOptions struct {
	Follow    bool
	Container string // empty: all
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
}

// Phase says how far a pod is.
type Phase string

// Phases of a pod, in the order in which they are reached.
const (
	PhaseCreated Phase = "created" // there is a pod, or a reason why there is none yet
	PhaseRunning Phase = "running"
	PhaseEnded   Phase = "ended" // with an exit code, or for a reason
	PhaseLost    Phase = "lost"  // it is gone, and nobody saw it end
)
