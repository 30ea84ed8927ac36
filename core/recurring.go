package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// RecurringAction is a definition that makes a concrete [Action] at each of its
// times (002 RecurringAction, C1).
//
//	create ──▶ enabled ◀──── resume, update ────┐
//	             │ ▲                            │
//	        due  │ │ trigger, update            │
//	    (one     └─┘                            │
//	 occurrence)                                │
//	             │ pause, update; ends_at       │
//	             │ reached; no next occurrence  │
//	             ▼                              │
//	          disabled ─────────────────────────┘
//
// delete leads from both out of existence; trigger works in both.
//
// Invariants, held by property tests:
//   - A deadline exists exactly while enabled, and is never later than EndsAt.
//   - No time of the schedule at or after EndsAt is decided: neither dispatched
//     nor missed.
//   - NextExecutionAt is later than the clock reading of the transition that
//     computed it: no edit, resume or outage makes a past instant due (R18, C5).
//   - NextExecutionAt is later than LastDueAt: what was decided never becomes due
//     again, even where the clock jumps back; where it had been ahead by more than
//     48 hours, until somebody resumes or edits the schedule.
//   - One due event makes at most one action (C5).
//   - ExecutionCount + DeduplicatedCount grows by exactly one with each action
//     that is sent (R13); where that cannot be made, the [Batch] undoes it all.
//   - Every time that is decided is recorded as an occurrence, under an id that
//     was never used; MissedCount grows by what the missed ones stand for.
//   - Every action that is sent is a valid one, due at once.
//   - A disabled one says why (C6), and a pause without a reason of its own does
//     not wipe that out.
type RecurringAction struct {
	RecurringSpec
	CreatedAt       Time   `json:"created_at"`
	UpdatedAt       Time   `json:"updated_at"`
	LastExecutedAt  Time   `json:"last_executed_at"`  // null: never
	NextExecutionAt Time   `json:"next_execution_at"` // null: disabled
	ExecutionCount  uint64 `json:"execution_count"`   // dispatches made durable (R13)
	// MissedCount counts the times that passed without a dispatch (C5).
	MissedCount       uint64 `json:"missed_count"`
	DeduplicatedCount uint64 `json:"deduplicated_count"` // times whose dedup key was live (C4)
	// SkippedCount counts the times that were not to be dispatched: the clocks skipped them.
	SkippedCount   uint64 `json:"skipped_count,omitempty"`
	DisabledReason string `json:"disabled_reason"` // why it is not enabled (C6)
	// LastDueAt is the latest time that has been decided: none before it, nor
	// itself, becomes due again, even where the clock jumps back.
	LastDueAt Time `json:"last_due_at"`
	// Sequence counts what this definition has recorded; ids are derived from it,
	// see [ChildID].
	Sequence uint64 `json:"sequence"`

	// Executions counts the dispatches of the schedule, while MaxExecutions bounds them.
	Executions uint64 `json:"executions,omitempty"`
	// LastSuccessAt is when the last of its actions ended that completed; null: none did.
	LastSuccessAt Time `json:"last_success_at,omitzero"`

	compiled *timetable // derived, never stored
}

// DefaultStartDeadline is twice the default tick: an occurrence that a slow
// tick or a restart delays is still dispatched, one of an outage is missed.
const DefaultStartDeadline = 120 * time.Second

// MaxMissedCounted bounds how many missed times one transition counts, so that
// it ends soon whatever the schedule and the outage; where there were more, the
// occurrence says so.
const MaxMissedCounted = 10_000

// Metadata keys that mark what a recurring action made (C3).
const (
	MetaRecurringDispatch = "_recurring_dispatch"
	MetaRecurringID       = "_recurring_id"
)

// Apply carries out one transition.
func (r RecurringAction) Apply(e RecurringEvent, c Clock) (RecurringAction, []effects.Effect) {
	if create, ok := e.(RecurringCreate); ok {
		return r.create(create, c)
	}
	if r.ID == uuid.Nil {
		return r, refused(r.Ref(), e, effects.CodeNotFound, "recurring action not found")
	}
	switch e := e.(type) {
	case RecurringDue:
		return r.due(e, c)
	case RecurringUpdate:
		return r.update(e, c)
	case RecurringPause:
		return r.pause(e, c)
	case RecurringResume:
		return r.resume(e, c)
	case RecurringTrigger:
		return r.trigger(c)
	case RecurringDelete:
		r, effs := r.overdue("deleted before it was dispatched", e.Absences, c)
		return RecurringAction{}, append(effs, r.announce("deleted"))
	case RecurringDeduplicated:
		return r.deduplicated(e)
	case RecurringCreate:
	}
	return r, refused(r.Ref(), e, effects.CodeInvalid, "a recurring action takes no event %q", e.EventType())
}

