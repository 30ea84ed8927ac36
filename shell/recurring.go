package shell

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// CreateRecurring stores a recurring action. An id of zeros is replaced by a
// fresh one.
func (e *Engine) CreateRecurring(ctx context.Context, spec core.RecurringSpec) (core.RecurringAction, error) {
	if spec.ID == uuid.Nil {
		spec.ID = uuid.New()
	}
	ref := effects.Ref{Kind: core.KindRecurring, ID: spec.ID}
	t := spec.ActionTemplate
	if err := e.checkTool(ref, "provider", t.Provider, "payload", t.Payload); err != nil {
		return core.RecurringAction{}, err
	}
	t.Payload, t.Metadata = slices.Clone(t.Payload), maps.Clone(t.Metadata)
	spec.ActionTemplate, spec.Labels = t, maps.Clone(spec.Labels)
	return e.sendRecurring(ctx, spec.ID, core.RecurringCreate{Spec: spec})
}

// Recurring reads a recurring action; [ErrNotFound] where there is none.
func (e *Engine) Recurring(ctx context.Context, id uuid.UUID) (core.RecurringAction, error) {
	s, err := e.read(ctx, effects.Ref{Kind: core.KindRecurring, ID: id})
	return asRecurring(s, err)
}

// UpdateRecurring changes the given fields. A changed schedule counts from now.
func (e *Engine) UpdateRecurring(ctx context.Context, id uuid.UUID, p core.RecurringPatch) (core.RecurringAction, error) {
	if p.Provider != nil || len(p.Payload) > 0 {
		r, err := e.Recurring(ctx, id)
		if err != nil {
			return r, err
		}
		name, payload := r.ActionTemplate.Provider, r.ActionTemplate.Payload
		if p.Provider != nil {
			name = *p.Provider
		}
		if len(p.Payload) > 0 {
			payload = p.Payload
		}
		if err := e.checkTool(r.Ref(), "provider", name, "payload", payload); err != nil {
			return r, err
		}
	}
	p.Payload, p.Metadata, p.Labels = slices.Clone(p.Payload), cloned(p.Metadata), cloned(p.Labels)
	return e.sendRecurring(ctx, id, core.RecurringUpdate{Patch: p})
}

func cloned(m *map[string]string) *map[string]string {
	if m == nil {
		return nil
	}
	c := maps.Clone(*m)
	return &c
}

// PauseRecurring disables a recurring action. The actor of ctx and the reason
// are kept.
func (e *Engine) PauseRecurring(ctx context.Context, id uuid.UUID, reason string) (core.RecurringAction, error) {
	return e.sendRecurring(ctx, id, core.RecurringPause{By: ActorFrom(ctx), Reason: reason})
}

// ResumeRecurring enables a recurring action, from its next time after now.
func (e *Engine) ResumeRecurring(ctx context.Context, id uuid.UUID) (core.RecurringAction, error) {
	return e.sendRecurring(ctx, id, core.RecurringResume{})
}

// TriggerRecurring dispatches one occurrence now; the schedule stays as it is.
func (e *Engine) TriggerRecurring(ctx context.Context, id uuid.UUID) (core.RecurringAction, error) {
	return e.sendRecurring(ctx, id, core.RecurringTrigger{})
}

// DeleteRecurring ends a recurring action. What it made goes on; its history
// stays until its retention ends.
func (e *Engine) DeleteRecurring(ctx context.Context, id uuid.UUID) error {
	_, err := e.sendRecurring(ctx, id, core.RecurringDelete{})
	return err
}

func (e *Engine) sendRecurring(ctx context.Context, id uuid.UUID, ev core.RecurringEvent) (core.RecurringAction, error) {
	s, err := e.Send(ctx, effects.Ref{Kind: core.KindRecurring, ID: id}, ev)
	return asRecurring(s, err)
}

func asRecurring(s core.State, err error) (core.RecurringAction, error) {
	r, _ := s.(core.RecurringAction)
	return r, notFound(err)
}
