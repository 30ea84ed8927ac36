package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// RecurringAction is a definition that makes a concrete [Action] at each of its
// times (002 RecurringAction, C1).
//
//	create ──▶ enabled ◀──── resume, update ────┐
//	             │ ▲         pause is over      │
//	        due  │ │ trigger, backfill,         │
//	             └─┘ ended, update              │
//	             │                              │
//	             │ pause, update; ends_at       │
//	             │ reached; no next occurrence  │
//	             ▼                              │
//	          disabled ─────────────────────────┘
//
// delete leads from both out of existence; trigger and backfill work in both. About each
// time one verdict is recorded, and the first refusal decides: calendar and clock change,
// pause, by hand, missed policy and start deadline, limit, overlap, dedup key.
//
// Invariants, held by property tests:
//   - A deadline exists while enabled, and then comes no later than EndsAt; while disabled only
//     for the end of a pause, and for times that wait.
//   - No time of the schedule at or after EndsAt is decided: neither dispatched nor
//     missed.
//   - NextExecutionAt, with its jitter, is later than the clock reading of the transition
//     that computed it: no edit, resume or outage makes a past instant due (R18, C5).
//   - NextExecutionAt is later than LastDueAt: what was decided never becomes due
//     again, even where the clock jumps back; where it had been ahead by more than
//     48 hours, until somebody resumes or edits the schedule.
//   - ExecutionCount + DeduplicatedCount grows by one with each action that is sent
//     (R13), and shrinks by one with each that was refused.
//   - What it records is numbered without a gap; the counts grow by what the entries
//     stand for.
//   - Every action that is sent is a valid one, and its end is waited for. It is due at once, but at
//     its time if that has waited and the clock was set back meanwhile.
//   - No time waits twice. Those that wait for what runs go on in the order in which they
//     began to; with overlap buffer_one, cancel_other and terminate_other at most one of them
//     does, with buffer_all as many as its limit, with skip and allow none.
//   - With another overlap than allow no time is dispatched while what an earlier one started
//     has not ended.
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
	// SkippedCount counts the times that were not to be dispatched, see [VerdictSkipped].
	SkippedCount   uint64 `json:"skipped_count,omitempty"`
	DisabledReason string `json:"disabled_reason"` // why it is not enabled (C6)
	// LastDueAt is the latest time that has been decided: none before it, nor
	// itself, becomes due again, even where the clock jumps back.
	LastDueAt Time `json:"last_due_at"`
	// Sequence counts what this definition has recorded; ids are derived from it,
	// see [Ledger].
	Sequence uint64 `json:"sequence"`

	// Executions counts the dispatches of the schedule, and what waits to be dispatched, while
	// MaxExecutions bounds them.
	Executions uint64 `json:"executions,omitempty"`
	// LastSuccessAt is when what it dispatched last completed; null: never.
	LastSuccessAt Time `json:"last_success_at,omitzero"`
	// Durations are the lengths of the last [MaxDurations] dispatches that completed, from the
	// dispatch to the end in milliseconds, the latest last.
	Durations []int64 `json:"durations,omitempty"`
	// CancelledCount and ExpiredCount count times that waited, see [VerdictCancelled] and
	// [VerdictExpired].
	CancelledCount uint64 `json:"cancelled_count,omitempty"`
	ExpiredCount   uint64 `json:"expired_count,omitempty"`
	// PausedAt is when it was last disabled by hand; the times from then on are skipped. PausedUntil
	// is when it is enabled again by itself; null: it is not.
	PausedAt    Time `json:"paused_at,omitzero"`
	PausedUntil Time `json:"paused_until,omitzero"`
	// SkipNext is how many of the next times are skipped by hand.
	SkipNext uint32        `json:"skip_next,omitempty"`
	Waiting  []WaitingTime `json:"waiting,omitempty"` // times that wait for their turn, in that order
	// Running are the dispatches that have not ended, in their order; if they may overlap, those of
	// backfills, and of the others the last [MaxRunningKept], or all of the last transition.
	Running []RunningTime `json:"running,omitempty"`
	Ledger  *Ledger       `json:"ledger,omitempty"`

	compiled *timetable // derived, never stored
}

