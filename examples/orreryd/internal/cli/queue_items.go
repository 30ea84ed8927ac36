package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (q *queue) push() *cobra.Command {
	var data, key, dedupKey string
	var priority int
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "push NAME",
		Short: "Push an item",
		Long: `Push an item. Its data is any JSON. Where another item holds the dedup key, nothing
is pushed, and that item is shown.`,
		Example: `  orreryd queue push mail --data '{"to": "ada@example.com"}'
  orreryd queue push mail --data @letter.json --priority 10 --dedup-key letter-7
  orreryd queue push reports --key customer-7 --delay 1h`,
		Args: oneQueue, ValidArgsFunction: q.completeName,
	}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, args []string) error {
		b, err := q.a.jsonFlag("data", data)
		if err != nil {
			return err
		}
		if priority < math.MinInt32 || priority > math.MaxInt32 {
			return usagef("--priority: %d is not between %d and %d", priority, math.MinInt32, math.MaxInt32)
		}
		body := map[string]any{"priority": priority, "key": key, "dedup_key": dedupKey, "delay_ms": delay.Milliseconds()}
		if b != nil {
			body["data"] = b
		}
		var pushed struct {
			Duplicate bool           `json:"duplicate"`
			Item      core.QueueItem `json:"item"`
		}
		raw, err := c.json(ctx, request{method: http.MethodPost, path: queuePath(args[0], "items"), query: q.scope(), body: body}, &pushed)
		switch {
		case err != nil:
			return err
		case q.a.json:
			return q.a.printJSON(raw)
		case pushed.Duplicate:
			_, err = fmt.Fprintf(q.a.out, "item %s is there already\n", pushed.Item.ID)
		default:
			_, err = fmt.Fprintf(q.a.out, "item %s is pushed\n", pushed.Item.ID)
		}
		return err
	})
	f := cmd.Flags()
	f.StringVar(&data, "data", "", "the item's data: `JSON`, @FILE, or - for stdin (default null)")
	f.IntVar(&priority, "priority", 0, "`number`: the higher goes first")
	f.StringVar(&key, "key", "", "items with the same `key` share limits and turns")
	f.StringVar(&dedupKey, "dedup-key", "", "`key` that only one item may have")
	f.DurationVar(&delay, "delay", 0, "not before that `duration` from now")
	return cmd
}

// jsonFlag reads a flag whose value is JSON, @FILE or - for stdin; nil: not given.
func (a *app) jsonFlag(flag, v string) (json.RawMessage, error) {
	return a.readJSON(flag, v, "is not valid JSON")
}

// pollSeconds is how long one request waits for an item: less than what this
// program, a proxy and the daemon allow.
const pollSeconds = 50

func (q *queue) take() *cobra.Command {
	var holder string
	var most int
	var visibility, wait time.Duration
	cmd := &cobra.Command{
		Use:   "take NAME",
		Short: "Take items, to work on them",
		Long: `Take items, and hold them for the visibility timeout. Say what came of each with
complete or fail, and extend it where the work takes longer: with the same holder, and
the attempt that is printed.

For scripts one line is printed for each item: its id, the attempt and its data as
JSON on one line, with tabs between. Nothing is printed where there is no item.`,
		Example: `  orreryd queue take mail --holder "$HOSTNAME-$$" --wait 1m
  orreryd queue take mail --holder w1 --max 10 --visibility 5m --json`,
		Args: oneQueue, ValidArgsFunction: q.completeName,
	}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, args []string) error {
		if err := needHolder(holder); err != nil {
			return err
		}
		if wait < 0 || visibility < 0 {
			return usagef("--wait and --visibility must not be negative")
		}
		end := time.Now().Add(wait)
		for {
			left := max(time.Until(end), 0)
			seconds := min(int64(math.Ceil(left.Seconds())), pollSeconds)
			body := map[string]any{"holder": holder, "max": most, "visibility_ms": visibility.Milliseconds(), "wait_seconds": seconds}
			var taken struct {
				Items []core.QueueItem `json:"items"`
			}
			raw, err := c.json(ctx, request{method: http.MethodPost, path: queuePath(args[0], "take"), query: q.scope(), body: body}, &taken)
			if err != nil {
				return err
			}
			if len(taken.Items) > 0 || time.Until(end) <= 0 {
				return q.printTaken(raw, taken.Items)
			}
		}
	})
	f := cmd.Flags()
	q.addHolder(cmd, &holder)
	f.IntVar(&most, "max", 1, "`number` of items at most")
	f.DurationVar(&visibility, "visibility", 0, "how long they are out of sight of others without a sign of life (default: the queue's)")
	f.DurationVar(&wait, "wait", 0, "how long to wait for the first item (default not at all)")
	return cmd
}

