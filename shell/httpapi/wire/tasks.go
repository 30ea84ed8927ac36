package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

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
type TaskCompleteRequest struct {
	Output json.RawMessage `json:"output,omitempty"`
}

// TaskFailRequest is the optional body of POST /v1/tasks/{id}/fail.
type TaskFailRequest struct {
	Error string `json:"error,omitempty"`
}

// RecoverRequest is the body of POST /v1/tasks/{id}/recover.
type RecoverRequest struct {
	Action  core.RecoveryAction `json:"action"`
	Message string              `json:"message,omitempty"`
}

// InputRequest is the body of POST /v1/tasks/{id}/input.
type InputRequest struct {
	Text string `json:"text"`
}
