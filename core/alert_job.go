package core

import (
	"slices"

	"github.com/google/uuid"
)

// What a job says to its [Alert].

// tellAlert tells the alert what has changed, if the job has one or had one before.
func (t *jobTransition) tellAlert(before Job) {
	had, has := !before.Alerts.None(), !t.Alerts.None()
	switch {
	case t.refusal != nil || !had && !has:
		return
	case t.Key == uuid.Nil:
		t.send(AlertRef(before.Ref()), AlertForget{Reason: "the job was deleted"})
		return
	case !has:
		t.send(AlertRef(t.Ref()), AlertForget{Reason: "its alerts were taken out"})
		return
	}
	if !had {
		t.watchRuns()
	}
	e := t.alertWatch()
	if e.News = t.news; !had || e != before.alertWatch() {
		t.send(AlertRef(t.Ref()), e)
	}
}

// watchRuns lets the runs that have a slot, or wait for one, begin with it: they were made before the
// job had alerts, and do not tell when their pods run.
func (t *jobTransition) watchRuns() {
	t.Active = slices.Clone(t.Active)
	for i := range t.Active {
		switch a := &t.Active[i]; a.Stage {
		case StageAsked:
			a.Unheard = true
		case StageAdmitted:
			a.Unheard, a.BeganAt = true, t.clock.Now
		case StageWaiting, StageDenied:
		}
	}
}

// alertWatch gives what an alert knows of the job.
func (j Job) alertWatch() AlertWatch {
	v := AlertView{SuccessAt: j.LastSuccessAt, MadeAt: j.CreatedAt, UsualMS: usualMS(j.Durations)}
	if j.Alerts.SlowFactor == 0 {
		v.UsualMS = 0 // of no concern
	}
	if j.Paused {
		v.Resting = clipReason(j.pausedText())
	} else if !j.NextRunAt.IsZero() {
		v.ExpectedAt = j.beginsAt(j.NextRunAt)
	}
	for _, a := range j.Active {
		switch {
		case !a.Owner.IsZero() || a.Stage == StageDenied || a.Dropped:
		case a.BeganAt.IsZero() && a.scheduled():
			v.ExpectedAt = earliest(v.ExpectedAt, j.beginsAt(a.ScheduledAt))
		case !a.BeganAt.IsZero() && (v.RunsSince.IsZero() || a.BeganAt.Before(v.RunsSince)):
			v.RunsSince, v.Runs = a.BeganAt, a.Run
		}
	}
	return AlertWatch{Schedule: j.Ref(), Namespace: j.Namespace, Tenant: j.Tenant, Name: j.ID, Rules: j.Alerts, View: v}
}

// beginsAt is the instant at which the run of a time of the schedule is to begin.
func (j Job) beginsAt(due Time) Time {
	if j.JitterSeconds == 0 {
		return due
	}
	s, err := j.schedule()
	if err != nil || s == nil {
		return due
	}
	return s.firesAt(due)
}

// runBegan notes that the pod of a run runs.
func (t *jobTransition) runBegan(e JobRunBegan) {
	i := t.activeRun(e.Run)
	if i < 0 || t.Active[i].Stage != StageAdmitted {
		t.conflict("run %s is none of job %s that has a slot", e.Run, clip(t.ID))
		return
	}
	t.Active = slices.Clone(t.Active)
	a := &t.Active[i]
	if a.scheduled() && a.BeganAt.IsZero() {
		t.news.decided(t.beginsAt(a.ScheduledAt))
	}
	a.BeganAt, t.UpdatedAt = t.clock.Now, t.clock.Now
}

// noteVerdict notes for the alert what was decided about times.
func (t *jobTransition) noteVerdict(o Occurrence) {
	switch {
	case t.Alerts.None() || o.Manual || o.Backfill != uuid.Nil:
	case o.Verdict == VerdictMissed:
		t.news.missed(t.beginsAt(o.DueAt), passedTimes{First: o.DueAt, Last: o.LastDueAt, Count: o.Count, Reason: o.Reason})
	case o.Verdict == VerdictDispatched:
		t.news.Dispatched = true
	}
}

// noteEnded notes for the alert how a run has ended that had a slot, but for those of backfills.
func (t *jobTransition) noteEnded(a ActiveRun, e JobRunEnded) {
	if !t.Alerts.None() && a.Owner.IsZero() {
		t.news.ended(outcomeOf(e.State), a.Run, e.Error, e.RanMS)
	}
}
