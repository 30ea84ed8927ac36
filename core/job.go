package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core/schedule"
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
// for admission: it is dispatched once it has a place, skipped where the job is
// paused, is to skip it, forbids overlap, or has another schedule meanwhile. A run
// that never gets a place, and a time that passed without a run, are missed.
// trigger makes a run at once, in both states.
//
// Invariants, held by property tests:
//   - Each verdict is recorded once as an occurrence, and counted once.
//   - A run that is admitted, and only that, counts as dispatched and gets a place,
//     and as many count as have a place or ended with one.
//   - A place is given only while fewer runs have one than MaxConcurrentRuns, and
//     only while none has one where overlap is forbid or replace.
//   - Runs get their places in the order in which they asked.
//   - A run of the schedule is not admitted while the job is paused, nor beside
//     another one where overlap is forbid.
//   - NextRunAt is later than LastDueAt, and each due event moves it on.
//   - A paused job has no deadline.
//   - A due event leaves a deadline that has come only where it has decided about
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
	Active        []ActiveRun `json:"active"`          // runs that have not ended; those that have asked, in that order
	LastRun       EndedRun    `json:"last_run"`        // of those that had a place, the one that ended last
	Counts        JobCounts   `json:"counts"`
	Sequence      uint64      `json:"sequence"` // counts the occurrences; their ids are derived from it
	// LastTriggeredAt is the time of the latest run by hand: no two have the same.
	LastTriggeredAt Time `json:"last_triggered_at"`
	// Triggers are the runs by hand that had a dedup key, the latest last: at most
	// MaxTriggerKeys.
	Triggers  []KeyedTrigger `json:"triggers,omitempty"`
	CreatedAt Time           `json:"created_at"`
	UpdatedAt Time           `json:"updated_at"`

	compiled *schedule.Schedule // derived, never stored
}

// ActiveRun is a run of a job that has not ended.
type ActiveRun struct {
	Run         uuid.UUID `json:"run"`
	RunID       string    `json:"run_id"`
	ScheduledAt Time      `json:"scheduled_at"`
	Manual      bool      `json:"manual,omitempty"` // triggered out of turn
	Stage       RunStage  `json:"stage"`
	// Dropped: its time is none of the schedule's any more.
	Dropped bool `json:"dropped,omitempty"`
}

// RunStage says how far a run is, as its job sees it.
type RunStage string

// Stages of a run.
const (
	StageWaiting RunStage = "waiting" // for its time
	StageAsked   RunStage = "asked"   // its time has come, and it waits for a place
	StagePlaced  RunStage = "placed"  // it has one
	StageDenied  RunStage = "denied"  // it is skipped, and about to end
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

// Apply carries out one transition.
func (j Job) Apply(e JobEvent, c Clock) (Job, []effects.Effect) {
	if apply, ok := e.(JobApply); ok {
		return j.configure(apply, c)
	}
	if j.Key == uuid.Nil {
		return j, j.refuse(e, effects.CodeNotFound, "job not found")
	}
	switch e := e.(type) {
	case JobDue:
		return j.due(e, c)
	case JobTrigger:
		return j.trigger(e, c)
	case JobPause:
		return j.pause(e, c)
	case JobResume:
		return j.resume(e, c)
	case JobDelete:
		return j.remove(e, c)
	case JobSkipNext:
		return j.skipNext(e, c)
	case JobKill:
		return j.kill(e)
	case JobAdmit:
		return j.admit(e, c)
	case JobRunEnded:
		return j.runEnded(e, c)
	case ChildEnded:
		return j.runRefused(e, c)
	case JobApply:
	}
	return j, j.refuse(e, effects.CodeInvalid, fmt.Sprintf("a job takes no event %q", e.EventType()))
}

// configure: (absent) → enabled; or a new configuration, which reaches the runs
// that wait for their time. Another schedule holds from now on (R18).
func (j Job) configure(e JobApply, c Clock) (Job, []effects.Effect) {
	spec := e.Spec.withDefaults()
	ref := JobRef(spec.Namespace, spec.Tenant, spec.ID)
	if err := errors.Join(spec.validate(), spec.validateZone()); err != nil {
		return j, refused(ref, e, effects.CodeInvalid, err.Error())
	}
	n, what := j, "updated"
	switch {
	case j.Key == uuid.Nil:
		n, what = Job{Key: ref.ID, CreatedAt: c.Now}, "created"
	case j.Key != ref.ID:
		return j, j.refuse(e, effects.CodeInvalid, fmt.Sprintf("id: %q is another job than %q", clip(spec.ID), clip(j.ID)))
	}
	n.JobSpec, n.UpdatedAt = spec, c.Now
	var effs []effects.Effect
	if n.Schedule != j.Schedule || n.Timezone != j.Timezone || j.clockWasWrong(c) {
		var was Job
		was, effs = j.overdue("the schedule was changed before it was dispatched", c)
		n.Counts, n.Sequence, n.LastVerdictAt, n.compiled = was.Counts, was.Sequence, was.LastVerdictAt, nil
		until := was.decidedUntil(c)
		n.LastDueAt = min(was.LastDueAt, until)
		var err error
		if n, err = n.scheduled(until); err != nil {
			return j, refused(ref, e, effects.CodeInvalid, err.Error())
		}
		n = n.dropped()
	}
	for _, a := range n.Active {
		if a.Stage == StageWaiting {
			effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorConfigure{Config: spec}})
		}
	}
	return n.fill(append(effs, n.announce(what)), c)
}

