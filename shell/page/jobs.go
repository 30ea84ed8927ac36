package page

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func jobViews() []viewRoute {
	return []viewRoute{
		{"/jobs", "/jobs", (*visit).jobs},
		{"/jobs/{id}", "/jobs", (*visit).job},
		{"/runs", "/runs", (*visit).runs},
		{"/runs/{id}", "/runs", (*visit).run},
		{"/runs/{id}/logs", "/runs", (*visit).runLogs},
	}
}

func jobActs() []act { return slices.Concat(actsOnJobs(), actsOnRuns()) }

// yesNo are the options of a filter that may be left open: [visit.filtered] says so.
func yesNo() []option { return []option{{}, {"true", "yes"}, {"false", "no"}} }

var jobFilters = []field{ // read-only: a table
	stateFilter, scheduleFilters[0], scheduleFilters[1],
}

// jobs lists the jobs.
func (q *visit) jobs() (view, error) {
	var got wire.JobList
	t, err := q.read(list{
		api: "/jobs", path: "/jobs", caption: "Jobs, newest first",
		filters: jobFilters, ordered: true,
		head:  []string{"Name", "When", "Status", "Next", "Last run", "Active", "Completed", "Failed", "Other ends", "Tenant"},
		empty: "There is no job. A job runs a pod in a cluster, or processes of the daemon's machine, at each time of its schedule; make one here, or with: orreryd job apply -f FILE",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, j := range got.Jobs {
		t.Rows = append(t.Rows, q.jobRow(j))
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Jobs", Acts: q.actLinks("/jobs", "new", "pause-all", "resume-all"), Body: []block{{Table: t}}}, nil
}

func (q *visit) jobRow(j wire.JobSummary) []cell {
	name := textOf(clip(cmp.Or(j.Name, j.ID), 120)).to(q.scoped(pathOf("jobs", j.ID), j.Namespace, j.Tenant)).wide()
	if j.Name != "" && j.Name != j.ID {
		name.More = []cell{codeOf(clip(j.ID, 120))}
	}
	status := scheduleState(!j.Paused, j.Ended)
	if j.Paused && j.PausedReason != "" {
		status.Hint = clip(j.PausedReason, 120)
	}
	if j.SkipNext > 0 {
		status.More = append(status.More, textOf("skips the next "+howMany(uint64(j.SkipNext), "time")))
	}
	return []cell{
		name, firesJob(j.Schedule, j.Timezone, j.DayMatch).wide(), status, q.at(j.NextRunAt), q.endedRun(j.LastRun, j.Namespace, j.Tenant),
		number(uint64(j.ActiveRuns)), number(j.Counts.Completed), badCount(j.Counts.Failed),
		otherEnds(j.Counts), whose(j.Namespace, j.Tenant),
	}
}

// firesJob says when a job fires.
func firesJob(expr, zone string, days schedule.DayMatch) cell {
	if expr == "" {
		return textOf("only when triggered")
	}
	return fires(expr, zone, days)
}

// howMany tells a number of things in words.
func howMany(n uint64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatUint(n, 10) + " " + one + "s"
}

// otherEnds tells of the runs and times of a job that neither completed nor failed.
func otherEnds(c core.JobCounts) (out cell) {
	for _, of := range []struct {
		n    uint64
		what string
	}{
		{c.Cancelled, "cancelled"}, {c.Orphaned, "orphaned"}, {c.Missed, "missed"}, {c.Skipped, "skipped"},
		{c.VerdictExpired, "expired"}, {c.VerdictCancelled, "cancelled before it began"}, {c.Deduplicated, "deduplicated"},
	} {
		if of.n > 0 {
			out.Lines = append(out.Lines, strconv.FormatUint(of.n, 10)+" "+of.what)
		}
	}
	return out
}

// endedRun shows how a run ended, and leads to it.
func (q *visit) endedRun(r core.EndedRun, namespace, tenant string) cell {
	if r.RunID == "" {
		return cell{}
	}
	c := runBadge(r.State)
	if r.ExitCode != nil && *r.ExitCode != 0 {
		c.Hint = "exit code " + strconv.Itoa(int(*r.ExitCode))
	}
	at := q.at(r.EndedAt)
	c.More = []cell{textOf("run").to(q.scoped(pathOf("runs", r.RunID), namespace, tenant)), at}
	return c
}

// job shows one job.
func (q *visit) job() (view, error) {
	var j wire.Job
	id := q.PathValue("id")
	if err := q.get(pathOf("jobs", id), q.scopeQuery(), &j); err != nil {
		return view{}, err
	}
	ended := j.Ended(effects.TimeOf(q.now))
	s := scheduleState(!j.Paused, ended)
	v := view{Kind: "Job", Title: clip(cmp.Or(j.Name, j.ID), 200), State: &s, Crumbs: []link{{Text: "Jobs", Href: q.page("/jobs")}}, More: []link{q.changesLink(core.KindJob, j.Key.String())}}
	names := []string{"trigger", pausing(j.Paused, ended), "skip-next", "apply", "backfill", "delete"}
	if j.Schedule == "" || ended {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "skip-next" || n == "backfill" && !ended })
	}
	alerts, acts, err := q.alertsOf(pathOf("jobs", id), j.Alerts, q.scopeQuery())
	if err != nil {
		return view{}, err
	}
	v.Acts = q.actLinks("/jobs/{id}", withSilence(names, acts)...)
	p, err := q.jobPreview(j)
	if err != nil {
		return view{}, err
	}
	v.Body = slices.Concat(q.jobNotices(j, p, ended), alerts, []block{{Facts: q.jobFacts(j)}})
	if j.Schedule != "" {
		v.Body = append(v.Body, q.nextTimes(p, !j.Paused || ended))
	}
	for _, part := range []func(wire.Job) ([]block, error){q.jobGrid, q.jobRuns, q.jobHistory} {
		b, err := part(j)
		if err != nil {
			return view{}, err
		}
		v.Body = append(v.Body, b...)
	}
	v.Body = append(v.Body, jobConfiguration(j.JobSpec)...)
	return v, nil
}

// jobPreview gives the next times of a job, also of a paused one.
func (q *visit) jobPreview(j wire.Job) (p wire.Preview, err error) {
	if j.Schedule == "" {
		return p, nil
	}
	params := q.scopeQuery()
	params.Set("n", "5")
	err = q.get(pathOf("jobs", j.ID, "preview"), params, &p)
	return p, err
}

// jobConfiguration shows what a job runs, and what it checks before and after.
func jobConfiguration(spec core.JobSpec) (out []block) {
	if len(spec.ConstraintConfig) > 0 {
		out = append(out, block{Title: "Constraints", Text: jsonText(spec.ConstraintConfig)})
	}
	if len(spec.ActionConfig) > 0 {
		out = append(out, block{Title: "Actions of constraints", Text: jsonText(spec.ActionConfig)})
	}
	return append(out, block{Title: "Pod spec", Text: jsonText(spec.PodSpec)})
}

// jobNotices say what of a job a visitor should see first.
func (q *visit) jobNotices(j wire.Job, p wire.Preview, ended bool) (out []block) {
	warn := func(text string) { out = append(out, block{Notice: &notice{Text: text, Tone: toneWait}}) }
	switch {
	case ended && j.Paused:
		warn("It has ended." + editEnded)
	case ended:
		warn("It has ended. No time of it is to come. To have it go on, edit its schedule.")
	case j.Paused:
		text := "It is paused"
		if j.PausedBy != "" {
			text += " by " + j.PausedBy
		}
		if j.PausedReason != "" {
			text += ": " + j.PausedReason
		}
		if !j.PausedUntil.IsZero() {
			text += " (until " + q.moment(j.PausedUntil).Text + ")"
		}
		warn(text)
	}
	for _, w := range append(slices.Clone(j.Warnings), q.clockChanges(p.Times, p.Timezone)...) {
		warn(w)
	}
	return out
}

func (q *visit) jobFacts(j wire.Job) []fact {
	own := facts(
		fact{"When", firesJob(j.Schedule, j.Timezone, j.DayMatch)}, fact{"Next run", q.at(j.NextRunAt)}, fact{"Last run", q.endedRun(j.LastRun, j.Namespace, j.Tenant)},
		fact{"Last success", q.at(j.LastSuccessAt)}, fact{"Usually takes", usually(j.Durations)}, fact{"Active runs", number(uint64(len(j.Active)))},
		fact{"Dispatched", number(j.Counts.Dispatched)}, fact{"Completed", number(j.Counts.Completed)}, fact{"Failed", badCount(j.Counts.Failed)}, fact{"Other ends", otherEnds(j.Counts)},
		fact{"Next times to skip", count(uint64(j.SkipNext))}, fact{"Runner", codeOf(j.Runner)}, fact{"Overlap", textOf(string(j.Overlap))},
		fact{"Runs at a time", count(uint64(j.MaxConcurrentRuns))}, fact{"Start deadline", ofSeconds(j.StartDeadlineSeconds)}, fact{"Pod start limit", millis(j.PodStartTimeoutMS)}, fact{"Runs are made ahead by", millis(j.CreateAheadMS)},
		fact{"Further attempts", retriesText(j.RetryConfig)}, fact{"Errors of constraints", textOf(string(j.ConstraintErrors))},
		fact{"Orphans", textOf(string(j.OrphanPolicy))}, fact{"Ends", q.at(j.EndsAt)},
		fact{"Labels", pairs(j.Labels)}, fact{"Whose", whose(j.Namespace, j.Tenant)}, q.declaredFact(j.Declared), fact{"Last triggered", q.at(j.LastTriggeredAt)},
		fact{"Created", q.at(j.CreatedAt)}, fact{"Changed", q.at(j.UpdatedAt)}, fact{"Id", codeOf(j.ID)},
	)
	return append(own, q.scheduleFacts(j.ScheduleOptions)...)
}

// retriesText says how often a job tries again.
func retriesText(c core.RetryConfig) cell {
	if c.MaxRetries == 0 {
		return textOf("none")
	}
	return textOf("at most " + strconv.FormatUint(uint64(c.MaxRetries), 10) + ", the first after " + precisely(time.Duration(c.Delay(0))*time.Millisecond) +
		", each after at most " + precisely(time.Duration(c.MaxDelayMS)*time.Millisecond))
}

// jobRuns lists the runs of a job. It is the text of what [visit.jobGrid] draws.
func (q *visit) jobRuns(j wire.Job) ([]block, error) {
	var got wire.RunList
	path := pathOf("jobs", j.ID)
	t, err := q.read(list{
		api: path + "/runs", path: path, caption: "Runs of the job, newest first", rows: 25, single: true, fixed: q.scopeQuery(),
		filters: append([]field{statusFilter(core.KindOrchestrator)}, madeFilters...), ordered: true,
		head:  []string{"Time", "Status", "Took", "Exit code", "Attempt", "Why", "Run"},
		empty: "The job has no run: it makes the next one shortly before its time, or when it is triggered.",
	}, &got)
	if err != nil {
		return nil, err
	}
	for name, values := range q.scopeQuery() {
		t.Filter.Keep = append(t.Filter.Keep, field{Name: name, Value: values[0]})
	}
	slices.SortFunc(t.Filter.Keep, func(a, b field) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range got.Runs {
		t.Rows = append(t.Rows, q.runCells(r))
	}
	q.next(t, got.NextPageToken)
	return []block{{Title: "Runs", ID: "runs", Table: t}}, nil
}

// jobHistory shows what became of the times of a job, also of those that made no run.
func (q *visit) jobHistory(j wire.Job) ([]block, error) {
	b, err := q.historyIn(pathOf("jobs", j.ID, "history"), q.scopeQuery(), 25)
	return []block{b}, err
}
