package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func queueViews() []viewRoute {
	return []viewRoute{
		{"/queues", "/queues", (*visit).queues},
		{"/queues/{name}", "/queues", (*visit).queue},
		{"/queues/{name}/items/{id}", "/queues", (*visit).item},
		{"/workers", "/workers", (*visit).workers},
		{"/workers/{name}", "/workers", (*visit).worker},
	}
}

func queueActs() []act { return slices.Concat(queueOwnActs(), itemActs(), workerActs()) }

func (q *visit) queues() (view, error) {
	var got wire.QueueList
	t, err := q.read(list{
		api: "/queues", path: "/queues", caption: "Queues",
		filters: []field{{Name: "paused", Label: "Paused", Type: fieldChoice, Options: yesNo()}},
		head:    []string{"Queue", "Ready", "Waiting", "Delayed", "Processing", "Retrying", "Dead", "Completed", "Oldest waits", "Tenant"},
		empty:   "There is no queue. The first push makes one, and so does the button above.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, u := range got.Queues {
		row := q.queueCells(u) // name, ready, processing, dead, oldest, tenant
		t.Rows = append(t.Rows, []cell{row[0], row[1], number(u.Items.Waiting), number(u.Items.Delayed), row[2], number(u.Items.Failed), row[3], number(u.Items.Completed), row[4], row[5]})
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Queues", Acts: q.actLinks("/queues", "new"), Body: []block{{Table: t}}}, nil
}

func (q *visit) loadQueue() (u wire.Queue, err error) {
	return u, q.get(pathOf("queues", q.PathValue("name")), q.scopeQuery(), &u)
}

// itemStates are the lists of the items of a queue, as the API names them, with the words for readers.
var itemStates = []option{
	{}, {"ready", "ready"}, {"waiting", "waiting for another of their key"}, {"delayed", "delayed"}, {"processing", "processing"},
	{"failed", "waiting for another attempt"}, {"dead", "dead"}, {"completed", "completed"},
}

func (q *visit) queue() (view, error) {
	u, err := q.loadQueue()
	if err != nil {
		return view{}, err
	}
	const on = "/queues/{name}"
	v := view{Kind: "Queue", Title: u.Name, Crumbs: []link{{Text: "Queues", Href: q.page("/queues")}}, More: []link{q.changesLink(core.KindQueue, u.ID.String())}}
	if u.Paused {
		s := badge("paused")
		v.State, v.Acts = &s, q.actLinks(on, "resume")
		why := "Nothing is taken from it."
		if u.PausedBy != "" {
			why += " Paused by " + u.PausedBy + "."
		}
		v.Body = append(v.Body, whyNotice(strings.TrimSpace(why+" "+u.Reason), toneWait)...)
	} else {
		v.Acts = q.actLinks(on, "pause")
	}
	v.Acts = append(v.Acts, q.actLinks(on, "push", "redrive", "purge", "configure", "delete")...)
	v.Body = append(v.Body, block{Tiles: q.gaugeTiles(u)}, block{Facts: q.queueFacts(u)})
	items, err := q.itemTable(u)
	if err != nil {
		return view{}, err
	}
	v.Body = append(v.Body, items)
	t := u.Totals
	return withBlocks(v,
		block{Title: "Since it was made", Facts: facts(
			fact{"Pushed", number(t.Pushed)}, fact{"Taken", number(t.Taken)}, fact{"Completed", number(t.Completed)}, fact{"Failed", number(t.Failed)}, fact{"Timed out", number(t.TimedOut)},
			fact{"Dead letters", number(t.DeadLettered)}, fact{"Cancelled", number(t.Cancelled)}, fact{"Redriven", number(t.Redriven)},
		)},
		block{Title: "Configuration", Facts: q.configFacts(u)}), nil
}

// gaugeTiles count the items by state; each leads to the list of them.
func (q *visit) gaugeTiles(u wire.Queue) (out []tile) {
	for _, g := range []struct {
		state, name string
		n           uint64
		tone        tone
	}{
		{"ready", "ready", u.Items.Ready, toneBusy}, {"waiting", "wait for their key", u.Items.Waiting, toneWait}, {"delayed", "delayed", u.Items.Delayed, toneWait},
		{"processing", "processing", u.Items.Processing, toneBusy}, {"failed", "wait for another attempt", u.Items.Failed, toneWait},
		{"dead", "dead", u.Items.Dead, toneBad}, {"completed", "completed, kept", u.Items.Completed, toneNone},
	} {
		if g.n == 0 {
			g.tone = toneNone
		}
		t := tile{Name: g.name, Value: strconv.FormatUint(g.n, 10), Tone: g.tone, Href: q.page(pathOf("queues", u.Name), "namespace", u.Namespace, "tenant", u.Tenant, "state", g.state) + "#items"}
		if g.state == "ready" && !u.OldestReadyAt.IsZero() {
			t.Hint = "the oldest waits for " + roughly(time.Duration(u.OldestReadySeconds*float64(time.Second)))
		}
		out = append(out, t)
	}
	return out
}

func (q *visit) queueFacts(u wire.Queue) []fact {
	dead := cell{}
	if name := u.Config.DeadLetterQueue; name != "" {
		dead = codeOf(name).to(q.scoped(pathOf("queues", name), u.Namespace, u.Tenant))
	}
	return facts(
		fact{"Oldest ready item", q.at(u.OldestReadyAt)}, fact{"Dead letters go to", dead}, fact{"Whose", whose(u.Namespace, u.Tenant)}, q.declaredFact(u.Declared),
		fact{"Created", q.at(u.CreatedAt)}, fact{"Id", codeOf(u.ID.String())},
	)
}

func (q *visit) configFacts(u wire.Queue) []fact {
	c := u.Config
	limit := func(n uint32) cell {
		if n == 0 {
			return textOf("no limit")
		}
		return number(n)
	}
	rate := func(r core.QueueRate) cell {
		if r.Limit == 0 {
			return textOf("no limit")
		}
		return textOf(strconv.FormatUint(uint64(r.Limit), 10) + " in " + millis(r.PerMS).Text + ", at once " + strconv.FormatUint(uint64(max(r.Burst, 1)), 10))
	}
	window := cmp.Or(millis(c.DedupWindowMS).Text, "while its item lives")
	return facts(
		fact{"Visibility timeout", millis(c.VisibilityTimeoutMS)}, fact{"Attempts", number(c.Retry.MaxAttempts)}, fact{"Back-off", millis(c.Retry.BackoffMS)},
		fact{"At most in hand", limit(c.Concurrency)}, fact{"At most of one key", limit(c.KeyConcurrency)}, fact{"Rate", rate(c.Rate)}, fact{"Rate of one key", rate(c.KeyRate)},
		fact{"Completed are kept", textOf(cmp.Or(millis(c.KeepCompletedMS).Text, "not at all"))}, fact{"Dedup keys are held", textOf(window)},
	)
}

// itemTable lists the items of a queue, by state if one is chosen.
func (q *visit) itemTable(u wire.Queue) (block, error) {
	var got wire.ItemList
	path := pathOf("queues", u.Name)
	t, err := q.read(list{
		api: path + "/items", path: path, single: true, fixed: url.Values{"namespace": {u.Namespace}, "tenant": {u.Tenant}}, caption: "Items in the order in which they are taken",
		filters: []field{{Name: "state", Label: "State", Type: fieldChoice, Options: itemStates}},
		head:    []string{"Item", "State", "Attempts", "Priority", "Key", "Pushed", "Until", "Holder or reason"},
		empty:   "The queue has no item.",
	}, &got)
	if err != nil {
		return block{}, err
	}
	t.Filter.Keep = []field{{Name: "namespace", Value: u.Namespace}, {Name: "tenant", Value: u.Tenant}}
	t.Filter.All = q.scoped(path, u.Namespace, u.Tenant)
	for _, i := range got.Items {
		t.Rows = append(t.Rows, q.itemRow(u, core.QueueItem(i)))
	}
	q.next(t, got.NextPageToken)
	return block{Title: "Items", ID: "items", Table: t}, nil
}

func (q *visit) itemRow(u wire.Queue, i core.QueueItem) []cell {
	why := cell{Text: clip(cmp.Or(i.State.Reason, i.State.Error, i.LastError), 300)}
	if i.State.Holder != "" {
		why = q.itemHolder(u, i.State.Holder)
	}
	return []cell{
		codeOf(shortID(i.ID.String())).to(q.scoped(pathOf("queues", u.Name, "items", i.ID.String()), u.Namespace, u.Tenant)), badge(string(i.State.Type)), number(i.Attempts),
		number(i.Priority), codeOf(clip(i.Key, 80)), q.at(i.CreatedAt), q.at(i.State.Until), why.wide(),
	}
}

// itemHolder leads to the worker that holds an item, if one does.
func (q *visit) itemHolder(u wire.Queue, holder string) cell {
	c := codeOf(clip(holder, 200))
	if name, ok := strings.CutPrefix(holder, "worker:"); ok {
		return c.to(q.scoped(pathOf("workers", name), u.Namespace, u.Tenant))
	}
	return c
}

// item shows one item of a queue.
func (q *visit) item() (view, error) {
	var i core.QueueItem
	u, err := q.loadQueue()
	if err != nil {
		return view{}, err
	}
	if err := q.get(pathOf("queues", u.Name, "items", q.PathValue("id")), q.scopeQuery(), &i); err != nil {
		return view{}, err
	}
	s := badge(string(i.State.Type))
	v := view{
		Kind: "Item", Title: shortID(i.ID.String()), State: &s,
		Crumbs: []link{{Text: "Queues", Href: q.page("/queues")}, {Text: u.Name, Href: q.scoped(pathOf("queues", u.Name), u.Namespace, u.Tenant)}},
	}
	const on = "/queues/{name}/items/{id}"
	if i.State.Type == core.ItemDead || i.Origin != nil && i.State.Type != core.ItemProcessing {
		v.Acts = q.actLinks(on, "redrive")
	}
	if i.State.Type != core.ItemProcessing && i.State.Type != core.ItemCompleted {
		v.Acts = append(v.Acts, q.actLinks(on, "delete")...)
	}
	v.Body = append(v.Body, whyNotice(cmp.Or(i.State.Reason, i.State.Error), toneBad)...)
	v.Body = append(v.Body, block{Facts: q.itemFacts(u, i)})
	if o := i.Origin; o != nil {
		v.Body = append(v.Body, block{Title: "It came as a dead letter", Facts: facts(
			fact{"Of queue", codeOf(o.Name).to(q.scoped(pathOf("queues", o.Name), o.Namespace, o.Tenant))}, fact{"Given up", q.at(o.DeadAt)}, fact{"Attempts there", number(o.Attempts)},
			fact{"Why", textOf(o.Error)}, fact{"Its id there", codeOf(o.Item.String())}, fact{"Through dead letter queues", number(o.Hops)},
		)})
	}
	v.Body = append(v.Body, result("Data", i.Data)...)
	return withBlocks(v, result("Result", i.State.Result)...), nil
}

func (q *visit) itemFacts(u wire.Queue, i core.QueueItem) []fact {
	var holder, owner cell
	if i.State.Holder != "" {
		holder = q.itemHolder(u, i.State.Holder)
	}
	if !i.Owner.IsZero() {
		owner = q.machine(i.Owner.Ref)
	}
	until := map[core.ItemStateType]string{
		core.ItemPending: "Delayed until", core.ItemProcessing: "Held until", core.ItemCompleted: "Kept until", core.ItemFailed: "Tried again", core.ItemDead: "Until",
	}[i.State.Type]
	return facts(
		fact{"Holder", holder}, fact{"Taken", q.at(i.State.TakenAt)}, fact{until, q.at(i.State.Until)}, fact{"Ended", q.at(i.State.At)}, fact{"Attempts", number(i.Attempts)},
		fact{"Last error", textOf(i.LastError)}, fact{"Priority", number(i.Priority)}, fact{"Key", codeOf(i.Key)}, fact{"Dedup key", codeOf(i.DedupKey)},
		fact{"Waited for by", owner}, fact{"Whose", whose(u.Namespace, u.Tenant)}, fact{"Pushed", q.at(i.CreatedAt)}, fact{"Id", codeOf(i.ID.String())},
	)
}
