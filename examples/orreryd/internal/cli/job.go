package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// jobCommands are the commands about jobs (004), which belong to one tenant of one
// namespace.
type jobCommands struct {
	a     *app
	scope scoped
	jobs  machine[core.Job]
	runs  machine[core.Orchestrator]
}

func (a *app) newJobs() *jobCommands {
	j := &jobCommands{a: a}
	j.jobs = machine[core.Job]{a: a, path: "/v1/jobs", show: j.print, query: j.scope.query, args: oneArg("JOB"), arg: "JOB"}
	j.runs = machine[core.Orchestrator]{a: a, path: "/v1/runs", show: a.printRun, query: j.scope.query, args: oneArg("RUN"), arg: "RUN"}
	return j
}

func (a *app) jobCommand() *cobra.Command {
	j := a.newJobs()
	commands := a.withScope(&j.scope,
		j.apply(), j.check(), j.list(), j.show(), j.trigger(), j.skipNext(), j.pause(),
		j.jobs.verb("resume", "Let a paused job make runs again, from now on", http.MethodPost, "resume", nil),
		j.history(), j.runsOf(), j.delete())
	for _, c := range commands {
		if strings.Contains(c.Use, " JOB") {
			c.ValidArgsFunction = j.completeJobs
		}
	}
	return a.addClientFlags(group("job", "Apply, show, trigger, pause and delete jobs, which run pods on a schedule",
		"A job makes a run at each time of its schedule: a pod in a Kubernetes cluster, or a\nprocess of the daemon's machine. Its constraints are checked before and after, and a\nfailed run is tried again.",
		commands...))
}

// jobSummary is a job as lists show it.
type jobSummary struct {
	ID         string        `json:"id"`
	Namespace  string        `json:"namespace"`
	Tenant     string        `json:"tenant"`
	Name       string        `json:"name"`
	Schedule   string        `json:"schedule"`
	Timezone   string        `json:"timezone"`
	Paused     bool          `json:"paused"`
	NextRunAt  effects.Time  `json:"next_run_at"`
	ActiveRuns uint64        `json:"active_runs"`
	LastRun    core.EndedRun `json:"last_run"`
}

func (j *jobCommands) list() *cobra.Command {
	return listing[jobSummary]{
		path: "/v1/jobs", field: "jobs", none: "no jobs: make one with orreryd job apply -f FILE", short: "List jobs, newest first",
		header: []string{"JOB", "SCOPE", "STATE", "SCHEDULE", "ZONE", "NEXT (UTC)", "ACTIVE", "LAST RUN", "ENDED (UTC)"},
		row: func(s jobSummary) []string {
			return []string{
				text.Clip(s.ID, 40), text.Clip(s.Namespace+"/"+s.Tenant, 40), jobState(s.Paused), text.OrDash(text.Clip(s.Schedule, 24)), text.Clip(s.Timezone, 20),
				shortTime(s.NextRunAt), number(s.ActiveRuns), text.OrDash(string(s.LastRun.State)), shortTime(s.LastRun.EndedAt),
			}
		},
	}.command(j.a)
}

func jobState(paused bool) string {
	if paused {
		return "paused"
	}
	return "enabled"
}

func (j *jobCommands) pause() *cobra.Command {
	return reasoned(j.jobs, "pause", "Let a job make no more runs until it is resumed; those under way go on")
}

func (j *jobCommands) delete() *cobra.Command {
	return j.jobs.verb("delete", "Delete a job, and cancel its runs", http.MethodDelete, "", nil)
}

func (j *jobCommands) skipNext() *cobra.Command {
	return reasoned(j.jobs, "skip-next", "Skip the next time of a job's schedule; once more, and the one after it too")
}

// reasoned is a verb that takes a reason.
func reasoned[S any](m machine[S], name, about string) *cobra.Command {
	var reason string
	cmd := m.verb(name, about, http.MethodPost, name, func() (any, error) { return map[string]string{"reason": reason}, nil })
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	return cmd
}

