package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// strategyRequest is the body of POST /v1/strategies. The approaches are what was read: the
// daemon says what is wrong with them.
type strategyRequest struct {
	wire.StrategyRequest
	Approaches json.RawMessage `json:"approaches"`
}

func (a *app) strategyCreate(m machine[core.Strategy]) *cobra.Command {
	var body strategyRequest
	var s scoped
	var approaches, id, label string
	var wait bool
	cmd := &cobra.Command{
		Use:   "create --approaches JSON",
		Short: "Create a strategy, which starts at once",
		Long: `Create a strategy, which starts at once. Its approaches are tried in order, the next
one where the failure matches the fallback_on of the one before. They are those of
POST /v1/strategies, and of "orreryd runbook show FILE"; but nothing is filled in: a
reference such as ${item.data} belongs to a worker or a phase.`,
		Example: `  orreryd strategy create --wait --approaches '[
    {"name": "fetch", "action": {"command": {"tool": "command", "input": {"argv": ["git", "fetch"]}}}, "fallback_on": [{"any_error": true}]},
    {"name": "tell", "action": {"command": {"tool": "command", "input": {"argv": ["echo", "no network"]}}}}]'
  orreryd strategy create --label merge --approaches @approaches.json`,
		Args: noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		var err error
		if body.ID, err = newID(id); err != nil {
			return err
		}
		body.Namespace, body.Tenant, body.Label = &s.namespace, &s.tenant, given(label)
		if body.Approaches, err = a.readJSON("approaches", approaches); err != nil {
			return err
		}
		if body.Approaches == nil {
			return usagef("--approaches is missing: give a list of approaches as JSON, @FILE, or - for stdin")
		}
		return m.create(ctx, c, body, wait, "strategy %s is created\n")
	})
	s.addFlags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&approaches, "approaches", "", "list of approaches: `JSON`, @FILE, or - for stdin")
	f.StringVar(&id, "id", "", "`id` of the strategy, a UUID (default a fresh one)")
	f.StringVar(&label, "label", "", "`text` that says what it is")
	f.BoolVar(&wait, "wait", false, waitUsage)
	return cmd
}
