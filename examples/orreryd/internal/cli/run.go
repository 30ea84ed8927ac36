package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) runCommand() *cobra.Command {
	j := a.newJobs()
	return withMore(a.addClientFlags(group("run", "List runs of jobs, read their logs, cancel and retry them",
		"A run is one execution of a job, with its attempts. RUN is the run's id, such as\nnightly-report:2026-03-01T02:00:00.000Z, or its UUID.",
		a.withScope(&j.scope,
			a.runListing().command(a), j.runs.show("Show a run: what it does, how it went, its constraints and its pod"), j.logs(),
			j.runs.reasoned("cancel", "Cancel a run, and delete what it has in the cluster"),
			j.runs.reasoned("abandon", "Give up what a run has left in the cluster and cannot delete: its pod may still run"),
			j.runs.post("retry", "retry", "Begin the next attempt of a run that waits for it"),
			j.runs.wait("Wait for a run's end, and end with 1 unless it has completed"))...)),
		a.runsAll()...)
}

// home is the scope of a command that names none.
func (a *app) home() scoped {
	return scoped{cmp.Or(a.env("ORRERY_NAMESPACE"), config.DefaultScope), cmp.Or(a.env("ORRERY_TENANT"), config.DefaultScope)}
}

// runListing lists runs of all jobs; with their tenants if one is of another than the
// commands about a run look in.
func (a *app) runListing() listing[wire.RunSummary] {
	states := wordsOf(core.OrchestratorStatuses()...)
	home := a.home()
	return listing[wire.RunSummary]{
		path: "/v1/runs", field: "runs", none: "no runs", timed: true, fails: true, short: "List runs, newest first",
		filters: []filter{
			{flag: "job", usage: "only of that `job`"},
			{flag: "status", usage: "only in that `state`: " + strings.Join(states, ", "), words: states},
			{flag: "cleanup-failed", param: "cleanup_failed", usage: "only those of which something in the cluster could not be deleted so far", boolean: true},
		},
		narrow: func(q url.Values) {
			if q.Get("job") != "" { // a job's id means something within its tenant only
				q.Set("namespace", cmp.Or(q.Get("namespace"), home.namespace))
				q.Set("tenant", cmp.Or(q.Get("tenant"), home.tenant))
			}
		},
		name: func(r wire.RunSummary) string { return r.RunID },
		rows: showsScope(home, []string{"RUN:80", "STATE", "RETRY", "EXIT", "STARTED (UTC)", "TOOK", "NOTE:60"}, func(r wire.RunSummary) (scoped, []string) {
			return scoped{r.Namespace, r.Tenant}, []string{
				r.RunID, string(r.State), number(r.RetryAttempt), exitText(r.Pod.ExitCode),
				shortTime(r.Ran.StartedAt), took(r.Ran.StartedAt, r.Ran.EndedAt), text.OrDash(runNote(r)),
			}
		}),
	}
}

func runView(r wire.Run) view {
	exit := ""
	if r.Pod.ExitCode != nil {
		exit = exitText(r.Pod.ExitCode)
	}
	return view{
		fields: [][2]string{
			{"run", r.RunID}, {"id", r.ID.String()}, {"job", r.JobID}, {"scope", r.Namespace + "/" + r.Tenant},
			{"state", runState(r.Orchestrator)}, {"retry", fmt.Sprintf("%d of at most %d", r.RetryAttempt, r.Config.RetryConfig.MaxRetries)},
			{"error", r.Error}, {"note", r.Note}, {"cleanup", cleanupText(r.Cleanup)}, {"exit code", exit}, {"reason", podReason(r.Pod)},
			{"pod", r.Pod.Name}, {"node", r.Pod.Node}, {"home", r.Pod.Home}, {"logs", logsText(r.Logs)},
			{"scheduled", timeText(r.ScheduledAt)}, {"by hand", yes(r.Manual)}, {"started", ranText(r.Ran)},
			{"next attempt", timeText(r.RetryAt)}, {"ended", timeText(r.CompletedAt)},
		},
		tables: []table{
			{[]string{"ATTEMPT", "POD:80", "NODE:80", "STARTED (UTC)", "TOOK", "TIMES", "EXIT", "CAUSE:300"}, attemptRows(r.Orchestrator)},
			{[]string{"CONSTRAINT:40", "PHASE", "ATTEMPT", "VERDICT", "NOTE:300"}, checkRows(r.Orchestrator)},
		},
	}
}

