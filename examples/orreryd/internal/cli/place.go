package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
)

// place is a database that a command reads: a file that no daemon has open, or one on PostgreSQL, beside the daemon.
type place struct {
	db, database string
	partition    int
	flags        *pflag.FlagSet
}

// databaseUsage is that of --database.
const databaseUsage = "`URL` of a PostgreSQL database, also of one that a daemon works on (default $ORRERY_DATABASE)"

// addTo adds --db and --database.
func (p *place) addTo(a *app, cmd *cobra.Command) {
	p.flags = cmd.Flags()
	p.flags.StringVar(&p.db, "db", a.env("ORRERY_DB"), anyFile)
	p.flags.StringVar(&p.database, "database", a.env("ORRERY_DATABASE"), databaseUsage)
	p.flags.IntVar(&p.partition, "partition", 0, "`number` of the partition, of a PostgreSQL database that is divided")
	for _, name := range []string{"db", "database"} {
		p.flags.Lookup(name).DefValue = "" // the usage names the variable
	}
}

// isNamed reports whether a flag says which.
func (p *place) isNamed() bool { return p.flags.Changed("db") || p.flags.Changed("database") }

// url gives the URL of the database; "": it is a file.
func (p *place) url() (string, error) {
	file, url := p.flags.Changed("db"), p.flags.Changed("database")
	switch {
	case file && url:
		return "", usagef("--database: stands beside --db: give one of them")
	case file && config.IsDatabaseURL(p.db):
		return "", usagef("--db: is a URL, and no file: give it as --database")
	case file || p.database == "":
		return "", nil
	case !config.IsDatabaseURL(p.database):
		return "", usagef("--database: is no URL of PostgreSQL: want one such as postgres://orrery@db.example/orrery; a file is named by --db")
	}
	return p.database, nil
}

// name says which it is, for people.
func (p *place) name() string {
	if url, err := p.url(); err == nil && url != "" {
		return config.DatabaseName(url)
	}
	return p.db
}

// read does something with the database, which nobody changes.
func (p *place) read(ctx context.Context, do func(store.Store) error) (err error) {
	url, err := p.url()
	if err != nil {
		return err
	}
	named := p.flags.Changed("partition")
	switch {
	case url == "" && named:
		return usagef("--partition: is of a PostgreSQL database: leave it out for a file")
	case p.partition < 0:
		return usagef("--partition: %d is no number of a partition: the first one is 0", p.partition)
	case url == "":
		return withStopped(p.db, func(st *bolt.Store) error { return do(st) })
	}
	st, err := beside(ctx, "--database", url, p.partition)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	layout, err := layoutOf(ctx, "--database", url)
	switch {
	case err != nil:
		return err
	case layout.Partitions > 1 && !named:
		return usagef("--partition: missing: %s is divided into %d partitions: name one, from 0 to %d", config.DatabaseName(url), layout.Partitions, layout.Partitions-1)
	case p.partition >= layout.Partitions:
		return usagef("--partition: there is no partition %d: %s has %d, and the first one is 0", p.partition, config.DatabaseName(url), layout.Partitions)
	}
	return do(st)
}

// layoutOf says how a database is divided whose tables exist.
func layoutOf(ctx context.Context, flag, url string) (store.Layout, error) {
	cluster, err := postgres.Connect(ctx, url, postgres.Options{})
	if err != nil {
		return store.Layout{}, fmt.Errorf("%s: %s: %w", flag, config.DatabaseName(url), err)
	}
	defer cluster.Close()
	layout, err := cluster.Layout(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return store.Layout{Partitions: 1}, nil
	}
	if err != nil {
		return layout, fmt.Errorf("%s: %s: %w", flag, config.DatabaseName(url), err)
	}
	return layout, nil
}

// beside opens a database on PostgreSQL to look at, beside its daemon. The flag has named it.
func beside(ctx context.Context, flag, url string, partition int) (*postgres.Store, error) {
	st, err := postgres.Open(ctx, url, postgres.Options{ReadOnly: true, Partition: partition})
	if err == nil {
		if err = st.View(ctx, func(store.ReadTx) error { return nil }); err != nil { // nobody has made it yet, or half of it
			err = errors.Join(err, st.Close())
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, &exitError{code: exitNotFound, err: fmt.Errorf("%s: %s: %w", flag, config.DatabaseName(url), err)}
	case err != nil:
		return nil, fmt.Errorf("%s: %s: %w", flag, config.DatabaseName(url), err)
	}
	return st, nil
}
