package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// Job makes a run at each time of its schedule, and says which of them may go on
// (004 Job and Scheduler, E1).
//
//	apply ──▶ enabled ◀──── resume, apply ───┐
//	           │ ▲ due, trigger, admit,      │
//	           └─┘ run ended                 │
//	           │ pause, no next time         │
//	           ▼                             │
//	          paused ────────────────────────┘
//
// delete leads from both out of existence: its runs are cancelled. A run is made
// some time ahead of its own, and waits in PreRun; trigger makes one at once, in
// both states.
//
// Invariants, held by property tests:
//   - Each time of the schedule is decided once: a run is made, or it counts as
//     missed or skipped.
//   - The runs that have a place are never more than MaxConcurrentRuns.
//   - With overlap forbid or replace at most one run has a place.
//   - Waiting runs get their places in the order in which they asked.
//   - NextRunAt is later than LastDueAt: what was decided never becomes due again.
//   - A paused job has no deadline.
type Job struct {
	JobSpec
	Key          uuid.UUID   `json:"key"` // of the record: derived from tenant and id
	Paused       bool        `json:"paused"`
	PausedReason string      `json:"paused_reason"`
	NextRunAt    Time        `json:"next_run_at"` // zero: none follows
	LastDueAt    Time        `json:"last_due_at"`
	SkipNext     uint32      `json:"skip_next"` // how many of the next times are skipped
	Active       []ActiveRun `json:"active"`    // runs that have not ended, in the order in which they were made
	LastRun      EndedRun    `json:"last_run"`  // the one that ended last
	Counts       JobCounts   `json:"counts"`
	CreatedAt    Time        `json:"created_at"`
	UpdatedAt    Time        `json:"updated_at"`

	compiled *schedule.Schedule // derived, never stored
}

// ActiveRun is a run of a job that has not ended.
type ActiveRun struct {
	Run         uuid.UUID `json:"run"`
	RunID       string    `json:"run_id"`
	ScheduledAt Time      `json:"scheduled_at"`
	Asked       bool      `json:"asked"` // its time has come, and it wants a place
	Place       bool      `json:"place"` // it has one
}

// EndedRun says how the run that ended last went.
type EndedRun struct {
	RunID       string             `json:"run_id"`
	State       OrchestratorStatus `json:"state"`
	ScheduledAt Time               `json:"scheduled_at"`
	EndedAt     Time               `json:"ended_at"`
	ExitCode    *int32             `json:"exit_code"`
	Error       string             `json:"error"`
}

// JobCounts count what was decided about a job's times, and how its runs ended.
type JobCounts struct {
	Made      uint64 `json:"made"` // runs
	Missed    uint64 `json:"missed"`
	Skipped   uint64 `json:"skipped"` // by overlap, or by skipNext
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Cancelled uint64 `json:"cancelled"`
	Orphaned  uint64 `json:"orphaned"`
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
		return j.remove(e)
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

// configure: (absent) → enabled; or a new configuration, scheduled from now (R18),
// which reaches the runs that wait for their time.
func (j Job) configure(e JobApply, c Clock) (Job, []effects.Effect) {
	spec := e.Spec.withDefaults()
	ref := JobRef(spec.Namespace, spec.Tenant, spec.ID)
	if err := spec.validate(); err != nil {
		return j, refused(ref, e, effects.CodeInvalid, err.Error())
	}
	n := j
	what := "updated"
	if j.Key == uuid.Nil {
		n, what = Job{Key: ref.ID, CreatedAt: c.Now}, "created"
	} else if j.Key != ref.ID {
		return j, j.refuse(e, effects.CodeInvalid, fmt.Sprintf("id: %q is another job than %q", clip(spec.ID), clip(j.ID)))
	}
	n.JobSpec, n.UpdatedAt, n.compiled = spec, c.Now, nil
	if j.Key == uuid.Nil || spec.Schedule != j.Schedule || spec.Timezone != j.Timezone {
		n, err := n.scheduled(c)
		if err != nil {
			return j, refused(ref, e, effects.CodeInvalid, err.Error())
		}
		return n, append(n.tellWaiting(), n.announce(what))
	}
	return n, append(n.tellWaiting(), n.announce(what))
}

// scheduled computes the next time from now.
func (j Job) scheduled(c Clock) (Job, error) {
	s, err := j.scheduleFrom(j.CreatedAt)
	if err != nil {
		return j, err
	}
	j.compiled, j.NextRunAt = s, 0
	if s == nil || j.Paused {
		return j, nil
	}
	next, ok := s.Next(max(c.Now, j.LastDueAt))
	if !ok {
		return j, fmt.Errorf("schedule: %q never fires after %s", clip(j.Schedule), c.Now)
	}
	j.NextRunAt = next
	return j, nil
}

// tellWaiting brings the configuration to the runs that have not begun.
func (j Job) tellWaiting() []effects.Effect {
	var effs []effects.Effect
	for _, a := range j.Active {
		if !a.Asked {
			effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorConfigure{Config: j.JobSpec}})
		}
	}
	return effs
}

func runRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: KindOrchestrator, ID: id} }

