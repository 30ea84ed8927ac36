package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

const (
	copyOwner = "orreryd copy"         // by which those know a copy whom it keeps away
	copyBeat  = 200 * time.Millisecond // between signs of life of a copy: five within the shortest lease of a daemon
	maxLease  = 24 * 60 * 60           // seconds
)

// copyAddress says where a copy runs, for whom it keeps away.
func copyAddress() string {
	host, err := os.Hostname()
	if err != nil {
		return "?"
	}
	return host
}

// claim opens the partitions of a source on PostgreSQL, so that no daemon can work on them, unless one may do so now. One on which
// nobody has ever worked is nil.
func (c *copying) claim(ctx context.Context) (all []*postgres.Store, err error) {
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(all))
		}
	}()
	for k, p := range seen {
		var st *postgres.Store
		if p.Token > 0 {
			if st, err = c.claimOne(ctx, p.Partition); err != nil {
				return all, err
			}
		}
		if all = append(all, st); k != p.Number {
			return all, fmt.Errorf("--from: %s: partition %d stands in the place of partition %d", storeName(c.from), p.Number, k)
		}
	}
	return all, c.dismiss(ctx, seen, all)
}

// claimOne opens a partition if it is as it was seen: given back, or of an owner that was silent until then.
func (c *copying) claimOne(ctx context.Context, seen postgres.Partition) (*postgres.Store, error) {
	st, err := postgres.Open(ctx, c.from, postgres.Options{Owner: copyOwner, Address: copyAddress(), Partition: seen.Number, Seen: &seen})
	if errors.Is(err, store.ErrClaimed) {
		err = fmt.Errorf("%w: stop the daemon first", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %s: %w", storeName(c.from), err)
	}
	return st, nil
}

// isOwned refuses a partition that a daemon owns, unless it has crashed. A copy gives signs of life far within the lease that is taken by itself.
func (c *copying) isOwned(seen postgres.Partition) error {
	if !seen.Owned() || c.lease != 0 || seen.Owner == copyOwner {
		return nil
	}
	return fmt.Errorf("--from: %s: %q at %q owns it: stop the daemon first; if it has crashed, name its cluster.lease_seconds with --lease",
		storeName(c.from), seen.Owner, seen.Address)
}

// look says how the partitions of the source are, once no daemon works on any of them, and changes nothing.
func (c *copying) look(ctx context.Context) ([]copied, error) {
	name := storeName(c.from)
	first, err := beside(ctx, "--from", c.from, 0) // which makes no tables
	if err == nil {
		err = first.Close()
	}
	if err != nil {
		return nil, err
	}
	o := postgres.Options{ReadOnly: c.dry}
	layout, err := layoutBy(ctx, "--from", c.from, o)
	if err != nil {
		return nil, err
	}
	if layout.Partitions > 1 && layout.Rule != core.PartitionRule {
		return nil, fmt.Errorf("--from: %s has %s, and this program knows rule %d: copy it with a newer one", name, layout, core.PartitionRule)
	}
	cluster, err := postgres.Connect(ctx, c.from, o)
	if err != nil {
		return nil, fmt.Errorf("--from: %s: %w", name, err)
	}
	defer cluster.Close()
	opened, err := cluster.Partitions(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--from: %s: %w", name, err)
	case len(opened) == 0:
		return nil, &exitError{code: exitNotFound, err: fmt.Errorf("--from: %s: no daemon has worked on it yet", name)}
	}
	all := make([]copied, layout.Partitions)
	for k := range all {
		all[k].Number = k
	}
	for _, p := range opened {
		if p.Number >= len(all) {
			return nil, fmt.Errorf("--from: %s: there is a partition %d, and its layout has %d", name, p.Number, len(all))
		}
		all[p.Number].Partition = p
		if err := c.isOwned(p); err != nil {
			return nil, err
		}
		if all[p.Number].formers, err = c.formersOf(ctx, cluster, p.Number); err != nil {
			return nil, err
		}
	}
	return all, c.silent(ctx, cluster, all)
}

// heldAll is [held] with several databases. Nil ones are passed over.
func heldAll(ctx context.Context, all []*postgres.Store, do func(context.Context) error) error {
	for k, st := range all {
		if st != nil {
			return held(ctx, st, func(ctx context.Context) error { return heldAll(ctx, all[k+1:], do) })
		}
	}
	return do(ctx)
}

// closeAll closes all that are not nil.
func closeAll(all []*postgres.Store) (err error) {
	for _, st := range all {
		if st != nil {
			err = errors.Join(err, st.Close())
		}
	}
	return err
}

// held does something with a database, gives signs of life meanwhile, and ends it if somebody else takes the database over.
func held(ctx context.Context, st *postgres.Store, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(copyBeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-st.Failed():
				cancel(st.Failure())
				return
			case <-tick.C:
				_ = st.Renew(ctx) // Failed tells
			}
		}
	}()
	err := do(ctx)
	cancel(nil)
	<-done
	if lost := st.Failure(); lost != nil {
		return lost
	}
	return err
}
