package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

func (a *app) clusterCommand() *cobra.Command {
	return group("cluster", "Divide a PostgreSQL database, and show the daemons on it",
		`Of several daemons on one PostgreSQL database each partition has one that works on it, and the
others stand by. A database has one partition, unless "init" divides it before a daemon works
on it. Each daemon may be asked anything.`,
		a.clusterInit(), a.addClientFlags(a.clusterStatus()), a.addClientFlags(a.clusterDrain()), a.addClientFlags(a.clusterAcceptLoss()), a.addClientFlags(a.clusterRebalance()))
}

// defaultPartitions is how many a divided database has, unless somebody says otherwise: a few for each of the daemons that most clusters have.
const defaultPartitions = 16

func (a *app) clusterInit() *cobra.Command {
	var database string
	var partitions int
	cmd := &cobra.Command{
		Use:   "init --database URL",
		Short: "Divide a new PostgreSQL database into partitions",
		Long: `Divide a PostgreSQL database on which no daemon has worked yet. Each tenant lives in one
partition, which follows from its namespace and name alone, and each partition is worked on by
one daemon at a time: so several daemons work side by side, each on some of them. The number
stays as it is. Done twice with the same number it changes nothing.`,
		Example: "  orreryd cluster init --database postgres://orrery@db.example/orrery",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.divide(cmd.Context(), database, partitions)
		},
	}
	cmd.Flags().StringVar(&database, "database", a.env("ORRERY_DATABASE"), "`URL` of a PostgreSQL database (default $ORRERY_DATABASE)")
	cmd.Flags().Lookup("database").DefValue = "" // the usage names the variable
	cmd.Flags().IntVar(&partitions, "partitions", defaultPartitions, "`number` of partitions")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

// divided is what cluster init --json prints.
type divided struct {
	Database   string `json:"database"`
	Partitions int    `json:"partitions"`
}

var errNoDatabaseURL = usagef("--database: is no URL of PostgreSQL: want one such as postgres://orrery@db.example/orrery")

// badPartitions refuses a number of partitions.
func badPartitions(n int) error {
	return usagef("--partitions: %d is not between 1 and %d: the page token of a list over all tenants has a place in each partition, and has to fit into a request", n, store.MaxDivided)
}

func (a *app) divide(ctx context.Context, database string, partitions int) error {
	switch {
	case database == "":
		return usagef("--database: missing: name the URL of a PostgreSQL database")
	case !config.IsDatabaseURL(database):
		return errNoDatabaseURL
	case partitions < 1 || partitions > store.MaxDivided:
		return badPartitions(partitions)
	}
	name := config.DatabaseName(database)
	cluster, err := postgres.Connect(ctx, database, postgres.Options{})
	if err != nil {
		return fmt.Errorf("--database: %s: %w", name, err)
	}
	defer cluster.Close()
	err = cluster.SetLayout(ctx, store.Layout{Partitions: partitions, Rule: core.PartitionRule})
	if errors.Is(err, store.ErrDivided) {
		return fmt.Errorf("--partitions: %s: %w: stop its daemons, and name an empty database: orreryd copy --from URL --to URL --partitions %d", name, err, partitions)
	}
	if err != nil {
		return fmt.Errorf("--partitions: %s: %w", name, err)
	}
	return a.show(divided{name, partitions}, fmt.Sprintf("%s has %s: start daemons on it\n", text.Clean(name), counted(partitions, "partition")))
}

func (a *app) clusterDrain() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "drain INSTANCE",
		Short: "Have a daemon give its partitions to the others",
		Long: `Have a daemon give its partitions to the others, one after the other, and take none, such as
before its machine is serviced. It goes on to answer requests. A partition that has terminal
sessions, worktrees or programs of a local runner on that machine stays until they have ended.
The daemon takes part again once it is started anew, or with --undo. It takes an admin's token.`,
		Example: "  orreryd cluster drain daemon-1\n  orreryd cluster drain daemon-1 --undo",
		Args:    oneArg("INSTANCE"),
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "have it take part again")
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		body := wire.ClusterDrain{Instance: args[0], Undo: undo}
		raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/cluster/drain", body: body}, nil)
		if err != nil {
			return err
		}
		says := args[0] + " gives its partitions away"
		if undo {
			says = args[0] + " takes part again"
		}
		return a.printLine(raw, says)
	})
	return cmd
}

