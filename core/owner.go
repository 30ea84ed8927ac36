package core

import (
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Owner names the machine that waits for another one to end, and the number
// under which it waits. The zero Owner: nobody waits.
type Owner struct {
	Ref effects.Ref
	N   uint32
}

// IsZero reports whether nobody waits.
func (o Owner) IsZero() bool { return o == Owner{} }

func (o Owner) appendJSON(b []byte) []byte {
	if o.IsZero() {
		return append(b, "null"...)
	}
	w := begin(b)
	w.str("kind", string(o.Ref.Kind))
	w.id("id", o.Ref.ID)
	w.num("n", uint64(o.N))
	return w.end()
}

// MarshalJSON encodes {"kind":…,"id":…,"n":…}, nobody as null.
func (o Owner) MarshalJSON() ([]byte, error) { return o.appendJSON(nil), nil }

// UnmarshalJSON decodes both forms.
func (o *Owner) UnmarshalJSON(b []byte) error {
	var w struct {
		Kind effects.Kind `json:"kind"`
		ID   uuid.UUID    `json:"id"`
		N    uint32       `json:"n"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*o = Owner{Ref: effects.Ref{Kind: w.Kind, ID: w.ID}, N: w.N}
	return nil
}

// ended tells the owner, if there is one, how its child ended.
func (o Owner) ended(e ChildEnded) []effects.Effect {
	if o.IsZero() {
		return nil
	}
	e.N = o.N
	return []effects.Effect{effects.Send{To: o.Ref, Event: e}}
}

// ChildOutcome says how a child ended.
type ChildOutcome string

// Outcomes of a child.
const (
	ChildSucceeded ChildOutcome = "succeeded"
	ChildFailed    ChildOutcome = "failed"
	ChildCancelled ChildOutcome = "cancelled"
	ChildRefused   ChildOutcome = "refused" // it was never made; Reason says why
)

// known reports whether it is one of the outcomes.
func (o ChildOutcome) known() bool {
	return o == ChildSucceeded || o == ChildFailed || o == ChildCancelled || o == ChildRefused
}

// Events that machines of several kinds take: answers to what they asked for.
type (
	// ChildEnded tells an owner that a machine which it made has ended.
	ChildEnded struct {
		Child   effects.Ref     `json:"child"`
		N       uint32          `json:"n"` // the [Owner]'s number
		Outcome ChildOutcome    `json:"outcome"`
		Result  json.RawMessage `json:"result,omitempty"`
		Reason  string          `json:"reason,omitempty"`
		// Interrupted: nobody knows how far it came, and what it did must not be
		// repeated unless a person says so ([InterruptFail]).
		Interrupted bool `json:"interrupted,omitempty"`
		// Permanent: it failed so that to make it once more is pointless.
		Permanent bool `json:"permanent,omitempty"`
	}
	// EffectDone answers an outer effect that succeeded.
	EffectDone struct {
		N      uint32          `json:"n"`
		Result json.RawMessage `json:"result,omitempty"`
	}
	// EffectFailed answers an outer effect that failed.
	EffectFailed struct {
		N         uint32          `json:"n"`
		Reason    string          `json:"reason"`
		Result    json.RawMessage `json:"result,omitempty"`    // what there is nevertheless
		Permanent bool            `json:"permanent,omitempty"` // trying again is pointless
	}
	// EffectInterrupted says that the holder of an outer effect is gone, so that
	// nobody knows how far it came (A9).
	EffectInterrupted struct {
		N      uint32 `json:"n"`
		Reason string `json:"reason"`
	}
	// EffectHandedBack gives back an outer effect that certainly was not begun.
	EffectHandedBack struct {
		N uint32 `json:"n"`
	}
	// Granted says that a lock, or slots of a semaphore, are held from now on.
	Granted struct {
		N     uint32 `json:"n"`     // the number under which it was asked for
		Name  string `json:"name"`  // of the lock or semaphore
		Token uint64 `json:"token"` // grows with each grant of that name: a fencing token
		Until Time   `json:"until"` // the lease lapses then; 0: never
	}
	// Lost says that a lock, or slots of a semaphore, that were held or waited for
	// are so no longer: the lease lapsed, or they were taken away.
	Lost struct {
		N      uint32 `json:"n"`
		Name   string `json:"name"`
		Reason string `json:"reason"`
	}
)

// EventType gives the discriminator.
func (ChildEnded) EventType() string { return "child_ended" }

// EventType gives the discriminator.
func (EffectDone) EventType() string { return "effect_done" }

// EventType gives the discriminator.
func (EffectFailed) EventType() string { return "effect_failed" }

// EventType gives the discriminator.
func (EffectInterrupted) EventType() string { return "effect_interrupted" }

// EventType gives the discriminator.
func (EffectHandedBack) EventType() string { return "effect_handed_back" }

// EventType gives the discriminator.
func (Granted) EventType() string { return "granted" }

// EventType gives the discriminator.
func (Lost) EventType() string { return "lost" }

// AppendJSON appends the journal form.
func (e ChildEnded) AppendJSON(b []byte) []byte {
	e.Result, e.Reason = storedResult(e.Result), validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectDone) AppendJSON(b []byte) []byte {
	e.Result = storedResult(e.Result)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectFailed) AppendJSON(b []byte) []byte {
	e.Result, e.Reason = storedResult(e.Result), validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectInterrupted) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectHandedBack) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e Granted) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e Lost) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// storedResult is what is kept of a result from outside: nothing where it cannot
// be stored. A machine must use it too before it looks at a result, so that a
// replay, which sees the journal, sees the same.
func storedResult(v json.RawMessage) json.RawMessage {
	return ActionFail{Result: v}.result()
}

// decodeShared reads an event that several machines take; nil where the type is
// none of those that this one takes.
func decodeShared[E Event](typ string, b []byte) (Event, error) {
	e, err := decodeAnyShared(typ, b)
	if own, ok := e.(E); ok {
		return own, err
	}
	return nil, nil
}

func decodeAnyShared(typ string, b []byte) (Event, error) {
	switch typ {
	case ChildEnded{}.EventType():
		return decodeAs[ChildEnded](b)
	case EffectDone{}.EventType():
		return decodeAs[EffectDone](b)
	case EffectFailed{}.EventType():
		return decodeAs[EffectFailed](b)
	case EffectInterrupted{}.EventType():
		return decodeAs[EffectInterrupted](b)
	case EffectHandedBack{}.EventType():
		return decodeAs[EffectHandedBack](b)
	case Granted{}.EventType():
		return decodeAs[Granted](b)
	case Lost{}.EventType():
		return decodeAs[Lost](b)
	}
	return nil, nil
}

// decodeAs reads an event whose members are its exported fields.
func decodeAs[E Event](b []byte) (Event, error) {
	var e E
	err := json.Unmarshal(b, &e)
	return e, err
}

// appendEvent appends an event whose members are its exported fields.
func appendEvent(b []byte, typ string, e any) []byte {
	fields, err := json.Marshal(e)
	if err != nil || len(fields) <= 2 { // a payload that is not JSON: keep the event readable, it will be refused
		return bare(b, typ)
	}
	b = append(b, `{"type":"`...)
	b = append(b, typ...)
	b = append(b, '"', ',')
	return append(b, fields[1:]...)
}

// PendingEffects numbers the outer effects of a machine and keeps those that were not
// answered, in the order in which they were asked for.
type PendingEffects struct {
	Last uint32          `json:"last"` // the number of the last one
	Open []PendingEffect `json:"open"`
}

// PendingEffect is an outer effect that a machine waits for.
type PendingEffect struct {
	Effect effects.Outer
}

// MarshalJSON encodes the effect's stored form.
func (o PendingEffect) MarshalJSON() ([]byte, error) { return o.Effect.AppendJSON(nil), nil }

// UnmarshalJSON decodes it.
func (o *PendingEffect) UnmarshalJSON(b []byte) (err error) {
	o.Effect, err = effects.DecodeOuter(b)
	return err
}

// next is the number that the next effect is to carry.
func (a PendingEffects) next() uint32 { return a.Last + 1 }

// ask notes an effect that carries the next number.
func (a PendingEffects) ask(e effects.Outer) PendingEffects {
	a.Last = e.Number()
	a.Open = append(slices.Clip(a.Open), PendingEffect{Effect: e})
	return a
}

// answered forgets the effect with that number, and gives it; nil where nobody
// waits for it.
func (a PendingEffects) answered(n uint32) (PendingEffects, effects.Outer) {
	i := slices.IndexFunc(a.Open, func(o PendingEffect) bool { return o.Effect.Number() == n })
	if i < 0 {
		return a, nil
	}
	e := a.Open[i].Effect
	a.Open = slices.Concat(a.Open[:i], a.Open[i+1:])
	if len(a.Open) == 0 {
		a.Open = nil
	}
	return a, e
}

// withdrawn takes back all that was not answered.
func (a PendingEffects) withdrawn() (PendingEffects, []effects.Effect) {
	var effs []effects.Effect
	for _, o := range a.Open {
		effs = append(effs, effects.Withdraw{N: o.Effect.Number()})
	}
	a.Open = nil
	return a, effs
}

func (a PendingEffects) outstanding() []effects.Outer {
	out := make([]effects.Outer, 0, len(a.Open))
	for _, o := range a.Open {
		out = append(out, o.Effect)
	}
	return out
}

// Outstanding lists the outer effects that a machine waits for.
func Outstanding(s State) []effects.Outer {
	switch s := s.(type) {
	case Action:
		if s.Status.Type == StatusRunning {
			return []effects.Outer{effects.RunTool{Run: s.Run, Tool: s.ToolName}}
		}
	case interface{ outstanding() []effects.Outer }:
		return s.outstanding()
	}
	return nil
}

// OutstandingEffect gives the outer effect with that number that a machine waits for; nil
// where it waits for none.
func OutstandingEffect(s State, n uint32) effects.Outer {
	if a, ok := s.(Action); ok { // the usual case
		if a.answers(n) {
			return effects.RunTool{Run: a.Run, Tool: a.ToolName}
		}
		return nil
	}
	for _, e := range Outstanding(s) {
		if e.Number() == n {
			return e
		}
	}
	return nil
}

// AnswerEvent is the event that answers an outer effect of a machine of that
// kind; permanent says that trying again is pointless. A result beside a reason
// is what there is in spite of the failure.
func AnswerEvent(kind effects.Kind, n uint32, result json.RawMessage, reason string, permanent bool) Event {
	switch {
	case kind == KindAction && reason == "":
		return ActionComplete{Run: n, Result: result}
	case kind == KindAction:
		return ActionFail{Run: n, Reason: reason, Result: result}
	case reason == "":
		return EffectDone{N: n, Result: result}
	default:
		return EffectFailed{N: n, Reason: reason, Result: result, Permanent: permanent}
	}
}

// EndedAt tells whether a machine has come to its end, and when: from then on it
// only waits for its retention to end. The shell forgets it by [ExpireEvent].
func EndedAt(s State) (Time, bool) {
	switch s := s.(type) {
	case Action:
		return s.UpdatedAt, s.Status.Type.Terminal()
	case Occurrence:
		return max(s.DecidedAt, s.FinishedAt), s.Outcome != "" || s.Verdict != VerdictDispatched
	case interface{ endedAt() (Time, bool) }:
		return s.endedAt()
	}
	return 0, false
}

// renumbered gives the same effect to be asked for once more.
func renumbered(e effects.Outer, n uint32) effects.Outer {
	switch e := e.(type) {
	case effects.RunTool:
		e.Run = n
		return e
	case effects.Spawn:
		e.N = n
		return e
	case effects.SendInput:
		e.N = n
		return e
	case effects.Kill:
		e.N = n
		return e
	case effects.Nudge:
		e.N = n
		return e
	case effects.WorktreeAdd:
		e.N = n
		return e
	case effects.WorktreeRemove:
		e.N = n
		return e
	case effects.Merge:
		e.N = n
		return e
	case effects.Notify:
		e.N = n
		return e
	case effects.CheckConstraints:
		e.N = n
		return e
	case effects.TakeAction:
		e.N = n
		return e
	case effects.CreateRun:
		e.N = n
		return e
	case effects.FetchLogs:
		e.N = n
		return e
	case effects.DeleteRun:
		e.N = n
		return e
	}
	return e
}
