package wire

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// RunSummary is a run as lists show it: without its configuration, its checks and what only
// its machine needs.
type RunSummary struct {
	ID           uuid.UUID               `json:"id"`
	RunID        string                  `json:"run_id"`
	JobID        string                  `json:"job_id"`
	Namespace    string                  `json:"namespace"`
	Tenant       string                  `json:"tenant"`
	ScheduledAt  effects.Time            `json:"scheduled_at"`
	Manual       bool                    `json:"manual"`
	State        core.OrchestratorStatus `json:"state"`
	RetryAttempt uint32                  `json:"retry_attempt"` // 0: the first attempt
	MaxRetries   uint32                  `json:"max_retries"`
	InCluster    bool                    `json:"in_cluster"`
	Pod          core.Pod                `json:"pod"`
	Error        string                  `json:"error"`
	CreatedAt    effects.Time            `json:"created_at"`
	StartedAt    effects.Time            `json:"started_at"` // of the pod; null: it does not run yet
	RetryAt      effects.Time            `json:"retry_at"`
	CompletedAt  effects.Time            `json:"completed_at"`
}

// RunList is a page of GET /v1/runs and of GET /v1/jobs/{id}/runs.
type RunList struct {
	Runs          []RunSummary `json:"runs"`
	NextPageToken string       `json:"next_page_token"`
}
