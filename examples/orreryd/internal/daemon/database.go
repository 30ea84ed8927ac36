package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
)

// take opens the database and the addresses. A database that exists is opened first: if
// another daemon has both, the error names the file. A new database is made last, so
// that no file is left behind if the address is in use or a runner cannot be made.
func (d *daemon) take(ctx context.Context) (err error) {
	if d.c.Database != "" {
		return d.takeShared(ctx)
	}
	if _, err := os.Stat(d.c.DB); errors.Is(err, os.ErrNotExist) {
		if err := d.takeAddresses(ctx); err != nil {
			return err
		}
	}
	if d.runners, err = d.c.MakeRunners(d.log); err != nil {
		return err
	}
	st, err := bolt.Open(d.c.DB, bolt.Options{Logger: d.log, Redo: redo(&d.c)})
	if err != nil {
		if errors.Is(err, bolt.ErrLocked) {
			err = fmt.Errorf("%w: is another orreryd running on it?", err)
		}
		return err
	}
	d.store = st
	return d.takeAddresses(ctx)
}

// takeShared opens the addresses, and then the database that others may have: one that is gone, but has not given it back, is
// waited for.
func (d *daemon) takeShared(ctx context.Context) (err error) {
	if err := d.takeAddresses(ctx); err != nil {
		return err
	}
	if d.runners, err = d.c.MakeRunners(d.log); err != nil {
		return err
	}
	name, err := d.c.Instance()
	if err != nil {
		return err
	}
	st, err := postgres.Open(ctx, d.c.Database, postgres.Options{Owner: name, Address: d.api.url(), Lease: d.c.Lease(), Logger: d.log})
	switch {
	case errors.Is(err, store.ErrClaimed):
		return fmt.Errorf("%s: %w: one daemon at a time works on it", d.c.StoreName(), err)
	case err != nil:
		return fmt.Errorf("%s: %w", d.c.StoreName(), err)
	}
	d.store, d.shared = st, st
	d.log.Info("the database is this daemon's", "database", d.c.StoreName(), "name", name, "token", st.Token())
	return nil
}

// watchStore waits until the store has failed for good, or ctx has ended. What a disk that
// has failed holds only a new start finds out, which is the supervisor's to make.
func (d *daemon) watchStore(ctx context.Context) error {
	renew := d.renewEvery()
	for renewed := time.After(renew); ; {
		select {
		case <-d.store.Failed():
			err := fmt.Errorf("the database %s takes nothing any more: %w", d.c.StoreName(), d.store.Failure())
			if errors.Is(err, store.ErrFenced) {
				d.log.Error("stopping: another daemon has taken the database over, as this one gave no sign of life; nothing of what runs here is stored", "error", err)
			} else {
				d.log.Error("stopping, to be started again: what was under way may have been stored or not", "error", err)
			}
			return err
		case <-renewed:
			if err := d.shared.Renew(ctx); err != nil && ctx.Err() == nil && d.store.Failure() == nil {
				d.log.Warn("the database does not take a sign of life; trying again", "database", d.c.StoreName(), "error", err)
			}
			renewed = time.After(renew)
		case <-ctx.Done():
			return nil
		}
	}
}

// renewEvery is how often a shared database is given a sign of life; for ever, so to say, for another one.
func (d *daemon) renewEvery() time.Duration {
	if d.shared == nil {
		return 1<<63 - 1
	}
	return d.c.Lease() / 5
}

// redo says for how long the log is kept behind the checkpoints.
func redo(c *config.Config) bolt.Redo {
	r := c.Retention
	if r.RedoDays == 0 {
		return bolt.Redo{}
	}
	return bolt.Redo{Age: config.Seconds(r.RedoDays * 86400), Bytes: r.RedoSize, Folder: r.RedoFolder}
}