// runNote is what there is to say of a run: how it failed, or what it waits for.
func runNote(r wire.RunSummary) string {
	waits := ""
	if !r.State.Terminal() {
		waits = podReason(r.Pod)
	}
	stays := ""
	switch c := r.Cleanup; {
	case c.Failing():
		stays = "its pod cannot be deleted: " + c.Error
	case !c.AbandonedAt.IsZero() && r.Error == "":
		stays = "what is left of its pod was abandoned"
	}
	return cmp.Or(stays, r.Error, r.Note, waits, skipped(r.State, r.StartedAt))
}

// cleanupText says since when something in the cluster cannot be deleted, and why.
func cleanupText(c core.RunCleanup) string {
	switch {
	case !c.AbandonedAt.IsZero():
		return fmt.Sprintf("abandoned at %s, after %d failures since %s: %s", timeText(c.AbandonedAt), c.Failures, timeText(c.FailedSince), c.Error)
	case !c.Failing():
		return ""
	}
	next := "it is being tried again"
	if !c.RetryAt.IsZero() {
		next = "the next try is at " + timeText(c.RetryAt)
	}
	return fmt.Sprintf("failed %d times since %s: %s; %s", c.Failures, timeText(c.FailedSince), c.Error, next)
}

// podReason is why a pod is as it is.
func podReason(p core.Pod) string { return strings.TrimSuffix(p.Reason+": "+p.Message, ": ") }

func yes(v bool) string { return orEmpty(v, func(bool) string { return "yes" }) }

// runState is the state of a run, and what it does within it.
func runState(r core.Orchestrator) string {
	if more := cmp.Or(string(r.Step), skipped(r.State, r.ExecutionStartedAt)); more != "" {
		return fmt.Sprintf("%s (%s)", r.State, more)
	}
	return string(r.State)
}

// skipped says of a run that has completed without a pod that an action skipped it.
func skipped(s core.OrchestratorStatus, started effects.Time) string {
	if s == core.OrchestratorCompleted && started == 0 {
		return "skipped"
	}
	return ""
}

func logsText(l core.RunLogs) string {
	switch {
	case l.Error != "" && l.Stored:
		return fmt.Sprintf("%d bytes: %s", l.Bytes, l.Error)
	case l.Error != "":
		return "none" + map[bool]string{true: " yet"}[l.ToRead] + ": " + l.Error
	case !l.Stored:
		return ""
	case l.Truncated:
		return fmt.Sprintf("%d bytes, the middle was dropped", l.Bytes)
	}
	return fmt.Sprintf("%d bytes", l.Bytes)
}

// checkRows shows how the constraints of a run came out, and their actions.
func checkRows(r core.Orchestrator) [][]string {
	var rows [][]string
	for _, c := range r.Checks {
		verdict := "violated"
		switch {
		case c.Error != "":
			verdict = "error"
		case c.Met:
			verdict = "met"
		}
		rows = append(rows, []string{c.Name, string(c.Phase), number(c.Attempt), verdict, text.OrDash(cmp.Or(c.Error, c.Message))})
	}
	for _, t := range r.Actions {
		verdict := "taken"
		if t.Error != "" {
			verdict = "failed"
		}
		rows = append(rows, []string{t.Constraint + " → " + t.Type, string(t.Phase), number(t.Attempt), verdict, text.OrDash(t.Error)})
	}
	return rows
}

// runError is the failure of a run that has ended; nil if it completed.
func runError(r core.Orchestrator) error {
	if r.State == core.OrchestratorCompleted || !r.State.Terminal() {
		return nil
	}
	words := map[core.OrchestratorStatus]string{
		core.OrchestratorFailed: "failed", core.OrchestratorCancelled: "was cancelled", core.OrchestratorOrphaned: "was orphaned",
	}
	what := fmt.Sprintf("run %s %s", r.RunID, words[r.State])
	if r.Error != "" {
		what += ": " + r.Error
	}
	return errors.New(what)
}

