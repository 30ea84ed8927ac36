package wire

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// BackfillRequest is the body of POST /v1/backfills: of the schedule either RecurringID or Job is
// given. What of Namespace and Tenant is left out is that of the token, or the default.
type BackfillRequest struct {
	RecurringID *string `json:"recurring_id,omitempty"`
	Job         string  `json:"job,omitempty"`
	Namespace   *string `json:"namespace,omitempty"`
	Tenant      *string `json:"tenant,omitempty"`

	From             effects.Time  `json:"from"`
	To               *effects.Time `json:"to,omitempty"`
	MaxActive        uint32        `json:"max_active,omitempty"`
	SpacingSeconds   int64         `json:"spacing_seconds,omitempty"`
	Limit            uint32        `json:"limit,omitempty"`
	Reason           string        `json:"reason,omitempty"`
	IncludeForgotten bool          `json:"include_forgotten,omitempty"`
	DryRun           bool          `json:"dry_run,omitempty"`
}

// BackfillPlan is the answer to a dry run: what a backfill would dispatch.
type BackfillPlan struct {
	Namespace         string         `json:"namespace"`
	Tenant            string         `json:"tenant"`
	Schedule          effects.Ref    `json:"schedule"`
	Name              string         `json:"name"`
	From              effects.Time   `json:"from"`
	To                effects.Time   `json:"to"`
	Times             []effects.Time `json:"times"`
	AlreadyDispatched uint64         `json:"already_dispatched"`
	Forgotten         uint64         `json:"forgotten"`
}

// BackfillSummary is a backfill as lists show it: without its times.
type BackfillSummary struct {
	ID                uuid.UUID           `json:"id"`
	Namespace         string              `json:"namespace"`
	Tenant            string              `json:"tenant"`
	Schedule          effects.Ref         `json:"schedule"`
	Name              string              `json:"name"`
	From              effects.Time        `json:"from"`
	To                effects.Time        `json:"to"`
	Total             int                 `json:"total"` // of its times
	AlreadyDispatched uint64              `json:"already_dispatched"`
	Forgotten         uint64              `json:"forgotten"`
	Reason            string              `json:"reason"`
	By                string              `json:"by"`
	Status            core.BackfillStatus `json:"status"`
	Next              uint32              `json:"next"`
	Running           int                 `json:"running"` // times that are under way
	Counts            core.BackfillCounts `json:"counts"`
	Held              string              `json:"held,omitempty"`
	CreatedAt         effects.Time        `json:"created_at"`
	UpdatedAt         effects.Time        `json:"updated_at"`
	FinishedAt        effects.Time        `json:"finished_at"`
}

// BackfillList is a page of GET /v1/backfills.
type BackfillList struct {
	Backfills     []BackfillSummary `json:"backfills"`
	NextPageToken string            `json:"next_page_token"`
}
