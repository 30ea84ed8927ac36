package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

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
