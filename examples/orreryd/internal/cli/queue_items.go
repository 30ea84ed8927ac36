package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (q *queue) push() *cobra.Command {
	return q.sending(verb{
		use:   "push",
		short: "Push an item",
		long: `Push an item. Its data is any JSON. Where another item holds the dedup key, nothing
is pushed, and that item is shown.`,
		example: `  orreryd queue push mail --data '{"to": "ada@example.com"}'
  orreryd queue push mail --data @letter.json --priority 10 --dedup-key letter-7
  orreryd queue push reports --key customer-7 --delay 1h`,
		path: "items",
		fields: []field{
			flagField((*pflag.FlagSet).IntVar, "priority", 0, "`number`: the higher goes first", checkPriority),
			textField("key", "items with the same `key` share limits, and take part in the rotation as one"),
			textField("dedup-key", "`key` that only one item may have"),
			millisField("delay", "not before that `duration` from now", anyDuration),
			jsonField("data", "the item's data: `JSON`, @FILE, or - for stdin (default null)"),
		},
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		var pushed wire.Pushed
		raw, err := c.json(ctx, r, &pushed)
		if err != nil {
			return err
		}
		done := "is pushed"
		if pushed.Duplicate {
			done = "is there already"
		}
		return q.a.printLine(raw, fmt.Sprintf("item %s %s", pushed.Item.ID, done))
	})
}

func checkPriority(_ *app, n int) (any, error) {
	if n < math.MinInt32 || n > math.MaxInt32 {
		return nil, usagef("--priority: %d is not between %d and %d", n, math.MinInt32, math.MaxInt32)
	}
	return n, nil
}

// pollSeconds is how long one request waits for an item: less than what this
// program, a proxy and the daemon allow.
const pollSeconds = 50

func (q *queue) take() *cobra.Command {
	var wait time.Duration
	cmd := q.sending(verb{
		use:   "take",
		short: "Take items, to work on them",
		long: `Take items, and hold them for the visibility timeout. Say what came of each with
complete or fail, and extend it where the work takes longer: with the same holder, and
the attempt that is printed.

For scripts one line is printed for each item: its id, the attempt and its data as
JSON on one line, with tabs between. Nothing is printed if there is no item.`,
		example: `  orreryd queue take mail --holder "$HOSTNAME-$$" --wait 1m
  orreryd queue take mail --holder w1 --max 10 --visibility 5m --json`,
		path: "take",
		fields: []field{
			q.holder(), flagField((*pflag.FlagSet).IntVar, "max", 1, "`number` of items at most", asIs),
			millisField("visibility", "how long they are out of sight of others without a sign of life (default: the queue's)", notNegative),
		},
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		if err := notNegative(wait); err != nil {
			return err
		}
		end := time.Now().Add(wait)
		for {
			left := max(time.Until(end), 0)
			seconds := min(int64(math.Ceil(left.Seconds())), pollSeconds)
			r.fields["wait_seconds"] = seconds
			var taken wire.Taken
			raw, err := c.json(ctx, r, &taken)
			if err != nil {
				return err
			}
			if len(taken.Items) > 0 || time.Until(end) <= 0 {
				return q.printTaken(raw, taken.Items)
			}
		}
	})
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the first item (default not at all)")
	return cmd
}

func notNegative(d time.Duration) error {
	if d < 0 {
		return usagef("--wait and --visibility must not be negative")
	}
	return nil
}

// holder is who takes and holds.
func (q *queue) holder() field {
	return flagField((*pflag.FlagSet).StringVar, "holder", q.a.env("ORRERY_HOLDER"), "`name` of who takes and holds (default $ORRERY_HOLDER)",
		unlessZero).needed("give a name that no other worker has, such as \"$HOSTNAME-$$\", or set ORRERY_HOLDER")
}

func (q *queue) printTaken(raw json.RawMessage, items []core.QueueItem) error {
	var lines strings.Builder
	for _, i := range items {
		fmt.Fprintf(&lines, "%s\t%d\t%s\n", i.ID, i.Attempts, oneLineJSON(i.Data))
	}
	return q.a.show(raw, lines.String())
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

// heldItem is a command about an item that is held: a verb of an item, whose fields add to
// what every answer of a holder says. done is what is printed.
func (q *queue) heldItem(v verb, done string) *cobra.Command {
	v.path, v.args, v.whole = "items/{}/"+v.use, queueAndID, q.wholeItem
	v.use += " NAME ID"
	attempt := flagField((*pflag.FlagSet).IntVar, "attempt", 0, "`number` of the attempt, as take printed it", func(_ *app, n int) (any, error) {
		if n < 1 {
			return nil, usagef("--attempt is missing: give the one that take printed")
		}
		return n, nil
	})
	v.fields = append([]field{q.holder(), attempt}, v.fields...)
	return q.saying(v, itemIs(done))
}

// heldItems are the commands by which a holder says what has become of an item.
func (q *queue) heldItems() []*cobra.Command {
	return []*cobra.Command{
		q.heldItem(verb{
			use: "complete", short: "Say that an item is done",
			example: "  orreryd queue complete mail ID --holder w1 --attempt 1 --result '{\"sent\": true}'",
			fields:  []field{jsonField("result", "what came of it: `JSON`, @FILE, or - for stdin")},
		}, "is completed"),
		q.heldItem(verb{
			use: "fail", short: "Say that an attempt failed",
			long:    "Say that an attempt failed. The item is tried again after its back-off, or is dead where\nthis was its last attempt.",
			example: "  orreryd queue fail mail ID --holder w1 --attempt 1 --error \"no such user\" --permanent",
			fields:  []field{textField("error", "`text` that says why"), boolField("permanent", "make no further attempt")},
		}, "failed this time"),
		q.heldItem(verb{
			use: "extend", short: "Hold an item for longer, from now on",
			example: "  orreryd queue extend mail ID --holder w1 --attempt 1 --visibility 10m",
			fields:  []field{millisField("visibility", "for how long (default: the queue's visibility timeout)", anyDuration)},
		}, "is held for longer"),
		q.heldItem(verb{
			use: "release", short: "Give an item back untouched: the attempt does not count",
			example: "  orreryd queue release mail ID --holder w1 --attempt 1",
		}, "is given back"),
	}
}

// queueAndID are the arguments of commands about an item.
func queueAndID(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return usagef("want NAME and ID, as in: %s mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd", cmd.CommandPath())
	}
	if err := checkQueueName(args[0]); err != nil {
		return err
	}
	return checkIDOrPrefix(args[1])
}

