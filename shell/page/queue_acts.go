package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/core"
)

func queueOwnActs() []act {
	const on, api = "/queues/{name}", "/v1/queues/{name}"
	return []act{
		{
			on: "/queues", name: "new", at: "/new-queue", method: "PUT", api: api, label: "New queue", done: "The queue was made.",
			says: "Declares a queue.", load: (*visit).newQueue, amend: nameFromForm,
			params: scopeParams, after: afterNamed("queues"),
		},
		{
			on: on, name: "pause", method: "POST", api: api + "/pause", label: "Pause", done: "The queue is paused.",
			says: "Nothing is taken from it until it is resumed. What was taken goes on, and items can still be pushed.", fields: []field{reasonField},
		},
		{on: on, name: "resume", method: "POST", api: api + "/resume", label: "Resume", main: true, done: "The queue is resumed.", says: "Its items can be taken again."},
		{
			on: on, name: "push", method: "POST", api: api + "/items", label: "Push an item", done: "The item was pushed, or one with its dedup key was there.", says: "Puts one item into the queue.",
			fields: []field{
				{Name: "data", Label: "Data", Type: fieldJSON}, {Name: "priority", Label: "Priority", Type: fieldNumber, Help: "Greater is sooner; left out: 0."},
				{Name: "key", Label: "Key", Help: "Items of one key share its limits, and take turns with those of others."},
				{Name: "dedup_key", Label: "Dedup key", Help: "While an item holds this key there is no second one."},
				{Name: "delay_ms", Label: "Delay in milliseconds", Type: fieldNumber},
			},
		},
		{
			on: on, name: "redrive", method: "POST", api: api + "/redrive", label: "Redrive", done: "Dead letters were given another chance: the numbers show what is left.",
			says:   "Dead letters of this queue become ready again, and those that came from other queues go back there, at most 1,000 at a time. Their attempts count from 0.",
			fields: []field{{Name: "limit", Label: "At most", Type: fieldNumber, Help: "Left out: 1,000."}}, notes: (*visit).deadNotes,
		},
		{
			on: on, name: "purge", method: "POST", api: api + "/purge", label: "Purge", danger: true, done: "Items were removed: the numbers show what is left.",
			says:  "Removes the items of the states that you choose, at most 1,000 at a time, first those that are taken first. They cannot be brought back. Items that are being processed stay.",
			notes: (*visit).purgeNotes, load: (*visit).purgeFields, amend: amendPurge,
		},
		{
			on: on, name: "configure", method: "PUT", api: api, label: "Configure", done: "The queue was configured.", load: (*visit).configureQueue,
			says: "Replaces its configuration. Items keep the times that they were given. What is left out has its default.",
		},
		{
			on: on, name: "delete", method: "DELETE", api: api, label: "Delete", danger: true, done: "The queue was deleted.", notes: (*visit).purgeNotes,
			says: "Only a queue without items can be deleted: purge it first. Its totals are gone then.", after: func(q *visit, _ *answer) string { return q.page("/queues") },
		},
	}
}

func itemActs() []act {
	const on = "/queues/{name}/items/{id}"
	toQueue := func(q *visit, _ *answer) string {
		return q.p.base + withQuery(q.filledIn("/queues/{name}"), q.scopeQuery())
	}
	return []act{
		{
			on: on, name: "redrive", method: "POST", api: "/v1/queues/{name}/redrive", label: "Redrive", main: true, done: "The item was given another chance.", after: toQueue,
			says: "The item becomes ready again, or goes back to the queue from which it came. Its attempts count from 0.",
			amend: func(q *visit, body map[string]any, _ url.Values) error {
				body["item"] = q.PathValue("id")
				return nil
			},
		},
		{
			on: on, name: "delete", method: "DELETE", api: "/v1/queues/{name}/items/{id}", label: "Delete", danger: true, done: "The item was removed.", after: toQueue,
			says: "The item is removed, and whoever waits for it is told that it was cancelled. It cannot be brought back.",
		},
	}
}

