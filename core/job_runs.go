package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

func runRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: KindOrchestrator, ID: id} }

// makeRun makes a run, which waits for its time.
func (t *jobTransition) makeRun(run RunSpec, owner Owner) {
	a := ActiveRun{Run: run.ID, RunID: run.RunID, ScheduledAt: run.ScheduledAt, Manual: run.Manual, Stage: StageWaiting, Owner: owner}
	if !t.before10() {
		a.NotBefore = run.NotBefore
	}
	t.Active = append(slices.Clip(t.Active), a)
	t.send(runRef(run.ID), OrchestratorCreate{Spec: run, Owner: Owner{Ref: t.Ref()}})
}

// runRefused: a run could not be made, since there is one of that time already, of
// the job before it was deleted and made anew, and that one has the time's verdict; or
// since the tenant has as many runs as its limit allows, and the time is skipped.
func (t *jobTransition) runRefused(e ChildEnded) {
	i := t.activeRun(e.Child.ID)
	if e.Outcome != ChildRefused || i < 0 || t.Active[i].Stage != StageWaiting {
		t.refuse(effects.CodeConflict, "job %s does not wait for %s", clip(t.ID), e.Child)
		return
	}
	a, reason := t.Active[i], boundedReason(e.Reason, "it was refused")
	putOff := e.Limited && !a.Owner.IsZero() // its backfill asks again every few seconds, and says that it is held up
	if !putOff {
		t.announce("run_refused", announcementTexts("run_id", a.RunID, "reason", reason))
	}
	t.removeRun(i)
	t.UpdatedAt = t.clock.Now
	t.add(a.Owner.ended(ChildEnded{Child: runRef(a.Run), Outcome: ChildRefused, Reason: reason, Limited: e.Limited})...)
	if !e.Limited || putOff {
		return
	}
	t.recordVerdict(VerdictSkipped, ActiveRun{ScheduledAt: a.ScheduledAt, Manual: a.Manual}, reason)
	t.Triggers = slices.DeleteFunc(slices.Clone(t.Triggers), func(k KeyedTrigger) bool { return a.Manual && k.At == a.ScheduledAt })
}

// activeRun is the index of a run that has not ended, or -1.
func (j Job) activeRun(run uuid.UUID) int {
	return slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == run })
}

// admit: the time of a run has come. Here its verdict is decided, and not when it
// is made, which is some time ahead: what holds at its time counts.
func (t *jobTransition) admit(e JobAdmit) {
	i := t.activeRun(e.Run)
	if i < 0 || t.Active[i].Stage != StageWaiting {
		t.refuse(effects.CodeConflict, "run %s is none of job %s that waits for its time", e.Run, clip(t.ID))
		return
	}
	a := t.Active[i]
	verdict, why := t.deny(a, e)
	a.Stage, t.UpdatedAt = StageAsked, t.clock.Now
	t.Active = append(slices.Concat(t.Active[:i], t.Active[i+1:]), a)
	i = len(t.Active) - 1
	switch {
	case why != "":
		t.denyRun(i, verdict, why)
		return
	case t.before10():
		t.replaceOthersBefore10(a)
	default:
		t.takePlaces(a)
	}
	t.fillSlots()
	if t.Active[i].Stage == StageAsked && !t.before10() {
		t.decide(i, VerdictWaiting, "it waits for a slot of its job")
	}
}

// Reasons of verdicts about runs that were made ahead of their times.
const (
	droppedReason = "its time is none of the schedule any more"
	skippedByHand = "the next time was to be skipped, by hand or by an action of a constraint"
)

// deny says why a run whose time has come does not go on, and which verdict that is: the first
// refusal decides. An empty reason: it does. A run by hand or of a backfill always does.
func (t *jobTransition) deny(a ActiveRun, e JobAdmit) (Verdict, string) {
	if t.before10() {
		return VerdictSkipped, t.denyBefore10(a)
	}
	switch {
	case !a.scheduled():
		return "", ""
	case a.Dropped:
		return t.dropped(a)
	case t.pausedAt(a.begins()):
		return VerdictSkipped, t.pausedText()
	case t.SkipNext > 0:
		t.SkipNext--
		return VerdictSkipped, skippedByHand
	}
	if e.Late {
		if why := t.tooLate(a, e.Absences); why != "" {
			return VerdictMissed, why
		}
	}
	if t.exhausted() {
		return VerdictSkipped, exhaustedReason(t.Executions)
	}
	return VerdictSkipped, t.overlaps()
}

// dropped is the verdict about a run that waited while the schedule or its calendars changed.
func (t *jobTransition) dropped(a ActiveRun) (Verdict, string) {
	if s, err := t.times(); err == nil && s != nil && s.isDue(a.ScheduledAt) {
		if why := s.leftOut(a.ScheduledAt); why != "" {
			return VerdictSkipped, why
		}
	}
	return VerdictCancelled, droppedReason
}

// tooLate says why a run does not go on that was made ahead of its time, and asks for a slot only
// after its start deadline; empty: it is caught up.
func (t *jobTransition) tooLate(a ActiveRun, absences []Absence) string {
	now, policy := t.clock.Now, "a run begins within its start deadline of "+lengthText(t.startDeadline())
	s, err := t.times()
	if err == nil && s != nil && t.catchesUp() {
		if policy = t.notCaughtUp(s, a, now); policy == "" {
			return ""
		}
	}
	return lateReason(t.clock, policy, policy, absences).text(a.begins())
}

