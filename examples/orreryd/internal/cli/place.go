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
	case p.database == "" && config.IsDatabaseURL(p.db):
		return "", usagef("ORRERY_DB: is a URL, and no file: give it as ORRERY_DATABASE, or --database")
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

// checkFlags refuses flags that do not fit to each other, and gives the URL of the database; "": it is a file.
func (p *place) checkFlags() (url string, err error) {
	url, err = p.url()
	switch {
	case err != nil:
		return "", err
	case url == "" && p.flags.Changed("partition"):
		return "", usagef("--partition: is of a PostgreSQL database: leave it out for a file")
	case p.partition < 0:
		return "", usagef("--partition: %d is no number of a partition: the first one is 0", p.partition)
	}
	return url, nil
}

// read does something with the database, which nobody changes. Of one that is divided a flag has to name the partition.
func (p *place) read(ctx context.Context, do func(store.Store) error) (err error) {
	url, err := p.checkFlags()
	if err != nil {
		return err
	}
	if url == "" {
		return withStopped(p.db, func(st *bolt.Store) error { return do(st) })
	}
	return withBeside(ctx, url, p.partition, func(st store.Store) error {
		layout, err := p.layout(ctx, url)
		switch {
		case err != nil:
			return err
		case layout.Partitions > 1 && !p.flags.Changed("partition"):
			return usagef("--partition: missing: %s is divided into %d partitions: name one, from 0 to %d", config.DatabaseName(url), layout.Partitions, layout.Partitions-1)
		}
		return do(st)
	})
}

// each is read for each partition of a divided database, unless a flag names one. of is nothing, or begins what is said of one of several. A partition
// on which no daemon has worked yet is left out; the first one is not.
func (p *place) each(ctx context.Context, do func(of string, st store.Store) error) error {
	url, err := p.checkFlags()
	if err != nil {
		return err
	}
	if url == "" || p.flags.Changed("partition") {
		return p.read(ctx, func(st store.Store) error { return do("", st) })
	}
	partitions := 1
	err = withBeside(ctx, url, 0, func(st store.Store) error { // which tells best what a database lacks
		layout, err := p.layout(ctx, url)
		if err != nil {
			return err
		}
		if partitions = layout.Partitions; partitions == 1 {
			return do("", st)
		}
		return do(partitionOf(0), st)
	})
	for n := 1; n < partitions && err == nil; n++ {
		var worked bool
		err = withBeside(ctx, url, n, func(st store.Store) error {
			worked = true
			return do(partitionOf(n), st)
		})
		if !worked && errors.Is(err, store.ErrNotFound) {
			err = nil
		}
	}
	return err
}

// partitionOf begins what is said of a partition of several.
func partitionOf(n int) string { return fmt.Sprintf("partition %d: ", n) }

// layout says how the database is divided, and refuses a partition that it does not have. It changes nothing, so a role that may only read is enough.
func (p *place) layout(ctx context.Context, url string) (store.Layout, error) {
	layout, err := layoutBy(ctx, "--database", url, postgres.Options{ReadOnly: true})
	if err == nil && p.partition >= layout.Partitions {
		err = usagef("--partition: there is no partition %d: %s has %d, and the first one is 0", p.partition, config.DatabaseName(url), layout.Partitions)
	}
	return layout, err
}

// withBeside does something with a partition of a database on PostgreSQL, beside its daemon.
func withBeside(ctx context.Context, url string, partition int, do func(store.Store) error) (err error) {
	st, err := beside(ctx, "--database", url, partition)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return do(st)
}

// layoutOf says how a database is divided, and makes its tables if it has none.
func layoutOf(ctx context.Context, flag, url string) (store.Layout, error) {
	return layoutBy(ctx, flag, url, postgres.Options{})
}

func layoutBy(ctx context.Context, flag, url string, o postgres.Options) (store.Layout, error) {
	cluster, err := postgres.Connect(ctx, url, o)
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
