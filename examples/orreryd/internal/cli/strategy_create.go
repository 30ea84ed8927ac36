package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// strategyRequest is the body of POST /v1/strategies.
type strategyRequest struct {
	ID         string          `json:"id,omitempty"`
	Namespace  string          `json:"namespace"`
	Tenant     string          `json:"tenant"`
	Label      string          `json:"label,omitempty"`
	Approaches json.RawMessage `json:"approaches"`
}

func (a *app) strategyCreate(m machine[core.Strategy]) *cobra.Command {
	var body strategyRequest
	var approaches string
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
		if err := checkNewID(body.ID); err != nil {
			return err
		}
		var err error
		if body.Approaches, err = a.jsonArgument("approaches", approaches); err != nil {
			return err
		}
		if body.Approaches == nil {
			return usagef("--approaches is missing: give a list of approaches as JSON, @FILE, or - for stdin")
		}
		var s core.Strategy
		raw, err := c.json(ctx, request{method: http.MethodPost, path: m.path, body: body}, &s)
		switch {
		case err != nil:
			return err
		case wait:
			text.Sayf(a.err, "strategy %s is created\n", s.ID)
			return a.waitStrategy(ctx, c, m, s.ID.String(), true)
		}
		return a.printStrategy(raw, s)
	})
	a.addScopeFlags(cmd, &body.Namespace, &body.Tenant)
	f := cmd.Flags()
	f.StringVar(&approaches, "approaches", "", "list of approaches: `JSON`, @FILE, or - for stdin")
	f.StringVar(&body.ID, "id", "", "`id` of the strategy, a UUID (default a fresh one)")
	f.StringVar(&body.Label, "label", "", "`text` that says what it is")
	f.BoolVar(&wait, "wait", false, waitUsage)
	return cmd
}

func (a *app) strategyWait(m machine[core.Strategy]) *cobra.Command {
	return &cobra.Command{
		Use: "wait ID", Short: "Wait for a strategy's end, and end with 1 if it is exhausted or was cancelled", Args: oneID,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			return a.waitStrategy(ctx, c, m, args[0], false)
		}),
	}
}

// waitStrategy prints a strategy once it has ended; a failure is one of this
// program too.
func (a *app) waitStrategy(ctx context.Context, c *client, m machine[core.Strategy], id string, known bool) error {
	raw, s, err := m.await(ctx, c, id, known, func(s core.Strategy) bool { return s.Status.Ended() })
	if err != nil {
		return err
	}
	if err := a.printStrategy(raw, s); err != nil {
		return err
	}
	switch s.Status {
	case core.StrategyExhausted:
		return fmt.Errorf("strategy %s is exhausted: %s", s.ID, s.Error)
	case core.StrategyCancelled:
		return fmt.Errorf("strategy %s was cancelled: %s", s.ID, s.Error)
	case core.StrategyRunning, core.StrategySucceeded:
	}
	return nil
}
