package core

import "errors"

var errNoBackfill = errors.New("owner: missing: a time is backfilled for a backfill, which is told how its run ends")

// maxBackfillRuns is how many runs of a job may not have ended for a backfill to make one more:
// live times need the rest.
const maxBackfillRuns = MaxActiveRuns / 2

// backfill makes the run of a time that has passed, paused or not. It counts neither for
// MaxExecutions nor for the overlap of live times.
func (t *jobTransition) backfill(e BackfillTime) {
	if t.invalid(e.Owner.validate()) {
		return
	}
	paused := t.clock.Now
	if !t.PausedUntil.IsZero() { // from then on the schedule decides itself
		paused = min(paused, t.PausedUntil-1)
	}
	t.recordPaused(paused)
	run := runOf(t.JobSpec, e.At, false)
	run.Backfill = e.Owner.Ref.ID
	if t.refuseBackfill(e, run) {
		return
	}
	if t.known != nil { // it never had a slot: the time is run under another id
		run = run.again()
	}
	t.UpdatedAt = t.clock.Now
	t.makeRun(run, e.Owner)
}

// refuseBackfill refuses a time that cannot be backfilled.
func (t *jobTransition) refuseBackfill(e BackfillTime, run RunSpec) bool {
	s, err := t.times()
	switch {
	case e.Owner.IsZero():
		t.invalid(errNoBackfill)
	case t.invalid(err):
	case s == nil:
		t.conflict("job %s has no schedule: there are no times to backfill", clip(t.ID))
	case !s.isDue(e.At):
		t.conflict("at: %s is no time of the schedule %q of job %s", e.At, clip(t.Schedule), clip(t.ID))
	case s.leftOut(e.At) != "":
		t.conflict("at: %s is left out: %s", e.At, s.leftOut(e.At))
	case e.At.After(t.clock.Now):
		t.conflict("at: %s has not come; it is %s", e.At, t.clock.Now)
	case !t.undecidedFrom().IsZero() && !e.At.Before(t.undecidedFrom()):
		t.conflict("at: %s is not decided about yet", e.At)
	case t.hasRunAt(e.At):
		t.conflict("at: the run of %s has not ended", e.At)
	case t.known != nil && !t.known.State.Terminal():
		t.conflict("at: run %s has not ended", run.RunID)
	case t.known != nil && t.known.Admitted:
		t.conflict("at: %s was dispatched: run %s is %s", e.At, run.RunID, t.known.State)
	case len(t.Active) >= maxBackfillRuns:
		t.conflict("%d runs of job %s have not ended: backfills make no more", len(t.Active), clip(t.ID))
	default:
		return false
	}
	return true
}
