package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// queue are the commands about queues, which belong to one tenant of one
// namespace.
type queue struct {
	a     *app
	scope scoped
	machine[wire.Queue]
}

func (a *app) queueCommand() *cobra.Command {
	q := &queue{a: a}
	const path = "/v1/queues"
	q.machine = machine[wire.Queue]{
		a: a, path: path, arg: "NAME", args: oneQueue, scope: &q.scope, view: queueView,
		complete: completing(a, path, "queues", &q.scope, func(v wire.Queue) (name, about string) {
			return text.Clean(v.Name), fmt.Sprintf("%d ready", v.Items.Ready)
		}),
	}
	return a.addClientFlags(q.scope.addFlags(a, group("queue", "Declare queues, push items, take, complete and fail them",
		`A queue holds items until a worker has done them. Who takes an item holds it for the
visibility timeout: then, or when it fails, another one gets it, until it is done or
its attempts are used up.`,
		append(q.heldItems(), q.list(), q.show("Show a queue: its configuration, what is in it, what has happened"), q.declare(), q.push(), q.take(),
			q.items(), q.item(),
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
		path:    q.path, field: "queues", scope: &q.scope, none: "no queues of tenant %s in namespace %s",
		filters: []filter{switchedBy("paused")},
		header:  []string{"NAME", "STATE", "READY", "WAITING", "DELAYED", "PROCESSING", "FAILED", "DEAD", "OLDEST"},
		row: func(v wire.Queue) []string {
			return []string{
				text.Clip(v.Name, 40), queueState(v), number(v.Items.Ready), number(v.Items.Waiting), number(v.Items.Delayed),
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
