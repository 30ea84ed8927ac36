package cli

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) limitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Print what tenants have, and what they may have",
		Long: `Print for each tenant that the token sees how many schedules, queues and bytes it has, and how
many actions, runs, pipelines, tasks and strategies that have not ended, with its limits as
[limits] has them; "-": none. Those that store the most come first.`,
		Args: noArgs,
	}
	flags := a.addListFlags(cmd, formWide, formJSON)
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		return flags.print(ctx, cmd, func(ctx context.Context) (answered, error) {
			var list wire.LimitsList
			raw, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/limits"}, &list)
			return answered{
				json:   func() error { return a.printJSON(raw) },
				people: func(s screen) string { return limitsText(list, s) },
			}, err
		})
	})
	return a.addClientFlags(cmd)
}

// limitsText shows the tenants, and what is not said of them.
func limitsText(list wire.LimitsList, s screen) string {
	if len(list.Tenants) == 0 {
		return "No tenant has anything\n"
	}
	out := table{
		[]string{"NAMESPACE", "TENANT", "SCHEDULES", "LIVE ACTIONS", "RUNS", "PIPELINES", "TASKS", "STRATEGIES", "BYTES", "QUEUES", "REQUESTS/S", "INPUTS/S"}, rowsOf(list.Tenants, limitsRow),
	}.text(s)
	if list.LeftOut > 0 {
		out += fmt.Sprintf("%s left out: those that store the least\n", counted(list.LeftOut, "tenant"))
	}
	if !list.Counted {
		out += "The database is still being counted: there may be more than this\n"
	}
	if list.Gaps > 0 {
		out += fmt.Sprintf("%d parts of the database could not be read and are not counted\n", list.Gaps)
	}
	return out
}

func limitsRow(t wire.TenantLimits) []string {
	of := func(has, most int64) string {
		return strconv.FormatInt(has, 10) + " of " + bound(float64(most))
	}
	u, l := t.Usage, t.Limits
	return []string{
		t.Namespace, t.Tenant, of(u.Schedules, l.MaxSchedules), of(u.LiveActions, l.MaxLiveActions),
		of(u.LiveRuns, l.MaxLiveRuns), of(u.LivePipelines, l.MaxLivePipelines), of(u.LiveTasks, l.MaxLiveTasks), of(u.LiveStrategies, l.MaxLiveStrategies),
		of(u.StoredBytes, l.MaxStoredBytes),
		strconv.FormatInt(u.Queues, 10), bound(l.RequestsPerSecond), bound(l.InputsPerSecond),
	}
}

// bound shows a limit.
func bound(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
