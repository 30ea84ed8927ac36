package page

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func calendarViews() []viewRoute {
	return []viewRoute{
		{"/calendars", "/calendars", (*visit).calendars},
		{"/calendars/{name}", "/calendars", (*visit).calendarNamed},
	}
}

func (q *visit) calendars() (view, error) {
	var got wire.CalendarList
	t, err := q.read(list{
		api: "/calendars", path: "/calendars", caption: "Calendars by name",
		head:  []string{"Calendar", "Zone", "Dates", "Last date", "Schedules", "Warnings", "Tenant"},
		empty: "There is no calendar. A calendar says at which times the schedules that name it do not fire, such as on holidays: the button above makes one.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, c := range got.Calendars {
		warnings := cell{Text: clip(strings.Join(c.Warnings, "; "), 300), Tone: toneWait}
		t.Rows = append(t.Rows, []cell{
			codeOf(c.Name).to(q.scoped(pathOf("calendars", c.Name), c.Namespace, c.Tenant)).wide(), codeOf(c.Timezone), number(len(c.Exclude.Dates) + len(c.Include.Dates)),
			textOf(c.LastDate), number(c.Uses), warnings, whose(c.Namespace, c.Tenant),
		})
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Calendars", Acts: q.actLinks("/calendars", "new"), Body: []block{{Table: t}}}, nil
}

func (q *visit) loadCalendar() (c wire.Calendar, err error) {
	return c, q.get(pathOf("calendars", q.PathValue("name")), q.scopeQuery(), &c)
}

func (q *visit) calendarNamed() (view, error) {
	c, err := q.loadCalendar()
	if err != nil {
		return view{}, err
	}
	v := view{Kind: "Calendar", Title: c.Name, Crumbs: []link{{Text: "Calendars", Href: q.page("/calendars")}}, Acts: q.actLinks("/calendars/{name}", "edit", "delete"), More: []link{q.changesLink(core.KindCalendar, c.ID.String())}}
	for _, w := range c.Warnings {
		v.Body = append(v.Body, whyNotice(w, toneWait)...)
	}
	v.Body = append(v.Body, block{Facts: facts(
		fact{"Description", textOf(c.Description)}, fact{"Zone", codeOf(c.Timezone)}, fact{"Last date", textOf(c.LastDate)}, fact{"Schedules that name it", number(c.Uses)},
		fact{"Revision", number(c.Revision)}, fact{"Whose", whose(c.Namespace, c.Tenant)}, q.declaredFact(c.Declared), fact{"Created", q.at(c.CreatedAt)}, fact{"Changed", q.at(c.UpdatedAt)},
	)})
	v.Body = append(v.Body, daysBlocks("Left out", "Schedules that name the calendar do not fire then.", c.Exclude)...)
	v.Body = append(v.Body, daysBlocks("Let in", "Only then they fire, unless it is left out.", c.Include)...)
	return v, nil
}

func daysBlocks(title, note string, d core.CalendarDays) (out []block) {
	if len(d.Dates) > 0 {
		t := &table{Caption: title + ": dates", Head: []string{"Date", "To", "Name"}}
		for _, e := range d.Dates {
			t.Rows = append(t.Rows, []cell{textOf(e.Date), textOf(e.To), textOf(e.Name).wide()})
		}
		out = append(out, block{Title: title + ": dates", Note: note, Table: t})
	}
	if len(d.Weekly) > 0 {
		t := &table{Caption: title + ": each week", Head: []string{"Days", "From", "To", "Name"}}
		for _, w := range d.Weekly {
			days := "each"
			if len(w.Days) > 0 {
				days = strings.Join(w.Days, ", ")
			}
			t.Rows = append(t.Rows, []cell{textOf(days), textOf(cmp.Or(w.From, "00:00")), textOf(cmp.Or(w.To, "24:00")), textOf(w.Name).wide()})
		}
		out = append(out, block{Title: title + ": each week", Note: note, Table: t})
	}
	if len(out) == 0 && title == "Left out" {
		out = []block{{Title: title, Empty: "Nothing is left out."}}
	}
	return out
}

func calendarActs() []act {
	const on, api = "/calendars/{name}", "/v1/calendars/{name}"
	return []act{
		{
			on: "/calendars", name: "new", at: "/new-calendar", method: "POST", api: "/v1/calendars", label: "New calendar", main: true, done: "The calendar was made.",
			says: "Schedules that name it do not fire at the times that it leaves out.", load: (*visit).newCalendar, amend: amendCalendar,
			after: func(q *visit, _ *answer) string {
				return q.scoped(pathOf("calendars", q.PostForm.Get("name")), q.PostForm.Get("namespace"), q.PostForm.Get("tenant"))
			},
		},
		{
			on: on, name: "edit", method: "PUT", api: api, label: "Edit", main: true, done: "The calendar was changed.", load: (*visit).editCalendar, amend: amendCalendar,
			says: "The schedules that name it are decided by it from now on.",
		},
		{
			on: on, name: "delete", method: "DELETE", api: api, label: "Delete", danger: true, done: "The calendar was deleted.",
			says: "A calendar that a schedule names is kept unless you choose otherwise.", params: []string{"force"}, notes: (*visit).calendarUses,
			fields: []field{{Name: "force", Label: "Delete it although schedules name it", Type: fieldCheck, Help: "They fire then as if it left nothing out."}},
			after:  func(q *visit, _ *answer) string { return q.page("/calendars") },
		},
	}
}

func (q *visit) calendarUses() ([]block, error) {
	c, err := q.loadCalendar()
	if err != nil || c.Uses == 0 {
		return nil, err
	}
	return whyNotice(strconv.FormatUint(c.Uses, 10)+" schedules name it.", toneWait), nil
}

// The lines in which a form has the days of a calendar.
const (
	dateHelp = "One a line: 2026-12-25 Christmas, or several in a row: 2026-12-24..2026-12-26 Christmas."
	weekHelp = "One a line: mon,tue,wed,thu,fri 09:00-17:00 Office hours. Without days: each day."
)

func calendarFields() []field {
	return []field{
		{Name: "timezone", Label: "Time zone", Help: "Such as Europe/Berlin; left out: UTC."},
		{Name: "description", Label: "Description"},
		{Name: "exclude.dates", Label: "Dates that are left out", Type: fieldArea, Help: dateHelp},
		{Name: "exclude.weekly", Label: "Left out each week", Type: fieldArea, Help: weekHelp},
		{Name: "include.dates", Label: "Dates that are let in", Type: fieldArea, Help: "If anything is let in, all else is left out. " + dateHelp},
		{Name: "include.weekly", Label: "Let in each week", Type: fieldArea, Help: weekHelp},
	}
}

func (q *visit) newCalendar() ([]field, error) {
	return append(append([]field{{Name: "name", Label: "Name", Required: true}}, calendarFields()...), q.scopeFields()...), nil
}

func (q *visit) editCalendar() ([]field, error) {
	c, err := q.loadCalendar()
	values := []string{c.Timezone, c.Description, dateLines(c.Exclude), weekLines(c.Exclude), dateLines(c.Include), weekLines(c.Include)}
	fields := calendarFields()
	for i := range fields {
		fields[i].Value = values[i]
	}
	return fields, err
}

func dateLines(d core.CalendarDays) string {
	var out []string
	for _, e := range d.Dates {
		line := e.Date
		if e.To != "" {
			line += ".." + e.To
		}
		out = append(out, strings.TrimSpace(line+" "+e.Name))
	}
	return strings.Join(out, "\n")
}

func weekLines(d core.CalendarDays) string {
	var out []string
	for _, w := range d.Weekly {
		line := strings.Join(w.Days, ",") + " " + cmp.Or(w.From, "00:00") + "-" + cmp.Or(w.To, "24:00") + " " + w.Name
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

// amendCalendar reads the lines of the form. An edit clears what was emptied: what is left out of the API's body would stay.
func amendCalendar(q *visit, body map[string]any, form url.Values) error {
	for _, which := range []string{"exclude", "include"} {
		weekly, err := readWeekly(form.Get(which + ".weekly"))
		if err != nil {
			return err
		}
		body[which] = core.CalendarDays{Dates: readDates(form.Get(which + ".dates")), Weekly: weekly}
	}
	if q.PathValue("name") == "" {
		return nil
	}
	if _, given := body["timezone"]; !given {
		body["timezone"] = "UTC"
	}
	if _, given := body["description"]; !given {
		body["description"] = nil
	}
	return nil
}

func readDates(s string) (out []core.CalendarDate) {
	for _, line := range nonEmpty(strings.Split(s, "\n")) {
		days, name, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(days, "..")
		out = append(out, core.CalendarDate{Date: from, To: to, Name: strings.TrimSpace(name)})
	}
	return out
}

// weekLine is a line of a form: days, a span, a name.
var weekLine = regexp.MustCompile(`^(?:([A-Za-z][A-Za-z, ]*?)\s+)?(\d\d:\d\d)\s*-\s*(\d\d:\d\d)(?:\s+(.*))?$`)

func readWeekly(s string) (out []core.CalendarWindow, err error) {
	for _, line := range nonEmpty(strings.Split(s, "\n")) {
		m := weekLine.FindStringSubmatch(line)
		if m == nil {
			return nil, &apiError{Status: http.StatusBadRequest, Text: strconv.Quote(clip(line, 100)) + " is not a span of the week such as mon,tue 09:00-17:00 Office hours"}
		}
		out = append(out, core.CalendarWindow{Days: strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' }), From: m[2], To: m[3], Name: m[4]})
	}
	return out, nil
}
