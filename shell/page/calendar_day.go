package page

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Bounds of the calendar.
const (
	calendarSchedules = 200 // whose times to come are looked at, those that fire first
	calendarTimes     = 100 // of one schedule in a day
	calendarLines     = 12  // of an hour; more of them are counted
	calendarEvery     = 60  // seconds after which it is loaded again: it asks much, so not whenever something changes
)

// dayTime is one time of a schedule in the calendar, or several that are one entry.
type dayTime struct {
	at, last effects.Time
	count    uint64
	name     cell
	what     cell
	why      string
	made     cell
	cut      bool // later ones of its schedule on this day are not shown
}

// calendarDay is a day in a zone: from its first instant to that of the next one.
type calendarDay struct {
	date     time.Time // in UTC: which day it is
	from, to time.Time
}

func dayOf(date time.Time, zone *time.Location) calendarDay {
	return calendarDay{date, startOfDay(date, zone), startOfDay(date.AddDate(0, 0, 1), zone)}
}

// beside gives the date of the day so many days later.
func (d calendarDay) beside(days int) string { return d.date.AddDate(0, 0, days).Format(time.DateOnly) }

// startOfDay gives the first instant of a day: midnight, but where the clocks skip or repeat that.
func startOfDay(date time.Time, zone *time.Location) time.Time {
	y, m, d := date.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	if t.Day() != d { // there is no midnight: the day begins where the clocks change
		if change, _ := time.Date(y, m, d, 12, 0, 0, 0, zone).ZoneBounds(); !change.IsZero() {
			return change
		}
	}
	if before := t.Add(-time.Hour); before.Day() == d { // midnight comes twice
		return before
	}
	return t
}

var calendarFilters = []field{ // read-only: a table
	{Name: "kind", Label: "Kind", Type: fieldChoice, Options: choice("", kindRecurring, kindJob, kindPeriodic)}, {Name: "name", Label: "Name"},
	scopeFilters[0], scopeFilters[1],
}

// calendar shows one day in the zone that was chosen: of the hours that have passed what became of each time, of
// those to come what is to fire.
func (q *visit) calendar() (view, error) {
	date := q.now.In(q.zone)
	f, asked, err := q.filtered("/calendar", append([]field{{Name: "day", Label: "Day, such as 2026-01-31"}}, calendarFilters...))
	if err != nil {
		return view{}, err
	}
	if given := asked.Get("day"); given != "" {
		if date, err = time.Parse(time.DateOnly, given); err != nil {
			return view{}, &apiError{Status: 400, Text: "day: " + strconv.Quote(clip(given, 40)) + " is not a date such as 2026-01-31"}
		}
	}
	day := dayOf(time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, time.UTC), q.zone)
	asked.Del("day")
	past, more, err := q.pastTimes(day, asked)
	if err != nil {
		return view{}, err
	}
	coming, cut, err := q.comingTimes(day, asked)
	if err != nil {
		return view{}, err
	}
	paused, err := q.pausedOn(day, asked)
	if err != nil {
		return view{}, err
	}
	v := view{Every: calendarEvery, Title: "Calendar: " + day.date.Format("Monday, 2 January 2006")}
	v.More = q.calendarLinks(day, asked)
	if more {
		v.Body = append(v.Body, block{Notice: &notice{Tone: toneWait, Text: "More times of this day have passed than are shown here: the list of its times has them."}})
	}
	if cut {
		v.Body = append(v.Body, block{Notice: &notice{Tone: toneWait, Text: "Some schedules, or some of their times, are not shown: more than " + strconv.Itoa(calendarSchedules) + " schedules fire, or one fires more than " + strconv.Itoa(calendarTimes) + " times."}})
	}
	within, beyond := day.parted(append(past, coming...))
	if len(beyond) > 0 {
		v.Body = append(v.Body, q.beyondDay(beyond))
	}
	if len(paused.Rows) > 0 {
		v.Body = append(v.Body, block{Title: "Paused", Table: paused, Note: "The times that pass meanwhile stand here, as skipped, once the pause has ended."})
	}
	hours := q.hours(day, within)
	hours.Table.Filter = f
	if len(v.Body) > 0 {
		hours.Table.Empty = "No other times on this day."
	}
	if f.Active && len(asked) > 0 {
		hours.Table.Empty = "Nothing matches these filters on this day."
	}
	v.Body = append(v.Body, hours)
	return v, nil
}

// calendarLinks lead to the days around, with the same filters.
func (q *visit) calendarLinks(day calendarDay, asked url.Values) []link {
	to := func(date string) string {
		params := url.Values{}
		maps.Copy(params, asked)
		if date != "" {
			params.Set("day", date)
		}
		return withQuery(q.p.base+"/calendar", params)
	}
	return []link{
		{Text: "The day before", Href: to(day.beside(-1))}, {Text: "Today", Href: to("")}, {Text: "The day after", Href: to(day.beside(1))},
		{Text: "List of its times", Href: q.page("/occurrences", "from", effects.TimeOf(day.from).String(), "to", effects.TimeOf(day.to).String(), "spanning", "true")},
		{Text: "All times that have passed", Href: q.page("/occurrences")},
	}
}