// notCaughtUp is the policy by which a late run is not caught up; empty: it is. One that is caught
// up already was chosen before.
func (t *jobTransition) notCaughtUp(s *timetable, a ActiveRun, now Time) string {
	if !t.inWindow(a.begins(), now) {
		return "it is longer ago than the catch-up window of " + t.windowText()
	}
	most := 1
	if t.Missed == MissedAll {
		most = t.catchUpLimit()
	}
	later := s.last(a.ScheduledAt+1, now, most)
	switch {
	case len(later) < most || a.NotBefore.After(s.firesAt(a.ScheduledAt)):
		return ""
	case t.Missed == MissedAll:
		return fmt.Sprintf("of the times that passed at most the last %d are caught up", most)
	}
	return fmt.Sprintf("of the times that passed only the latest gets a run, and %s took its place", later[len(later)-1])
}

// runEnded frees the slot of a run. One that never had a slot gets its verdict now.
func (t *jobTransition) runEnded(e JobRunEnded) {
	i := t.activeRun(e.Run)
	switch {
	case i < 0:
		t.refuse(effects.CodeConflict, "run %s is none of job %s that has not ended", e.Run, clip(t.ID))
		return
	case !e.State.Terminal():
		t.refuse(effects.CodeInvalid, "state: %q is no end of a run", clip(string(e.State)))
		return
	}
	a := t.Active[i]
	reason := boundedReason(e.Error, "it ended before it had a place")
	switch a.Stage {
	case StageAdmitted:
		t.countOutcome(e, a)
	case StageDenied: // its verdict is recorded
	default:
		t.Active = slices.Clone(t.Active)
		verdict, reason := t.verdictOfEnd(a, e.State, reason)
		t.decide(i, verdict, reason)
	}
	t.removeRun(i)
	t.add(a.Owner.ended(ChildEnded{Child: runRef(a.Run), Outcome: outcomeOf(e.State), Reason: firstText(e.Error)})...)
	t.fillSlots()
}

// verdictOfEnd is the verdict about a run that ended before it had a slot.
func (t *jobTransition) verdictOfEnd(a ActiveRun, end OrchestratorStatus, reason string) (Verdict, string) {
	switch {
	case t.before10() && end == OrchestratorCancelled:
		return VerdictSkipped, reason
	case t.before10():
		return VerdictMissed, reason
	case end == OrchestratorCancelled:
		return VerdictCancelled, reason
	case a.Stage == StageAsked && end == OrchestratorFailed:
		return VerdictExpired, strings.TrimPrefix(reason, "expired: ")
	}
	return VerdictMissed, strings.TrimPrefix(reason, "missed: ")
}

// outcomeOf is how a run ended, in the words that its owner is told.
func outcomeOf(end OrchestratorStatus) ChildOutcome {
	switch end {
	case OrchestratorCompleted:
		return ChildSucceeded
	case OrchestratorCancelled:
		return ChildCancelled
	default: // failed and orphaned
		return ChildFailed
	}
}

// countOutcome notes how a run ended that had a slot.
func (t *jobTransition) countOutcome(e JobRunEnded, a ActiveRun) {
	t.noteEnded(a, e)
	t.LastRun = EndedRun{RunID: a.RunID, State: e.State, ScheduledAt: a.ScheduledAt, EndedAt: t.clock.Now, ExitCode: e.ExitCode, Error: firstText(e.Error)}
	n := &t.Counts.Failed
	switch e.State {
	case OrchestratorCompleted:
		n = &t.Counts.Completed
	case OrchestratorCancelled:
		n = &t.Counts.Cancelled
	case OrchestratorOrphaned:
		n = &t.Counts.Orphaned
	default: // of the terminal states failed alone is left
	}
	*n = saturatingAdd(*n, 1)
	if e.State != OrchestratorCompleted || t.before10() {
		return
	}
	t.LastSuccessAt = t.clock.Now
	if e.RanMS > 0 {
		t.Durations = appendLast(t.Durations, MaxDurations, e.RanMS)
	}
}

// kill cancels the other run that asked last of those that have a slot, or all
// whose time has come.
func (t *jobTransition) kill(e JobKill) {
	for _, a := range slices.Backward(t.Active) {
		reached := a.Stage == StageAdmitted || e.All && a.Stage == StageAsked
		if a.Run == e.Except || !reached {
			continue
		}
		t.cancelRun(a, boundedReason(e.Reason, "killed"))
		if !e.All {
			break
		}
	}
}

func (t *jobTransition) cancelRun(a ActiveRun, reason string) {
	t.send(runRef(a.Run), OrchestratorCancel{Reason: reason})
}

// recordVerdict records what was decided about the time of a run that is not made.
func (t *jobTransition) recordVerdict(v Verdict, a ActiveRun, reason string) {
	t.record(Occurrence{
		DueAt: a.ScheduledAt, LastDueAt: a.ScheduledAt, Verdict: v, Count: 1, Manual: a.Manual, ActionID: a.Run, Reason: reason,
	})
}
