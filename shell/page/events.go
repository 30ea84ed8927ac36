package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func eventViews() []viewRoute {
	return []viewRoute{
		{"/events", "/events", (*visit).events},
		{"/subscribers", "/subscribers", (*visit).subscribers},
		{"/subscribers/{name}", "/subscribers", (*visit).subscriber},
	}
}

// maxEventRows bounds the events that are shown.
const maxEventRows = 200

// events shows what is announced while somebody looks, for the page is loaded anew each two seconds; events are not kept.
func (q *visit) events() (view, error) {
	var got wire.SubscriberList
	if err := q.get("/subscribers", url.Values{"limit": {strconv.Itoa(findRows)}}, &got); err != nil {
		return view{}, err
	}
	subscribers := strconv.Itoa(len(got.Subscribers))
	if got.NextPageToken != "" {
		subscribers += " or more"
	}
	recent, err := q.p.o.API.RecentEvents(q.who)
	if err != nil {
		return view{}, err
	}
	f, params, err := q.filtered("/events", []field{{Name: "category", Label: "Category", List: eventCategories()}})
	if err != nil {
		return view{}, err
	}
	t := &table{
		Caption: "Events, newest first", Head: []string{"When", "Event", "Of", "Data"}, Filter: f,
		Empty: "Nothing was announced since then. This page shows the events from now on; without script, load it again within 30 seconds.",
	}
	more := recent.Missed
	for _, e := range recent.Events {
		if of := params.Get("category"); of != "" && of != e.Kind.Category {
			continue
		}
		if len(t.Rows) == maxEventRows {
			more++
			continue
		}
		t.Rows = append(t.Rows, q.eventRow(e))
	}
	note := "Since " + q.moment(effects.TimeOf(recent.Since)).Text + ", when somebody began to look. Events are not kept: whoever does not look for 30 seconds begins anew."
	if more > 0 {
		note += " " + howMany(more, "event") + " more are not shown: that many came, or too fast."
	}
	return view{
		Title: "Events", Acts: q.actLinks("/events", "publish"), Every: 2,
		Body: []block{
			{Note: note, Table: t},
			{Title: "On the command line", Text: &text{Plain: "orreryd events follow\norreryd events follow --category pipeline --action phase"}},
			{Title: "Subscribers", Tiles: []tile{{Name: "subscribers", Value: subscribers, Href: q.page("/subscribers"), Hint: "what events lead to"}}},
		},
	}, nil
}

func (q *visit) eventRow(e effects.Event) []cell {
	of := textOf(clip(e.Source.Component, 100))
	if p := pageOf(effects.Kind(e.Source.Component)); p.path != "" && e.Source.ID != uuid.Nil {
		of = textOf(p.name + " " + shortID(e.Source.ID.String())).to(q.page(pathOf(p.path, e.Source.ID.String())))
	}
	return []cell{q.at(e.Timestamp), codeOf(clip(e.Kind.String(), 200)), of, jsonValue(e.Data).wide()}
}

// eventCategories are those of the events that machines announce.
func eventCategories() (out []string) {
	for _, k := range effects.Announced() {
		out = append(out, k.Category)
	}
	return slices.Compact(out)
}

