package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// queueFlags are those of declare; a flag that is not given leaves its default.
type queueFlags struct {
	config                            string
	visibility, backoff, keep, dedup  time.Duration
	attempts, concurrency, keyRunning int
	deadLetters, rate, keyRate        string
}

func (f *queueFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "the whole configuration as in the API: `JSON`, @FILE, or - for stdin")
	fl.DurationVar(&f.visibility, "visibility", 0, "how long a taken item is out of sight of others (default 30s)")
	fl.IntVar(&f.attempts, "max-attempts", 0, "`number` of takes of an item at most (default 3)")
	fl.DurationVar(&f.backoff, "backoff", 0, "wait before the second attempt; it doubles with each further one (default none)")
	fl.StringVar(&f.deadLetters, "dead-letters", "", "`queue` that gets the items that were given up (default: they stay)")
	fl.IntVar(&f.concurrency, "concurrency", 0, "`number` of items in flight at most (default any)")
	fl.IntVar(&f.keyRunning, "key-concurrency", 0, "`number` of items of each key in flight at most (default any)")
	fl.StringVar(&f.rate, "rate", "", "takes at most, `N/DURATION` such as 100/1s (default any)")
	fl.StringVar(&f.keyRate, "key-rate", "", "takes of each key at most, `N/DURATION`")
	fl.DurationVar(&f.keep, "keep-completed", 0, "how long completed items are kept (default not at all)")
	fl.DurationVar(&f.dedup, "dedup-window", 0, "how long a dedup key is held after its push (default while its item lives)")
}

// body gives the configuration that the flags make.
func (f *queueFlags) body(a *app, cmd *cobra.Command) (any, error) {
	if cmd.Flags().Changed("config") {
		for _, other := range []string{"visibility", "max-attempts", "backoff", "dead-letters", "concurrency", "key-concurrency", "rate", "key-rate", "keep-completed", "dedup-window"} {
			if cmd.Flags().Changed(other) {
				return nil, usagef("give either --config or --%s, not both", other)
			}
		}
		b, err := a.readArgument("config", f.config)
		if err != nil {
			return nil, err
		}
		if !json.Valid(b) {
			return nil, usagef("--config: %q is not valid JSON", text.Clip(string(b), 60))
		}
		return json.RawMessage(b), nil
	}
	c := core.QueueConfig{
		VisibilityTimeoutMS: f.visibility.Milliseconds(), DeadLetterQueue: f.deadLetters,
		KeepCompletedMS: f.keep.Milliseconds(), DedupWindowMS: f.dedup.Milliseconds(),
	}
	c.Retry.BackoffMS = f.backoff.Milliseconds()
	var err error
	for _, n := range []struct {
		flag string
		from int
		to   *uint32
	}{
		{"max-attempts", f.attempts, &c.Retry.MaxAttempts},
		{"concurrency", f.concurrency, &c.Concurrency},
		{"key-concurrency", f.keyRunning, &c.KeyConcurrency},
	} {
		if n.from < 0 || int64(n.from) > math.MaxUint32 {
			return nil, usagef("--%s: %d is not a number in range", n.flag, n.from)
		}
		*n.to = uint32(n.from)
	}
	if c.Rate, err = parseRate("rate", f.rate); err != nil {
		return nil, err
	}
	c.KeyRate, err = parseRate("key-rate", f.keyRate)
	return c, err
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
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "declare NAME",
		Short: "Declare a queue, or replace its configuration",
		Long: `Declare a queue, or replace the configuration of one: what is not given has its
default afterwards. A push to a queue that was not declared makes it with the
defaults.`,
		Example: `  orreryd queue declare mail --visibility 1m --max-attempts 5 --backoff 10s --dead-letters mail-dead
  orreryd queue declare api-calls --rate 100/1s --key-concurrency 1
  orreryd queue declare mail --config '{"visibility_timeout_ms": 60000, "retry": {"max_attempts": 5, "no_retry": ["no such user"]}}'`,
		Args: oneQueue, ValidArgsFunction: q.completeName,
	}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, args []string) error {
		body, err := f.body(q.a, cmd)
		if err != nil {
			return err
		}
		var v queueView
		raw, err := c.json(ctx, request{method: http.MethodPut, path: queuePath(args[0]), query: q.scope(), body: body}, &v)
		return errorOr(err, func() error { return q.printQueue(raw, v) })
	})
	f.add(cmd)
	return cmd
}

