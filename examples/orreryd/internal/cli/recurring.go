package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// recurring are the commands about recurring actions, which belong to one
// tenant of one namespace.
type recurring struct {
	a     *app
	scope scoped
	machine[core.RecurringAction]
}

func (a *app) recurringCommand() *cobra.Command {
	r := &recurring{a: a}
	const path = "/v1/recurring"
	r.machine = machine[core.RecurringAction]{
		a: a, path: path, arg: "ID", args: oneID, scope: &r.scope, view: recurringView,
		complete: completing(a, path, "recurring_actions", &r.scope, func(s wire.RecurringSummary) (name, about string) {
			return s.ID.String(), text.Clip(s.CronExpr+" "+deref(s.Description), 60)
		}),
	}
	states := machine[wire.RecurringState]{a: a, path: path, arg: "ID", args: oneID, scope: &r.scope, view: stateView, complete: r.complete}
	return a.addClientFlags(r.scope.addFlags(a, group("recurring", "Add, list, show, change, pause and delete recurring actions",
		"A recurring action makes an action at each time of its cron expression.",
		r.add(), r.list(), r.show("Show a recurring action"), r.update(),
		states.reasoned("pause", "Disable a recurring action until it is resumed"),
		states.post("resume", "resume", "Enable a recurring action, from its next time after now"),
		r.saying(verb{use: "delete", short: "Delete a recurring action; what it made goes on", method: http.MethodDelete}, func(args []string) string {
			return fmt.Sprintf("recurring action %s is deleted", args[0])
		}),
		r.post("trigger", "trigger", "Make one occurrence now; the schedule stays as it is"), r.history(), r.preview())))
}

// stateView says what pause and resume have led to.
func stateView(s wire.RecurringState) view {
	state := "disabled"
	if s.Enabled {
		state = "enabled, next at " + timeText(s.NextExecutionAt)
	}
	return view{line: fmt.Sprintf("recurring action %s is %s", s.ID, state)}
}

// recurringRequest is the body of POST and PUT /v1/recurring; a nil field is
// left out.
type recurringRequest struct {
	wire.RecurringRequest
	CronExpr   *string `json:"cron_expr,omitempty"`
	Provider   *string `json:"provider,omitempty"`
	ActionType *string `json:"action_type,omitempty"`
	EndsAt     *string `json:"ends_at,omitempty"`
}

// definition are the flags of add and update.
type definition struct {
	work
	cron, tz, description, endsAt string
	startDeadline                 time.Duration
	disabled                      bool
}

func (d *definition) addFlags(cmd *cobra.Command) {
	d.work.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&d.cron, "cron", "", "fire at the times of a cron `expression` of 5, 6 or 7 fields")
	f.StringVar(&d.tz, "tz", "", "time `zone` of --cron, such as Europe/Berlin (default UTC)")
	f.StringVar(&d.description, "description", "", "`text` that says what it is")
	f.StringVar(&d.endsAt, "ends-at", "", "disable it at that `time`, in RFC 3339")
	f.DurationVar(&d.startDeadline, "start-deadline", 0, "`duration` that an occurrence may be late; later it is missed (default 2m)")
	completeZone(cmd)
}

// request turns the flags that were given into a body.
func (d *definition) request(cmd *cobra.Command) (recurringRequest, error) {
	var body recurringRequest
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	for flag, f := range map[string]struct {
		to   **string
		from *string
	}{
		"cron": {&body.CronExpr, &d.cron}, "tz": {&body.Timezone, &d.tz}, "type": {&body.ActionType, &d.actionType},
		"dedup-key": {&body.DedupKey, &d.dedupKey}, "description": {&body.Description, &d.description}, "ends-at": {&body.EndsAt, &d.endsAt},
	} {
		if given(flag) {
			*f.to = f.from
		}
	}
	if err := d.checkSchedule(given("cron"), given("tz")); err != nil {
		return body, err
	}
	if given("ends-at") && d.endsAt != "" {
		if _, err := effects.ParseTime(d.endsAt); err != nil {
			return body, usagef("--ends-at: %w", err)
		}
	}
	if given("start-deadline") {
		if d.startDeadline < time.Second || d.startDeadline%time.Second != 0 {
			return body, usagef("--start-deadline: %s is not a whole number of seconds, at least 1s", d.startDeadline)
		}
		s := int64(d.startDeadline / time.Second)
		body.StartDeadlineSeconds = &s
	}
	var err error
	body.Policy, body.Metadata, body.Labels, err = d.read(cmd)
	return body, err
}

// checkSchedule looks at what is given: an update may change either alone.
func (d *definition) checkSchedule(cron, tz bool) error {
	switch {
	case cron:
		_, err := parseCron(d.cron, d.tz)
		return err
	case tz:
		_, err := schedule.LoadZone(d.tz)
		return cronError(err)
	}
	return nil
}

