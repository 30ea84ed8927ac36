package shell

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Recurring are the calls for recurring actions.
type Recurring struct{ e *Engine }

// Recurring gives the calls for recurring actions: schedules that make actions.
func (e *Engine) Recurring() Recurring { return Recurring{e} }

// Create stores a recurring action. An id of zeros is replaced by a
// fresh one.
func (r Recurring) Create(ctx context.Context, spec core.RecurringSpec) (core.RecurringAction, error) {
	if spec.ID == uuid.Nil {
		spec.ID = uuid.New()
	}
	ref := recurringRef(spec.ID)
	t := spec.ActionTemplate
	if err := r.e.checkTool(ref, Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}, "provider", t.Provider, "payload", t.Payload); err != nil {
		return core.RecurringAction{}, err
	}
	if err := r.e.checkChannel(ref, Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}, "create", spec.Alerts); err != nil {
		return core.RecurringAction{}, err
	}
	t.Payload, t.Metadata = slices.Clone(t.Payload), maps.Clone(t.Metadata)
	spec.ActionTemplate, spec.Labels, spec.Calendars = t, maps.Clone(spec.Labels), slices.Clone(spec.Calendars)
	return r.send(ctx, spec.ID, core.RecurringCreate{Spec: spec})
}

// Get reads a recurring action; [ErrNotFound] if it does not exist.
func (r Recurring) Get(ctx context.Context, id uuid.UUID) (core.RecurringAction, error) {
	return readAs[core.RecurringAction](ctx, r.e, recurringRef(id))
}

// Named reads the recurring action of a tenant that has a name; [ErrNotFound] if none has it.
func (r Recurring) Named(ctx context.Context, namespace, tenant, name string) (core.RecurringAction, error) {
	had, err := readAs[core.Named](ctx, r.e, core.NamedRef(core.KindRecurring, namespace, tenant, name))
	if err != nil {
		return core.RecurringAction{}, err
	}
	a, err := r.Get(ctx, had.Holder)
	if err == nil && a.Name != name { // it was given another one between the two reads
		return core.RecurringAction{}, ErrNotFound
	}
	return a, err
}

// Update changes the given fields. A changed schedule counts from now.
func (r Recurring) Update(ctx context.Context, id uuid.UUID, p core.RecurringPatch) (core.RecurringAction, error) {
	a, _, err := r.UpdateTelling(ctx, id, p)
	return a, err
}

// UpdateTelling is [Recurring.Update], and also gives the next times as they were, and as they are.
func (r Recurring) UpdateTelling(ctx context.Context, id uuid.UUID, p core.RecurringPatch) (core.RecurringAction, core.RecurringChanged, error) {
	if p.Provider != nil || len(p.Payload) > 0 {
		was, err := r.Get(ctx, id)
		if err != nil {
			return was, core.RecurringChanged{}, err
		}
		name, payload := was.ActionTemplate.Provider, was.ActionTemplate.Payload
		if p.Provider != nil {
			name = *p.Provider
		}
		if len(p.Payload) > 0 {
			payload = p.Payload
		}
		if err := r.e.checkTool(was.Ref(), Scope{Namespace: was.Namespace, Tenant: was.Tenant}, "provider", name, "payload", payload); err != nil {
			return was, core.RecurringChanged{}, err
		}
	}
	if p.Alerts != nil && p.Alerts.Channel != "" {
		was, err := r.Get(ctx, id)
		if err != nil {
			return was, core.RecurringChanged{}, err
		}
		if err := r.e.checkChannel(recurringRef(id), Scope{Namespace: was.Namespace, Tenant: was.Tenant}, "update", *p.Alerts); err != nil {
			return was, core.RecurringChanged{}, err
		}
	}
	p.Payload, p.Metadata, p.Labels = slices.Clone(p.Payload), clonedMap(p.Metadata), clonedMap(p.Labels)
	if p.Calendars != nil {
		names := slices.Clone(*p.Calendars)
		p.Calendars = &names
	}
	res, s, err := r.e.ask(ctx, recurringRef(id), core.RecurringUpdate{Patch: p}, 0)
	a, err := as[core.RecurringAction](s, err)
	told, _ := res.Answer.(core.RecurringChanged)
	return a, told, err
}

