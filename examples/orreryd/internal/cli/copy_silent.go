package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// A source on PostgreSQL has signs of life of daemons: of the owners of its partitions, and of former owners, which have given a partition back and go on with what
// they carry out there. A copy of what a living one works on would have that carried out twice.

const (
	copyLease = 10 * time.Second // for which a copy is silent that was interrupted
	copyLooks = 20               // at signs of life, within a lease
)

// copied is a partition of a source on PostgreSQL. One on which nobody has ever worked has its number alone.
type copied struct {
	postgres.Partition
	formers []store.Former
}

// silent returns once all daemons that are noted in the source have been silent for a lease; it refuses the source if one gives a sign of life. It changes seen to what
// there is then.
func (c *copying) silent(ctx context.Context, cluster *postgres.Cluster, seen []copied) error {
	lease := copyLease
	if c.lease != 0 {
		lease = config.Seconds(c.lease)
	}
	for range copyLooks {
		if !slices.ContainsFunc(seen, func(p copied) bool { return p.Owned() || len(p.formers) > 0 }) {
			return nil
		}
		pause := time.NewTimer(lease / copyLooks)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
		now, err := cluster.Partitions(ctx)
		if err != nil {
			return fmt.Errorf("--from: %s: %w", storeName(c.from), err)
		}
		for _, p := range now {
			if p.Number >= len(seen) {
				continue // look has found none
			}
			if err := c.still(ctx, cluster, &seen[p.Number], p); err != nil {
				return err
			}
		}
	}
	return nil
}

// still refuses a partition of which a daemon has given a sign of life since it was seen.
func (c *copying) still(ctx context.Context, cluster *postgres.Cluster, seen *copied, now postgres.Partition) error {
	was := seen.Partition
	seen.Partition = now
	moved := now.Token != was.Token || now.Session != was.Session
	switch {
	case now.Owned() && (moved || now.Beat != was.Beat):
		return fmt.Errorf("--from: %s: partition %d: %w: %q at %q owns it and gives signs of life: stop the daemon first",
			storeName(c.from), now.Number, store.ErrClaimed, now.Owner, now.Address)
	case !moved && !was.Owned() && len(seen.formers) == 0:
		return nil
	}
	return c.formersStill(ctx, cluster, seen)
}

// formersStill refuses a partition of which a former owner has given a sign of life since it was seen, or of which there are results that nobody has taken.
func (c *copying) formersStill(ctx context.Context, cluster *postgres.Cluster, seen *copied) error {
	formers, err := c.formersOf(ctx, cluster, seen.Number)
	if err != nil {
		return err
	}
	for _, f := range formers {
		if !slices.ContainsFunc(seen.formers, func(was store.Former) bool { return was.Session == f.Session && was.Beat == f.Beat }) {
			return fmt.Errorf("--from: %s: the daemon %q has given partition %d back, goes on with what it carries out there, and gives signs of life: wait until it has ended, or stop it",
				storeName(c.from), f.Owner, seen.Number)
		}
	}
	seen.formers = formers
	return nil
}

// formersOf gives the former owners of a partition, and refuses it if one has told what nobody has taken. That stands beside the partition, and only a daemon that
// owns the partition can tell the machines: a copy would not have it.
func (c *copying) formersOf(ctx context.Context, cluster *postgres.Cluster, partition int) ([]store.Former, error) {
	formers, results, err := cluster.Formers(ctx, partition, 1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--from: %s: %w", storeName(c.from), err)
	case len(formers) > 0 && c.lease == 0:
		return nil, fmt.Errorf("--from: %s: the daemon %q has given partition %d back, and goes on with what it carries out there: wait until it has ended; if it has crashed, name its cluster.lease_seconds with --lease",
			storeName(c.from), formers[0].Owner, partition)
	case len(results) > 0:
		return nil, fmt.Errorf("--from: %s: a daemon has told what came of a run in partition %d after it had given that back, and no daemon has noted it yet: start a daemon on it, and stop it",
			storeName(c.from), partition)
	}
	return formers, nil
}

// dismiss takes out the former owners that were silent, as a daemon does that owns the partition: one that was frozen, and not crashed, ends what it carries out once it
// finds that. The partitions are claimed, so no other one comes.
func (c *copying) dismiss(ctx context.Context, seen []copied, claimed []*postgres.Store) (err error) {
	cluster, err := postgres.Connect(ctx, c.from, postgres.Options{})
	if err != nil {
		return fmt.Errorf("--from: %s: %w", storeName(c.from), err)
	}
	defer cluster.Close()
	for k := range seen {
		p := &seen[k]
		if claimed[k] == nil {
			continue
		}
		if err := c.formersStill(ctx, cluster, p); err != nil {
			return err
		}
		for _, f := range p.formers {
			if err := cluster.Depart(ctx, p.Number, claimed[k].Session(), f.Session); err != nil {
				return fmt.Errorf("--from: %s: %w", storeName(c.from), err)
			}
		}
		if len(p.formers) > 0 { // it may have reported until now, and cannot from now on
			if err := c.formersStill(ctx, cluster, p); err != nil {
				return err
			}
		}
	}
	return nil
}
