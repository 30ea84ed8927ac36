package cli

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) strategyCommand() *cobra.Command {
	m := machine[core.Strategy]{a: a, path: "/v1/strategies", show: a.printStrategy, args: oneID, arg: "ID"}
	return a.addClientFlags(group("strategy", "Create, watch and cancel strategies",
		"A strategy tries approaches in order until one succeeds.",
		a.strategyCreate(m), a.strategyList(), m.verb("show", "Show a strategy and how its approaches came out", http.MethodGet, "", nil), a.strategyWait(m),
		m.cancel("End a strategy, and what it is about")))
}

// strategySummary is a strategy as lists show it.
type strategySummary struct {
	ID         uuid.UUID           `json:"id"`
	Label      string              `json:"label"`
	Status     core.StrategyStatus `json:"status"`
	Current    uint32              `json:"current"`
	Approach   string              `json:"approach"`
	Approaches int                 `json:"approaches"`
	Error      string              `json:"error"`
	CreatedAt  core.Time           `json:"created_at"`
}

func (a *app) strategyList() *cobra.Command {
	return listing[strategySummary]{
		path: "/v1/strategies", field: "strategies", none: "no strategies", short: "List strategies, newest first",
		statuses: []string{"running", "succeeded", "exhausted", "cancelled"},
		header:   []string{"ID", "LABEL", "STATUS", "APPROACH", "OF", "CREATED (UTC)", "NOTE"},
		row: func(s strategySummary) []string {
			return []string{
				s.ID.String(), text.OrDash(text.Clip(s.Label, 32)), string(s.Status), text.OrDash(text.Clip(s.Approach, 32)),
				fmt.Sprintf("%d/%d", s.Current+1, s.Approaches), shortTime(s.CreatedAt), text.OrDash(text.Clip(s.Error, 48)),
			}
		},
	}.command(a)
}

func (a *app) printStrategy(raw json.RawMessage, s core.Strategy) error {
	if a.json {
		return a.printJSON(raw)
	}
	child := ""
	if s.Child.ID != uuid.Nil {
		child = string(s.Child.Kind) + " " + s.Child.ID.String()
	}
	err := a.printFields([][2]string{
		{"id", s.ID.String()}, {"label", s.Label}, {"scope", s.Namespace + "/" + s.Tenant}, {"pipeline", idOr(s.PipelineID)},
		{"status", string(s.Status)}, {"reason", s.Error}, {"output", text.Clip(jsonOr(s.Output), 400)}, {"waits for", child},
		{"created", timeText(s.CreatedAt)}, {"finished", timeText(s.FinishedAt)},
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	return a.printTable([]string{"APPROACH", "OUTCOME", "STARTED (UTC)", "TOOK", "NOTE"}, approachRows(s))
}

// approachRows shows each approach: how it came out, that it is under way, or
// that it has not come yet.
func approachRows(s core.Strategy) [][]string {
	rows := make([][]string, 0, len(s.Approaches))
	for i, ap := range s.Approaches {
		row := []string{text.Clip(ap.Name, 32), "-", "-", "-", "-"}
		switch {
		case i < len(s.Outcomes):
			o := s.Outcomes[i]
			row = []string{row[0], string(o.Outcome), shortTime(o.StartedAt), took(o.StartedAt, o.FinishedAt), text.OrDash(text.Clip(o.Error, 300))}
		case i == int(s.Current) && !s.StartedAt.IsZero():
			row[1], row[2] = "running", shortTime(s.StartedAt)
		}
		rows = append(rows, row)
	}
	return rows
}
