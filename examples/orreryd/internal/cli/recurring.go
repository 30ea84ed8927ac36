package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// recurring are the commands about recurring actions, which belong to one
// tenant of one namespace.
type recurring struct{ machine[core.RecurringAction] }

func (a *app) recurringCommand() *cobra.Command {
	scope := &scoped{}
	r := &recurring{machine[core.RecurringAction]{
		a: a, path: "/v1/recurring", arg: "ID|NAME", args: oneIDOrName, scope: scope, view: recurringView,
		id:  func(ra core.RecurringAction) string { return ra.ID.String() },
		ids: finder{path: "/v1/recurring", field: "recurring_actions", scope: scope, what: "recurring action", named: true},
		more: func(ctx context.Context, c *client, r request, ra core.RecurringAction, v *view) error {
			return addAlerts(ctx, c, r, ra.Alerts, v)
		},
	}}
	r.complete = completing(a, r.path, "recurring_actions", r.scope, func(s wire.RecurringSummary) (name, about string) {
		return cmp.Or(s.Name, s.ID.String()), text.Clip(s.CronExpr+" "+deref(s.Description), 60)
	})
	states := machine[wire.RecurringState]{a: a, path: r.path, arg: r.arg, args: r.args, scope: r.scope, view: stateView, complete: r.complete, ids: r.ids}
	return withMore(a.addClientFlags(r.scope.addFlags(a, group("recurring", "Add, list, show, change, pause and delete recurring actions",
		"A recurring action makes an action at each time of its cron expression.",
		r.add(), r.list(), r.show("Show a recurring action"), r.update(),
		states.verb(verb{use: "pause", short: "Disable a recurring action until it is resumed, or until a time", path: "pause", fields: []field{
			reasonField(), untilField(),
		}}),
		states.post("resume", "resume", "Enable a recurring action, from its next time after now"),
		r.saying(verb{use: "delete", short: "Delete a recurring action; what it made goes on", method: http.MethodDelete}, func(args []string) string {
			return fmt.Sprintf("recurring action %s is deleted", args[0])
		}),
		r.trigger(), r.post("skip-next", "skip-next", "Skip the next time of a recurring action; may be repeated"), r.cancelWaiting(),
		r.history(), r.preview()))), a.recurringAll(r.scope)...)
}

// stateView says what pause and resume have led to.
func stateView(s wire.RecurringState) view {
	state := "disabled"
	if s.Enabled {
		state = "enabled, next at " + timeText(s.NextExecutionAt)
	}
	return view{line: fmt.Sprintf("recurring action %s is %s", s.ID, state)}
}

// definition are the fields of add and update.
func definition(w *work) []field {
	fields := append(append([]field{scheduleFields()}, optionFields()...), policyFields()...)
	return append(append(fields, givenTextField("name", "`name` by which files and commands refer to it: letters, digits, '.', '_' and '-'"), givenTextField("description", "`text` that says what it is"),
		flagField((*pflag.FlagSet).StringVar, "ends-at", "", "disable it at that `time`, in RFC 3339", timeOf("ends-at")).ifGiven(),
		secondsField("start-deadline", "`duration` that an occurrence may be late; later it is missed (default 2m)", time.Second),
	), w.fields()...)
}

// optionFields say what the schedule means beyond its expression.
func optionFields() []field {
	return []field{
		wordField("dst", "`rule` for the times that the clocks skip or repeat: once_shifted (default), skip or twice",
			wordsOf(schedule.DSTOnceShifted, schedule.DSTSkip, schedule.DSTTwice)),
		wordField("day-match", "`rule` where both day fields are restricted: either (default) or both", wordsOf(schedule.DayMatchEither, schedule.DayMatchBoth)),
		flagField((*pflag.FlagSet).StringVar, "starts-at", "", "no time before that `time`, in RFC 3339, is due", timeOf("starts-at")).ifGiven(),
		flagField((*pflag.FlagSet).Uint64Var, "max-executions", 0, "end the schedule after that `number` of dispatches", asIs[uint64]).ifGiven(),
		secondsField("jitter", "dispatch each time up to that `duration` later, to spread them", 0),
	}
}

