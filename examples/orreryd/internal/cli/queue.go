package cli

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// queue are the commands about queues, which belong to one tenant of one
// namespace.
type queue struct{ machine[wire.Queue] }

func (a *app) queueCommand() *cobra.Command {
	q := &queue{machine[wire.Queue]{a: a, path: "/v1/queues", arg: "NAME", args: oneQueue, scope: &scoped{}, view: queueView, id: func(v wire.Queue) string { return v.Name }}}
	q.complete = completing(a, q.path, "queues", q.scope, func(v wire.Queue) (name, about string) {
		return text.Clean(v.Name), fmt.Sprintf("%d ready", v.Items.Ready)
	})
	return a.addClientFlags(q.scope.addFlags(a, group("queue", "Declare queues, push items, take, complete and fail them",
		`A queue holds items until a worker has done them. Who takes an item holds it for the
visibility timeout: then, or when it fails, another one gets it, until it is done or
its attempts are used up.`,
		append(q.heldItems(), q.list(), q.show("Show a queue: its configuration, what is in it, what has happened"),
			q.declare(), q.push(), q.pushMany(), q.take(), q.items(), q.item(),
			q.reasoned("pause", "Stop takes from a queue; all else goes on"), q.post("resume", "resume", "Let takes from a queue go on"),
			q.redrive(), q.purge(),
			q.saying(verb{use: "delete", short: "Delete a queue that holds no item", method: http.MethodDelete}, func(args []string) string {
				return fmt.Sprintf("queue %s is deleted", text.Clean(args[0]))
			}))...)))
}

// oneQueue is the argument of most commands.
func oneQueue(cmd *cobra.Command, args []string) error {
	if err := oneArg("NAME")(cmd, args); err != nil {
		return err
	}
	return checkQueueName(args[0])
}

// checkQueueName refuses what has another meaning in a path.
func checkQueueName(name string) error {
	if name == "" || name == "." || name == ".." {
		return usagef("%q is not a name of a queue", name)
	}
	return nil
}

// queueState is whether items can be taken.
func queueState(v wire.Queue) string {
	if v.Paused {
		return "paused"
	}
	return "active"
}

// oldestReady is how long the ready item that waits longest has waited, to the second.
func oldestReady(v wire.Queue) string {
	if v.OldestReadyAt.IsZero() {
		return ""
	}
	return time.Duration(v.OldestReadySeconds * float64(time.Second)).Truncate(time.Second).String()
}

func (q *queue) list() *cobra.Command {
	return listing[wire.Queue]{
		short:   "List the queues of a tenant, newest first",
		example: "  orreryd queue list\n  orreryd queue list --paused --json",
		path:    q.path, field: "queues", scope: q.scope, none: "no queues of tenant %s in namespace %s",
		filters: []filter{switchedBy("paused")},
		name:    func(v wire.Queue) string { return v.Name },
		header:  []string{"NAME:40", "STATE", "READY", "WAITING", "DELAYED", "PROCESSING", "FAILED", "DEAD", "OLDEST"},
		row: func(v wire.Queue) []string {
			return []string{
				v.Name, queueState(v), number(v.Items.Ready), number(v.Items.Waiting), number(v.Items.Delayed),
				number(v.Items.Processing), number(v.Items.Failed), number(v.Items.Dead), text.OrDash(oldestReady(v)),
			}
		},
	}.command(q.a)
}

