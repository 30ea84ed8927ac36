package cli

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		return a.needJSON("config", f.config)
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
		body:   func() (any, error) { return f.body(q.a, cmd) },
	})
	f.add(cmd)
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
	if q.a.json {
		return q.a.printJSON(total)
	}
	line := counted(int(total.Moved), "item") + " " + done
	if total.More {
		line += "; there are more"
	}
	return q.a.printLine(nil, line)
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
		fields: []field{reasonField(), fieldOf((*pflag.FlagSet).StringArrayVar, "state", nil,
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