// WaitingTime is a time of a schedule that has come, and waits for its turn.
type WaitingTime struct {
	N     uint64 `json:"n"`      // of its entry in the ledger
	DueAt Time   `json:"due_at"` // the time
	Since Time   `json:"since"`  // when it began to wait
	// NotBefore is when its turn may come at the earliest, for one that is caught up later; zero:
	// once what runs has ended.
	NotBefore Time `json:"not_before,omitzero"`
}

// RunningTime is a dispatch that has not ended.
type RunningTime struct {
	N         uint64    `json:"n"`      // of its entry in the ledger
	Action    uuid.UUID `json:"action"` // that was made
	DueAt     Time      `json:"due_at"`
	StartedAt Time      `json:"started_at"`       // when it was dispatched
	Before    Time      `json:"before,omitzero"`  // LastExecutedAt before it
	Manual    bool      `json:"manual,omitempty"` // triggered by hand
	Stopping  bool      `json:"stopping,omitempty"`
	For       Owner     `json:"for,omitzero"` // the backfill that asked for it
}

// Bounds of what a schedule keeps of its dispatches.
const (
	MaxRunningKept = 100  // dispatches that may overlap and have not ended
	MaxUnended     = 500  // dispatches that have not ended, for a backfill to make one more, or somebody by hand if they may not overlap
	MaxWaiting     = 1000 // times that wait
	MaxDurations   = 64   // lengths of past dispatches
	MaxSkipNext    = 1000 // times that are to be skipped by hand
)

// DefaultStartDeadline is twice the default tick: an occurrence that a slow
// tick or a restart delays is still dispatched, one of an outage is missed.
const DefaultStartDeadline = 120 * time.Second

// MaxMissedCounted bounds how many times that pass without a cycle one transition of an action that
// recurs counts, and how many missed times builds before core.Version 10 counted: if there are more,
// the occurrence says so. Recurring actions and jobs count more since, see [maxWalked].
const MaxMissedCounted = 10_000

// Metadata keys that mark what a recurring action made (C3).
const (
	MetaRecurringDispatch = "_recurring_dispatch"
	MetaRecurringID       = "_recurring_id"
)

// recurringTransition is the application of one event to a recurring action.
type recurringTransition struct {
	transition
	RecurringAction
	calendars Calendars // those that it names, or is to name
	fresh     int       // how many it has dispatched: whether their actions are made is not known yet
	news      AlertNews // for its alert
}

// Apply carries out one transition. The calendars that the schedule names are looked up by the
// [Batch]: outside of one there are none.
func (r RecurringAction) Apply(e RecurringEvent, c Clock) (RecurringAction, []effects.Effect) {
	return r.applyWith(e, c, nil)
}

func (r RecurringAction) applyWith(e RecurringEvent, c Clock, calendars Calendars) (RecurringAction, []effects.Effect) {
	if c.Rules.before(ledgerRules) {
		return r.applyFormer(e, c)
	}
	t := &recurringTransition{transition: transition{clock: c, event: e}, RecurringAction: r, calendars: calendars}
	if _, creates := e.(RecurringCreate); r.ID == uuid.Nil && !creates {
		t.refuse(effects.CodeNotFound, "recurring action not found")
	} else {
		t.apply(e)
	}
	t.tellAlert(r)
	return concluded(r, t.RecurringAction, t.transition)
}

func (t *recurringTransition) apply(e RecurringEvent) {
	switch e := e.(type) {
	case RecurringCreate:
		t.create(e)
	case RecurringDue:
		t.due(e)
	case RecurringUpdate:
		t.update(e)
	case RecurringPause:
		t.pause(e)
	case RecurringResume:
		t.resume()
	case RecurringTrigger:
		t.trigger(e)
	case RecurringSkipNext:
		t.skipNext()
	case RecurringCancelWaiting:
		t.cancelOne(e)
	case BackfillTime:
		t.backfill(e)
	case RecurringDelete:
		t.remove(e)
	case RecurringDeduplicated:
		t.deduplicated(e)
	case ChildEnded:
		t.childEnded(e)
	}
}