func queueView(v wire.Queue) view {
	c := v.Config
	retry := fmt.Sprintf("at most %d attempts", c.Retry.Attempts())
	if c.Retry.BackoffMS > 0 {
		retry += ", the second after " + milliseconds(c.Retry.BackoffMS)
	}
	i, t := v.Items, v.Totals
	return view{fields: [][2]string{
		{"name", v.Name}, {"scope", v.Namespace + "/" + v.Tenant}, {"state", queueState(v)}, {"paused by", v.PausedBy}, {"reason", v.Reason},
		{"created", timeText(v.CreatedAt)},
		{"visibility", millisecondsOr(c.VisibilityTimeoutMS)}, {"retry", retry}, {"no retry", strings.Join(c.Retry.NoRetry, ", ")},
		{"dead letters", c.DeadLetterQueue},
		{"concurrency", numberOr(c.Concurrency)}, {"of each key", numberOr(c.KeyConcurrency)},
		{"rate", rateText(c.Rate)}, {"rate of each key", rateText(c.KeyRate)},
		{"keeps completed", millisecondsOr(c.KeepCompletedMS)}, {"dedup window", millisecondsOr(c.DedupWindowMS)},
		{"items", fmt.Sprintf("%d ready, %d waiting, %d delayed, %d processing, %d failed, %d completed, %d dead", i.Ready, i.Waiting, i.Delayed, i.Processing, i.Failed, i.Completed, i.Dead)},
		{"oldest ready", oldestReady(v)},
		{"so far", fmt.Sprintf("%d pushed, %d taken, %d completed, %d failed, %d timed out, %d dead-lettered, %d cancelled, %d redriven", t.Pushed, t.Taken, t.Completed, t.Failed, t.TimedOut, t.DeadLettered, t.Cancelled, t.Redriven)},
	}}
}

func rateText(r core.QueueRate) string {
	if r.Limit == 0 {
		return ""
	}
	rate := fmt.Sprintf("%d in %s", r.Limit, milliseconds(r.PerMS))
	if r.Burst > 1 {
		rate += fmt.Sprintf(", %d at once", r.Burst)
	}
	return rate
}

// queueFields are the configuration of a queue; what is left out has its default.
func queueFields() []field {
	return []field{
		millisField("visibility", "how long a taken item is out of sight of others (default 30s)", anyDuration).as("visibility_timeout_ms"),
		nested("retry",
			amountField("max-attempts", "`number` of takes of an item at most (default 3)"),
			millisField("backoff", "wait before the second attempt; it doubles with each further one (default none)", anyDuration)),
		textField("dead-letters", "`queue` that gets the items that were given up (default: they stay)").as("dead_letter_queue"),
		amountField("concurrency", "`number` of items in flight at most (default any)"),
		amountField("key-concurrency", "`number` of items of each key in flight at most (default any)"),
		rateField("rate", "takes at most, `N/DURATION` such as 100/1s (default any)"),
		rateField("key-rate", "takes of each key at most, `N/DURATION`"),
		millisField("keep-completed", "how long completed items are kept (default not at all)", anyDuration),
		textField("config", "the whole configuration as in the API: `JSON`, @FILE, or - for stdin"), // read by q.config
		millisField("dedup-window", "how long a dedup key is held after its push (default while its item lives)", anyDuration),
	}
}

// amountField is a number of items or attempts; 0 has the default.
func amountField(flag, usage string) field {
	return flagField((*pflag.FlagSet).IntVar, flag, 0, usage, func(_ *app, n int) (any, error) {
		if n < 0 || int64(n) > math.MaxUint32 {
			return nil, usagef("--%s: %d is not a number in range", flag, n)
		}
		return n, nil
	})
}

func rateField(flag, usage string) field {
	return flagField((*pflag.FlagSet).StringVar, flag, "", usage, func(_ *app, v string) (any, error) { return parseRate(flag, v) })
}

// config is the configuration that fields make, or that of --config, which goes with no other flag of it.
func (q *queue) config(cmd *cobra.Command, fields []field) (any, error) {
	if !cmd.Flags().Changed("config") {
		return q.a.bodyOf(fields, nil)
	}
	for _, other := range []string{
		"visibility", "max-attempts", "backoff", "dead-letters", "concurrency", "key-concurrency", "rate", "key-rate",
		"keep-completed", "dedup-window",
	} {
		if cmd.Flags().Changed(other) {
			return nil, usagef("give either --config or --%s, not both", other)
		}
	}
	return q.a.needJSON("config", cmd.Flags().Lookup("config").Value.String())
}

