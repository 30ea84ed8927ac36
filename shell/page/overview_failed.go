package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// overviewCounted is how many of a list the overview counts; of more it says so.
const overviewCounted = "100"

// failure is something that failed in the last day, of whatever kind.
type failure struct {
	what   cell
	kind   string
	at     effects.Time
	why    string
	tenant cell
}

// lately is when the last day began, to the minute: so that an address that names it does not change with each load.
func (q *visit) lately() string {
	return effects.TimeOf(q.now.Add(-24 * time.Hour).Truncate(time.Minute)).String()
}

// failedLately shows what of the last day has failed, whenever it was made, or was missed.
func (q *visit) failedLately() ([]tile, []block, error) {
	var tiles []tile
	var all []failure
	since := q.lately()
	for _, kind := range []func(since string) (tile, []failure, error){q.failedActions, q.failedTimes, q.failedRuns, q.failedPipelines, q.failedTasks, q.failedStrategies} {
		t, failed, err := kind(since)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, failed...)
		if t.Name != "" {
			tiles = append(tiles, t)
		}
	}
	for _, verdict := range []core.Verdict{core.VerdictMissed, core.VerdictExpired} {
		t, err := q.passedTimes(verdict, since)
		if err != nil {
			return nil, nil, err
		}
		if verdict == core.VerdictMissed || t.Tone == toneBad {
			tiles = append(tiles, t)
		}
	}
	if len(all) == 0 {
		return tiles, nil, nil
	}
	slices.SortStableFunc(all, func(a, b failure) int { return cmp.Compare(b.at, a.at) })
	t := &table{Caption: "Failed in the last day", Head: []string{"What", "Kind", "Failed", "Why", "Tenant"}}
	for _, f := range all[:min(len(all), overviewRows)] {
		t.Rows = append(t.Rows, []cell{f.what.wide(), textOf(f.kind), q.at(f.at), textOf(clip(f.why, 160)).wide(), f.tenant})
	}
	b := block{Title: "Failed in the last day", ID: "failed", Table: t}
	if len(all) > overviewRows {
		b.Note = "The last " + strconv.Itoa(overviewRows) + "; the numbers above lead to all."
	}
	return tiles, []block{b}, nil
}

// failedTile counts what failed; of what is rare there is none without a failure.
func (q *visit) failedTile(name, path string, n int, more, rare bool, params ...string) tile {
	if n == 0 && rare {
		return tile{}
	}
	t := tile{Name: name + " failed in 24 h", Value: counted(n, more), Href: q.page(path, params...), Tone: toneGood}
	if n > 0 {
		t.Tone = toneBad
	}
	return t
}

func failedIn(since string) url.Values {
	return url.Values{"failed_since": {since}, "limit": {overviewCounted}}
}

func (q *visit) failedActions(since string) (tile, []failure, error) {
	var got wire.ActionList
	if err := q.get("/actions", failedIn(since), &got); err != nil {
		return tile{}, nil, err
	}
	var out []failure
	for _, a := range got.Actions {
		out = append(out, failure{q.actionLink(core.Action(a)), "action", a.FinishedAt, a.Status.Reason, whose(a.Namespace, a.Tenant)})
	}
	return q.failedTile("actions", "/actions", len(out), got.NextPageToken != "", false, "failed_since", since), out, nil
}

// failedTimes counts the cycles of periodic actions, which are pending again after a failure. They are chosen by when they were due.
func (q *visit) failedTimes(since string) (tile, []failure, error) {
	var got wire.OccurrenceList
	if err := q.get("/occurrences", url.Values{"schedule": {kindPeriodic}, "outcome": {"failed"}, "from": {since}, "limit": {overviewCounted}}, &got); err != nil {
		return tile{}, nil, err
	}
	var out []failure
	for _, o := range got.Occurrences {
		out = append(out, failure{q.scheduleLink(o), "time of a periodic action", o.FinishedAt, o.Reason, whose(o.Namespace, o.Tenant)})
	}
	t := q.failedTile("times of periodic actions", "/occurrences", len(out), got.NextPageToken != "", true, "schedule", kindPeriodic, "outcome", "failed", "from", since)
	return t, out, nil
}

