package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// roster is what a daemon tells of its cluster.
type roster struct {
	name, database string
	partitions     int // of the database
	cluster        *postgres.Cluster
	instances      func(context.Context) ([]fleet.Instance, error)
	log            *slog.Logger
}

// drain has a daemon give its partitions to the others, or take part again.
func (r roster) drain(ctx context.Context, instance string, on bool) error {
	return r.cluster.Drain(ctx, instance, on)
}

// acceptLoss has a partition go on although the database has lost commits.
func (r roster) acceptLoss(ctx context.Context, partition int, stopped string) error {
	if err := r.cluster.AcceptLoss(ctx, partition, stopped); err != nil {
		return err
	}
	r.log.Warn("a loss of commits was accepted here, so that the partition goes on", "database", r.database, "partition", partition, "stopped", stopped)
	return nil
}

// rebalance has partitions be where they should be, and tells where they are.
func (h *host) rebalance(ctx context.Context) ([]wire.ClusterPlace, error) {
	all, err := h.group.Rebalance(ctx)
	return shownPlacings(all), err
}

// placings tells where the partitions are, as this daemon sees the cluster.
func (h *host) placings(ctx context.Context) ([]wire.ClusterPlace, error) {
	all, err := h.group.Placings(ctx)
	return shownPlacings(all), err
}

func shownPlacings(all []fleet.Placing) []wire.ClusterPlace {
	out := []wire.ClusterPlace{}
	for _, p := range all {
		out = append(out, wire.ClusterPlace{Number: p.Partition, Owner: p.Owner, Should: p.Should, Keeps: p.Keeps})
	}
	return out
}

// tell gives what GET /v1/cluster answers.
func (r roster) tell(ctx context.Context) (wire.Cluster, error) {
	out := wire.Cluster{Instance: r.name, Database: r.database, PartitionCount: r.partitions, Instances: []wire.ClusterInstance{}, Partitions: []wire.ClusterPartition{}}
	all, err := r.instances(ctx)
	if err != nil {
		return out, err
	}
	for _, i := range all {
		out.Instances = append(out.Instances, wire.ClusterInstance{
			Name: i.Name, Address: i.Address, Version: i.Version, Core: i.Core, SilentSeconds: i.Silent.Round(time.Millisecond).Seconds(), Alive: i.Alive, Draining: i.Draining, Able: i.Able,
		})
	}
	rows, err := r.cluster.Partitions(ctx)
	if err != nil {
		return out, err
	}
	formers, err := r.cluster.FormerOwners(ctx)
	for _, p := range rows {
		of := wire.ClusterPartition{
			Number: p.Number, Owner: p.Owner, Address: p.Address, Token: p.Token, Commit: p.Last, Behind: p.Lag, Stopped: p.Halted, LossCanBeAccepted: p.Lost,
			FormerOwners: []wire.ClusterFormerOwner{},
		}
		for _, f := range formers {
			if f.Partition == p.Number {
				of.FormerOwners = append(of.FormerOwners, wire.ClusterFormerOwner{Instance: f.Owner, Running: len(f.Running)})
			}
		}
		out.Partitions = append(out.Partitions, of)
	}
	return out, err
}

// isReplaced reports whether a partition was lost to another daemon, and not because its database has lost commits.
func isReplaced(err error) bool {
	return errors.Is(err, store.ErrFenced) && !errors.Is(err, postgres.ErrLost)
}

