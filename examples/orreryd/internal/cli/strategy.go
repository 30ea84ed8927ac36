package cli

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) strategyCommand() *cobra.Command {
	m := machine[core.Strategy]{
		a: a, path: "/v1/strategies", arg: "ID", args: oneID, view: strategyView,
		ids:   finder{path: "/v1/strategies", field: "strategies", what: "strategy"},
		id:    func(s core.Strategy) string { return s.ID.String() },
		ended: func(s core.Strategy) bool { return s.Status.Ended() }, fails: strategyError,
	}
	return withMore(a.addClientFlags(m.ids.addFlags(group("strategy", "Create, watch and cancel strategies",
		"A strategy tries approaches in order until one succeeds.",
		strategyCreate(m), a.strategyList(), m.show("Show a strategy and how its approaches came out"),
		m.wait("Wait for a strategy's end, and end with 1 if it is exhausted or was cancelled"),
		m.reasoned("cancel", "End a strategy, and what it is about")))),
		a.cancelAll("strategies", "strategy", "strategies", "running"))
}

func (a *app) strategyList() *cobra.Command {
	return listing[wire.StrategySummary]{
		path: "/v1/strategies", field: "strategies", none: "no strategies", timed: true, fails: true, short: "List strategies, newest first",
		filters: []filter{byStatus(core.Statuses(core.KindStrategy)...)},
		name:    func(s wire.StrategySummary) string { return s.ID.String() },
		header:  []string{"ID", "LABEL:32", "STATUS", "APPROACH:32", "OF", "CREATED (UTC)", "NOTE:48"},
		row: func(s wire.StrategySummary) []string {
			return []string{
				s.ID.String(), text.OrDash(s.Label), string(s.Status), text.OrDash(s.Approach),
				fmt.Sprintf("%d/%d", s.Current+1, s.Approaches), shortTime(s.CreatedAt), text.OrDash(s.Error),
			}
		},
	}.command(a)
}

// strategyError is the failure of a strategy that has ended; nil if an approach succeeded.
func strategyError(s core.Strategy) error {
	return failed(s.ID, "strategy", map[core.StrategyStatus]string{
		core.StrategyExhausted: "is exhausted", core.StrategyCancelled: "was cancelled",
	}[s.Status], s.Error)
}

func strategyView(s core.Strategy) view {
	child := ""
	if s.Child.ID != uuid.Nil {
		child = string(s.Child.Kind) + " " + s.Child.ID.String()
	}
	return view{
		fields: [][2]string{
			{"id", s.ID.String()}, {"label", s.Label}, {"scope", s.Namespace + "/" + s.Tenant}, {"pipeline", idOr(s.PipelineID)},
			{"status", string(s.Status)}, {"reason", s.Error}, {"output:400", jsonOr(s.Output)}, {"waits for", child},
			{"created", timeText(s.CreatedAt)}, {"finished", timeText(s.FinishedAt)},
		},
		tables: []table{{[]string{"APPROACH:32", "OUTCOME", "STARTED (UTC)", "TOOK", "NOTE:300"}, approachRows(s)}},
	}
}

// approachRows shows each approach: how it came out, that it is under way, or
// that it has not come yet.
func approachRows(s core.Strategy) [][]string {
	rows := make([][]string, 0, len(s.Approaches))
	for i, ap := range s.Approaches {
		row := []string{ap.Name, "-", "-", "-", "-"}
		switch {
		case i < len(s.Outcomes):
			o := s.Outcomes[i]
			row = []string{row[0], string(o.Outcome), shortTime(o.StartedAt), took(o.StartedAt, o.FinishedAt), text.OrDash(o.Error)}
		case i == int(s.Current) && !s.StartedAt.IsZero():
			row[1], row[2] = "running", shortTime(s.StartedAt)
		}
		rows = append(rows, row)
	}
	return rows
}

func strategyCreate(m machine[core.Strategy]) *cobra.Command {
	return m.creating(verb{
		use:   "create --approaches JSON",
		short: "Create a strategy, which starts at once",
		long: `Create a strategy, which starts at once. Its approaches are tried in order, the next
one where the failure matches the fallback_on of the one before. They are those of
POST /v1/strategies, and of "orreryd runbook show FILE"; but nothing is filled in: a
reference such as ${item.data} belongs to a worker or a phase.`,
		example: `  orreryd strategy create --wait --approaches '[
    {"name": "fetch", "action": {"command": {"tool": "command", "input": {"argv": ["git", "fetch"]}}}, "fallback_on": [{"any_error": true}]},
    {"name": "tell", "action": {"command": {"tool": "command", "input": {"argv": ["echo", "no network"]}}}}]'
  orreryd strategy create --label merge --approaches @approaches.json`,
		args: noArgs,
		fields: []field{
			newIDField("strategy"), labelField(),
			jsonField("approaches", "list of approaches: `JSON`, @FILE, or - for stdin").
				needed("give a list of approaches as JSON, @FILE, or - for stdin"),
		},
	}, &scoped{}, "strategy %s is created\n", addNothing)
}
