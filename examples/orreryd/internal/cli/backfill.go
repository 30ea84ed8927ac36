package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// backfills are the commands about backfills.
type backfills struct {
	machine[core.Backfill]
	scope scoped
}

func (a *app) backfillCommand() *cobra.Command {
	b := &backfills{}
	b.machine = machine[core.Backfill]{
		a: a, path: "/v1/backfills", arg: "ID", args: oneID, scope: &b.scope, view: backfillView,
		ids:   finder{path: "/v1/backfills", field: "backfills", scope: &b.scope, what: "backfill"},
		id:    func(m core.Backfill) string { return m.ID.String() },
		ended: func(m core.Backfill) bool { return m.Status.Ended() }, fails: backfillError,
	}
	b.complete = completing(a, b.path, "backfills", b.machine.scope, func(s wire.BackfillSummary) (name, about string) {
		return s.ID.String(), text.Clip(s.Name+" "+string(s.Status), 60)
	})
	cmd := b.create()
	cmd.AddCommand(b.list(), b.show("Show a backfill"),
		b.wait("Wait for a backfill's end, and end with 1 if a time did not succeed or it was cancelled"),
		b.reasoned("cancel", "Dispatch no more times; what is under way goes on"))
	return a.addClientFlags(cmd)
}

// create is the command backfill itself.
func (b *backfills) create() *cobra.Command {
	var dry, wait bool
	m := b.machine
	m.complete = nil
	cmd := m.sending(verb{
		use:   "backfill SCHEDULE --from TIME",
		short: "Dispatch the past times of a schedule that were not dispatched",
		long: `Dispatch the times of a schedule in a range that were not dispatched when they were
due: those that passed in an outage or a pause, and those from before it was made.
SCHEDULE is the id or the name of a recurring action, or the id of a job.

What was dispatched is left out, so the same range can be asked for again. The live
times of the schedule go on beside it, and the history keeps what it says of them.`,
		example: `  orreryd backfill nightly --from 2026-02-01T00:00:00Z --dry-run
  orreryd backfill nightly --from 2026-02-01T00:00:00Z --to 2026-02-08T00:00:00Z --max-active 2 --spacing 30s --wait`,
		args: scheduleArg, makes: true, fields: backfillFields(),
	}, func(ctx context.Context, c *client, r request, args []string) error {
		r.fields["namespace"], r.fields["tenant"] = b.scope.namespace, b.scope.tenant
		if err := b.byName(ctx, c, args, r.fields); err != nil {
			return err
		}
		switch {
		case dry:
			return b.plan(ctx, c, r)
		case !wait:
			return m.send(ctx, c, r, args)
		}
		var made core.Backfill
		if _, err := c.json(ctx, r, &made); err != nil {
			return err
		}
		text.Sayf(b.a.err, "backfill %s runs\n", made.ID)
		return m.awaitEnd(ctx, c, made.ID.String(), true)
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "tell which times would be dispatched, and start nothing")
	cmd.Flags().BoolVar(&wait, "wait", false, waitUsage)
	return b.scope.addFlags(b.a, cmd)
}

// plan shows what would be dispatched.
func (b *backfills) plan(ctx context.Context, c *client, r request) error {
	r.fields["dry_run"] = true
	var plan wire.BackfillPlan
	raw, err := c.json(ctx, r, &plan)
	if err != nil {
		return err
	}
	return b.a.print(raw, planView(plan))
}

func backfillFields() []field {
	return []field{
		{value: func(_ *app, args []string) (any, error) { return scheduleOf(args), nil }},
		textField("job", "`id` of the job whose times are meant, instead of SCHEDULE"),
		timeField("from", "the first `time` of the range, in RFC 3339").
			needed("say where the range begins, as in --from 2026-02-01T00:00:00Z"),
		timeField("to", "the `time` before which the range ends, in RFC 3339 (default now)"),
		flagField((*pflag.FlagSet).Uint32Var, "max-active", 1, "`number` of times that may be under way at once", between("max-active", 1, core.MaxBackfillActive)),
		secondsField("spacing", "least `duration` between two starts", 0),
		flagField((*pflag.FlagSet).Uint32Var, "limit", core.MaxBackfillTimes, "dispatch nothing if there are more than that `number` of times", between("limit", 1, core.MaxBackfillTimes)),
		boolField("include-forgotten", "dispatch also the times of which the history does not know any more whether they were dispatched"),
		reasonField(),
	}
}

// byName has the body name a recurring action where what it takes for a job is the name of one. What is both is refused.
func (b *backfills) byName(ctx context.Context, c *client, args []string, body map[string]any) error {
	if len(args) == 0 || body["recurring_id"] != nil || !core.IsGivenName(args[0]) {
		return nil
	}
	name := args[0]
	id, err := finder{path: "/v1/recurring", scope: &b.scope}.byName(ctx, c, name)
	if coded, ok := errors.AsType[*exitError](err); ok && coded.code == exitNotFound {
		return nil
	}
	if err != nil || id == "" {
		return err
	}
	_, err = c.json(ctx, request{method: http.MethodGet, path: "/v1/jobs/" + url.PathEscape(name), query: b.scope.query()}, nil)
	if err == nil {
		return usagef("%q is a recurring action and a job: give --job %s, or the id of the recurring action, %s", name, name, id)
	}
	delete(body, "job")
	body["recurring_id"] = id
	return nil
}

// scheduleArg wants either SCHEDULE or --job.
func scheduleArg(cmd *cobra.Command, args []string) error {
	switch job := cmd.Flag("job").Changed; {
	case job && cmd.Flag("job").Value.String() == "":
		return usagef("--job is empty: name a job, or give SCHEDULE")
	case job && len(args) == 0:
		return nil
	case job:
		return usagef("SCHEDULE and --job: give one of them, not %q beside --job", text.Clip(args[0], 60))
	}
	return oneArg("SCHEDULE")(cmd, args)
}

// scheduleOf names the schedule in the body.
func scheduleOf(args []string) map[string]any {
	switch {
	case len(args) == 0:
		return map[string]any{}
	case uuid.Validate(args[0]) == nil:
		return map[string]any{"recurring_id": args[0]}
	}
	return map[string]any{"job": args[0]}
}

func (b *backfills) list() *cobra.Command {
	return listing[wire.BackfillSummary]{
		timed: true,
		path:  b.path, field: "backfills", none: "no backfills", short: "List backfills, newest first",
		filters: []filter{byStatus(core.Statuses(core.KindBackfill)...), {flag: "schedule-id", param: "schedule", usage: "only of the recurring action with that `id`, or the job with that key", check: checkID}},
		name:    func(s wire.BackfillSummary) string { return s.ID.String() },
		header:  []string{"ID", "SCHEDULE:32", "STATUS", "TIMES", "RUNNING", "SUCCEEDED", "FAILED", "REFUSED", "CREATED (UTC)", "NOTE:48"},
		row: func(s wire.BackfillSummary) []string {
			return []string{
				s.ID.String(), text.OrDash(s.Name), string(s.Status), number(s.Total), number(s.Running),
				fmt.Sprint(s.Counts.Succeeded), fmt.Sprint(s.Counts.Failed), fmt.Sprint(s.Counts.Refused), shortTime(s.CreatedAt), text.OrDash(s.Held),
			}
		},
	}.command(b.a)
}

// backfillError is the failure of a backfill that has ended; nil if all of its times succeeded.
func backfillError(m core.Backfill) error {
	n := m.Counts.Failed + m.Counts.Cancelled + m.Counts.Refused
	switch {
	case m.Status == core.BackfillCancelled:
		return failed(m.ID, "backfill", "was cancelled", m.CancelReason)
	case n == 0 || len(m.Problems) == 0:
		return nil
	}
	last := m.Problems[len(m.Problems)-1]
	return failed(m.ID, "backfill", fmt.Sprintf("has %d of %d times that did not succeed", n, len(m.Times)),
		fmt.Sprintf("the last one is %s, %s: %s", timeText(last.At), last.Outcome, last.Reason))
}

func backfillView(m core.Backfill) view {
	n := m.Counts
	var running, problems [][]string
	for _, r := range m.Active {
		running = append(running, []string{timeText(r.At), shortTime(r.StartedAt)})
	}
	for _, p := range m.Problems {
		problems = append(problems, []string{timeText(p.At), string(p.Outcome), text.OrDash(p.Reason)})
	}
	return view{
		fields: append([][2]string{
			{"id", m.ID.String()}, {"schedule", strings.TrimSpace(m.Name + " (" + m.Schedule.String() + ")")}, {"scope", m.Namespace + "/" + m.Tenant},
			{"status", string(m.Status)}, {"reason", m.Reason}, {"cancelled", m.CancelReason}, {"held", m.Held},
			{"range", timeText(m.From) + " until " + timeText(m.To)}, {"times", number(len(m.Times))},
			{"succeeded", fmt.Sprint(n.Succeeded)}, {"failed", fmt.Sprint(n.Failed)}, {"cancelled", orEmpty(n.Cancelled, func(n uint64) string { return number(n) })},
			{"refused", fmt.Sprint(n.Refused)}, {"to come", number(uint64(len(m.Times)) - min(uint64(m.Next), uint64(len(m.Times))))},
		}, append(leftOut(m.AlreadyDispatched, m.Forgotten), [2]string{"created", timeText(m.CreatedAt)}, [2]string{"finished", timeText(m.FinishedAt)})...),
		tables: []table{{[]string{"RUNNING", "STARTED (UTC)"}, running}, {[]string{"DID NOT SUCCEED", "OUTCOME", "REASON:300"}, problems}},
	}
}

// planView shows what a backfill would dispatch.
func planView(p wire.BackfillPlan) view {
	var times [][]string
	for _, at := range p.Times {
		times = append(times, []string{timeText(at)})
	}
	return view{
		fields: append([][2]string{
			{"schedule", p.Name}, {"scope", p.Namespace + "/" + p.Tenant}, {"range", timeText(p.From) + " until " + timeText(p.To)},
			{"times", number(len(p.Times)) + ", of which none is dispatched in a dry run"},
		}, leftOut(p.AlreadyDispatched, p.Forgotten)...),
		tables: []table{{[]string{"TIME"}, times}},
	}
}

// leftOut says how many times of a range are left out, and why.
func leftOut(dispatched, forgotten uint64) [][2]string {
	count := func(n uint64) string { return number(n) }
	return [][2]string{
		{"dispatched before", orEmpty(dispatched, count)},
		{"forgotten", orEmpty(forgotten, func(n uint64) string {
			return number(n) + ": the history does not know any more whether they were dispatched"
		})},
	}
}
