package core

import (
	"encoding/json"
	"fmt"
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
	Current   uint32            `json:"current"`    // the present approach's place, from 0 (003)
	N         uint32            `json:"n"`          // counts the approaches that were begun
	StartedAt Time              `json:"started_at"` // of the present approach; zero: none was begun
	Child     effects.Ref       `json:"child"`      // the machine that does it; zero: none
	Outcomes  []ApproachOutcome `json:"outcomes"`   // of the approaches before, and of the last one
	Output    json.RawMessage   `json:"output,omitempty"`
	Error     string            `json:"error"` // why it is exhausted or cancelled
	Asked     PendingEffects    `json:"asked"`
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

// Apply carries out one transition.
func (s Strategy) Apply(e StrategyEvent, c Clock) (Strategy, []effects.Effect) {
	if create, ok := e.(StrategyCreate); ok {
		return s.create(create, c)
	}
	if s.ID == uuid.Nil {
		return s, s.refuse(e, effects.CodeNotFound, "strategy not found")
	}
	if s.Status != StrategyRunning || s.Current >= uint32(min(len(s.Approaches), MaxApproaches)) {
		if _, ok := e.(StrategyExpire); ok && s.Status.Ended() {
			return Strategy{}, nil
		}
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("strategy %s is %s: it cannot take %q", s.ID, s.Status, e.EventType()))
	}
	switch e := e.(type) {
	case StrategyDue:
		return s.due(e, c)
	case StrategyEvaluate:
		return s.evaluateByHand(e, c)
	case StrategyCancel:
		return s.cancel(boundedReason(e.Reason, "cancelled"), c)
	case ChildEnded:
		return s.childEnded(e, c)
	case EffectDone:
		return s.effectDone(e, c)
	case EffectFailed:
		return s.effectFailed(e, c)
	case EffectInterrupted:
		return s.effectInterrupted(e, c)
	case EffectHandedBack:
		return s.effectHandedBack(e, c)
	case StrategyCreate, StrategyExpire:
	}
	return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("strategy %s is %s: it cannot take %q", s.ID, s.Status, e.EventType()))
}

// create: (absent) → running, due at once.
func (s Strategy) create(e StrategyCreate, c Clock) (Strategy, []effects.Effect) {
	if s.ID != uuid.Nil {
		return s, s.refuse(e, effects.CodeExists, fmt.Sprintf("id: strategy %s exists already", s.ID))
	}
	spec := e.Spec.withDefaults()
	if err := spec.Validate(); err != nil {
		return s, refused(effects.Ref{Kind: KindStrategy, ID: spec.ID}, e, effects.CodeInvalid, err.Error())
	}
	return Strategy{StrategySpec: spec, Status: StrategyRunning, CreatedAt: c.Now, UpdatedAt: c.Now}, nil
}

// due begins the first approach, or ends the present one, whose time is up.
func (s Strategy) due(e StrategyDue, c Clock) (Strategy, []effects.Effect) {
	at := s.Deadline()
	switch {
	case at.IsZero():
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("strategy %s waits for no time", s.ID))
	case at.After(c.Now):
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("strategy %s is due at %s, after %s", s.ID, at, c.Now))
	case s.StartedAt.IsZero():
		return s.begin([]effects.Effect{s.announce("started", nil)}, c)
	}
	return s.evaluate(evaluation{err: "timed out after " + lengthText(s.approach().limit()), timedOut: true}, c)
}

// approach is the present one.
func (s Strategy) approach() Approach { return s.Approaches[s.Current] }

// begin begins the present approach.
func (s Strategy) begin(effs []effects.Effect, c Clock) (Strategy, []effects.Effect) {
	s.N++
	s.StartedAt, s.UpdatedAt, s.Repeats = c.Now, c.Now, 0
	a := s.approach()
	switch act := a.Action; {
	case act.Command != nil:
		spec := s.child(a, ChildID(s.ID, "action", c.Step, uint64(s.N)), s.N, c.Now)
		s.Child = effects.Ref{Kind: KindAction, ID: spec.ID}
		return s, append(effs, effects.Send{To: s.Child, Event: ActionCreate{Spec: spec}})
	case act.AgentPrompt != nil:
		return s.beginTask(*act.AgentPrompt, effs, c)
	case act.byAgent():
		return s.beginTask(act.Merge.prompt(), effs, c)
	case act.Merge != nil:
		return s.merge(act.Merge.Strategy, effs)
	}
	return s, effs
}