// logMove says what has become of a partition in a daemon that works on several.
func logMove(log *slog.Logger, database, name string, e fleet.Event) {
	s := e.State
	of := log.With("database", database, "partition", s.Partition)
	switch e.Kind {
	case fleet.EventStandsBy:
		of.Info("another daemon works on the partition", "works", s.Owner, "at", s.Address)
	case fleet.EventOwns:
		of.Info("the partition is this daemon's", "name", name, "token", s.Token)
		logSilent(of, name, e)
	case fleet.EventLost:
		if isReplaced(e.Err) {
			of.Warn("another daemon has the partition; what ran here was told to end, and nothing of it is stored", "error", e.Err)
		} else {
			of.Warn("the database takes nothing of this daemon for the partition any more; what ran here was told to end, and was stored or not", "error", e.Err)
		}
	case fleet.EventUnclaimed:
		of.Warn("the partition cannot be taken over; trying again", "error", e.Err)
	case fleet.EventMoved:
		if e.Err != nil {
			of.Warn("the partition was given away, and not in good order", "to", e.To, "error", e.Err)
		} else {
			of.Info("the partition was given away", "to", e.To)
		}
	case fleet.EventRanOn:
		of.Warn("what ran on here of the partition, which was given away, has not ended in good order", "to", e.To, "error", e.Err)
	case fleet.EventUnfit:
		of.Error("the partition cannot be worked on here, and was given back: another daemon may take it", "error", e.Err)
	case fleet.EventUnusable:
		of.Error("nobody can open the partition; this daemon works on those that can be opened", "error", hintLost(strconv.Itoa(s.Partition), hintUnfilled(e.Err)))
	default:
		logEvent(log, database, name, e)
	}
}

// logSilent warns of another daemon that had what is this one's now and has not given it back: it was lost without a word.
func logSilent(log *slog.Logger, name string, e fleet.Event) {
	if e.Before != "" && e.Before != name {
		log.Warn("the daemon that worked before was silent, and has not given it back", "before", e.Before)
	}
}

// logEvent says what has become of a daemon in its cluster.
func logEvent(log *slog.Logger, database, name string, e fleet.Event) {
	log = log.With("database", database)
	s := e.State
	switch e.Kind {
	case fleet.EventStandsBy:
		log.Info("standing by: another daemon works on the database", "works", s.Owner, "at", s.Address)
	case fleet.EventOwns:
		log.Info("the database is this daemon's", "name", name, "token", s.Token)
		logSilent(log, name, e)
	case fleet.EventLost:
		if isReplaced(e.Err) {
			log.Warn("standing by, since another daemon has the database; what ran here was told to end, and nothing of it is stored", "error", e.Err)
		} else {
			log.Warn("standing by, since the database takes nothing of this daemon any more; what ran here was told to end, and was stored or not", "error", e.Err)
		}
	case fleet.EventAway:
		log.Warn("the database is not available; this daemon takes nothing over until it is", "error", e.Err)
	case fleet.EventBack:
		log.Info("the database is available again")
	case fleet.EventUnclaimed:
		log.Warn("the database cannot be taken over; trying again", "error", e.Err)
	case fleet.EventUnrenewed:
		log.Warn("the database does not take a sign of life; trying again", "error", e.Err)
	case fleet.EventUnlisted:
		log.Warn("the database does not take this daemon into its roster; trying again", "error", e.Err)
	case fleet.EventNameTaken:
		log.Warn("another daemon has the same name: give each its own in cluster.name", "name", name)
	case fleet.EventRemains:
		log.Warn("this daemon stays in the roster, though it ends", "error", e.Err)
	case fleet.EventClock:
		log.Warn("this machine's clock and the database's differ; the database's counts", "database_ahead", e.Ahead.Round(time.Millisecond))
	case fleet.EventDrains:
		log.Info("this daemon gives its partitions away, and takes none, as it was told to")
	case fleet.EventUndrained:
		log.Info("this daemon takes partitions again")
	case fleet.EventRebalances:
		log.Info("this daemon gives to others what they should have, as it was told to")
	case fleet.EventRefuses:
		log.Warn("this daemon takes no partition", "error", e.Err)
	case fleet.EventAgrees:
		log.Info("this daemon takes partitions again: its core is the one that counts")
	case fleet.EventMoved, fleet.EventRanOn, fleet.EventUnusable, fleet.EventUnfit: // of a partition of several: see logMove
	case fleet.EventUntimed:
		log.Warn("the database does not tell the time; what was last known of it counts until it does", "error", e.Err)
	}
}
