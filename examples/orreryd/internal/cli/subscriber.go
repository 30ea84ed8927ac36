package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
)

const subscribersPath = "/v1/subscribers"

func (a *app) subscriberCommand() *cobra.Command {
	m := machine[core.Subscription]{a: a, path: subscribersPath, arg: "NAME", args: oneArg("NAME"), view: subscriberView, id: subscriberName}
	return a.addClientFlags(group("subscriber", "Declare, list and delete subscribers of the event bus",
		"A subscriber does something when an event is announced: it wakes a worker, pushes\nthe event, signals a pipeline or starts one. The bus is over all tenants: all of\nthis takes a token that is bound to nothing.",
		a.subscriberList(), m.show("Show a subscriber: which events it is told of, and what it does"), subscriberDeclare(m),
		m.verb(verb{use: "delete", short: "Delete a subscriber", method: http.MethodDelete})))
}

// subscribers asks for all of them, as they came and read.
func subscribers(ctx context.Context, c *client) (raws []json.RawMessage, list []core.Subscription, err error) {
	var page struct {
		Subscribers []json.RawMessage `json:"subscribers"`
	}
	if _, err := c.json(ctx, request{method: http.MethodGet, path: subscribersPath}, &page); err != nil {
		return nil, nil, err
	}
	list = make([]core.Subscription, len(page.Subscribers))
	for i, raw := range page.Subscribers {
		if err := json.Unmarshal(raw, &list[i]); err != nil {
			return nil, nil, fmt.Errorf("read the subscribers: %w", err)
		}
	}
	return page.Subscribers, list, nil
}

func (a *app) subscriberList() *cobra.Command {
	l := listing[core.Subscription]{
		none: "no subscribers", name: subscriberName, header: []string{"NAME:60", "EVENT:60", "DOES"},
		row: func(s core.Subscription) []string {
			return []string{s.Name, eventText(s.Match), reactionText(s.Do)}
		},
	}
	cmd := &cobra.Command{Use: "list", Short: "List all subscribers, in the order in which they are told", Args: noArgs}
	flags := a.addListFlags(cmd, formWide, formJSON, formName)
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		return flags.print(ctx, cmd, func(ctx context.Context) (answered, error) {
			raws, list, err := subscribers(ctx, c)
			out := l.answered(a, nil, raws, list, "")
			out.json = func() error { return a.printJSON(map[string]any{"subscribers": raws}) }
			return out, err
		})
	})
	return cmd
}

func subscriberName(s core.Subscription) string { return s.Name }

func subscriberDeclare(m machine[core.Subscription]) *cobra.Command {
	const missing = "say which events, and what is done then"
	return m.verb(verb{
		use: "declare NAME --match JSON --do JSON", short: "Declare a subscriber, or replace what was declared", method: http.MethodPut,
		example: `  orreryd subscriber declare wake-merger --match '{"category": "pipeline", "action": "phase", "data": {"phase": "merge"}}' --do '{"wake_worker": {"name": "merger"}}'
  orreryd subscriber declare failures --match '{"category": "pipeline", "action": "failed"}' --do '{"push": {"name": "failures"}}'`,
		fields: []field{
			jsonField("match", "which events: `JSON` with category, action, component, source_id and data; @FILE or - for stdin").needed(missing),
			jsonField("do", "`JSON` with one of wake_worker, push, signal and start_pipeline; @FILE or - for stdin").needed(missing),
		},
	})
}

func subscriberView(s core.Subscription) view {
	data := ""
	if len(s.Match.Data) > 0 {
		data = plain(s.Match.Data)
	}
	return view{fields: [][2]string{
		{"name", s.Name}, {"event", eventText(s.Match)}, {"component", s.Match.Component},
		{"source", idOr(s.Match.SourceID)}, {"data", data}, {"does", reactionText(s.Do)},
	}}
}

// eventText names the events that a subscriber is told of.
func eventText(m core.EventMatch) string { return m.Category + ":" + cmp.Or(m.Action, "*") }

// reactionText says what a subscriber does.
func reactionText(r core.Reaction) string {
	switch {
	case r.WakeWorker != nil:
		return "wake worker " + r.WakeWorker.Name
	case r.Push != nil:
		return "push to queue " + r.Push.Name
	case r.Signal != nil:
		return "signal " + r.Signal.Name + " to pipeline " + r.Signal.Pipeline.String()
	case r.StartPipeline != nil:
		return "start pipeline " + r.StartPipeline.Definition.Name
	}
	return "-"
}