// applyIn looks up the calendars that the schedule names, and is to name.
func (r RecurringAction) applyIn(b *Batch, e Event) (State, []effects.Effect, error) {
	own, ok := e.(RecurringEvent)
	if !ok {
		return r, refused(r.Ref(), e, effects.CodeInvalid, "a recurring action takes no event %q", e.EventType()), nil
	}
	names, of := r.Calendars, r.scope()
	switch e := own.(type) {
	case RecurringCreate:
		names, of = e.Spec.Calendars, e.Spec.scope()
	case RecurringUpdate:
		if e.Patch.Calendars != nil {
			names = append(slices.Clip(names), *e.Patch.Calendars...)
		}
	case RecurringDue, RecurringPause, RecurringResume, RecurringTrigger, RecurringSkipNext, RecurringCancelWaiting, BackfillTime,
		RecurringDelete, RecurringDeduplicated, ChildEnded:
	}
	calendars, err := b.calendars(of, names)
	if err != nil {
		return r, nil, err
	}
	next, effs := r.applyWith(own, b.clock, calendars)
	if refusal(effs) != nil {
		return next, effs, nil
	}
	named := r
	if named.ID == uuid.Nil {
		named = next
	}
	taken, err := b.rename(named.Ref(), named.scope(), r.Name, next.Name)
	if taken != "" {
		return r, refused(r.Ref(), e, effects.CodeExists, "%s", taken), err
	}
	return next, effs, err
}

// create: (absent) → enabled or disabled.
func (t *recurringTransition) create(e RecurringCreate) {
	if t.ID != uuid.Nil {
		t.refuse(effects.CodeExists, "id: recurring action %s exists already", t.ID)
		return
	}
	now := t.clock.Now
	t.RecurringAction = RecurringAction{RecurringSpec: e.Spec.withDefaults(), CreatedAt: now, UpdatedAt: now}
	if t.invalid(t.begin()) || t.invalid(t.calendars.of(t.Calendars).missing()) {
		return
	}
	if !t.Enabled {
		t.DisabledReason, t.PausedAt = createdDisabled, now
	}
	t.add(calendarUses(t.scope(), nil, t.Calendars, t.calendars)...)
	t.tell("created")
}

// begin validates the definition, and computes its next time from now.
func (t *recurringTransition) begin() error {
	if err := t.validate(t.clock); err != nil {
		return err
	}
	s, err := t.RecurringSpec.timetable(t.CreatedAt)
	if err != nil {
		return err
	}
	if err := t.checkExecutions(); err != nil {
		return err
	}
	next, ok := s.Next(max(t.clock.Now, t.LastDueAt))
	if !ok {
		return fmt.Errorf("cron_expr: %q never fires after %s", clip(t.CronExpr), t.clock.Now)
	}
	t.compiled, t.NextExecutionAt = s, 0
	if t.Enabled {
		t.NextExecutionAt, t.DisabledReason, t.PausedAt, t.PausedUntil = next, "", 0, 0
	}
	return nil
}

// remove: the definition is gone; what it made goes on.
func (t *recurringTransition) remove(e RecurringDelete) {
	t.recordUndecided("deleted before it was dispatched", e.Absences)
	t.cancelWaiting("the schedule was deleted")
	t.add(calendarUses(t.scope(), t.Calendars, nil, t.calendars)...)
	for _, n := range t.Running {
		t.tellBackfill(n, ChildEnded{Child: effects.Ref{Kind: KindAction, ID: n.Action}, Outcome: ChildCancelled, Reason: "the schedule was deleted, so that nobody hears of the end"})
	}
	if t.Ledger != nil {
		t.add(t.Ledger.close(t.ledgerOwner(), t.Sequence)...)
	}
	t.tell("deleted")
	t.RecurringAction = RecurringAction{}
}

// trigger: an occurrence outside of the schedule, which stays as it is. Overlap does not hold it
// up, but it counts for the times that follow.
func (t *recurringTransition) trigger(e RecurringTrigger) {
	payload := t.ActionTemplate.Payload
	if len(e.Payload) > 0 {
		payload = compacted(trimJSON(e.Payload))
		if t.invalid(checkObject("payload", payload)) {
			return
		}
	}
	if t.Overlap.Plain() != OverlapAllow && t.tooMany() { // of those that may overlap the oldest is forgotten
		return
	}
	t.dispatch(dispatching{at: t.clock.Now, manual: true, payload: payload})
}

