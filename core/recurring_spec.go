package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// RecurringSpec is what a creator says of a recurring action.
type RecurringSpec struct {
	ID        uuid.UUID `json:"id"`
	Namespace string    `json:"namespace"`
	Tenant    string    `json:"tenant"`
	// Name is how people and files refer to it: letters, digits, ".", "_" and "-", at most
	// [MaxGivenName] bytes; of one tenant's recurring actions no two have the same. Empty: none.
	Name           string                  `json:"name,omitempty"`
	CronExpr       string                  `json:"cron_expr"`
	Timezone       string                  `json:"timezone"`
	Enabled        bool                    `json:"enabled"`
	ActionTemplate RecurringActionTemplate `json:"action_template"`
	EndsAt         Time                    `json:"ends_at"` // null: none
	Description    string                  `json:"description"`
	Labels         map[string]string       `json:"labels"`
	// StartDeadlineSeconds is how late an occurrence may still be dispatched;
	// later it counts as missed (C5). 0: [DefaultStartDeadline].
	StartDeadlineSeconds int64     `json:"start_deadline_seconds"`
	Policy               RunPolicy `json:"policy"` // of the actions that it makes
	ScheduleOptions
	// Overlap says what becomes of a time while what earlier ones started has not ended; empty:
	// OverlapAllow.
	Overlap OverlapPolicy `json:"overlap,omitempty"`
}

// RecurringActionTemplate is the action to make (002 RecurringActionTemplate).
type RecurringActionTemplate struct {
	Provider   string            `json:"provider"` // the tool's name (R11)
	ActionType string            `json:"action_type"`
	Payload    json.RawMessage   `json:"payload"` // a JSON object
	Metadata   map[string]string `json:"metadata"`
	// DedupKey is a template: {{recurring_id}} and {{execution_time}} expand (C4).
	DedupKey string `json:"dedup_key"`
}

func (s RecurringSpec) withDefaults() RecurringSpec {
	s.Timezone = zoneOr(s.Timezone)
	s.Policy = s.Policy.withDefaults()
	if len(s.ActionTemplate.Payload) == 0 {
		s.ActionTemplate.Payload = json.RawMessage("{}")
	}
	// The journal holds the compact form: a replay must see what we see.
	if compact, err := json.Marshal(s.ActionTemplate.Payload); err == nil {
		s.ActionTemplate.Payload = compact
	}
	return s
}

// Title is what people call it: its name, or its description, or else the type of its actions.
func (s RecurringSpec) Title() string {
	return cmp.Or(s.Name, s.Description, s.ActionTemplate.ActionType)
}

// Warnings says which parts of the cron expression mean something else than they seem
// to, see [schedule.Schedule.Warnings]. It is empty for a schedule that is refused.
func (s RecurringSpec) Warnings() []string {
	compiled, err := s.timetable(effects.MinTime)
	if err != nil {
		return nil
	}
	return compiled.due.Warnings()
}

// timetable compiles the schedule of a definition that was made at that time.
func (s RecurringSpec) timetable(created Time) (*timetable, error) {
	return s.ScheduleOptions.timetable(schedule.Spec{Expr: s.CronExpr, Zone: s.Timezone, Anchor: created}, s.ID, s.EndsAt)
}

// MaxStartDeadline bounds how late an occurrence may be dispatched; it also
// bounds the work of one due event.
const MaxStartDeadline = time.Hour

func (r RecurringAction) validate(c Clock) error {
	t := r.ActionTemplate
	if r.ID == uuid.Nil {
		return errors.New("id: must be a UUID that is not all zeros")
	}
	if !r.EndsAt.IsZero() && !r.EndsAt.After(c.Now) {
		return fmt.Errorf("ends_at: %s is not in the future; it is %s", r.EndsAt, c.Now)
	}
	if r.EndsAt < 0 || r.EndsAt > maxTime {
		return checkTime("ends_at", r.EndsAt)
	}
	if s := r.StartDeadlineSeconds; s < 0 || s > int64(MaxStartDeadline/time.Second) {
		return fmt.Errorf("start_deadline_seconds: %d is not between 0 and %d", s, int64(MaxStartDeadline/time.Second))
	}
	return errors.Join(
		checkTenant("", r.Namespace, r.Tenant),
		checkGivenName("name", r.Name),
		checkName("provider", t.Provider, true),
		checkName("action_type", t.ActionType, true),
		checkText("description", r.Description),
		checkDedupTemplate(t.DedupKey),
		checkText("dedup_key", r.expandDedupKey(c.Now)),
		checkObject("payload", t.Payload),
		checkMap("metadata", marked(t.Metadata, r.ID)), // as the action will have it
		checkMap("labels", r.Labels),
		r.Policy.validate(),
		r.ScheduleOptions.validate(r.EndsAt),
		r.Overlap.validate(),
	)
}

// checkDedupTemplate refuses a placeholder that would stay as it is: a typing
// error would make the key the same for all occurrences.
func checkDedupTemplate(template string) error {
	rest := strings.NewReplacer("{{recurring_id}}", "", "{{execution_time}}", "").Replace(template)
	if i := strings.Index(rest, "{{"); i >= 0 {
		return fmt.Errorf("dedup_key: %q has the placeholder %q: use {{recurring_id}} or {{execution_time}}", clip(template), clip(rest[i:]))
	}
	return nil
}