func (q *visit) subscribers() (view, error) {
	var got wire.SubscriberList
	t, err := q.read(list{
		api: "/subscribers", path: "/subscribers", caption: "Subscribers, those of a tenant in the order in which they hear an event",
		head:  []string{"Subscriber", "Hears", "Does", "Tenant"},
		empty: "There is no subscriber. A subscriber lets an event wake a worker, push an item, signal a pipeline or start one: the button above makes one.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, s := range got.Subscribers {
		t.Rows = append(t.Rows, []cell{
			codeOf(s.Name).to(q.scoped(pathOf("subscribers", s.Name), s.Namespace, s.Tenant)).wide(), textOf(matchText(s.Match)), textOf(reactionText(s.Do)),
			whose(s.Namespace, s.Tenant),
		})
	}
	q.next(t, got.NextPageToken)
	v := view{Title: "Subscribers", Acts: q.actLinks("/subscribers", "new"), Body: []block{{Table: t}}}
	if len(got.Program) > 0 {
		own := &table{Caption: "Subscribers of the daemon's program", Head: []string{"Subscriber"}}
		for _, name := range got.Program {
			own.Rows = append(own.Rows, []cell{codeOf(name)})
		}
		v.Body = append(v.Body, block{Title: "Of the daemon's program", Note: "They hear an event after the others, and cannot be changed here.", Table: own})
	}
	return v, nil
}

// matchText says which events a subscriber hears.
func matchText(m core.EventMatch) string {
	orAny := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	out := orAny(m.Category) + ":" + orAny(m.Action)
	if m.Component != "" {
		out += " of " + m.Component
	}
	return clip(strings.Join(append([]string{out}, pairs(m.Data).Lines...), ", "), 300)
}

// reactionText says what a subscriber does.
func reactionText(r core.Reaction) string {
	switch {
	case r.WakeWorker != nil:
		return "wakes the worker " + r.WakeWorker.Name
	case r.Push != nil:
		return "pushes the event into the queue " + r.Push.Name
	case r.Signal != nil:
		return "signals " + r.Signal.Name + " to pipeline " + shortID(r.Signal.Pipeline.String())
	case r.StartPipeline != nil:
		return "starts the pipeline " + r.StartPipeline.Definition.Name
	}
	return ""
}

func (q *visit) loadSubscriber() (s wire.SubscriberDetail, err error) {
	return s, q.get(pathOf("subscribers", q.PathValue("name")), q.scopeQuery(), &s)
}

func (q *visit) subscriber() (view, error) {
	s, err := q.loadSubscriber()
	if err != nil {
		return view{}, err
	}
	return view{
		Kind: "Subscriber", Title: s.Name, Crumbs: []link{{Text: "Subscribers", Href: q.page("/subscribers")}}, Acts: q.actLinks("/subscribers/{name}", "edit", "delete"),
		Body: []block{
			{Facts: facts(fact{"Hears", textOf(matchText(s.Match))}, fact{"Does", textOf(reactionText(s.Do))}, fact{"Whose", whose(s.Namespace, s.Tenant)}, q.declaredFact(s.Declared))},
			asJSON("Events that it hears", s.Match), asJSON("What it does", s.Do),
		},
	}, nil
}

func eventActs() []act {
	const on, api = "/subscribers/{name}", "/v1/subscribers/{name}"
	return []act{
		{
			on: "/events", name: "publish", method: "POST", api: "/v1/events", label: "Publish an event", done: "The event was published.",
			says: "Announces an event of your own, to whoever listens and to the subscribers.",
			fields: []field{
				{Name: "kind.category", Label: "Category", Required: true}, {Name: "kind.action", Label: "Action", Required: true},
				{Name: "namespace", Label: "Namespace", Help: "Left out with the tenant: the subscribers of all tenants hear it."}, {Name: "tenant", Label: "Tenant"},
				{Name: "data", Label: "Data", Type: fieldJSON, Help: "A JSON object."},
			},
		},
		{
			on: "/subscribers", name: "new", at: "/new-subscriber", method: "PUT", api: api, label: "New subscriber", done: "The subscriber was made.",
			says: "Each event that matches leads to what is written here, from now on.",
			load: (*visit).newSubscriber, amend: nameFromForm, params: scopeParams, after: afterNamed("subscribers"),
		},
		{
			on: on, name: "edit", method: "PUT", api: api, label: "Edit", done: "The subscriber was changed.", load: (*visit).editSubscriber,
			says: "Events from now on lead to what is written here.",
		},
		{
			on: on, name: "delete", method: "DELETE", api: api, label: "Delete", danger: true, done: "The subscriber was deleted.",
			says:  "Events lead to this no more. What they have led to stays.",
			after: func(q *visit, _ *answer) string { return q.page("/subscribers") },
		},
	}
}

var subscriberFields = []field{
	{Name: "match", Label: "Events that it hears", Type: fieldJSON, Required: true, Help: `A JSON object such as {"category":"pipeline","action":"phase","data":{"phase":"merge"}}; * stands for any text.`},
	{Name: "do", Label: "What it does", Type: fieldJSON, Required: true, Help: `A JSON object with one of wake_worker, push, signal and start_pipeline, such as {"push":{"name":"merge"}}: in the tenant of the subscriber.`},
}

func (q *visit) newSubscriber() ([]field, error) {
	return append(append([]field{{Name: "name", Label: "Name", Required: true}}, subscriberFields...), q.scopeFields()...), nil
}

func (q *visit) editSubscriber() ([]field, error) {
	s, err := q.loadSubscriber()
	fields := slices.Clone(subscriberFields)
	fields[0].Value, fields[1].Value = indented(s.Match), indented(s.Do)
	return fields, err
}

// nameFromForm puts the name of what is new into the API's path, where a name that exists stands already.
func nameFromForm(q *visit, body map[string]any, form url.Values) error {
	delete(body, "name")
	q.SetPathValue("name", form.Get("name"))
	return nil
}

// afterNamed leads to what was made under the name of the form.
func afterNamed(path string) func(q *visit, _ *answer) string {
	return func(q *visit, _ *answer) string {
		return q.scoped(pathOf(path, q.PathValue("name")), q.PostForm.Get("namespace"), q.PostForm.Get("tenant"))
	}
}
