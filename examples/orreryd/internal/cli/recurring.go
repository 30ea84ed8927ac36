package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// recurring are the commands about recurring actions, which belong to one
// tenant of one namespace.
type recurring struct {
	a                 *app
	namespace, tenant string
}

func (a *app) recurringCommand() *cobra.Command {
	r := &recurring{a: a}
	cmd := group("recurring", "Add, list, show, change, pause and delete recurring actions",
		"A recurring action makes an action at each time of its cron expression.",
		r.add(), r.list(), r.show(), r.update(), r.pause(), r.resume(), r.delete(), r.trigger(), r.history(), r.preview())
	a.addScopeFlags(cmd, &r.namespace, &r.tenant)
	return a.addClientFlags(cmd)
}

// scope gives the query that every request carries (002 section 4).
func (r *recurring) scope() url.Values {
	return url.Values{"namespace": {r.namespace}, "tenant": {r.tenant}}
}

func recurringPath(id string, more ...string) string {
	p, _ := url.JoinPath("/v1/recurring", append([]string{url.PathEscape(id)}, more...)...)
	return p
}

// recurringRequest is the body of POST and PUT /v1/recurring; a nil field is
// left out.
type recurringRequest struct {
	Namespace            *string           `json:"namespace,omitempty"`
	Tenant               *string           `json:"tenant,omitempty"`
	CronExpr             *string           `json:"cron_expr,omitempty"`
	Timezone             *string           `json:"timezone,omitempty"`
	Provider             *string           `json:"provider,omitempty"`
	ActionType           *string           `json:"action_type,omitempty"`
	Payload              json.RawMessage   `json:"payload,omitempty"`
	Metadata             map[string]string `json:"metadata,omitempty"`
	DedupKey             *string           `json:"dedup_key,omitempty"`
	Description          *string           `json:"description,omitempty"`
	Labels               map[string]string `json:"labels,omitempty"`
	EndsAt               *string           `json:"ends_at,omitempty"`
	Enabled              *bool             `json:"enabled,omitempty"`
	StartDeadlineSeconds *int64            `json:"start_deadline_seconds,omitempty"`
	Policy               *policy           `json:"policy,omitempty"`
}

// recurringCreated is the answer to POST /v1/recurring.
type recurringCreated struct {
	RecurringID   uuid.UUID    `json:"recurring_id"`
	NextExecution effects.Time `json:"next_execution"`
	CronExpr      string       `json:"cron_expr"`
	Timezone      string       `json:"timezone"`
	Enabled       bool         `json:"enabled"`
}

// recurringSummary is an entry of GET /v1/recurring.
type recurringSummary struct {
	ID              uuid.UUID    `json:"id"`
	CronExpr        string       `json:"cron_expr"`
	Timezone        string       `json:"timezone"`
	Enabled         bool         `json:"enabled"`
	Description     string       `json:"description"`
	Provider        string       `json:"provider"`
	ActionType      string       `json:"action_type"`
	NextExecutionAt effects.Time `json:"next_execution_at"`
	LastExecutedAt  effects.Time `json:"last_executed_at"`
	ExecutionCount  uint64       `json:"execution_count"`
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
	if body.Policy, err = d.policy(cmd); err != nil {
		return body, err
	}
	if body.Metadata, err = parsePairs("meta", d.meta); err != nil {
		return body, err
	}
	body.Labels, err = parsePairs("label-kv", d.labels)
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
		body.Namespace, body.Tenant, body.Provider, body.Payload, body.Enabled = &r.namespace, &r.tenant, &tool, input, &enabled
		if input == nil {
			body.Payload = json.RawMessage("{}")
		}
		if body.ActionType == nil {
			body.ActionType = &tool // 002 wants one; tools that tell no types apart ignore it
		}
		var created recurringCreated
		raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/recurring", query: r.scope(), body: body}, &created)
		if err != nil || r.a.json {
			return errorOr(err, func() error { return r.a.printJSON(raw) })
		}
		next := timeText(created.NextExecution)
		if !created.Enabled {
			next = "none: it is disabled"
		}
		return r.a.printFields([][2]string{
			{"id", created.RecurringID.String()}, {"cron", created.CronExpr}, {"in words", inWords(created.CronExpr, created.Timezone)}, {"next", next},
		})
	})
	d.addFlags(cmd)
	cmd.Flags().BoolVar(&d.disabled, "disabled", false, "do not fire until it is resumed")
	return cmd
}

