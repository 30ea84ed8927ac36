package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/daemon"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) actionsCommand() *cobra.Command {
	m := a.actions()
	return withMore(a.addClientFlags(m.ids.addFlags(group("actions", "Add, list, show, cancel, trigger and retry actions",
		"An action is one piece of work that waits for its time, runs, and ends.",
		a.actionsAdd(m), a.addMany(), a.actionsList(), m.show("Show an action"), a.actionsLogs(m), a.actionsCancel(m), a.actionsTrigger(m), a.actionsRetry(m),
		history(m, "ACTION", "TOOK", "List what became of each time of an action that recurs, newest first", func(string, core.Occurrence) string { return "" }).command(a)))),
		a.actionsAll()...)
}

func (a *app) actions() machine[core.Action] {
	return machine[core.Action]{
		a: a, path: "/v1/actions", arg: "ID", args: oneID, view: actionView,
		id: func(ac core.Action) string { return ac.ID.String() }, ids: finder{path: "/v1/actions", field: "actions", what: "action"},
		complete: completing(a, "/v1/actions", "actions", nil, func(ac core.Action) (name, about string) {
			return ac.ID.String(), text.Clip(string(ac.Status.Type)+" "+ac.Label, 60)
		}),
	}
}

func (a *app) actionsCancel(m machine[core.Action]) *cobra.Command {
	return m.verb(verb{
		use: "cancel", path: "cancel", short: "Cancel an action that is pending or running",
		long:   "Without --mode a running action is cancelled at once, and its tool is asked to stop.",
		fields: []field{reasonField(), cancelModeField()},
	})
}

// cancelModeField is how a running action is cancelled.
func cancelModeField() field {
	f := textField("mode", "`how` a running one is cancelled: await (when its tool has ended) or kill (its tool gets no time to end by itself)")
	add := f.add
	f.add = func(cmd *cobra.Command) {
		add(cmd)
		fixed(cmd, "mode", []string{string(core.CancelAwait), string(core.CancelKill)})
	}
	return f
}

func (a *app) actionsRetry(m machine[core.Action]) *cobra.Command {
	return a.makingAgain(m, verb{
		use: "retry", path: "retry", short: "Make a new action of one that failed or was cancelled",
		long: `Make a new action of one that failed or was cancelled, due at once: with the same tool,
input, label, policy, metadata, labels and dedup key, and the same body and headers of a
webhook. Its metadata names the old one (_retry_of).`,
	})
}

// makingAgain is the command of a verb that makes a new action of an old one.
func (a *app) makingAgain(m machine[core.Action], v verb) *cobra.Command {
	var wait bool
	v.fields = []field{newIDField("new action"), boolField("once", "make one new action of it, however often: one that --once has made before is shown")}
	cmd := m.sending(v, func(ctx context.Context, c *client, r request, _ []string) error {
		return a.sendAction(ctx, c, r, wait)
	})
	cmd.Flags().BoolVar(&wait, "wait", false, waitUsage)
	return cmd
}

// when are the flags that say when an action fires.
type when struct {
	cmd       *cobra.Command
	at        string
	in, every time.Duration
	cron, tz  string
}

func (w *when) addFlags(cmd *cobra.Command) {
	w.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&w.at, "at", "", "fire at that `time`, in RFC 3339")
	f.DurationVar(&w.in, "in", 0, "fire after that `duration`, such as 30s")
	f.DurationVar(&w.every, "every", 0, "fire again after each `duration`, in whole seconds")
	f.StringVar(&w.cron, "cron", "", "fire at the times of a cron `expression` of 5, 6 or 7 fields")
	f.StringVar(&w.tz, "tz", "", "time `zone` of --cron, such as Europe/Berlin (default UTC)")
	completeZone(cmd)
}

// fields gives the trigger, if it is not now, and the recurrence, if there is one.
func (w *when) fields(a *app, now time.Time) (map[string]any, error) {
	given := w.cmd.Flags().Changed
	body := map[string]any{}
	var first effects.Time
	switch {
	case given("at") && given("in"):
		return nil, usagef("give either --at or --in, not both")
	case given("every") && given("cron"):
		return nil, usagef("give either --every or --cron, not both")
	case given("tz") && !given("cron"):
		return nil, usagef("--tz belongs to --cron; --at has its zone in the time itself")
	case given("at"):
		t, err := effects.ParseTime(w.at)
		if err != nil {
			return nil, usagef("--at: %w", err)
		}
		first = t
	case given("in"):
		if w.in < 0 {
			return nil, usagef("--in: %s is in the past", w.in)
		}
		first = effects.TimeOf(now).Add(w.in)
	}
	switch {
	case given("every"):
		if w.every < time.Second || w.every%time.Second != 0 {
			return nil, usagef("--every: %s is not a whole number of seconds, at least 1s", w.every)
		}
		body["recurrence"] = core.Every(w.every)
	case given("cron"):
		s, err := parseCron(w.cron, w.tz)
		if err != nil {
			return nil, err
		}
		a.warn(s.Warnings())
		body["recurrence"] = core.CronRecurrence(w.cron, cmp.Or(w.tz, "UTC"))
		if first.IsZero() { // an action without a time fires at once, a schedule at its next time
			next, ok := s.Next(effects.TimeOf(now))
			if !ok {
				return nil, usagef("--cron: %q never fires", w.cron)
			}
			first = next
		}
	}
	if !first.IsZero() {
		body["trigger"] = wire.TriggerRequest{Type: string(core.TriggerScheduled), NextTickAt: first}
	}
	return body, nil
}

