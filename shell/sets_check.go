package shell

import (
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// CheckSet says what is wrong with declarations by themselves. What they name that none of them declares, such as a calendar, it
// takes for there, and notes it. Which tools there are, and what a runner can run, only an engine knows. now is when they would
// be applied.
//
// The changes are those of a set where nothing exists, one for each declaration, in their order. The error is a [SetErrors] with
// all that is refused; the changes of these are [SetRefuses].
func CheckSet(entries []SetEntry, now core.Time) ([]SetChange, error) {
	if len(entries) > MaxSetEntries {
		return nil, tooManyEntries(len(entries))
	}
	wrong := checkForms(entries)
	var sound []SetEntry
	var at []int // where they stand
	for i, e := range entries {
		if wrong[i] == nil {
			sound, at = append(sound, e), append(at, i)
		}
	}
	p := &setPlan{set: "check", now: now, alone: true}
	if err := p.declare(noStates{}, sound); err != nil {
		return nil, err
	}
	if err := p.noteReferences(sound); err != nil {
		return nil, err
	}
	changes := make([]SetChange, len(entries))
	for i, e := range wrong { // order-free: each into its place
		kind, of, name := entries[i].About()
		changes[i] = SetChange{Action: SetRefuses, Kind: kind, Namespace: of.Namespace, Tenant: of.Tenant, Name: name, File: entries[i].File, Notes: []string{e.Err.Error()}}
	}
	for j, i := range at {
		changes[i] = p.changes[j]
		if e := p.wrong[j]; e != nil {
			wrong[i] = e
		}
	}
	if len(wrong) > 0 {
		return changes, inOrder(wrong)
	}
	return changes, nil
}

func tooManyEntries(n int) error {
	return wrongSet(effects.CodeInvalid, "set: %d declarations are more than %d: split it", n, MaxSetEntries)
}

// suppose makes the calendars that declarations name, and none declares.
func (p *setPlan) suppose(entries []SetEntry) {
	declared := map[effects.Ref]bool{}
	p.supposed = map[effects.Ref]bool{}
	for _, e := range entries {
		if e.Calendar != nil {
			declared[core.CalendarRef(e.Calendar.Namespace, e.Calendar.Tenant, e.Calendar.Name)] = true
		}
	}
	for _, e := range entries {
		of, names := e.calendars()
		for _, name := range names {
			if ref := core.CalendarRef(of.Namespace, of.Tenant, name); !declared[ref] {
				declared[ref] = true
				p.supposed[ref] = true
				create := core.CalendarCreate{Spec: core.CalendarSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: name}}
				_, _ = p.try(core.Input{To: ref, Actor: "check", Event: create}) // a name that is none is refused where it stands
			}
		}
	}
}

// calendars gives those that a declaration names, and whose they are.
func (e *SetEntry) calendars() (of Scope, names []string) {
	_, of, _ = e.About()
	switch {
	case e.Recurring != nil:
		names = e.Recurring.Calendars
	case e.Job != nil:
		names = e.Job.Calendars
	}
	return of, names
}

// noteSupposed notes the calendars of a declaration that were taken for there.
func (p *setPlan) noteSupposed(e *SetEntry, c *SetChange) {
	of, names := e.calendars()
	for _, name := range names {
		if p.supposed[core.CalendarRef(of.Namespace, of.Tenant, name)] {
			c.Notes = append(c.Notes, fmt.Sprintf("calendar %q is in none of these files: the daemon must have it", name))
		}
	}
}

// noStates is a store in which nothing is.
type noStates struct{}

// Load: see [core.Loader].
func (noStates) Load(effects.Ref) (core.State, error) { return nil, nil }

// Scan: see [core.Loader].
func (noStates) Scan(effects.Kind, string, core.Cursor, int) ([]core.Cursor, error) { return nil, nil }
