package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Occurrence is what was decided about one time of a recurring action, a job or an
// action that recurs, or about equal neighbours that were not dispatched, and how it
// went (C12, R13). It is the history, and an entry of the ledger of G1.
//
//	record ──▶ waiting ── decide ──▶ dispatched, or one of those below
//	       ├──▶ dispatched ── settle ──▶ dispatched, with an outcome
//	       │        ├─────── deduplicate ──▶ deduplicated
//	       │        └─────── decide ──▶ skipped, missed: its action was refused
//	       └──▶ missed, skipped, cancelled, expired ◀──┐
//	                       └─── extend: one more time ─┘
//
// outlived says that it is no longer among the latest of its schedule; expire leads out
// of existence.
//
// Invariants, held by property tests:
//   - The verdict is written once, but for one that waits, and for a dispatch that turns
//     out to be deduplicated or refused.
//   - The outcome is written once, and only to a dispatched one.
//   - One that waits, and a dispatched one without outcome, never expires, nor does one of
//     the latest of its schedule.
//   - It says nothing to others.
type Occurrence struct {
	ID          uuid.UUID `json:"id"`
	RecurringID uuid.UUID `json:"recurring_id"` // of the recurring action; of a job its key
	DueAt       Time      `json:"due_at"`
	LastDueAt   Time      `json:"last_due_at"` // the last of the times that it stands for; if CountCapped, a bound
	DecidedAt   Time      `json:"decided_at"`
	Verdict     Verdict   `json:"verdict"`
	Count       uint64    `json:"count"`        // how many times this stands for
	CountCapped bool      `json:"count_capped"` // there were more than Count
	Manual      bool      `json:"manual"`       // triggered by hand
	ActionID    uuid.UUID `json:"action_id"`    // of the action or of the job's run; zero if none was made
	Outcome     string    `json:"outcome"`      // the action's terminal status, or the run's state; empty until it ends
	Reason      string    `json:"reason"`
	StartedAt   Time      `json:"started_at"`
	FinishedAt  Time      `json:"finished_at"`

	// Schedule is the kind of machine whose time it is; empty in entries of builds before
	// core.Version 10, which say nothing of what follows.
	Schedule  effects.Kind `json:"schedule,omitempty"`
	Namespace string       `json:"namespace,omitempty"`
	Tenant    string       `json:"tenant,omitempty"`
	Name      string       `json:"name,omitempty"`   // of the schedule: a job's id, else the head of what people call it, at most [MaxNameBytes]
	Number    uint64       `json:"number,omitempty"` // counts the entries of its schedule
	// Latest says that it is among the last [KeptOccurrences] of its schedule, which are kept
	// however old they are.
	Latest   bool      `json:"latest,omitempty"`
	Backfill uuid.UUID `json:"backfill,omitzero"` // that asked for it; zero: none
}

// Verdict is what was decided about a due time.
type Verdict string

// Verdicts.
const (
	VerdictDispatched   Verdict = "dispatched"
	VerdictMissed       Verdict = "missed"       // C5
	VerdictDeduplicated Verdict = "deduplicated" // C4
	VerdictSkipped      Verdict = "skipped"      // by a calendar, the clock change, a pause, by hand, a limit, the overlap policy, or a full buffer
	VerdictCancelled    Verdict = "cancelled"    // it waited when it was cancelled, or its schedule paused, changed or deleted
	VerdictExpired      Verdict = "expired"      // it waited beyond its deadline
	VerdictWaiting      Verdict = "waiting"      // none yet: it waits for its turn
)

// Verdicts lists all verdicts, that of an entry which waits included.
func Verdicts() []Verdict {
	return []Verdict{VerdictDispatched, VerdictMissed, VerdictDeduplicated, VerdictSkipped, VerdictCancelled, VerdictExpired, VerdictWaiting}
}

// OccurrenceEvent is an event of [Occurrence]. The set is closed.
//
//sumtype:decl
type OccurrenceEvent interface {
	Event
	occurrenceEvent()
}

type (
	// OccurrenceRecord records a verdict.
	OccurrenceRecord struct {
		Occurrence Occurrence `json:"occurrence"`
	}
	// OccurrenceSettle says how the action ended.
	OccurrenceSettle struct {
		Outcome    StatusType `json:"outcome"`
		Reason     string     `json:"reason"`
		StartedAt  Time       `json:"started_at"`
		FinishedAt Time       `json:"finished_at"`
	}
	// OccurrenceDeduplicate says that the action was not made, since another
	// one holds its dedup key.
	OccurrenceDeduplicate struct {
		Holder uuid.UUID `json:"holder"`
	}
	// OccurrenceDecide gives one that waits its verdict, or takes back a dispatch whose action
	// was refused.
	OccurrenceDecide struct {
		Verdict  Verdict   `json:"verdict"`
		Reason   string    `json:"reason"`
		ActionID uuid.UUID `json:"action_id"` // of a dispatched one
	}
	// OccurrenceExtend adds times that follow, have the same verdict and the same reason.
	OccurrenceExtend struct {
		LastDueAt Time   `json:"last_due_at"`
		Count     uint64 `json:"count"` // how many more
		Capped    bool   `json:"capped"`
	}
	// OccurrenceOutlived says that it is no longer among the latest of its schedule.
	OccurrenceOutlived struct{}
	// OccurrenceExpire ends the retention.
	OccurrenceExpire struct{}
)

