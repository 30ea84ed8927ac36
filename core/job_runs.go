package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// admit: the time of a run has come. Here its verdict is decided, and not when it
// is made, which is some time ahead: what holds at its time counts.
func (j Job) admit(e JobAdmit, c Clock) (Job, []effects.Effect) {
	i := slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == e.Run })
	if i < 0 || j.Active[i].Stage != StageWaiting {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s is none of job %s that waits for its time", e.Run, clip(j.ID)))
	}
	a := j.Active[i]
	j, why := j.denies(a)
	a.Stage, j.UpdatedAt = StageAsked, c.Now
	if why != "" {
		a.Stage = StageDenied
	}
	j.Active = append(slices.Concat(j.Active[:i], j.Active[i+1:]), a)
	if why != "" {
		j, effs := j.verdict(VerdictSkipped, a, why, nil, c)
		return j, append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorCancel{Reason: "skipped: " + why}})
	}
	var effs []effects.Effect
	if j.Overlap == OverlapReplace {
		for _, other := range j.Active {
			if other.Run != a.Run && other.arrived() {
				effs = append(effs, effects.Send{To: runRef(other.Run), Event: OrchestratorCancel{Reason: "replaced by run " + a.RunID}})
			}
		}
	}
	return j.fill(effs, c)
}

// arrived reports whether the run's time has come, and it is to go on.
func (a ActiveRun) arrived() bool { return a.Stage == StageAsked || a.Stage == StagePlaced }

// denies says why a run is skipped; empty: it is not. A run by hand is never.
func (j Job) denies(a ActiveRun) (Job, string) {
	switch {
	case a.Manual:
		return j, ""
	case a.Dropped:
		return j, "its time is none of the schedule any more"
	case j.Paused:
		return j, "the job is paused: " + j.PausedReason
	case j.SkipNext > 0:
		j.SkipNext--
		return j, "skipNext"
	}
	if i := slices.IndexFunc(j.Active, ActiveRun.arrived); j.Overlap == OverlapForbid && i >= 0 {
		return j, fmt.Sprintf("overlap is %s, and run %s has not ended", OverlapForbid, j.Active[i].RunID)
	}
	return j, ""
}

// places is how many runs may have one; 0: any number.
func (j Job) places() int {
	if j.Overlap != OverlapAllow {
		return 1
	}
	return int(min(j.MaxConcurrentRuns, MaxActiveRuns))
}

// fill gives the places that are free, in the order in which they were asked for.
func (j Job) fill(effs []effects.Effect, c Clock) (Job, []effects.Effect) {
	taken := 0
	for _, a := range j.Active {
		if a.Stage == StagePlaced {
			taken++
		}
	}
	j.Active, j.UpdatedAt = slices.Clone(j.Active), c.Now
	for i, a := range j.Active {
		if a.Stage != StageAsked {
			continue
		}
		if j.places() > 0 && taken >= j.places() {
			break
		}
		taken++
		j.Active[i].Stage = StagePlaced
		j, effs = j.verdict(VerdictDispatched, a, "", effs, c)
		effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorAdmit{Occurrence: j.occurrenceID(c)}})
	}
	return j, effs
}

// runEnded frees the place of a run. One that never had one gets its verdict now.
func (j Job) runEnded(e JobRunEnded, c Clock) (Job, []effects.Effect) {
	i := slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == e.Run })
	switch {
	case i < 0:
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s is none of job %s that has not ended", e.Run, clip(j.ID)))
	case !e.State.Terminal():
		return j, j.refuse(e, effects.CodeInvalid, fmt.Sprintf("state: %q is no end of a run", clip(string(e.State))))
	}
	a := j.Active[i]
	j.Active = slices.Concat(j.Active[:i], j.Active[i+1:])
	reason := boundedReason(e.Error, "it ended before it had a place")
	var effs []effects.Effect
	switch {
	case a.Stage == StagePlaced:
		j = j.counted(e, a, c)
	case a.Stage == StageDenied: // its verdict is recorded
	case e.State == OrchestratorCancelled:
		j, effs = j.verdict(VerdictSkipped, a, reason, nil, c)
	default:
		j, effs = j.verdict(VerdictMissed, a, reason, nil, c)
	}
	return j.fill(effs, c)
}

