package shell

import (
	"context"
	"errors"

	"github.com/orrery-go/orrery/core"
)

// Calendars are the calls for calendars, which say when the schedules of a tenant that name them
// dispatch nothing.
type Calendars struct {
	NamedMachines[core.Calendar, core.CalendarEvent]
}

// Calendars gives the calls for calendars.
func (e *Engine) Calendars() Calendars {
	return Calendars{NamedMachines[core.Calendar, core.CalendarEvent]{e, core.KindCalendar, core.CalendarRef}}
}

// Create makes a calendar. The error is a [*Refusal] where the spec is wrong, or the tenant has a
// calendar of that name.
func (c Calendars) Create(ctx context.Context, spec core.CalendarSpec) (core.Calendar, error) {
	return c.Send(ctx, Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}, spec.Name, core.CalendarCreate{Spec: spec})
}

// Update changes a calendar, and answers with what it is then. It holds for all times that are
// decided from then on. The error is a [*Refusal] where there is no such calendar, or the change is
// wrong.
func (c Calendars) Update(ctx context.Context, s Scope, name string, patch core.CalendarPatch) (core.Calendar, error) {
	return c.Send(ctx, s, name, core.CalendarUpdate{Patch: patch})
}

// Delete ends a calendar that no schedule names. The error is a [*Refusal] if the tenant has none of
// that name, or a schedule names it.
func (c Calendars) Delete(ctx context.Context, s Scope, name string) error {
	_, err := c.Send(ctx, s, name, core.CalendarDelete{})
	return err
}

// Named reads the calendars of those names that exist, for the previews of a schedule.
func (c Calendars) Named(ctx context.Context, s Scope, names []string) (core.Calendars, error) {
	found := make(core.Calendars, len(names))
	for _, name := range names {
		calendar, err := c.Get(ctx, s, name)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return nil, err
		default:
			found[name] = calendar
		}
	}
	return found, nil
}