func errorOr(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
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
			body.Payload, err = r.a.readArgument("input", d.input)
		}
		if err != nil {
			return err
		}
		if len(body.Payload) > 0 && !json.Valid(body.Payload) {
			return usagef("--input: %q is not valid JSON", text.Clip(string(body.Payload), 60))
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
		var ra core.RecurringAction
		raw, err := c.json(ctx, request{method: http.MethodPut, path: recurringPath(args[0]), query: r.scope(), body: fields}, &ra)
		return errorOr(err, func() error { return r.a.printRecurring(raw, ra) })
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
	if _, err := c.json(ctx, request{method: http.MethodGet, path: recurringPath(id), query: r.scope()}, &ra); err != nil {
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
	var enabled bool
	var limit int
	var token string
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the recurring actions of a tenant, newest first",
		Example: "  orreryd recurring list\n  orreryd recurring list --enabled=false\n  orreryd recurring list --namespace notifications --tenant tenant-1 --json",
		Args:    noArgs,
	}
	cmd.RunE = r.a.withClient(func(ctx context.Context, c *client, _ []string) error {
		q := r.scope()
		if cmd.Flags().Changed("enabled") {
			q.Set("enabled", strconv.FormatBool(enabled))
		}
		raws, list, next, err := pages[recurringSummary](ctx, c, "/v1/recurring", "recurring_actions", q, limit, token, all)
		if err != nil {
			return err
		}
		if r.a.json {
			return r.a.printJSON(map[string]any{"recurring_actions": raws, "next_page_token": next})
		}
		rows := make([][]string, 0, len(list))
		for _, s := range list {
			state := "enabled"
			if !s.Enabled {
				state = "disabled"
			}
			rows = append(rows, []string{
				s.ID.String(), state, text.Clip(s.CronExpr, 30), text.Clip(s.Timezone, 24), text.Clip(s.Provider, 20),
				shortTime(s.NextExecutionAt), shortTime(s.LastExecutedAt), strconv.FormatUint(s.ExecutionCount, 10), text.OrDash(text.Clip(s.Description, 40)),
			})
		}
		return r.a.printPage([]string{"ID", "STATE", "CRON", "ZONE", "TOOL", "NEXT (UTC)", "LAST (UTC)", "RUNS", "DESCRIPTION"},
			rows, fmt.Sprintf("no recurring actions of tenant %s in namespace %s", text.Clean(r.tenant), text.Clean(r.namespace)), next)
	})
	cmd.Flags().BoolVar(&enabled, "enabled", false, "only those that are enabled, or with --enabled=false only those that are not; both without the flag")
	addPageFlags(cmd, &limit, &token, &all)
	return cmd
}

func (r *recurring) show() *cobra.Command {
	return r.detail("show ID", "Show a recurring action", http.MethodGet, "")
}

func (r *recurring) trigger() *cobra.Command {
	return r.detail("trigger ID", "Make one occurrence now; the schedule stays as it is", http.MethodPost, "trigger")
}

// detail is a command about one recurring action that answers with it.
func (r *recurring) detail(use, short, method, verb string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: oneID, ValidArgsFunction: r.complete,
		RunE: r.a.withClient(func(ctx context.Context, c *client, args []string) error {
			path := recurringPath(args[0])
			if verb != "" {
				path = recurringPath(args[0], verb)
			}
			var ra core.RecurringAction
			raw, err := c.json(ctx, request{method: method, path: path, query: r.scope()}, &ra)
			return errorOr(err, func() error { return r.a.printRecurring(raw, ra) })
		}),
	}
}

func (r *recurring) pause() *cobra.Command {
	var reason string
	cmd := r.switched("pause ID", "Disable a recurring action until it is resumed", "pause", func() any {
		return map[string]string{"reason": reason}
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	return cmd
}

func (r *recurring) resume() *cobra.Command {
	return r.switched("resume ID", "Enable a recurring action, from its next time after now", "resume", nil)
}

func (r *recurring) switched(use, short, verb string, body func() any) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: oneID, ValidArgsFunction: r.complete,
		RunE: r.a.withClient(func(ctx context.Context, c *client, args []string) error {
			q := request{method: http.MethodPost, path: recurringPath(args[0], verb), query: r.scope()}
			if body != nil {
				q.body = body()
			}
			var s recurringSummary
			raw, err := c.json(ctx, q, &s)
			if err != nil {
				return err
			}
			if r.a.json {
				return r.a.printJSON(raw)
			}
			text := "disabled"
			if s.Enabled {
				text = "enabled, next at " + timeText(s.NextExecutionAt)
			}
			_, err = fmt.Fprintf(r.a.out, "recurring action %s is %s\n", s.ID, text)
			return err
		}),
	}
}

func (r *recurring) delete() *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete a recurring action; what it made goes on", Args: oneID, ValidArgsFunction: r.complete,
		RunE: r.a.withClient(func(ctx context.Context, c *client, args []string) error {
			_, err := c.json(ctx, request{method: http.MethodDelete, path: recurringPath(args[0]), query: r.scope()}, nil)
			if err != nil || r.a.json {
				return err
			}
			_, err = fmt.Fprintf(r.a.out, "recurring action %s is deleted\n", args[0])
			return err
		}),
	}
}
