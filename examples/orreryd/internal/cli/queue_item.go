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
	return group("item", "Show or remove one item of a queue",
		`Show or remove one item of a queue. Who holds an item speaks of it with complete, fail,
extend and release.`, q.itemShow(), q.itemRemove())
}

func (q *queue) itemShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME ID",
		Short:   "Show an item: its data, its state, and why it is in it",
		Example: "  orreryd queue item show mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
		Args:    queueAndID, ValidArgsFunction: q.completeName,
		RunE: q.a.withClient(func(ctx context.Context, c *client, args []string) error {
			var i core.QueueItem
			raw, err := c.json(ctx, request{method: http.MethodGet, path: queuePath(args[0], "items", args[1]), query: q.scope()}, &i)
			return errorOr(err, func() error { return q.printItem(raw, args[0], i) })
		}),
	}
}

func (q *queue) printItem(raw json.RawMessage, name string, i core.QueueItem) error {
	if q.a.json {
		return q.a.printJSON(raw)
	}
	s := i.State
	from := ""
	if i.Origin != nil {
		from = fmt.Sprintf("queue %s, item %s, dead at attempt %d: %s", i.Origin.Name, i.Origin.Item, i.Origin.Attempts, i.Origin.Error)
	}
	return q.a.printFields([][2]string{
		{"id", i.ID.String()}, {"queue", name}, {"data", oneLineJSON(i.Data)},
		{"priority", fmt.Sprint(i.Priority)}, {"key", i.Key}, {"dedup key", i.DedupKey},
		{"state", string(s.Type)}, {"holder", s.Holder}, {"attempts", attempts(i.Attempts)},
		{"reason", s.Reason}, {"error", s.Error}, {"last error", lastError(i)}, {"result", jsonOr(s.Result)},
		{"created", timeText(i.CreatedAt)}, {"taken", timeText(s.TakenAt)}, {untilLabel(s.Type), timeText(s.Until)}, {"ended", timeText(s.At)},
		{"came from", from},
	})
}

// lastError is why the attempt before failed, where the state does not say it.
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

// jsonOr shows a value on one line; empty where there is none.
func jsonOr(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	return oneLineJSON(v)
}

func (q *queue) itemRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME ID",
		Short:   "Remove an item that is pending, failed or dead",
		Example: "  orreryd queue item remove mail 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
		Args:    queueAndID, ValidArgsFunction: q.completeName,
		RunE: q.a.withClient(func(ctx context.Context, c *client, args []string) error {
			_, err := c.json(ctx, request{method: http.MethodDelete, path: queuePath(args[0], "items", args[1]), query: q.scope()}, nil)
			if err != nil || q.a.json {
				return err
			}
			_, err = fmt.Fprintf(q.a.out, "item %s is removed\n", args[1])
			return err
		}),
	}
}
