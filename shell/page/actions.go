package page

import (
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func actionViews() []viewRoute {
	return []viewRoute{
		{"/actions", "/actions", (*visit).actions},
		{"/actions/{id}", "/actions", (*visit).action},
	}
}

func actionActs() []act {
	const on = "/actions/{id}"
	return []act{
		{
			on: "/actions", name: "new", method: "POST", api: "/v1/actions", label: "New action", main: true,
			says: "Runs a tool once, now or at a time.", done: "The action was created.",
			load: (*visit).newAction, amend: amendAction, after: afterMade("/actions/"),
		},
		{
			on: on, name: "cancel", method: "POST", api: "/v1/actions/{id}/cancel", label: "Cancel", danger: true, done: "The action was cancelled.",
			says:   "A pending action does not run any more. A running one is told to stop, and is cancelled at once, or, if its end is awaited, once its tool has ended.",
			fields: actionCancelFields,
		},
		{
			on: on, name: "trigger", method: "POST", api: "/v1/actions/{id}/trigger", label: "Run now", main: true, done: "The action is due now.",
			says: "A pending action runs now instead of at its time. Of a periodic one the times that follow stay as they are.",
		},
		{
			on: on, name: "retry", method: "POST", api: "/v1/actions/{id}/retry", label: "Run again", main: true, done: "A new action was made of the one that had ended.",
			says: "Makes a new action with the same tool and input. The old one stays as it is.", after: afterMade("/actions/"),
		},
		{
			on: on, name: "redeliver", method: "POST", api: "/v1/webhooks/{id}/redeliver", label: "Deliver again", main: true, done: "The webhook was delivered once more, as a new action.",
			says: "Makes a new action of the webhook's body and headers, whatever came of the first one.", after: afterMade("/actions/"),
		},
	}
}

var actionCancelFields = []field{ // read-only: a table
	reasonField,
	{Name: "mode", Label: "Mode", Type: fieldChoice, Options: choice("", "await", "kill"), Help: "await: the action counts as running until its tool has ended."},
}

// afterMade leads to what an act has made.
func afterMade(path string) func(q *visit, a *answer) string {
	return func(q *visit, a *answer) string {
		var made struct {
			ID          uuid.UUID `json:"id"`
			RecurringID uuid.UUID `json:"recurring_id"`
		}
		if err := json.Unmarshal(a.body.Bytes(), &made); err != nil || made.ID == uuid.Nil && made.RecurringID == uuid.Nil {
			return q.p.base + path
		}
		if made.ID == uuid.Nil {
			made.ID = made.RecurringID
		}
		return q.p.base + path + made.ID.String()
	}
}

// tools lists the tools that the visitor may use, for suggestions.
func (q *visit) tools() []string {
	var info wire.Info
	if err := q.get("/info", nil, &info); err != nil {
		return nil
	}
	return info.Tools
}

func (q *visit) newAction() ([]field, error) {
	return append(q.scopeFields(), []field{
		{Name: "tool_name", Label: "Tool", Required: true, List: q.tools()},
		{Name: "label", Label: "Label", Help: "What people call it."},
		{Name: "action_type", Label: "Type", Help: "What the tool is to do, where it does several things."},
		{Name: "tool_input", Label: "Input", Type: fieldJSON, Help: "JSON, as the tool wants it."},
		{Name: "trigger.next_tick_at", Label: "At", Type: fieldTime, Help: "Left out: now."},
		{Name: "policy.max_attempts", Label: "Attempts", Type: fieldNumber, Help: "At most; after a failure only if retry is chosen."},
		{Name: "policy.on_failure", Label: "After a failure", Type: fieldChoice, Options: choiceOr("fail", "fail", "retry")},
		{Name: "policy.timeout_ms", Label: "Time limit in milliseconds", Type: fieldNumber},
		{Name: "dedup_key", Label: "Dedup key", Help: "While an action with this key is pending or runs there is no second one."},
	}...), nil
}

// amendAction says of what sort the trigger is.
func amendAction(_ *visit, body map[string]any, _ url.Values) error {
	if trigger, ok := body["trigger"].(map[string]any); ok {
		trigger["type"] = core.TriggerScheduled
	}
	return nil
}

// scopeFields ask for namespace and tenant; a token that is bound to one of each has them
// from the API.
func (q *visit) scopeFields() []field {
	return []field{
		{Name: "namespace", Label: "Namespace", Value: q.URL.Query().Get("namespace"), Help: "Left out: your token's, or default."},
		{Name: "tenant", Label: "Tenant", Value: q.URL.Query().Get("tenant")},
	}
}

var actionFilters = append([]field{ // read-only: a table
	statusFilter(core.KindAction),
	{Name: "tool", Label: "Tool"}, {Name: "label", Label: "Label (name=value)"},
}, madeOrFailedFilters...)

func (q *visit) actions() (view, error) {
	var got wire.ActionList
	t, err := q.read(list{
		api: "/actions", path: "/actions", caption: "Actions, newest first",
		filters: actionFilters, ordered: true,
		head:  []string{"Label", "Status", "Tool", "Due", "Finished", "Tenant", "Id"},
		empty: "There is no action. An action is one run of a tool: a new one, a time of a recurring action, or a webhook makes one.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, a := range got.Actions {
		t.Rows = append(t.Rows, q.actionRow(core.Action(a)))
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Actions", Acts: q.actLinks("/actions", "new", "retry-all", "trigger-all", "cancel-all"), Body: []block{{Table: t}}}, nil
}

func (q *visit) actionRow(a core.Action) []cell {
	href := q.page(pathOf("actions", a.ID.String()))
	return []cell{
		q.actionLink(a).wide(), q.actionState(a), codeOf(a.ToolName), q.at(a.Trigger.NextTickAt), q.at(a.FinishedAt),
		whose(a.Namespace, a.Tenant), codeOf(shortID(a.ID.String())).to(href),
	}
}

// actionLink leads to an action by its name.
func (q *visit) actionLink(a core.Action) cell {
	return textOf(nameOfAction(a)).to(q.page(pathOf("actions", a.ID.String())))
}

// nameOfAction is what people call an action.
func nameOfAction(a core.Action) string { return clip(a.Title(), 120) }

func (q *visit) actionState(a core.Action) cell {
	c := badge(string(a.Status.Type))
	switch {
	case a.Cancelling != "":
		c.Hint = "is being cancelled"
	case !a.RetryAt.IsZero():
		c.Hint = "tries again " + ago(a.RetryAt.Std().Sub(q.now))
	case a.Status.Reason != "":
		c.Hint = clip(a.Status.Reason, 120)
	}
	return c
}

func (q *visit) action() (view, error) {
	var a core.Action
	id := q.PathValue("id")
	if err := q.get(pathOf("actions", id), nil, &a); err != nil {
		return view{}, err
	}
	s := q.actionState(a)
	s.Hint = ""
	v := view{Kind: "Action", Title: nameOfAction(a), State: &s, Crumbs: []link{{Text: "Actions", Href: q.page("/actions")}}}
	switch {
	case a.Status.Type == core.StatusPending:
		v.Acts = q.actLinks("/actions/{id}", "trigger", "cancel")
	case !a.Status.Type.Terminal():
		v.Acts = q.actLinks("/actions/{id}", "cancel")
	case mayBeMadeAgain(a, false):
		v.Acts = q.actLinks("/actions/{id}", "retry")
	}
	v.More = []link{q.changesLink(core.KindAction, id)}
	if mayBeMadeAgain(a, true) {
		v.Acts = append(v.Acts, q.actLinks("/actions/{id}", "redeliver")...)
	}
	if a.Status.Reason != "" {
		tone := toneOff
		if a.Status.Type == core.StatusFailed {
			tone = toneBad
		}
		v.Body = append(v.Body, block{Notice: &notice{Text: a.Status.Reason, Tone: tone}})
	}
	v.Body = append(v.Body, block{Facts: q.actionFacts(a)})
	written, live := q.written(a)
	if live {
		v.Every = writtenEvery
	}
	v.Body = append(append(v.Body, written...), q.outputs(a)...)
	if !a.Recurrence.IsZero() {
		history, err := q.history("/actions/"+url.PathEscape(id)+"/history", 20)
		if err != nil {
			return view{}, err
		}
		v.Body = append(v.Body, history)
	}
	return v, nil
}

// mayBeMadeAgain asks the rule by which the API refuses it.
func mayBeMadeAgain(a core.Action, redeliver bool) bool {
	_, err := a.Again(uuid.Nil, redeliver, core.Clock{})
	return err == nil
}

func (q *visit) actionFacts(a core.Action) []fact {
	var parent cell
	if of := a.Metadata[core.MetaRecurringID]; of != "" {
		parent = codeOf(shortID(of)).to(q.page(pathOf("recurring", of)))
	}
	var again cell
	if of := a.Metadata[core.MetaRetryOf]; of != "" {
		again = codeOf(shortID(of)).to(q.page(pathOf("actions", of)))
	}
	attempts := ""
	if a.Attempt > 0 {
		attempts = strconv.FormatUint(uint64(a.Attempt), 10)
	}
	own := facts(
		fact{"Tool", codeOf(a.ToolName)}, fact{"Type", textOf(a.ActionType)}, fact{"Due", q.at(a.Trigger.NextTickAt)},
		fact{"Started", q.at(a.StartedAt)}, fact{"Finished", q.at(a.FinishedAt)}, fact{"Took", q.lasted(a.StartedAt, a.FinishedAt)},
		fact{"Attempt", textOf(attempts)}, fact{"Tries again", q.at(a.RetryAt)}, fact{"Recurring action", parent}, fact{"Made again of", again},
		fact{"Webhook route", q.routeOf(a.Trigger)}, fact{"Received", q.at(a.Trigger.ReceivedAt)}, fact{"Dedup key", codeOf(a.DedupKey)}, fact{"Whose", whose(a.Namespace, a.Tenant)},
		fact{"Created", q.at(a.CreatedAt)}, fact{"Changed", q.at(a.UpdatedAt)}, fact{"Id", codeOf(a.ID.String())},
		fact{"Labels", pairs(a.Labels)}, fact{"Metadata", pairs(a.Metadata)},
		fact{"Recurs", recurrence(a.Recurrence)}, fact{"Cycle", count(uint64(a.Cycle))},
	)
	return append(own, policyFacts(a.Policy)...)
}

// recurrence shows how an action recurs.
func recurrence(r core.Recurrence) cell {
	if r.IsZero() {
		return cell{}
	}
	if r.Cron != "" {
		c := codeOf(r.Cron)
		c.Hint = r.Timezone
		return c
	}
	return textOf("every " + precisely(r.Period))
}

// outputs shows what an action was given, and what its attempts gave.
func (q *visit) outputs(a core.Action) (out []block) {
	out = append(out, result("Output", a.Status.Result)...)
	if a.LastRun != nil {
		last := badge(string(a.LastRun.Status.Type))
		last.Hint = a.LastRun.Status.Reason
		out = append(out, block{Title: "Last run", Facts: facts(fact{"Ended as", last}, fact{"Finished", q.at(a.LastRun.FinishedAt)}, fact{"Cycle", count(uint64(a.LastRun.Cycle))})})
		out = append(out, result("Output of the last run", a.LastRun.Status.Result)...)
	}
	if len(a.Attempts) > 0 {
		t := &table{Caption: "Attempts that did not succeed", Head: []string{"Attempt", "Started", "Took", "Why it ended"}}
		for _, at := range a.Attempts {
			t.Rows = append(t.Rows, q.attemptRow(at))
		}
		out = append(out, block{Title: "Attempts that did not succeed", Table: t})
	}
	out = append(out, result("Input", a.ToolInput)...)
	return append(out, webhookBlocks(a.Trigger)...)
}
