package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// queue are the commands about queues, which belong to one tenant of one
// namespace.
type queue struct {
	a                 *app
	namespace, tenant string
}

func (a *app) queueCommand() *cobra.Command {
	q := &queue{a: a}
	cmd := group("queue", "Declare queues, push items, take, complete and fail them",
		`A queue holds items until a worker has done them. Who takes an item holds it for the
visibility timeout: then, or when it fails, another one gets it, until it is done or
its attempts are used up.`,
		q.list(), q.show(), q.declare(), q.push(), q.take(), q.complete(), q.fail(), q.extend(), q.release(),
		q.items(), q.item(), q.pause(), q.resume(), q.redrive(), q.purge(), q.delete())
	a.addScopeFlags(cmd, &q.namespace, &q.tenant)
	return a.addClientFlags(cmd)
}

// scope gives the query that every request carries.
func (q *queue) scope() url.Values {
	return url.Values{"namespace": {q.namespace}, "tenant": {q.tenant}}
}

func queuePath(name string, more ...string) string {
	p, _ := url.JoinPath("/v1/queues", append([]string{url.PathEscape(name)}, more...)...)
	return p
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

// queueView is a queue as the API shows it.
type queueView struct {
	Namespace string           `json:"namespace"`
	Tenant    string           `json:"tenant"`
	Name      string           `json:"name"`
	Config    core.QueueConfig `json:"config"`
	CreatedAt effects.Time     `json:"created_at"`
	Paused    bool             `json:"paused"`
	PausedBy  string           `json:"paused_by"`
	Reason    string           `json:"reason"`
	Items     struct {
		Ready      uint64 `json:"ready"`
		Waiting    uint64 `json:"waiting"`
		Delayed    uint64 `json:"delayed"`
		Processing uint64 `json:"processing"`
		Failed     uint64 `json:"failed"`
		Completed  uint64 `json:"completed"`
		Dead       uint64 `json:"dead"`
	} `json:"items"`
	Totals struct {
		Pushed       uint64 `json:"pushed"`
		Taken        uint64 `json:"taken"`
		Completed    uint64 `json:"completed"`
		Failed       uint64 `json:"failed"`
		TimedOut     uint64 `json:"timed_out"`
		DeadLettered uint64 `json:"dead_lettered"`
		Cancelled    uint64 `json:"cancelled"`
		Redriven     uint64 `json:"redriven"`
	} `json:"totals"`
	OldestReadyAt      effects.Time `json:"oldest_ready_at"`
	OldestReadySeconds float64      `json:"oldest_ready_seconds"`
}

func (v queueView) state() string {
	if v.Paused {
		return "paused"
	}
	return "active"
}

// oldest is how long the ready item that waits longest has waited, to the
// second.
func (v queueView) oldest() string {
	if v.OldestReadyAt.IsZero() {
		return ""
	}
	return time.Duration(v.OldestReadySeconds * float64(time.Second)).Truncate(time.Second).String()
}

func (q *queue) list() *cobra.Command {
	var paused, all bool
	var limit int
	var token string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the queues of a tenant, newest first",
		Example: "  orreryd queue list\n  orreryd queue list --paused --json",
		Args:    noArgs,
	}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, _ []string) error {
		params := q.scope()
		if cmd.Flags().Changed("paused") {
			params.Set("paused", strconv.FormatBool(paused))
		}
		raws, list, next, err := pages[queueView](ctx, c, "/v1/queues", "queues", params, limit, token, all)
		if err != nil {
			return err
		}
		if q.a.json {
			return q.a.printJSON(map[string]any{"queues": raws, "next_page_token": next})
		}
		rows := make([][]string, 0, len(list))
		for _, v := range list {
			rows = append(rows, []string{
				text.Clip(v.Name, 40), v.state(), number(v.Items.Ready), number(v.Items.Waiting), number(v.Items.Delayed),
				number(v.Items.Processing), number(v.Items.Failed), number(v.Items.Dead), text.OrDash(v.oldest()),
			})
		}
		return q.a.printPage([]string{"NAME", "STATE", "READY", "WAITING", "DELAYED", "PROCESSING", "FAILED", "DEAD", "OLDEST"},
			rows, fmt.Sprintf("no queues of tenant %s in namespace %s", text.Clean(q.tenant), text.Clean(q.namespace)), next)
	})
	cmd.Flags().BoolVar(&paused, "paused", false, "only those that are paused, or with --paused=false only those that are not; both without the flag")
	addPageFlags(cmd, &limit, &token, &all)
	return cmd
}

func (q *queue) show() *cobra.Command {
	return q.aboutQueue("show NAME", "Show a queue: its configuration, what is in it, what has happened", http.MethodGet, "", nil)
}

