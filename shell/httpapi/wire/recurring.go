package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// RecurringRequest is the body of POST /v1/recurring (002 section 4).
type RecurringRequest struct {
	// Name is how files and people refer to it, beyond 002; of one tenant's no two have the same. Empty: none.
	Name                 string            `json:"name,omitempty"`
	Namespace            *string           `json:"namespace,omitempty"`
	Tenant               *string           `json:"tenant,omitempty"`
	CronExpr             string            `json:"cron_expr"`
	Timezone             *string           `json:"timezone,omitempty"`
	Provider             string            `json:"provider"`
	ActionType           string            `json:"action_type"`
	Payload              json.RawMessage   `json:"payload,omitempty"`
	Metadata             map[string]string `json:"metadata,omitempty"`
	DedupKey             *string           `json:"dedup_key,omitempty"`
	Description          *string           `json:"description,omitempty"`
	Labels               map[string]string `json:"labels,omitempty"`
	EndsAt               *effects.Time     `json:"ends_at,omitempty"`
	Enabled              *bool             `json:"enabled,omitempty"`
	StartDeadlineSeconds *int64            `json:"start_deadline_seconds,omitempty"`
	Policy               *RunPolicy        `json:"policy,omitempty"`
	core.ScheduleOptions
	Overlap core.OverlapPolicy `json:"overlap,omitempty"`
}

// RecurringCreated is the answer to POST /v1/recurring.
type RecurringCreated struct {
	RecurringID   uuid.UUID    `json:"recurring_id"`
	NextExecution effects.Time `json:"next_execution"`
	CronExpr      string       `json:"cron_expr"`
	Timezone      string       `json:"timezone"`
	Enabled       bool         `json:"enabled"`
	Warnings      []string     `json:"warnings,omitempty"` // what of the expression means something else than it seems to
}

// RecurringSummary is a recurring action as lists show it (002 section 4).
type RecurringSummary struct {
	ID              uuid.UUID         `json:"id"`
	Name            string            `json:"name,omitempty"` // beyond 002, where it has one
	CronExpr        string            `json:"cron_expr"`
	Timezone        string            `json:"timezone"`
	DayMatch        schedule.DayMatch `json:"day_match,omitempty"` // beyond 002, where it is given
	Enabled         bool              `json:"enabled"`
	Ended           bool              `json:"ended,omitempty"` // beyond 002: no time of it is to come, also if it were enabled
	Description     *string           `json:"description"`     // null: none
	Provider        string            `json:"provider"`
	ActionType      string            `json:"action_type"`
	NextExecutionAt effects.Time      `json:"next_execution_at"`
	LastExecutedAt  effects.Time      `json:"last_executed_at"`
	LastSuccessAt   effects.Time      `json:"last_success_at,omitzero"` // beyond 002: when what it dispatched last completed
	Running         int               `json:"running,omitempty"`        // beyond 002: how many of its dispatches have not ended
	ExecutionCount  uint64            `json:"execution_count"`
	CreatedAt       effects.Time      `json:"created_at"`
	Labels          map[string]string `json:"labels"`
	Namespace       string            `json:"namespace,omitempty"` // beyond 002, in a list of more than one tenant
	Tenant          string            `json:"tenant,omitempty"`
}

// RecurringList is a page of GET /v1/recurring (002 section 4).
type RecurringList struct {
	RecurringActions []RecurringSummary `json:"recurring_actions"`
	NextPageToken    string             `json:"next_page_token,omitempty"` // beyond 002, where there are more than fit
}

// RecurringAction is a whole recurring action, with null where 002 has an
// Option that is none, and {} where it has an empty map.
type RecurringAction struct {
	core.RecurringAction
	Description    *string                 `json:"description"`
	Labels         map[string]string       `json:"labels"`
	ActionTemplate RecurringActionTemplate `json:"action_template"`
	Warnings       []string                `json:"warnings,omitempty"` // what of the expression means something else than it seems to
	Declared       *DeclaredBy             `json:"declared,omitempty"` // the set that owns it, where one alone is shown
}

// RecurringChanged is the answer to PUT /v1/recurring/{id}: beyond 002, it says what the change means.
type RecurringChanged struct {
	RecurringAction
	NextTimesBefore []effects.Time `json:"next_times_before"` // at which it was to fire, at most five
	NextTimes       []effects.Time `json:"next_times"`        // at which it is to fire now
}

// Pause is the optional body of pause.
type Pause struct {
	Reason *string       `json:"reason,omitempty"`
	Until  *effects.Time `json:"until,omitempty"` // when it goes on by itself
}

