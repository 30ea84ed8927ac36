package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// PipelineRequest is the body of POST /v1/pipelines: the fields of
// [core.PipelineSpec] that may come from outside.
type PipelineRequest struct {
	ID         *string                    `json:"id,omitempty"`
	Namespace  *string                    `json:"namespace,omitempty"`
	Tenant     *string                    `json:"tenant,omitempty"`
	Label      *string                    `json:"label,omitempty"`
	Runbook    *string                    `json:"runbook,omitempty"`
	Definition *core.PipelineDef          `json:"definition"`
	Context    map[string]json.RawMessage `json:"context,omitempty"`
	DependsOn  []string                   `json:"depends_on,omitempty"`
	Hold       *bool                      `json:"hold,omitempty"`
}

// PipelineSummary is a pipeline as lists show it: without its definition, its
// context and what only its machine needs.
type PipelineSummary struct {
	ID             uuid.UUID    `json:"id"`
	Namespace      string       `json:"namespace"`
	Tenant         string       `json:"tenant"`
	Label          string       `json:"label"`
	Runbook        string       `json:"runbook"`
	Name           string       `json:"name"`
	Phase          core.Phase   `json:"phase"`
	PhaseStartedAt core.Time    `json:"phase_started_at"`
	Attempt        uint32       `json:"attempt"`
	WaitsFor       core.WaitFor `json:"waits_for"`
	CreatedAt      core.Time    `json:"created_at"`
	UpdatedAt      core.Time    `json:"updated_at"`
	StartedAt      core.Time    `json:"started_at"`
	FinishedAt     core.Time    `json:"finished_at"`
}

// PipelineList is a page of GET /v1/pipelines.
type PipelineList struct {
	Pipelines     []PipelineSummary `json:"pipelines"`
	NextPageToken string            `json:"next_page_token"`
}

// SignalRequest is the body of POST /v1/pipelines/{id}/signal.
type SignalRequest core.PipelineSignal

// ApprovalRequest is the body of POST /v1/pipelines/{id}/approve. Phase and Approved must be
// given.
type ApprovalRequest struct {
	Phase    string  `json:"phase"`
	Approved *bool   `json:"approved"`
	By       *string `json:"by,omitempty"`
	Comment  string  `json:"comment,omitempty"`
}

// CheckpointRequest is the body of POST /v1/pipelines/{id}/checkpoint.
type CheckpointRequest core.PipelineCheckpoint