func (q *queue) pause() *cobra.Command {
	var reason string
	cmd := q.aboutQueue("pause NAME", "Stop takes from a queue; all else goes on", http.MethodPost, "pause", func() any {
		return map[string]string{"reason": reason}
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	return cmd
}

func (q *queue) resume() *cobra.Command {
	return q.aboutQueue("resume NAME", "Let takes from a queue go on", http.MethodPost, "resume", nil)
}

// aboutQueue is a command about one queue that answers with it.
func (q *queue) aboutQueue(use, short, method, verb string, body func() any) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: oneQueue, ValidArgsFunction: q.completeName,
		RunE: q.a.withClient(func(ctx context.Context, c *client, args []string) error {
			r := request{method: method, path: queuePath(args[0]), query: q.scope()}
			if verb != "" {
				r.path = queuePath(args[0], verb)
			}
			if body != nil {
				r.body = body()
			}
			var v queueView
			raw, err := c.json(ctx, r, &v)
			return errorOr(err, func() error { return q.printQueue(raw, v) })
		}),
	}
}

func (q *queue) printQueue(raw json.RawMessage, v queueView) error {
	if q.a.json {
		return q.a.printJSON(raw)
	}
	c := v.Config
	retry := fmt.Sprintf("at most %d attempts", c.Retry.Attempts())
	if c.Retry.BackoffMS > 0 {
		retry += ", the second after " + milliseconds(c.Retry.BackoffMS)
	}
	i, t := v.Items, v.Totals
	return q.a.printFields([][2]string{
		{"name", v.Name}, {"scope", v.Namespace + "/" + v.Tenant}, {"state", v.state()}, {"paused by", v.PausedBy}, {"reason", v.Reason},
		{"created", timeText(v.CreatedAt)},
		{"visibility", milliseconds(c.VisibilityTimeoutMS)}, {"retry", retry}, {"no retry", strings.Join(c.Retry.NoRetry, ", ")},
		{"dead letters", c.DeadLetterQueue},
		{"concurrency", limited(c.Concurrency)}, {"of each key", limited(c.KeyConcurrency)},
		{"rate", rateText(c.Rate)}, {"rate of each key", rateText(c.KeyRate)},
		{"keeps completed", milliseconds(c.KeepCompletedMS)}, {"dedup window", milliseconds(c.DedupWindowMS)},
		{"items", fmt.Sprintf("%d ready, %d waiting, %d delayed, %d processing, %d failed, %d completed, %d dead", i.Ready, i.Waiting, i.Delayed, i.Processing, i.Failed, i.Completed, i.Dead)},
		{"oldest ready", v.oldest()},
		{"so far", fmt.Sprintf("%d pushed, %d taken, %d completed, %d failed, %d timed out, %d dead-lettered, %d cancelled, %d redriven", t.Pushed, t.Taken, t.Completed, t.Failed, t.TimedOut, t.DeadLettered, t.Cancelled, t.Redriven)},
	})
}

// milliseconds shows a time of the API; empty for none.
func milliseconds(n int64) string {
	if n == 0 {
		return ""
	}
	return (time.Duration(n) * time.Millisecond).String()
}

// limited shows a limit; empty where there is none.
func limited(n uint32) string {
	if n == 0 {
		return ""
	}
	return number(uint64(n))
}

func rateText(r core.QueueRate) string {
	if r.Limit == 0 {
		return ""
	}
	text := fmt.Sprintf("%d in %s", r.Limit, milliseconds(r.PerMS))
	if r.Burst > 1 {
		text += fmt.Sprintf(", %d at once", r.Burst)
	}
	return text
}

func (q *queue) delete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a queue that holds no item", Args: oneQueue, ValidArgsFunction: q.completeName,
		RunE: q.a.withClient(func(ctx context.Context, c *client, args []string) error {
			_, err := c.json(ctx, request{method: http.MethodDelete, path: queuePath(args[0]), query: q.scope()}, nil)
			if err != nil || q.a.json {
				return err
			}
			_, err = fmt.Fprintf(q.a.out, "queue %s is deleted\n", text.Clean(args[0]))
			return err
		}),
	}
}

// completeName offers the tenant's queues.
func (q *queue) completeName(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var page struct {
		Queues []queueView `json:"queues"`
	}
	params := q.scope()
	params.Set("limit", "50")
	q.a.complete(cmd, args, "/v1/queues", params, &page)
	var names []string
	for _, v := range page.Queues {
		names = append(names, fmt.Sprintf("%s\t%d ready", text.Clean(v.Name), v.Items.Ready))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