func (j *jobCommands) trigger() *cobra.Command {
	var wait bool
	var body struct {
		DedupKey string `json:"dedup_key,omitempty"`
	}
	cmd := &cobra.Command{
		Use:   "trigger JOB",
		Short: "Make a run of a job now, out of turn",
		Long: `Make a run of a job now, out of turn, also while it is paused, and print the run's
id. The schedule stays as it is. It is safe to repeat with the same --dedup-key: while
that is among the last 100 of the job, it prints the run that was made. With --wait it
prints the run once it has ended, and ends with 1 unless the run has completed.`,
		Example: "  orreryd job trigger nightly-report --wait\n  orreryd job trigger deploy --dedup-key release-7",
		Args:    oneArg("JOB"),
	}
	cmd.RunE = j.a.withClient(func(ctx context.Context, c *client, args []string) error {
		var made core.JobTriggered
		raw, err := c.json(ctx, request{method: http.MethodPost, path: j.jobs.of(args[0], "trigger"), query: j.scope.query(), body: body}, &made)
		switch {
		case err != nil:
			return err
		case wait:
			return j.waitRun(ctx, c, made.Run.String(), true)
		case j.a.json:
			return j.a.printJSON(raw)
		}
		return j.a.printFields([][2]string{{"run", made.RunID}, {"id", made.Run.String()}})
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the run's end")
	cmd.Flags().StringVar(&body.DedupKey, "dedup-key", "", "`key` that makes one run only, however often it is asked for")
	return cmd
}

func (j *jobCommands) history() *cobra.Command {
	var limit int
	var token string
	var all bool
	cmd := &cobra.Command{
		Use: "history JOB", Short: "List what was decided about each time of a job, newest first", Args: oneArg("JOB"),
		RunE: j.a.withClient(func(ctx context.Context, c *client, args []string) error {
			raws, list, next, err := pages[core.Occurrence](ctx, c, j.jobs.of(args[0], "history"), "history", j.scope.query(), limit, token, all)
			if err != nil {
				return err
			}
			if j.a.json {
				return j.a.printJSON(map[string]any{"history": raws, "next_page_token": next})
			}
			rows := make([][]string, 0, len(list))
			for _, o := range list {
				rows = append(rows, occurrenceRow(o, j.runAt(args[0], o)))
			}
			return j.a.printPage([]string{"DUE (UTC)", "VERDICT", "TIMES", "OUTCOME", "TOOK", "RUN", "NOTE"}, rows, "nothing has been due yet", next)
		}),
	}
	addPageFlags(cmd, &limit, &token, &all)
	return cmd
}

// runAt names the run of an occurrence by the id that people type, that of its time.
func (j *jobCommands) runAt(job string, o core.Occurrence) string {
	if id := core.RunID(job, o.DueAt); core.RunRef(j.scope.namespace, j.scope.tenant, id).ID == o.ActionID {
		return id
	}
	return actionOf(o)
}

func (j *jobCommands) runsOf() *cobra.Command {
	var limit int
	var token string
	var all bool
	cmd := &cobra.Command{
		Use: "runs JOB", Short: "List the runs of a job, newest first", Args: oneArg("JOB"),
		RunE: j.a.withClient(func(ctx context.Context, c *client, args []string) error {
			raws, list, next, err := pages[runSummary](ctx, c, j.jobs.of(args[0], "runs"), "runs", j.scope.query(), limit, token, all)
			if err != nil {
				return err
			}
			return j.a.printRuns(raws, list, next)
		}),
	}
	addPageFlags(cmd, &limit, &token, &all)
	return cmd
}

// completeJobs offers the ids of the tenant's jobs.
func (j *jobCommands) completeJobs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var page struct {
		Jobs []jobSummary `json:"jobs"`
	}
	q := j.scope.query()
	q.Set("limit", "50")
	j.a.complete(cmd, args, "/v1/jobs", q, &page)
	var ids []string
	for _, s := range page.Jobs {
		ids = append(ids, s.ID+"\t"+text.Clip(s.Schedule+" "+s.Name, 60))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeRuns offers the newest runs of the tenant.
func (j *jobCommands) completeRuns(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var page struct {
		Runs []runSummary `json:"runs"`
	}
	q := j.scope.query()
	q.Set("limit", "50")
	j.a.complete(cmd, args, "/v1/runs", q, &page)
	var ids []string
	for _, r := range page.Runs {
		ids = append(ids, r.ID.String()+"\t"+text.Clip(string(r.State)+" "+r.RunID, 60))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// exitText is the exit code of a pod; "-" where it has none.
func exitText(code *int32) string {
	if code == nil {
		return "-"
	}
	return fmt.Sprintf("%d", *code)
}

// runStatuses are the words that --status takes.
func runStatuses() []string {
	var words []string
	for _, s := range core.OrchestratorStatuses() {
		words = append(words, string(s))
	}
	return words
}