// PhaseCompleteRequest is the optional body of POST
// /v1/pipelines/{id}/phases/{phase}/complete. Attempt 0 means the present one.
type PhaseCompleteRequest struct {
	Attempt uint32          `json:"attempt,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// PhaseFailRequest is the optional body of POST /v1/pipelines/{id}/phases/{phase}/fail.
// Attempt 0 means the present one.
type PhaseFailRequest struct {
	Attempt   uint32 `json:"attempt,omitempty"`
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
}

// StrategyRequest is the body of POST /v1/strategies: the fields of
// [core.StrategySpec] that may come from outside.
type StrategyRequest struct {
	ID         *string         `json:"id,omitempty"`
	Namespace  *string         `json:"namespace,omitempty"`
	Tenant     *string         `json:"tenant,omitempty"`
	Label      *string         `json:"label,omitempty"`
	Approaches []core.Approach `json:"approaches"`
}

// StrategySummary is a strategy as lists show it: without its approaches and its output.
type StrategySummary struct {
	ID         uuid.UUID           `json:"id"`
	Namespace  string              `json:"namespace"`
	Tenant     string              `json:"tenant"`
	Label      string              `json:"label"`
	PipelineID uuid.UUID           `json:"pipeline_id"`
	Status     core.StrategyStatus `json:"status"`
	Current    uint32              `json:"current"`
	Approach   string              `json:"approach"`
	Approaches int                 `json:"approaches"`
	Error      string              `json:"error"`
	CreatedAt  core.Time           `json:"created_at"`
	UpdatedAt  core.Time           `json:"updated_at"`
	FinishedAt core.Time           `json:"finished_at"`
}

// StrategyList is a page of GET /v1/strategies.
type StrategyList struct {
	Strategies    []StrategySummary `json:"strategies"`
	NextPageToken string            `json:"next_page_token"`
}

// EvaluateRequest is the body of POST /v1/strategies/{id}/evaluate: how the present approach
// came out. N and Success must be given.
type EvaluateRequest struct {
	N       *uint32         `json:"n"`
	Success *bool           `json:"success"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// TaskRequest is the body of POST /v1/tasks: the fields of [core.TaskSpec] that
// may come from outside.
type TaskRequest struct {
	ID        *string           `json:"id,omitempty"`
	Namespace *string           `json:"namespace,omitempty"`
	Tenant    *string           `json:"tenant,omitempty"`
	Label     *string           `json:"label,omitempty"`
	Workspace string            `json:"workspace,omitempty"`
	Command   []string          `json:"command,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Prompt    string            `json:"prompt,omitempty"`
	Config    *core.TaskConfig  `json:"config,omitempty"`
}

// TaskSummary is a task as lists show it: without its prompt and its screen.
type TaskSummary struct {
	ID               uuid.UUID      `json:"id"`
	Namespace        string         `json:"namespace"`
	Tenant           string         `json:"tenant"`
	Label            string         `json:"label"`
	PipelineID       uuid.UUID      `json:"pipeline_id"`
	SessionID        string         `json:"session_id"`
	Home             string         `json:"home,omitempty"`
	State            core.TaskState `json:"state"`
	Progress         string         `json:"progress"`
	LastHeartbeat    core.Time      `json:"last_heartbeat"`
	LastProgress     core.Time      `json:"last_progress"`
	RecoveryAttempts uint32         `json:"recovery_attempts"`
	Restarts         uint32         `json:"restarts"`
	CreatedAt        core.Time      `json:"created_at"`
	UpdatedAt        core.Time      `json:"updated_at"`
	FinishedAt       core.Time      `json:"finished_at"`
}

// TaskList is a page of GET /v1/tasks.
type TaskList struct {
	Tasks         []TaskSummary `json:"tasks"`
	NextPageToken string        `json:"next_page_token"`
}

// HeartbeatRequest is the optional body of POST /v1/tasks/{id}/heartbeat.
type HeartbeatRequest struct {
	Status   core.Liveness `json:"status,omitempty"`
	Session  string        `json:"session,omitempty"`
	IdleMS   int64         `json:"idle_ms,omitempty"`
	ExitCode *int32        `json:"exit_code,omitempty"`
	Output   string        `json:"output,omitempty"`
	Progress string        `json:"progress,omitempty"`
}

// TaskCompleteRequest is the optional body of POST /v1/tasks/{id}/complete.
type TaskCompleteRequest core.TaskComplete

// TaskFailRequest is the optional body of POST /v1/tasks/{id}/fail.
type TaskFailRequest struct {
	Error string `json:"error,omitempty"`
}

// RecoverRequest is the body of POST /v1/tasks/{id}/recover.
type RecoverRequest core.TaskRecover

// InputRequest is the body of POST /v1/tasks/{id}/input.
type InputRequest core.TaskInput

// TaskScreen is the answer to GET /v1/tasks/{id}/screen: what the session of a task shows.
type TaskScreen struct {
	SessionID string `json:"session_id"`
	// Live says that the screen was captured at At, at most a second ago; else it is the end of it as the last heartbeat has told it,
	// which was at At, and Why says why it was not captured.
	Live bool         `json:"live"`
	At   effects.Time `json:"at"`
	Why  string       `json:"why"`
	// Screen has its rows, with the escape sequences of its colours if they are known.
	Screen       string `json:"screen"`
	Title        string `json:"title"`
	Rows         int    `json:"rows"`
	Columns      int    `json:"columns"`
	CursorRow    int    `json:"cursor_row"`
	CursorColumn int    `json:"cursor_column"`
}