func (a *app) actionsAdd(m machine[core.Action]) *cobra.Command {
	var w work
	var t when
	var s scoped
	var wait bool
	m.complete = nil
	tool := func(a *app, args []string) (any, error) {
		tool, input, err := w.toolInput(a, args)
		body := map[string]any{"tool_name": tool}
		if input != nil {
			body["tool_input"] = input
		}
		return body, err
	}
	due := field{add: t.addFlags, value: func(a *app, _ []string) (any, error) { return t.fields(a, time.Now()) }}
	cmd := m.sending(verb{
		use:   "add [flags] [-- COMMAND [ARG...]]",
		short: "Add an action, for now or for later",
		long: `Add an action. It fires now, or at the time that --at or --in says. With --every
it fires again and again, first now; with --cron at the times of the expression.

What follows -- is a command for the tool "command": the program and its
arguments, without a shell in between.

A run that fails is never repeated: the action is "failed", which is announced,
and you can add it again. --on-interrupt retry is about runs that a crash or a
stop of the daemon interrupts, and about nothing else.`,
		example: `  orreryd actions add -- echo hi
  orreryd actions add --wait --timeout 30s -- date -u
  orreryd actions add --in 30s --label "say hi" -- echo hi
  orreryd actions add --at 2030-01-31T09:00:00+01:00 -- echo "it is time"
  orreryd actions add --every 1h -- df -h /
  orreryd actions add --cron "0 9 * * MON-FRI" --tz Europe/Berlin -- echo morning
  orreryd actions add --tool http --input '{"method":"POST","url":"https://example.com/hook","body":{"n":1}}'`,
		args:   cobra.ArbitraryArgs,
		makes:  true,
		fields: append([]field{{value: tool}, due, newIDField("action"), labelField()}, w.fields()...),
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		r.fields["namespace"], r.fields["tenant"] = s.namespace, s.tenant
		return a.sendAction(ctx, c, r, wait)
	})
	cmd.Flags().BoolVar(&wait, "wait", false, waitUsage)
	return s.addFlags(a, cmd)
}

const waitUsage = "wait for its end, print what came of it, and end with 1 if it failed or was cancelled"

// sendAction sends a request that is answered with an action, and prints the action; or, if
// wait says so, how it has ended.
func (a *app) sendAction(ctx context.Context, c *client, r request, wait bool) error {
	var ac core.Action
	raw, err := c.json(ctx, r, &ac)
	switch {
	case err != nil:
		return err
	case wait:
		return a.waitAction(ctx, c, ac)
	}
	return a.print(raw, actionView(ac))
}

// pollFirst and pollMost are the pauses between two looks at an action.
const (
	pollFirst = 20 * time.Millisecond
	pollMost  = time.Second
)

// waitAction looks at an action until it has ended, or, if it recurs, until its present
// cycle has.
func (a *app) waitAction(ctx context.Context, c *client, before core.Action) error {
	for step := pollFirst; ; step = min(2*step, pollMost) {
		var now core.Action
		raw, err := c.json(ctx, request{method: http.MethodGet, path: a.actions().of(before.ID.String())}, &now)
		if err != nil {
			return err
		}
		if now.Status.Type.Terminal() || now.Cycle != before.Cycle {
			return a.printEnd(raw, now)
		}
		if pause(ctx, step) != nil {
			return fmt.Errorf("interrupted: action %s is %s and goes on", now.ID, now.Status.Type)
		}
	}
}

