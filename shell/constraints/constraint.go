package constraints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Constraint is one configured constraint of a job (004 Constraint). It must be
// safe for concurrent use: the runs of a job share it.
//
// Other than in 004 OnViolation and OnMet do not take the actions but name them: the
// run's machine takes each once, in order. Embed [Lists] to have them.
type Constraint interface {
	// Check evaluates the constraint. An error says that it could not tell, and not
	// that it is violated. After a crash it is asked once more.
	Check(ctx context.Context, in *Input) (Outcome, error)
	// OnViolation are the actions to take where it is violated.
	OnViolation() []core.ActionRequest
	// OnMet are those to take where it is met.
	OnMet() []core.ActionRequest
}

// Outcome is what a constraint came to.
type Outcome struct {
	Met bool
	// Message says why, in a line without secrets: it is stored and shown.
	Message string
	// MaxAllowedRunTime bounds the run time of the pod (0: no bound), before the run only.
	MaxAllowedRunTime time.Duration

	// undecided: nothing is to be told in this phase yet.
	undecided bool
}

// Input is what a constraint is evaluated on.
type Input struct {
	Job   *jobs.Job         // not to be written to
	Run   core.Orchestrator // as it is stored
	Phase effects.CheckPhase
	Now   time.Time
	// Start, End and ExitCode are the pod's, after the run; -1 where there is no code.
	Start, End time.Time
	ExitCode   int
	Source     Source
	Logger     *slog.Logger // with the fields of the run

	name    string // of the constraint
	checker *Checker
}

// Scope is that of the run.
func (in *Input) Scope() shell.Scope {
	return shell.Scope{Namespace: in.Job.Namespace, Tenant: in.Job.Tenant}
}

// Type is a type of constraints.
type Type struct {
	// New makes a constraint. Errors name the field: see [Spec.Decode] and [Spec.Errorf].
	New func(s Spec) (Constraint, error)
	// Phases are those in which it may be checked; the first one is the default.
	// Empty: both, before the run by default.
	Phases []effects.CheckPhase
	// Advisory: a violation alone does not stop a run, only its actions may.
	Advisory bool
	// Always: it is checked in all its phases, and none can be chosen.
	Always bool
}

// Lists are the actions of a constraint. Embedding it gives OnViolation and OnMet.
type Lists struct{ Violated, Met []core.ActionRequest }

// OnViolation gives Violated.
func (l Lists) OnViolation() []core.ActionRequest { return l.Violated }

// OnMet gives Met.
func (l Lists) OnMet() []core.ActionRequest { return l.Met }

// Spec is how a constraint is configured.
type Spec struct {
	Job    *jobs.Job       // whose it is
	Name   string          // its name in the job
	Path   string          // of the constraint: "constraints[2].timeWindow"
	Config json.RawMessage // a JSON object
	Lists

	parsed *plan // collects what it needs
}

// Decode reads the configuration strictly. Errors have the path of the field.
func (s Spec) Decode(dst any) error { return strictjson.DecodeAt(s.Path+".config", s.Config, dst) }

// Errorf makes an error of a field of the configuration.
func (s Spec) Errorf(field, format string, args ...any) error {
	return fmt.Errorf("%s.config.%s: %w", s.Path, field, fmt.Errorf(format, args...))
}

// refuse lets no new job have the configuration. A job that has it already keeps it.
func (s Spec) refuse(err error) {
	if s.parsed != nil {
		s.parsed.refused = errors.Join(s.parsed.refused, err)
	}
}

// Action is one configured action that leaves the machine (004 Action). It must be
// safe for concurrent use, and is taken at least once.
type Action interface {
	// Take carries it out. An error may say that it is permanent, see [shell.IsPermanent].
	Take(ctx context.Context, in *ActionInput) error
}

// ActionFactory makes an action of a JSON object; path is the object's place, for errors.
type ActionFactory func(path string, config json.RawMessage) (Action, error)

// ActionInput is what an action is told.
type ActionInput struct {
	Job        *jobs.Job // not to be written to
	Run        core.Orchestrator
	Constraint string
	Phase      effects.CheckPhase
	Met        bool   // the constraint is met
	Message    string // what it came to
	// Key is the same when the same action is taken again after a crash.
	Key    string
	Logger *slog.Logger // with the fields of the run
}

// span is a length of time in JSON: "10m", as Go writes it.
type span time.Duration

// UnmarshalJSON reads a positive length of time.
func (s *span) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("want a length of time in quotes such as %q, got %s", "10m", clip.Text(string(b), maxQuoted))
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > core.MaxTimeout {
		return fmt.Errorf("%q is not a length of time between 1ms and %v, such as %q or %q", clip.Text(text, maxQuoted), core.MaxTimeout, "90s", "1h30m")
	}
	*s = span(d)
	return nil
}
