package page

import (
	"net/http"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (q *visit) workers() (view, error) {
	var got wire.WorkerList
	t, err := q.read(list{
		api: "/workers", path: "/workers", caption: "Workers",
		head:  []string{"Worker", "State", "Queue", "In hand", "Completed", "Failed", "Tenant"},
		empty: "There is no worker. A worker takes the items of a queue inside the daemon, and runs a tool, a task, a strategy or a pipeline for each: a runbook declares one, and so does the button above. Programs that take items by the API are not listed here: the items that they hold name them.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, w := range got.Workers {
		t.Rows = append(t.Rows, []cell{
			codeOf(w.Name).to(q.scoped(pathOf("workers", w.Name), w.Namespace, w.Tenant)).wide(), workerState(w), codeOf(w.Queue).to(q.scoped(pathOf("queues", w.Queue), w.Namespace, w.Tenant)),
			textOf(inHand(w)), number(w.Completed), number(w.Failed), whose(w.Namespace, w.Tenant),
		})
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Workers", Acts: q.actLinks("/workers", "new"), Body: []block{{Table: t}}}, nil
}

func inHand(w core.Worker) string {
	return strconv.Itoa(len(w.Running)) + " of " + strconv.FormatUint(uint64(w.Concurrency), 10)
}

func workerState(w core.Worker) cell {
	switch {
	case w.Draining:
		return state("draining", toneWait)
	case w.Paused:
		return badge("paused")
	case len(w.Running) > 0:
		return badge("working")
	case !w.HeldUntil.IsZero():
		return state("held by a limit", toneWait)
	}
	return state("idle", toneOff)
}

func (q *visit) loadWorker() (w wire.WorkerDetail, err error) {
	return w, q.get(pathOf("workers", q.PathValue("name")), q.scopeQuery(), &w)
}

func (q *visit) worker() (view, error) {
	w, err := q.loadWorker()
	if err != nil {
		return view{}, err
	}
	s := workerState(w.Worker)
	v := view{Kind: "Worker", Title: w.Name, State: &s, Crumbs: []link{{Text: "Workers", Href: q.page("/workers")}}, More: []link{q.changesLink(core.KindWorker, w.ID.String())}}
	const on = "/workers/{name}"
	switch {
	case w.Draining:
	case w.Paused:
		v.Acts = q.actLinks(on, "resume")
	default:
		v.Acts = q.actLinks(on, "wake", "pause")
	}
	v.Acts = append(v.Acts, q.actLinks(on, "configure", "delete")...)
	v.Body = append(v.Body, block{Facts: facts(
		fact{"Queue", codeOf(w.Queue).to(q.scoped(pathOf("queues", w.Queue), w.Namespace, w.Tenant))}, fact{"In hand", textOf(inHand(w.Worker))}, fact{"Completed", number(w.Completed)},
		fact{"Failed", number(w.Failed)}, fact{"Looks for items", q.at(w.PollAt)}, fact{"Looks at least each", millis(w.PollMS)}, fact{"Held by a limit until", q.at(w.HeldUntil)},
		fact{"Whose", whose(w.Namespace, w.Tenant)}, q.declaredFact(w.Declared), fact{"Created", q.at(w.CreatedAt)}, fact{"Changed", q.at(w.UpdatedAt)}, fact{"Id", codeOf(w.ID.String())},
	)})
	t := &table{Caption: "Items in hand", Head: []string{"Item", "Attempt", "What does it", "Started", "For"}, Empty: "It has no item in hand."}
	for _, j := range w.Running {
		t.Rows = append(t.Rows, []cell{
			codeOf(shortID(j.Item.String())).to(q.scoped(pathOf("queues", j.Queue, "items", j.Item.String()), w.Namespace, w.Tenant)), number(j.Attempt), q.machine(j.Child),
			q.at(j.StartedAt), q.lasted(j.StartedAt, 0),
		})
	}
	return withBlocks(v, block{Title: "In hand", Table: t}, asJSON("What it does with each item", w.Do)), nil
}

func workerActs() []act {
	const on, api = "/workers/{name}", "/v1/workers/{name}"
	return []act{
		{
			on: "/workers", name: "new", at: "/new-worker", method: "PUT", api: api, label: "New worker", done: "The worker was made.",
			says: "Takes the items of a queue, and does its work for each.", load: (*visit).newWorker, amend: nameFromForm,
			params: scopeParams, after: afterNamed("workers"),
		},
		{on: on, name: "wake", method: "POST", api: api + "/wake", label: "Wake", done: "The worker looks for items.", says: "It looks for items now, instead of when it would have."},
		{on: on, name: "pause", method: "POST", api: api + "/pause", label: "Pause", done: "The worker is paused.", says: "It takes no items until it is resumed. What it has in hand goes on."},
		{on: on, name: "resume", method: "POST", api: api + "/resume", label: "Resume", main: true, done: "The worker is resumed.", says: "It takes items again."},
		{
			on: on, name: "configure", method: "PUT", api: api, label: "Configure", done: "The worker was configured.", load: (*visit).editWorker,
			says: "Replaces what was declared. What it has in hand goes on as it was begun.",
		},
		{
			on: on, name: "delete", method: "DELETE", api: api, label: "Delete", danger: true, done: "The worker was deleted, or drains: it is gone once it has nothing in hand.",
			says:   "A worker with items in hand is kept, unless you let it drain: then it takes no more, ends what it has, and is gone.",
			fields: []field{{Name: "drain", Label: "Drain", Type: fieldCheck, Value: "yes", Help: "Let it end first what it has in hand."}}, notes: (*visit).workerNotes,
			after: (*visit).workerOrList,
		},
	}
}

func workerFields() []field {
	return []field{
		{Name: "queue", Label: "Queue", Required: true, Help: "Its name, in the same tenant."},
		{Name: "concurrency", Label: "Items at once", Type: fieldNumber, Help: "Left out: 1."},
		{Name: "poll_ms", Label: "Looks at least each, in milliseconds", Type: fieldNumber, Help: "How long it waits at most, if nobody wakes it: a subscriber can, a phase of a pipeline, and the button of its page. Left out: 60,000."},
		{Name: "do", Label: "What it does with each item", Type: fieldJSON, Required: true, Help: `A JSON object with one of run, task, strategy and pipeline, such as {"run":{"tool":"command","input":{"argv":["echo","${item.data}"]}}}.`},
	}
}

func (q *visit) newWorker() ([]field, error) {
	return append(append([]field{{Name: "name", Label: "Name", Required: true}}, workerFields()...), q.scopeFields()...), nil
}

func (q *visit) editWorker() ([]field, error) {
	w, err := q.loadWorker()
	values := []string{w.Queue, strconv.FormatUint(uint64(w.Concurrency), 10), strconv.FormatInt(w.PollMS, 10), indented(w.Do)}
	fields := workerFields()
	for i := range fields {
		fields[i].Value = values[i]
	}
	return fields, err
}

func (q *visit) workerNotes() ([]block, error) {
	w, err := q.loadWorker()
	return whyNotice("Items in hand: "+strconv.Itoa(len(w.Running))+".", toneWait), err
}

// workerOrList leads to the worker if it still drains, and else to the list.
func (q *visit) workerOrList(a *answer) string {
	if a.status == http.StatusAccepted {
		return q.p.base + withQuery(q.filledIn("/workers/{name}"), q.scopeQuery())
	}
	return q.page("/workers")
}
