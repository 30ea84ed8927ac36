package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/jobfile"
)

func (j *jobCommands) show() *cobra.Command {
	var output string
	cmd := j.jobs.sending(verb{
		use:   "show",
		short: "Show a job, or with -o yaml the file that gives it",
		long: `Show a job: its configuration, when it runs next, and the runs that have not ended.
With -o yaml it prints a job file, which "orreryd job apply -f" gives the same job for.`,
		example: "  orreryd job show nightly-report\n  orreryd job show nightly-report -o yaml > nightly.yaml",
		method:  http.MethodGet,
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		if output != "" {
			if err := checkOneOf("output", output, []string{"yaml", "json"}); err != nil {
				return err
			}
		}
		j.a.json = j.a.json || output == "json"
		var s core.Job
		raw, err := c.json(ctx, r, &s)
		switch {
		case err != nil:
			return err
		case output != "yaml":
			return j.a.print(raw, jobView(s))
		}
		file, err := jobfile.Marshal(s.JobSpec)
		if err == nil {
			_, err = j.a.out.Write(file)
		}
		return err
	})
	cmd.Flags().StringVarP(&output, "output", "o", "", "`form`: yaml for a job file, json")
	fixed(cmd, "output", []string{"yaml", "json"})
	return cmd
}

func jobView(s core.Job) view {
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
	return view{
		fields: [][2]string{
			{"job", s.ID}, {"name", s.Name}, {"scope", s.Namespace + "/" + s.Tenant}, {"state", state},
			{"schedule", s.Schedule}, {"in words", words}, {"next", next}, {"skips next", numberOr(s.SkipNext)},
			{"runner", cmp.Or(s.Runner, "(default)")}, {"runs", podText(s.PodSpec)}, {"retry", retryText(s.RetryConfig)},
			{"overlap", string(s.Overlap)}, {"at a time", numberOr(s.MaxConcurrentRuns)},
			{"orphans", orphanText(s.OrphanPolicy)}, {"constraints", constraintText(s.ConstraintConfig)}, {"labels", pairs(s.Labels)},
			{"times", fmt.Sprintf("%d dispatched, %d missed, %d skipped", s.Counts.Dispatched, s.Counts.Missed, s.Counts.Skipped)},
			{"ended", fmt.Sprintf("%d completed, %d failed, %d cancelled, %d orphaned", s.Counts.Completed, s.Counts.Failed, s.Counts.Cancelled, s.Counts.Orphaned)},
			{"last run", lastRunText(s.LastRun)}, {"created", timeText(s.CreatedAt)}, {"updated", timeText(s.UpdatedAt)},
		},
		tables: []table{{[]string{"ACTIVE RUN", "STAGE", "BY", "SCHEDULED (UTC)"}, rowsOf(s.Active, func(r core.ActiveRun) []string {
			by := "schedule"
			if r.Manual {
				by = "hand"
			}
			return []string{text.Clip(r.RunID, 80), string(r.Stage), by, shortTime(r.ScheduledAt)}
		})}},
	}
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