// printEnd prints how an action ended; a failure is one of this program too.
func (a *app) printEnd(raw json.RawMessage, ac core.Action) error {
	st := ac.Status
	if ac.LastRun != nil && !st.Type.Terminal() {
		st = ac.LastRun.Status
	}
	var failed error
	if st.Type != core.StatusCompleted {
		failed = fmt.Errorf("action %s %s: %s", ac.ID, st.Type, st.Reason)
	}
	if failed == nil || a.json {
		output := text.CleanLines(daemon.Summary(st.Result))
		if output == "" || output == "null" {
			output = "(no output)"
		}
		if err := a.printLine(raw, fmt.Sprintf("action %s %s\n%s", ac.ID, st.Type, output)); err != nil {
			return err
		}
	}
	return failed
}

func (a *app) actionsList() *cobra.Command {
	return listing[core.Action]{
		short:   "List actions, newest first",
		example: "  orreryd actions list\n  orreryd actions list --status failed --limit 20\n  orreryd actions list --label-kv team=web --json --all",
		path:    "/v1/actions", field: "actions", none: "no actions", timed: true, fails: true,
		filters: []filter{
			{
				flag: "status", usage: "only in that `status`: pending, running, completed, failed or cancelled",
				words: wordsOf(core.StatusPending, core.StatusRunning, core.StatusCompleted, core.StatusFailed, core.StatusCancelled),
			},
			{flag: "tool", usage: "only of that `tool`"},
			{flag: "webhook", boolean: true, usage: "only those that requests of webhooks have made"},
			{flag: "route", usage: "only those that requests of that webhook `route` have made"},
			labelled,
		},
		narrow: func(q url.Values) {
			q.Set("include", "result") // for the note
			if a.json {
				q.Set("include", "tool_input,result,raw_payload")
			}
		},
		name: func(ac core.Action) string { return ac.ID.String() },
		rows: showsScope(a.home(), []string{"ID", "STATUS:12", "TOOL:20", "LABEL:32", "DUE (UTC)", "STARTED (UTC)", "NOTE:48"}, func(ac core.Action) (scoped, []string) {
			return scoped{ac.Namespace, ac.Tenant}, []string{
				ac.ID.String(), string(ac.Status.Type), ac.ToolName, text.OrDash(ac.Label),
				shortTime(ac.Trigger.KeyTime()), shortTime(ac.StartedAt), text.OrDash(note(ac)),
			}
		}),
	}.command(a)
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

func (a *app) actionsTrigger(m machine[core.Action]) *cobra.Command {
	var wait bool
	cmd := m.sending(verb{use: "trigger", short: "Run a pending action now", path: "trigger"}, func(ctx context.Context, c *client, r request, _ []string) error {
		return a.sendAction(ctx, c, r, wait)
	})
	cmd.Flags().BoolVar(&wait, "wait", false, waitUsage)
	return cmd
}

func actionView(ac core.Action) view {
	recurrence, lastRun := note(core.Action{ActionSpec: core.ActionSpec{Recurrence: ac.Recurrence}}), ""
	if r := ac.LastRun; r != nil {
		lastRun = fmt.Sprintf("cycle %d %s at %s", r.Cycle, r.Status.Type, timeText(r.FinishedAt))
		if r.Status.Reason != "" {
			lastRun += ": " + r.Status.Reason
		}
	}
	fields := [][2]string{
		{"id", ac.ID.String()}, {"status", string(ac.Status.Type)}, {"reason", ac.Status.Reason}, {"label", ac.Label},
		{"scope", ac.Namespace + "/" + ac.Tenant}, {"tool", ac.ToolName}, {"type", ac.ActionType}, {"input", string(ac.ToolInput)},
		{"due", timeText(ac.Trigger.KeyTime())}, {"recurrence", recurrence}, {"policy", policyText(ac.Policy)},
		{"dedup key", ac.DedupKey}, {"labels", pairs(ac.Labels)}, {"metadata", pairs(ac.Metadata)},
		{"route", ac.Trigger.Route},
		{"created", timeText(ac.CreatedAt)}, {"started", timeText(ac.StartedAt)}, {"finished", timeText(ac.FinishedAt)},
		{"attempt", numberOr(ac.Attempt)}, {"next try", timeText(ac.RetryAt)}, {"being cancelled", ac.Cancelling},
		{"result", string(ac.Status.Result)}, // of a failed action, too
		{"last run", lastRun},
	}
	for _, t := range ac.Attempts {
		fields = append(fields, [2]string{fmt.Sprintf("attempt %d", t.Number), attemptText(t)})
	}
	return view{fields: fields}
}

// attemptText says in one line how an attempt went.
func attemptText(t core.Attempt) string {
	took := time.Duration(t.FinishedAt-t.StartedAt) * time.Millisecond
	text := fmt.Sprintf("%s at %s after %s", t.Cause, timeText(t.FinishedAt), took)
	if t.ExitCode != nil {
		text += fmt.Sprintf(", exit code %d", *t.ExitCode)
	}
	return text + ": " + t.Reason
}
