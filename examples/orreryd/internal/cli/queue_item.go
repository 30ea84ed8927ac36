package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
)

// item are the commands about one item, whoever holds it.
func (q *queue) item() *cobra.Command {
	shows := q.sending(verb{
		use: "show NAME ID", short: "Show an item: its data, its state, and why it is in it", args: queueAndID,
		example: "  orreryd queue item show mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
		method:  http.MethodGet, path: "items/{}",
	}, func(ctx context.Context, c *client, r request, args []string) error {
		var i core.QueueItem
		raw, err := c.json(ctx, r, &i)
		if err != nil {
			return err
		}
		return q.a.print(raw, itemView(args[0], i))
	})
	removes := q.saying(verb{
		use: "remove NAME ID", short: "Remove an item that is pending, failed or dead", args: queueAndID,
		example: "  orreryd queue item remove mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
		method:  http.MethodDelete, path: "items/{}",
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
	switch t {
	case core.ItemPending:
		return "not before"
	case core.ItemProcessing:
		return "held until"
	case core.ItemFailed:
		return "tried again"
	case core.ItemCompleted, core.ItemDead:
	}
	return "kept until"
}

// jsonOr shows a value on one line; empty for none.
func jsonOr(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	return oneLineJSON(v)
}
