package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/daemon"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) actionsCommand() *cobra.Command {
	return a.addClientFlags(group("actions", "Add, list, show, cancel and trigger actions",
		"An action is one piece of work that waits for its time, runs, and ends.",
		a.actionsAdd(), a.actionsList(), a.actionsShow(), a.actionsCancel(), a.actionsTrigger()))
}

// actionRequest is the body of POST /v1/actions.
type actionRequest struct {
	ID         string            `json:"id,omitempty"`
	Namespace  string            `json:"namespace"`
	Tenant     string            `json:"tenant"`
	Label      string            `json:"label,omitempty"`
	ToolName   string            `json:"tool_name"`
	ActionType string            `json:"action_type,omitempty"`
	ToolInput  json.RawMessage   `json:"tool_input,omitempty"`
	Trigger    *trigger          `json:"trigger,omitempty"`
	Recurrence any               `json:"recurrence,omitempty"`
	Policy     *policy           `json:"policy,omitempty"`
	DedupKey   string            `json:"dedup_key,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

type trigger struct {
	Type       string       `json:"type"`
	NextTickAt effects.Time `json:"next_tick_at"`
}

type cronRecurrence struct {
	Cron     string `json:"cron"`
	Timezone string `json:"timezone"`
}

// when are the flags that say when an action fires.
type when struct {
	at    string
	in    time.Duration
	every time.Duration
	cron  string
	tz    string
}

// resolve gives the trigger, nil for now, and the recurrence, nil for none.
func (w when) resolve(cmd *cobra.Command, now time.Time) (*trigger, any, error) {
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	var first effects.Time
	switch {
	case given("at") && given("in"):
		return nil, nil, usagef("give either --at or --in, not both")
	case given("every") && given("cron"):
		return nil, nil, usagef("give either --every or --cron, not both")
	case given("tz") && !given("cron"):
		return nil, nil, usagef("--tz belongs to --cron; --at has its zone in the time itself")
	case given("at"):
		t, err := effects.ParseTime(w.at)
		if err != nil {
			return nil, nil, usagef("--at: %w", err)
		}
		first = t
	case given("in"):
		if w.in < 0 {
			return nil, nil, usagef("--in: %s is in the past", w.in)
		}
		first = effects.TimeOf(now).Add(w.in)
	}
	var recurrence any
	switch {
	case given("every"):
		if w.every < time.Second || w.every%time.Second != 0 {
			return nil, nil, usagef("--every: %s is not a whole number of seconds, at least 1s", w.every)
		}
		recurrence = int64(w.every / time.Second)
	case given("cron"):
		s, err := parseCron(w.cron, w.tz)
		if err != nil {
			return nil, nil, err
		}
		recurrence = cronRecurrence{Cron: w.cron, Timezone: cmp.Or(w.tz, "UTC")}
		if first.IsZero() { // an action without a time fires at once, a schedule at its next time
			next, ok := s.Next(effects.TimeOf(now))
			if !ok {
				return nil, nil, usagef("--cron: %q never fires", w.cron)
			}
			first = next
		}
	}
	if first.IsZero() {
		return nil, recurrence, nil
	}
	return &trigger{Type: string(core.TriggerScheduled), NextTickAt: first}, recurrence, nil
}

func (a *app) actionsAdd() *cobra.Command {
	var w work
	var t when
	var id, label string
	var wait bool
	cmd := &cobra.Command{
		Use:   "add [flags] [-- COMMAND [ARG...]]",
		Short: "Add an action, for now or for later",
		Long: `Add an action. It fires now, or at the time that --at or --in says. With --every
it fires again and again, first now; with --cron at the times of the expression.

What follows -- is a command for the tool "command": the program and its
arguments, without a shell in between.

A run that fails is never repeated: the action is "failed", which is announced,
and you can add it again. --on-interrupt retry is about runs that a crash or a
stop of the daemon interrupts, and about nothing else.`,
		Example: `  orreryd actions add -- echo hi
  orreryd actions add --wait --timeout 30s -- date -u
  orreryd actions add --in 30s --label "say hi" -- echo hi
  orreryd actions add --at 2030-01-31T09:00:00+01:00 -- echo "it is time"
  orreryd actions add --every 1h -- df -h /
  orreryd actions add --cron "0 9 * * MON-FRI" --tz Europe/Berlin -- echo morning
  orreryd actions add --tool http --input '{"method":"POST","url":"https://example.com/hook","body":{"n":1}}'`,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		body := actionRequest{ID: id, Namespace: w.namespace, Tenant: w.tenant, Label: label, ActionType: w.actionType, DedupKey: w.dedupKey}
		var err error
		if body.ToolName, body.ToolInput, err = a.toolInput(&w, cmd, args); err != nil {
			return err
		}
		if body.Trigger, body.Recurrence, err = t.resolve(cmd, time.Now()); err != nil {
			return err
		}
		if id != "" {
			if err := checkID(id); err != nil {
				return usagef("--id: %w", err)
			}
		}
		if body.Policy, err = w.policy(cmd); err != nil {
			return err
		}
		if body.Metadata, err = parsePairs("meta", w.meta); err != nil {
			return err
		}
		if body.Labels, err = parsePairs("label-kv", w.labels); err != nil {
			return err
		}
		var added core.Action
		raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/actions", body: body}, &added)
		if err != nil {
			return err
		}
		if wait {
			return a.wait(ctx, c, added)
		}
		return a.printAction(raw, added)
	})
	a.addScopeFlags(cmd, &w.namespace, &w.tenant)
	w.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&id, "id", "", "`id` of the action, a UUID (default a fresh one)")
	f.StringVar(&label, "label", "", "`text` that says what it is")
	f.StringVar(&t.at, "at", "", "fire at that `time`, in RFC 3339")
	f.DurationVar(&t.in, "in", 0, "fire after that `duration`, such as 30s")
	f.DurationVar(&t.every, "every", 0, "fire again after each `duration`, in whole seconds")
	f.StringVar(&t.cron, "cron", "", "fire at the times of a cron `expression` of 5, 6 or 7 fields")
	f.StringVar(&t.tz, "tz", "", "time `zone` of --cron, such as Europe/Berlin (default UTC)")
	f.BoolVar(&wait, "wait", false, waitUsage)
	completeZone(cmd)
	return cmd
}

const waitUsage = "wait for its end, print what came of it, and end with 1 if it failed or was cancelled"

// pollFirst and pollMost are the pauses between two looks at an action.
const (
	pollFirst = 20 * time.Millisecond
	pollMost  = time.Second
)

// wait looks at an action until it has ended, or, where it recurs, until its
// present cycle has.
func (a *app) wait(ctx context.Context, c *client, before core.Action) error {
	pause := pollFirst
	for {
		var now core.Action
		raw, err := c.json(ctx, request{method: http.MethodGet, path: actionPath(before.ID.String())}, &now)
		if err != nil {
			return err
		}
		if now.Status.Type.Terminal() || now.Cycle != before.Cycle {
			return a.printEnd(raw, now)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("interrupted: action %s is %s and goes on", now.ID, now.Status.Type)
		case <-timer.C:
		}
		pause = min(2*pause, pollMost)
	}
}

// printEnd prints how an action ended; a failure is one of this program too.
func (a *app) printEnd(raw json.RawMessage, ac core.Action) error {
	st := ac.Status
	if ac.LastRun != nil && !st.Type.Terminal() {
		st = ac.LastRun.Status
	}
	var err error
	if st.Type != core.StatusCompleted {
		err = fmt.Errorf("action %s %s: %s", ac.ID, st.Type, st.Reason)
	}
	if a.json {
		if perr := a.printJSON(raw); perr != nil {
			return perr
		}
		return err
	}
	if err == nil {
		text := text.CleanLines(daemon.Summary(st.Result))
		if text == "" || text == "null" {
			text = "(no output)"
		}
		_, err = fmt.Fprintf(a.out, "action %s %s\n%s\n", ac.ID, st.Type, text)
	}
	return err
}

func actionPath(id string, more ...string) string {
	p, _ := url.JoinPath("/v1/actions", append([]string{url.PathEscape(id)}, more...)...)
	return p
}

func (a *app) actionsList() *cobra.Command {
	var namespace, tenant, status, tool, token string
	var labels []string
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List actions, newest first",
		Example: "  orreryd actions list\n  orreryd actions list --status failed --limit 20\n  orreryd actions list --label-kv team=web --json --all",
		Args:    noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		q := url.Values{}
		for _, f := range []string{"namespace", "tenant", "status", "tool"} {
			if cmd.Flags().Changed(f) {
				q.Set(f, cmd.Flags().Lookup(f).Value.String())
			}
		}
		if cmd.Flags().Changed("status") {
			if err := checkOneOf("status", status, statuses); err != nil {
				return err
			}
		}
		if _, err := parsePairs("label-kv", labels); err != nil {
			return err
		}
		q["label"] = labels
		raws, list, next, err := pages[core.Action](ctx, c, "/v1/actions", "actions", q, limit, token, all)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]any{"actions": raws, "next_page_token": next})
		}
		rows := make([][]string, 0, len(list))
		for _, ac := range list {
			rows = append(rows, []string{
				ac.ID.String(), text.Clip(string(ac.Status.Type), 12), text.Clip(ac.ToolName, 20), text.OrDash(text.Clip(ac.Label, 32)),
				shortTime(ac.Trigger.KeyTime()), shortTime(ac.StartedAt), text.OrDash(text.Clip(note(ac), 48)),
			})
		}
		return a.printPage([]string{"ID", "STATUS", "TOOL", "LABEL", "DUE (UTC)", "STARTED (UTC)", "NOTE"}, rows, "no actions", next)
	})
	f := cmd.Flags()
	f.StringVar(&namespace, "namespace", "", "only of that `namespace`")
	f.StringVar(&tenant, "tenant", "", "only of that `tenant`")
	f.StringVar(&status, "status", "", "only in that `status`: pending, running, completed, failed or cancelled")
	f.StringVar(&tool, "tool", "", "only of that `tool`")
	f.StringArrayVar(&labels, "label-kv", nil, "only with that label `KEY=VALUE`; may be repeated")
	addPageFlags(cmd, &limit, &token, &all)
	fixed(cmd, "status", statuses)
	return cmd
}

var statuses = []string{
	string(core.StatusPending), string(core.StatusRunning), string(core.StatusCompleted), string(core.StatusFailed), string(core.StatusCancelled),
}

// note says in short why an action stands as it does.
func note(a core.Action) string {
	switch {
	case a.Status.Reason != "":
		return a.Status.Reason
	case a.Status.Type == core.StatusCompleted:
		return daemon.Summary(a.Status.Result)
	case a.Recurrence.Period > 0:
		return "every " + a.Recurrence.Period.String()
	case a.Recurrence.Cron != "":
		return a.Recurrence.Cron + " " + a.Recurrence.Timezone
	}
	return ""
}

func (a *app) actionsShow() *cobra.Command {
	return a.actionCommand("show ID", "Show an action", http.MethodGet, "", nil)
}

func (a *app) actionsCancel() *cobra.Command {
	var reason string
	cmd := a.actionCommand("cancel ID", "Cancel an action that is pending or running", http.MethodPost, "cancel",
		func() any { return map[string]string{"reason": reason} })
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	return cmd
}

func (a *app) actionsTrigger() *cobra.Command {
	var wait bool
	cmd := a.actionCommand("trigger ID", "Run a pending action now", http.MethodPost, "trigger", nil)
	plain := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !wait {
			return plain(cmd, args)
		}
		return a.withClient(func(ctx context.Context, c *client, args []string) error {
			var ac core.Action
			if _, err := c.json(ctx, request{method: http.MethodPost, path: actionPath(args[0], "trigger")}, &ac); err != nil {
				return err
			}
			return a.wait(ctx, c, ac)
		})(cmd, args)
	}
	cmd.Flags().BoolVar(&wait, "wait", false, waitUsage)
	return cmd
}

// actionCommand is a command about one action that answers with the action.
func (a *app) actionCommand(use, short, method, verb string, body func() any) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: oneID,
		ValidArgsFunction: a.completeActions,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			r := request{method: method, path: actionPath(args[0])}
			if verb != "" {
				r.path = actionPath(args[0], verb)
			}
			if body != nil {
				r.body = body()
			}
			var ac core.Action
			raw, err := c.json(ctx, r, &ac)
			if err != nil {
				return err
			}
			return a.printAction(raw, ac)
		}),
	}
}

func (a *app) printAction(raw json.RawMessage, ac core.Action) error {
	if a.json {
		return a.printJSON(raw)
	}
	recurrence := ""
	if !ac.Recurrence.IsZero() {
		recurrence = note(core.Action{ActionSpec: core.ActionSpec{Recurrence: ac.Recurrence}})
	}
	fields := [][2]string{
		{"id", ac.ID.String()}, {"status", string(ac.Status.Type)}, {"reason", ac.Status.Reason}, {"label", ac.Label},
		{"scope", ac.Namespace + "/" + ac.Tenant}, {"tool", ac.ToolName}, {"type", ac.ActionType}, {"input", string(ac.ToolInput)},
		{"due", timeText(ac.Trigger.KeyTime())}, {"recurrence", recurrence}, {"policy", policyText(ac.Policy)},
		{"dedup key", ac.DedupKey}, {"labels", pairs(ac.Labels)}, {"metadata", pairs(ac.Metadata)},
		{"route", ac.Trigger.Route},
		{"created", timeText(ac.CreatedAt)}, {"started", timeText(ac.StartedAt)}, {"finished", timeText(ac.FinishedAt)},
	}
	if ac.Attempt > 0 {
		fields = append(fields, [2]string{"attempt", strconv.FormatUint(uint64(ac.Attempt), 10)})
	}
	if len(ac.Status.Result) > 0 { // of a failed action, too
		fields = append(fields, [2]string{"result", string(ac.Status.Result)})
	}
	if r := ac.LastRun; r != nil {
		text := fmt.Sprintf("cycle %d %s at %s", r.Cycle, r.Status.Type, timeText(r.FinishedAt))
		if r.Status.Reason != "" {
			text += ": " + r.Status.Reason
		}
		fields = append(fields, [2]string{"last run", text})
	}
	return a.printFields(fields)
}