// counted notes how a run ended that had a place.
func (j Job) counted(e JobRunEnded, a ActiveRun, c Clock) Job {
	j.LastRun = EndedRun{RunID: a.RunID, State: e.State, ScheduledAt: a.ScheduledAt, EndedAt: c.Now, ExitCode: e.ExitCode, Error: firstText(e.Error)}
	var n *uint64
	switch e.State {
	case OrchestratorCompleted:
		n = &j.Counts.Completed
	case OrchestratorCancelled:
		n = &j.Counts.Cancelled
	case OrchestratorOrphaned:
		n = &j.Counts.Orphaned
	default: // of the terminal ones failed alone is left
		n = &j.Counts.Failed
	}
	*n = saturatingAdd(*n, 1)
	return j
}

// runRefused: a run could not be made, since there is one of that time already, of
// the job before it was deleted and made again. That one has the time's verdict.
func (j Job) runRefused(e ChildEnded, c Clock) (Job, []effects.Effect) {
	i := slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == e.Child.ID })
	if e.Outcome != ChildRefused || i < 0 || j.Active[i].Stage != StageWaiting {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s does not wait for %s", clip(j.ID), e.Child))
	}
	said := j.announceData("run_refused", announcementData(struct {
		RunID  string `json:"run_id"`
		Reason string `json:"reason"`
	}{j.Active[i].RunID, boundedReason(e.Reason, "it was refused")}))
	j.Active, j.UpdatedAt = slices.Concat(j.Active[:i], j.Active[i+1:]), c.Now
	return j, []effects.Effect{said}
}

// verdict records what was decided about a run's time.
func (j Job) verdict(v Verdict, a ActiveRun, reason string, effs []effects.Effect, c Clock) (Job, []effects.Effect) {
	return j.record(Occurrence{
		DueAt: a.ScheduledAt, LastDueAt: a.ScheduledAt, Verdict: v, Count: 1, Manual: a.Manual, ActionID: a.Run, Reason: reason,
	}, effs, c)
}

// record notes a verdict for the history, counts it, and says what did not run.
func (j Job) record(o Occurrence, effs []effects.Effect, c Clock) (Job, []effects.Effect) {
	j.Sequence++
	o.ID, o.RecurringID, o.DecidedAt = j.occurrenceID(c), j.Key, c.Now
	n := &j.Counts.Dispatched
	switch o.Verdict {
	case VerdictMissed:
		n = &j.Counts.Missed
	case VerdictSkipped:
		n = &j.Counts.Skipped
	case VerdictDispatched, VerdictDeduplicated:
	}
	*n = saturatingAdd(*n, o.Count)
	if !o.Manual {
		j.LastVerdictAt = max(j.LastVerdictAt, o.LastDueAt)
	}
	effs = append(effs, effects.Send{To: effects.Ref{Kind: KindOccurrence, ID: o.ID}, Event: OccurrenceRecord{o}})
	if o.Verdict == VerdictDispatched {
		return j, effs
	}
	return j, append(effs, j.announceData(string(o.Verdict), announcementData(struct {
		ScheduledAt Time   `json:"scheduled_at"`
		Until       Time   `json:"until"`
		Count       uint64 `json:"count"`
		Reason      string `json:"reason"`
	}{o.DueAt, o.LastDueAt, o.Count, o.Reason})))
}

// occurrenceID is the id of the occurrence that was recorded last.
func (j Job) occurrenceID(c Clock) uuid.UUID { return ChildID(j.Key, "occurrence", c.Step, j.Sequence) }

func (j Job) skipNext(e JobSkipNext, c Clock) (Job, []effects.Effect) {
	if j.Schedule == "" { // else a schedule of next year would begin with it
		return j, j.refuse(e, effects.CodeConflict, "the job has no schedule: there is no next time to skip")
	}
	j.SkipNext, j.UpdatedAt = min(j.SkipNext, 1<<31)+1, c.Now
	return j, []effects.Effect{j.announceData("skip_next", announcementData(struct {
		Reason string `json:"reason"`
	}{firstText(e.Reason)}))}
}

// kill cancels the other run that asked last of those that have a place, or all
// whose time has come.
func (j Job) kill(e JobKill) (Job, []effects.Effect) {
	var effs []effects.Effect
	for _, a := range slices.Backward(j.Active) {
		reached := a.Stage == StagePlaced || e.All && a.Stage == StageAsked
		if a.Run == e.Except || !reached {
			continue
		}
		effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorCancel{Reason: boundedReason(e.Reason, "killed")}})
		if !e.All {
			break
		}
	}
	return j, effs
}
