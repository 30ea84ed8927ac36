package page

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// findID gives the page of what has an id; "" if nothing has that the visitor may see.
func (q *visit) findID(id string) (string, error) {
	for _, of := range kindPages {
		switch err := q.get(pathOf(of.path, id), nil, nil); {
		case err == nil:
			return q.page(pathOf(of.path, id)), nil
		case !notFound(err) && !forbidden(err):
			return "", err
		}
	}
	var o core.Occurrence
	switch err := q.get(pathOf("occurrences", id), nil, &o); {
	case err == nil: // it has no page of its own: the list that has it alone
		return q.page("/occurrences", "schedule_id", o.RecurringID.String(), "from", o.DueAt.String(), "to", o.DueAt.Add(time.Millisecond).String()), nil
	case notFound(err), forbidden(err):
		return "", nil
	default:
		return "", err
	}
}

// findIDs adds what has an id that begins with a text, of all that is stored. A text that is no such beginning finds nothing.
// bounds says what was left out.
func (q *visit) findIDs(begin string, t *table) (bounds string, err error) {
	var got wire.FoundList
	err = q.get("/find", url.Values{"q": {begin}, "limit": {strconv.Itoa(pageRows)}}, &got)
	if refused(err) || answered(err, 400) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, f := range got.Found {
		of, id := pageOf(f.Kind), f.ID.String()
		to := q.page(pathOf(of.path, id))
		if of.path == "" { // an occurrence: where it stands is known once it is read
			of.name, to = "time of a schedule", q.page("/find", "q", id)
		}
		name := textOf(cmp.Or(clip(f.Name, 120), shortID(id))).to(to)
		name.Hint = id
		t.Rows = append(t.Rows, []cell{name.wide(), textOf(of.name), whose(f.Namespace, f.Tenant)})
	}
	if got.More {
		bounds = "The first " + strconv.Itoa(pageRows) + ". There are more: type more of the id."
	}
	return bounds, nil
}
