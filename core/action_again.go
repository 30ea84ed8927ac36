package core

import (
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// MetaRetryOf is the metadata of an action that was made again: the id of the one before.
const MetaRetryOf = "_retry_of"

// Again gives what another action of the same work is made of, due at once: tool, input, label,
// policy, metadata, labels, dedup key and tenant are those of this one, and so are body, headers
// and route of a webhook; its metadata names this one ([MetaRetryOf]). It belongs to no
// occurrence, and does not recur. The error says why there is none: this one has not ended, has
// completed, belongs to a machine that waits for its end, or has so much metadata that another
// entry has no room. With redeliver, one that a
// webhook made may have completed, and no other one is taken.
func (a Action) Again(id uuid.UUID, redeliver bool, c Clock) (ActionSpec, error) {
	if r := a.mayBeMadeAgain(redeliver); r != nil {
		return ActionSpec{}, r
	}
	spec := a.ActionSpec
	spec.ID, spec.Occurrence, spec.Owner, spec.Recurrence = id, uuid.Nil, Owner{}, Recurrence{}
	if spec.Trigger.Type == TriggerWebhook {
		spec.Trigger.ReceivedAt = c.Now
	} else {
		spec.Trigger = Scheduled(c.Now)
	}
	spec.Metadata = maps.Clone(spec.Metadata)
	if spec.Metadata == nil {
		spec.Metadata = make(map[string]string, 1)
	}
	spec.Metadata[MetaRetryOf] = a.ID.String()
	return spec, nil
}

// OnceID gives the id for an action that is made again of this one once and no more: as long as that
// one is stored, nothing else can be made under it. It is of version 5, which callers cannot give.
func (a Action) OnceID(redeliver bool) uuid.UUID {
	role := "retry"
	if redeliver {
		role = "redeliver"
	}
	return namedID(role, a.Namespace, a.Tenant, a.ID.String())
}

func (a *Action) mayBeMadeAgain(redeliver bool) *effects.Refused {
	done := "retried"
	if redeliver {
		done = "delivered again"
	}
	no := func(code effects.Code, format string, args ...any) *effects.Refused {
		return &effects.Refused{To: a.Ref(), Event: "create", Code: code, Reason: fmt.Sprintf("action %s %s", a.ID, fmt.Sprintf(format, args...))}
	}
	switch status := a.Status.Type; {
	case !a.Owner.IsZero() && a.Owner.Ref.Kind != KindRecurring: // a schedule only hears of the end
		return no(effects.CodeConflict, "is a part of %s, which waits for its end: it cannot be %s by itself; %s", a.Owner.Ref, done, a.Owner.insteadOfAgain())
	case redeliver && a.Trigger.Type != TriggerWebhook:
		return no(effects.CodeConflict, "was made by no webhook: only what a webhook made can be delivered again")
	case !status.Terminal():
		return no(effects.CodeConflict, "is %s: only an action that has ended can be %s", status, done)
	case status == StatusCompleted && !redeliver && a.Trigger.Type == TriggerWebhook:
		return no(effects.CodeConflict, "is completed: only one that failed or was cancelled can be retried; its webhook can be delivered again")
	case status == StatusCompleted && !redeliver:
		return no(effects.CodeConflict, "is completed: only one that failed or was cancelled can be retried")
	case len(a.Metadata) >= MaxMapEntries && a.Metadata[MetaRetryOf] == "":
		return no(effects.CodeInvalid, "has %d entries of metadata: another one, %s, would be more than %d", len(a.Metadata), MetaRetryOf, MaxMapEntries)
	}
	return nil
}

// insteadOfAgain says what can be begun again instead of an action of this owner.
func (o Owner) insteadOfAgain() string {
	switch o.Ref.Kind {
	case KindOrchestrator:
		return "trigger the job of that run instead"
	case KindWorker:
		return "redrive or push the item of the worker's queue instead"
	}
	return fmt.Sprintf("start the %s again instead", o.Ref.Kind)
}