func (q *visit) failedRuns(since string) (tile, []failure, error) {
	var got wire.RunList
	may, err := q.getPart("/runs", failedIn(since), &got)
	if err != nil || !may {
		return tile{}, nil, err
	}
	var out []failure
	for _, r := range got.Runs {
		why := r.Error
		if r.State == core.OrchestratorOrphaned {
			why = cmp.Or(why, "orphaned")
		}
		out = append(out, failure{q.runLink(r), "run", r.CompletedAt, why, whose(r.Namespace, r.Tenant)})
	}
	return q.failedTile("runs", "/runs", len(out), got.NextPageToken != "", false, "failed_since", since), out, nil
}

func (q *visit) failedPipelines(since string) (tile, []failure, error) {
	var got wire.PipelineList
	if _, err := q.getPart("/pipelines", failedIn(since), &got); err != nil {
		return tile{}, nil, err
	}
	var out []failure
	for _, p := range got.Pipelines {
		out = append(out, failure{q.pipelineLink(p), "pipeline", p.FinishedAt, "phase " + p.Phase.Name + ": " + p.Phase.Error, whose(p.Namespace, p.Tenant)})
	}
	return q.failedTile("pipelines", "/pipelines", len(out), got.NextPageToken != "", true, "failed_since", since), out, nil
}

func (q *visit) failedTasks(since string) (tile, []failure, error) {
	var got wire.TaskList
	if _, err := q.getPart("/tasks", failedIn(since), &got); err != nil {
		return tile{}, nil, err
	}
	var out []failure
	for _, k := range got.Tasks {
		out = append(out, failure{q.taskLink(k), "task", k.FinishedAt, whyTask(k.State), whose(k.Namespace, k.Tenant)})
	}
	return q.failedTile("tasks", "/tasks", len(out), got.NextPageToken != "", true, "failed_since", since), out, nil
}

func (q *visit) failedStrategies(since string) (tile, []failure, error) {
	var got wire.StrategyList
	if _, err := q.getPart("/strategies", failedIn(since), &got); err != nil {
		return tile{}, nil, err
	}
	var out []failure
	for _, s := range got.Strategies {
		what := textOf(clip(cmp.Or(s.Label, "strategy "+shortID(s.ID.String())), 120)).to(q.page(pathOf("strategies", s.ID.String())))
		out = append(out, failure{what, "strategy", s.FinishedAt, cmp.Or(s.Error, "exhausted"), whose(s.Namespace, s.Tenant)})
	}
	return q.failedTile("strategies", "/strategies", len(out), got.NextPageToken != "", true, "failed_since", since), out, nil
}

// runLink leads to a run by the job that it is of.
func (q *visit) runLink(r wire.RunSummary) cell {
	return textOf(clip(r.JobID, 120)).to(q.page(pathOf("runs", r.ID.String())))
}

func (q *visit) pipelineLink(p wire.PipelineSummary) cell {
	return textOf(clip(cmp.Or(p.Label, p.Name), 120)).to(q.page(pathOf("pipelines", p.ID.String())))
}

func (q *visit) taskLink(k wire.TaskSummary) cell {
	return textOf(clip(cmp.Or(k.Label, k.SessionID, "task"), 120)).to(q.page(pathOf("tasks", k.ID.String())))
}

// passedTimes counts the times since then that nothing was made of: each of those that an entry stands for.
func (q *visit) passedTimes(v core.Verdict, since string) (tile, error) {
	var got wire.OccurrenceList
	if err := q.get("/occurrences", url.Values{"verdict": {string(v)}, "from": {since}, "spanning": {"true"}, "limit": {"1000"}}, &got); err != nil {
		return tile{}, err
	}
	n, more, before := timesOf(got.Occurrences, since)
	t := tile{
		Name: "times " + string(v) + " in 24 h", Value: counted(n, more || got.NextPageToken != ""), Tone: toneGood,
		Href: q.page("/occurrences", "verdict", string(v), "from", since, "spanning", "true"),
	}
	if n > 0 {
		t.Tone = toneBad
	}
	if before {
		t.Hint = "with those before, of what began earlier"
	}
	return t, nil
}

// timesOf sums what entries stand for; more says that there were more, before that some of them are earlier than since.
func timesOf(all []core.Occurrence, since string) (n int, more, before bool) {
	for _, o := range all {
		n += int(min(o.Count, 1<<30))
		more = more || o.CountCapped
		before = before || o.DueAt.String() < since
	}
	return n, more, before
}
