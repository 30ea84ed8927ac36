package core

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Job makes a run for each time of its schedule, and says which of them may go on
// (004 Job and Scheduler, E1).
//
//	apply ──▶ enabled ◀──── resume ──────────┐
//	           │ ▲ apply, due, trigger,      │
//	           └─┘ admit, run ended          │
//	           │ pause; its schedule         │
//	           ▼ cannot be read              │
//	          paused ────────────────────────┘
//
// delete leads from both out of existence: its runs are cancelled. A run is made
// some time ahead of its own, and waits in PreRun. Its verdict comes when it asks
// for admission: it is dispatched once it has a slot, and skipped if the job is
// paused, is to skip it, forbids overlap, or has another schedule meanwhile. A run
// that never gets a slot, and a time that passed without a run, are missed.
// trigger makes a run at once, in both states.
//
// Invariants, held by property tests:
//   - Each verdict is recorded once as an occurrence, and counted once.
//   - A run that is admitted, and only that, counts as dispatched and gets a slot,
//     and as many count as have a slot or ended with one.
//   - A slot is given only while fewer runs have one than MaxConcurrentRuns, and
//     only while none has one if overlap is forbid or replace.
//   - Runs get their slots in the order in which they asked.
//   - A run of the schedule is not admitted while the job is paused, nor beside
//     another one if overlap is forbid.
//   - NextRunAt is later than LastDueAt, and each due event moves it on.
//   - A paused job has no deadline.
//   - A due event leaves a deadline that has come only if it has decided about
//     times that had passed.
//   - A run is made under an id that no run of the job has, and at most
//     MaxActiveRuns have not ended.
//   - A trigger whose dedup key is among the last MaxTriggerKeys makes no run.
type Job struct {
	JobSpec
	Key           uuid.UUID   `json:"key"` // of the record: derived from tenant and id
	Paused        bool        `json:"paused"`
	PausedReason  string      `json:"paused_reason"`
	NextRunAt     Time        `json:"next_run_at"`     // the next time for which no run was made; zero: none follows
	LastDueAt     Time        `json:"last_due_at"`     // the latest time for which one was made, or that was missed
	LastVerdictAt Time        `json:"last_verdict_at"` // the latest time that has a verdict
	SkipNext      uint32      `json:"skip_next"`       // how many of the next times are skipped
	Active        []ActiveRun `json:"active"`          // runs that have not ended, in the order in which they asked for a slot
	LastRun       EndedRun    `json:"last_run"`        // of the runs that had a slot, the one that ended last
	Counts        JobCounts   `json:"counts"`
	Sequence      uint64      `json:"sequence"` // counts the occurrences; their ids are derived from it
	// LastTriggeredAt is the time of the latest run by hand: no two have the same.
	LastTriggeredAt Time `json:"last_triggered_at"`
	// Triggers are the runs by hand that had a dedup key, the latest last: at most
	// MaxTriggerKeys.
	Triggers  []KeyedTrigger `json:"triggers,omitempty"`
	CreatedAt Time           `json:"created_at"`
	UpdatedAt Time           `json:"updated_at"`

	// Executions counts the runs of the schedule that were dispatched, while MaxExecutions bounds
	// them.
	Executions uint64 `json:"executions,omitempty"`
	// LastSuccessAt is when the last of its runs ended that completed; null: none did.
	LastSuccessAt Time `json:"last_success_at,omitzero"`

	compiled *timetable // derived, never stored
}

// ActiveRun is a run of a job that has not ended.
type ActiveRun struct {
	Run         uuid.UUID `json:"run"`
	RunID       string    `json:"run_id"`
	ScheduledAt Time      `json:"scheduled_at"`
	Manual      bool      `json:"manual,omitempty"` // triggered by hand
	Stage       RunStage  `json:"stage"`
	// Dropped: the schedule was changed, and no longer has its time.
	Dropped bool `json:"dropped,omitempty"`
}

// RunStage says how far a run is, as its job sees it.
type RunStage string

// Stages of a run.
const (
	StageWaiting  RunStage = "waiting" // for its time
	StageAsked    RunStage = "asked"   // its time has come, and it waits for a slot
	StageAdmitted RunStage = "placed"  // it has a slot
	StageDenied   RunStage = "denied"  // it is skipped, and about to end
)

