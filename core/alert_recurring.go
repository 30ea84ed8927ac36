package core

import (
	"cmp"

	"github.com/google/uuid"
)

// What a recurring action says to its [Alert].

// tellAlert tells the alert what has changed, if the recurring action has one or had one before.
func (t *recurringTransition) tellAlert(before RecurringAction) {
	had, has := !before.Alerts.None(), !t.Alerts.None()
	switch {
	case t.refusal != nil || !had && !has:
		return
	case t.ID == uuid.Nil:
		t.send(AlertRef(before.Ref()), AlertForget{Reason: "the schedule was deleted"})
		return
	case !has:
		t.send(AlertRef(t.Ref()), AlertForget{Reason: "its alerts were taken out"})
		return
	}
	e := t.alertWatch()
	if e.News = t.news; !had || e != before.alertWatch() {
		t.send(AlertRef(t.Ref()), e)
	}
}

// alertWatch gives what an alert knows of the recurring action.
func (r RecurringAction) alertWatch() AlertWatch {
	v := AlertView{SuccessAt: r.LastSuccessAt, MadeAt: r.CreatedAt, UsualMS: usualMS(r.Durations)}
	if r.Alerts.SlowFactor == 0 {
		v.UsualMS = 0 // of no concern
	}
	if !r.Enabled {
		v.Resting = cmp.Or(clipReason(r.DisabledReason), "disabled")
	} else if !r.NextExecutionAt.IsZero() {
		v.ExpectedAt = r.beginsAt(r.NextExecutionAt)
	}
	for _, w := range r.Waiting {
		v.ExpectedAt = earliest(v.ExpectedAt, r.beginsAt(w.DueAt))
	}
	for _, n := range r.Running {
		if n.live() && (v.RunsSince.IsZero() || n.StartedAt.Before(v.RunsSince)) {
			v.RunsSince, v.Runs = n.StartedAt, n.Action
		}
	}
	return AlertWatch{Schedule: r.Ref(), Namespace: r.Namespace, Tenant: r.Tenant, Name: r.Title(), Rules: r.Alerts, View: v}
}

// beginsAt is the instant at which a time of the schedule is to begin.
func (r RecurringAction) beginsAt(due Time) Time {
	if r.JitterSeconds == 0 {
		return due
	}
	s, err := r.schedule()
	if err != nil {
		return due
	}
	return s.firesAt(due)
}

// noteMissed notes for the alert that times were missed.
func (t *recurringTransition) noteMissed(p passedTimes) {
	if p.Verdict == VerdictMissed && !t.Alerts.None() {
		t.news.missed(t.beginsAt(p.First), p)
	}
}

// noteDispatched notes for the alert that a time of the schedule begins.
func (t *recurringTransition) noteDispatched(n RunningTime) {
	if n.live() && !n.Manual && !t.Alerts.None() {
		t.news.Dispatched = true
		t.news.decided(t.beginsAt(n.DueAt))
	}
}

// noteEnded notes for the alert how something has ended, but for what a backfill had asked for.
func (t *recurringTransition) noteEnded(n RunningTime, e ChildEnded) {
	if n.live() && !t.Alerts.None() {
		t.news.ended(e.Outcome, n.Action, e.Reason, betweenMS(n.StartedAt, t.clock.Now))
	}
}