// clockWasWrong: see [maxClockLead].
func (j Job) clockWasWrong(c Clock) bool { return j.LastDueAt.After(c.Now.Add(maxClockLead)) }

// decidedUntil is the time until which a schedule that begins has no say: now, or, where
// the clock went back, the latest time that has a verdict or is about to have one.
// Runs that wait for their times do not count: their times are ahead.
func (j Job) decidedUntil(c Clock) Time {
	until := c.Now
	if !j.clockWasWrong(c) {
		until = max(until, j.LastVerdictAt)
		for _, a := range j.Active {
			if !a.Manual && a.Stage == StageAsked {
				until = max(until, a.ScheduledAt)
			}
		}
	}
	return until
}

// schedule is the compiled schedule; nil where there is none.
func (j Job) schedule() (*schedule.Schedule, error) {
	if j.compiled != nil {
		return j.compiled, nil
	}
	return j.scheduleFrom(j.CreatedAt)
}

// scheduled computes the next time after those that are decided.
func (j Job) scheduled(decided Time) (Job, error) {
	s, err := j.schedule()
	if err != nil {
		return j, err
	}
	j.compiled, j.NextRunAt = s, 0
	if s == nil || j.Paused {
		return j, nil
	}
	next, ok := s.Next(max(decided, j.LastDueAt))
	if !ok {
		return j, fmt.Errorf("schedule: %q never fires after %s", clip(j.Schedule), decided)
	}
	j.NextRunAt = next
	return j, nil
}

// dropped marks the runs whose times are none of the schedule's.
func (j Job) dropped() Job {
	j.Active = slices.Clone(j.Active)
	for i, a := range j.Active {
		j.Active[i].Dropped = a.Stage == StageWaiting && !a.Manual && !j.isTime(a.ScheduledAt)
	}
	return j
}

// isTime reports whether it is a time of the schedule.
func (j Job) isTime(at Time) bool {
	s, err := j.schedule()
	if err != nil || s == nil {
		return false
	}
	next, ok := s.Next(at - 1)
	return ok && next == at
}

func runRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: KindOrchestrator, ID: id} }

// due makes the run of the next time. Of the times that have passed, the last one
// gets a run where it is not too late; all others are missed.
func (j Job) due(e JobDue, c Clock) (Job, []effects.Effect) {
	at := j.Deadline()
	switch {
	case at.IsZero():
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s waits for no time", clip(j.ID)))
	case at.After(c.Now):
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s is due at %s, after %s", clip(j.ID), at, c.Now))
	}
	s, err := j.schedule()
	if err != nil || s == nil { // stored by a build that took this schedule
		j.Paused, j.NextRunAt, j.UpdatedAt = true, 0, c.Now
		j.PausedReason = firstText(fmt.Sprintf("schedule: %q cannot be read: %v", j.Schedule, err))
		return j, []effects.Effect{j.announce("paused")}
	}
	j.compiled, j.UpdatedAt = s, c.Now
	due, found := j.NextRunAt, true
	var effs []effects.Effect
	if !due.After(c.Now) {
		due, found = lastWithin(s, max(j.NextRunAt, laterMS(c.Now, -j.startDeadline())), c.Now)
		until := c.Now
		if found {
			until = due - 1
		}
		j, effs = j.miss(s, j.NextRunAt, until, fmt.Sprintf("no run was made within the start deadline of %s", lengthText(j.startDeadline())), c)
	}
	if found {
		j, effs = j.occur(due, effs, c)
	}
	if !found {
		due = c.Now
	}
	j.LastDueAt, j.NextRunAt = max(j.LastDueAt, due), 0
	if next, ok := s.Next(max(c.Now, j.LastDueAt)); ok {
		j.NextRunAt = next
	}
	return j, effs
}

// occur makes the run of a time, unless an edit of the schedule has left one.
func (j Job) occur(due Time, effs []effects.Effect, c Clock) (Job, []effects.Effect) {
	switch {
	case j.hasRunAt(due):
		return j, effs
	case len(j.Active) >= MaxActiveRuns:
		return j.verdict(VerdictSkipped, ActiveRun{ScheduledAt: due}, fmt.Sprintf("%d runs have not ended", len(j.Active)), effs, c)
	}
	return j.make(runOf(j.JobSpec, due, false), effs)
}

func (j Job) hasRunAt(at Time) bool {
	return slices.ContainsFunc(j.Active, func(a ActiveRun) bool { return a.ScheduledAt == at })
}

