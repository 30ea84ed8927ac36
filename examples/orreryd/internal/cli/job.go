package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobfile"
)

// jobCommands are the commands about jobs (004), which belong to one tenant of one
// namespace.
type jobCommands struct {
	a     *app
	scope scoped
	jobs  machine[core.Job]
	runs  machine[wire.Run]
}

func (a *app) newJobs() *jobCommands {
	j := &jobCommands{a: a}
	j.jobs = machine[core.Job]{
		a: a, path: "/v1/jobs", arg: "JOB", args: oneArg("JOB"), scope: &j.scope, view: jobView, id: func(s core.Job) string { return s.ID },
		complete: completing(a, "/v1/jobs", "jobs", &j.scope, func(s wire.JobSummary) (name, about string) {
			return s.ID, text.Clip(s.Schedule+" "+s.Name, 60)
		}),
		more: func(ctx context.Context, c *client, r request, s core.Job, v *view) error {
			return addAlerts(ctx, c, r, s.Alerts, v)
		},
	}
	j.runs = machine[wire.Run]{
		a: a, path: "/v1/runs", arg: "RUN", args: oneArg("RUN"), scope: &j.scope, view: runView,
		complete: completing(a, "/v1/runs", "runs", &j.scope, func(r wire.RunSummary) (name, about string) {
			return r.ID.String(), text.Clip(string(r.State)+" "+r.RunID, 60)
		}),
		ids:   finder{path: "/v1/runs", field: "runs", scope: &j.scope, what: "run"},
		id:    func(r wire.Run) string { return r.ID.String() },
		ended: func(r wire.Run) bool { return r.State.Terminal() }, fails: func(r wire.Run) error { return runError(r.Orchestrator) },
	}
	return j
}

func (a *app) jobCommand() *cobra.Command {
	j := a.newJobs()
	return withMore(a.addClientFlags(group("job", "Apply, show, trigger, pause and delete jobs, which run pods on a schedule",
		"A job makes a run at each time of its schedule: a pod in a Kubernetes cluster, or a\nprocess of the daemon's machine. Its constraints are checked before and after, and a\nfailed run is tried again.",
		a.withScope(&j.scope,
			j.apply(), j.check(), j.list(), j.show(), j.trigger(),
			j.jobs.reasoned("skip-next", "Skip the next time of a job's schedule; once more, and the one after it too"),
			j.pause(),
			j.jobs.post("resume", "resume", "Let a paused job make runs again, from now on"),
			j.history(), j.preview(), j.runsOf(),
			j.jobs.verb(verb{use: "delete", short: "Delete a job, and cancel its runs", method: http.MethodDelete}))...)),
		a.withScope(&j.scope, a.jobsAll(&j.scope)...)...)
}

func (j *jobCommands) list() *cobra.Command {
	return listing[wire.JobSummary]{
		path: "/v1/jobs", field: "jobs", none: "no jobs: make one with orreryd job apply -f FILE", short: "List jobs, newest first",
		filters: ofSchedules(),
		name:    func(s wire.JobSummary) string { return s.ID },
		header:  []string{"JOB:40", "SCOPE:40", "STATE", "SCHEDULE:24", "ZONE:20", "NEXT (UTC)", "ACTIVE", "LAST RUN", "ENDED (UTC)"},
		row: func(s wire.JobSummary) []string {
			return []string{
				s.ID, s.Namespace + "/" + s.Tenant, jobState(s.Paused, s.Ended), text.OrDash(s.Schedule), s.Timezone,
				shortTime(s.NextRunAt), number(s.ActiveRuns), text.OrDash(string(s.LastRun.State)), shortTime(s.LastRun.EndedAt),
			}
		},
	}.command(j.a)
}

func jobState(paused, ended bool) string {
	switch {
	case ended:
		return "ended"
	case paused:
		return "paused"
	}
	return "enabled"
}

// ofSchedules narrow lists of recurring actions and jobs.
func ofSchedules() []filter {
	return []filter{
		{flag: "state", usage: "only those that fire (on), that somebody has paused or disabled (paused), or of which no `time` is to come (ended)", words: []string{"on", "paused", "ended"}},
		{flag: "name", usage: "only those that have this `text` in their name, in capitals or not"},
	}
}