func (q *queue) addHolder(cmd *cobra.Command, holder *string) {
	cmd.Flags().StringVar(holder, "holder", q.a.env("ORRERY_HOLDER"), "`name` of who takes and holds (default $ORRERY_HOLDER)")
}

func needHolder(holder string) error {
	if holder == "" {
		return usagef("--holder is missing: give a name that no other worker has, such as \"$HOSTNAME-$$\", or set ORRERY_HOLDER")
	}
	return nil
}

func (q *queue) printTaken(raw json.RawMessage, items []core.QueueItem) error {
	if q.a.json {
		return q.a.printJSON(raw)
	}
	for _, i := range items {
		if _, err := fmt.Fprintf(q.a.out, "%s\t%d\t%s\n", i.ID, i.Attempts, oneLineJSON(i.Data)); err != nil {
			return err
		}
	}
	return nil
}

// oneLineJSON gives a value on one line. What could steer a terminal is written
// as an escape of JSON, so that it stays the same value.
func oneLineJSON(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return "null"
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// held are the flags of whoever says something about an item that it holds.
type held struct {
	holder  string
	attempt int
}

// heldItem is a command about an item that is held. body adds to what every
// answer says; said is what is printed.
func (q *queue) heldItem(verb, short, long, example, said string, body func(map[string]any) error) *cobra.Command {
	var h held
	cmd := &cobra.Command{Use: verb + " NAME ID", Short: short, Long: long, Example: example, Args: queueAndID, ValidArgsFunction: q.completeName}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, args []string) error {
		if err := needHolder(h.holder); err != nil {
			return err
		}
		if h.attempt < 1 {
			return usagef("--attempt is missing: give the one that take printed")
		}
		b := map[string]any{"holder": h.holder, "attempt": h.attempt}
		if err := body(b); err != nil {
			return err
		}
		raw, err := c.json(ctx, request{method: http.MethodPost, path: queuePath(args[0], "items", args[1], verb), query: q.scope(), body: b}, nil)
		switch {
		case err != nil:
			return err
		case q.a.json && len(raw) > 0:
			return q.a.printJSON(raw)
		case q.a.json:
			return nil
		}
		_, err = fmt.Fprintf(q.a.out, "item %s %s\n", args[1], said)
		return err
	})
	q.addHolder(cmd, &h.holder)
	cmd.Flags().IntVar(&h.attempt, "attempt", 0, "`number` of the attempt, as take printed it")
	return cmd
}

// queueAndID are the arguments of commands about an item.
func queueAndID(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return usagef("want NAME and ID, as in: %s mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd", cmd.CommandPath())
	}
	if err := checkQueueName(args[0]); err != nil {
		return err
	}
	return checkID(args[1])
}

func (q *queue) complete() *cobra.Command {
	var result string
	cmd := q.heldItem("complete", "Say that an item is done", "", "  orreryd queue complete mail ID --holder w1 --attempt 1 --result '{\"sent\": true}'",
		"is completed", func(b map[string]any) error {
			r, err := q.a.jsonFlag("result", result)
			if r != nil {
				b["result"] = r
			}
			return err
		})
	cmd.Flags().StringVar(&result, "result", "", "what came of it: `JSON`, @FILE, or - for stdin")
	return cmd
}