func (j Job) make(run RunSpec, effs []effects.Effect) (Job, []effects.Effect) {
	j.Active = append(slices.Clip(j.Active), ActiveRun{
		Run: run.ID, RunID: run.RunID, ScheduledAt: run.ScheduledAt, Manual: run.Manual, Stage: StageWaiting,
	})
	return j, append(effs, effects.Send{To: runRef(run.ID), Event: OrchestratorCreate{Spec: run, Owner: Owner{Ref: j.Ref()}}})
}

// overdue records the times that have come, and for which no run was made, when
// the job is paused, deleted or gets another schedule: none will be.
func (j Job) overdue(reason string, c Clock) (Job, []effects.Effect) {
	if j.Paused || j.NextRunAt.IsZero() || j.NextRunAt.After(c.Now) {
		return j, nil
	}
	s, err := j.schedule()
	if err != nil || s == nil {
		return j, nil // it has no times
	}
	j, effs := j.miss(s, j.NextRunAt, c.Now, reason, c)
	j.LastDueAt = max(j.LastDueAt, c.Now)
	return j, effs
}

// miss records the times in [from, to] that have no run as one occurrence.
func (j Job) miss(s *schedule.Schedule, from, to Time, reason string, c Clock) (Job, []effects.Effect) {
	n, first, last, capped := uint64(0), Time(0), Time(0), false
	for t, ok := s.Next(from - 1); ok && !t.After(to); t, ok = s.Next(t) {
		if capped = n == MaxMissedCounted; capped {
			last = to // not a time of the schedule, but none after it was missed
			break
		}
		if j.hasRunAt(t) { // which gets a verdict of its own
			continue
		}
		if n == 0 {
			first = t
		}
		n, last = n+1, t
	}
	if n == 0 {
		return j, nil
	}
	return j.record(Occurrence{DueAt: first, LastDueAt: last, Verdict: VerdictMissed, Count: n, CountCapped: capped, Reason: reason}, nil, c)
}

func (j Job) pause(e JobPause, c Clock) (Job, []effects.Effect) {
	if j.Paused {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s is paused already: %s", clip(j.ID), j.PausedReason))
	}
	j, effs := j.overdue("paused before it was dispatched", c)
	j.Paused, j.PausedReason, j.NextRunAt, j.UpdatedAt = true, boundedReason(e.Reason, "paused"), 0, c.Now
	return j, append(effs, j.announce("paused"))
}

func (j Job) resume(e JobResume, c Clock) (Job, []effects.Effect) {
	if !j.Paused {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s is not paused", clip(j.ID)))
	}
	n := j
	n.Paused, n.PausedReason, n.UpdatedAt = false, "", c.Now
	if j.clockWasWrong(c) {
		n.LastDueAt = c.Now
	}
	n, err := n.scheduled(j.decidedUntil(c))
	if err != nil {
		return j, j.refuse(e, effects.CodeConflict, "cannot resume: "+err.Error())
	}
	return n, []effects.Effect{n.announce("resumed")}
}

// remove: the job is gone, and its runs are cancelled. Those that have a place go
// on to clean up without it.
func (j Job) remove(e JobDelete, c Clock) (Job, []effects.Effect) {
	reason := boundedReason(e.Reason, "the job was deleted")
	j, effs := j.overdue("deleted before it was dispatched", c)
	for _, a := range j.Active {
		if a.Stage == StageWaiting || a.Stage == StageAsked {
			j, effs = j.verdict(VerdictSkipped, a, reason, effs, c)
		}
		effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorCancel{Reason: reason}})
	}
	return Job{}, append(effs, j.announce("deleted"))
}

// Ref names the job.
func (j Job) Ref() effects.Ref {
	if j.Key == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindJob, ID: j.Key}
}

// Deadline is when the run of the next time is to be made: CreateAheadMS before
// it, but not before the time before it. Zero where there is none.
func (j Job) Deadline() Time {
	if j.Paused || j.NextRunAt.IsZero() {
		return 0
	}
	return max(laterMS(j.NextRunAt, -j.CreateAheadMS), j.LastDueAt)
}

// Terms lists the job under all, whether it is paused, and its tenant.
func (j Job) Terms() []effects.Term {
	return []effects.Term{
		{Name: TermAll, At: j.CreatedAt, Counted: true},
		{Name: EnabledTerm(!j.Paused), At: j.CreatedAt, Counted: true},
		{Name: ScopeTerm(j.Namespace, j.Tenant), At: j.CreatedAt},
	}
}

// AppendJSON appends the stored form.
func (j Job) AppendJSON(b []byte) []byte { return appendMarshaled(b, j) }

func (j Job) apply(e Event, c Clock) (State, []effects.Effect) {
	return applyOwn[Job, JobEvent](j, "a job", e, c)
}

// announce says something of the job on the bus.
func (j Job) announce(what string) effects.Effect { return j.announceData(what, nil) }

func (j Job) announceData(what string, data json.RawMessage) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "job", Action: what},
		Source: effects.EventSource{Component: "job", ID: j.Key},
		Data:   data,
	}}
}

func (j Job) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindJob, ID: j.Key}, e, code, reason)
}
