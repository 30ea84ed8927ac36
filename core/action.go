package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Action is one piece of work that waits for its time, runs, and ends
// (000 Action, A1).
//
//	      create
//	        │
//	        ▼   due, trigger
//	┌──▶ pending ───────────▶ running ──┬─ complete ──▶ completed
//	│       │                   │       ├─ fail, interrupt ─▶ failed
//	│       └── cancel ──┐      │       │
//	│                    ▼      │       │
//	│                cancelled ◀┘ cancel│
//	└───────────────────────────────────┘
//	   complete or fail of a recurring one; hand_back;
//	   fail where on_failure is retry, after a wait;
//	   interrupt where on_interrupt is retry
//
// A running action that is cancelled in the mode [CancelAwait] stays running until its run is
// answered; then it is cancelled, whatever the answer was.
//
// expire leads from completed, failed and cancelled out of existence.
//
// Invariants, held by property tests:
//   - Only a pending action has a deadline, and it is retry_at while it waits for its next
//     attempt, else its trigger's key time.
//   - Run never decreases, and grows by one with each entry into running, which
//     alone emits [effects.RunTool], carrying the new Run.
//   - Attempt is at most Policy.MaxAttempts, and at least 1 while running.
//   - It begins to wait for its next attempt only with a failure that is not permanent, under
//     on_failure retry and with attempts left; no longer than its policy's max_ms.
//   - Attempts are the last ones of the present cycle that did not succeed, in order, at most
//     [MaxAttemptsKept], and none of an action that is never tried again.
//   - An answer (complete, fail, interrupt, hand_back) changes something only
//     while running, and only where it carries the current Run.
//   - Cancelling is set only while running, with one [effects.Stop] of the present run: from then
//     on each answer to that run ends the action as cancelled, for that reason.
//   - A terminal status is never left, but for expire.
//   - The end is told once to the bus, to the occurrence and to the dedup key:
//     with the entry into a terminal status.
//   - Each cycle of a recurring action is recorded with its first run and settled with its end,
//     both once.
//   - Once created, of the spec only the trigger's time changes: with a trigger
//     before it, and with a cycle.
//   - The time that a recurring action stands for, resume_at or else its key
//     time, never goes back, and each cycle that was not triggered moves it on.
type Action struct {
	ActionSpec
	Status    Status `json:"status"`
	CreatedAt Time   `json:"created_at"`
	UpdatedAt Time   `json:"updated_at"`
	// Run counts all runs that were started; it is the number of the effect that
	// carries the present one out.
	Run uint32 `json:"run"`
	// Cycle counts the occurrences of a recurring action, from 1.
	Cycle uint32 `json:"cycle"`
	// Attempt counts the runs of the present cycle, from 1; 0 before the first.
	Attempt    uint32   `json:"attempt"`
	StartedAt  Time     `json:"started_at"`  // of the last run
	FinishedAt Time     `json:"finished_at"` // of the last run
	LastRun    *LastRun `json:"last_run"`    // how the cycle before ended; recurring actions only
	ResumeAt   Time     `json:"resume_at"`   // the time that a trigger by hand put aside; recurring actions only
	// RetryAt is when the next attempt begins after a failure; zero if it does not wait for one.
	// The trigger's time stays: all attempts of a cycle stand for the same time.
	RetryAt Time `json:"retry_at,omitzero"`
	// Attempts are those of the present cycle that did not succeed, the last [MaxAttemptsKept] of
	// them; of an action whose policy lets nothing be tried again there are none.
	Attempts []Attempt `json:"attempts,omitempty"`
	// Cancelling is the reason for which a running action was asked to stop ([CancelAwait]): it is
	// cancelled for that reason once its run has ended. Empty: it was not.
	Cancelling string `json:"cancelling,omitempty"`
	// Ledger is what a recurring action knows of its entries in the ledger of occurrences; nil: it
	// has none.
	Ledger *ActionLedger `json:"ledger,omitempty"`
}

// StatusType tells the statuses apart.
type StatusType string

// Status types (A3).
const (
	StatusPending   StatusType = "pending"
	StatusRunning   StatusType = "running"
	StatusCompleted StatusType = "completed"
	StatusFailed    StatusType = "failed"
	StatusCancelled StatusType = "cancelled"
)

// Terminal reports whether nothing but expiry follows.
func (t StatusType) Terminal() bool {
	return t == StatusCompleted || t == StatusFailed || t == StatusCancelled
}