// parted gives the times of a day in their order, and what begins before it or ends after it.
func (d calendarDay) parted(all []dayTime) (within, beyond []dayTime) {
	slices.SortStableFunc(all, func(a, b dayTime) int { return cmp.Compare(a.at, b.at) })
	from, to := effects.TimeOf(d.from), effects.TimeOf(d.to)
	for _, t := range all {
		if t.at < from || t.last >= to {
			beyond = append(beyond, t)
		} else {
			within = append(within, t)
		}
	}
	return within, beyond
}

// beyondDay shows what began before the day, or ended after it.
func (q *visit) beyondDay(all []dayTime) block {
	t := &table{Caption: "Over more than this day", Head: []string{"From", "To", "Schedule", "Times", "What became of them", "Why"}}
	for _, h := range all {
		t.Rows = append(t.Rows, []cell{q.at(h.at), q.at(h.last), h.name, number(h.count), h.what, textOf(h.why).wide()})
	}
	return block{Title: "Over more than this day", Table: t}
}

// hours parts the times of a day by hours; where an hour has too many for lines they are counted by schedule.
func (q *visit) hours(day calendarDay, all []dayTime) block {
	t := &table{Caption: "Times of the day", Head: []string{"Time", "Schedule", "What became of it", "Why", "Made"}, Empty: "No schedule fires on this day."}
	for from := day.from; from.Before(day.to); from = from.Add(time.Hour) {
		end := effects.TimeOf(from.Add(time.Hour))
		var hour []dayTime
		for len(all) > 0 && all[0].at < end {
			hour, all = append(hour, all[0]), all[1:]
		}
		var counts []dayTime
		for _, h := range hour {
			if len(hour) > calendarLines && h.last < end && !h.cut {
				counts = append(counts, h)
				continue
			}
			at := q.at(h.at)
			if h.count > 1 {
				at.More = append(at.More, textOf("and "+strconv.FormatUint(h.count-1, 10)+" more up to"), q.at(h.last))
			}
			t.Rows = append(t.Rows, []cell{at, h.name, h.what, textOf(h.why).wide(), h.made})
		}
		t.Rows = append(t.Rows, q.countedHour(from, counts)...)
	}
	return block{Table: t}
}

// countedHour gives a row for each schedule of an hour: it counts times, of which an entry may have many.
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
			sums[key] = &sum{h.name, map[string]uint64{}}
			order = append(order, key)
		}
		sums[key].words[h.what.Text] += h.count
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
		rows = append(rows, []cell{at, s.name, c, {}, {}})
	}
	return rows
}

// pastTimes gives what was decided about the times of a day, also of what began before it, and whether there is more.
func (q *visit) pastTimes(day calendarDay, asked url.Values) (out []dayTime, more bool, err error) {
	if day.from.After(q.now) || !day.from.Before(day.to) {
		return nil, false, nil
	}
	var got wire.OccurrenceList
	params := url.Values{"from": {effects.TimeOf(day.from).String()}, "to": {effects.TimeOf(day.to).String()}, "spanning": {"true"}, "limit": {"1000"}}
	for name, values := range asked {
		if name == "kind" {
			name = "schedule"
		}
		params[name] = values
	}
	if err := q.get("/occurrences", params, &got); err != nil {
		return nil, false, err
	}
	for _, o := range got.Occurrences {
		what := verdict(o)
		if o.Outcome != "" {
			what = badge(o.Outcome)
		}
		out = append(out, dayTime{o.DueAt, max(o.DueAt, o.LastDueAt), max(o.Count, 1), q.scheduleLink(o), what, o.Reason, q.madeOf(o), false})
	}
	return out, got.NextPageToken != "", nil
}

// comingTimes gives what is to fire in a day.
func (q *visit) comingTimes(day calendarDay, asked url.Values) (out []dayTime, cut bool, err error) {
	if day.to.Before(q.now) || !day.from.Before(day.to) {
		return nil, false, nil
	}
	var next wire.UpcomingList
	from, to := effects.TimeOf(day.from), effects.TimeOf(day.to)
	params := url.Values{"from": {from.String()}, "until": {to.String()}, "limit": {strconv.Itoa(calendarSchedules)}, "times": {strconv.Itoa(calendarTimes)}}
	maps.Copy(params, asked)
	params.Del("name")
	if err := q.get("/upcoming", params, &next); err != nil {
		return nil, false, err
	}
	cut = next.More
	for _, u := range next.Schedules {
		if name := asked.Get("name"); name != "" && name != u.Name && name != u.ID {
			continue
		}
		name := q.upcomingLink(u)
		for _, at := range u.Times {
			if at >= from && at < to {
				out = append(out, dayTime{at: at, last: at, count: 1, name: name, what: badge("to come")})
			}
		}
		if n := len(out) - 1; u.MoreTimes && n >= 0 && out[n].name.Href == name.Href { // else its last one would look like the last of the day
			out[n].cut, out[n].why = true, "the last of its times that is shown: more follow on this day"
		}
		cut = cut || u.MoreTimes
	}
	return out, cut, nil
}