// scheduleFields say when it fires: an update may change either alone.
func scheduleFields() field {
	f := nested("", givenTextField("cron", "fire at the times of a cron `expression` of 5, 6 or 7 fields").as("cron_expr"),
		givenTextField("tz", "time `zone` of --cron, such as Europe/Berlin (default UTC)").as("timezone"))
	add, read := f.add, f.value
	f.add = func(cmd *cobra.Command) {
		add(cmd)
		completeZone(cmd)
	}
	f.value = func(a *app, args []string) (any, error) {
		v, err := read(a, args)
		body, _ := v.(map[string]any)
		cron, changed := body["cron_expr"].(string)
		zone, moved := body["timezone"].(string)
		switch {
		case changed:
			_, err = parseCron(cron, zone)
		case moved:
			_, err = schedule.LoadZone(zone)
			err = cronError(err)
		}
		return body, err
	}
	return f
}

// timeOf checks the time that a flag gives; an empty one clears what was given before.
func timeOf(flag string) func(*app, string) (any, error) {
	return func(_ *app, at string) (any, error) {
		if at == "" {
			return at, nil
		}
		return at, checkTime(flag, at)
	}
}

func (r *recurring) add() *cobra.Command {
	var w work
	var disabled, replace, takeOver bool
	m := r.machine
	m.complete = nil
	when := field{value: func(*app, []string) (any, error) {
		if w.cmd.Flag("cron").Value.String() == "" {
			return nil, usagef("--cron is missing: say when, as in --cron \"0 9 * * MON-FRI\"")
		}
		if replace && w.cmd.Flag("name").Value.String() == "" {
			return nil, usagef("--replace is about the one with the name of --name, which is missing")
		}
		if takeOver && !replace {
			return nil, usagef("--take-over is about the one that --replace changes, which is missing")
		}
		return nil, nil
	}}
	what := field{value: func(a *app, args []string) (any, error) {
		tool, input, err := w.toolInput(a, args)
		if input == nil {
			input = json.RawMessage("{}")
		}
		return map[string]any{"provider": tool, "payload": input}, err
	}}
	cmd := m.sending(verb{
		use:   "add --cron EXPR [flags] [-- COMMAND [ARG...]]",
		short: "Add a recurring action",
		long: `Add a recurring action. What follows -- is a command for the tool "command": the
program and its arguments, without a shell in between.

Cron expressions have 5 fields (minute hour day month weekday), 6 (seconds first)
or 7 (years last); try one with: orreryd recurring preview --cron "0 9 * * MON-FRI"`,
		example: `  orreryd recurring add --name clock --cron "*/10 * * * * *" -- date -u
  orreryd recurring add --cron "0 9 * * MON-FRI" --tz Europe/Berlin --description "morning report" -- echo report
  orreryd recurring add --cron @hourly --tool http --input '{"method":"GET","url":"https://example.com/health"}'
  orreryd recurring add --cron @daily --tool pipeline --input '{"file":"release.toml","inputs":{"branch":"main"}}'`,
		args:   cobra.ArbitraryArgs,
		makes:  true,
		fields: append(append([]field{when}, definition(&w)...), field{value: func(*app, []string) (any, error) { return nil, w.checkEffect() }}, what),
	}, func(ctx context.Context, c *client, q request, _ []string) error {
		q.fields["namespace"], q.fields["tenant"], q.fields["enabled"] = r.scope.namespace, r.scope.tenant, !disabled
		if q.fields["action_type"] == nil {
			q.fields["action_type"] = q.fields["provider"] // 002 wants one; tools that tell no types apart ignore it
		}
		if replace {
			if done, err := r.replace(ctx, c, q, takeOver); done || err != nil {
				return err
			}
		}
		var created wire.RecurringCreated
		if _, err := c.json(ctx, q, &created); err != nil {
			return err
		}
		r.a.warn(created.Warnings)
		days, _ := q.fields["day_match"].(string)
		next := timeText(created.NextExecution)
		if !created.Enabled {
			next = "none: it is disabled"
		}
		raw, err := json.Marshal(newRecurringAdded(q.fields, created))
		if err != nil {
			return fmt.Errorf("print JSON: %w", err)
		}
		return r.a.print(raw, view{fields: [][2]string{
			{"id", created.RecurringID.String()}, {"cron", created.CronExpr}, {"in words", inWords(created.CronExpr, created.Timezone, schedule.DayMatch(days))}, {"next", next},
		}})
	})
	cmd.Flags().BoolVar(&disabled, "disabled", false, "do not fire until it is resumed")
	cmd.Flags().BoolVar(&replace, "replace", false, "change the one that has the name, if there is one, as update does; it stays paused if it is")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "with --replace: "+takeOverUsage)
	return cmd
}