func configFields() []field {
	return []field{
		{Name: "visibility_timeout_ms", Label: "Visibility timeout in milliseconds", Type: fieldNumber, Help: "How long a taken item is held unless its holder asks for more; left out: 30,000."},
		{Name: "retry", Label: "Attempts", Type: fieldJSON, Help: `A JSON object such as {"max_attempts":3,"backoff_ms":1000}.`},
		{Name: "dead_letter_queue", Label: "Dead letter queue", Help: "Its name, in the same tenant; left out: dead items stay here."},
		{Name: "concurrency", Label: "At most in hand", Type: fieldNumber, Help: "Left out: any number."},
		{Name: "key_concurrency", Label: "At most of one key", Type: fieldNumber},
		{Name: "rate", Label: "Rate", Type: fieldJSON, Help: `A JSON object such as {"limit":10,"per_ms":1000}.`},
		{Name: "key_rate", Label: "Rate of one key", Type: fieldJSON},
		{Name: "keep_completed_ms", Label: "Keep completed items, in milliseconds", Type: fieldNumber},
		{Name: "dedup_window_ms", Label: "Hold dedup keys, in milliseconds", Type: fieldNumber, Help: "Left out: while the item lives."},
	}
}

func (q *visit) newQueue() ([]field, error) {
	return append(append([]field{{Name: "name", Label: "Name", Required: true}}, configFields()...), q.scopeFields()...), nil
}

func (q *visit) configureQueue() ([]field, error) {
	u, err := q.loadQueue()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(u.Config)
	if err != nil {
		return nil, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, err
	}
	fields := configFields()
	for i, f := range fields {
		fields[i].Value = plainValue(values[f.Name])
	}
	return fields, nil
}

// plainValue gives a value of JSON as a field has it: nothing for what is zero.
func plainValue(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	switch s := string(raw); s {
	case "0", "{}", "null", "false":
		return ""
	default:
		return s
	}
}

func (q *visit) deadNotes() ([]block, error) {
	u, err := q.loadQueue()
	return whyNotice("Dead items in this queue: "+strconv.FormatUint(u.Items.Dead, 10)+".", toneWait), err
}

// purgeable are the states that can be purged, with their fields in the form.
var purgeable = []core.ItemStateType{core.ItemPending, core.ItemFailed, core.ItemDead, core.ItemCompleted}

// purgeNotes say how many items of each state there are.
func (q *visit) purgeNotes() ([]block, error) {
	u, err := q.loadQueue()
	if err != nil {
		return nil, err
	}
	g := u.Items
	t := &table{Caption: "Items", Head: []string{"State", "Items"}}
	for _, row := range []struct {
		state string
		n     uint64
	}{{"pending", g.Ready + g.Waiting + g.Delayed}, {"failed", g.Failed}, {"dead", g.Dead}, {"completed", g.Completed}, {"processing", g.Processing}} {
		t.Rows = append(t.Rows, []cell{badge(row.state), number(row.n)})
	}
	return []block{{Table: t}}, nil
}

func (q *visit) purgeFields() ([]field, error) {
	u, err := q.loadQueue()
	if err != nil {
		return nil, err
	}
	g := u.Items
	counts := map[core.ItemStateType]uint64{core.ItemPending: g.Ready + g.Waiting + g.Delayed, core.ItemFailed: g.Failed, core.ItemDead: g.Dead, core.ItemCompleted: g.Completed}
	words := map[core.ItemStateType]string{core.ItemPending: "pending", core.ItemFailed: "waiting for another attempt", core.ItemDead: "dead", core.ItemCompleted: "completed"}
	var out []field
	for _, s := range purgeable {
		out = append(out, field{Name: "state-" + string(s), Label: "Remove the " + strconv.FormatUint(counts[s], 10) + " that are " + words[s], Type: fieldCheck})
	}
	return append(out, reasonField), nil
}

// amendPurge makes the API's list of the states that were chosen. None chosen is refused, as it would mean all.
func amendPurge(_ *visit, body map[string]any, form url.Values) error {
	var states []core.ItemStateType
	for _, s := range purgeable {
		delete(body, "state-"+string(s))
		if form.Get("state-"+string(s)) != "" {
			states = append(states, s)
		}
	}
	if len(states) == 0 {
		return &apiError{Status: http.StatusBadRequest, Text: "choose the states whose items are to be removed"}
	}
	body["states"] = states
	return nil
}