func (q *queue) items() *cobra.Command {
	return listing[core.QueueItem]{
		inLine:  true,
		use:     "items NAME",
		short:   "List the items of a queue, by their state and in the order in which they are taken",
		example: "  orreryd queue items mail\n  orreryd queue items mail --state dead --json --all",
		args:    oneQueue, complete: q.complete,
		path: q.path, of: "items", field: "items", scope: q.scope, none: "no items",
		filters: []filter{{
			flag: "state", usage: "only in that `state`: pending (which is ready, waiting or delayed), processing, failed, completed or dead",
			words: []string{"pending", "ready", "waiting", "delayed", "processing", "failed", "completed", "dead"},
		}},
		narrow: func(q url.Values) { q.Set("include", "data,result") },
		name:   func(i core.QueueItem) string { return i.ID.String() },
		header: []string{"ID", "STATE", "PRIORITY", "ATTEMPTS", "KEY:20", "UNTIL (UTC)", "HOLDER:24", "DATA:40", "NOTE:40"},
		row: func(i core.QueueItem) []string {
			return []string{
				i.ID.String(), string(i.State.Type), strconv.Itoa(int(i.Priority)), number(i.Attempts), text.OrDash(i.Key),
				shortTime(i.State.Until), text.OrDash(i.State.Holder), oneLineJSON(i.Data), text.OrDash(itemNote(i)),
			}
		},
	}.command(q.a)
}

// itemNote says in short why an item stands as it does.
func itemNote(i core.QueueItem) string {
	return cmp.Or(i.State.Reason, i.State.Error, jsonOr(i.State.Result), i.LastError)
}

// wholeItem puts the whole id of an item in the place of its beginning.
func (q *queue) wholeItem(ctx context.Context, c *client, args []string) ([]string, error) {
	return finder{path: q.of(args[0], "items"), field: "items", scope: q.scope, what: "item"}.arg(1)(ctx, c, args)
}

// item are the commands about one item, whoever holds it.
func (q *queue) item() *cobra.Command {
	shows := q.a.addOutput(q.sending(verb{
		use: "show NAME ID", short: "Show an item: its data, its state, and why it is in it", args: queueAndID,
		example: "  orreryd queue item show mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
		method:  http.MethodGet, path: "items/{}", whole: q.wholeItem,
	}, func(ctx context.Context, c *client, r request, args []string) error {
		var i core.QueueItem
		raw, err := c.json(ctx, r, &i)
		if err != nil {
			return err
		}
		if q.a.form == formName {
			return q.a.printNames([]string{i.ID.String()})
		}
		return q.a.print(raw, itemView(args[0], i))
	}), formWide, formJSON, formName)
	removes := q.saying(verb{
		use: "remove NAME ID", short: "Remove an item that is pending, failed or dead", args: queueAndID,
		example: "  orreryd queue item remove mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
		method:  http.MethodDelete, path: "items/{}", whole: q.wholeItem,
	}, itemIs("is removed"))
	return group("item", "Show or remove one item of a queue",
		`Show or remove one item of a queue. Who holds an item speaks of it with complete, fail,
extend and release.`, shows, removes)
}

// itemIs says what was done with the item that the second argument names.
func itemIs(done string) func(args []string) string {
	return func(args []string) string { return fmt.Sprintf("item %s %s", args[1], done) }
}

func itemView(queue string, i core.QueueItem) view {
	s := i.State
	from := ""
	if i.Origin != nil {
		from = fmt.Sprintf("queue %s, item %s, dead at attempt %d: %s", i.Origin.Name, i.Origin.Item, i.Origin.Attempts, i.Origin.Error)
	}
	return view{fields: [][2]string{
		{"id", i.ID.String()}, {"queue", queue}, {"data", oneLineJSON(i.Data)},
		{"priority", fmt.Sprint(i.Priority)}, {"key", i.Key}, {"dedup key", i.DedupKey},
		{"state", string(s.Type)}, {"holder", s.Holder}, {"attempts", number(i.Attempts)},
		{"reason", s.Reason}, {"error", s.Error}, {"last error", lastError(i)}, {"result", jsonOr(s.Result)},
		{"created", timeText(i.CreatedAt)}, {"taken", timeText(s.TakenAt)}, {untilLabel(s.Type), timeText(s.Until)}, {"ended", timeText(s.At)},
		{"came from", from},
	}}
}

// lastError is why the attempt before failed; empty if the state says it already.
func lastError(i core.QueueItem) string {
	if i.LastError == i.State.Error || i.LastError == i.State.Reason {
		return ""
	}
	return i.LastError
}

// untilLabel says what an item's time means in its state.
func untilLabel(t core.ItemStateType) string {
	return cmp.Or(map[core.ItemStateType]string{
		core.ItemPending: "not before", core.ItemProcessing: "held until", core.ItemFailed: "tried again",
	}[t], "kept until")
}

// jsonOr shows a value on one line; empty for none.
func jsonOr(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	return oneLineJSON(v)
}