func (j *jobCommands) trigger() *cobra.Command {
	var wait bool
	cmd := j.jobs.sending(verb{
		use:   "trigger",
		short: "Make a run of a job now, outside of its schedule",
		long: `Make a run of a job now, outside of its schedule, also while it is paused, and print
the run's id. The schedule stays as it is. It is safe to repeat with the same
--dedup-key: while that is among the last 100 of the job, it prints the run that was
made. With --wait it prints the run once it has ended, and ends with 1 unless the run
has completed.`,
		example: "  orreryd job trigger nightly-report --wait\n  orreryd job trigger deploy --dedup-key release-7\n  orreryd job trigger nightly-report --env DAY=2026-02-09",
		path:    "trigger", fields: []field{
			textField("dedup-key", "`key` that makes one run only, however often it is asked for"),
			listField("env", "variable `NAME=VALUE` of the run's containers, instead of the job's; may be repeated", parsePairs),
		},
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		var made core.JobTriggered
		raw, err := c.json(ctx, r, &made)
		switch {
		case err != nil:
			return err
		case wait:
			return j.runs.awaitEnd(ctx, c, made.Run.String(), true)
		}
		return j.a.print(raw, view{fields: [][2]string{{"run", made.RunID}, {"id", made.Run.String()}}})
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the run's end")
	return cmd
}

func (j *jobCommands) pause() *cobra.Command {
	return j.jobs.verb(verb{
		use:   "pause",
		short: "Let a job make no more runs until it is resumed; those under way go on",
		long: `Let a job make no more runs until it is resumed, or with --until until a time. Runs under
way go on, those of the schedule that wait for a slot are cancelled, and the times that
pass are skipped, with the reason.`,
		example: "  orreryd job pause nightly-report --reason holidays --until 2026-12-27T00:00:00Z",
		path:    "pause",
		fields: []field{
			reasonField(),
			untilField(),
		},
	})
}

func (j *jobCommands) history() *cobra.Command {
	return history(j.jobs, "RUN", "RUN TOOK", "List what was decided about each time of a job, newest first", j.runAt).command(j.a)
}

func (j *jobCommands) preview() *cobra.Command {
	var n int
	cmd := j.jobs.sending(verb{
		use: "preview", short: "Show the next times of a job", path: "preview", method: http.MethodGet,
		example: "  orreryd job preview nightly-report -n 10",
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		if err := checkCount(n); err != nil {
			return err
		}
		r.query.Set("n", number(n))
		var p wire.Preview
		if _, err := c.json(ctx, r, &p); err != nil {
			return err
		}
		return j.a.printPreview(p)
	})
	addCount(cmd, &n)
	return cmd
}

// runAt names the run of an occurrence by the id that people type, that of its time.
func (j *jobCommands) runAt(job string, o core.Occurrence) string {
	if id := core.RunID(job, o.DueAt); core.RunRef(j.scope.namespace, j.scope.tenant, id).ID == o.ActionID {
		return id
	}
	return idOr(o.ActionID)
}

func (j *jobCommands) runsOf() *cobra.Command {
	l := j.a.runListing()
	l.use, l.short, l.args, l.complete = "runs JOB", "List the runs of a job, newest first", j.jobs.args, j.jobs.complete
	l.path, l.of, l.scope, l.filters, l.narrow, l.fails = j.jobs.path, "runs", &j.scope, nil, nil, false
	return l.command(j.a)
}

// exitText is the exit code of a pod; "-" if it has none.
func exitText(code *int32) string {
	if code == nil {
		return "-"
	}
	return fmt.Sprintf("%d", *code)
}

func (j *jobCommands) show() *cobra.Command {
	return j.a.addOutput(j.jobs.sending(verb{
		use:   "show",
		short: "Show a job, or with -o yaml the file that gives it",
		long: `Show a job: its configuration, when it runs next, and the runs that have not ended.
With -o yaml it prints a job file, which "orreryd job apply -f" gives the same job for.`,
		example: "  orreryd job show nightly-report\n  orreryd job show nightly-report -o yaml > nightly.yaml",
		method:  http.MethodGet,
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		if j.a.form != formYAML {
			return j.jobs.send(ctx, c, r, nil)
		}
		var s core.Job
		if _, err := c.json(ctx, r, &s); err != nil {
			return err
		}
		file, err := jobfile.Marshal(s.JobSpec)
		if err == nil {
			_, err = j.a.out.Write(file)
		}
		return err
	}), formWide, formJSON, formName, formRevision, formYAML)
}

func jobView(s core.Job) view {
	state, next := jobState(s.Paused, s.Ended(effects.TimeOf(time.Now()))), timeText(s.NextRunAt)
	if s.Paused && s.PausedReason != "" {
		state += ": " + s.PausedReason
	}
	if s.Paused && !s.PausedUntil.IsZero() {
		state += ", until " + timeText(s.PausedUntil)
	}
	if next == "" && s.Schedule == "" {
		next = "only by hand"
	}
	return view{
		fields: [][2]string{
			{"job", s.ID}, {"name", s.Name}, {"scope", s.Namespace + "/" + s.Tenant}, {"state", state},
			{"schedule", s.Schedule}, {"in words", inWords(s.Schedule, s.Timezone, s.DayMatch)}, {"next", next}, {"skip next", numberOr(s.SkipNext)},
			{"runner", cmp.Or(s.Runner, "(default)")}, {"runs", podText(s.PodSpec)}, {"retry", retryText(s.RetryConfig)},
			{"starts", timeText(s.StartsAt)}, {"ends", timeText(s.EndsAt)}, {"at most", atMost(s.Executions, s.MaxExecutions)},
			{"dst", string(s.DST)}, {"day match", string(s.DayMatch)}, {"jitter", upTo(s.JitterSeconds)},
			{"calendars", strings.Join(s.Calendars, ", ")}, {"start deadline", upTo(s.StartDeadlineSeconds)}, {"missed times", missedText(s.ScheduleOptions)}, {"alerts", strings.Join(s.Alerts.Words(), " ")},
			{"overlap", cmp.Or(overlapText(s.Overlap, s.ScheduleOptions), overlapOfJob(s.JobSpec))}, {"at a time", numberOr(s.MaxConcurrentRuns)},
			{"orphans", orphanText(s.OrphanPolicy)}, {"constraints", constraintText(s.ConstraintConfig)}, {"labels", pairs(s.Labels)},
			{"times", verdictsText(s.Counts)},
			{"ended", fmt.Sprintf("%d completed, %d failed, %d cancelled, %d orphaned", s.Counts.Completed, s.Counts.Failed, s.Counts.Cancelled, s.Counts.Orphaned)},
			{"last run", lastRunText(s.LastRun)}, {"last success", timeText(s.LastSuccessAt)}, {"created", timeText(s.CreatedAt)}, {"updated", timeText(s.UpdatedAt)},
		},
		tables: []table{{[]string{"ACTIVE RUN:80", "STAGE", "BY", "SCHEDULED (UTC)"}, rowsOf(s.Active, func(r core.ActiveRun) []string {
			by := "schedule"
			if r.Manual {
				by = "hand"
			}
			if !r.Owner.IsZero() {
				by = "backfill"
			}
			return []string{r.RunID, string(r.Stage), by, shortTime(r.ScheduledAt)}
		})}},
	}
}

// overlapOfJob is the default policy, with how long a run may wait for a slot if that is given.
func overlapOfJob(s core.JobSpec) string {
	if s.MaxWaitSeconds == 0 {
		return string(s.Overlap)
	}
	return string(s.Overlap) + ", " + waits(s.MaxWaitSeconds)
}

// verdictsText says what became of the times of a job.
func verdictsText(n core.JobCounts) string {
	parts := []string{fmt.Sprintf("%d dispatched, %d missed, %d skipped", n.Dispatched, n.Missed, n.Skipped)}
	for _, more := range []struct {
		n    uint64
		what string
	}{{n.VerdictCancelled, "cancelled"}, {n.VerdictExpired, "expired"}, {n.Deduplicated, "deduplicated"}} {
		if more.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.n, more.what))
		}
	}
	return strings.Join(parts, ", ")
}