func (OccurrenceRecord) occurrenceEvent()      {}
func (OccurrenceSettle) occurrenceEvent()      {}
func (OccurrenceDeduplicate) occurrenceEvent() {}
func (OccurrenceDecide) occurrenceEvent()      {}
func (OccurrenceExtend) occurrenceEvent()      {}
func (OccurrenceOutlived) occurrenceEvent()    {}
func (OccurrenceExpire) occurrenceEvent()      {}

// Apply carries out one transition.
func (o Occurrence) Apply(e OccurrenceEvent, c Clock) (Occurrence, []effects.Effect) {
	if record, ok := e.(OccurrenceRecord); ok {
		if o.ID != uuid.Nil {
			return o, refused(o.Ref(), e, effects.CodeExists, "occurrence %s exists already", o.ID)
		}
		if record.Occurrence.ID == uuid.Nil {
			return o, refused(o.Ref(), e, effects.CodeInvalid, "id: must be a UUID that is not all zeros")
		}
		record.Occurrence.Reason = validText(record.Occurrence.Reason)
		return record.Occurrence, nil
	}
	if o.ID == uuid.Nil {
		return o, refused(o.Ref(), e, effects.CodeNotFound, "occurrence not found")
	}
	open := o.Verdict == VerdictDispatched && o.Outcome == ""
	switch e := e.(type) {
	case OccurrenceSettle:
		if open {
			o.Outcome, o.Reason = string(e.Outcome), validText(e.Reason)
			o.StartedAt, o.FinishedAt = e.StartedAt, e.FinishedAt
			return o, nil
		}
	case OccurrenceDeduplicate:
		if open {
			o.Verdict, o.ActionID, o.Count = VerdictDeduplicated, uuid.Nil, 1
			o.Reason = fmt.Sprintf("action %s holds the dedup key", e.Holder)
			o.FinishedAt = c.Now
			return o, nil
		}
	case OccurrenceDecide:
		if o.Verdict == VerdictWaiting && e.Verdict != VerdictWaiting || open && e.Verdict != VerdictDispatched && e.Verdict != VerdictWaiting {
			o.Verdict, o.Reason, o.ActionID, o.DecidedAt = e.Verdict, validText(e.Reason), e.ActionID, c.Now
			return o, nil
		}
	case OccurrenceExtend:
		if joins(o.Verdict) {
			o.LastDueAt, o.Count, o.CountCapped = max(o.LastDueAt, e.LastDueAt), saturatingAdd(o.Count, e.Count), o.CountCapped || e.Capped
			o.DecidedAt = c.Now
			return o, nil
		}
	case OccurrenceOutlived:
		o.Latest = false
		return o, nil
	case OccurrenceExpire:
		if !open && o.Verdict != VerdictWaiting && !o.Latest {
			return Occurrence{}, nil
		}
	case OccurrenceRecord:
	}
	return o, refused(o.Ref(), e, effects.CodeConflict, "occurrence %s is %s: it cannot take %q", o.ID, o.Verdict, e.EventType())
}

// Ref names the occurrence.
func (o Occurrence) Ref() effects.Ref { return refOf(KindOccurrence, o.ID) }

// endedAt: see [EndedAt].
func (o Occurrence) endedAt() (Time, bool) {
	return max(o.DecidedAt, o.FinishedAt), !o.Latest && (o.Outcome != "" || o.Verdict != VerdictDispatched && o.Verdict != VerdictWaiting)
}

// joins reports whether equal neighbours with that verdict are one entry.
func joins(v Verdict) bool {
	return v == VerdictMissed || v == VerdictSkipped || v == VerdictCancelled || v == VerdictExpired
}

func (o Occurrence) scope() Scope { return Scope{o.Namespace, o.Tenant} }

// Deadline is none: an occurrence waits for nothing.
func (o Occurrence) Deadline() Time { return 0 }

func (e OccurrenceRecord) belongsToDispatch() bool {
	return e.Occurrence.Verdict == VerdictDispatched
}
func (OccurrenceDeduplicate) belongsToDispatch() bool { return true }

// EventType gives the discriminator in the journal.
func (OccurrenceRecord) EventType() string      { return "record" }
func (OccurrenceSettle) EventType() string      { return "settle" }
func (OccurrenceDeduplicate) EventType() string { return "deduplicate" }
func (OccurrenceDecide) EventType() string      { return "decide" }
func (OccurrenceExtend) EventType() string      { return "extend" }
func (OccurrenceOutlived) EventType() string    { return "outlived" }
func (OccurrenceExpire) EventType() string      { return "expire" }

// occurrenceEvents are the events of an occurrence, as the journal has them.
var occurrenceEvents = []eventType{
	event[OccurrenceRecord](), event[OccurrenceSettle](), event[OccurrenceDeduplicate](), event[OccurrenceExpire](),
	event[OccurrenceDecide](), event[OccurrenceExtend](), event[OccurrenceOutlived](),
}

func (e OccurrenceSettle) appendFields(o object) object {
	o.str("outcome", string(e.Outcome))
	o.str("reason", e.Reason)
	o.time("started_at", e.StartedAt)
	o.time("finished_at", e.FinishedAt)
	return o
}

func (e OccurrenceDeduplicate) appendFields(o object) object {
	o.id("holder", e.Holder)
	return o
}

func (e OccurrenceDecide) appendFields(o object) object {
	o.str("verdict", string(e.Verdict))
	o.str("reason", e.Reason)
	o.id("action_id", e.ActionID)
	return o
}

// AppendJSON appends the stored form.
func (o Occurrence) AppendJSON(b []byte) []byte { return appendMarshaled(b, o) }
