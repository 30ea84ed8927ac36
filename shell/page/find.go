package page

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// find leads to what has the id, or lists what has the name, of those that the visitor sees.
func (p *Page) find(w http.ResponseWriter, r *http.Request) {
	q, ok := p.visit(w, r)
	if !ok {
		return
	}
	asked := strings.TrimSpace(r.URL.Query().Get("q"))
	t := &table{Caption: "What was found", Head: []string{"Name", "Kind", "Tenant"}, Empty: "Nothing that you may see has this id, and no name of the newest begins with it."}
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
	} else if err := q.findIDs(asked, t); err != nil {
		p.fail(w, q, err)
		return
	}
	if asked != "" && len(t.Rows) == 0 {
		if err := q.findNames(asked, t); err != nil {
			p.fail(w, q, err)
			return
		}
	}
	if len(t.Rows) == 1 {
		http.Redirect(w, r, t.Rows[0][0].Href, http.StatusSeeOther)
		return
	}
	p.render(w, q, http.StatusOK, view{Title: "Found for “" + clip(asked, 100) + "”", Static: true, Body: []block{{Table: t}}})
}

// findRows bounds what is looked at of each list.
const findRows = "500"

// findNames adds what has a name or an id that begins with a text, or a word of its name that does.
func (q *visit) findNames(begin string, t *table) error {
	begin = strings.ToLower(begin)
	add := func(kind string, name cell, namespace, tenant string, texts ...string) {
		for _, s := range texts {
			s = strings.ToLower(s)
			if len(t.Rows) < pageRows && (strings.HasPrefix(s, begin) || strings.Contains(s, " "+begin)) {
				t.Rows = append(t.Rows, []cell{name.wide(), textOf(kind), whose(namespace, tenant)})
				return
			}
		}
	}
	var recurring wire.RecurringList
	var jobs wire.JobList
	var actions wire.ActionList
	var queues wire.QueueList
	var pipelines wire.PipelineList
	for _, l := range []struct {
		api string
		all string // of the recurring actions: of all tenants
		out any
	}{{"/recurring", "true", &recurring}, {"/jobs", "", &jobs}, {"/queues", "", &queues}, {"/pipelines", "", &pipelines}, {"/actions", "", &actions}} {
		if _, err := q.getPart(l.api, url.Values{"limit": {findRows}, "all": {l.all}}, l.out); err != nil {
			return err
		}
	}
	for _, r := range recurring.RecurringActions {
		name := nameInList(r)
		add("recurring action", textOf(name).to(q.page(pathOf("recurring", r.ID.String()))), r.Namespace, r.Tenant, name, r.ID.String())
	}
	for _, j := range jobs.Jobs {
		add("job", q.linkOfSchedule(core.KindJob, j.ID, cmp.Or(j.Name, j.ID), j.Namespace, j.Tenant), j.Namespace, j.Tenant, j.ID, j.Name)
	}
	for _, u := range queues.Queues {
		add("queue", q.queueCells(u)[0], u.Namespace, u.Tenant, u.Name)
	}
	for _, p := range pipelines.Pipelines {
		name := p.Name
		if p.Label != "" {
			name = p.Label
		}
		add("pipeline", textOf(clip(name, 120)).to(q.page(pathOf("pipelines", p.ID.String()))), p.Namespace, p.Tenant, name, p.ID.String())
	}
	for _, a := range actions.Actions {
		name := nameOfAction(core.Action(a))
		add("action", textOf(name).to(q.page(pathOf("actions", a.ID.String()))), a.Namespace, a.Tenant, name, a.ID.String())
	}
	return nil
}