// EndedRun says how a run went.
type EndedRun struct {
	RunID       string             `json:"run_id"`
	State       OrchestratorStatus `json:"state"`
	ScheduledAt Time               `json:"scheduled_at"`
	EndedAt     Time               `json:"ended_at"`
	ExitCode    *int32             `json:"exit_code"`
	Error       string             `json:"error"`
}

// JobCounts count the verdicts about a job's times, and how the runs ended that
// were dispatched.
type JobCounts struct {
	Dispatched uint64 `json:"dispatched"`
	Missed     uint64 `json:"missed"`
	Skipped    uint64 `json:"skipped"`
	Completed  uint64 `json:"completed"`
	Failed     uint64 `json:"failed"`
	Cancelled  uint64 `json:"cancelled"`
	Orphaned   uint64 `json:"orphaned"`
}

// jobTransition is the application of one event to a job.
type jobTransition struct {
	transition
	Job
}

// Apply carries out one transition.
func (j Job) Apply(e JobEvent, c Clock) (Job, []effects.Effect) {
	t := &jobTransition{transition{clock: c, event: e}, j}
	if _, applies := e.(JobApply); j.Key == uuid.Nil && !applies {
		t.refuse(effects.CodeNotFound, "job not found")
	} else {
		t.apply(e)
	}
	return concluded(j, t.Job, t.transition)
}

func (t *jobTransition) apply(e JobEvent) {
	switch e := e.(type) {
	case JobApply:
		t.configure(e)
	case JobDue:
		t.due(e)
	case JobTrigger:
		t.trigger(e)
	case JobPause:
		t.pause(e)
	case JobResume:
		t.resume()
	case JobDelete:
		t.remove(e)
	case JobSkipNext:
		t.skipNext(e)
	case JobKill:
		t.kill(e)
	case JobAdmit:
		t.admit(e)
	case JobRunEnded:
		t.runEnded(e)
	case ChildEnded:
		t.runRefused(e)
	case BackfillTime:
		t.conflict("jobs cannot be backfilled yet")
	}
}

// configure: (absent) → enabled; or a new configuration, which reaches the runs
// that wait for their time. Another schedule holds from now on (R18).
func (t *jobTransition) configure(e JobApply) {
	spec := e.Spec.withDefaults()
	ref := JobRef(spec.Namespace, spec.Tenant, spec.ID)
	if t.invalid(errors.Join(spec.validate(), spec.validateZone())) {
		return
	}
	action := "updated"
	switch {
	case t.Key == uuid.Nil:
		t.Job, action = Job{Key: ref.ID, CreatedAt: t.clock.Now}, "created"
	case t.Key != ref.ID:
		t.refuse(effects.CodeInvalid, "id: %q is another job than %q", clip(spec.ID), clip(t.ID))
		return
	}
	was, exhausted := t.JobSpec, t.exhausted()
	if spec.MaxExecutions == 0 {
		t.Executions = 0
	}
	if spec.reschedules(was) || spec.exhaustedBy(t.Executions) != exhausted || t.clockWasWrong() {
		t.missOverdue("the schedule was changed before it was dispatched", e.Absences)
		t.JobSpec, t.compiled = spec, nil
		if t.invalid(t.reschedule()) {
			return
		}
	}
	t.JobSpec = spec
	for _, a := range t.Active {
		if a.Stage == StageWaiting {
			t.send(runRef(a.Run), OrchestratorConfigure{Config: spec})
		}
	}
	t.announce(action, nil)
	t.fillSlots()
}