func (q *queue) fail() *cobra.Command {
	var reason string
	var permanent bool
	cmd := q.heldItem("fail", "Say that an attempt failed", "Say that an attempt failed. The item is tried again after its back-off, or is dead where\nthis was its last attempt.",
		"  orreryd queue fail mail ID --holder w1 --attempt 1 --error \"no such user\" --permanent",
		"failed this time", func(b map[string]any) error {
			b["error"], b["permanent"] = reason, permanent
			return nil
		})
	cmd.Flags().StringVar(&reason, "error", "", "`text` that says why")
	cmd.Flags().BoolVar(&permanent, "permanent", false, "make no further attempt")
	return cmd
}

func (q *queue) extend() *cobra.Command {
	var visibility time.Duration
	cmd := q.heldItem("extend", "Hold an item for longer, from now on", "", "  orreryd queue extend mail ID --holder w1 --attempt 1 --visibility 10m",
		"is held for longer", func(b map[string]any) error {
			b["visibility_ms"] = visibility.Milliseconds()
			return nil
		})
	cmd.Flags().DurationVar(&visibility, "visibility", 0, "for how long (default: the queue's visibility timeout)")
	return cmd
}

func (q *queue) release() *cobra.Command {
	return q.heldItem("release", "Give an item back untouched: the attempt does not count", "", "  orreryd queue release mail ID --holder w1 --attempt 1",
		"is given back", func(map[string]any) error { return nil })
}

// itemStates are those that items takes.
var itemStates = []string{"pending", "ready", "waiting", "delayed", "processing", "failed", "completed", "dead"}

func (q *queue) items() *cobra.Command {
	var state, token string
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use:     "items NAME",
		Short:   "List the items of a queue, by their state and in the order of their turn",
		Example: "  orreryd queue items mail\n  orreryd queue items mail --state dead --json --all",
		Args:    oneQueue, ValidArgsFunction: q.completeName,
	}
	cmd.RunE = q.a.withClient(func(ctx context.Context, c *client, args []string) error {
		params := q.scope()
		if cmd.Flags().Changed("state") {
			if err := checkOneOf("state", state, itemStates); err != nil {
				return err
			}
			params.Set("state", state)
		}
		raws, list, next, err := pages[core.QueueItem](ctx, c, queuePath(args[0], "items"), "items", params, limit, token, all)
		if err != nil {
			return err
		}
		if q.a.json {
			return q.a.printJSON(map[string]any{"items": raws, "next_page_token": next})
		}
		rows := make([][]string, 0, len(list))
		for _, i := range list {
			rows = append(rows, []string{
				i.ID.String(), string(i.State.Type), strconv.Itoa(int(i.Priority)), strconv.FormatUint(uint64(i.Attempts), 10), text.OrDash(text.Clip(i.Key, 20)),
				shortTime(i.State.Until), text.OrDash(text.Clip(i.State.Holder, 24)), text.Clip(oneLineJSON(i.Data), 40), text.OrDash(text.Clip(itemNote(i), 40)),
			})
		}
		return q.a.printPage([]string{"ID", "STATE", "PRIORITY", "ATTEMPTS", "KEY", "UNTIL (UTC)", "HOLDER", "DATA", "NOTE"}, rows, "no items", next)
	})
	cmd.Flags().StringVar(&state, "state", "", "only in that `state`: pending (which is ready, waiting or delayed), processing, failed, completed or dead")
	addPageFlags(cmd, &limit, &token, &all)
	fixed(cmd, "state", itemStates)
	return cmd
}

// itemNote says in short why an item stands as it does.
func itemNote(i core.QueueItem) string {
	switch {
	case i.State.Reason != "":
		return i.State.Reason
	case i.State.Error != "":
		return i.State.Error
	case len(i.State.Result) > 0:
		return oneLineJSON(i.State.Result)
	}
	return i.LastError
}
