package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
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
type SignalRequest struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// ApprovalRequest is the body of POST /v1/pipelines/{id}/approve. Phase and Approved must be
// given.
type ApprovalRequest struct {
	Phase    string  `json:"phase"`
	Approved *bool   `json:"approved"`
	By       *string `json:"by,omitempty"`
	Comment  string  `json:"comment,omitempty"`
}

// CheckpointRequest is the body of POST /v1/pipelines/{id}/checkpoint.
type CheckpointRequest struct {
	Message string `json:"message"`
}

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
