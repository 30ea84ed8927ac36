package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) runCommand() *cobra.Command {
	j := a.newJobs()
	commands := a.withScope(&j.scope,
		a.runList(), j.runs.verb("show", "Show a run: what it does, how it went, its constraints and its pod", http.MethodGet, "", nil), j.logs(),
		j.runs.cancel("Cancel a run, and delete what it has in the cluster"),
		j.runs.verb("retry", "Begin the next attempt of a run that waits for it", http.MethodPost, "retry", nil),
		j.wait())
	for _, c := range commands {
		if strings.Contains(c.Use, " RUN") {
			c.ValidArgsFunction = j.completeRuns
		}
	}
	return a.addClientFlags(group("run", "List runs of jobs, read their logs, cancel and retry them",
		"A run is one execution of a job, with its attempts. RUN is the run's id, such as\nnightly-report:2026-03-01T02:00:00.000Z, or its UUID.",
		commands...))
}

func (a *app) runList() *cobra.Command {
	var job, namespace, tenant, status, token string
	var limit int
	var all bool
	cmd := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: noArgs}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		q := map[string][]string{}
		for _, f := range []string{"namespace", "tenant", "status", "job"} {
			if cmd.Flags().Changed(f) {
				q[f] = []string{cmd.Flags().Lookup(f).Value.String()}
			}
		}
		if status != "" {
			if err := checkOneOf("status", status, runStatuses()); err != nil {
				return err
			}
		}
		if job != "" { // a job's id means something within its tenant only
			if namespace == "" {
				q["namespace"] = []string{cmp.Or(a.env("ORRERY_NAMESPACE"), config.DefaultScope)}
			}
			if tenant == "" {
				q["tenant"] = []string{cmp.Or(a.env("ORRERY_TENANT"), config.DefaultScope)}
			}
		}
		raws, list, next, err := pages[runSummary](ctx, c, "/v1/runs", "runs", q, limit, token, all)
		if err != nil {
			return err
		}
		return a.printRuns(raws, list, next)
	})
	f := cmd.Flags()
	f.StringVar(&job, "job", "", "only of that `job`")
	f.StringVar(&namespace, "namespace", "", "only of that `namespace`")
	f.StringVar(&tenant, "tenant", "", "only of that `tenant`")
	f.StringVar(&status, "status", "", "only in that `state`: "+strings.Join(runStatuses(), ", "))
	fixed(cmd, "status", runStatuses())
	addPageFlags(cmd, &limit, &token, &all)
	return cmd
}

// runSummary is a run as lists show it.
type runSummary struct {
	ID           uuid.UUID               `json:"id"`
	RunID        string                  `json:"run_id"`
	Namespace    string                  `json:"namespace"`
	Tenant       string                  `json:"tenant"`
	State        core.OrchestratorStatus `json:"state"`
	RetryAttempt uint32                  `json:"retry_attempt"`
	Pod          core.Pod                `json:"pod"`
	Error        string                  `json:"error"`
	StartedAt    effects.Time            `json:"started_at"`
	CompletedAt  effects.Time            `json:"completed_at"`
}

// printRuns prints a page of runs; with their tenants where one is of another than the
// commands about a run look in.
func (a *app) printRuns(raws []json.RawMessage, list []runSummary, next string) error {
	if a.json {
		return a.printJSON(map[string]any{"runs": raws, "next_page_token": next})
	}
	header := []string{"RUN", "STATE", "RETRY", "EXIT", "STARTED (UTC)", "TOOK", "NOTE"}
	home := cmp.Or(a.env("ORRERY_NAMESPACE"), config.DefaultScope) + "/" + cmp.Or(a.env("ORRERY_TENANT"), config.DefaultScope)
	scope := func(r runSummary) string { return r.Namespace + "/" + r.Tenant }
	away := slices.ContainsFunc(list, func(r runSummary) bool { return scope(r) != home })
	if away {
		header = slices.Insert(header, 1, "SCOPE")
	}
	rows := make([][]string, 0, len(list))
	for _, r := range list {
		row := []string{
			text.Clip(r.RunID, 80), string(r.State), attempts(r.RetryAttempt), exitText(r.Pod.ExitCode),
			shortTime(r.StartedAt), took(r.StartedAt, r.CompletedAt), text.OrDash(runNote(r)),
		}
		if away {
			row = slices.Insert(row, 1, text.Clip(scope(r), 40))
		}
		rows = append(rows, row)
	}
	return a.printPage(header, rows, "no runs", next)
}

