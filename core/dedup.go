package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Dedup guards one dedup key of one tenant: while an action that carries the
// key is live, no second one is made (C4).
//
//	(free) ── claim ──▶ held ── release ──▶ (free)
//
// Invariants, held by property tests:
//   - A key has at most one holder, and never changes it.
//   - Only the holder's release frees it.
//   - An action is made exactly with the step from free to held, and it is the
//     holder; where it cannot be made, the [Batch] undoes the step.
//   - A held key stands in the list of its holder, and in no other.
type Dedup struct {
	ID     uuid.UUID `json:"id"`     // derived from tenant and key
	Key    string    `json:"key"`    // for the reader
	Holder uuid.UUID `json:"holder"` // the live action
	Since  Time      `json:"since"`
}

// DedupRef names the guard of a key.
func DedupRef(namespace, tenant, key string) effects.Ref {
	return effects.Ref{Kind: KindDedup, ID: namedID(namespace, tenant, key)} // without a role: such ids are stored
}

// DedupEvent is an event of [Dedup]. The set is closed.
//
//sumtype:decl
type DedupEvent interface {
	Event
	dedupEvent()
}

type (
	// DedupClaim asks for the creation of an action under its dedup key.
	DedupClaim struct {
		Create ActionSpec `json:"create"`
		// LastExecutedAt is what the recurring action, if it is one that asks, goes
		// back to where the key is held.
		LastExecutedAt Time `json:"last_executed_at"`
		Manual         bool `json:"manual,omitempty"` // the occurrence was triggered by hand
		// Whole is that of the [ActionCreate].
		Whole bool `json:"whole,omitempty"`
	}
	// DedupRelease says that the holder has ended.
	DedupRelease struct {
		Holder uuid.UUID `json:"holder"`
	}
)

func (DedupClaim) dedupEvent()   {}
func (DedupRelease) dedupEvent() {}

// Apply carries out one transition.
func (d Dedup) Apply(e DedupEvent, c Clock) (Dedup, []effects.Effect) {
	switch e := e.(type) {
	case DedupClaim:
		return d.claim(e, c)
	case DedupRelease:
		if d.ID != uuid.Nil && d.Holder == e.Holder {
			return Dedup{}, nil
		}
		return d, refused(d.Ref(), e, effects.CodeConflict, "dedup_key: action %s does not hold it", e.Holder)
	}
	return d, refused(d.Ref(), e, effects.CodeInvalid, "a dedup key takes no event %q", e.EventType())
}

// claim: free → held, and the action is created; held: a creation by hand is
// refused, an occurrence is told.
func (d Dedup) claim(e DedupClaim, c Clock) (Dedup, []effects.Effect) {
	spec := e.Create
	if spec.DedupKey == "" { // nobody would release it
		return d, refused(d.Ref(), e, effects.CodeInvalid, "dedup_key: must not be empty")
	}
	if err := spec.withDefaults().Validate(); err != nil {
		return d, refused(d.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	if d.ID == uuid.Nil {
		ref := DedupRef(spec.Namespace, spec.Tenant, spec.DedupKey)
		return Dedup{ID: ref.ID, Key: spec.DedupKey, Holder: spec.ID, Since: c.Now},
			[]effects.Effect{effects.Send{To: effects.Ref{Kind: KindAction, ID: spec.ID}, Event: ActionCreate{Spec: spec, Whole: e.Whole}}}
	}
	if spec.Occurrence == uuid.Nil {
		return d, refused(d.Ref(), e, effects.CodeConflict, "dedup_key: %q is held by action %s, which has not ended", clip(spec.DedupKey), d.Holder)
	}
	effs := []effects.Effect{effects.Send{
		To: effects.Ref{Kind: KindOccurrence, ID: spec.Occurrence}, Event: OccurrenceDeduplicate{Holder: d.Holder},
	}}
	if id, err := uuid.Parse(spec.Metadata[MetaRecurringID]); err == nil {
		effs = append(effs, effects.Send{To: effects.Ref{Kind: KindRecurring, ID: id}, Event: RecurringDeduplicated{LastExecutedAt: e.LastExecutedAt, Manual: e.Manual, N: spec.Owner.N}})
	}
	return d, effs
}

// Ref names the guard.
func (d Dedup) Ref() effects.Ref { return refOf(KindDedup, d.ID) }

// Deadline is none: a key waits for its holder.
func (d Dedup) Deadline() Time { return 0 }

// HolderTerm is the list term of the dedup keys that an action holds: how they are
// found, and released, where the action itself cannot be read any more.
func HolderTerm(action uuid.UUID) string { return "holder:" + action.String() }

// Terms lists the guard under its holder. All else finds it by its key.
func (d Dedup) Terms() []effects.Term {
	if d.ID == uuid.Nil {
		return nil
	}
	return []effects.Term{{Name: HolderTerm(d.Holder), At: d.Since}}
}

// belongsToDispatch: a schedule is told of the refusal instead, unless somebody has asked for
// just this action.
func (e DedupClaim) belongsToDispatch() bool { return e.Create.Owner.IsZero() || e.Whole }

func (e DedupClaim) owner() Owner { return e.Create.Owner }

// EventType gives the discriminator in the journal.
func (DedupClaim) EventType() string   { return "claim" }
func (DedupRelease) EventType() string { return "release" }

// dedupEvents are the events of a dedup key, as the journal has them.
var dedupEvents = []eventType{
	event[DedupClaim](), event[DedupRelease](),
}

func (e DedupClaim) appendFields(o object) object {
	o.value("create", e.Create.AppendJSON)
	o.time("last_executed_at", e.LastExecutedAt)
	if e.Manual {
		o.bool("manual", true)
	}
	if e.Whole {
		o.bool("whole", true)
	}
	return o
}

func (e DedupRelease) appendFields(o object) object {
	o.id("holder", e.Holder)
	return o
}

// AppendJSON appends the stored form.
func (d Dedup) AppendJSON(b []byte) []byte { return appendMarshaled(b, d) }
