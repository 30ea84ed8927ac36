package page

import (
	"cmp"

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
			{Name: "spanning", Label: "Begun before From", Type: fieldChoice, Options: []option{{"", ""}, {"true", "also what reaches into it"}}},
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