// due decides about the next time, and about those that passed with it.
func (j Job) due(e JobDue, c Clock) (Job, []effects.Effect) {
	at := j.Deadline()
	if at.IsZero() || at.After(c.Now) {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s is not due before %s", j.ID, at))
	}
	s := j.compiled
	if s == nil {
		var err error
		if s, err = j.scheduleFrom(j.CreatedAt); err != nil || s == nil {
			j.Paused, j.NextRunAt, j.PausedReason = true, 0, firstText(fmt.Sprintf("its schedule %q cannot be read by this build: %v", j.Schedule, err))
			return j, []effects.Effect{j.announce("paused")}
		}
		j.compiled = s
	}
	// Of the times that have passed the latest counts, where it is not too late.
	due := j.NextRunAt
	missed := uint64(0)
	for n := 0; due.Before(c.Now) && n < MaxMissedCounted; n++ {
		next, ok := s.Next(due)
		if !ok || next.After(c.Now) {
			break
		}
		due = next
		missed++
	}
	var effs []effects.Effect
	late := betweenMS(due, c.Now) > j.startDeadline()
	if late {
		missed++
	}
	if missed > 0 {
		j.Counts.Missed = saturatingAdd(j.Counts.Missed, missed)
		effs = append(effs, j.announceData("missed", jsonOf(struct {
			Count uint64 `json:"count"`
			Until Time   `json:"until"`
		}{missed, due})))
	}
	j.LastDueAt, j.UpdatedAt = due, c.Now
	j.NextRunAt = 0
	if next, ok := s.Next(max(due, min(c.Now, maxTime))); ok {
		j.NextRunAt = next
	}
	if late {
		return j, effs
	}
	return j.occur(due, effs, c)
}

// occur makes the run of a time, unless it is skipped.
func (j Job) occur(due Time, effs []effects.Effect, c Clock) (Job, []effects.Effect) {
	switch {
	case j.SkipNext > 0:
		j.SkipNext--
		return j.skip(due, "skipNext", effs)
	case j.Overlap == OverlapForbid && len(j.Active) > 0:
		return j.skip(due, "run "+j.Active[0].RunID+" has not ended, and overlap is forbid", effs)
	case len(j.Active) >= MaxActiveRuns:
		return j.skip(due, fmt.Sprintf("%d runs have not ended", len(j.Active)), effs)
	}
	return j.make(runOf(j.JobSpec, due, false), effs, c)
}

func (j Job) skip(due Time, why string, effs []effects.Effect) (Job, []effects.Effect) {
	j.Counts.Skipped = saturatingAdd(j.Counts.Skipped, 1)
	return j, append(effs, j.announceData("skipped", jsonOf(struct {
		ScheduledAt Time   `json:"scheduled_at"`
		Reason      string `json:"reason"`
	}{due, why})))
}

func (j Job) make(run RunSpec, effs []effects.Effect, c Clock) (Job, []effects.Effect) {
	j.Counts.Made = saturatingAdd(j.Counts.Made, 1)
	j.Active = append(slices.Clip(j.Active), ActiveRun{Run: run.ID, RunID: run.RunID, ScheduledAt: run.ScheduledAt})
	j.UpdatedAt = c.Now
	return j, append(effs, effects.Send{To: runRef(run.ID), Event: OrchestratorCreate{Spec: run, Owner: Owner{Ref: j.Ref()}}})
}

// trigger makes a run now, out of turn.
func (j Job) trigger(e JobTrigger, c Clock) (Job, []effects.Effect) {
	run := runOf(j.JobSpec, c.Now, true)
	if slices.ContainsFunc(j.Active, func(a ActiveRun) bool { return a.Run == run.ID }) {
		return j, j.refuse(e, effects.CodeExists, fmt.Sprintf("run %s exists already: at one instant there is one", run.RunID))
	}
	if len(j.Active) >= MaxActiveRuns {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("%d runs of job %s have not ended: no more are made", len(j.Active), j.ID))
	}
	return j.make(run, []effects.Effect{j.announceData("triggered", jsonOf(struct {
		By    string `json:"by"`
		RunID string `json:"run_id"`
	}{firstText(e.By), run.RunID}))}, c)
}

func (j Job) pause(e JobPause, c Clock) (Job, []effects.Effect) {
	if j.Paused {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s is paused already", j.ID))
	}
	j.Paused, j.PausedReason, j.NextRunAt, j.UpdatedAt = true, boundedReason(e.Reason, "paused"), 0, c.Now
	return j, []effects.Effect{j.announce("paused")}
}

func (j Job) resume(e JobResume, c Clock) (Job, []effects.Effect) {
	if !j.Paused {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s is not paused", j.ID))
	}
	n := j
	n.Paused, n.PausedReason, n.UpdatedAt = false, "", c.Now
	n, err := n.scheduled(c)
	if err != nil {
		return j, j.refuse(e, effects.CodeConflict, "cannot resume: "+err.Error())
	}
	return n, []effects.Effect{n.announce("resumed")}
}