// due makes the run of the next time. Of the times that have passed, the last one
// gets a run unless it is too late; all others are missed.
func (t *jobTransition) due(e JobDue) {
	at, now := t.Deadline(), t.clock.Now
	if !t.isDue("job "+clip(t.ID), at) {
		return
	}
	s, err := t.schedule()
	if err != nil || s == nil { // stored by a build that took this schedule
		t.Paused, t.NextRunAt, t.UpdatedAt = true, 0, now
		t.PausedReason = firstText(fmt.Sprintf("schedule: %q cannot be read: %v", t.Schedule, err))
		t.announce("paused", nil)
		return
	}
	t.compiled, t.UpdatedAt = s, now
	due, found := t.NextRunAt, true
	if !due.After(now) {
		due, found = t.inTime(s, now)
		until := now
		if found {
			until = due - 1
		}
		t.leaveOut(s, t.NextRunAt, now)
		t.miss(s, t.NextRunAt, until, t.lateReason(e.Absences))
	}
	if found {
		t.makeScheduled(s, due)
	} else {
		due = now
	}
	t.LastDueAt, t.NextRunAt = max(t.LastDueAt, due), 0
	if next, ok := s.Next(max(now, t.LastDueAt)); ok && !t.exhausted() {
		t.NextRunAt = next
	}
}

// pause: enabled → paused.
func (t *jobTransition) pause(e JobPause) {
	if t.Paused {
		t.refuse(effects.CodeConflict, "job %s is paused already: %s", clip(t.ID), t.PausedReason)
		return
	}
	t.missOverdue("paused before it was dispatched", e.Absences)
	t.Paused, t.PausedReason, t.NextRunAt, t.UpdatedAt = true, boundedReason(e.Reason, "paused"), 0, t.clock.Now
	t.announce("paused", nil)
}

// resume: paused → enabled.
func (t *jobTransition) resume() {
	if !t.Paused {
		t.refuse(effects.CodeConflict, "job %s is not paused", clip(t.ID))
		return
	}
	if t.exhausted() {
		t.refuse(effects.CodeConflict, "cannot resume: max_executions: %s: give more, or 0", exhaustedReason(t.Executions))
		return
	}
	until := t.decidedUntil()
	t.Paused, t.PausedReason, t.UpdatedAt = false, "", t.clock.Now
	if t.clockWasWrong() {
		t.LastDueAt = t.clock.Now
	}
	if err := t.scheduleNext(until); err != nil {
		t.refuse(effects.CodeConflict, "cannot resume: %s", err)
		return
	}
	t.announce("resumed", nil)
}

// remove: the job is gone, and its runs are cancelled. Those that have a slot go on to
// clean up without it.
func (t *jobTransition) remove(e JobDelete) {
	reason := boundedReason(e.Reason, "the job was deleted")
	t.missOverdue("deleted before it was dispatched", e.Absences)
	for _, a := range t.Active {
		if a.Stage == StageWaiting || a.Stage == StageAsked {
			t.recordVerdict(VerdictSkipped, a, reason)
		}
		t.cancelRun(a, reason)
	}
	t.announce("deleted", nil)
	t.Job = Job{}
}

// skipNext lets the job skip one more of its next times.
func (t *jobTransition) skipNext(e JobSkipNext) {
	if t.Schedule == "" { // else a schedule of next year would begin with it
		t.refuse(effects.CodeConflict, "the job has no schedule: there is no next time to skip")
		return
	}
	t.SkipNext, t.UpdatedAt = min(t.SkipNext, 1<<31)+1, t.clock.Now
	t.announce("skip_next", announcementTexts("reason", firstText(e.Reason)))
}

// announce says something of the job on the bus.
func (t *jobTransition) announce(action string, data json.RawMessage) {
	t.transition.announce("job", "job", action, t.Key, data)
}

// Ref names the job.
func (j Job) Ref() effects.Ref { return refOf(KindJob, j.Key) }

// Deadline is when the run of the next time is to be made: CreateAheadMS before
// it, but not before the time before it; and at the time itself if there may be
// no run to make. Zero if no time follows.
func (j Job) Deadline() Time {
	switch {
	case j.Paused || j.NextRunAt.IsZero():
		return 0
	case j.perhapsNone():
		return j.NextRunAt
	}
	return max(laterMS(j.NextRunAt, -j.CreateAheadMS), j.LastDueAt)
}

// Terms lists the job under all, and within its tenant under whether it is paused and
// under its labels.
func (j Job) Terms() []effects.Term {
	return withLabels(listed(j.CreatedAt, EnabledTerm(!j.Paused), j.scope()), j.CreatedAt, j.Labels, j.scope())
}

// AppendJSON appends the stored form.
func (j Job) AppendJSON(b []byte) []byte { return appendMarshaled(b, j) }
