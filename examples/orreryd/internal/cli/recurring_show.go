package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (r *recurring) history() *cobra.Command {
	return history(r.machine, "ACTION", "List what was decided about each due time, newest first", func(_ string, o core.Occurrence) string {
		return idOr(o.ActionID)
	}).command(r.a)
}

// history lists what was decided about each due time of what has a schedule; made names
// what came of one.
func history[S any](m machine[S], column, short string, made func(name string, o core.Occurrence) string) listing[core.Occurrence] {
	return listing[core.Occurrence]{
		use: "history " + m.arg, short: short, args: m.args, complete: m.complete,
		path: m.path, of: "history", field: "history", scope: m.scope, none: "nothing has been due yet",
		rows: func(args []string, list []core.Occurrence) ([]string, [][]string) {
			return []string{"DUE (UTC)", "VERDICT", "TIMES", "OUTCOME", "TOOK", column, "NOTE"},
				rowsOf(list, func(o core.Occurrence) []string { return occurrenceRow(o, made(args[0], o)) })
		},
	}
}

// occurrenceRow is a row of a history; made names what came of it.
func occurrenceRow(o core.Occurrence, made string) []string {
	count := number(o.Count)
	if o.CountCapped {
		count += "+"
	}
	reason := o.Reason
	if o.Manual {
		reason = strings.TrimSpace("triggered by hand " + reason)
	}
	return []string{
		shortTime(o.DueAt), text.Clip(string(o.Verdict), 14), count, cell(o.Outcome, 12), took(o.StartedAt, o.FinishedAt), text.OrDash(made), cell(reason, 60),
	}
}

func (r *recurring) preview() *cobra.Command {
	var cron, tz string
	var n int
	cmd := &cobra.Command{
		Use:   "preview [ID]",
		Short: "Show the next times of a recurring action, or of a cron expression",
		Long: `Show the next times of a recurring action, or, with --cron and without a daemon,
those of an expression.`,
		Example: "  orreryd recurring preview --cron \"0 9 * * MON-FRI\" --tz US/Eastern -n 10\n  orreryd recurring preview ID",
		Args: func(cmd *cobra.Command, args []string) error {
			switch byCron := cmd.Flags().Changed("cron"); {
			case byCron && len(args) > 0:
				return usagef("give either an ID or --cron, not both")
			case byCron:
				return nil
			case len(args) == 0:
				return usagef("give an ID, or an expression with --cron")
			case cmd.Flags().Changed("tz"):
				return usagef("--tz belongs to --cron: a recurring action has its own time zone")
			}
			return oneID(cmd, args)
		},
		ValidArgsFunction: r.complete,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 1 || n > 1000 {
			return usagef("--number: %d is not between 1 and 1000", n)
		}
		if len(args) == 0 {
			p, err := previewOf(cron, cmp.Or(tz, "UTC"), n, effects.TimeOf(time.Now()))
			if err != nil {
				return err
			}
			return r.printPreview(p)
		}
		return r.a.withClient(func(ctx context.Context, c *client, args []string) error {
			q := r.scope.query()
			q.Set("n", number(n))
			var p wire.Preview
			if _, err := c.json(ctx, request{method: http.MethodGet, path: r.of(args[0], "preview"), query: q}, &p); err != nil {
				return err
			}
			return r.printPreview(p)
		})(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&cron, "cron", "", "cron `expression` to look at")
	f.StringVar(&tz, "tz", "", "time `zone` of --cron (default UTC)")
	f.IntVarP(&n, "number", "n", 5, "`number` of times to show")
	completeZone(cmd)
	return cmd
}

func previewOf(expr, zone string, n int, now effects.Time) (wire.Preview, error) {
	s, err := parseCron(expr, zone)
	if err != nil {
		return wire.Preview{}, err
	}
	return wire.Preview{CronExpr: expr, Timezone: zone, Description: s.Describe(), Times: s.Preview(now, n)}, nil
}

func (r *recurring) printPreview(p wire.Preview) error {
	if r.a.json {
		return r.a.printJSON(p)
	}
	rows := rowsOf(p.Times, func(t effects.Time) []string {
		return []string{t.Std().Format("Mon 2006-01-02 15:04:05"), localTime(t, p.Timezone)}
	})
	times := "it never fires\n"
	if len(rows) > 0 {
		times = table{[]string{"UTC", text.Clip(p.Timezone, 40)}, rows}.text()
	}
	_, err := fmt.Fprintf(r.a.out, "%s\n%s", text.Clean(p.Description), times)
	return err
}

// localTime shows a time in a zone; the zone is embedded, as the scheduler's is.
func localTime(t effects.Time, zone string) string {
	if z, err := schedule.LoadZone(zone); err == nil {
		return t.Std().In(z.Location()).Format("Mon 2006-01-02 15:04:05 MST")
	}
	return "-"
}

// inWords describes a schedule; empty if it cannot be read.
func inWords(expr, zone string) string {
	s, err := schedule.Parse(expr, cmp.Or(zone, "UTC"), effects.MinTime)
	if err != nil {
		return ""
	}
	return s.Describe()
}

func recurringView(r core.RecurringAction) view {
	state, t := "enabled", r.ActionTemplate
	if !r.Enabled {
		state = "disabled: " + cmp.Or(r.DisabledReason, "no reason was kept")
	}
	return view{fields: [][2]string{
		{"id", r.ID.String()}, {"state", state}, {"description", r.Description}, {"scope", r.Namespace + "/" + r.Tenant},
		{"cron", r.CronExpr + " " + r.Timezone}, {"in words", inWords(r.CronExpr, r.Timezone)},
		{"next", timeText(r.NextExecutionAt)}, {"last", timeText(r.LastExecutedAt)}, {"ends", timeText(r.EndsAt)},
		{"executed", number(r.ExecutionCount)}, {"missed", number(r.MissedCount)},
		{"deduplicated", number(r.DeduplicatedCount)},
		{"tool", t.Provider}, {"type", t.ActionType}, {"payload", string(t.Payload)}, {"dedup key", t.DedupKey},
		{"labels", pairs(r.Labels)}, {"metadata", pairs(t.Metadata)},
		{"policy", policyText(r.Policy)},
		{"created", timeText(r.CreatedAt)}, {"updated", timeText(r.UpdatedAt)},
	}}
}