// skipNext lets the schedule skip one more of its next times.
func (t *recurringTransition) skipNext() {
	if t.SkipNext >= MaxSkipNext {
		t.conflict("the next %d times are skipped already: pause it instead", t.SkipNext)
		return
	}
	t.SkipNext, t.UpdatedAt = t.SkipNext+1, t.clock.Now
	t.tell("skip_next")
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

// exhausted reports whether the schedule has dispatched, or lets wait, as many times as it may.
func (r RecurringAction) exhausted() bool {
	return r.exhaustedBy(r.Executions)
}

// spent reports whether the schedule has dispatched as many times as it may.
func (r RecurringAction) spent() bool {
	return r.exhaustedBy(r.Executions - min(r.Executions, uint64(len(r.Waiting))))
}

func exhaustedReason(executions uint64) string {
	times := "times"
	if executions == 1 {
		times = "time"
	}
	return fmt.Sprintf("the schedule has dispatched %d %s, as many as it may", executions, times)
}

// exhaustedReason is why no more times are dispatched.
func (r RecurringAction) exhaustedReason() string {
	waiting := min(r.Executions, uint64(len(r.Waiting)))
	if waiting == 0 {
		return exhaustedReason(r.Executions)
	}
	return fmt.Sprintf("the schedule has dispatched %d of its times, and %d wait: as many as it may", r.Executions-waiting, waiting)
}

// maxClockLead is how far ahead decided times may lie, after the clock was set
// back, to be still respected. Beyond it the clock had been plainly wrong.
const maxClockLead = 48 * time.Hour

// fromNow is the latest time that is decided, for somebody who resumes or edits: a definition that
// a wrong clock has led years ahead starts again then, instead of staying silent for years.
func (r RecurringAction) fromNow(now Time) Time {
	if r.LastDueAt.After(now.Add(maxClockLead)) {
		return now
	}
	return r.LastDueAt
}

// checkExecutions refuses a definition that is enabled although it has dispatched as many times
// as it may.
func (r RecurringAction) checkExecutions() error {
	if r.Enabled && r.spent() {
		return fmt.Errorf("max_executions: %s: give more, or 0", exhaustedReason(r.Executions))
	}
	return nil
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

// schedule compiles the schedule, with its calendars.
func (t *recurringTransition) schedule() (*timetable, error) {
	s, err := t.RecurringAction.schedule()
	if err != nil {
		return nil, err
	}
	return s.with(t.calendars.of(t.Calendars)), nil
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

// tell announces what became of the definition.
func (t *recurringTransition) tell(what string) { t.add(t.RecurringAction.announce(what)) }

// Ref names the recurring action.
func (r RecurringAction) Ref() effects.Ref { return refOf(KindRecurring, r.ID) }

// Deadline is when the next time is to be decided, or the end where that comes first; when a
// pause is over; and when a time that waits may go on, or has waited too long.
func (r RecurringAction) Deadline() Time {
	if r.Enabled && r.spent() {
		return r.LastDueAt // not sooner: a dedup key may give the last one back
	}
	at := r.waitingDeadline()
	switch {
	case !r.Enabled:
		return earliest(at, r.PausedUntil)
	case r.NextExecutionAt.IsZero():
		return at
	}
	next := r.NextExecutionAt
	if r.JitterSeconds > 0 {
		if s, err := r.schedule(); err == nil {
			next = s.firesAt(next)
		}
	}
	return earliest(at, earliest(next, r.EndsAt))
}

// Terms lists the recurring action under all, and within its tenant under whether it is
// enabled, under its labels, and under the calendars that it names.
func (r RecurringAction) Terms() []effects.Term {
	terms := withLabels(listed(r.CreatedAt, EnabledTerm(r.Enabled), r.scope()), r.CreatedAt, r.Labels, r.scope())
	return append(terms, calendarTerms(r.Calendars, r.CreatedAt, r.scope())...)
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