// RecurringTrigger is the optional body of POST /v1/recurring/{id}/trigger.
type RecurringTrigger struct {
	Payload json.RawMessage `json:"payload,omitempty"` // instead of the template's, this once
}

// RecurringActionTemplate is what a recurring action makes its actions of, with null and {}
// as in [RecurringAction].
type RecurringActionTemplate struct {
	core.RecurringActionTemplate
	Metadata map[string]string `json:"metadata"`
	DedupKey *string           `json:"dedup_key"`
}

// RecurringState is the answer to pause and resume (002 section 4).
type RecurringState struct {
	ID              uuid.UUID    `json:"id"`
	Enabled         bool         `json:"enabled"`
	NextExecutionAt effects.Time `json:"next_execution_at"`
}

// HistoryList is a page of the history of a recurring action, a periodic action or a job: what became of its
// times, newest first.
type HistoryList struct {
	History       []core.Occurrence `json:"history"`
	NextPageToken string            `json:"next_page_token"`
}

// OccurrenceList is a page of GET /v1/occurrences.
type OccurrenceList struct {
	Occurrences   []core.Occurrence `json:"occurrences"`
	NextPageToken string            `json:"next_page_token"`
}

// Preview shows the next times of a schedule.
type Preview struct {
	CronExpr    string         `json:"cron_expr"`
	Timezone    string         `json:"timezone"`
	Description string         `json:"description"`
	Times       []effects.Time `json:"times"`
	Warnings    []string       `json:"warnings,omitempty"` // what of the expression means something else than it seems to
}

// RecurringPatch is the body of PUT /v1/recurring/{id} (002 section 4): what is
// left out stays; null clears ends_at, starts_at, dedup_key and description.
type RecurringPatch struct {
	Name                 Optional[string]            `json:"name,omitzero"`
	CronExpr             Optional[string]            `json:"cron_expr,omitzero"`
	Timezone             Optional[string]            `json:"timezone,omitzero"`
	Enabled              Optional[bool]              `json:"enabled,omitzero"`
	Payload              json.RawMessage             `json:"payload,omitempty"`
	Metadata             Optional[map[string]string] `json:"metadata,omitzero"`
	DedupKey             Optional[string]            `json:"dedup_key,omitzero"`
	Description          Optional[string]            `json:"description,omitzero"`
	Labels               Optional[map[string]string] `json:"labels,omitzero"`
	EndsAt               Optional[effects.Time]      `json:"ends_at,omitzero"`
	Provider             Optional[string]            `json:"provider,omitzero"`
	ActionType           Optional[string]            `json:"action_type,omitzero"`
	StartDeadlineSeconds Optional[int64]             `json:"start_deadline_seconds,omitzero"`
	Policy               Optional[RunPolicy]         `json:"policy,omitzero"`
	DST                  Optional[schedule.DST]      `json:"dst,omitzero"`
	DayMatch             Optional[schedule.DayMatch] `json:"day_match,omitzero"`
	StartsAt             Optional[effects.Time]      `json:"starts_at,omitzero"`
	MaxExecutions        Optional[uint64]            `json:"max_executions,omitzero"`
	JitterSeconds        Optional[int64]             `json:"jitter_seconds,omitzero"`

	Calendars             Optional[[]string]           `json:"calendars,omitzero"`
	Missed                Optional[core.MissedPolicy]  `json:"missed,omitzero"`
	CatchUpSeconds        Optional[int64]              `json:"catch_up_seconds,omitzero"`
	CatchUpLimit          Optional[uint32]             `json:"catch_up_limit,omitzero"`
	CatchUpSpacingSeconds Optional[int64]              `json:"catch_up_spacing_seconds,omitzero"`
	Overlap               Optional[core.OverlapPolicy] `json:"overlap,omitzero"`
	BufferLimit           Optional[uint32]             `json:"buffer_limit,omitzero"`
	MaxWaitSeconds        Optional[int64]              `json:"max_wait_seconds,omitzero"`
	Alerts                Optional[core.AlertRules]    `json:"alerts,omitzero"` // instead of all rules; null: none
}

// Optional is a field of a patch, which may be left out, null or a value.
type Optional[T any] struct {
	Set   bool // it is not left out
	Null  bool // it is null; then Set is true, too
	Value T
}

// IsZero reports whether the field is left out.
func (o Optional[T]) IsZero() bool { return !o.Set }

// MarshalJSON gives null or the value.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.Null {
		return []byte("null"), nil
	}
	return plainjson.Marshal(o.Value)
}

// UnmarshalJSON takes null or a T.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	if string(b) == "null" {
		o.Null = true
		return nil
	}
	return strictjson.Decode(b, &o.Value)
}
