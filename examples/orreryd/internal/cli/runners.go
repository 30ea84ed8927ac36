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
work. What nobody counts or knows is "-". PODS are those of all daemons on the database, and the
bound is that of each daemon: three daemons may have 250 of 100.`,
		Args: noArgs,
	}
	l := listing[wire.Runner]{
		none: "No runner", name: func(r wire.Runner) string { return r.Name },
		header: []string{"RUNNER", "STATUS", "SINCE (UTC)", "SEEN", "PODS", "WAITING", "NOTE:200"}, row: runnerRow,
	}
	flags := a.addListFlags(cmd, formWide, formJSON, formName)
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		return flags.print(ctx, cmd, func(ctx context.Context) (answered, error) {
			var list wire.RunnerList
			raw, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/runners"}, &list)
			out := l.answered(a, nil, nil, list.Runners, "")
			out.json = func() error { return a.printJSON(raw) }
			return out, err
		})
	})
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
	return []string{r.Name, r.Status, shortTime(r.Since), seen, pods, waiting, text.OrDash(r.Error)}
}
