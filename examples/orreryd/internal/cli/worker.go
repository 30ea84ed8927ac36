package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// scoped are the flags of commands about what goes by a name within a tenant.
type scoped struct{ namespace, tenant string }

func (s *scoped) query() url.Values {
	return url.Values{"namespace": {s.namespace}, "tenant": {s.tenant}}
}

// withScope adds the flags to all commands but list, whose own they are.
func (a *app) withScope(s *scoped, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		if c.Name() != "list" {
			a.addScopeFlags(c, &s.namespace, &s.tenant)
		}
	}
	return commands
}

func (a *app) workerCommand() *cobra.Command {
	var s scoped
	m := machine[core.Worker]{a: a, path: "/v1/workers", show: a.printWorker, query: s.query, args: oneArg("NAME"), arg: "NAME"}
	return a.addClientFlags(group("worker", "Declare, watch and pause workers",
		"A worker takes items of a queue and does something for each, inside the daemon.",
		a.withScope(&s, a.workerList(), m.verb("show", "Show a worker and what it has in hand", http.MethodGet, "", nil), a.workerDeclare(m),
			m.verb("pause", "Let a worker take no more items", http.MethodPost, "pause", nil),
			m.verb("resume", "End a worker's pause", http.MethodPost, "resume", nil),
			m.verb("wake", "Let a worker look for work now", http.MethodPost, "wake", nil),
			a.workerDelete(m))...))
}

func (a *app) workerList() *cobra.Command {
	return listing[core.Worker]{
		path: "/v1/workers", field: "workers", none: "no workers", short: "List workers, newest first",
		header: []string{"NAME", "SCOPE", "STATE", "QUEUE", "DOES", "IN HAND", "COMPLETED", "FAILED"},
		row: func(w core.Worker) []string {
			return []string{
				text.Clip(w.Name, 40), text.Clip(w.Namespace+"/"+w.Tenant, 40), workerState(w), text.Clip(w.Queue, 40), workerDoes(w.Do),
				fmt.Sprintf("%d/%d", len(w.Running), w.Concurrency), number(w.Completed), number(w.Failed),
			}
		},
	}.command(a)
}

func workerState(w core.Worker) string {
	switch {
	case w.Draining:
		return "draining"
	case w.Paused:
		return "paused"
	case len(w.Running) > 0:
		return "busy"
	}
	return "idle"
}

func workerDoes(d core.WorkerDo) string {
	switch {
	case d.Pipeline != nil:
		return "pipeline " + text.Clip(d.Pipeline.Name, 24)
	case d.Run != nil:
		return "run " + text.Clip(d.Run.Tool, 24)
	case d.Strategy != nil:
		return "strategy"
	case d.Task != nil:
		return "task"
	}
	return "-"
}

func (a *app) printWorker(raw json.RawMessage, w core.Worker) error {
	if a.json {
		return a.printJSON(raw)
	}
	err := a.printFields([][2]string{
		{"name", w.Name}, {"scope", w.Namespace + "/" + w.Tenant}, {"state", workerState(w)}, {"queue", w.Queue}, {"does", workerDoes(w.Do)},
		{"in hand", fmt.Sprintf("%d of at most %d", len(w.Running), w.Concurrency)},
		{"completed", number(w.Completed)}, {"failed", number(w.Failed)}, {"created", timeText(w.CreatedAt)},
	})
	if err != nil || len(w.Running) == 0 {
		return err
	}
	rows := make([][]string, 0, len(w.Running))
	for _, j := range w.Running {
		rows = append(rows, []string{j.Item.String(), attempts(j.Attempt), string(j.Child.Kind) + " " + j.Child.ID.String(), shortTime(j.StartedAt)})
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	return a.printTable([]string{"ITEM", "ATTEMPT", "DONE BY", "STARTED (UTC)"}, rows)
}

func (a *app) workerDeclare(m machine[core.Worker]) *cobra.Command {
	var queue, do string
	var concurrency uint32
	cmd := &cobra.Command{
		Use: "declare NAME --queue QUEUE --do JSON", Short: "Declare a worker, or replace what was declared", Args: oneArg("NAME"),
		Example: `  orreryd worker declare merger --queue merges --do '{"run":{"tool":"command","input":{"argv":["echo","${item.data}"]}}}'`,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			v, err := a.jsonArgument("do", do)
			switch {
			case err != nil:
				return err
			case v == nil:
				return usagef("--do is missing: say what is done for an item")
			case queue == "":
				return usagef("--queue is missing: name the queue whose items it takes")
			}
			return m.tell(ctx, c, http.MethodPut, m.of(args[0]), map[string]any{"queue": queue, "concurrency": concurrency, "do": v})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", "`name` of the queue whose items it takes")
	f.Uint32Var(&concurrency, "concurrency", 1, "most `items` in hand at once, up to 256")
	f.StringVar(&do, "do", "", "`JSON` with one of pipeline, run, strategy and task; @FILE or - for stdin")
	return cmd
}

func (a *app) workerDelete(m machine[core.Worker]) *cobra.Command {
	var drain bool
	cmd := m.verb("delete", "End a worker", http.MethodDelete, "", func() (any, error) { return map[string]bool{"drain": drain}, nil })
	cmd.Flags().BoolVar(&drain, "drain", false, "end what is in hand first, instead of being refused")
	return cmd
}