// replace changes the recurring action that has the name of the request, if there is one, to what the request says.
func (r *recurring) replace(ctx context.Context, c *client, q request, takeOver bool) (done bool, err error) {
	name, _ := q.fields["name"].(string)
	id, err := r.ids.byName(ctx, c, name)
	if err != nil {
		if coded, ok := errors.AsType[*exitError](err); ok && coded.code == exitNotFound {
			err = nil
		}
		return false, err
	}
	body := maps.Clone(q.fields)
	for _, k := range []string{"namespace", "tenant", "enabled"} { // whose it is does not change, and a pause by hand stays
		delete(body, k)
	}
	return true, r.change(ctx, c, request{method: http.MethodPut, path: r.of(id), query: r.scope.query(), body: body, header: takingOver(takeOver)})
}

func (r *recurring) update() *cobra.Command {
	var w work
	fields := append(definition(&w), field{value: func(a *app, args []string) (any, error) {
		what := map[string]any{}
		if w.given("tool") {
			what["provider"] = w.tool
		}
		if len(args) == 1 && w.input == "" { // an empty one is none
			return what, nil
		}
		input, err := w.newInput(a, args[1:])
		what["payload"] = input
		return what, err
	}})
	return addFlags(r.sending(verb{
		use:   "update ID|NAME [flags] [-- COMMAND [ARG...]]",
		short: "Change a recurring action; only what is given changes",
		long: `Change a recurring action. Only what is given changes; a changed schedule counts
from now and never makes a past time due. An empty --starts-at, --ends-at,
--dedup-key, --name, --description, --calendar, --overlap, --missed, --dst, --day-match or
--alert clears it; so does 0 of a number or a duration that has a default.`,
		example: "  orreryd recurring update nightly --cron \"0 10 * * *\"\n  orreryd recurring update ID -- echo \"something else\"",
		args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return oneIDOrName(cmd, args)
		},
		method: http.MethodPut,
	}, func(ctx context.Context, c *client, q request, args []string) error {
		if err := r.keepPolicy(ctx, c, args[0], &w); err != nil {
			return err
		}
		body, err := r.a.bodyOf(fields, args)
		if err != nil {
			return err
		}
		for _, k := range []string{"ends_at", "starts_at", "dedup_key", "name", "description"} {
			if body[k] == "" {
				body[k] = nil // which clears it
			}
		}
		if len(body) == 0 {
			return usagef("say what to change, such as --cron \"0 10 * * *\"")
		}
		q.body = body
		return r.change(ctx, c, q)
	}), fields)
}

// change sends a change, and prints what it has led to.
func (r *recurring) change(ctx context.Context, c *client, q request) error {
	var changed struct { // wire.RecurringAction has fields of its own beside those that are shown
		core.RecurringAction
		Warnings        []string       `json:"warnings"`
		NextTimesBefore []effects.Time `json:"next_times_before"`
		NextTimes       []effects.Time `json:"next_times"`
	}
	raw, err := c.json(ctx, q, &changed)
	if err != nil {
		return err
	}
	r.a.warn(changed.Warnings)
	v := r.view(changed.RecurringAction)
	v.tables = append(v.tables, nextTimesTable(changed.NextTimesBefore, changed.NextTimes))
	return r.a.print(raw, v)
}

// keepPolicy fills in what is not given of the policy, which the API takes as a
// whole.
func (r *recurring) keepPolicy(ctx context.Context, c *client, id string, w *work) error {
	flags := append([]string{"on-interrupt", "on-failure", "max-attempts", "timeout"}, backoffFlags...)
	if !slices.ContainsFunc(flags, w.given) {
		return nil
	}
	if err := w.checkWords(); err != nil {
		return err // without asking the daemon
	}
	if w.given("on-interrupt") && w.given("on-failure") {
		if _, err := w.policy(); err != nil {
			return err
		}
	}
	var ra core.RecurringAction
	if _, err := c.json(ctx, request{method: http.MethodGet, path: r.of(id), query: r.scope.query()}, &ra); err != nil {
		return err
	}
	w.keep(ra.Policy)
	return nil
}

