package page

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// present is something that runs or waits, of whatever kind.
type present struct {
	what   cell
	kind   string
	waits  string // what it waits for
	since  effects.Time
	tenant cell
}

// waitsForSomebody shows what does not go on by itself, what has waited longest first.
func (q *visit) waitsForSomebody() ([]tile, []block, error) {
	var all []present
	more := false
	oldest := func(name, value string) url.Values {
		return url.Values{name: {value}, "order": {"oldest"}, "limit": {overviewCounted}}
	}
	for _, params := range []url.Values{oldest("waits_for", "approval"), oldest("waits_for", "manual"), oldest("waits_for", "signal"), oldest("status", "init")} {
		var got wire.PipelineList
		if _, err := q.getPart("/pipelines", params, &got); err != nil {
			return nil, nil, err
		}
		more = more || got.NextPageToken != ""
		for _, p := range got.Pipelines {
			what, since := waitingWords[p.WaitsFor], p.PhaseStartedAt
			if p.Phase.Type == core.PhaseInit {
				what, since = "is held: somebody has to start it", p.CreatedAt
			}
			all = append(all, present{q.pipelineLink(p), "pipeline", what, since, whose(p.Namespace, p.Tenant)})
		}
	}
	var tasks wire.TaskList
	if _, err := q.getPart("/tasks", oldest("status", "stuck"), &tasks); err != nil {
		return nil, nil, err
	}
	more = more || tasks.NextPageToken != ""
	for _, k := range tasks.Tasks {
		all = append(all, present{q.taskLink(k), "task", "is stuck: " + whyTask(k.State), k.State.DetectedAt, whose(k.Namespace, k.Tenant)})
	}
	t := tile{Name: "wait for somebody", Value: counted(len(all), more), Href: q.page("/pipelines", "waits_for", "approval"), Tone: toneGood}
	if len(all) == 0 {
		return []tile{t}, nil, nil
	}
	t.Href, t.Tone = "#waits", toneWait
	slices.SortStableFunc(all, func(a, b present) int { return cmp.Compare(a.since, b.since) })
	list := &table{Caption: "What waits for somebody", Head: []string{"What", "Kind", "What it waits for", "Since", "Tenant"}}
	for _, p := range all[:min(len(all), waitRows)] {
		list.Rows = append(list.Rows, []cell{p.what.wide(), textOf(p.kind), textOf(clip(p.waits, 160)).wide(), q.at(p.since), p.tenant})
	}
	b := block{Title: "Waits for somebody", ID: "waits", Table: list}
	if more || len(all) > waitRows {
		b.Note = "What has waited longest. The lists of pipelines and tasks have all."
	}
	return []tile{t}, []block{b}, nil
}

// waitRows bounds the list of what waits for somebody.
const waitRows = 25

// runsNow shows what is under way.
func (q *visit) runsNow() ([]tile, []block, error) {
	var all []present
	var tiles []tile
	running := url.Values{"status": {"running"}, "limit": {overviewCounted}}
	add := func(name, path string, n int, next string) {
		tiles = append(tiles, tile{Name: name + " running", Value: counted(n, next != ""), Href: q.page(path, "status", "running"), Tone: toneBusy})
	}
	var actions wire.ActionList
	if err := q.get("/actions", running, &actions); err != nil {
		return nil, nil, err
	}
	add("actions", "/actions", len(actions.Actions), actions.NextPageToken)
	for _, a := range actions.Actions {
		all = append(all, present{q.actionLink(core.Action(a)), "action", "", a.StartedAt, whose(a.Namespace, a.Tenant)})
	}
	var runs wire.RunList
	may, err := q.getPart("/runs", running, &runs)
	if err != nil {
		return nil, nil, err
	}
	if may {
		add("runs", "/runs", len(runs.Runs), runs.NextPageToken)
	}
	for _, r := range runs.Runs {
		all = append(all, present{q.runLink(r), "run", "", cmp.Or(r.StartedAt, r.CreatedAt), whose(r.Namespace, r.Tenant)})
	}
	var pipelines wire.PipelineList
	if _, err := q.getPart("/pipelines", running, &pipelines); err != nil {
		return nil, nil, err
	}
	add("pipelines", "/pipelines", len(pipelines.Pipelines), pipelines.NextPageToken)
	for _, p := range pipelines.Pipelines {
		all = append(all, present{q.pipelineLink(p), "pipeline", "", p.StartedAt, whose(p.Namespace, p.Tenant)})
	}
	var tasks wire.TaskList
	if _, err := q.getPart("/tasks", running, &tasks); err != nil {
		return nil, nil, err
	}
	if len(tasks.Tasks) > 0 {
		add("tasks", "/tasks", len(tasks.Tasks), tasks.NextPageToken)
	}
	for _, k := range tasks.Tasks {
		all = append(all, present{q.taskLink(k), "task", "", cmp.Or(k.State.StartedAt, k.CreatedAt), whose(k.Namespace, k.Tenant)})
	}
	slices.SortStableFunc(all, func(a, b present) int { return cmp.Compare(b.since, a.since) })
	t := &table{Caption: "Running", Head: []string{"What", "Kind", "Since", "For", "Tenant"}, Empty: "Nothing runs."}
	for _, p := range all[:min(len(all), overviewRows)] {
		t.Rows = append(t.Rows, []cell{p.what.wide(), textOf(p.kind), q.at(p.since), q.lasted(p.since, 0), p.tenant})
	}
	b := block{Title: "Running now", Table: t}
	if len(all) > overviewRows {
		b.Note = "What began last; the numbers above lead to all."
	}
	return tiles, []block{b}, nil
}
