package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// take opens the database and the addresses. A database that exists is opened first: if
// another daemon has both, the error names the file. A new database is made last, so
// that no file is left behind if the address is in use or a runner cannot be made.
func (d *daemon) take(ctx context.Context) (err error) {
	if d.term != nil {
		return d.takeTerm()
	}
	if _, err := os.Stat(d.c.DB); errors.Is(err, os.ErrNotExist) {
		if err := d.takeAddresses(ctx); err != nil {
			return err
		}
	}
	if d.runners, err = d.c.MakeRunners(nil, d.log); err != nil {
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

// takeTerm takes what the daemon has for its term.
func (d *daemon) takeTerm() (err error) {
	d.store = d.term.Store
	if d.term.host != nil {
		d.runners, err = d.c.MakeRunners(d.term.host.pools, d.log)
		return err
	}
	d.api.listener = d.term.api.gate.turn()
	if d.term.page != nil {
		d.page.listener = d.term.page.gate.turn()
	}
	d.runners, err = d.c.MakeRunners(nil, d.log)
	return err
}

// watchStore waits until the store has failed for good, or ctx has ended. What a disk that
// has failed holds only a new start finds out, which is the supervisor's to make; a database that is
// shared is claimed anew.
func (d *daemon) watchStore(ctx context.Context) error {
	select {
	case <-d.store.Failed():
	case <-ctx.Done():
		select {
		case <-d.store.Failed(): // then it has ended ctx
		default:
			return nil
		}
	}
	of := ""
	if d.hosted() {
		of = fmt.Sprintf("partition %d of ", d.term.Partition)
	}
	err := fmt.Errorf("%sthe database %s takes nothing any more: %w", of, d.c.StoreName(), d.store.Failure())
	switch {
	case errors.Is(err, store.ErrFenced): // the fleet tells of it: see logEvent and logMove
	case d.term != nil:
		d.log.Error("ending what runs: what was under way may have been stored or not", "error", err)
	default:
		d.log.Error("stopping, to be started again: what was under way may have been stored or not", "error", err)
	}
	return err
}

// redo says for how long the log is kept behind the checkpoints.
func redo(c *config.Config) bolt.Redo {
	r := c.Retention
	if r.RedoDays == 0 {
		return bolt.Redo{}
	}
	return bolt.Redo{Age: config.Seconds(r.RedoDays * 86400), Bytes: r.RedoSize, Folder: r.RedoFolder}
}
