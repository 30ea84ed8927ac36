package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// AlertEvent is an event of [Alert]. The set is closed.
//
//sumtype:decl
type AlertEvent interface {
	Event
	alertEvent()
}

type (
	// AlertWatch says how the schedule is now, and what has happened to it. The schedule sends it with
	// each transition that changes what an alert depends on; the first one makes the alert.
	AlertWatch struct {
		Schedule  effects.Ref `json:"schedule"`
		Namespace string      `json:"namespace,omitempty"`
		Tenant    string      `json:"tenant,omitempty"`
		Name      string      `json:"name,omitempty"` // what people call the schedule
		Rules     AlertRules  `json:"rules"`
		View      AlertView   `json:"view"`
		News      AlertNews   `json:"news,omitzero"`
	}
	// AlertForget says that the schedule has no rules any more, or is gone.
	AlertForget struct {
		Reason string `json:"reason,omitempty"`
	}
	// AlertDue says that a time of the rules has come, or the end of the silence.
	AlertDue struct{}
	// AlertSilence lets nobody be told until then.
	AlertSilence struct {
		Until  Time   `json:"until"`
		By     string `json:"by,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	// AlertUnsilence ends the silence.
	AlertUnsilence struct{}
)

// AlertView is what an alert knows of its schedule. All of it is a part of the schedule's state.
type AlertView struct {
	// Resting is why nothing is expected of the schedule, such as a pause; empty: it is enabled.
	Resting string `json:"resting,omitempty"`
	// ExpectedAt is the earliest time of the schedule that has not begun, past or to come; zero: none.
	ExpectedAt Time `json:"expected_at,omitzero"`
	// RunsSince is when the oldest of what runs has begun, and Runs what that is; zero: nothing runs.
	RunsSince Time      `json:"runs_since,omitzero"`
	Runs      uuid.UUID `json:"runs,omitzero"`
	// SuccessAt is when something succeeded last; zero: never.
	SuccessAt Time `json:"success_at,omitzero"`
	MadeAt    Time `json:"made_at"` // when the schedule was made
	// UsualMS is what 95 of 100 take at most that completed; 0: too few have, see [MinUsual].
	UsualMS int64 `json:"usual_ms,omitempty"`
}

// AlertNews is what has happened to a schedule in one transition.
type AlertNews struct {
	// DecidedAt is the oldest time of the schedule that began, or was missed, with this transition.
	DecidedAt Time `json:"decided_at,omitzero"`
	// Missed counts the times that were missed, the first and the last of which these are.
	Missed       uint64 `json:"missed,omitempty"`
	MissedFrom   Time   `json:"missed_from,omitzero"`
	MissedUntil  Time   `json:"missed_until,omitzero"`
	MissedReason string `json:"missed_reason,omitempty"` // of the last ones
	Dispatched   bool   `json:"dispatched,omitempty"`    // a time of the schedule was
	// Outcome is how something ended that was dispatched, which Child names; empty: nothing has.
	Outcome ChildOutcome `json:"outcome,omitempty"`
	Child   uuid.UUID    `json:"child,omitzero"`
	Reason  string       `json:"reason,omitempty"` // why it failed
	RanMS   int64        `json:"ran_ms,omitempty"` // for how long it ran
}

// decided notes a time of the schedule that begins, or is missed.
func (n *AlertNews) decided(at Time) { n.DecidedAt = earliest(n.DecidedAt, at) }

// missed notes times that are missed, the first of which was to begin at an instant.
func (n *AlertNews) missed(begins Time, p passedTimes) {
	n.decided(begins)
	n.Missed = saturatingAdd(n.Missed, p.Count)
	n.MissedFrom, n.MissedUntil = earliest(n.MissedFrom, p.First), max(n.MissedUntil, p.Last)
	n.MissedReason = clipReason(p.Reason)
}

// ended notes how something has ended.
func (n *AlertNews) ended(outcome ChildOutcome, child uuid.UUID, reason string, ranMS int64) {
	n.Outcome, n.Child, n.RanMS = outcome, child, max(ranMS, 0)
	if outcome == ChildFailed {
		n.Reason = clipReason(reason)
	}
}

func (AlertWatch) alertEvent()     {}
func (AlertForget) alertEvent()    {}
func (AlertDue) alertEvent()       {}
func (AlertSilence) alertEvent()   {}
func (AlertUnsilence) alertEvent() {}

// EventType gives the discriminator in the journal.
func (AlertWatch) EventType() string     { return "watch" }
func (AlertForget) EventType() string    { return "forget" }
func (AlertDue) EventType() string       { return "due" }
func (AlertSilence) EventType() string   { return "silence" }
func (AlertUnsilence) EventType() string { return "unsilence" }

func (e AlertSilence) stored() Event {
	return AlertSilence{e.Until, validText(e.By), validText(e.Reason)}
}

// alertEvents are the events of Alert, as the journal has them.
var alertEvents = []eventType{
	event[AlertWatch](), event[AlertForget](), event[AlertDue](), event[AlertSilence](), event[AlertUnsilence](),
}
