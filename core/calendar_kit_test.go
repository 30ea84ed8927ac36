package core_test

import (
	"math"

	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
)

// holidays is a calendar of the tests.
func holidays() core.CalendarSpec {
	return core.CalendarSpec{
		Namespace: "dev", Tenant: "tenant-1", Name: "holidays-de", Timezone: "Europe/Berlin", Description: "public <holidays>",
		Exclude: core.CalendarDays{
			Dates: []core.CalendarDate{
				{Date: "2026-12-24", To: "2026-12-26", Name: "Christmas"}, {Date: "2026-04-03"}, {Date: "2026-10-03", Name: "German Unity Day"},
			},
			Weekly: []core.CalendarWindow{{Days: []string{"fri", "Wed"}, From: "22:00", To: "02:00", Name: "maintenance"}},
		},
		Include: core.CalendarDays{Weekly: []core.CalendarWindow{{Days: []string{"mon", "tue", "wed", "thu", "fri"}}, {Days: []string{"sat"}, From: "09:00", To: "13:30"}}},
	}
}

// weekend is a calendar without dates, which never runs out.
func weekend() core.CalendarSpec {
	return core.CalendarSpec{Name: "weekend", Exclude: core.CalendarDays{Weekly: []core.CalendarWindow{{Days: []string{"sat", "sun"}}}}}
}

func madeCalendar(spec core.CalendarSpec) core.Calendar {
	c, _ := core.Calendar{}.Apply(core.CalendarCreate{Spec: spec}, core.Clock{Now: start})
	return c
}

func calendarStates() []core.State {
	zone, none := "US/Eastern", core.CalendarDays{}
	moved, _ := madeCalendar(holidays()).Apply(core.CalendarUpdate{Patch: core.CalendarPatch{Timezone: &zone, Include: &none}}, core.Clock{Now: start.Add(1500)})
	return []core.State{madeCalendar(holidays()), madeCalendar(weekend()), moved}
}

func calendarEvents() []core.Event {
	zone, text, days, none := "US/Eastern", "<d>", holidays().Exclude, core.CalendarDays{}
	return []core.Event{
		core.CalendarCreate{Spec: holidays()}, core.CalendarCreate{Spec: weekend()}, core.CalendarUpdate{},
		core.CalendarUpdate{Patch: core.CalendarPatch{Timezone: &zone, Description: &text, Exclude: &days, Include: &none}, Revision: 3},
		core.CalendarDelete{}, core.CalendarDelete{Force: true}, core.CalendarUse{N: 1}, core.CalendarUse{N: -1},
	}
}

func drawCalendarDate(t *rapid.T) core.CalendarDate {
	date := rapid.SampledFrom([]string{"2026-02-09", "2026-02-10", "2026-02-11", "2026-03-29", "2026-10-25", "2026-12-31", "2027-01-02", "2027-01-01"})
	odd := rapid.SampledFrom([]string{"", "x", "2026-02-30", "1969-12-31", "9999-12-31", "2026-2-1", "\xff"})
	d := core.CalendarDate{Date: date.Draw(t, "date"), Name: rapid.SampledFrom([]string{"", "", "feast"}).Draw(t, "name")}
	switch rapid.IntRange(0, 20).Draw(t, "odd date") {
	case 0:
		d.Date = odd.Draw(t, "date")
	case 1:
		d.To = odd.Draw(t, "to")
	case 2:
		d.Name = drawText(t, "name")
	case 3, 4, 5, 6, 7, 8, 9:
		if to := date.Draw(t, "to"); to >= d.Date {
			d.To = to
		}
	}
	return d
}

