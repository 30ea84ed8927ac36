package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Calendar says at which instants the schedules that name it dispatch nothing: on named dates
// and in weekly windows, as the clocks of its zone show them. It belongs to a tenant, and is
// known by its name.
//
//	(absent) ── create ──▶ there ◀──┐
//	    ▲                   │  └────┘ update
//	    └───── delete ──────┘
//
// Invariants, held by property tests:
//   - Namespace, tenant and name never change.
//   - Each change of what it leaves out raises Revision by one; an update that changes nothing
//     leaves the record as it was.
//   - Only a forced deletion ends one that a schedule names.
//   - What is taken can be read: it names no instant for which it cannot say whether it leaves it out.
type Calendar struct {
	CalendarSpec
	ID        uuid.UUID `json:"id"`
	Revision  uint64    `json:"revision"` // 1 when it is made
	CreatedAt Time      `json:"created_at"`
	UpdatedAt Time      `json:"updated_at"`
	// Uses is how many schedules name it.
	Uses uint64 `json:"uses,omitempty"`

	compiled *calendarTable // of the spec: derived, never stored
}

// CalendarRef names the calendar of that name.
func CalendarRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindCalendar, ID: namedID("calendar", namespace, tenant, name)}
}

// calendarTransition is the application of one event to a calendar.
type calendarTransition struct {
	transition
	Calendar
}

// Apply carries out one transition.
func (c Calendar) Apply(e CalendarEvent, clock Clock) (Calendar, []effects.Effect) {
	t := &calendarTransition{transition{clock: clock, event: e}, c}
	if create, ok := e.(CalendarCreate); ok {
		t.create(create)
		return concluded(c, t.Calendar, t.transition)
	}
	if c.ID == uuid.Nil {
		return c, refused(c.Ref(), e, effects.CodeNotFound, "there is no such calendar")
	}
	switch e := e.(type) {
	case CalendarUpdate:
		t.update(e)
	case CalendarUse:
		t.use(e)
	case CalendarDelete:
		t.remove(e)
	case CalendarCreate: // above
	}
	return concluded(c, t.Calendar, t.transition)
}

// create: (absent) → there.
func (t *calendarTransition) create(e CalendarCreate) {
	if t.ID != uuid.Nil {
		t.refuse(effects.CodeExists, "name: calendar %q is there already: update it, or take another name", clip(t.Name))
		return
	}
	spec := e.Spec.normal()
	table, err := spec.compile()
	if t.invalid(err) {
		return
	}
	t.Calendar = Calendar{
		CalendarSpec: spec, ID: CalendarRef(spec.Namespace, spec.Tenant, spec.Name).ID,
		Revision: 1, CreatedAt: t.clock.Now, UpdatedAt: t.clock.Now, compiled: table,
	}
	t.tell("created")
	t.answer(t.Calendar)
}

// update: there → there. It holds for what is decided from then on (R18).
func (t *calendarTransition) update(e CalendarUpdate) {
	spec := e.Patch.apply(t.CalendarSpec).normal()
	table, err := spec.compile()
	if t.invalid(err) {
		return
	}
	if e.Revision != 0 && e.Revision != t.Revision {
		t.conflict("revision: calendar %q is at revision %d, not %d: look at it again", clip(t.Name), t.Revision, e.Revision)
		return
	}
	if !spec.equal(t.CalendarSpec) {
		t.CalendarSpec, t.compiled = spec, table
		t.Revision, t.UpdatedAt = saturatingAdd(t.Revision, 1), t.clock.Now
		t.tell("updated")
	}
	t.answer(t.Calendar)
}

// use: a schedule names the calendar from now on, or no longer.
func (t *calendarTransition) use(e CalendarUse) {
	switch {
	case e.N > 0:
		t.Uses = saturatingAdd(t.Uses, uint64(e.N))
	case e.N < 0:
		t.Uses -= min(t.Uses, uint64(-e.N))
	}
}

// remove: there → (absent), unless a schedule names it.
func (t *calendarTransition) remove(e CalendarDelete) {
	if t.Uses > 0 && !e.Force {
		by := "1 schedule names"
		if t.Uses > 1 {
			by = fmt.Sprintf("%d schedules name", t.Uses)
		}
		t.conflict("%s calendar %q: take it out of them first, or force it: they skip all their times then", by, clip(t.Name))
		return
	}
	t.tell("deleted")
	t.Calendar = Calendar{}
}

// tell announces what became of the calendar. Its category is one that has always been reserved:
// in older journals others announce events of a category "calendar".
func (t *calendarTransition) tell(what string) {
	t.announce("scheduler", "calendar", "calendar_"+what, t.ID, announcementData(struct {
		Name     string `json:"name"`
		Revision uint64 `json:"revision"`
	}{t.Name, t.Revision}))
}

// LeavesOut says why schedules that name the calendar dispatch nothing at an instant; empty: it
// lets them.
func (c Calendar) LeavesOut(at Time) string {
	table, err := c.table()
	if err != nil { // stored by a build that took it: nobody can say which times it leaves out
		return fmt.Sprintf("calendar %s cannot be read: %s", c.Name, err)
	}
	if why := table.leavesOut(at); why != "" {
		return "calendar " + c.Name + " " + why
	}
	return ""
}

// leftOutUntil gives an instant before which, from the given one on, the calendar leaves out all
// instants; zero: it does not leave out the given one.
func (c Calendar) leftOutUntil(at Time) Time {
	table, err := c.table()
	if err != nil {
		return effects.MaxTime + 1
	}
	return table.leftOutUntil(at)
}

// CalendarNoticeDays is how long before its last date a calendar says that it runs out.
const CalendarNoticeDays = 31

// RunsOut says that the last date of the calendar is less than [CalendarNoticeDays] ahead of an
// instant, or past; empty: it is not, or the calendar has no dates.
func (c Calendar) RunsOut(at Time) string {
	table, err := c.table()
	if err != nil || table.end.IsZero() || betweenMS(at, table.end) >= CalendarNoticeDays*dayMS {
		return ""
	}
	return fmt.Sprintf("calendar %s runs out: its last date is %s: add the dates that follow", c.Name, dateText(table.lastDay))
}

// LastDate gives the last of the calendar's dates, such as "2026-12-26"; empty: it has none.
func (c Calendar) LastDate() string {
	table, err := c.table()
	if err != nil || table.end.IsZero() {
		return ""
	}
	return dateText(table.lastDay)
}

func (c Calendar) table() (*calendarTable, error) {
	if c.compiled != nil {
		return c.compiled, nil
	}
	return c.compile()
}

// Ref names the calendar.
func (c Calendar) Ref() effects.Ref { return refOf(KindCalendar, c.ID) }

// Deadline is zero: a calendar waits for nothing.
func (c Calendar) Deadline() Time { return 0 }

// Terms lists the calendar under all, and under all of its tenant.
func (c Calendar) Terms() []effects.Term {
	return listed(c.CreatedAt, TermOwn, c.scope())
}

// AppendJSON appends the stored form.
func (c Calendar) AppendJSON(b []byte) []byte { return appendMarshaled(b, c) }

// decodeCalendar reads the stored form, and keeps what follows from it beside it.
func decodeCalendar(b []byte) (State, error) {
	s, err := decodeStateAs[Calendar](b)
	c, ok := s.(Calendar)
	if err != nil || !ok {
		return s, err
	}
	if table, err := c.compile(); err == nil {
		c.compiled = table
	}
	return c, nil
}
