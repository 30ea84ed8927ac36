package core

import (
	"encoding/json"
	"errors"
	"slices"

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
// delete leads from both out of existence: its runs are cancelled. A pause may have an
// end, at which the job resumes by itself. A run is made some time ahead of its own, and
// waits in PreRun. Its verdict comes when it asks for admission, and the first of these
// decides: another schedule or a calendar (cancelled, skipped), the pause, by hand
// (skipped), the start deadline or the policy about missed times (missed), the executions
// that are left, overlap (skipped). Else it is dispatched once it has a slot, and waiting
// until then; one that waits is cancelled, if its job is paused, changed or deleted, or a
// later one takes its place, and expired once it has waited for too long. Times that
// passed without a run are decided in the same order. trigger makes a run at once, in both
// states, and a backfill one of a time that has passed.
//
// Invariants, held by property tests:
//   - Each verdict is recorded once as an occurrence, and counted once.
//   - A run that is admitted, and only that, counts as dispatched and gets a slot,
//     and as many count as have a slot or ended with one.
//   - A slot is given only while fewer runs have one than MaxConcurrentRuns, and
//     only while none has one unless overlap is allow. Those of backfills count only for
//     one another.
//   - Runs get their slots in the order in which they asked, those of backfills last.
//   - A run of the schedule is not admitted while the job is paused, but at or after the
//     end of the pause, nor beside another one if overlap is skip.
//   - At most one run of the schedule waits for a slot if overlap is buffer_one,
//     cancel_other or terminate_other, and none that asked while BufferLimit waited if it is
//     buffer_all.
//   - A run that waits for a slot has an entry in the ledger that says so.
//   - NextRunAt is later than LastDueAt, and each due event moves it on.
//   - A paused job has no deadline but the end of its pause.
//   - A paused job makes no run but by hand and by backfills.
//   - A due event leaves a deadline that has come only if it has decided about
//     times that had passed.
//   - A run is made under an id that no run of the job has, and at most
//     MaxActiveRuns have not ended.
//   - A trigger whose dedup key is among the last MaxTriggerKeys makes no run.
//   - Each of Decided stands there once, has no run, and is ahead of the clock or not before
//     NextRunAt or PausedFrom.
type Job struct {
	JobSpec
	Key           uuid.UUID   `json:"key"` // of the record: derived from tenant and id
	Paused        bool        `json:"paused"`
	PausedReason  string      `json:"paused_reason"`
	NextRunAt     Time        `json:"next_run_at"`     // the next time for which no run was made; zero: none follows
	LastDueAt     Time        `json:"last_due_at"`     // the latest time for which one was made, or that passed without one
	LastVerdictAt Time        `json:"last_verdict_at"` // the latest time that has come and has a verdict
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
	// LastSuccessAt is when the last run ended that completed.
	LastSuccessAt Time `json:"last_success_at,omitzero"`
	// Durations are how long the last runs ran that completed, in milliseconds, at most
	// [MaxDurations], the latest last.
	Durations []int64 `json:"durations,omitempty"`
	// Ledger is what the job knows of its entries in the ledger of occurrences.
	Ledger *Ledger `json:"ledger,omitempty"`
	// PausedBy is who has paused the job, and PausedUntil when it resumes by itself; null: it
	// does not.
	PausedBy    string `json:"paused_by,omitempty"`
	PausedUntil Time   `json:"paused_until,omitzero"`
	// PausedFrom is the first time of the schedule that passes, or passed, because of the pause;
	// null: none does.
	PausedFrom Time `json:"paused_from,omitzero"`
	// Decided are times of the schedule that have a verdict and no run any more, and to which the
	// schedule may come yet: they are ahead, or not before NextRunAt or PausedFrom.
	Decided []Time `json:"decided,omitempty"`

	compiled *timetable // without calendars; derived, never stored
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
	// NotBefore is when the run may begin, where that is later than its time.
	NotBefore Time `json:"not_before,omitzero"`
	// Occurrence is its entry in the ledger; zero: it has none yet.
	Occurrence uuid.UUID `json:"occurrence,omitzero"`
	// Owner is the backfill that asked for it; nobody: it is none of a backfill.
	Owner Owner `json:"owner,omitzero"`
	// BeganAt is when its pod began to run, of a job that has alerts; zero: it has not.
	BeganAt Time `json:"began_at,omitzero"`
	// Unheard says that nobody tells when its pod runs: it was made before the job had alerts.
	Unheard bool `json:"unheard,omitempty"`
}

// begins is the instant at which the run asks for a slot.
func (a ActiveRun) begins() Time { return max(a.ScheduledAt, a.NotBefore) }

// scheduled reports whether it is a live run of the schedule.
func (a ActiveRun) scheduled() bool { return !a.Manual && a.Owner.IsZero() }

// RunStage says how far a run is, as its job sees it.
type RunStage string

// Stages of a run.
const (
	StageWaiting  RunStage = "waiting" // for its time
	StageAsked    RunStage = "asked"   // its time has come, and it waits for a slot
	StageAdmitted RunStage = "placed"  // it has a slot
	StageDenied   RunStage = "denied"  // its verdict is another one than dispatched, and it is about to end
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

	// VerdictCancelled and VerdictExpired count the verdicts about times that waited, and
	// Deduplicated the triggers whose dedup key had made a run.
	VerdictCancelled uint64 `json:"verdict_cancelled,omitempty"`
	VerdictExpired   uint64 `json:"verdict_expired,omitempty"`
	Deduplicated     uint64 `json:"deduplicated,omitempty"`
}

// jobTransition is the application of one event to a job.
type jobTransition struct {
	transition
	Job
	calendars Calendars     // those that the job names, before and after; nil: nobody has looked
	known     *Orchestrator // of a BackfillTime: the run of that time, if there is one
	news      AlertNews     // for its alert
}

// Apply carries out one transition of a job that names no calendars, see [Job.ApplyWith].
func (j Job) Apply(e JobEvent, c Clock) (Job, []effects.Effect) { return j.ApplyWith(e, c, nil) }

// ApplyWith carries out one transition, with the calendars that the job names before and after
// it. nil: whatever it names, no calendar leaves anything out.
func (j Job) ApplyWith(e JobEvent, c Clock, calendars Calendars) (Job, []effects.Effect) {
	return j.transition(e, c, calendars, nil)
}

func (j Job) transition(e JobEvent, c Clock, calendars Calendars, known *Orchestrator) (Job, []effects.Effect) {
	t := &jobTransition{transition: transition{clock: c, event: e}, Job: j, calendars: calendars, known: known}
	if _, applies := e.(JobApply); j.Key == uuid.Nil && !applies {
		t.refuse(effects.CodeNotFound, "job not found")
	} else {
		t.apply(e)
	}
	t.forgetDecided()
	t.tellAlert(j)
	return concluded(j, t.Job, t.transition)
}

// before10 reports whether a build decided that had no [Ledger]: it decided otherwise about
// much.
func (t *jobTransition) before10() bool { return t.clock.Rules.before(ledgerRules) }

// applyIn carries out one transition with the calendars that the job names.
func (j Job) applyIn(b *Batch, e Event) (State, []effects.Effect, error) {
	own, ok := e.(JobEvent)
	if !ok {
		next, effs := kinds[KindJob].apply(j, e, b.clock)
		return next, effs, nil
	}
	names, of := j.Calendars, j.scope()
	if applies, ok := own.(JobApply); ok {
		names, of = slices.Concat(names, applies.Spec.Calendars), applies.Spec.scope()
	}
	calendars, err := b.calendars(of, names)
	if err != nil {
		return nil, nil, err
	}
	var known *Orchestrator
	if backfill, ok := own.(BackfillTime); ok {
		s, err := b.State(RunRef(j.Namespace, j.Tenant, RunID(j.ID, backfill.At)))
		if err != nil {
			return nil, nil, err
		}
		if run, ok := s.(Orchestrator); ok {
			known = &run
		}
	}
	next, effs := j.transition(own, b.clock, calendars, known)
	return next, effs, nil
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
	case JobRunBegan:
		t.runBegan(e)
	case BackfillTime:
		t.backfill(e)
	case ChildEnded:
		t.runRefused(e)
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
	if t.calendars != nil && t.invalid(t.calendars.of(spec.Calendars).missing()) {
		return
	}
	before := t.Job
	was, exhausted := t.JobSpec, t.exhausted()
	if spec.MaxExecutions == 0 {
		t.Executions = 0
	}
	if spec.reschedules(was) || !slices.Equal(spec.Calendars, was.Calendars) || spec.exhaustedBy(t.Executions) != exhausted || t.clockWasWrong() {
		t.recordPaused(t.clock.Now)
		t.missOverdue("the schedule was changed before it was dispatched", e.Absences)
		if spec.reschedules(was) {
			t.cancelWaiting("the schedule was changed while it waited")
		}
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
	t.useCalendars(was.Calendars, spec.Calendars)
	t.announce(action, nil)
	t.fillSlots()
	if !t.before10() {
		t.answer(JobApplied{NextTimesBefore: before.NextTimes(t.clock.Now, t.calendars), NextTimes: t.NextTimes(t.clock.Now, t.calendars)})
	}
}

// remove: the job is gone, and its runs are cancelled. Those that have a slot go on to
// clean up without it, or, if they may drain, to their end.
func (t *jobTransition) remove(e JobDelete) {
	reason := boundedReason(e.Reason, "the job was deleted")
	t.recordPaused(t.clock.Now)
	t.missOverdue("deleted before it was dispatched", e.Absences)
	verdict := VerdictCancelled
	if t.before10() {
		verdict = VerdictSkipped
	}
	t.Active = slices.Clone(t.Active)
	for i, a := range t.Active {
		if a.Stage == StageWaiting || a.Stage == StageAsked {
			t.decide(i, verdict, reason)
		}
		told := reason
		if e.Drain && a.Stage == StageAdmitted {
			told += ", so that nobody hears of the end"
		} else {
			t.cancelRun(a, reason)
		}
		t.add(a.Owner.ended(ChildEnded{Child: runRef(a.Run), Outcome: ChildCancelled, Reason: told})...)
	}
	if t.Ledger != nil {
		t.add(t.Ledger.close(t.ledgerOwner(), t.Sequence)...)
	}
	t.useCalendars(t.Calendars, nil)
	t.announce("deleted", nil)
	t.Job = Job{}
}

// skipNext lets the job skip one more of its next times.
func (t *jobTransition) skipNext(e JobSkipNext) {
	if t.Schedule == "" { // else a schedule of next year would begin with it
		t.refuse(effects.CodeConflict, "the job has no schedule: there is no next time to skip")
		return
	}
	if t.SkipNext >= MaxSkipNext && !t.before10() {
		t.conflict("the next %d times are skipped already: pause it instead", t.SkipNext)
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
// no run to make. Of a paused job it is the end of the pause. Zero if no time follows.
func (j Job) Deadline() Time {
	switch {
	case j.Paused && !j.PausedUntil.IsZero():
		return max(j.PausedUntil, effects.MinTime)
	case j.Paused || j.NextRunAt.IsZero():
		return 0
	case j.perhapsNone():
		return j.NextRunAt
	}
	return max(laterMS(j.NextRunAt, -j.CreateAheadMS), j.LastDueAt)
}

// Terms lists the job under all, and within its tenant under whether it is paused, under
// its labels and the calendars that it names.
func (j Job) Terms() []effects.Term {
	terms := withLabels(listed(j.CreatedAt, EnabledTerm(!j.Paused), j.scope()), j.CreatedAt, j.Labels, j.scope())
	return append(terms, calendarTerms(j.Calendars, j.CreatedAt, j.scope())...)
}

// AppendJSON appends the stored form.
func (j Job) AppendJSON(b []byte) []byte { return appendMarshaled(b, j) }
