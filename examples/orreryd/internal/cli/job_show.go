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
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/jobfile"
)

func (j *jobCommands) show() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show JOB",
		Short: "Show a job, or with -o yaml the file that gives it",
		Long: `Show a job: its configuration, when it runs next, and the runs that have not ended.
With -o yaml it prints a job file, which "orreryd job apply -f" gives the same job for.`,
		Example: "  orreryd job show nightly-report\n  orreryd job show nightly-report -o yaml > nightly.yaml",
		Args:    oneArg("JOB"),
	}
	cmd.RunE = j.a.withClient(func(ctx context.Context, c *client, args []string) error {
		if output != "" {
			if err := checkOneOf("output", output, []string{"yaml", "json"}); err != nil {
				return err
			}
		}
		j.a.json = j.a.json || output == "json"
		var s core.Job
		raw, err := c.json(ctx, request{method: http.MethodGet, path: j.jobs.of(args[0]), query: j.scope.query()}, &s)
		switch {
		case err != nil:
			return err
		case output == "yaml":
			text, err := jobfile.Marshal(s.JobSpec)
			return errorOr(err, func() error { _, err := j.a.out.Write(text); return err })
		}
		return j.print(raw, s)
	})
	cmd.Flags().StringVarP(&output, "output", "o", "", "`form`: yaml for a job file, json")
	fixed(cmd, "output", []string{"yaml", "json"})
	return cmd
}

// print shows a job to people.
func (j *jobCommands) print(raw json.RawMessage, s core.Job) error {
	a := j.a
	if a.json {
		return a.printJSON(raw)
	}
	state, next := jobState(s.Paused), timeText(s.NextRunAt)
	if s.Paused && s.PausedReason != "" {
		state += ": " + s.PausedReason
	}
	if next == "" && s.Schedule == "" {
		next = "only by hand"
	}
	words := ""
	if s.Schedule != "" {
		words = inWords(s.Schedule, s.Timezone)
	}
	err := a.printFields([][2]string{
		{"job", s.ID}, {"name", s.Name}, {"scope", s.Namespace + "/" + s.Tenant}, {"state", state},
		{"schedule", s.Schedule}, {"in words", words}, {"next", next}, {"skips next", countText(uint64(s.SkipNext))},
		{"runner", cmp.Or(s.Runner, "(default)")}, {"runs", podText(s.PodSpec)}, {"retry", retryText(s.RetryConfig)},
		{"overlap", string(s.Overlap)}, {"at a time", countText(uint64(s.MaxConcurrentRuns))},
		{"orphans", orphanText(s.OrphanPolicy)}, {"constraints", constraintText(s.ConstraintConfig)}, {"labels", pairs(s.Labels)},
		{"times", fmt.Sprintf("%d dispatched, %d missed, %d skipped", s.Counts.Dispatched, s.Counts.Missed, s.Counts.Skipped)},
		{"ended", fmt.Sprintf("%d completed, %d failed, %d cancelled, %d orphaned", s.Counts.Completed, s.Counts.Failed, s.Counts.Cancelled, s.Counts.Orphaned)},
		{"last run", lastRunText(s.LastRun)}, {"created", timeText(s.CreatedAt)}, {"updated", timeText(s.UpdatedAt)},
	})
	if err != nil || len(s.Active) == 0 {
		return err
	}
	rows := make([][]string, 0, len(s.Active))
	for _, r := range s.Active {
		by := "schedule"
		if r.Manual {
			by = "hand"
		}
		rows = append(rows, []string{text.Clip(r.RunID, 80), string(r.Stage), by, shortTime(r.ScheduledAt)})
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	return a.printTable([]string{"ACTIVE RUN", "STAGE", "BY", "SCHEDULED (UTC)"}, rows)
}

func countText(n uint64) string {
	if n == 0 {
		return ""
	}
	return number(n)
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
	text := fmt.Sprintf("%s %s at %s", r.RunID, r.State, r.EndedAt)
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}

func retryText(r core.RetryConfig) string {
	if r.MaxRetries == 0 {
		return "not tried again"
	}
	return fmt.Sprintf("%d times, first after %s, then × %s, at most %s", r.MaxRetries, lengthMS(r.InitialDelayMS), r.BackoffMultiplier, lengthMS(r.MaxDelayMS))
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

// lengthMS shows a length of time.
func lengthMS(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
