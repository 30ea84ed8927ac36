package page

import (
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// find leads to what has the id, or lists what has the name, of those that the visitor sees.
func (p *Page) find(w http.ResponseWriter, r *http.Request) {
	q, ok := p.visit(w, r)
	if !ok {
		return
	}
	asked := strings.TrimSpace(r.URL.Query().Get("q"))
	t := &table{Caption: "What was found", Head: []string{"Name", "Kind", "Tenant"}, Empty: "Nothing that you may see has this id, and no name of the newest begins with it."}
	var bounds string
	if id, err := uuid.Parse(asked); err == nil {
		to, err := q.findID(id.String())
		if err != nil {
			p.fail(w, q, err)
			return
		}
		if to != "" {
			http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // it begins with the base of the page
			return
		}
	} else if bounds, err = q.findIDs(asked, t); err != nil {
		p.fail(w, q, err)
		return
	}
	if asked != "" && len(t.Rows) == 0 {
		var err error
		if bounds, err = q.findNames(asked, t); err != nil {
			p.fail(w, q, err)
			return
		}
	}
	if len(t.Rows) == 1 {
		http.Redirect(w, r, t.Rows[0][0].Href, http.StatusSeeOther)
		return
	}
	p.render(w, q, http.StatusOK, view{Title: "Found for “" + clip(asked, 100) + "”", Static: true, Body: []block{{Note: bounds, Table: t}}})
}
