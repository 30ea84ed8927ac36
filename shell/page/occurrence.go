package page

import (
	"github.com/orrery-go/orrery/core"
)

// occurrence shows one time of a schedule, and what became of it.
func (q *visit) occurrence() (view, error) {
	var o core.Occurrence
	if err := q.get(pathOf("occurrences", q.PathValue("id")), nil, &o); err != nil {
		return view{}, err
	}
	cells, s := q.occurrenceCells(o), verdict(o)
	return view{
		Kind: "Time of a schedule", Title: o.DueAt.Std().In(q.zone).Format("2006-01-02 15:04:05 ") + zoneName(o.DueAt.Std().In(q.zone)), State: &s,
		Crumbs: []link{{Text: "Times of schedules", Href: q.page("/occurrences")}},
		Body: []block{{Facts: facts(
			fact{"Schedule", q.scheduleLink(o)}, fact{"Time", cells[0]}, fact{"What became of it", cells[1]}, fact{"Why", cells[2]}, fact{"Took", cells[3]}, fact{"Made", cells[4]},
			fact{"Began", q.at(o.StartedAt)}, fact{"Ended", q.at(o.FinishedAt)}, fact{"Whose", whose(o.Namespace, o.Tenant)}, fact{"Id", codeOf(o.ID.String())},
		)}},
	}, nil
}