// moved is the answer to redrive and purge.
type moved struct {
	Moved uint32 `json:"moved"`
	More  bool   `json:"more"`
}

// moveAll asks again while there is more, up to limit items; 0: all.
func (q *queue) moveAll(ctx context.Context, c *client, path string, limit int, body map[string]any) (total moved, err error) {
	const most = core.MaxQueueBatch
	for {
		batch := most
		if limit > 0 {
			batch = min(most, limit-int(total.Moved))
		}
		body["limit"] = batch
		var m moved
		if _, err := c.json(ctx, request{method: http.MethodPost, path: path, query: q.scope(), body: body}, &m); err != nil {
			return total, err
		}
		total.Moved += m.Moved
		total.More = m.More
		if !m.More || limit > 0 && int(total.Moved) >= limit {
			return total, nil
		}
	}
}

func (q *queue) printMoved(m moved, what string) error {
	if q.a.json {
		return q.a.printJSON(m)
	}
	text := fmt.Sprintf("%d items %s", m.Moved, what)
	if m.Moved == 1 {
		text = "1 item " + what
	}
	if m.More {
		text += "; there are more"
	}
	_, err := fmt.Fprintln(q.a.out, text)
	return err
}

func (q *queue) redrive() *cobra.Command {
	var limit int
	var item string
	cmd := &cobra.Command{
		Use:   "redrive NAME",
		Short: "Give the dead items of a queue another chance",
		Long: `Give dead items another chance, with no attempt counted. Those that died in this
queue are pending again; those that came to it as dead letters go back to the queue
that they came from.`,
		Example: "  orreryd queue redrive mail-dead\n  orreryd queue redrive mail --limit 10",
		Args:    oneQueue, ValidArgsFunction: q.completeName,
	}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, args []string) error {
		body := map[string]any{}
		if item != "" {
			if err := checkID(item); err != nil {
				return usagef("--item: %w", err)
			}
			body["item"] = item
			limit = 1
		}
		m, err := q.moveAll(ctx, c, queuePath(args[0], "redrive"), limit, body)
		return errorOr(err, func() error { return q.printMoved(m, "redriven") })
	})
	cmd.Flags().StringVar(&item, "item", "", "only the item of that `id`")
	cmd.Flags().IntVar(&limit, "limit", 0, "`number` of items at most, oldest first (default all)")
	return cmd
}

// purgeable are the states that can be purged.
var purgeable = []string{string(core.ItemPending), string(core.ItemFailed), string(core.ItemDead), string(core.ItemCompleted)}

func (q *queue) purge() *cobra.Command {
	var limit int
	var states []string
	var reason string
	cmd := &cobra.Command{
		Use:     "purge NAME",
		Short:   "Remove items from a queue: all that nobody holds, or by their state",
		Example: "  orreryd queue purge mail\n  orreryd queue purge mail --state dead --state failed --reason \"wrong address\"",
		Args:    oneQueue, ValidArgsFunction: q.completeName,
	}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, args []string) error {
		for _, s := range states {
			if err := checkOneOf("state", s, purgeable); err != nil {
				return err
			}
		}
		m, err := q.moveAll(ctx, c, queuePath(args[0], "purge"), limit, map[string]any{"states": states, "reason": reason})
		return errorOr(err, func() error { return q.printMoved(m, "removed") })
	})
	f := cmd.Flags()
	f.StringArrayVar(&states, "state", nil, "only in that `state`: pending, failed, dead or completed; may be repeated")
	f.IntVar(&limit, "limit", 0, "`number` of items at most (default all)")
	f.StringVar(&reason, "reason", "", "`text` that says why")
	fixed(cmd, "state", purgeable)
	return cmd
}