func orphanText(p core.OrphanPolicy) string {
	if p == core.OrphanAdopt {
		return "their pods go on"
	}
	return "" // the default
}

func lastRunText(r core.EndedRun) string {
	if r.RunID == "" {
		return ""
	}
	last := fmt.Sprintf("%s %s at %s", r.RunID, r.State, r.EndedAt)
	if r.Error != "" {
		last += ": " + r.Error
	}
	return last
}

func retryText(r core.RetryConfig) string {
	if r.MaxRetries == 0 {
		return "not tried again"
	}
	return fmt.Sprintf("%d times, first after %s, then × %s, at most %s", r.MaxRetries, milliseconds(r.InitialDelayMS), r.BackoffMultiplier, milliseconds(r.MaxDelayMS))
}

// podText says what a pod spec runs, in one line.
func podText(spec json.RawMessage) string {
	var pod struct {
		Containers []struct {
			Name    string   `json:"name"`
			Image   string   `json:"image"`
			Command []string `json:"command"`
			Args    []string `json:"args"`
		} `json:"containers"`
	}
	if json.Unmarshal(spec, &pod) != nil {
		return ""
	}
	var list []string
	for _, c := range pod.Containers {
		what := strings.TrimSpace(c.Image + " " + strings.Join(append(c.Command, c.Args...), " "))
		list = append(list, c.Name+": "+text.Clip(strings.ReplaceAll(what, "\n", " "), 100))
	}
	return strings.Join(list, "; ")
}

// constraintText names the constraints of a job.
func constraintText(config json.RawMessage) string {
	var c struct {
		Constraints []map[string]json.RawMessage `json:"constraints"`
	}
	if len(config) == 0 || json.Unmarshal(config, &c) != nil {
		return ""
	}
	var names []string
	for _, one := range c.Constraints {
		for name := range one {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
