package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// acceptance is how somebody says that a loss of commits is accepted: at a terminal, with --yes, or with the reason that was read before.
type acceptance struct {
	database string
	yes      bool
	stopped  string // empty: whatever the partition is stopped for
}

func (a *app) clusterAcceptLoss() *cobra.Command {
	var of acceptance
	cmd := &cobra.Command{
		Use:   "accept-loss PARTITION",
		Short: "Have a partition go on whose database has lost commits",
		Long: `Have a partition go on that is stopped since its database has lost commits, as after a failover
to a standby that lagged behind. What is there is whole, but older. What is gone stays gone, and
others hold answers about it: an action that a caller was told is queued is not there, one that
has completed may run again, and a lock may be held twice, with a token that was given out
before. Look for what callers know first: "cluster status" shows which partitions are stopped.
It says what is lost, and asks. --yes does not ask, and neither does --stopped, which takes what
"cluster status --json" has as "stopped", and accepts no other loss. Without one of them, and
without a terminal to ask at, it accepts nothing.
A database with one partition has no daemon to ask then: name it with --database. Without that it takes an
admin's token.`,
		Example: "  orreryd cluster accept-loss 3\n  orreryd cluster accept-loss 0 --database postgres://orrery@db.example/orrery",
		Args:    oneArg("PARTITION"),
	}
	cmd.Flags().StringVar(&of.database, "database", "", "`URL` of the PostgreSQL database: no daemon is asked")
	cmd.Flags().BoolVar(&of.yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&of.stopped, "stopped", "", "do not ask, and accept the loss only if the partition is stopped for this `reason`")
	ask := a.withClient(func(ctx context.Context, c *client, args []string) error {
		return a.acceptLossAt(ctx, c, of, args[0])
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("stopped") && of.stopped == "" {
			return usagef(`--stopped: is empty: want what "cluster status --json" has as "stopped"`)
		}
		if !cmd.Flags().Changed("database") {
			return ask(cmd, args)
		}
		return a.acceptLossIn(cmd.Context(), of, args[0])
	}
	return cmd
}

// confirm returns nil if the caller accepts the loss: by a flag, or by an answer at the terminal to what it prints. The error says why the loss is not accepted.
func (of acceptance) confirm(ctx context.Context, a *app, partition int, stopped string) error {
	switch {
	case of.stopped == stopped, of.yes && of.stopped == "":
		return nil
	case of.stopped != "":
		return fmt.Errorf("--stopped: partition %d is stopped for another reason, and nothing was done: %s", partition, stopped)
	}
	text.Sayf(a.err, "partition %d is stopped: %s\nWhat is gone stays gone, and callers may hold answers about it.\n", partition, text.Clean(stopped))
	if !isTerminal(a.in) {
		return usagef("nothing was done: there is no terminal to ask at: give --yes, or --stopped with the reason that was read")
	}
	return a.goOn(ctx, fmt.Sprintf("Accept the loss of partition %d.", partition))
}

// acceptLossAt has a daemon accept the loss of a partition.
func (a *app) acceptLossAt(ctx context.Context, c *client, of acceptance, arg string) error {
	n, err := partitionArg(arg)
	if err != nil {
		return err
	}
	var s wire.Cluster
	if _, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/cluster"}, &s); err != nil {
		return err
	}
	i := slices.IndexFunc(s.Partitions, func(p wire.ClusterPartition) bool { return p.Number == n })
	if i < 0 {
		return noLoss(n, s.PartitionCount)
	}
	p := s.Partitions[i]
	if !p.LossCanBeAccepted {
		return notStopped(n, p.Stopped != "")
	}
	if err := of.confirm(ctx, a, n, p.Stopped); err != nil {
		return err
	}
	body := wire.ClusterAcceptLoss{Partition: &n, Stopped: p.Stopped}
	raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/cluster/accept-loss", body: body}, nil)
	if err != nil {
		return err
	}
	return a.printLine(raw, goesOn(n, p.Stopped))
}

// partitionArg reads the number of a partition.
func partitionArg(arg string) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 || n >= store.MaxPartitions {
		return 0, usagef("PARTITION: %q is no number of a partition: orreryd cluster status shows them", text.Clip(arg, 60))
	}
	return n, nil
}

// noLoss says why nothing is told of a partition, of a database that has so many; 0: a daemon of an earlier version does not say.
func noLoss(n, partitions int) error {
	err := fmt.Errorf("PARTITION: nobody has worked on partition %d: there is no loss to accept", n)
	switch {
	case partitions == 1 && n > 0:
		err = fmt.Errorf("PARTITION: there is none of the number %d: the database is not divided, and has partition 0 alone", n)
	case partitions > 1 && n >= partitions:
		err = fmt.Errorf("PARTITION: there is none of the number %d: the cluster has partitions 0 to %d", n, partitions-1)
	}
	return &exitError{code: exitNotFound, err: err}
}

// partitionsOf gives how many partitions a database has.
func partitionsOf(ctx context.Context, cluster store.Cluster) (int, error) {
	layout, err := cluster.Layout(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return 1, nil
	}
	return layout.Partitions, err
}

// notStopped says that there is no loss to accept.
func notStopped(n int, otherwise bool) error {
	if otherwise {
		return fmt.Errorf("partition %d is stopped, and not for a loss of commits: orreryd cluster status says why", n)
	}
	return fmt.Errorf("partition %d is not stopped: there is no loss to accept", n)
}

func goesOn(n int, stopped string) string {
	return fmt.Sprintf("the loss is accepted, and partition %d goes on: %s", n, stopped)
}

// acceptedLoss is what cluster accept-loss --database --json prints.
type acceptedLoss struct {
	Partition int    `json:"partition"`
	Stopped   string `json:"stopped"`
}

// acceptLossIn accepts the loss of a partition without a daemon.
func (a *app) acceptLossIn(ctx context.Context, of acceptance, arg string) error {
	n, err := partitionArg(arg)
	switch {
	case err != nil:
		return err
	case !config.IsDatabaseURL(of.database):
		return errNoDatabaseURL
	}
	name := config.DatabaseName(of.database)
	p, err := lookAt(ctx, of.database, n)
	if err != nil {
		if coded, ok := errors.AsType[*exitError](err); ok {
			return coded
		}
		return fmt.Errorf("--database: %s: %w", name, err)
	}
	if !p.Lost {
		return notStopped(n, p.Halted != "")
	}
	if err := of.confirm(ctx, a, n, p.Halted); err != nil {
		return err
	}
	cluster, err := postgres.Connect(ctx, of.database, postgres.Options{})
	if err != nil {
		return fmt.Errorf("--database: %s: %w", name, err)
	}
	defer cluster.Close()
	if err := cluster.AcceptLoss(ctx, n, p.Halted); err != nil {
		return err
	}
	return a.show(acceptedLoss{n, p.Halted}, text.Clean(goesOn(n, p.Halted))+"\n")
}

// lookAt changes nothing of a database that has nothing to do with it. The error is [exitNotFound] if it has no such partition.
func lookAt(ctx context.Context, database string, partition int) (p store.Partition, err error) {
	cluster, err := postgres.Connect(ctx, database, postgres.Options{ReadOnly: true})
	if err != nil {
		return p, err
	}
	defer cluster.Close()
	p, err = cluster.Look(ctx, partition)
	if !errors.Is(err, store.ErrNotFound) {
		return p, err
	}
	of, err := partitionsOf(ctx, cluster)
	if err != nil {
		return p, err
	}
	return p, noLoss(partition, of)
}
