package httpapi

import (
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// decidedHere says why some fields of a stored recurring action cannot be given.
var decidedHere = map[string]string{
	"id":                "is given at creation, by the server",
	"recurring_id":      "is given at creation, by the server",
	"namespace":         "is fixed at creation",
	"tenant":            "is fixed at creation",
	"created_at":        "is set by the server",
	"updated_at":        "is set by the server",
	"last_executed_at":  "is set by the server",
	"next_execution_at": "is set by the server: change cron_expr or timezone",
	"execution_count":   "is set by the server",
	"missed_count":      "is set by the server", "deduplicated_count": "is set by the server",
	"disabled_reason": "is set by the server", "last_due_at": "is set by the server", "sequence": "is set by the server",
	"action_template": "is set by its fields: provider, action_type, payload, metadata, dedup_key",
}

// patchOf gives the change that was asked for.
func patchOf(b *wire.RecurringPatch) (core.RecurringPatch, error) {
	p := core.RecurringPatch{Payload: b.Payload}
	var policy *wire.RunPolicy
	clearable(&p.DedupKey, b.DedupKey)
	clearable(&p.Description, b.Description)
	if b.EndsAt.Set {
		ms := int64(b.EndsAt.Value)
		p.EndsAt = &ms
	}
	for _, err := range []error{
		required("cron_expr", &p.CronExpr, b.CronExpr),
		required("timezone", &p.Timezone, b.Timezone),
		required("enabled", &p.Enabled, b.Enabled),
		required("metadata", &p.Metadata, b.Metadata),
		required("labels", &p.Labels, b.Labels),
		required("provider", &p.Provider, b.Provider),
		required("action_type", &p.ActionType, b.ActionType),
		required("start_deadline_seconds", &p.StartDeadlineSeconds, b.StartDeadlineSeconds),
		required("policy", &policy, b.Policy),
	} {
		if err != nil {
			return p, err
		}
	}
	if policy != nil {
		p.Policy = &policy.RunPolicy
	}
	switch {
	case p.CronExpr != nil && *p.CronExpr == "":
		return p, failf(http.StatusBadRequest, "cron_expr: must not be empty: leave it out to keep the present one")
	case p.Timezone != nil && *p.Timezone == "":
		return p, failf(http.StatusBadRequest, `timezone: must not be empty: use "UTC", or leave it out to keep the present one`)
	}
	return p, nil
}

// clearable passes a field on whose zero value means none.
func clearable[T any](dst **T, g wire.Optional[T]) {
	if g.Set {
		*dst = &g.Value
	}
}

// required passes a field on that always has a value.
func required[T any](name string, dst **T, g wire.Optional[T]) error {
	if g.Null {
		return failf(http.StatusBadRequest, "%s: must not be null: leave it out to keep the present one", name)
	}
	clearable(dst, g)
	return nil
}
