package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
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

// claim opens a source on PostgreSQL, so that no daemon can work on it, unless one may do so now.
func (c *copying) claim(ctx context.Context) (*postgres.Store, error) {
	name := storeName(c.from)
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	o := postgres.Options{Owner: copyOwner, Address: copyAddress()}
	switch {
	case !seen.Owned():
		o.Seen = &seen
	case c.lease != 0:
		o.Lease = config.Seconds(c.lease)
	case seen.Owner != copyOwner: // a copy gives signs of life far within the lease that is taken by itself
		return nil, fmt.Errorf("--from: %s: %q at %q owns it: stop the daemon first; if it has crashed, name its cluster.lease_seconds with --lease",
			name, seen.Owner, seen.Address)
	}
	st, err := postgres.Open(ctx, c.from, o)
	if errors.Is(err, store.ErrClaimed) {
		err = fmt.Errorf("%w: stop the daemon first", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %s: %w", name, err)
	}
	return st, nil
}

// look says who owns the only partition of the source, and changes nothing.
func (c *copying) look(ctx context.Context) (p postgres.Partition, err error) {
	name := storeName(c.from)
	looked, err := beside(ctx, "--from", c.from, 0) // which makes no tables
	if err != nil {
		return p, err
	}
	if err := looked.Close(); err != nil {
		return p, err
	}
	if err := undivided(ctx, "--from", c.from); err != nil {
		return p, err
	}
	cluster, err := postgres.Connect(ctx, c.from, postgres.Options{})
	if err != nil {
		return p, fmt.Errorf("--from: %s: %w", name, err)
	}
	defer cluster.Close()
	all, err := cluster.Partitions(ctx)
	switch {
	case err != nil:
		return p, fmt.Errorf("--from: %s: %w", name, err)
	case len(all) == 0:
		return p, &exitError{code: exitNotFound, err: fmt.Errorf("--from: %s: no daemon has worked on it yet", name)}
	}
	return all[0], nil
}

// undivided refuses a database whose tenants are divided over several partitions.
func undivided(ctx context.Context, flag, url string) error {
	layout, err := layoutOf(ctx, flag, url)
	if err != nil {
		return err
	}
	if layout.Partitions > 1 {
		return fmt.Errorf("%s: %s is divided into %d partitions: only a database with one can be copied, and into one", flag, storeName(url), layout.Partitions)
	}
	return nil
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