// create: (absent) → enabled or disabled.
func (r RecurringAction) create(e RecurringCreate, c Clock) (RecurringAction, []effects.Effect) {
	if r.ID != uuid.Nil {
		return r, refused(r.Ref(), e, effects.CodeExists, "id: recurring action %s exists already", r.ID)
	}
	spec := e.Spec.withDefaults()
	n := RecurringAction{RecurringSpec: spec, CreatedAt: c.Now, UpdatedAt: c.Now}
	n, err := n.scheduled(c)
	if err != nil {
		return r, refused(r.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	if !n.Enabled {
		n.DisabledReason = "created disabled"
	}
	return n, []effects.Effect{n.announce("created")}
}

// scheduled validates the definition and computes its next time from now.
func (r RecurringAction) scheduled(c Clock) (RecurringAction, error) {
	if err := r.validate(c); err != nil {
		return r, err
	}
	s, err := r.timetable(r.CreatedAt)
	if err != nil {
		return r, err
	}
	if err := r.checkExecutions(); err != nil {
		return r, err
	}
	next, ok := s.Next(max(c.Now, r.LastDueAt))
	if !ok {
		return r, fmt.Errorf("cron_expr: %q never fires after %s", clip(r.CronExpr), c.Now)
	}
	r.compiled = s
	r.NextExecutionAt = 0
	if r.Enabled {
		r.NextExecutionAt = next
		r.DisabledReason = ""
	}
	return r, nil
}

// due: one occurrence, or the end.
func (r RecurringAction) due(e RecurringDue, c Clock) (RecurringAction, []effects.Effect) {
	at := r.Deadline()
	switch {
	case at.IsZero():
		return r, refused(r.Ref(), e, effects.CodeConflict, "recurring action %s is disabled", r.ID)
	case at.After(c.Now):
		return r, refused(r.Ref(), e, effects.CodeConflict, "recurring action %s is due at %s, after %s", r.ID, at, c.Now)
	}
	r.UpdatedAt = c.Now
	if r.ended(c.Now) {
		return r.expire(e, c)
	}
	if r.exhausted() {
		return r.disable(exhaustedReason(r.Executions)), []effects.Effect{r.announce("expired")}
	}
	s, err := r.schedule()
	if err != nil { // stored by a build that took this expression
		return r.disable("cron_expr: " + err.Error()), []effects.Effect{r.announce("no_next")}
	}
	r, effs := r.occur(s, e, c)
	next, ok := s.Next(r.LastDueAt)
	if !ok {
		r = r.disable(fmt.Sprintf("cron_expr %q has no occurrence after %s", clip(r.CronExpr), c.Now))
		return r, append(effs, r.announce("no_next"))
	}
	r.NextExecutionAt = next
	return r, effs
}

// marked gives the template's metadata with the marks of C3.
func marked(template map[string]string, id uuid.UUID) map[string]string {
	meta := make(map[string]string, len(template)+2)
	maps.Copy(meta, template)
	meta[MetaRecurringDispatch] = "true"
	meta[MetaRecurringID] = id.String()
	return meta
}

func (r RecurringAction) expandDedupKey(due Time) string {
	key := r.ActionTemplate.DedupKey
	if !strings.Contains(key, "{{") {
		return key
	}
	key = strings.ReplaceAll(key, "{{recurring_id}}", r.ID.String())
	return strings.ReplaceAll(key, "{{execution_time}}", due.String())
}

// trigger: an occurrence outside of the schedule, which stays as it is.
func (r RecurringAction) trigger(c Clock) (RecurringAction, []effects.Effect) {
	return r.dispatch(c.Now, true, c)
}

// deduplicated takes the last dispatch back, which was none.
func (r RecurringAction) deduplicated(e RecurringDeduplicated) (RecurringAction, []effects.Effect) {
	if r.ExecutionCount == 0 {
		return r, refused(r.Ref(), e, effects.CodeConflict, "recurring action %s has dispatched nothing", r.ID)
	}
	r.ExecutionCount--
	r.LastExecutedAt = e.LastExecutedAt
	r.DeduplicatedCount = saturatingAdd(r.DeduplicatedCount, 1)
	if !e.Manual && r.Executions > 0 {
		r.Executions--
	}
	return r, nil
}

// exhausted reports whether the schedule has dispatched as many times as it may.
func (r RecurringAction) exhausted() bool {
	return r.exhaustedBy(r.Executions)
}

func exhaustedReason(executions uint64) string {
	times := "times"
	if executions == 1 {
		times = "time"
	}
	return fmt.Sprintf("the schedule has dispatched %d %s, as many as it may", executions, times)
}

// pause: enabled → disabled. A disabled one stays as it is, but for a new reason.
func (r RecurringAction) pause(e RecurringPause, c Clock) (RecurringAction, []effects.Effect) {
	if !r.Enabled && e.Reason == "" {
		return r, []effects.Effect{r.announce("paused")}
	}
	reason := "paused"
	if e.By != "" {
		reason += " by " + reasonOr(e.By, "")
	}
	if e.Reason != "" {
		reason += ": " + reasonOr(e.Reason, "")
	}
	r, effs := r.overdue("paused before it was dispatched", e.Absences, c)
	r.UpdatedAt = c.Now
	return r.disable(reason), append(effs, r.announce("paused"))
}

// resume: disabled → enabled, with the next time computed from now (R18). An
// enabled one stays as it is.
func (r RecurringAction) resume(e RecurringResume, c Clock) (RecurringAction, []effects.Effect) {
	if r.Enabled {
		return r, []effects.Effect{r.announce("resumed")}
	}
	n := r.fromNow(c)
	n.Enabled = true
	n.UpdatedAt = c.Now
	n, err := n.scheduled(c)
	if err != nil {
		return r, refused(r.Ref(), e, effects.CodeConflict, "cannot resume: %s", err)
	}
	return n, []effects.Effect{n.announce("resumed")}
}

// maxClockLead is how far ahead decided times may lie, after the clock was set
// back, to be still respected. Beyond it the clock had been plainly wrong.
const maxClockLead = 48 * time.Hour

// fromNow lets a definition that a wrong clock has led years ahead start again
// when somebody resumes or edits it, instead of staying silent for years.
func (r RecurringAction) fromNow(c Clock) RecurringAction {
	if r.LastDueAt.After(c.Now.Add(maxClockLead)) {
		r.LastDueAt = c.Now
	}
	return r
}

// update changes the given fields; a changed time, zone or state is scheduled
// from now (R18).
func (r RecurringAction) update(e RecurringUpdate, c Clock) (RecurringAction, []effects.Effect) {
	p := e.Patch.withoutNilMaps()
	n := r
	set(&n.CronExpr, p.CronExpr)
	set(&n.Timezone, p.Timezone)
	set(&n.Enabled, p.Enabled)
	set(&n.ActionTemplate.Metadata, p.Metadata)
	set(&n.ActionTemplate.DedupKey, p.DedupKey)
	set(&n.Description, p.Description)
	set(&n.Labels, p.Labels)
	set(&n.ActionTemplate.Provider, p.Provider)
	set(&n.ActionTemplate.ActionType, p.ActionType)
	set(&n.StartDeadlineSeconds, p.StartDeadlineSeconds)
	set(&n.Policy, p.Policy)
	if p.EndsAt != nil {
		n.EndsAt = Time(*p.EndsAt)
	}
	p.setOptions(&n.ScheduleOptions)
	if n.MaxExecutions == 0 {
		n.Executions = 0
	}
	if len(p.Payload) > 0 {
		n.ActionTemplate.Payload = p.Payload
	}
	n.RecurringSpec = n.RecurringSpec.withDefaults()
	n.UpdatedAt = c.Now
	var effs []effects.Effect
	lifted := r.Enabled && r.ended(c.Now) && n.EndsAt != r.EndsAt // what the end held back must not be due now
	if n.CronExpr != r.CronExpr || n.Timezone != r.Timezone || n.Enabled != r.Enabled || !n.sameTimes(r.ScheduleOptions) || lifted {
		var was RecurringAction
		was, effs = r.overdue("the schedule was changed before it was dispatched", e.Absences, c)
		n.MissedCount, n.SkippedCount, n.Sequence, n.LastDueAt = was.MissedCount, was.SkippedCount, was.Sequence, was.LastDueAt
		var err error
		if n, err = n.fromNow(c).scheduled(c); err != nil {
			return r, refused(r.Ref(), e, effects.CodeInvalid, "%s", err)
		}
	} else if err := n.validatePatched(r, c); err != nil {
		return r, refused(r.Ref(), e, effects.CodeInvalid, "%s", err)
	} else if n.EndsAt != r.EndsAt {
		n = n.withCompiled()
	}
	if r.Enabled && !n.Enabled {
		n.DisabledReason = "disabled by an update"
	}
	return n, append(effs, n.announce("updated"))
}

// validatePatched checks a definition whose schedule stays; an end that was
// reached meanwhile does not stand in the way of another change.
func (r RecurringAction) validatePatched(before RecurringAction, c Clock) error {
	if r.EndsAt == before.EndsAt {
		r.EndsAt = 0
	}
	return errors.Join(r.validate(c), r.checkExecutions())
}

// checkExecutions refuses a definition that is enabled although it has dispatched as many times
// as it may.
func (r RecurringAction) checkExecutions() error {
	if r.Enabled && r.exhausted() {
		return fmt.Errorf("max_executions: %s: give more, or 0", exhaustedReason(r.Executions))
	}
	return nil
}

// expire: the end is reached (C6). A time that was due before the end and not
// dispatched by then is missed.
func (r RecurringAction) expire(e RecurringDue, c Clock) (RecurringAction, []effects.Effect) {
	r, effs := r.overdue("ends_at was reached before it was dispatched", e.Absences, c)
	r = r.disable(fmt.Sprintf("ends_at %s was reached", r.EndsAt))
	return r, append(effs, r.announce("expired"))
}

func (r RecurringAction) disable(reason string) RecurringAction {
	r.Enabled = false
	r.NextExecutionAt = 0
	r.DisabledReason = reason
	return r
}

func (r RecurringAction) ended(now Time) bool {
	return !r.EndsAt.IsZero() && !r.EndsAt.After(now)
}

func (r RecurringAction) startDeadline() time.Duration {
	if r.StartDeadlineSeconds == 0 {
		return DefaultStartDeadline
	}
	return time.Duration(r.StartDeadlineSeconds) * time.Second
}

func (r RecurringAction) schedule() (*timetable, error) {
	if r.compiled != nil {
		return r.compiled, nil
	}
	return r.timetable(r.CreatedAt)
}

// withCompiled keeps the parsed schedule beside the definition, so that a hot
// definition is parsed once. An expression that this build refuses stays
// unparsed, and is dealt with when it is due.
func (r RecurringAction) withCompiled() RecurringAction {
	if s, err := r.timetable(r.CreatedAt); err == nil {
		r.compiled = s
	}
	return r
}

func (r RecurringAction) announce(what string) effects.Effect {
	return announcement("recurring", "recurring", what, r.ID, nil)
}

// Ref names the recurring action.
func (r RecurringAction) Ref() effects.Ref { return refOf(KindRecurring, r.ID) }

// Deadline is when the next time is to be dispatched, or the end where that comes first.
func (r RecurringAction) Deadline() Time {
	if r.Enabled && r.exhausted() {
		return r.LastDueAt // not sooner: a dedup key may give the last one back
	}
	if !r.Enabled || r.NextExecutionAt.IsZero() {
		return 0
	}
	at := r.NextExecutionAt
	if r.JitterSeconds > 0 {
		if s, err := r.schedule(); err == nil {
			at = s.firesAt(at)
		}
	}
	return earliest(at, r.EndsAt)
}

// Terms lists the recurring action under all, and within its tenant under whether it is
// enabled and under its labels.
func (r RecurringAction) Terms() []effects.Term {
	return withLabels(listed(r.CreatedAt, EnabledTerm(r.Enabled), r.scope()), r.CreatedAt, r.Labels, r.scope())
}

// AppendJSON appends the stored form.
func (r RecurringAction) AppendJSON(b []byte) []byte { return appendMarshaled(b, plainRecurring(r)) }

// plainRecurring is a recurring action as it is stored.
type plainRecurring RecurringAction

// decodeRecurring reads the stored form.
func decodeRecurring(b []byte) (State, error) {
	var r plainRecurring
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	return RecurringAction(r).withCompiled(), nil
}