// printRun shows a run to people.
func (a *app) printRun(raw json.RawMessage, r core.Orchestrator) error {
	if a.json {
		return a.printJSON(raw)
	}
	exit := ""
	if r.Pod.ExitCode != nil {
		exit = exitText(r.Pod.ExitCode)
	}
	err := a.printFields([][2]string{
		{"run", r.RunID}, {"id", r.ID.String()}, {"job", r.JobID}, {"scope", r.Namespace + "/" + r.Tenant},
		{"state", runState(r)}, {"retry", fmt.Sprintf("%d of at most %d", r.RetryAttempt, r.Config.RetryConfig.MaxRetries)},
		{"error", r.Error}, {"exit code", exit}, {"reason", podReason(r.Pod)},
		{"pod", r.Pod.Name}, {"node", r.Pod.Node}, {"logs", logsText(r.Logs)},
		{"scheduled", timeText(r.ScheduledAt)}, {"by hand", yes(r.Manual)}, {"started", timeText(r.ExecutionStartedAt)},
		{"next attempt", timeText(r.RetryAt)}, {"ended", timeText(r.CompletedAt)},
	})
	if err != nil {
		return err
	}
	return a.printChecks(r)
}

// runNote is what there is to say of a run: how it failed, or what it waits for.
func runNote(r runSummary) string {
	waits := ""
	if !r.State.Terminal() {
		waits = podReason(r.Pod)
	}
	return text.Clip(cmp.Or(r.Error, cmp.Or(waits, skipped(r.State, r.StartedAt))), 60)
}

// podReason is why a pod is as it is.
func podReason(p core.Pod) string { return strings.TrimSuffix(p.Reason+": "+p.Message, ": ") }

func yes(v bool) string {
	if v {
		return "yes"
	}
	return ""
}

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
		return "none: " + l.Error
	case !l.Stored:
		return ""
	case l.Truncated:
		return fmt.Sprintf("%d bytes, the middle was dropped", l.Bytes)
	}
	return fmt.Sprintf("%d bytes", l.Bytes)
}

// printChecks shows how the constraints of a run came out, and their actions.
func (a *app) printChecks(r core.Orchestrator) error {
	var rows [][]string
	for _, c := range r.Checks {
		verdict := "violated"
		switch {
		case c.Error != "":
			verdict = "error"
		case c.Met:
			verdict = "met"
		}
		rows = append(rows, []string{text.Clip(c.Name, 40), string(c.Phase), attempts(c.Attempt), verdict, text.OrDash(text.Clip(cmp.Or(c.Error, c.Message), 80))})
	}
	for _, t := range r.Actions {
		verdict := "taken"
		if t.Error != "" {
			verdict = "failed"
		}
		rows = append(rows, []string{text.Clip(t.Constraint+" → "+t.Type, 40), string(t.Phase), attempts(t.Attempt), verdict, text.OrDash(text.Clip(t.Error, 80))})
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	return a.printTable([]string{"CONSTRAINT", "PHASE", "ATTEMPT", "VERDICT", "NOTE"}, rows)
}

func (j *jobCommands) wait() *cobra.Command {
	return &cobra.Command{
		Use: "wait RUN", Short: "Wait for a run's end, and end with 1 unless it has completed", Args: oneArg("RUN"),
		RunE: j.a.withClient(func(ctx context.Context, c *client, args []string) error {
			return j.waitRun(ctx, c, args[0], false)
		}),
	}
}

// waitRun prints a run once it has ended; a failure is one of this program too.
func (j *jobCommands) waitRun(ctx context.Context, c *client, id string, known bool) error {
	raw, r, err := j.runs.await(ctx, c, id, known, func(r core.Orchestrator) bool { return r.State.Terminal() })
	if err != nil {
		return err
	}
	if err := j.a.printRun(raw, r); err != nil {
		return err
	}
	return runError(r)
}

// runError is the failure of a run that has ended; nil where it completed.
func runError(r core.Orchestrator) error {
	if r.State == core.OrchestratorCompleted || !r.State.Terminal() {
		return nil
	}
	words := map[core.OrchestratorStatus]string{
		core.OrchestratorFailed: "failed", core.OrchestratorCancelled: "was cancelled", core.OrchestratorOrphaned: "was orphaned",
	}
	text := fmt.Sprintf("run %s %s", r.RunID, words[r.State])
	if r.Error != "" {
		text += ": " + r.Error
	}
	return errors.New(text)
}
