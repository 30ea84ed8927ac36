package page

import (
	"github.com/orrery-go/orrery/core"
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
		head: []string{"Name", "Time", "What became of it", "Why", "Took", "Made", "Tenant"}, empty: "No time of a schedule has come yet.",
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
	name := o.Name
	if name == "" {
		name = shortID(o.RecurringID.String())
	}
	c := textOf(clip(name, 120)).wide()
	switch o.Schedule {
	case core.KindJob:
		return c.to(q.scoped(pathOf("jobs", o.Name), o.Namespace, o.Tenant))
	case core.KindAction:
		return c.to(q.page(pathOf("actions", o.RecurringID.String())))
	default:
		return c.to(q.page(pathOf("recurring", o.RecurringID.String())))
	}
}