func drawCalendarWindow(t *rapid.T) core.CalendarWindow {
	clock := rapid.SampledFrom([]string{"", "00:00", "00:01", "02:30", "09:00", "13:30", "23:59"})
	w := core.CalendarWindow{
		Days: rapid.SliceOfN(rapid.SampledFrom([]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun", "Sun"}), 0, 4).Draw(t, "days"),
		From: clock.Draw(t, "from"), To: clock.Draw(t, "to"), Name: rapid.SampledFrom([]string{"", "", "night"}).Draw(t, "name"),
	}
	switch rapid.IntRange(0, 20).Draw(t, "odd window") {
	case 0:
		w.Days = append(w.Days, rapid.SampledFrom([]string{"", "monday", "\xff"}).Draw(t, "day"))
	case 1:
		w.From = rapid.SampledFrom([]string{"9:00", "24:00", "25:00", "\xff"}).Draw(t, "from")
	case 2:
		w.To = "24:00"
	}
	return w
}

func drawCalendarDays(t *rapid.T, label string) core.CalendarDays {
	return core.CalendarDays{
		Dates:  rapid.SliceOfN(rapid.Custom(drawCalendarDate), 0, 4).Draw(t, label+" dates"),
		Weekly: rapid.SliceOfN(rapid.Custom(drawCalendarWindow), 0, 3).Draw(t, label+" windows"),
	}
}

func drawCalendarZone(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe", "America/St_Johns", "berlin"}).Draw(t, "zone")
}

func drawCalendarSpec(t *rapid.T) core.CalendarSpec {
	return core.CalendarSpec{
		Name: drawLockName(t), Timezone: drawCalendarZone(t), Description: rapid.SampledFrom([]string{"", "about"}).Draw(t, "description"),
		Exclude: drawCalendarDays(t, "exclude"), Include: drawCalendarDays(t, "include"),
	}
}

func drawCalendarEvent(t *rapid.T, s core.State, _ core.Clock) core.Event {
	switch rapid.SampledFrom([]string{"create", "update", "update", "update", "use", "delete"}).Draw(t, "event") {
	case "update":
		e := core.CalendarUpdate{}
		if rapid.Bool().Draw(t, "zone too") {
			zone := drawCalendarZone(t)
			e.Patch.Timezone = &zone
		}
		if rapid.Bool().Draw(t, "text too") {
			text := drawText(t, "description")
			e.Patch.Description = &text
		}
		if rapid.Bool().Draw(t, "days too") {
			exclude, include := drawCalendarDays(t, "exclude"), drawCalendarDays(t, "include")
			e.Patch.Exclude, e.Patch.Include = &exclude, &include
		}
		e.Revision = rapid.SampledFrom([]uint64{0, 0, 1, s.(core.Calendar).Revision}).Draw(t, "revision")
		return e
	case "use":
		return core.CalendarUse{N: rapid.SampledFrom([]int64{1, 1, -1, 0, math.MaxInt64, math.MinInt64}).Draw(t, "n")}
	case "delete":
		return core.CalendarDelete{Force: rapid.Bool().Draw(t, "force")}
	}
	return core.CalendarCreate{Spec: drawCalendarSpec(t)}
}

func hostileCalendar(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	return core.Calendar{
		CalendarSpec: drawCalendarSpec(t), ID: drawID(t, "id"), CreatedAt: drawTime(t, c), UpdatedAt: drawTime(t, c),
		Revision: rapid.SampledFrom([]uint64{0, 1, 1<<64 - 1}).Draw(t, "revision"),
	}
}

var _ = register(core.KindCalendar, kit{
	typ: "Calendar", absent: core.Calendar{}, apply: applying(core.Calendar.Apply),
	made: func() core.State { return madeCalendar(weekend()) }, hostile: hostileCalendar, draw: drawCalendarEvent, own: core.CalendarDelete{},
	states: calendarStates, events: calendarEvents,
	phase: func(core.State) string { return "there" }, phases: []string{"absent", "there"},
	invariants: []invariant{
		on("Namespace, tenant and name never change.", func(_ step, b, a core.Calendar) string {
			same := a.Name == b.Name && a.Tenant == b.Tenant && a.Namespace == b.Namespace && a.ID == b.ID
			return unless(!exists(a) || !exists(b) || same, "%s → %s", b.Name, a.Name)
		}),
		on("Each change of what it leaves out raises Revision by one; an update that changes nothing leaves the record as it was.", func(s step, b, a core.Calendar) string {
			if use, ok := s.event.(core.CalendarUse); ok {
				uses := a.Uses
				a.Uses = b.Uses
				return unless(encoded(a) == encoded(b) && (uses >= b.Uses) == (use.N >= 0 || b.Uses == 0), "%d → %d by %d", b.Uses, uses, use.N)
			}
			same := encoded(b) == encoded(a)
			return unless(!exists(a) || same || a.Revision == b.Revision+1 || b.Revision == 1<<64-1, "%d → %d", b.Revision, a.Revision)
		}),
		on("Only a forced deletion ends one that a schedule names.", func(s step, b, a core.Calendar) string {
			e, _ := s.event.(core.CalendarDelete)
			return unless(exists(a) || !exists(b) || b.Uses == 0 || e.Force, "gone, and %d name it", b.Uses)
		}),
		on("What is taken can be read: it names no instant for which it cannot say whether it leaves it out.", func(s step, _, a core.Calendar) string {
			taken := refusal(s.effs) == nil && exists(a)
			return unless(!taken || a.Validate() == nil, "%s", a.Validate())
		}),
	},
})