func (r *recurring) add() *cobra.Command {
	var d definition
	cmd := &cobra.Command{
		Use:   "add --cron EXPR [flags] [-- COMMAND [ARG...]]",
		Short: "Add a recurring action",
		Long: `Add a recurring action. What follows -- is a command for the tool "command": the
program and its arguments, without a shell in between.

Cron expressions have 5 fields (minute hour day month weekday), 6 (seconds first)
or 7 (years last); try one with: orreryd recurring preview --cron "0 9 * * MON-FRI"`,
		Example: `  orreryd recurring add --cron "*/10 * * * * *" -- date -u
  orreryd recurring add --cron "0 9 * * MON-FRI" --tz Europe/Berlin --description "morning report" -- echo report
  orreryd recurring add --cron @hourly --tool http --input '{"method":"GET","url":"https://example.com/health"}'
  orreryd recurring add --cron @daily --tool pipeline --input '{"file":"release.toml","inputs":{"branch":"main"}}'`,
	}
	cmd.RunE = r.a.withClient(func(ctx context.Context, c *client, args []string) error {
		if d.cron == "" {
			return usagef("--cron: missing: say when, as in --cron \"0 9 * * MON-FRI\"")
		}
		body, err := d.request(cmd)
		if err != nil {
			return err
		}
		tool, input, err := r.a.toolInput(&d.work, cmd, args)
		if err != nil {
			return err
		}
		enabled := !d.disabled
		body.Namespace, body.Tenant, body.Provider, body.Payload, body.Enabled = &r.scope.namespace, &r.scope.tenant, &tool, input, &enabled
		if input == nil {
			body.Payload = json.RawMessage("{}")
		}
		if body.ActionType == nil {
			body.ActionType = &tool // 002 wants one; tools that tell no types apart ignore it
		}
		var created wire.RecurringCreated
		raw, err := c.json(ctx, request{method: http.MethodPost, path: r.path, query: r.scope.query(), body: body}, &created)
		if err != nil {
			return err
		}
		next := timeText(created.NextExecution)
		if !created.Enabled {
			next = "none: it is disabled"
		}
		return r.a.print(raw, view{fields: [][2]string{
			{"id", created.RecurringID.String()}, {"cron", created.CronExpr}, {"in words", inWords(created.CronExpr, created.Timezone)}, {"next", next},
		}})
	})
	d.addFlags(cmd)
	cmd.Flags().BoolVar(&d.disabled, "disabled", false, "do not fire until it is resumed")
	return cmd
}

func (r *recurring) update() *cobra.Command {
	var d definition
	cmd := &cobra.Command{
		Use:   "update ID [flags] [-- COMMAND [ARG...]]",
		Short: "Change a recurring action; only what is given changes",
		Long: `Change a recurring action. Only what is given changes; a changed schedule counts
from now and never makes a past time due. An empty --ends-at, --dedup-key or
--description clears it.`,
		Example: "  orreryd recurring update ID --cron \"0 10 * * *\"\n  orreryd recurring update ID -- echo \"something else\"",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return oneID(cmd, args)
		},
		ValidArgsFunction: r.complete,
	}
	cmd.RunE = r.a.withClient(func(ctx context.Context, c *client, args []string) error {
		if err := r.keepPolicy(ctx, c, cmd, args[0], &d.work); err != nil {
			return err
		}
		body, err := d.request(cmd)
		if err != nil {
			return err
		}
		switch argv := args[1:]; {
		case len(argv) > 0 && cmd.Flags().Changed("input"):
			return usagef("give either --input or a command after --, not both")
		case len(argv) > 0:
			body.Payload, err = commandInput(argv)
		case cmd.Flags().Changed("input"):
			body.Payload, err = r.a.readJSON("input", d.input)
		}
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("tool") {
			body.Provider = &d.tool
		}
		fields, err := clearing(body)
		if err != nil {
			return err
		}
		if len(fields) == 0 {
			return usagef("say what to change, such as --cron \"0 10 * * *\"")
		}
		return r.send(ctx, c, request{method: http.MethodPut, path: r.of(args[0]), query: r.scope.query(), body: fields}, nil)
	})
	d.addFlags(cmd)
	return cmd
}

// keepPolicy fills in what is not given of the policy, which the API takes as a
// whole.
func (r *recurring) keepPolicy(ctx context.Context, c *client, cmd *cobra.Command, id string, w *work) error {
	given := cmd.Flags().Changed
	if !given("on-interrupt") && !given("max-attempts") && !given("timeout") {
		return nil
	}
	if given("on-interrupt") {
		if _, err := w.policy(cmd); err != nil {
			return err // without asking the daemon
		}
	}
	var ra core.RecurringAction
	if _, err := c.json(ctx, request{method: http.MethodGet, path: r.of(id), query: r.scope.query()}, &ra); err != nil {
		return err
	}
	if !given("on-interrupt") {
		w.onInterrupt = string(ra.Policy.OnInterrupt)
	}
	if !given("max-attempts") && w.onInterrupt == string(core.InterruptRetry) {
		w.maxAttempts = int(ra.Policy.MaxAttempts)
	}
	if !given("timeout") {
		w.timeout = ra.Policy.Timeout()
	}
	return nil
}

// clearing gives the fields of a PUT; an empty text clears what can be cleared.
func clearing(body recurringRequest) (map[string]json.RawMessage, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	for _, k := range []string{"ends_at", "dedup_key", "description"} {
		if string(fields[k]) == `""` {
			fields[k] = json.RawMessage("null")
		}
	}
	return fields, nil
}

func (r *recurring) list() *cobra.Command {
	return listing[wire.RecurringSummary]{
		short:   "List the recurring actions of a tenant, newest first",
		example: "  orreryd recurring list\n  orreryd recurring list --enabled=false\n  orreryd recurring list --namespace notifications --tenant tenant-1 --json",
		path:    r.path, field: "recurring_actions", scope: &r.scope, none: "no recurring actions of tenant %s in namespace %s",
		filters: []filter{switchedBy("enabled")},
		header:  []string{"ID", "STATE", "CRON", "ZONE", "TOOL", "NEXT (UTC)", "LAST (UTC)", "RUNS", "DESCRIPTION"},
		row: func(s wire.RecurringSummary) []string {
			state := "enabled"
			if !s.Enabled {
				state = "disabled"
			}
			return []string{
				s.ID.String(), state, text.Clip(s.CronExpr, 30), text.Clip(s.Timezone, 24), text.Clip(s.Provider, 20),
				shortTime(s.NextExecutionAt), shortTime(s.LastExecutedAt), number(s.ExecutionCount), cell(deref(s.Description), 40),
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