// logFlags are those of run logs.
type logFlags struct {
	follow    bool
	attempt   int // from 0; -1: the latest
	container string
}

func (j *jobCommands) logs() *cobra.Command {
	var f logFlags
	var cmd *cobra.Command
	cmd = j.runs.sending(verb{
		use:   "logs",
		short: "Print what a run's pod has written",
		long: `Print what the pod of a run has written: of the latest attempt, unless --attempt names
another one. While the pod runs it is read from there; afterwards what was kept of it
is printed, of which the middle may be missing where it was long.

With -f it goes on until the run has ended, also while there is no pod yet, and prints
the attempts that follow too, each after a line such as "==> attempt 1 <==" on standard
error. It ends with 1 where the run did not complete.

Where a pod has several containers, a line "==> NAME <==" says whose lines follow; a
line of a container's own that begins with "==> " has a space more there. -c picks one
container. Where lines were dropped from the middle, it is not known whose the next
ones are: they are printed too, after a line that says so.

On a terminal what could steer it is shown as an escape: only colours are let through.
A pipe or a file gets each byte as the pod wrote it.`,
		example: "  orreryd run logs nightly-report:2026-03-01T02:00:00.000Z\n  orreryd run logs -f 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
	}, func(ctx context.Context, c *client, _ request, args []string) error {
		if cmd.Flags().Changed("attempt") && (f.attempt < 0 || f.attempt > core.MaxRetries) {
			return usagef("--attempt: %d is not between 0, the first, and %d", f.attempt, core.MaxRetries)
		}
		return j.printLogs(ctx, c, args[0], f)
	})
	fl := cmd.Flags()
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on until the run has ended")
	fl.IntVar(&f.attempt, "attempt", -1, "`number` of the attempt; 0 is the first (default the latest)")
	fl.Lookup("attempt").DefValue = "0" // the usage says it
	fl.StringVarP(&f.container, "container", "c", "", "only of that `container` (default all)")
	return cmd
}

// printLogs prints one attempt, and with follow those after it.
func (j *jobCommands) printLogs(ctx context.Context, c *client, id string, f logFlags) error {
	next, known := int64(-1), false       // the attempt that is to be printed; at first the latest
	first, headed := int64(-1), int64(-1) // the first that is printed, and the last that a line tells apart
	for {
		var r wire.Run
		if _, err := j.runs.look(ctx, c, id, nil, &r, known); err != nil {
			return err
		}
		latest := int64(r.RetryAttempt)
		switch {
		case f.attempt >= 0:
			next = int64(f.attempt)
		case !known:
			next = latest
		}
		if !known {
			first = next
		}
		known = true
		if next <= latest || !f.follow {
			if next > first && headed < next {
				text.Sayf(j.a.err, "==> attempt %d <==\n", next)
				headed = next
			}
			err := j.copyLogs(ctx, c, id, next, f)
			_, none := errors.AsType[noLogsError](err)
			passed := next < latest || r.State.Terminal()
			switch {
			case !f.follow || err != nil && !none:
				return err
			case none && passed:
				text.Sayf(j.a.err, "orreryd: %s\n", text.CleanLines(err.Error()))
			}
			if !none || passed {
				if f.attempt >= 0 {
					return nil
				}
				next++
			}
		} else if r.State.Terminal() {
			return runError(r.Orchestrator)
		}
		if err := pause(ctx, watchEvery); err != nil {
			return fmt.Errorf("interrupted while following run %s: %w", r.RunID, err)
		}
	}
}

// copyLogs copies the logs of one attempt to stdout.
func (j *jobCommands) copyLogs(ctx context.Context, c *client, id string, attempt int64, f logFlags) error {
	q := j.scope.query()
	q.Set("attempt", strconv.FormatInt(attempt, 10))
	if f.follow {
		q.Set("follow", "true")
	}
	if f.container != "" {
		q.Set("container", f.container)
	}
	return j.a.copyStream(ctx, c, request{method: http.MethodGet, path: j.runs.of(id, "logs"), query: q})
}