func (s Strategy) beginTask(p AgentPrompt, effs []effects.Effect, c Clock) (Strategy, []effects.Effect) {
	spec := s.agent(p, s.approach(), ChildID(s.ID, "task", c.Step, uint64(s.N)), s.N)
	s.Child = effects.Ref{Kind: KindTask, ID: spec.ID}
	return s, append(effs, effects.Send{To: s.Child, Event: TaskCreate{Spec: spec}})
}

// byAgent reports whether a task comes before the merge.
func (a ApproachAction) byAgent() bool {
	return a.Merge != nil && a.Merge.Strategy == effects.MergeAgent && a.Merge.Agent != nil
}

// merge asks for the merge of the present approach.
func (s Strategy) merge(strategy effects.MergeStrategy, effs []effects.Effect) (Strategy, []effects.Effect) {
	m := s.approach().Action.Merge
	e := effects.Merge{N: s.Asked.next(), Repo: m.Repo, Branch: m.Branch, Into: m.Into, Strategy: strategy}
	s.Asked = s.Asked.ask(e)
	return s, append(effs, e)
}

// evaluation is the result of an approach: an error, or else an output.
type evaluation struct {
	output   json.RawMessage
	err      string
	timedOut bool
	// interrupted: nobody knows how far the approach came, see [ChildEnded].
	interrupted bool
}

// evaluate is 003's: success ends the strategy; after a failure that matches a
// condition of its approach the next one is tried, if there is one.
func (s Strategy) evaluate(r evaluation, c Clock) (Strategy, []effects.Effect) {
	a := s.approach()
	took := betweenMS(s.StartedAt, c.Now)
	s, effs := s.giveUp("the strategy has given this approach up")
	switch {
	case r.err == "":
		s = s.settle(OutcomeSuccess, r, c)
		s.Output = r.output
		return s.end(StrategySucceeded, effs, c)
	case s.Current+1 < uint32(min(len(s.Approaches), MaxApproaches)) && a.fallsBack(r.err, r.timedOut, took):
		s = s.settle(OutcomeTryNext, r, c)
		s.Current++
		data, _ := json.Marshal(struct { // strings always encode
			From  string `json:"from"`
			To    string `json:"to"`
			Error string `json:"error"`
		}{a.Name, s.approach().Name, r.err})
		return s.begin(append(effs, s.announce("fallback", data)), c)
	}
	s = s.settle(OutcomeExhausted, r, c)
	s.Error = r.err
	return s.end(StrategyExhausted, effs, c)
}

// settle notes how the present approach came out.
func (s Strategy) settle(outcome Outcome, r evaluation, c Clock) Strategy {
	s.Outcomes = append(slices.Clip(s.Outcomes), ApproachOutcome{
		Name: s.approach().Name, Outcome: outcome, Error: r.err, TimedOut: r.timedOut, Interrupted: r.interrupted, StartedAt: s.StartedAt, FinishedAt: c.Now,
	})
	return s
}

// giveUp cancels the child that still works, and takes back the merge.
func (s Strategy) giveUp(reason string) (Strategy, []effects.Effect) {
	var effs []effects.Effect
	s.Asked, effs = s.Asked.withdrawn()
	switch s.Child.Kind {
	case KindAction:
		effs = append(effs, effects.Send{To: s.Child, Event: ActionCancel{Reason: reason}})
	case KindTask:
		effs = append(effs, effects.Send{To: s.Child, Event: TaskCancel{Reason: reason}})
	}
	s.Child = effects.Ref{}
	return s, effs
}