// remove: the job is gone, and its runs are cancelled.
func (j Job) remove(e JobDelete) (Job, []effects.Effect) {
	var effs []effects.Effect
	for _, a := range j.Active {
		effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorCancel{Reason: boundedReason(e.Reason, "the job was deleted")}})
	}
	return Job{}, append(effs, j.announce("deleted"))
}

func (j Job) skipNext(e JobSkipNext, c Clock) (Job, []effects.Effect) {
	j.SkipNext, j.UpdatedAt = min(j.SkipNext, 1<<31)+1, c.Now
	return j, []effects.Effect{j.announceData("skip_next", jsonOf(struct {
		Reason string `json:"reason"`
	}{firstText(e.Reason)}))}
}

// kill cancels the latest other run, or all others.
func (j Job) kill(e JobKill) (Job, []effects.Effect) {
	var effs []effects.Effect
	for _, a := range slices.Backward(j.Active) {
		if a.Run == e.Except {
			continue
		}
		effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorCancel{Reason: boundedReason(e.Reason, "killed")}})
		if !e.All {
			break
		}
	}
	return j, effs
}

// admit: a run's time has come, and it wants a place.
func (j Job) admit(e JobAdmit, c Clock) (Job, []effects.Effect) {
	i := slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == e.Run })
	if i < 0 || j.Active[i].Asked {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("run %q of job %s does not wait for a place", clip(e.RunID), j.ID))
	}
	j.Active = slices.Clone(j.Active)
	j.Active[i].Asked = true
	var effs []effects.Effect
	if j.Overlap == OverlapReplace {
		for k, a := range j.Active {
			if k != i && a.Asked {
				effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorCancel{Reason: "replaced by run " + e.RunID}})
			}
		}
	}
	return j.fill(effs, c)
}

// places is how many runs may have one; 0: any number.
func (j Job) places() int {
	if j.Overlap != OverlapAllow {
		return 1
	}
	return int(j.MaxConcurrentRuns)
}

// fill gives the places that are free.
func (j Job) fill(effs []effects.Effect, c Clock) (Job, []effects.Effect) {
	taken := 0
	for _, a := range j.Active {
		if a.Place {
			taken++
		}
	}
	j.Active, j.UpdatedAt = slices.Clone(j.Active), c.Now
	for i, a := range j.Active {
		if a.Asked && !a.Place && (j.places() == 0 || taken < j.places()) {
			j.Active[i].Place = true
			taken++
			effs = append(effs, effects.Send{To: runRef(a.Run), Event: OrchestratorAdmit{}})
		}
	}
	return j, effs
}

// runEnded frees the place of a run.
func (j Job) runEnded(e JobRunEnded, c Clock) (Job, []effects.Effect) {
	i := slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == e.Run })
	if i < 0 {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("run %q is none of job %s that has not ended", clip(e.RunID), j.ID))
	}
	j.Active = slices.Concat(j.Active[:i], j.Active[i+1:])
	j.LastRun = EndedRun{RunID: e.RunID, State: e.State, ScheduledAt: e.ScheduledAt, EndedAt: c.Now, ExitCode: e.ExitCode, Error: e.Error}
	switch e.State {
	case OrchestratorCompleted:
		j.Counts.Completed = saturatingAdd(j.Counts.Completed, 1)
	case OrchestratorCancelled:
		j.Counts.Cancelled = saturatingAdd(j.Counts.Cancelled, 1)
	case OrchestratorOrphaned:
		j.Counts.Orphaned = saturatingAdd(j.Counts.Orphaned, 1)
	default:
		j.Counts.Failed = saturatingAdd(j.Counts.Failed, 1)
	}
	return j.fill(nil, c)
}

// runRefused: a run could not be made, for instance since there is one of that
// time already.
func (j Job) runRefused(e ChildEnded, c Clock) (Job, []effects.Effect) {
	i := slices.IndexFunc(j.Active, func(a ActiveRun) bool { return a.Run == e.Child.ID })
	if e.Outcome != ChildRefused || i < 0 || j.Active[i].Asked {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("job %s does not wait for %s", j.ID, e.Child))
	}
	due := j.Active[i].ScheduledAt
	j.Active, j.UpdatedAt = slices.Concat(j.Active[:i], j.Active[i+1:]), c.Now
	j.Counts.Made = max(j.Counts.Made, 1) - 1
	return j.skip(due, boundedReason(e.Reason, "it was refused"), nil)
}

// Ref names the job.
func (j Job) Ref() effects.Ref {
	if j.Key == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindJob, ID: j.Key}
}

// Deadline is when the run of the next time is to be made; zero where there is
// none.
func (j Job) Deadline() Time {
	if j.Paused || j.NextRunAt.IsZero() {
		return 0
	}
	return max(laterMS(j.NextRunAt, -j.CreateAheadMS), effects.MinTime)
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
	own, ok := e.(JobEvent)
	if !ok {
		return j, j.refuse(e, effects.CodeInvalid, fmt.Sprintf("a job takes no event %q", e.EventType()))
	}
	return j.Apply(own, c)
}

func (j Job) announce(what string) effects.Effect { return j.announceData(what, nil) }

func (j Job) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindJob, ID: j.Key}, e, code, reason)
}
