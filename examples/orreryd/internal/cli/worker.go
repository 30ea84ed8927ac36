package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
)

func (a *app) workerCommand() *cobra.Command {
	var s scoped
	m := machine[core.Worker]{a: a, path: "/v1/workers", arg: "NAME", args: oneArg("NAME"), scope: &s, view: workerView, id: func(w core.Worker) string { return w.Name }}
	return a.addClientFlags(group("worker", "Declare, watch and pause workers",
		"A worker takes items of a queue and does something for each, inside the daemon.",
		a.withScope(&s, a.workerList(), m.show("Show a worker and what it has in hand"), workerDeclare(m),
			m.post("pause", "pause", "Let a worker take no more items"), m.post("resume", "resume", "End a worker's pause"),
			m.post("wake", "wake", "Let a worker look for work now"), workerDelete(m))...))
}

func (a *app) workerList() *cobra.Command {
	return listing[core.Worker]{
		path: "/v1/workers", field: "workers", none: "no workers", short: "List workers, newest first",
		name:   func(w core.Worker) string { return w.Name },
		header: []string{"NAME:40", "SCOPE:40", "STATE", "QUEUE:40", "DOES:33", "IN HAND", "COMPLETED", "FAILED"},
		row: func(w core.Worker) []string {
			return []string{
				w.Name, w.Namespace + "/" + w.Tenant, w.Status(), w.Queue, workerDoes(w.Do),
				fmt.Sprintf("%d/%d", len(w.Running), w.Concurrency), number(w.Completed), number(w.Failed),
			}
		},
	}.command(a)
}

func workerDoes(d core.WorkerDo) string {
	switch {
	case d.Pipeline != nil:
		return "pipeline " + d.Pipeline.Name
	case d.Run != nil:
		return "run " + d.Run.Tool
	case d.Strategy != nil:
		return "strategy"
	case d.Task != nil:
		return "task"
	}
	return "-"
}

func workerView(w core.Worker) view {
	return view{
		fields: [][2]string{
			{"name", w.Name}, {"scope", w.Namespace + "/" + w.Tenant}, {"state", w.Status()}, {"queue", w.Queue}, {"does", workerDoes(w.Do)},
			{"in hand", fmt.Sprintf("%d of at most %d", len(w.Running), w.Concurrency)},
			{"completed", number(w.Completed)}, {"failed", number(w.Failed)}, {"created", timeText(w.CreatedAt)},
		},
		tables: []table{{[]string{"ITEM", "ATTEMPT", "DONE BY", "STARTED (UTC)"}, rowsOf(w.Running, func(j core.WorkerJob) []string {
			return []string{j.Item.String(), number(j.Attempt), string(j.Child.Kind) + " " + j.Child.ID.String(), shortTime(j.StartedAt)}
		})}},
	}
}

func workerDeclare(m machine[core.Worker]) *cobra.Command {
	return m.verb(verb{
		use: "declare NAME --queue QUEUE --do JSON", short: "Declare a worker, or replace what was declared", method: http.MethodPut,
		example: `  orreryd worker declare merger --queue merges --do '{"run":{"tool":"command","input":{"argv":["echo","${item.data}"]}}}'`,
		fields: []field{
			jsonField("do", "`JSON` with one of pipeline, run, strategy and task; @FILE or - for stdin").needed("say what is done for an item"),
			textField("queue", "`name` of the queue whose items it takes").needed("name the queue whose items it takes"),
			countField("concurrency", 1, "most `items` in hand at once, up to 256"),
		},
	})
}

func workerDelete(m machine[core.Worker]) *cobra.Command {
	return m.verb(verb{
		use: "delete", short: "End a worker", method: http.MethodDelete,
		fields: []field{boolField("drain", "end what is in hand first, instead of being refused")},
	})
}
