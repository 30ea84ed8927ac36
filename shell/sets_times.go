package shell

import (
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// noteTimes notes the next times of a schedule before and after the plan, if they are others: for what is changed of it, or
// of a calendar that it names. Calendars are planned before schedules.
func (p *setPlan) noteTimes(e *SetEntry, c *SetChange, before, after core.State) (err error) {
	edited := c.Action == SetCreates || c.Action == SetUpdates
	if edited && e.Calendar != nil {
		p.moved[c.Ref] = true
	}
	moved := p.onMoved(e)
	if !edited && !moved {
		return nil
	}
	if c.Before, c.After, err = p.times(before, after); err != nil {
		return err
	}
	if !edited && len(c.Before)+len(c.After) > 0 {
		c.Notes = append(c.Notes, "a calendar that it names changes its times")
	}
	return nil
}

// onMoved reports whether a declaration names a calendar that the plan changes.
func (p *setPlan) onMoved(e *SetEntry) bool {
	of, names := e.calendars()
	return slices.ContainsFunc(names, func(name string) bool { return p.moved[core.CalendarRef(of.Namespace, of.Tenant, name)] })
}

// times gives the next times of a schedule as they were and as the plan leaves them, if they are others.
func (p *setPlan) times(before, after core.State) (was, is []core.Time, err error) {
	if was, err = p.upcoming(before, p.stored.Load); err != nil {
		return nil, nil, err
	}
	if is, err = p.upcoming(after, p.batch.State); err != nil || slices.Equal(was, is) {
		return nil, nil, err
	}
	return was, is, nil
}

// upcoming gives the next times of a schedule with the calendars that load gives.
func (p *setPlan) upcoming(s core.State, load func(effects.Ref) (core.State, error)) ([]core.Time, error) {
	switch s := s.(type) {
	case core.RecurringAction:
		calendars, err := calendarsOf(s.Namespace, s.Tenant, s.Calendars, load)
		return s.Upcoming(p.now, core.NextTimesShown, calendars), err
	case core.Job:
		calendars, err := calendarsOf(s.Namespace, s.Tenant, s.Calendars, load)
		return s.Upcoming(p.now, core.NextTimesShown, calendars), err
	}
	return nil, nil
}

// calendarsOf gives those of the names that exist.
func calendarsOf(namespace, tenant string, names []string, load func(effects.Ref) (core.State, error)) (core.Calendars, error) {
	found := make(core.Calendars, len(names))
	for _, name := range names {
		s, err := load(core.CalendarRef(namespace, tenant, name))
		if err != nil {
			return nil, err
		}
		if c, ok := s.(core.Calendar); ok {
			found[name] = c
		}
	}
	return found, nil
}
