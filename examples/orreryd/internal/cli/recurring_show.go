package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (r *recurring) history() *cobra.Command {
	var limit int
	var token string
	var all bool
	cmd := &cobra.Command{
		Use: "history ID", Short: "List what was decided about each due time, newest first", Args: oneID, ValidArgsFunction: r.complete,
		RunE: r.a.withClient(func(ctx context.Context, c *client, args []string) error {
			raws, list, next, err := pages[core.Occurrence](ctx, c, recurringPath(args[0], "history"), "history", r.scope(), limit, token, all)
			if err != nil {
				return err
			}
			if r.a.json {
				return r.a.printJSON(map[string]any{"history": raws, "next_page_token": next})
			}
			rows := make([][]string, 0, len(list))
			for _, o := range list {
				rows = append(rows, occurrenceRow(o, actionOf(o)))
			}
			return r.a.printPage([]string{"DUE (UTC)", "VERDICT", "TIMES", "OUTCOME", "TOOK", "ACTION", "NOTE"}, rows, "nothing has been due yet", next)
		}),
	}
	addPageFlags(cmd, &limit, &token, &all)
	return cmd
}

// actionOf names the action of an occurrence; empty where none was made.
func actionOf(o core.Occurrence) string {
	if o.ActionID == uuid.Nil {
		return ""
	}
	return o.ActionID.String()
}

// occurrenceRow is a row of a history; made names what came of it.
func occurrenceRow(o core.Occurrence, made string) []string {
	count := strconv.FormatUint(o.Count, 10)
	if o.CountCapped {
		count += "+"
	}
	took, reason := "-", o.Reason
	if !o.StartedAt.IsZero() && !o.FinishedAt.IsZero() {
		took = o.FinishedAt.Sub(o.StartedAt).String()
	}
	if o.Manual {
		reason = strings.TrimSpace("triggered by hand " + reason)
	}
	return []string{shortTime(o.DueAt), text.Clip(string(o.Verdict), 14), count, text.OrDash(text.Clip(o.Outcome, 12)), took, text.OrDash(made), text.OrDash(text.Clip(reason, 60))}
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
			return errorOr(err, func() error { return r.printPreview(p) })
		}
		return r.a.withClient(func(ctx context.Context, c *client, args []string) error {
			q := r.scope()
			q.Set("n", strconv.Itoa(n))
			var p preview
			_, err := c.json(ctx, request{method: http.MethodGet, path: recurringPath(args[0], "preview"), query: q}, &p)
			return errorOr(err, func() error { return r.printPreview(p) })
		})(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&cron, "cron", "", "cron `expression` to look at")
	f.StringVar(&tz, "tz", "", "time `zone` of --cron (default UTC)")
	f.IntVarP(&n, "number", "n", 5, "`number` of times to show")
	completeZone(cmd)
	return cmd
}

// preview is the answer of the API's preview.
type preview struct {
	CronExpr    string         `json:"cron_expr"`
	Timezone    string         `json:"timezone"`
	Description string         `json:"description"`
	Times       []effects.Time `json:"times"`
}

func previewOf(expr, zone string, n int, now effects.Time) (preview, error) {
	s, err := parseCron(expr, zone)
	if err != nil {
		return preview{}, err
	}
	return preview{CronExpr: expr, Timezone: zone, Description: s.Describe(), Times: s.Preview(now, n)}, nil
}

func (r *recurring) printPreview(p preview) error {
	if r.a.json {
		return r.a.printJSON(p)
	}
	if _, err := fmt.Fprintf(r.a.out, "%s\n", text.Clean(p.Description)); err != nil {
		return err
	}
	rows := make([][]string, 0, len(p.Times))
	for _, t := range p.Times {
		rows = append(rows, []string{t.Std().Format("Mon 2006-01-02 15:04:05"), localTime(t, p.Timezone)})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(r.a.out, "it never fires")
		return err
	}
	return r.a.printTable([]string{"UTC", text.Clip(p.Timezone, 40)}, rows)
}

// localTime shows a time in a zone; the zone is embedded, as the scheduler's is.
func localTime(t effects.Time, zone string) string {
	if z, err := schedule.LoadZone(zone); err == nil {
		return t.Std().In(z.Location()).Format("Mon 2006-01-02 15:04:05 MST")
	}
	return "-"
}

// inWords describes a schedule; empty where it cannot be read.
func inWords(expr, zone string) string {
	s, err := schedule.Parse(expr, cmp.Or(zone, "UTC"), effects.MinTime)
	if err != nil {
		return ""
	}
	return s.Describe()
}

func (a *app) printRecurring(raw json.RawMessage, r core.RecurringAction) error {
	if a.json {
		return a.printJSON(raw)
	}
	state, t := "enabled", r.ActionTemplate
	if !r.Enabled {
		state = "disabled: " + cmp.Or(r.DisabledReason, "no reason was kept")
	}
	return a.printFields([][2]string{
		{"id", r.ID.String()}, {"state", state}, {"description", r.Description}, {"scope", r.Namespace + "/" + r.Tenant},
		{"cron", r.CronExpr + " " + r.Timezone}, {"in words", inWords(r.CronExpr, r.Timezone)},
		{"next", timeText(r.NextExecutionAt)}, {"last", timeText(r.LastExecutedAt)}, {"ends", timeText(r.EndsAt)},
		{"executed", strconv.FormatUint(r.ExecutionCount, 10)}, {"missed", strconv.FormatUint(r.MissedCount, 10)},
		{"deduplicated", strconv.FormatUint(r.DeduplicatedCount, 10)},
		{"tool", t.Provider}, {"type", t.ActionType}, {"payload", string(t.Payload)}, {"dedup key", t.DedupKey},
		{"labels", pairs(r.Labels)}, {"metadata", pairs(t.Metadata)},
		{"policy", policyText(r.Policy)},
		{"created", timeText(r.CreatedAt)}, {"updated", timeText(r.UpdatedAt)},
	})
}
