package cli

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) runnersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runners",
		Short: "Print how the runners of jobs are",
		Long: `Print for each runner that the token may use whether it works, since when, how long ago its
watch last heard of what it runs pods in, how many pods live and wait, and what is wrong:
down says that nobody sees what becomes of its pods, degraded that something else does not
work. What nobody counts or knows is "-".`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			var list wire.RunnerList
			raw, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/runners"}, &list)
			if err != nil {
				return err
			}
			if len(list.Runners) == 0 {
				return a.printLine(raw, "No runner")
			}
			return a.show(raw, table{[]string{"RUNNER", "STATUS", "SINCE (UTC)", "SEEN", "PODS", "WAITING", "NOTE"}, rowsOf(list.Runners, runnerRow)}.text())
		}),
	}
	return a.addClientFlags(cmd)
}

func runnerRow(r wire.Runner) []string {
	seen, pods, waiting := "-", "-", "-"
	if !r.SeenAt.IsZero() {
		seen = time.Duration(r.WatchAgeSeconds*float64(time.Second)).Round(time.Second).String() + " ago"
	}
	if r.MaxPods > 0 {
		pods, waiting = number(r.Pods)+" of "+number(r.MaxPods), number(r.PodsWaiting)
	}
	return []string{r.Name, r.Status, shortTime(r.Since), seen, pods, waiting, text.OrDash(text.Clip(r.Error, 200))}
}
