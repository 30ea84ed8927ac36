package core

import (
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Strategy tries approaches in order until one succeeds (003 Strategy, D6).
//
//	create
//	  │       ┌────┐ evaluate: failed, falls back: the next approach
//	  ▼       ▼    │
//	running ───────┴─┬─ evaluate: success ─▶ succeeded
//	                 ├─ evaluate: failed ──▶ exhausted
//	                 └─ cancel ────────────▶ cancelled
//
// expire leads from the last three out of existence. The first approach is due
// at once. An approach is evaluated when its child ends, its merge is answered,
// its time is up, or by hand. A merge by an agent is a task that resolves the
// conflicts, and then a rebase, which shows whether it has.
//
// Invariants, held by property tests:
//   - A strategy that has ended stays so, but for expire.
//   - The end is told once to the bus and to the owner: with the entry into an end.
//   - Current never decreases, grows by at most one with an event, names an
//     approach, and grows exactly with strategy:fallback.
//   - A fallback follows only on a failure that matches a condition of its
//     approach.
//   - Each approach that was begun has one outcome, in order, but for the present
//     one.
//   - At most one child or merge is waited for, none after the end, and what is
//     given up is cancelled or withdrawn.
//   - A due event leaves no deadline that has come.
//   - Once created, the spec never changes.
type Strategy struct {
	StrategySpec
	Status    StrategyStatus    `json:"status"`
	Current   uint32            `json:"current"`    // the present approach's index, from 0 (003)
	N         uint32            `json:"n"`          // counts the approaches that were begun
	StartedAt Time              `json:"started_at"` // of the present approach; zero: none was begun
	Child     effects.Ref       `json:"child"`      // the machine that does it; zero: none
	Outcomes  []ApproachOutcome `json:"outcomes"`   // of the approaches before, and of the last one
	Output    json.RawMessage   `json:"output,omitempty"`
	Error     string            `json:"error"` // why it is exhausted or cancelled
	Pending   PendingEffects    `json:"asked"`
	Repeats   uint32            `json:"repeats"` // of an interrupted merge
	CreatedAt Time              `json:"created_at"`
	UpdatedAt Time              `json:"updated_at"`
	// FinishedAt is when it ended; zero: it has not.
	FinishedAt Time `json:"finished_at"`
}

// StrategyStatus says how far a strategy is.
type StrategyStatus string

// Statuses of a strategy.
const (
	StrategyRunning   StrategyStatus = "running"
	StrategySucceeded StrategyStatus = "succeeded"
	StrategyExhausted StrategyStatus = "exhausted"
	StrategyCancelled StrategyStatus = "cancelled"
)

// Ended reports whether nothing but expiry follows.
func (s StrategyStatus) Ended() bool {
	return s == StrategySucceeded || s == StrategyExhausted || s == StrategyCancelled
}

// Outcome is what an evaluation comes to (003 Outcome).
type Outcome string

// Outcomes of an evaluation.
const (
	OutcomeSuccess   Outcome = "success"
	OutcomeTryNext   Outcome = "try_next"
	OutcomeExhausted Outcome = "exhausted"
	OutcomeCancelled Outcome = "cancelled" // it was not evaluated
)

// ApproachOutcome says how one approach came out.
type ApproachOutcome struct {
	Name     string  `json:"name"`
	Outcome  Outcome `json:"outcome"`
	Error    string  `json:"error,omitempty"`
	TimedOut bool    `json:"timed_out,omitempty"`
	// Interrupted: nobody knows how far it came, see [ChildEnded].
	Interrupted bool `json:"interrupted,omitempty"`
	StartedAt   Time `json:"started_at"`
	FinishedAt  Time `json:"finished_at"`
}

// strategyTransition is the application of one event to a strategy under way.
type strategyTransition struct {
	transition
	Strategy
}

// Apply carries out one transition.
func (s Strategy) Apply(e StrategyEvent, c Clock) (Strategy, []effects.Effect) {
	t := &strategyTransition{transition: transition{clock: c, event: e}, Strategy: s}
	t.UpdatedAt = c.Now
	switch create, ok := e.(StrategyCreate); {
	case ok:
		t.create(create)
	case s.ID == uuid.Nil:
		t.refuse(effects.CodeNotFound, "strategy not found")
	case s.runs():
		t.applyRunning(e)
	default:
		t.applyEnded(e)
	}
	return concluded(s, t.Strategy, t.transition)
}

// applyRunning: the events of a strategy that runs, and their functions.
func (t *strategyTransition) applyRunning(e StrategyEvent) {
	switch e := e.(type) {
	case StrategyDue:
		t.applyDeadline()
	case StrategyEvaluate:
		t.evaluateByHand(e)
	case StrategyCancel:
		t.cancel(e)
	case ChildEnded:
		t.applyChildEnd(e)
	case EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack:
		t.takePending(t, &t.Pending, e, "strategy "+t.ID.String())
	case StrategyExpire:
		t.noChange()
	case StrategyCreate: // see Apply
	}
}

// applyEnded: a strategy that has ended only expires.
func (t *strategyTransition) applyEnded(e StrategyEvent) {
	if _, ok := e.(StrategyExpire); !ok || !t.Status.Ended() {
		t.noChange()
		return
	}
	t.Strategy = Strategy{}
}

// create: (absent) → running, due at once.
func (t *strategyTransition) create(e StrategyCreate) {
	if t.ID != uuid.Nil {
		t.refuse(effects.CodeExists, "id: strategy %s exists already", t.ID)
		return
	}
	spec := e.Spec.withDefaults()
	if t.invalid(spec.Validate()) {
		return
	}
	t.Strategy = Strategy{StrategySpec: spec, Status: StrategyRunning, CreatedAt: t.clock.Now, UpdatedAt: t.clock.Now}
}

// applyDeadline begins the first approach, or ends the present one, whose time is up.
func (t *strategyTransition) applyDeadline() {
	switch {
	case !t.isDue("strategy "+t.ID.String(), t.Deadline()):
	case t.StartedAt.IsZero():
		t.announce("started", nil)
		t.beginApproach()
	default:
		t.evaluate(evaluation{err: "timed out after " + lengthText(t.approach().limit()), timedOut: true})
	}
}

// evaluation is the result of an approach: an error, or else an output.
type evaluation struct {
	output   json.RawMessage
	err      string
	timedOut bool
	// interrupted: nobody knows how far the approach came, see [ChildEnded].
	interrupted bool
}

// evaluate is 003's evaluate(result), with a function for each of its rows.
func (t *strategyTransition) evaluate(r evaluation) {
	a, took := t.approach(), betweenMS(t.StartedAt, t.clock.Now)
	t.abandonApproach("the strategy has given this approach up")
	switch {
	case r.err == "":
		t.succeed(r)
	case t.hasNextApproach() && a.fallsBack(r.err, r.timedOut, took):
		t.tryNext(r)
	default:
		t.exhaust(r)
	}
}

// succeed: 003 Success(output): → succeeded, Outcome::Success.
func (t *strategyTransition) succeed(r evaluation) {
	t.recordOutcome(OutcomeSuccess, r)
	t.Output = r.output
	result := announcementData(struct {
		Approach string          `json:"approach"`
		Output   json.RawMessage `json:"output,omitempty"`
	}{t.approach().Name, t.Output})
	t.end(StrategySucceeded, "success", ChildEnded{Outcome: ChildSucceeded, Result: result})
}

// tryNext: 003 Failed(error) that matches fallback_on, with an approach left: →
// the next approach, Outcome::TryNext.
func (t *strategyTransition) tryNext(r evaluation) {
	from := t.approach().Name
	t.recordOutcome(OutcomeTryNext, r)
	t.Current++
	t.announce("fallback", announcementTexts("from", from, "to", t.approach().Name, "error", r.err))
	t.beginApproach()
}

// exhaust: 003 Failed(error) after which no approach is tried: → exhausted,
// Outcome::Exhausted.
func (t *strategyTransition) exhaust(r evaluation) {
	t.recordOutcome(OutcomeExhausted, r)
	t.Error = r.err
	// An approach that was interrupted may have done what must not be repeated, also
	// where another one was tried after it.
	interrupted := slices.ContainsFunc(t.Outcomes, func(o ApproachOutcome) bool { return o.Interrupted })
	t.end(StrategyExhausted, "exhausted", ChildEnded{Outcome: ChildFailed, Reason: t.Error, Interrupted: interrupted})
}

// cancel: running → cancelled.
func (t *strategyTransition) cancel(e StrategyCancel) {
	reason := boundedReason(e.Reason, "cancelled")
	t.abandonApproach(reason)
	if !t.StartedAt.IsZero() {
		t.recordOutcome(OutcomeCancelled, evaluation{err: reason})
	}
	t.Error = reason
	t.end(StrategyCancelled, "cancelled", ChildEnded{Outcome: ChildCancelled, Reason: reason})
}

// recordOutcome notes how the present approach came out.
func (t *strategyTransition) recordOutcome(outcome Outcome, r evaluation) {
	t.Outcomes = slices.Concat(t.Outcomes, []ApproachOutcome{{
		Name: t.approach().Name, Outcome: outcome, Error: r.err, TimedOut: r.timedOut, Interrupted: r.interrupted, StartedAt: t.StartedAt, FinishedAt: t.clock.Now,
	}})
}

// end: running → succeeded, exhausted or cancelled. Bus and owner are told.
func (t *strategyTransition) end(status StrategyStatus, action string, e ChildEnded) {
	t.Status, t.FinishedAt = status, t.clock.Now
	t.announce(action, announcementData(struct {
		Approach string `json:"approach"`
		Error    string `json:"error,omitempty"`
	}{t.approach().Name, t.Error}))
	e.Child = t.Ref()
	t.add(t.Owner.ended(e)...)
}

// evaluateByHand takes an evaluation from outside.
func (t *strategyTransition) evaluateByHand(e StrategyEvaluate) {
	if t.StartedAt.IsZero() || e.N != t.N {
		t.conflict("n: %d is not the number of the present approach of strategy %s, %d", e.N, t.ID, t.N)
		return
	}
	if !e.Success {
		t.evaluate(evaluation{err: boundedReason(e.Error, "failed without a reason")})
		return
	}
	output, err := boundedJSON("output", e.Output)
	if !t.invalid(err) {
		t.evaluate(evaluation{output: output})
	}
}

// noChange refuses an event that the strategy cannot take in its state.
func (t *strategyTransition) noChange() {
	t.conflict("strategy %s is %s: it cannot take %q", t.ID, t.Status, t.event.EventType())
}

// announce adds an event of the bus (003 Event).
func (t *strategyTransition) announce(action string, data json.RawMessage) {
	t.transition.announce("strategy", "strategy", action, t.ID, data)
}

// approach is the present one.
func (s Strategy) approach() Approach { return s.Approaches[s.Current] }

// runs reports whether the strategy has not ended, and its present approach exists.
func (s Strategy) runs() bool {
	return s.Status == StrategyRunning && s.Current < uint32(min(len(s.Approaches), MaxApproaches))
}

// hasNextApproach reports whether an approach follows the present one.
func (s Strategy) hasNextApproach() bool {
	return s.Current+1 < uint32(min(len(s.Approaches), MaxApproaches))
}

// Ref names the strategy.
func (s Strategy) Ref() effects.Ref { return refOf(KindStrategy, s.ID) }

// Deadline is when the first approach is to begin, or the time of the present
// one is up; zero where that has no limit, and after the end.
func (s Strategy) Deadline() Time {
	switch {
	case !s.runs():
		return 0
	case s.StartedAt.IsZero():
		return max(s.CreatedAt, effects.MinTime)
	}
	return limitAt(s.StartedAt, s.approach().limit())
}

// endedAt: see [EndedAt].
func (s Strategy) endedAt() (Time, bool) { return s.FinishedAt, s.Status.Ended() }

// Terms lists the strategy under all, under its status within its tenant, and under what
// may be forgotten.
func (s Strategy) Terms() []effects.Term {
	at, ended := s.endedAt()
	failed, has := s.failedAt()
	return withEnd(withFailure(listed(s.CreatedAt, StatusTerm(s.Status), s.scope()), failed, has, s.scope()), at, ended)
}

// AppendJSON appends the stored form.
func (s Strategy) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

func (s Strategy) outstanding() []effects.Outer { return s.Pending.outstanding() }