// end: running → succeeded, exhausted or cancelled. The owner is told.
func (s Strategy) end(status StrategyStatus, effs []effects.Effect, c Clock) (Strategy, []effects.Effect) {
	s.Status, s.UpdatedAt, s.FinishedAt = status, c.Now, c.Now
	name := s.approach().Name
	data, _ := json.Marshal(struct { // strings always encode
		Approach string `json:"approach"`
		Error    string `json:"error,omitempty"`
	}{name, s.Error})
	switch status {
	case StrategySucceeded:
		result, err := json.Marshal(struct {
			Approach string          `json:"approach"`
			Output   json.RawMessage `json:"output,omitempty"`
		}{name, s.Output})
		if err != nil {
			result = nil
		}
		effs = append(effs, s.announce("success", data))
		return s, append(effs, s.Owner.ended(ChildEnded{Child: s.Ref(), Outcome: ChildSucceeded, Result: result})...)
	case StrategyCancelled:
		effs = append(effs, s.announce("cancelled", data))
		return s, append(effs, s.Owner.ended(ChildEnded{Child: s.Ref(), Outcome: ChildCancelled, Reason: s.Error})...)
	case StrategyRunning, StrategyExhausted:
	}
	effs = append(effs, s.announce("exhausted", data))
	return s, append(effs, s.Owner.ended(ChildEnded{Child: s.Ref(), Outcome: ChildFailed, Reason: s.Error, Interrupted: s.interrupted()})...)
}

// evaluateByHand takes an evaluation from outside.
func (s Strategy) evaluateByHand(e StrategyEvaluate, c Clock) (Strategy, []effects.Effect) {
	if s.StartedAt.IsZero() || e.N != s.N {
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("n: %d is not the number of the present approach of strategy %s, %d", e.N, s.ID, s.N))
	}
	if !e.Success {
		return s.evaluate(evaluation{err: boundedReason(e.Error, "failed without a reason")}, c)
	}
	output, err := boundedJSON("output", e.Output)
	if err != nil {
		return s, s.refuse(e, effects.CodeInvalid, err.Error())
	}
	return s.evaluate(evaluation{output: output}, c)
}

// cancel: running → cancelled.
func (s Strategy) cancel(reason string, c Clock) (Strategy, []effects.Effect) {
	s, effs := s.giveUp(reason)
	if !s.StartedAt.IsZero() {
		s = s.settle(OutcomeCancelled, evaluation{err: reason}, c)
	}
	s.Error = reason
	return s.end(StrategyCancelled, effs, c)
}

// childEnded evaluates the approach by how its child ended. After an agent that
// merges, the merge itself follows.
func (s Strategy) childEnded(e ChildEnded, c Clock) (Strategy, []effects.Effect) {
	if s.Child.IsZero() || e.Child != s.Child || e.N != s.N {
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("strategy %s does not wait for %s in approach %d", s.ID, e.Child, e.N))
	}
	reason := boundedReason(e.Reason, "failed without a reason")
	switch e.Outcome {
	case ChildSucceeded:
		s.Child, s.UpdatedAt = effects.Ref{}, c.Now
		if s.approach().Action.byAgent() {
			return s.merge(effects.MergeRebase, nil)
		}
		return s.evaluate(evaluation{output: boundedResult(e.Result)}, c)
	case ChildFailed, ChildRefused:
	case ChildCancelled:
		reason = firstText("cancelled: " + reason)
	default:
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("outcome: %q is unknown", clip(string(e.Outcome))))
	}
	s.Child = effects.Ref{}
	return s.evaluate(evaluation{err: reason, interrupted: e.Interrupted}, c)
}

// interrupted reports whether an approach was interrupted that must not be
// repeated, also where another one was tried after it.
func (s Strategy) interrupted() bool {
	return slices.ContainsFunc(s.Outcomes, func(o ApproachOutcome) bool { return o.Interrupted })
}

// boundedResult gives what is kept of a result: nothing where it is too large.
func boundedResult(v json.RawMessage) json.RawMessage {
	out, err := boundedJSON("result", storedResult(v))
	if err != nil {
		return nil
	}
	return out
}

