package page

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// occurrences lists what was decided about the times of all schedules.
func (q *visit) occurrences() (view, error) {
	verdicts := []string{""}
	for _, v := range core.Verdicts() {
		verdicts = append(verdicts, string(v))
	}
	var got wire.OccurrenceList
	t, err := q.read(list{
		api: "/occurrences", path: "/occurrences", caption: "Times of schedules, newest first",
		filters: []field{
			{Name: "schedule", Label: "Kind", Type: fieldChoice, Options: choice("", "recurring", "job", "action")},
			{Name: "name", Label: "Name"}, {Name: "verdict", Label: "What became of it", Type: fieldChoice, Options: choice(verdicts...)},
			{Name: "outcome", Label: "Outcome"}, {Name: "from", Label: "From", Type: fieldTime}, {Name: "to", Label: "To", Type: fieldTime},
			{Name: "schedule_id", Label: "Id of the schedule"},
		},
		ordered: true,
		head:    []string{"Name", "Time", "What became of it", "Why", "Took", "Made", "Tenant"}, empty: "No time of a schedule has come yet.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, o := range got.Occurrences {
		t.Rows = append(t.Rows, append(append([]cell{q.scheduleLink(o)}, q.occurrenceCells(o)...), whose(o.Namespace, o.Tenant)))
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Times of schedules", Body: []block{{Table: t}}}, nil
}

// scheduleLink leads to the schedule of an entry.
func (q *visit) scheduleLink(o core.Occurrence) cell {
	id := o.RecurringID.String()
	if o.Schedule == core.KindJob {
		id = o.Name
	}
	return q.linkOfSchedule(o.Schedule, id, cmp.Or(o.Name, shortID(o.RecurringID.String())), o.Namespace, o.Tenant)
}

// upcomingLink leads to a schedule that is due.
func (q *visit) upcomingLink(u wire.UpcomingSchedule) cell {
	return q.linkOfSchedule(u.Kind, u.ID, u.Name, u.Namespace, u.Tenant)
}

// linkOfSchedule leads to a schedule of whatever kind; a job is known by its id within its tenant.
func (q *visit) linkOfSchedule(kind effects.Kind, id, name, namespace, tenant string) cell {
	c := textOf(clip(name, 120)).wide()
	switch kind {
	case core.KindJob:
		return c.to(q.scoped(pathOf("jobs", id), namespace, tenant))
	case core.KindAction:
		return c.to(q.page(pathOf("actions", id)))
	default:
		return c.to(q.page(pathOf("recurring", id)))
	}
}

// Bounds of the calendar.
const (
	calendarSchedules = 200 // whose times to come are looked at, those that fire first
	calendarTimes     = 100 // of one schedule in a day
	calendarLines     = 12  // of an hour; more of them are counted
	calendarEvery     = 60  // seconds after which it is loaded again: it asks much, so not whenever something changes
)

// dayTime is a time of a schedule in the calendar, or several that follow one another and of which the same became.
type dayTime struct {
	at   effects.Time
	n    uint64
	name cell
	what cell
}

// calendar shows one day in the zone that was chosen: of the hours that have passed what became of each time, of
// those to come what is to fire.
func (q *visit) calendar() (view, error) {
	today := q.now.In(q.zone)
	day := time.Date(today.Year(), today.Month(), today.Day(), 0, 0, 0, 0, q.zone)
	if given := q.URL.Query().Get("day"); given != "" {
		d, err := time.ParseInLocation(time.DateOnly, given, q.zone)
		if err != nil {
			return view{}, &apiError{Status: 400, Text: "day: " + strconv.Quote(clip(given, 40)) + " is not a date such as 2026-01-31"}
		}
		day = d
	}
	end := day.AddDate(0, 0, 1)
	past, more, err := q.pastTimes(day, end)
	if err != nil {
		return view{}, err
	}
	coming, cut, err := q.comingTimes(day, end)
	if err != nil {
		return view{}, err
	}
	all := past
	for _, t := range coming {
		if at := t.at.Std(); !at.Before(day) && at.Before(end) {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b dayTime) int { return cmp.Compare(a.at, b.at) })
	v := view{Every: calendarEvery, Title: "Calendar: " + day.Format("Monday, 2 January 2006")}
	v.More = []link{
		{Text: "The day before", Href: q.page("/calendar", "day", day.AddDate(0, 0, -1).Format(time.DateOnly))}, {Text: "Today", Href: q.page("/calendar")},
		{Text: "The day after", Href: q.page("/calendar", "day", end.Format(time.DateOnly))}, {Text: "All times that have passed", Href: q.page("/occurrences")},
	}
	v.Body = []block{q.hours(day, end, all)}
	if more {
		v.Body = append([]block{{Notice: &notice{Tone: toneWait, Text: "More times of this day have passed than are shown here: the list of all times has them."}}}, v.Body...)
	}
	if cut {
		v.Body = append([]block{{Notice: &notice{Tone: toneWait, Text: "Some schedules, or some of their times, are not shown: more than " + strconv.Itoa(calendarSchedules) + " schedules fire, or one fires more than " + strconv.Itoa(calendarTimes) + " times."}}}, v.Body...)
	}
	return v, nil
}

// hours parts the times of a day by hours; where an hour has too many for lines they are counted by schedule.
func (q *visit) hours(day, end time.Time, all []dayTime) block {
	t := &table{Caption: "Times of the day", Head: []string{"Time", "Schedule", "What became of it"}, Empty: "No schedule fires on this day."}
	for from := day; from.Before(end); from = from.Add(time.Hour) {
		var hour []dayTime
		for len(all) > 0 && all[0].at.Std().Before(from.Add(time.Hour)) {
			hour, all = append(hour, all[0]), all[1:]
		}
		if len(hour) <= calendarLines {
			for _, h := range hour {
				t.Rows = append(t.Rows, []cell{q.at(h.at), h.name, h.what})
			}
			continue
		}
		t.Rows = append(t.Rows, q.countedHour(from, hour)...)
	}
	return block{Table: t}
}

// countedHour gives a row for each schedule of an hour.
func (q *visit) countedHour(from time.Time, hour []dayTime) (rows [][]cell) {
	type sum struct {
		name  cell
		words map[string]uint64
	}
	var order []string
	sums := make(map[string]*sum)
	for _, h := range hour {
		key := h.name.Href
		if sums[key] == nil {
			sums[key] = &sum{h.name, make(map[string]uint64)}
			order = append(order, key)
		}
		sums[key].words[h.what.Text] += h.n
	}
	for _, key := range order {
		s := sums[key]
		var c cell
		for _, word := range slices.Sorted(maps.Keys(s.words)) {
			part := badge(word)
			part.Hint = "× " + strconv.FormatUint(s.words[word], 10)
			c.More = append(c.More, part)
		}
		at := textOf(from.In(q.zone).Format("15:04") + " to " + from.Add(time.Hour).In(q.zone).Format("15:04 ") + zoneName(from.In(q.zone)))
		rows = append(rows, []cell{at, s.name, c})
	}
	return rows
}

// pastTimes gives what was decided about the times of a day, and whether there is more.
func (q *visit) pastTimes(day, end time.Time) (out []dayTime, more bool, err error) {
	if day.After(q.now) {
		return nil, false, nil
	}
	var got wire.OccurrenceList
	params := url.Values{"from": {effects.TimeOf(day).String()}, "to": {effects.TimeOf(end).String()}, "limit": {"1000"}}
	if err := q.get("/occurrences", params, &got); err != nil {
		return nil, false, err
	}
	for _, o := range got.Occurrences {
		what := verdict(o)
		if o.Outcome != "" {
			what = badge(o.Outcome)
		}
		if o.Count > 1 {
			what.Hint = strconv.FormatUint(o.Count, 10) + " times"
		}
		out = append(out, dayTime{o.DueAt, max(o.Count, 1), q.scheduleLink(o), what})
	}
	return out, got.NextPageToken != "", nil
}

// comingTimes gives what is to fire in a day.
func (q *visit) comingTimes(day, end time.Time) (out []dayTime, cut bool, err error) {
	if end.Before(q.now) {
		return nil, false, nil
	}
	var next wire.UpcomingList
	params := url.Values{
		"from": {effects.TimeOf(day).String()}, "until": {effects.TimeOf(end).String()}, "limit": {strconv.Itoa(calendarSchedules)}, "times": {strconv.Itoa(calendarTimes)},
	}
	if err := q.get("/upcoming", params, &next); err != nil {
		return nil, false, err
	}
	cut = next.More
	for _, u := range next.Schedules {
		name := q.upcomingLink(u)
		for _, at := range u.Times {
			out = append(out, dayTime{at, 1, name, badge("to come")})
		}
		cut = cut || u.MoreTimes
	}
	return out, cut, nil
}
