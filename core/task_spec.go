package core

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
)

// Limits and defaults of a [TaskSpec].
const (
	DefaultHeartbeatTimeoutMS  = 60_000  // 1 minute
	DefaultIdleTimeoutMS       = 300_000 // 5 minutes
	DefaultRecoveryIntervalMS  = 60_000  // 1 minute
	DefaultMaxRecoveryAttempts = 3
	// NoRecovery as max_recovery_attempts: what is stuck is escalated and fails,
	// nothing is tried before.
	NoRecovery = math.MaxUint32

	MaxRecoveries  = 1000      // max_recovery_attempts
	MaxPromptBytes = 64 << 10  // a prompt, an input, a command with its arguments
	MaxCommandArgs = 256       // arguments of a command, its name included
	MaxScreenBytes = 64 << 10  // what is kept of a session's screen: its end
	MaxOpenInputs  = 8         // inputs that a session has not taken yet
	MaxSpecBytes   = 512 << 10 // a task's spec as JSON, a strategy's approaches

	// MaxEffectRepeats is how often an interrupted effect is asked for again. It does not
	// bound what must not be left undone: the kill of a session, the pods of a run.
	MaxEffectRepeats = 5
)

// TaskSpec is what a creator says of a task.
type TaskSpec struct {
	ID         uuid.UUID         `json:"id"`
	Namespace  string            `json:"namespace"`
	Tenant     string            `json:"tenant"`
	Label      string            `json:"label"`
	PipelineID uuid.UUID         `json:"pipeline_id"` // zero: of no pipeline
	Owner      Owner             `json:"owner"`
	Workspace  string            `json:"workspace"` // the session's directory, under the workspace root
	Command    []string          `json:"command"`   // of the session; empty: no session, whoever does the work says so by events
	Env        map[string]string `json:"env"`
	Prompt     string            `json:"prompt"` // typed into the session once it runs; again after a restart
	Config     TaskConfig        `json:"config"`
}

// TaskConfig bounds a task (003 TaskConfig). Times are in milliseconds, at most
// [MaxTimeout].
type TaskConfig struct {
	// HeartbeatTimeoutMS without any heartbeat make the task stuck; 0: 1 minute.
	HeartbeatTimeoutMS int64 `json:"heartbeat_timeout_ms"`
	// IdleTimeoutMS without progress make it stuck, whatever its heart does; 0: 5
	// minutes.
	IdleTimeoutMS int64 `json:"idle_timeout_ms"`
	// MaxRecoveryAttempts bounds nudges and restarts together, over the whole
	// task; 0: 3. [NoRecovery]: none.
	MaxRecoveryAttempts uint32 `json:"max_recovery_attempts"`
	// RecoveryIntervalMS lies between two steps of the recovery; 0: 1 minute.
	RecoveryIntervalMS int64 `json:"recovery_interval_ms"`
	// CheckpointIntervalMS lies between two checkpoints in the pipeline, while the
	// task runs; 0, or of no pipeline: no checkpoints.
	CheckpointIntervalMS int64 `json:"checkpoint_interval_ms"`
	// TimeoutMS ends the whole task, counted from its creation, restarts included;
	// 0: never.
	TimeoutMS int64  `json:"timeout_ms"`
	Nudge     string `json:"nudge"` // what is typed to nudge; empty: return alone
}

// recoveries is how many attempts there are.
func (c TaskConfig) recoveries() uint32 {
	if c.MaxRecoveryAttempts == NoRecovery {
		return 0
	}
	return c.MaxRecoveryAttempts
}

func (c TaskConfig) withDefaults() TaskConfig {
	c.HeartbeatTimeoutMS = cmp.Or(c.HeartbeatTimeoutMS, DefaultHeartbeatTimeoutMS)
	c.IdleTimeoutMS = cmp.Or(c.IdleTimeoutMS, DefaultIdleTimeoutMS)
	c.RecoveryIntervalMS = cmp.Or(c.RecoveryIntervalMS, DefaultRecoveryIntervalMS)
	c.MaxRecoveryAttempts = cmp.Or(c.MaxRecoveryAttempts, DefaultMaxRecoveryAttempts)
	return c
}

func (c TaskConfig) validate() error {
	if n := c.MaxRecoveryAttempts; n > MaxRecoveries && n != NoRecovery {
		return fmt.Errorf("config.max_recovery_attempts: %d is not between 0 and %d; %d means none", n, MaxRecoveries, uint32(NoRecovery))
	}
	return errors.Join(
		checkLengthMS("config.heartbeat_timeout_ms", c.HeartbeatTimeoutMS),
		checkLengthMS("config.idle_timeout_ms", c.IdleTimeoutMS),
		checkLengthMS("config.recovery_interval_ms", c.RecoveryIntervalMS),
		checkLengthMS("config.checkpoint_interval_ms", c.CheckpointIntervalMS),
		checkLengthMS("config.timeout_ms", c.TimeoutMS),
		checkText("config.nudge", c.Nudge),
	)
}

// withDefaults fills what the creator left out, and makes nothing of what is
// empty, so that JSON changes nothing.
func (s TaskSpec) withDefaults() TaskSpec {
	s.Command, s.Env = nilIfEmpty(s.Command, len(s.Command)), nilIfEmpty(s.Env, len(s.Env))
	s.Config = s.Config.withDefaults()
	return s
}

// Validate tells what is wrong with the spec: the field, its value, and what
// would be right.
func (s TaskSpec) Validate() error {
	if s.ID == uuid.Nil {
		return errors.New("id: must be a UUID that is not all zeros")
	}
	return errors.Join(
		checkTenant("", s.Namespace, s.Tenant),
		checkText("label", s.Label),
		s.Owner.validate(),
		checkText("workspace", s.Workspace),
		checkCommand("command", s.Command),
		checkEnv("env", s.Env),
		checkLongText("prompt", s.Prompt),
		s.Config.validate(),
		checkSize("spec", s),
	)
}