func (s Strategy) refuseAnswer(e Event, n uint32) (Strategy, []effects.Effect) {
	return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("strategy %s does not wait for effect %d, which %q answers", s.ID, n, e.EventType()))
}

func (s Strategy) effectDone(e EffectDone, c Clock) (Strategy, []effects.Effect) {
	asked, effect := s.Asked.answered(e.N)
	if effect == nil {
		return s.refuseAnswer(e, e.N)
	}
	s.Asked = asked
	return s.evaluate(evaluation{output: boundedResult(e.Result)}, c)
}

func (s Strategy) effectFailed(e EffectFailed, c Clock) (Strategy, []effects.Effect) {
	asked, effect := s.Asked.answered(e.N)
	if effect == nil {
		return s.refuseAnswer(e, e.N)
	}
	s.Asked = asked
	return s.evaluate(evaluation{err: boundedReason(e.Reason, "failed without a reason")}, c)
}

// effectInterrupted asks for the merge once more, some times: where it was done
// already, it does nothing.
func (s Strategy) effectInterrupted(e EffectInterrupted, c Clock) (Strategy, []effects.Effect) {
	asked, effect := s.Asked.answered(e.N)
	switch {
	case effect == nil:
		return s.refuseAnswer(e, e.N)
	case s.Repeats >= MaxEffectRepeats:
		s.Asked = asked
		return s.evaluate(evaluation{err: boundedReason(e.Reason, ReasonRecovered)}, c)
	}
	s.Repeats++
	return s.again(asked, effect, c)
}

// effectHandedBack asks for the merge once more: it was not begun.
func (s Strategy) effectHandedBack(e EffectHandedBack, c Clock) (Strategy, []effects.Effect) {
	asked, effect := s.Asked.answered(e.N)
	if effect == nil {
		return s.refuseAnswer(e, e.N)
	}
	return s.again(asked, effect, c)
}

func (s Strategy) again(asked PendingEffects, effect effects.Outer, c Clock) (Strategy, []effects.Effect) {
	effect = effect.WithNumber(asked.next())
	s.Asked, s.UpdatedAt = asked.ask(effect), c.Now
	return s, []effects.Effect{effect}
}

func (s Strategy) outstanding() []effects.Outer { return s.Asked.outstanding() }

// announce says something of the strategy on the bus.
func (s Strategy) announce(action string, data json.RawMessage) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "strategy", Action: action},
		Source: effects.EventSource{Component: "strategy", ID: s.ID},
		Data:   data,
	}}
}

// Ref names the strategy.
func (s Strategy) Ref() effects.Ref {
	if s.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindStrategy, ID: s.ID}
}

// Deadline is when the first approach is to begin, or the time of the present
// one is up; zero where that has no limit, and after the end.
func (s Strategy) Deadline() Time {
	switch {
	case s.Status != StrategyRunning || s.Current >= uint32(min(len(s.Approaches), MaxApproaches)):
		return 0
	case s.StartedAt.IsZero():
		return max(s.CreatedAt, effects.MinTime)
	}
	if limit := s.approach().limit(); limit > 0 {
		return laterMS(s.StartedAt, limit)
	}
	return 0
}

// endedAt: see [EndedAt].
func (s Strategy) endedAt() (Time, bool) { return s.FinishedAt, s.Status.Ended() }

// Terms lists the strategy under all, its status and its tenant.
func (s Strategy) Terms() []effects.Term {
	return []effects.Term{
		{Name: TermAll, At: s.CreatedAt, Counted: true},
		{Name: StatusTerm(StatusType(s.Status)), At: s.CreatedAt, Counted: true},
		{Name: ScopeTerm(s.Namespace, s.Tenant), At: s.CreatedAt},
	}
}

// AppendJSON appends the stored form.
func (s Strategy) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

func (s Strategy) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(StrategyEvent)
	if !ok {
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a strategy takes no event %q", e.EventType()))
	}
	return s.Apply(own, c)
}

func (s Strategy) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindStrategy, ID: s.ID}, e, code, reason)
}
