package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Occurrence is what was decided about one time of a recurring action or a job,
// or about a run of missed ones, and how it went (C12, R13). It is the history,
// and the ground of the ledger of G1.
//
//	record ──▶ dispatched ── settle ──▶ dispatched, with an outcome
//	       │        └─────── settle ──▶ deduplicated
//	       └──▶ missed, skipped
//
// expire leads out of existence.
//
// Invariants, held by property tests:
//   - The verdict is written once, but for a dispatch that turns out to be
//     deduplicated.
//   - The outcome is written once, and only to a dispatched one.
//   - A dispatched one without outcome never expires.
//   - It says nothing to others.
type Occurrence struct {
	ID          uuid.UUID `json:"id"`
	RecurringID uuid.UUID `json:"recurring_id"` // of the recurring action; of a job its key
	DueAt       Time      `json:"due_at"`
	LastDueAt   Time      `json:"last_due_at"` // differs from DueAt for a run of missed times; where CountCapped, a bound
	DecidedAt   Time      `json:"decided_at"`
	Verdict     Verdict   `json:"verdict"`
	Count       uint64    `json:"count"`        // how many times this stands for
	CountCapped bool      `json:"count_capped"` // there were more than Count
	Manual      bool      `json:"manual"`       // triggered by hand
	ActionID    uuid.UUID `json:"action_id"`    // or that of a job's run; zero where none was made
	Outcome     string    `json:"outcome"`      // the action's terminal status, or the run's state; empty until it ends
	Reason      string    `json:"reason"`
	StartedAt   Time      `json:"started_at"`
	FinishedAt  Time      `json:"finished_at"`
}

// Verdict is what was decided about a due time.
type Verdict string

// Verdicts.
const (
	VerdictDispatched   Verdict = "dispatched"
	VerdictMissed       Verdict = "missed"       // C5
	VerdictDeduplicated Verdict = "deduplicated" // C4
	VerdictSkipped      Verdict = "skipped"      // of a job: paused, overlap forbidden, skipNext, cancelled before its time
)

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
	// OccurrenceExpire ends the retention.
	OccurrenceExpire struct{}
)

func (OccurrenceRecord) occurrenceEvent()      {}
func (OccurrenceSettle) occurrenceEvent()      {}
func (OccurrenceDeduplicate) occurrenceEvent() {}
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
	case OccurrenceExpire:
		if !open {
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
	return max(o.DecidedAt, o.FinishedAt), o.Outcome != "" || o.Verdict != VerdictDispatched
}

// Deadline is none: an occurrence waits for nothing.
func (o Occurrence) Deadline() Time { return 0 }

// RecurringTerm is the list term of the occurrences of one recurring action.
func RecurringTerm(id uuid.UUID) string { return "recurring:" + id.String() }

// Terms lists the occurrence under its recurring action, and under what may be forgotten.
func (o Occurrence) Terms() []effects.Term {
	terms := append(make([]effects.Term, 0, 2), effects.Term{Name: RecurringTerm(o.RecurringID), At: o.DecidedAt})
	at, ended := o.endedAt()
	return withEnd(terms, at, ended)
}

func (e OccurrenceRecord) belongsToDispatch() bool {
	return e.Occurrence.Verdict == VerdictDispatched
}
func (OccurrenceDeduplicate) belongsToDispatch() bool { return true }

// EventType gives the discriminator in the journal.
func (OccurrenceRecord) EventType() string      { return "record" }
func (OccurrenceSettle) EventType() string      { return "settle" }
func (OccurrenceDeduplicate) EventType() string { return "deduplicate" }
func (OccurrenceExpire) EventType() string      { return "expire" }

// occurrenceEvents are the events of an occurrence, as the journal has them.
var occurrenceEvents = []eventType{
	event[OccurrenceRecord](), event[OccurrenceSettle](), event[OccurrenceDeduplicate](), event[OccurrenceExpire](),
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

// AppendJSON appends the stored form.
func (o Occurrence) AppendJSON(b []byte) []byte { return appendMarshaled(b, o) }