func clonedMap(m *map[string]string) *map[string]string {
	if m == nil {
		return nil
	}
	c := maps.Clone(*m)
	return &c
}

// Pause disables a recurring action. The actor of ctx and the reason
// are kept.
func (r Recurring) Pause(ctx context.Context, id uuid.UUID, reason string) (core.RecurringAction, error) {
	return r.PauseUntil(ctx, id, reason, 0)
}

// PauseUntil is [Recurring.Pause] up to a time, from which on it is enabled again; zero: until
// somebody resumes it.
func (r Recurring) PauseUntil(ctx context.Context, id uuid.UUID, reason string, until effects.Time) (core.RecurringAction, error) {
	return r.send(ctx, id, core.RecurringPause{By: ActorFrom(ctx), Reason: reason, Until: until})
}

// Resume enables a recurring action, from its next time after now.
func (r Recurring) Resume(ctx context.Context, id uuid.UUID) (core.RecurringAction, error) {
	return r.send(ctx, id, core.RecurringResume{})
}

// Trigger dispatches one occurrence now; the schedule stays as it is.
func (r Recurring) Trigger(ctx context.Context, id uuid.UUID) (core.RecurringAction, error) {
	return r.TriggerWith(ctx, id, nil)
}

// TriggerWith is [Recurring.Trigger] with another payload, a JSON object; empty: that of the
// template.
func (r Recurring) TriggerWith(ctx context.Context, id uuid.UUID, payload json.RawMessage) (core.RecurringAction, error) {
	if len(payload) > 0 {
		was, err := r.Get(ctx, id)
		if err != nil {
			return was, err
		}
		if err := r.e.checkTool(was.Ref(), Scope{Namespace: was.Namespace, Tenant: was.Tenant}, "provider", was.ActionTemplate.Provider, "payload", payload); err != nil {
			return was, err
		}
	}
	return r.send(ctx, id, core.RecurringTrigger{Payload: slices.Clone(payload)})
}

// SkipNext skips one more of the next times.
func (r Recurring) SkipNext(ctx context.Context, id uuid.UUID) (core.RecurringAction, error) {
	return r.send(ctx, id, core.RecurringSkipNext{})
}

// CancelWaiting cancels a time that waits for its turn, by the id of its occurrence. The error is a
// [*Refusal] if that does not wait.
func (r Recurring) CancelWaiting(ctx context.Context, id, occurrence uuid.UUID, reason string) (core.RecurringAction, error) {
	return r.send(ctx, id, core.RecurringCancelWaiting{Occurrence: occurrence, Reason: reason})
}

// Delete ends a recurring action. What it made goes on; its history
// stays until its retention ends.
func (r Recurring) Delete(ctx context.Context, id uuid.UUID) error {
	_, err := r.send(ctx, id, core.RecurringDelete{})
	return err
}

func (r Recurring) send(ctx context.Context, id uuid.UUID, ev core.RecurringEvent) (core.RecurringAction, error) {
	return sendTo[core.RecurringAction](ctx, r.e, recurringRef(id), ev)
}

func recurringRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: core.KindRecurring, ID: id} }

// RecurringFilter chooses recurring actions; zero fields choose all.
type RecurringFilter struct {
	Scope   *Scope
	Enabled *bool
	Labels  map[string]string // all of them
}

// List lists recurring actions, newest first.
func (r Recurring) List(ctx context.Context, f RecurringFilter, p Page) (recurring []core.RecurringAction, next string, err error) {
	of := filter{kind: core.KindRecurring, scope: f.Scope, status: flagTerm(f.Enabled, core.EnabledTerm), labels: f.Labels}
	return list(ctx, r.e, of, p, func(r core.RecurringAction) bool {
		return (f.Enabled == nil || r.Enabled == *f.Enabled) && hasLabels(r.Labels, f.Labels)
	})
}

// History lists the occurrences of a recurring action, newest first (C12).
func (r Recurring) History(ctx context.Context, recurring uuid.UUID, p Page) (list []core.Occurrence, next string, err error) {
	return page[core.Occurrence](ctx, r.e.store, newest(core.KindOccurrence, core.RecurringTerm(recurring)).paged(p), p, nil)
}