func (a *app) clusterRebalance() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "Have partitions go to the daemons that should have them",
		Long: `Have partitions go to the daemons that should have them, without waiting, and print where they
are as they begin to move, and what keeps them. What a daemon has taken in place of another one
goes to that one, and what waits since a daemon has come or gone waits no more. One moves after
the other. A partition that has terminal sessions, worktrees or programs of a local runner on a
machine stays. It takes an admin's token.`,
		Example: "  orreryd cluster rebalance",
		Args:    noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		var s wire.ClusterPlacing
		raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/cluster/rebalance"}, &s)
		if err != nil {
			return err
		}
		return a.print(raw, placingView(s))
	})
	return cmd
}

func placingView(s wire.ClusterPlacing) view {
	var v view
	for _, p := range s.Partitions {
		says := p.Owner + " works"
		if p.Owner == "" {
			says = "nobody works on it"
		}
		if p.Keeps != "" {
			says += "; " + cmp.Or(p.Should, "nobody") + " should: " + p.Keeps
		}
		v.fields = append(v.fields, [2]string{"partition " + strconv.Itoa(p.Number), says})
	}
	return v
}

func (a *app) clusterStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which daemons there are, which ones work, and on what",
		Long: `Show the daemons on the database, for how long each has given no sign of life, and which
ones work, and on what; and those that go on with runs of tools that they had begun in what
they have given back since. It takes a token that is bound to nothing.`,
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
	const idle = "stands by"
	owns, runs := map[string]int{}, map[string]int{}
	var asked wire.ClusterInstance // the one that has answered
	for _, i := range s.Instances {
		if i.Name == s.Instance {
			asked = i
		}
	}
	v := view{fields: [][2]string{{"database", s.Database}}}
	for _, p := range s.Partitions {
		who := "nobody works on it"
		if p.Owner != "" {
			who = p.Owner + " works, at " + p.Address + ", with token " + strconv.FormatUint(p.Token, 10)
			owns[p.Owner]++
		}
		if p.Stopped != "" {
			who = "stopped: " + p.Stopped
		}
		says := []string{who, "commit " + strconv.FormatUint(p.Commit, 10)}
		for _, f := range p.FormerOwners {
			says = append(says, f.Instance+" has given it back, and goes on with "+counted(f.Running, "run"))
			runs[f.Instance] += f.Running
		}
		if p.LossCanBeAccepted {
			says = append(says, "look for what callers know of what is gone, then: orreryd cluster accept-loss "+strconv.Itoa(p.Number))
		}
		v.fields = append(v.fields, [2]string{"partition " + strconv.Itoa(p.Number), strings.Join(says, "; ")})
	}
	for _, i := range s.Instances {
		state := idle
		switch n := owns[i.Name]; {
		case !i.Alive:
			state = "silent for " + strconv.FormatFloat(i.SilentSeconds, 'f', 0, 64) + " s"
		case i.Draining && n > 0:
			state = "gives its partitions away, has " + strconv.Itoa(n)
		case i.Draining:
			state = "gives its partitions away, has none"
		case n > 0 && len(s.Partitions) > 1:
			state = "works on " + counted(n, "partition")
		case n > 0:
			state = "works"
		}
		if n := runs[i.Name]; n > 0 {
			goesOn := "goes on with " + counted(n, "run") + " of what it has given back"
			if state == idle {
				state = goesOn
			} else {
				state += ", " + goesOn
			}
		}
		v.fields = append(v.fields, [2]string{i.Name, state + ", at " + i.Address + ", version " + i.Version + differences(asked, i)})
	}
	return v
}

// differences says in what a daemon is not as the one that was asked: whether it would decide by other rules, and carry out other work.
func differences(asked, is wire.ClusterInstance) (says string) {
	if is.Core != asked.Core && is.Core != "" && asked.Core != "" {
		says = "; decides by the rules " + is.Core + ", and " + asked.Name + " by " + asked.Core
	}
	if is.Able != asked.Able && is.Able != "" && asked.Able != "" {
		says += "; its tools, webhook routes, runners or channels are not those of " + asked.Name
	}
	return says
}