func (r *recurring) list() *cobra.Command {
	return listing[wire.RecurringSummary]{
		short:   "List the recurring actions of a tenant, newest first",
		example: "  orreryd recurring list\n  orreryd recurring list --enabled=false\n  orreryd recurring list --namespace notifications --tenant tenant-1 --json",
		path:    r.path, field: "recurring_actions", scope: r.scope, none: "no recurring actions of tenant %s in namespace %s",
		filters: append([]filter{switchedBy("enabled")}, ofSchedules()...),
		name:    func(s wire.RecurringSummary) string { return s.ID.String() },
		json:    func(s wire.RecurringSummary) any { return newRecurringListed(s) },
		header:  []string{"ID", "STATE", "CRON:30", "ZONE:24", "TOOL:20", "NEXT (UTC)", "LAST (UTC)", "RUNS", "NAME:40"},
		row: func(s wire.RecurringSummary) []string {
			state := "enabled"
			switch {
			case s.Ended:
				state = "ended"
			case !s.Enabled:
				state = "disabled"
			}
			return []string{
				s.ID.String(), state, s.CronExpr, s.Timezone, s.Provider,
				shortTime(s.NextExecutionAt), shortTime(s.LastExecutedAt), number(s.ExecutionCount), text.OrDash(cmp.Or(s.Name, deref(s.Description))),
			}
		},
	}.command(r.a)
}

// deref gives the text; empty for none.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (r *recurring) history() *cobra.Command {
	return history(r.machine, "ACTION", "TOOK", "List what was decided about each due time, newest first", func(_ string, o core.Occurrence) string {
		return idOr(o.ActionID)
	}).command(r.a)
}

