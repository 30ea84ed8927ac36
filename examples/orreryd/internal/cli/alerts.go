package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// alerts are the commands about the alerts of schedules.
type alerts struct {
	a     *app
	scope scoped
}

func (a *app) alertsCommand() *cobra.Command {
	l := &alerts{a: a}
	return a.addClientFlags(group("alerts", "List, show and silence the alerts of recurring actions and jobs",
		"An alert watches a recurring action or a job that has rules for it: --alert of orreryd\nrecurring add and update, alerts in a job file. SCHEDULE is the name or the id of a\nrecurring action; of a job its id is given with --job.",
		a.withScope(&l.scope, l.list(), l.show(), l.silence(), l.unsilence())...))
}

func (l *alerts) list() *cobra.Command {
	return listing[wire.Alert]{
		path: "/v1/alerts", field: "alerts", none: "no alerts: give a schedule some, as in orreryd recurring update NAME --alert failing=3",
		short: "List the alerts of all schedules that have any, newest first", example: "  orreryd alerts list --status open",
		filters: []filter{byStatus(core.Statuses(core.KindAlert)...)},
		name:    func(v wire.Alert) string { return v.Name },
		header:  []string{"SCHEDULE:40", "KIND", "SCOPE:40", "STATUS", "OPEN", "RULES:48", "SILENCED UNTIL (UTC)"},
		row: func(v wire.Alert) []string {
			return []string{
				text.OrDash(v.Name), scheduleKind(v.Schedule), v.Namespace + "/" + v.Tenant, v.Status, text.OrDash(strings.Join(openKinds(v), ",")),
				strings.Join(v.Rules.Words(), " "), shortTime(v.Silenced.Until),
			}
		},
	}.command(l.a)
}

func scheduleKind(ref effects.Ref) string {
	if ref.Kind == core.KindJob {
		return "job"
	}
	return "recurring"
}

func openKinds(v wire.Alert) (kinds []string) {
	for _, o := range v.Open {
		kinds = append(kinds, string(o.Kind))
	}
	return kinds
}

// on makes a command about the alerts of one schedule.
func (l *alerts) on(v verb, verbPath string, do func(ctx context.Context, c *client, r request) error) *cobra.Command {
	var job string
	fields := v.fields
	cmd := &cobra.Command{Use: v.use + " SCHEDULE", Short: v.short, Long: v.long, Example: v.example, Args: scheduleArg}
	cmd.RunE = l.a.withClient(func(ctx context.Context, c *client, args []string) error {
		r := request{method: v.method, query: l.scope.query()}
		if len(fields) > 0 {
			body, err := l.a.bodyOf(fields, args)
			if err != nil {
				return err
			}
			r.body = body
		}
		r.path = "/v1/jobs/" + url.PathEscape(job) + verbPath
		if job == "" {
			ids := finder{path: "/v1/recurring", field: "recurring_actions", scope: &l.scope, what: "recurring action", named: true}
			id, err := ids.find(ctx, c, args[0])
			if err != nil {
				return err
			}
			r.path = "/v1/recurring/" + id + verbPath
		}
		return do(ctx, c, r)
	})
	cmd.Flags().StringVar(&job, "job", "", "`id` of the job that is meant, instead of SCHEDULE")
	return addFlags(cmd, fields)
}

// send sends a request, and prints the alert that it is answered with.
func (l *alerts) send(ctx context.Context, c *client, r request) error {
	var v wire.Alert
	raw, err := c.json(ctx, r, &v)
	if err != nil {
		return err
	}
	return l.a.print(raw, alertView(v))
}

func (l *alerts) show() *cobra.Command {
	return l.on(verb{use: "show", short: "Show the alerts of a schedule", example: "  orreryd alerts show nightly\n  orreryd alerts show --job nightly-report", method: http.MethodGet}, "/alerts", l.send)
}

func (l *alerts) silence() *cobra.Command {
	return l.on(verb{
		use: "silence", short: "Let nobody be told of the alerts of a schedule, for some time", method: http.MethodPost,
		long: `Let nobody be told of the alerts of a schedule, for some time. They go on watching:
what is open at the end is told then, and what was told before and is cleared meanwhile at once.`,
		example: "  orreryd alerts silence nightly --for 2h --reason \"the database moves\"\n  orreryd alerts silence --job nightly-report --until 2026-12-27T00:00:00Z",
		fields:  []field{untilOrFor(), reasonField()},
	}, "/silence", l.send)
}

