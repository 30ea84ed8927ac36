package jobs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// Options configure a [Service]. The zero value of each field but Runners is a
// sound default.
type Options struct {
	// Runners are the runners by name: a job's runner picks one.
	Runners map[string]Runner
	// DefaultRunner names the runner of jobs that name none; empty: the only one,
	// where there is one.
	DefaultRunner string
	// Checker evaluates constraints; nil: a job that has some is refused.
	Checker ConstraintChecker
	// Actions takes the actions of constraints; nil: each fails.
	Actions ActionExecutor
	// HeartbeatInterval is the time between the heartbeats of a run (004
	// OrchestratorHeartbeatInterval; default 10 s), MaxMissed how many may be missing
	// before it is orphaned (004 MaxMissedOrchestratorHeartbeats; default 3).
	HeartbeatInterval time.Duration
	MaxMissed         int
	// ReconcileEvery is how often cluster and store are held against one another
	// (default 5 min), besides at the start.
	ReconcileEvery time.Duration
	// LogHeadBytes and LogTailBytes are what is kept of an attempt's logs where a job
	// says nothing else (default 256 KiB each); the middle is dropped.
	LogHeadBytes int64
	LogTailBytes int64
	// Syncer and Stats, where there are any, are told of runs in batches.
	Syncer JobStateSyncer
	Stats  StatsCollector

	Clock  shell.Clock  // default shell.SystemClock
	Logger *slog.Logger // default slog.Default()
}

// Service is the shell of all runs. Make it with [New], give the engine its
// Interpreters, then call Run beside [shell.Engine.Run]. It is safe for concurrent
// use.
type Service struct{ o Options }

// New makes a Service. The error names the option that cannot be right.
func New(o Options) (*Service, error) { return &Service{o: o}, nil }

// Interpreters are for [shell.Options.Interpreters]: one for each lane of runs. An
// effect waits until Run knows the engine.
func (s *Service) Interpreters() map[string]shell.Interpreter { return nil }

// Check reports what of a job cannot be run here: before [shell.Engine.ApplyJob].
// An error names the field.
func (s *Service) Check(spec core.JobSpec) error { return errors.New("not written yet") }

// Run watches, reconciles and sends heartbeats until ctx ends.
func (s *Service) Run(ctx context.Context, e *shell.Engine) error {
	return errors.New("not written yet")
}

// Logs copies the logs of an attempt of a run to w: the stored ones, or while there
// are none yet those of its pod. With o.Follow it goes on until the attempt has
// ended. [ErrNoPod] where there are none, wrapped with the reason.
func (s *Service) Logs(ctx context.Context, run core.Orchestrator, attempt uint32, o LogOptions, w io.Writer) error {
	return errors.New("not written yet")
}

// ToolName is the name of the tool kubernetes (B7).
const ToolName = "kubernetes"

// Tool is the tool kubernetes (B7): an action that triggers a job, or runs a pod of
// its own, and ends as the run does.
func (s *Service) Tool() shell.Tool { return nil }