// history lists what was decided about each due time of what has a schedule; made names
// what came of one, in a column of its own, and length is the column of how long that took.
func history[S any](m machine[S], column, length, short string, made func(name string, o core.Occurrence) string) listing[core.Occurrence] {
	return listing[core.Occurrence]{
		use: "history " + m.arg, short: short, args: m.args, complete: m.complete, whole: m.ids.arg(0),
		path: m.path, of: "history", field: "history", scope: m.scope, none: "nothing has been due yet",
		name: func(o core.Occurrence) string { return o.ID.String() },
		rows: func(args []string, list []core.Occurrence) ([]string, [][]string) {
			return []string{"DUE (UTC)", "VERDICT:14", "TIMES", "OUTCOME:12", length, column, "NOTE:60"},
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
	switch {
	case o.Manual:
		reason = strings.TrimSpace("triggered by hand " + reason)
	case o.Backfill != uuid.Nil:
		reason = strings.TrimSpace("backfilled " + reason)
	}
	return []string{
		shortTime(o.DueAt), string(o.Verdict), count, text.OrDash(o.Outcome), took(o.StartedAt, o.FinishedAt), text.OrDash(made), text.OrDash(reason),
	}
}

func (r *recurring) preview() *cobra.Command {
	var cron, tz, dst, days string
	var n int
	cmd := &cobra.Command{
		Use:   "preview [ID|NAME]",
		Short: "Show the next times of a recurring action, or of a cron expression",
		Long: `Show the next times of a recurring action, or, with --cron and without a daemon,
those of an expression.`,
		Example: "  orreryd recurring preview --cron \"0 9 * * MON-FRI\" --tz US/Eastern -n 10\n  orreryd recurring preview nightly",
		Args: func(cmd *cobra.Command, args []string) error {
			switch byCron := cmd.Flags().Changed("cron"); {
			case byCron && len(args) > 0:
				return usagef("give either an ID, or a NAME, or --cron, not both")
			case byCron:
				return nil
			case len(args) == 0:
				return usagef("give an ID or a NAME, or an expression with --cron")
			case cmd.Flags().Changed("tz"):
				return usagef("--tz belongs to --cron: a recurring action has its own time zone")
			case cmd.Flags().Changed("dst") || cmd.Flags().Changed("day-match"):
				return usagef("--dst and --day-match belong to --cron: a recurring action has its own")
			}
			return oneIDOrName(cmd, args)
		},
		ValidArgsFunction: r.complete,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkCount(n); err != nil {
			return err
		}
		if len(args) == 0 {
			p, err := previewOf(schedule.Spec{Expr: cron, Zone: cmp.Or(tz, "UTC"), DST: schedule.DST(dst), DayMatch: schedule.DayMatch(days)}, n, effects.TimeOf(time.Now()))
			if err != nil {
				return err
			}
			return r.a.printPreview(p)
		}
		return r.a.withClient(func(ctx context.Context, c *client, args []string) error {
			args, err := r.ids.arg(0)(ctx, c, args)
			if err != nil {
				return err
			}
			q := r.scope.query()
			q.Set("n", number(n))
			var p wire.Preview
			if _, err := c.json(ctx, request{method: http.MethodGet, path: r.of(args[0], "preview"), query: q}, &p); err != nil {
				return err
			}
			return r.a.printPreview(p)
		})(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&cron, "cron", "", "cron `expression` to look at")
	f.StringVar(&tz, "tz", "", "time `zone` of --cron (default UTC)")
	f.StringVar(&dst, "dst", "", "`rule` of --cron for the times that the clocks skip or repeat (default once_shifted)")
	f.StringVar(&days, "day-match", "", "`rule` of --cron where both day fields are restricted (default either)")
	addCount(cmd, &n)
	completeZone(cmd)
	return cmd
}

func previewOf(spec schedule.Spec, n int, now effects.Time) (wire.Preview, error) {
	spec.Anchor = now
	s, err := spec.Compile()
	if err != nil {
		return wire.Preview{}, cronError(err)
	}
	return wire.Preview{CronExpr: spec.Expr, Timezone: spec.Zone, Description: s.Describe(), Times: s.Preview(now, n), Warnings: s.Warnings()}, nil
}

// addCount adds the flag that says how many times a preview shows.
func addCount(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVarP(n, "number", "n", 5, "`number` of times to show")
}

func checkCount(n int) error {
	if n < 1 || n > 1000 {
		return usagef("--number: %d is not between 1 and 1000", n)
	}
	return nil
}

// printPreview shows the next times of a schedule.
func (a *app) printPreview(p wire.Preview) error {
	a.warn(p.Warnings)
	rows := rowsOf(p.Times, func(t effects.Time) []string {
		return []string{t.Std().Format("Mon 2006-01-02 15:04:05"), localTime(t, p.Timezone)}
	})
	times := "it never fires\n"
	if len(rows) > 0 {
		times = table{[]string{"UTC", text.Clip(p.Timezone, 40)}, rows}.text(a.screen())
	}
	return a.show(p, text.Clean(p.Description)+"\n"+times)
}

// localTime shows a time in a zone; the zone is embedded, as the scheduler's is.
func localTime(t effects.Time, zone string) string {
	if z, err := schedule.LoadZone(zone); err == nil {
		return t.Std().In(z.Location()).Format("Mon 2006-01-02 15:04:05 MST")
	}
	return "-"
}

// inWords describes a schedule; empty if it cannot be read.
func inWords(expr, zone string, days schedule.DayMatch) string {
	s, err := schedule.Spec{Expr: expr, Zone: cmp.Or(zone, "UTC"), Anchor: effects.MinTime, DayMatch: days}.Compile()
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
		{"id", r.ID.String()}, {"name", r.Name}, {"state", state}, {"description", r.Description}, {"scope", r.Namespace + "/" + r.Tenant},
		{"cron", r.CronExpr + " " + r.Timezone}, {"in words", inWords(r.CronExpr, r.Timezone, r.DayMatch)},
		{"next", timeText(r.NextExecutionAt)}, {"last", timeText(r.LastExecutedAt)},
		{"starts", timeText(r.StartsAt)}, {"ends", timeText(r.EndsAt)}, {"at most", atMost(r.Executions, r.MaxExecutions)},
		{"dst", string(r.DST)}, {"day match", string(r.DayMatch)}, {"jitter", upTo(r.JitterSeconds)},
		{"calendars", strings.Join(r.Calendars, ", ")}, {"overlap", overlapText(r.Overlap, r.ScheduleOptions)},
		{"start deadline", upTo(r.StartDeadlineSeconds)}, {"missed times", missedText(r.ScheduleOptions)}, {"alerts", strings.Join(r.Alerts.Words(), " ")},
		{"paused until", timeText(r.PausedUntil)}, {"skip next", nonZero(uint64(r.SkipNext))}, {"last success", timeText(r.LastSuccessAt)},
		{"waiting", nonZero(uint64(len(r.Waiting)))}, {"running", nonZero(uint64(len(r.Running)))},
		{"executed", number(r.ExecutionCount)}, {"missed", number(r.MissedCount)}, {"skipped", number(r.SkippedCount)},
		{"deduplicated", number(r.DeduplicatedCount)}, {"cancelled", nonZero(r.CancelledCount)}, {"expired", nonZero(r.ExpiredCount)},
		{"tool", t.Provider}, {"type", t.ActionType}, {"payload", string(t.Payload)}, {"dedup key", t.DedupKey},
		{"labels", pairs(r.Labels)}, {"metadata", pairs(t.Metadata)},
		{"policy", policyText(r.Policy)},
		{"created", timeText(r.CreatedAt)}, {"updated", timeText(r.UpdatedAt)},
	}}
}

// atMost says how many of the executions that a schedule may dispatch it has dispatched.
func atMost(executions, most uint64) string {
	if most == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d executions", executions, most)
}

// upTo says how much later a time may be dispatched.
func upTo(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return "up to " + (time.Duration(seconds) * time.Second).String()
}