// untilOrFor is when a silence ends: at a time, or after some time.
func untilOrFor() field {
	var until string
	var length time.Duration
	return field{
		name: "until",
		add: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&until, "until", "", "tell nobody before that `time`, in RFC 3339")
			cmd.Flags().DurationVar(&length, "for", 0, "tell nobody for that `duration`")
		},
		value: func(*app, []string) (any, error) {
			switch {
			case until != "" && length != 0:
				return nil, usagef("--until and --for: give one of them")
			case until != "":
				return until, checkTime("until", until)
			case length <= 0:
				return nil, usagef("say for how long, as in --for 2h, or until when, as in --until 2026-12-27T00:00:00Z")
			}
			return effects.TimeOf(time.Now().Add(length)).String(), nil
		},
	}
}

func (l *alerts) unsilence() *cobra.Command {
	return l.on(verb{use: "unsilence", short: "End the silence of a schedule's alerts: what is open is told", method: http.MethodPost}, "/unsilence", l.send)
}

// silencedText says until when nobody is told of alerts, and why; "" if they are told.
func silencedText(v wire.Alert) string {
	until := timeText(v.Silenced.Until)
	if until == "" {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("until %s by %s: %s", until, v.Silenced.By, v.Silenced.Reason), ": ")
}

// addAlerts adds to what is shown of a schedule which of its alerts are open, since when and why, and what keeps them quiet.
func addAlerts(ctx context.Context, c *client, r request, rules core.AlertRules, v *view) error {
	if rules.None() {
		return nil
	}
	var alert wire.Alert
	_, err := c.json(ctx, request{method: http.MethodGet, path: r.path + "/alerts", query: r.query}, &alert)
	if coded, ok := errors.AsType[*exitError](err); ok && coded.code == exitNotFound {
		return nil // the rules were taken out meanwhile
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(v.fields, func(f [2]string) bool { return f[0] == "alerts" })
	v.fields = slices.Insert(v.fields, at+1, [2]string{"alerts rest", alert.View.Resting}, [2]string{"silenced", silencedText(alert)})
	v.tables = append(v.tables, openAlerts("OPEN ALERT", alert))
	return nil
}

// openAlerts are the alerts of a schedule that are open.
func openAlerts(head string, v wire.Alert) table {
	return table{[]string{head, "SINCE (UTC)", "WHY:200"}, rowsOf(v.Open, func(o core.OpenAlert) []string {
		return []string{string(o.Kind), shortTime(o.Since), o.Reason}
	})}
}

func alertView(v wire.Alert) view {
	failures := ""
	if f := v.LastFailure; v.Failures > 0 {
		failures = fmt.Sprintf("%d in a row, the last %s at %s: %s", v.Failures, f.Child, timeText(f.At), f.Reason)
	}
	return view{
		fields: [][2]string{
			{"schedule", v.Name}, {"kind", scheduleKind(v.Schedule)}, {"id", v.Schedule.ID.String()}, {"scope", v.Namespace + "/" + v.Tenant},
			{"rules", strings.Join(v.Rules.Words(), " ")}, {"status", v.Status}, {"rest", v.View.Resting}, {"silenced", silencedText(v)},
			{"expected", timeText(v.View.ExpectedAt)}, {"last success", timeText(v.View.SuccessAt)}, {"runs since", timeText(v.View.RunsSince)}, {"failed", failures},
			{"raised so far", v.Raised.String()},
		},
		tables: []table{openAlerts("OPEN", v)},
	}
}

// alertField are the rules for the alerts of a schedule, which the API takes as a whole.
func alertField() field {
	return listField("alert", "`RULE` for an alert: late=10m, missed, stale=26h, failing=3, slow=2h, slow=3x, or channel=NAME for who is told; may be repeated; of update in place of all rules, and an empty one stands for none", readAlerts).as("alerts")
}

// readAlerts reads rules for alerts.
func readAlerts(flag string, list []string) (core.AlertRules, error) {
	var r core.AlertRules
	for _, rule := range list {
		if rule == "" {
			continue
		}
		word, value, _ := strings.Cut(rule, "=")
		if err := r.Set(word, value); err != nil {
			return r, usagef("--%s %s: %w", flag, text.Clip(word, 40), err)
		}
	}
	return r, nil
}
