package page

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// webhookRows bounds a page of what was received: its rows have the beginnings of bodies, and bodies may be large.
const webhookRows = 20

// ofWebhooks begins the actor of a webhook route in the log of requests.
const ofWebhooks = "webhook:"

// webhooks shows the routes, and what was received on them.
func (q *visit) webhooks() (view, error) {
	var routes wire.WebhookRouteList
	scope := q.scopeQuery()
	if err := q.get("/webhooks", scope, &routes); err != nil {
		return view{}, err
	}
	var names []string
	all := &table{
		Caption: "Webhook routes", Head: []string{"Route", "Signature", "Tool", "Takes", "Stored", "Refused", "Left out", "Came again", "Tenant"},
		Empty: "There is no webhook route that your token sees. The daemon's configuration makes one by [webhooks.NAME]; its requests go to /v1/webhooks/NAME.",
	}
	for _, r := range routes.Routes {
		names = append(names, r.Name)
		all.Rows = append(all.Rows, q.routeRow(r))
	}
	var got wire.ActionList
	received, err := q.read(list{
		api: "/actions", path: "/webhooks", caption: "Webhooks received, newest first", rows: webhookRows, fixed: url.Values{"webhook": {"true"}, "include": {"raw_payload"}},
		filters: []field{
			{Name: "route", Label: "Route", List: names},
			actionFilters[0],
		},
		head:  []string{"Received", "Route", "Event", "Status", "Body", "Tenant", "Action", "Again"},
		empty: "No webhook was received that is still stored: its action is forgotten after the retention of actions.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, a := range got.Actions {
		received.Rows = append(received.Rows, q.receivedRow(core.Action(a)))
	}
	q.next(received, got.NextPageToken)
	return view{Title: "Webhooks", More: []link{{Text: "Refused or left out", Href: q.page("/webhooks/refused")}}, Body: []block{
		{Title: "Routes", Note: "Counted since this instance began; other instances count for themselves. Requests that were too many, too large or too slow are counted for no route.", Table: all},
		{Title: "Received", ID: "received", Table: received},
	}}, nil
}

// routeRow shows a route of the configuration.
func (q *visit) routeRow(r wire.WebhookRoute) []cell {
	takes := cell{}
	if len(r.Events) > 0 {
		takes.Lines = append(takes.Lines, "event "+clip(strings.Join(r.Events, ", "), 300))
	}
	for _, m := range r.Match {
		line := m.Path
		if len(m.Values) > 0 {
			line += " is " + strings.Join(m.Values, " or ")
		}
		takes.Lines = append(takes.Lines, clip(line, 300))
	}
	if len(takes.Lines) == 0 {
		takes = textOf("all")
	}
	signature := textOf(r.Signature)
	if r.Signature == "none" {
		signature.Tone, signature.Hint = toneWait, "whoever reaches the daemon may send"
	}
	tool := codeOf(r.Tool)
	tool.Hint = r.ActionType
	name := codeOf(r.Name).to(q.page("/webhooks", "route", r.Name))
	name.Hint = clip(r.Label, 120)
	lost := q.page("/webhooks/refused", "actor", ofWebhooks+r.Name)
	return []cell{name, signature, tool, takes.wide(), number(r.Accepted), badCount(r.Rejected).to(lost), number(r.Ignored).to(lost), number(r.Replayed), whose(r.Namespace, r.Tenant)}
}

// receivedRow shows a webhook by the action that it became.
func (q *visit) receivedRow(a core.Action) []cell {
	href := q.page(pathOf("actions", a.ID.String()))
	again := textOf("once it has ended")
	if a.Status.Type.Terminal() {
		again = textOf("Deliver again").to(q.page(pathOf("actions", a.ID.String(), "redeliver")))
		if q.who.ReadOnly() {
			again = textOf("Your token is read-only.")
		}
	}
	when := q.at(a.Trigger.ReceivedAt)
	if of := a.Metadata[core.MetaRetryOf]; of != "" {
		when.More = append(when.More, textOf("made again of"), codeOf(shortID(of)).to(q.page(pathOf("actions", of))))
	}
	body := strings.ToValidUTF8(string(a.Trigger.RawPayload[:min(len(a.Trigger.RawPayload), 400)]), "\uFFFD")
	shown := codeOf(clip(strings.Join(strings.Fields(body), " "), 160))
	shown.Hint = strconv.Itoa(len(a.Trigger.RawPayload)) + " bytes"
	return []cell{
		when, codeOf(a.Trigger.Route).to(q.page("/webhooks", "route", a.Trigger.Route)), textOf(clip(eventOf(a.Trigger), 120)), q.actionState(a), shown.wide(),
		whose(a.Namespace, a.Tenant), codeOf(shortID(a.ID.String())).to(href), again,
	}
}

// eventHeaders are where senders say what type of event a webhook tells.
var eventHeaders = [...]string{"x-github-event", "x-gitlab-event", "x-gitea-event", "ce-type"}

// eventOf gives the type of event that a webhook tells, by a header or by the member "type" of its body; "" if it says none.
func eventOf(t core.Trigger) string {
	header := headerOf(t)
	for _, name := range eventHeaders {
		if v := header[name]; v != "" {
			return v
		}
	}
	if len(t.RawPayload) > maxShown {
		return ""
	}
	var body struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(t.RawPayload, &body); err != nil {
		return ""
	}
	return body.Type
}

// headerOf gives the headers that were kept of a webhook.
func headerOf(t core.Trigger) map[string]string {
	var header map[string]string
	if err := json.Unmarshal(t.Header, &header); err != nil {
		return nil
	}
	return header
}

// routeOf leads to what was received on the route of a webhook.
func (q *visit) routeOf(t core.Trigger) cell {
	if t.Route == "" {
		return cell{}
	}
	c := codeOf(t.Route).to(q.page("/webhooks", "route", t.Route))
	c.Hint = eventOf(t)
	return c
}

// webhookBlocks show on the page of an action the request that made it.
func webhookBlocks(t core.Trigger) (out []block) {
	header := headerOf(t)
	maps.DeleteFunc(header, func(name, _ string) bool { return strings.Contains(name, "signature") }) // with it the request could be sent again
	if len(header) > 0 {
		out = append(out, block{Title: "Webhook headers", Note: "Those that are kept, without signatures.", Facts: facts(fact{"Headers", pairs(header)})})
	}
	if len(t.RawPayload) > 0 {
		out = append(out, block{Title: "Webhook body", Text: longText(string(t.RawPayload))})
	}
	return out
}

// webhooksRefused shows what the log of requests has of webhooks that became no action.
func (q *visit) webhooksRefused() (view, error) {
	v := view{Title: "Webhooks refused or left out", Crumbs: []link{{Text: "Webhooks", Href: q.page("/webhooks")}}, Static: true}
	var routes wire.WebhookRouteList
	if err := q.get("/webhooks", nil, &routes); err != nil {
		return view{}, err
	}
	var actors []string
	for _, r := range routes.Routes {
		actors = append(actors, ofWebhooks+r.Name)
	}
	status := cmp.Or(q.URL.Query().Get("status"), "4xx")
	var got wire.AuditList
	t, err := q.read(list{
		api: "/audit", path: "/webhooks/refused", caption: "Webhooks that became no action, newest first",
		fixed: url.Values{"operation": {"receiveWebhook"}, "status": {status}},
		filters: []field{
			{Name: "actor", Label: "Actor", List: actors, Help: "webhook: and the name of a route"},
			{Name: "status", Label: "What became of them", Type: fieldChoice, Options: []option{{"4xx", "refused"}, {"5xx", "not stored"}, {"200", "left out by the filter"}}},
			{Name: "since", Label: "From", Type: fieldTime}, {Name: "until", Label: "To", Type: fieldTime},
		},
		head: []string{"When", "Times", "Route", "Answer", "Why", "Address", "Tenant"}, empty: "The log of requests has no webhook that was refused.",
	}, &got)
	if refused(err) {
		return withBlocks(v, block{Empty: "The log of requests is not kept, or your token may not read it: only the counts of the routes tell of them."}), nil
	}
	if err != nil {
		return view{}, err
	}
	for _, e := range got.Entries {
		answer := number(e.Status)
		if e.Refused() {
			answer.Tone = toneBad
		}
		tenant := cell{}
		if e.Tenant != "" {
			tenant = whose(e.Namespace, e.Tenant)
		}
		t.Rows = append(t.Rows, []cell{
			q.at(e.At), number(e.Count), codeOf(strings.TrimPrefix(e.Actor, ofWebhooks)), answer, textOf(e.Reason).wide(), codeOf(e.Address), tenant,
		})
	}
	q.next(t, got.NextPageToken)
	return withBlocks(v, block{
		Note:  strings.TrimSpace("Neither bodies nor headers of these are kept. Of equal refusals of a minute the log has one entry, with how many they were. " + unanswered(got)),
		Table: t,
	}), nil
}

// webhookViews are the pages of webhooks.
func webhookViews() []viewRoute {
	return []viewRoute{
		{"/webhooks", "/webhooks", (*visit).webhooks},
		{"/webhooks/refused", "/webhooks", (*visit).webhooksRefused},
	}
}