// Status says how far an action is (000 ActionStatus, A3): a tagged union of
// pending, running, completed{result}, failed{reason} and cancelled{reason}.
type Status struct {
	Type StatusType `json:"type"`
	// Result is what the tool gave: of a completed action null where it gave
	// nothing, of a failed one empty.
	Result json.RawMessage `json:"result,omitempty"`
	Reason string          `json:"reason,omitempty"` // failed, cancelled
}

// LastRun says how a cycle of a recurring action ended.
type LastRun struct {
	Cycle      uint32 `json:"cycle"`
	Status     Status `json:"status"`
	DueAt      Time   `json:"due_at"`
	StartedAt  Time   `json:"started_at"`
	FinishedAt Time   `json:"finished_at"`
	// Attempts are those of the cycle that did not succeed, as in [Action].
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Apply carries out one transition.
func (a Action) Apply(e ActionEvent, c Clock) (Action, []effects.Effect) {
	effs := a.apply(e, c)
	return a, effs
}

// apply changes the action. Where it refuses, it has changed nothing.
func (a *Action) apply(e ActionEvent, c Clock) []effects.Effect {
	if create, ok := e.(ActionCreate); ok {
		return a.create(&create, c)
	}
	if a.ID == uuid.Nil {
		return refused(a.Ref(), e, effects.CodeNotFound, "action not found")
	}
	if run, ok := answeredRun(e); ok {
		if !a.answers(run) {
			return a.refuseStale(e, run)
		}
		return a.answer(e, c)
	}
	switch e := e.(type) {
	case ActionDue:
		return a.due(e, c)
	case ActionTrigger:
		if a.Status.Type == StatusPending {
			return a.trigger(c)
		}
		return refused(a.Ref(), e, effects.CodeConflict, "action %s is %s: only a pending action can be triggered", a.ID, a.Status.Type)
	case ActionCancel:
		return a.cancel(e, c)
	case ActionExpire:
		if a.Status.Type.Terminal() {
			*a = Action{}
			return nil
		}
	case ActionCreate, ActionComplete, ActionFail, ActionInterrupt, ActionHandBack: // above
	}
	return refused(a.Ref(), e, effects.CodeConflict, "action %s is %s: it cannot take %q", a.ID, a.Status.Type, e.EventType())
}

// create: (absent) → pending.
func (a *Action) create(e *ActionCreate, c Clock) []effects.Effect {
	if a.ID != uuid.Nil {
		return refused(a.Ref(), *e, effects.CodeExists, "id: action %s exists already", a.ID)
	}
	spec := &e.Spec
	spec.setDefaults()
	if err := spec.validate(); err != nil {
		return refused(a.Ref(), *e, effects.CodeInvalid, "%s", err)
	}
	*a = Action{ActionSpec: *spec, Status: Status{Type: StatusPending}, CreatedAt: c.Now, UpdatedAt: c.Now, Cycle: 1}
	return spec.dispatched()
}

// dispatched announces an action that a recurring action has made: only now it
// is certain that no other one holds its dedup key.
func (s *ActionSpec) dispatched() []effects.Effect {
	if s.Occurrence == uuid.Nil {
		return nil
	}
	id, err := uuid.Parse(s.Metadata[MetaRecurringID])
	if err != nil {
		return nil
	}
	return []effects.Effect{announcement("recurring", "recurring", "dispatched", id, nil)}
}

// due: pending → running, once its time has come.
func (a *Action) due(e ActionDue, c Clock) []effects.Effect {
	if a.Status.Type != StatusPending {
		return refused(a.Ref(), e, effects.CodeConflict, "action %s is %s, not pending", a.ID, a.Status.Type)
	}
	if at := a.Deadline(); at.After(c.Now) {
		return refused(a.Ref(), e, effects.CodeConflict, "action %s is due at %s, after %s", a.ID, at, c.Now)
	}
	return a.startDue(e, c)
}

// trigger: pending → running before its time, which is now from here on, so that
// a run that is given back is not put off. What recurs keeps its schedule.
func (a *Action) trigger(c Clock) []effects.Effect {
	if at := a.Trigger.NextTickAt; at.After(c.Now) && a.RetryAt.IsZero() { // the time of a cycle that has begun stays
		if !a.Recurrence.IsZero() && a.ResumeAt.IsZero() {
			a.ResumeAt = at
		}
		a.Trigger.NextTickAt = c.Now
	}
	return a.startByHand(c)
}

// start: pending → running. The shell makes this durable before it calls the
// tool (A8).
func (a *Action) start(c Clock) []effects.Effect {
	a.Run++
	a.Attempt++
	a.Status = Status{Type: StatusRunning}
	a.StartedAt, a.FinishedAt, a.UpdatedAt = c.Now, 0, c.Now
	a.RetryAt = 0
	return []effects.Effect{a.runTool()}
}

// answers reports whether an answer with that run belongs to what runs now.
func (a *Action) answers(run uint32) bool {
	return a.Status.Type == StatusRunning && run == a.Run
}

// answeredRun gives the run that an event answers, if it is an answer.
func answeredRun(e ActionEvent) (run uint32, ok bool) {
	switch e := e.(type) {
	case ActionComplete:
		return e.Run, true
	case ActionFail:
		return e.Run, true
	case ActionInterrupt:
		return e.Run, true
	case ActionHandBack:
		return e.Run, true
	case ActionCreate, ActionDue, ActionTrigger, ActionCancel, ActionExpire:
	}
	return 0, false
}

// answer takes the answer to the present run.
func (a *Action) answer(e ActionEvent, c Clock) []effects.Effect {
	if a.Cancelling != "" {
		return a.endCancelled(a.Cancelling, c)
	}
	switch e := e.(type) {
	case ActionComplete:
		return a.complete(e, c)
	case ActionFail:
		return a.fail(&e, c)
	case ActionInterrupt:
		return a.interrupt(e, c)
	case ActionHandBack, ActionCreate, ActionDue, ActionTrigger, ActionCancel, ActionExpire: // of these only the first answers
	}
	return a.handBack(c)
}

// complete: running → completed, or pending again where the action recurs (A4).
func (a *Action) complete(e ActionComplete, c Clock) []effects.Effect {
	result := trimJSON(e.Result)
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	if !storable(result) {
		return a.finish(Status{Type: StatusFailed, Reason: fmt.Sprintf("the tool's result is not valid JSON of at most %d levels", MaxJSONDepth)}, c)
	}
	return a.finish(Status{Type: StatusCompleted, Result: result}, c)
}

// interrupt: running → pending again where the policy says retry and attempts
// remain, otherwise → failed (A9, R3).
func (a *Action) interrupt(e ActionInterrupt, c Clock) []effects.Effect {
	reason := reasonOr(e.Reason, ReasonRecovered)
	a.keepAttempt(CauseInterrupted, reason, nil, c)
	if a.Policy.OnInterrupt != InterruptRetry || a.Attempt >= a.Policy.MaxAttempts {
		effs := a.finish(Status{Type: StatusFailed, Reason: reason}, c)
		if a.Policy.OnInterrupt != InterruptRetry {
			interrupted(effs)
		}
		return effs
	}
	a.Status = Status{Type: StatusPending}
	a.UpdatedAt = c.Now
	return nil
}

// interrupted marks what is told to an owner, if there is one.
func interrupted(effs []effects.Effect) {
	for i, e := range effs {
		if send, ok := e.(effects.Send); ok {
			if ended, ok := send.Event.(ChildEnded); ok {
				ended.Interrupted = true
				send.Event = ended
				effs[i] = send
			}
		}
	}
}

// ReasonRecovered is the reason of a run whose holder is gone (A9).
const ReasonRecovered = "recovered from restart"

// handBack: running → pending, as if it had not been started.
func (a *Action) handBack(c Clock) []effects.Effect {
	a.Status = Status{Type: StatusPending}
	a.Attempt--
	a.UpdatedAt = c.Now
	return nil
}

// finish ends a run: → completed or failed, or pending at the next time of
// a recurring action. A failure does not end a recurrence.
func (a *Action) finish(status Status, c Clock) []effects.Effect {
	a.FinishedAt, a.UpdatedAt = c.Now, c.Now
	ledger := a.endCycle(status, c.Now, c)
	if next, ok := a.nextCycle(c); ok {
		a.LastRun = &LastRun{Cycle: a.Cycle, Status: status, DueAt: a.Trigger.KeyTime(), StartedAt: a.StartedAt, FinishedAt: a.FinishedAt, Attempts: a.Attempts}
		a.Trigger, a.ResumeAt = Scheduled(next), 0
		a.Status = Status{Type: StatusPending}
		a.Cycle++
		a.Attempt, a.Attempts = 0, nil
		return append([]effects.Effect{a.announce(status)}, ledger...)
	}
	ledger = append(ledger, a.closeLedger(false, status, c)...)
	a.Status = status
	return append(a.tellEnd(status), ledger...)
}

// nextCycle gives the first time of the recurrence after now, and after the
// time of the present cycle, so that a clock that jumps back cannot fire the
// same occurrence twice.
func (a *Action) nextCycle(c Clock) (Time, bool) {
	if a.Recurrence.IsZero() {
		return 0, false
	}
	last := a.Trigger.KeyTime()
	if !a.ResumeAt.IsZero() {
		if a.ResumeAt.After(c.Now) {
			return a.ResumeAt, true
		}
		last = a.ResumeAt
	}
	return a.Recurrence.next(last, max(c.Now, last))
}

// tellEnd tells the bus, and whoever waits for this action, that it has ended.
func (a *Action) tellEnd(status Status) []effects.Effect {
	effs := make([]effects.Effect, 1, 2) // with room for the withdrawal of a cancelled run
	effs[0] = a.announce(status)
	if a.Occurrence != uuid.Nil {
		effs = append(effs, effects.Send{
			To: effects.Ref{Kind: KindOccurrence, ID: a.Occurrence},
			Event: OccurrenceSettle{
				Outcome: status.Type, Reason: status.Reason, StartedAt: a.StartedAt, FinishedAt: a.UpdatedAt,
			},
		})
	}
	if a.DedupKey != "" {
		effs = append(effs, effects.Send{To: DedupRef(a.Namespace, a.Tenant, a.DedupKey), Event: DedupRelease{Holder: a.ID}})
	}
	if !a.Owner.IsZero() {
		outcome := ChildSucceeded
		switch status.Type {
		case StatusFailed:
			outcome = ChildFailed
		case StatusCancelled:
			outcome = ChildCancelled
		case StatusPending, StatusRunning, StatusCompleted:
		}
		effs = append(effs, a.Owner.ended(ChildEnded{Child: a.Ref(), Outcome: outcome, Result: status.Result, Reason: status.Reason})...)
	}
	return effs
}

func (a *Action) announce(status Status) effects.Effect {
	return announcement("action", "action", string(status.Type), a.ID, nil)
}

// Ref names the action.
func (a Action) Ref() effects.Ref { return refOf(KindAction, a.ID) }

// endedAt: see [EndedAt].
func (a Action) endedAt() (Time, bool) { return a.UpdatedAt, a.Status.Type.Terminal() }

// outstanding: see [Outstanding].
func (a Action) outstanding() []effects.Outer {
	if a.Status.Type != StatusRunning {
		return nil
	}
	return []effects.Outer{a.runTool()}
}

// outstandingEffect: see [OutstandingEffect].
func (a Action) outstandingEffect(n uint32) effects.Outer {
	if !a.answers(n) {
		return nil
	}
	return a.runTool()
}

// awaits: see [Awaits].
func (a Action) awaits(n uint32) bool { return a.answers(n) }

// runTool is the effect that carries out the present run.
func (a *Action) runTool() effects.Outer { return effects.RunTool{Run: a.Run, Tool: a.ToolName} }

// pacedWith: see [PacedWith].
func (a Action) pacedWith() bool { return a.Occurrence != uuid.Nil }

// Deadline is when a pending action is due: the time of its next attempt, or else its
// trigger's key time.
func (a Action) Deadline() Time {
	if a.Status.Type != StatusPending {
		return 0
	}
	if !a.RetryAt.IsZero() {
		return a.RetryAt
	}
	return max(a.Trigger.KeyTime(), effects.MinTime)
}

// Terms lists the action under all, under its status, its tool, its webhook route and its labels within its
// tenant, there also under what recurs, and under what may be forgotten.
func (a Action) Terms() []effects.Term {
	of := a.scope()
	status, tool := twoWithin(StatusTerm(a.Status.Type), ToolTerm(a.ToolName), of)
	terms := append(make([]effects.Term, 0, 4+min(len(a.Labels), MaxListedLabels+1)),
		effects.Term{Name: TermAll, At: a.CreatedAt, Counted: true},
		effects.Term{Name: status, At: a.CreatedAt, Counted: true},
		effects.Term{Name: tool, At: a.CreatedAt},
	)
	if a.Trigger.Route != "" {
		terms = append(terms, effects.Term{Name: TermWithin(RouteTerm(a.Trigger.Route), of), At: a.CreatedAt})
	}
	at, ended := a.endedAt()
	if a.Ledger != nil && !ended { // no state of a build before core.Version 10 has one: its lists need not be built anew
		terms = append(terms, effects.Term{Name: TermWithin(TermRecurs, of), At: a.CreatedAt, Counted: true})
	}
	terms = withLabels(terms, a.CreatedAt, a.Labels, of)
	failed, has := a.failedAt()
	return withEnd(withFailure(terms, failed, has, of), at, ended)
}

func (a *Action) refuseStale(e Event, run uint32) []effects.Effect {
	return refused(a.Ref(), e, effects.CodeConflict, "action %s is %s in run %d: %q answers run %d", a.ID, a.Status.Type, a.Run, e.EventType(), run)
}
