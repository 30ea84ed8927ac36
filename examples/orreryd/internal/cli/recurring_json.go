package cli

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// What the commands print with --json is called in each of them as in show: 002, which the API follows, has another name
// for the same in the answer to each request, such as recurring_id and next_execution for a new recurring action.

// recurringAdded is what recurring add prints of a new recurring action.
type recurringAdded struct {
	ID              uuid.UUID    `json:"id"`
	Namespace       any          `json:"namespace"`
	Tenant          any          `json:"tenant"`
	Name            any          `json:"name,omitempty"`
	CronExpr        string       `json:"cron_expr"`
	Timezone        string       `json:"timezone"`
	Enabled         bool         `json:"enabled"`
	NextExecutionAt effects.Time `json:"next_execution_at"`
	Warnings        []string     `json:"warnings,omitempty"`
}

// newRecurringAdded puts together what was asked for and what was answered.
func newRecurringAdded(asked map[string]any, created wire.RecurringCreated) recurringAdded {
	return recurringAdded{
		ID: created.RecurringID, Namespace: asked["namespace"], Tenant: asked["tenant"], Name: asked["name"],
		CronExpr: created.CronExpr, Timezone: created.Timezone, Enabled: created.Enabled, NextExecutionAt: created.NextExecution, Warnings: created.Warnings,
	}
}

// recurringListed is what recurring list prints of each one. Its members of the same JSON name stand in the place of those
// of the summary, and are left out: they stand in the template, or mean something else there.
type recurringListed struct {
	wire.RecurringSummary

	Provider       *string           `json:"provider,omitempty"`
	ActionType     *string           `json:"action_type,omitempty"`
	Running        *int              `json:"running,omitempty"` // in show, those that run
	RunningCount   int               `json:"running_count,omitempty"`
	ActionTemplate recurringTemplate `json:"action_template"`
}

type recurringTemplate struct {
	Provider   string `json:"provider"`
	ActionType string `json:"action_type"`
}

func newRecurringListed(s wire.RecurringSummary) recurringListed {
	return recurringListed{RecurringSummary: s, RunningCount: s.Running, ActionTemplate: recurringTemplate{Provider: s.Provider, ActionType: s.ActionType}}
}
