package cli

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) clusterCommand() *cobra.Command {
	return a.addClientFlags(group("cluster", "Show the daemons on one PostgreSQL database",
		`Of several daemons on one PostgreSQL database one works, and the others stand by. Each of them
may be asked: the one that works answers.`,
		a.clusterStatus()))
}

func (a *app) clusterStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which daemons there are, and which one works",
		Long: `Show the daemons on the database, for how long each has given no sign of life, and which one
works. It takes a token that is bound to nothing.`,
		Example: "  orreryd cluster status",
		Args:    noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		var s wire.Cluster
		raw, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/cluster"}, &s)
		if err != nil {
			return err
		}
		return a.print(raw, clusterView(s))
	})
	return cmd
}

func clusterView(s wire.Cluster) view {
	works := map[string]string{}
	v := view{fields: [][2]string{{"database", s.Database}}}
	for _, p := range s.Partitions {
		who := "nobody works on it"
		if p.Owner != "" {
			who = p.Owner + " works, at " + p.Address + ", with token " + strconv.FormatUint(p.Token, 10)
			works[p.Owner] = "works"
		}
		if p.Stopped != "" {
			who = "stopped: " + p.Stopped
		}
		v.fields = append(v.fields, [2]string{"partition " + strconv.Itoa(p.Number), who + "; commit " + strconv.FormatUint(p.Commit, 10)})
	}
	for _, i := range s.Instances {
		state := works[i.Name]
		switch {
		case !i.Alive:
			state = "silent for " + strconv.FormatFloat(i.SilentSeconds, 'f', 0, 64) + " s"
		case state == "":
			state = "stands by"
		}
		v.fields = append(v.fields, [2]string{i.Name, state + ", at " + i.Address + ", version " + i.Version})
	}
	return v
}
