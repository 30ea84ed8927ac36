package cli

import (
	"cmp"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

const subscribersPath = "/v1/subscribers"

func (a *app) subscriberCommand() *cobra.Command {
	var s scoped
	m := machine[wire.Subscriber]{a: a, path: subscribersPath, arg: "NAME", args: oneArg("NAME"), scope: &s, view: subscriberView, id: subscriberName}
	return a.addClientFlags(group("subscriber", "Declare, list and delete subscribers of the event bus",
		"A subscriber does something when an event is announced: it wakes a worker, pushes\nthe event, signals a pipeline or starts one. It hears the events of its tenant and\nacts there; each tenant has a bus of its own.",
		a.withScope(&s, a.subscriberList(), m.show("Show a subscriber: which events it is told of, and what it does"), subscriberDeclare(m),
			m.verb(verb{use: "delete", short: "Delete a subscriber", method: http.MethodDelete}))...))
}

func (a *app) subscriberList() *cobra.Command {
	return listing[wire.Subscriber]{
		path: subscribersPath, field: "subscribers", none: "no subscribers", short: "List subscribers: those of one tenant together, in the order in which they are told",
		name: subscriberName, header: []string{"NAME:60", "SCOPE:40", "EVENT:60", "DOES"},
		row: func(s wire.Subscriber) []string {
			return []string{s.Name, s.Namespace + "/" + s.Tenant, eventText(s.Match), reactionText(s.Do)}
		},
	}.command(a)
}

func subscriberName(s wire.Subscriber) string { return s.Name }

func subscriberDeclare(m machine[wire.Subscriber]) *cobra.Command {
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

func subscriberView(s wire.Subscriber) view {
	data := ""
	if len(s.Match.Data) > 0 {
		data = plain(s.Match.Data)
	}
	return view{fields: [][2]string{
		{"name", s.Name}, {"scope", s.Namespace + "/" + s.Tenant}, {"event", eventText(s.Match)}, {"component", s.Match.Component},
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