// parseRate reads N/DURATION.
func parseRate(flag, v string) (core.QueueRate, error) {
	if v == "" {
		return core.QueueRate{}, nil
	}
	number, per, ok := strings.Cut(v, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if per == "s" || per == "m" || per == "h" {
		per = "1" + per
	}
	d, derr := time.ParseDuration(per)
	if !ok || err != nil || derr != nil || n == 0 || d < time.Millisecond {
		return core.QueueRate{}, usagef("--%s: %q is not N/DURATION such as 100/1s", flag, text.Clip(v, 40))
	}
	return core.QueueRate{Limit: uint32(n), PerMS: d.Milliseconds()}, nil
}

func (q *queue) declare() *cobra.Command {
	fields := queueFields()
	var cmd *cobra.Command
	cmd = q.verb(verb{
		use:   "declare",
		short: "Declare a queue, or replace its configuration",
		long: `Declare a queue, or replace the configuration of one: what is not given has its
default afterwards. A push to a queue that was not declared makes it with the
defaults.`,
		example: `  orreryd queue declare mail --visibility 1m --max-attempts 5 --backoff 10s --dead-letters mail-dead
  orreryd queue declare api-calls --rate 100/1s --key-concurrency 1
  orreryd queue declare mail --config '{"visibility_timeout_ms": 60000, "retry": {"max_attempts": 5, "no_retry": ["no such user"]}}'`,
		method: http.MethodPut,
		fields: fields,
		body:   func() (any, error) { return q.config(cmd, fields) },
	})
	return cmd
}

// moveAll repeats a request while the queue has more to move, up to limit items (0: all),
// and prints how many were moved.
func (q *queue) moveAll(ctx context.Context, c *client, r request, limit int, done string) error {
	var total core.QueueMoved
	for more := true; more; {
		r.fields["limit"] = core.MaxQueueBatch
		if limit > 0 {
			r.fields["limit"] = min(core.MaxQueueBatch, limit-int(total.Moved))
		}
		var m core.QueueMoved
		if _, err := c.json(ctx, r, &m); err != nil {
			return err
		}
		total.Moved += m.Moved
		total.More = m.More
		more = m.More && (limit == 0 || int(total.Moved) < limit)
	}
	line := counted(int(total.Moved), "item") + " " + done
	if total.More {
		line += "; there are more"
	}
	return q.a.show(total, line+"\n")
}

func (q *queue) redrive() *cobra.Command {
	var limit int
	cmd := q.sending(verb{
		use:   "redrive",
		short: "Give the dead items of a queue another chance",
		long: `Give dead items another chance, with no attempt counted. Those that died in this
queue are pending again; those that came to it as dead letters go back to the queue
that they came from.`,
		example: "  orreryd queue redrive mail-dead\n  orreryd queue redrive mail --limit 10",
		path:    "redrive",
		fields:  []field{idField("item", "only the item of that `id`")},
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		if r.fields["item"] != nil {
			limit = 1
		}
		return q.moveAll(ctx, c, r, limit, "redriven")
	})
	cmd.Flags().IntVar(&limit, "limit", 0, "`number` of items at most, oldest first (default all)")
	return cmd
}

// purgeable are the states that can be purged.
var purgeable = wordsOf(core.ItemPending, core.ItemFailed, core.ItemDead, core.ItemCompleted)

func (q *queue) purge() *cobra.Command {
	var limit int
	cmd := q.sending(verb{
		use:     "purge",
		short:   "Remove items from a queue: all that nobody holds, or by their state",
		example: "  orreryd queue purge mail\n  orreryd queue purge mail --state dead --state failed --reason \"wrong address\"",
		path:    "purge",
		fields: []field{reasonField(), flagField((*pflag.FlagSet).StringArrayVar, "state", nil,
			"only in that `state`: pending, failed, dead or completed; may be repeated", checkStates).as("states")},
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		return q.moveAll(ctx, c, r, limit, "removed")
	})
	cmd.Flags().IntVar(&limit, "limit", 0, "`number` of items at most (default all)")
	fixed(cmd, "state", purgeable)
	return cmd
}

func checkStates(_ *app, states []string) (any, error) {
	for _, s := range states {
		if err := checkOneOf("state", s, purgeable); err != nil {
			return nil, err
		}
	}
	return states, nil
}
