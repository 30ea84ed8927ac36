package core

import (
	"encoding/json"

	"github.com/google/uuid"
)

// RecurringEvent is an event of [RecurringAction]. The set is closed.
//
//sumtype:decl
type RecurringEvent interface {
	Event
	recurringEvent()
}

type (
	// RecurringCreate makes a recurring action. The id must be new.
	RecurringCreate struct {
		Spec RecurringSpec `json:"spec"`
	}
	// RecurringDue says that the next time, or the end, has come.
	RecurringDue struct {
		// Refusal is why the action of that time could not be made. Only the [Batch]
		// gives one, see [Batch.Apply]: the time then counts as missed, instead of
		// being due for ever.
		Refusal string `json:"refusal"`
		// Absences are those in which times came that are decided now. The engine gives
		// them, see [Informed]; so it does with the events below.
		Absences []Absence `json:"absences,omitempty"`
	}
	// RecurringUpdate changes the given fields.
	RecurringUpdate struct {
		Patch    RecurringPatch `json:"patch"`
		Absences []Absence      `json:"absences,omitempty"`
	}
	// RecurringPause disables.
	RecurringPause struct {
		By       string    `json:"by"`
		Reason   string    `json:"reason"`
		Absences []Absence `json:"absences,omitempty"`
		// Until is when it is enabled again by itself; null: when somebody resumes it.
		Until Time `json:"until,omitzero"`
	}
	// RecurringResume enables, from now on.
	RecurringResume struct{}
	// RecurringTrigger dispatches one occurrence now, outside of the schedule.
	RecurringTrigger struct {
		// Payload is the input of this one action, a JSON object; empty: that of the template.
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	// RecurringSkipNext skips one more of the next times.
	RecurringSkipNext struct{}
	// RecurringCancelWaiting cancels a time that waits.
	RecurringCancelWaiting struct {
		Occurrence uuid.UUID `json:"occurrence"`
		Reason     string    `json:"reason"`
	}
	// RecurringDelete ends the definition; what it made goes on.
	RecurringDelete struct {
		Absences []Absence `json:"absences,omitempty"`
	}
	// RecurringDeduplicated says that the last dispatch met a live dedup key.
	RecurringDeduplicated struct {
		LastExecutedAt Time `json:"last_executed_at"`
		Manual         bool `json:"manual,omitempty"` // it was triggered by hand
		// N is the number of the dispatch, see [RunningTime]; 0 before core.Version 10.
		N uint32 `json:"n,omitempty"`
	}
)

// RecurringPatch holds the fields to change; nil leaves a field as it is. A
// zero EndsAt, an empty Name, Description or DedupKey, clear theirs.
type RecurringPatch struct {
	Name                 *string            `json:"name,omitempty"`
	CronExpr             *string            `json:"cron_expr,omitempty"`
	Timezone             *string            `json:"timezone,omitempty"`
	Enabled              *bool              `json:"enabled,omitempty"`
	Payload              json.RawMessage    `json:"payload,omitempty"`
	Metadata             *map[string]string `json:"metadata,omitempty"`
	DedupKey             *string            `json:"dedup_key,omitempty"`
	Description          *string            `json:"description,omitempty"`
	Labels               *map[string]string `json:"labels,omitempty"`
	EndsAt               *int64             `json:"ends_at_ms,omitempty"` // milliseconds since 1970; 0 clears
	Provider             *string            `json:"provider,omitempty"`
	ActionType           *string            `json:"action_type,omitempty"`
	StartDeadlineSeconds *int64             `json:"start_deadline_seconds,omitempty"`
	Policy               *RunPolicy         `json:"policy,omitempty"`
	ScheduleOptionsPatch
	Overlap *OverlapPolicy `json:"overlap,omitempty"`
}

// apply gives the definition with the changes.
func (p RecurringPatch) apply(to RecurringSpec) RecurringSpec {
	p = p.withoutNilMaps()
	set(&to.Name, p.Name)
	set(&to.CronExpr, p.CronExpr)
	set(&to.Timezone, p.Timezone)
	set(&to.Enabled, p.Enabled)
	set(&to.ActionTemplate.Metadata, p.Metadata)
	set(&to.ActionTemplate.DedupKey, p.DedupKey)
	set(&to.Description, p.Description)
	set(&to.Labels, p.Labels)
	set(&to.ActionTemplate.Provider, p.Provider)
	set(&to.ActionTemplate.ActionType, p.ActionType)
	set(&to.StartDeadlineSeconds, p.StartDeadlineSeconds)
	set(&to.Policy, p.Policy)
	set(&to.Overlap, p.Overlap)
	if p.EndsAt != nil {
		to.EndsAt = Time(*p.EndsAt)
	}
	p.setOptions(&to.ScheduleOptions)
	if len(p.Payload) > 0 {
		to.ActionTemplate.Payload = p.Payload
	}
	return to.withDefaults()
}

func (RecurringCreate) recurringEvent()        {}
func (RecurringDue) recurringEvent()           {}
func (RecurringUpdate) recurringEvent()        {}
func (RecurringPause) recurringEvent()         {}
func (RecurringResume) recurringEvent()        {}
func (RecurringTrigger) recurringEvent()       {}
func (RecurringDelete) recurringEvent()        {}
func (RecurringSkipNext) recurringEvent()      {}
func (RecurringCancelWaiting) recurringEvent() {}
func (RecurringDeduplicated) recurringEvent()  {}
func (ChildEnded) recurringEvent()             {}

func (RecurringDeduplicated) belongsToDispatch() bool { return true }

// afterRefusal gives the event that records a missed time instead: see [Batch.Apply].
func (e RecurringDue) afterRefusal(reason string) Event { return RecurringDue{reason, e.Absences} }

func (e RecurringDue) informed(absences []Absence) Event { return RecurringDue{e.Refusal, absences} }
func (e RecurringUpdate) informed(absences []Absence) Event {
	return RecurringUpdate{e.Patch, absences}
}
func (e RecurringPause) informed(absences []Absence) Event {
	return RecurringPause{e.By, e.Reason, absences, e.Until}
}
func (RecurringDelete) informed(absences []Absence) Event { return RecurringDelete{absences} }

// EventType gives the discriminator in the journal.
func (RecurringCreate) EventType() string        { return "create" }
func (RecurringDue) EventType() string           { return "due" }
func (RecurringUpdate) EventType() string        { return "update" }
func (RecurringPause) EventType() string         { return "pause" }
func (RecurringResume) EventType() string        { return "resume" }
func (RecurringTrigger) EventType() string       { return "trigger" }
func (RecurringDelete) EventType() string        { return "delete" }
func (RecurringSkipNext) EventType() string      { return "skip_next" }
func (RecurringCancelWaiting) EventType() string { return "cancel_waiting" }
func (RecurringDeduplicated) EventType() string  { return "deduplicated" }

// recurringEvents are the events of a recurring action, as the journal has them.
var recurringEvents = []eventType{
	event[RecurringCreate](), event[RecurringDue](), event[RecurringUpdate](), event[RecurringPause](),
	event[RecurringResume](), event[RecurringTrigger](), event[RecurringDelete](), event[RecurringDeduplicated](),
	event[RecurringSkipNext](), event[RecurringCancelWaiting](), event[ChildEnded](), event[BackfillTime](),
}

func (e RecurringCreate) stored() Event {
	if len(e.Spec.ActionTemplate.Payload) == 0 { // as null it would be refused by a replay
		e.Spec.ActionTemplate.Payload = json.RawMessage("{}")
	}
	return e
}

func (e RecurringUpdate) stored() Event { return RecurringUpdate{e.Patch.withoutNilMaps(), e.Absences} }
func (e RecurringCancelWaiting) stored() Event {
	return RecurringCancelWaiting{e.Occurrence, validText(e.Reason)}
}

func (e RecurringDue) appendFields(o object) object {
	if e.Refusal != "" {
		o.str("refusal", e.Refusal)
	}
	o.absences(e.Absences)
	return o
}

func (e RecurringPause) appendFields(o object) object {
	o.str("by", e.By)
	o.str("reason", e.Reason)
	o.absences(e.Absences)
	if !e.Until.IsZero() {
		o.time("until", e.Until)
	}
	return o
}

func (e RecurringDeduplicated) appendFields(o object) object {
	o.time("last_executed_at", e.LastExecutedAt)
	if e.Manual {
		o.bool("manual", true)
	}
	if e.N != 0 {
		o.num("n", uint64(e.N))
	}
	return o
}

// withoutNilMaps makes a pointer to a nil map, or list, one to an empty map: both clear,
// but only the latter survives the journal.
func (p RecurringPatch) withoutNilMaps() RecurringPatch {
	for _, m := range []**map[string]string{&p.Metadata, &p.Labels} {
		if *m != nil && **m == nil {
			*m = &map[string]string{}
		}
	}
	if p.Calendars != nil && *p.Calendars == nil {
		p.Calendars = &[]string{}
	}
	return p
}

// PatchTo gives the patch that makes a definition out of any other one of the same id and tenant: all
// fields that can be changed.
func PatchTo(s RecurringSpec) RecurringPatch {
	s = s.withDefaults()
	t, o := s.ActionTemplate, s.ScheduleOptions
	ends, starts := int64(s.EndsAt), int64(o.StartsAt)
	return RecurringPatch{
		Name: &s.Name, CronExpr: &s.CronExpr, Timezone: &s.Timezone, Enabled: &s.Enabled, Payload: t.Payload, Metadata: &t.Metadata,
		DedupKey: &t.DedupKey, Description: &s.Description, Labels: &s.Labels, EndsAt: &ends, Provider: &t.Provider, ActionType: &t.ActionType,
		StartDeadlineSeconds: &s.StartDeadlineSeconds, Policy: &s.Policy, Overlap: &s.Overlap,
		ScheduleOptionsPatch: ScheduleOptionsPatch{
			DST: &o.DST, DayMatch: &o.DayMatch, StartsAt: &starts, MaxExecutions: &o.MaxExecutions, JitterSeconds: &o.JitterSeconds,
			Calendars: &o.Calendars, Missed: &o.Missed, CatchUpSeconds: &o.CatchUpSeconds, CatchUpLimit: &o.CatchUpLimit,
			CatchUpSpacingSeconds: &o.CatchUpSpacingSeconds, BufferLimit: &o.BufferLimit, MaxWaitSeconds: &o.MaxWaitSeconds,
			Alerts: &o.Alerts,
		},
	}.withoutNilMaps()
}
