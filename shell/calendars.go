package shell

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
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

// MovedSchedule is a schedule whose next times a change of a calendar has moved.
type MovedSchedule struct {
	Kind            effects.Kind   // [core.KindRecurring] or [core.KindJob]
	ID              uuid.UUID      // of a job its key
	Name            string         // a job's id; of a recurring action its description
	NextTimesBefore []effects.Time // at most [core.NextTimesShown]
	NextTimes       []effects.Time
}

// CalendarChange says what a change of a calendar means for the schedules that name it.
type CalendarChange struct {
	Calendar core.Calendar
	Moved    []MovedSchedule // those of the first [MaxPage] schedules of each kind, by their next [core.NextTimesShown] times, as far as two seconds suffice
	More     bool            // there are more schedules, at which nobody looked
}

// maxMovedLook is how long a change of a calendar looks for the schedules that it moves.
const maxMovedLook = 2 * time.Second

// UpdateTelling is [Calendars.Update] with the event, and also says which schedules it moves.
func (c Calendars) UpdateTelling(ctx context.Context, s Scope, name string, e core.CalendarUpdate) (CalendarChange, error) {
	was, err := c.Get(ctx, s, name)
	if err != nil {
		return CalendarChange{}, err
	}
	is, err := c.Send(ctx, s, name, e)
	change := CalendarChange{Calendar: is}
	if err != nil || is.Revision == was.Revision {
		return change, err
	}
	now, began := effects.TimeOf(c.e.o.Clock.Now()), c.e.o.Clock.Steady()
	known := knownCalendars{of: c, scope: s, read: map[string]core.Calendars{}}
	looked := 0
	look := func(kind effects.Kind, id uuid.UUID, named string, calendars []string, upcoming func(core.Calendars) []effects.Time) error {
		if looked++; looked > 1 && c.e.o.Clock.Steady().Sub(began) > maxMovedLook { // one is always looked at
			change.More = true
			return nil
		}
		others, err := known.named(ctx, calendars)
		if err != nil {
			return err
		}
		m := MovedSchedule{Kind: kind, ID: id, Name: named}
		others[name] = was
		m.NextTimesBefore = upcoming(others)
		others[name] = is
		if m.NextTimes = upcoming(others); !slices.Equal(m.NextTimes, m.NextTimesBefore) {
			change.Moved = append(change.Moved, m)
		}
		return nil
	}
	term := core.TermWithin(core.CalendarTerm(name), s)
	recurring, more, err := page[core.RecurringAction](ctx, c.e.store, newest(core.KindRecurring, term), Page{Limit: MaxPage}, nil)
	if err != nil {
		return change, err
	}
	change.More = change.More || more != ""
	for _, r := range recurring {
		if err := look(core.KindRecurring, r.ID, r.Description, r.Calendars, func(of core.Calendars) []effects.Time { return r.Upcoming(now, core.NextTimesShown, of) }); err != nil {
			return change, err
		}
	}
	jobs, more, err := page[core.Job](ctx, c.e.store, newest(core.KindJob, term), Page{Limit: MaxPage}, nil)
	if err != nil {
		return change, err
	}
	change.More = change.More || more != ""
	for _, j := range jobs {
		if err := look(core.KindJob, j.Key, j.ID, j.Calendars, func(of core.Calendars) []effects.Time { return j.Upcoming(now, core.NextTimesShown, of) }); err != nil {
			return change, err
		}
	}
	return change, nil
}

// knownCalendars reads each calendar of a tenant once, for all schedules that name it.
type knownCalendars struct {
	of    Calendars
	scope Scope
	read  map[string]core.Calendars // by name: the calendar, or none if it does not exist
}

// named gives those of the names that exist.
func (k knownCalendars) named(ctx context.Context, names []string) (core.Calendars, error) {
	all := make(core.Calendars, len(names))
	for _, name := range names {
		found, known := k.read[name]
		if !known {
			var err error
			if found, err = k.of.Named(ctx, k.scope, []string{name}); err != nil {
				return nil, err
			}
			k.read[name] = found
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// Delete ends a calendar that no schedule names. The error is a [*Refusal] if the tenant has none of
// that name, or a schedule names it.
func (c Calendars) Delete(ctx context.Context, s Scope, name string) error {
	_, err := c.Send(ctx, s, name, core.CalendarDelete{})
	return err
}

// ForceDelete ends a calendar although schedules name it: they skip all their times from then on.
func (c Calendars) ForceDelete(ctx context.Context, s Scope, name string) error {
	_, err := c.Send(ctx, s, name, core.CalendarDelete{Force: true})
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
