package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
)

// copying are the flags of a copy.
type copying struct {
	*app
	from, to string
	trusting bool
}

// copyReport is what copy --json prints.
type copyReport struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Batch uint64 `json:"batch"` // the last one
}

func (a *app) copyCommand() *cobra.Command {
	c := copying{app: a}
	cmd := &cobra.Command{
		Use:   "copy --from FILE|URL --to FILE|URL",
		Short: "Copy a stopped database, journal and all, from a file to PostgreSQL, or back",
		Long: `Copy all of a database that no daemon works on, with its journal, into a new one: from
a file to PostgreSQL, back, or from one to another of the same kind. What a daemon does
with the copy is what it would have done with the source, which stays as it is.

First the journal of the source is folded through the core, as "orreryd replay --verify"
does: a source that differs from its journal is not copied, unless --no-verify is given.

A file that is made must not exist, and appears when it is whole. A database on PostgreSQL must
have no content of Orrery; until the copy is whole no daemon opens it, and a copy that
was interrupted is begun anew by the same command.

Do not start a daemon on the source afterwards: what is under way in it is under way in the
copy, too.`,
		Example: "  orreryd copy --from orrery.db --to postgres://orrery@db.example/orrery\n  orreryd copy --from postgres://orrery@db.example/orrery --to orrery.db",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&c.from, "from", "", "`database` that is copied: a file, or the URL of one on PostgreSQL")
	cmd.Flags().StringVar(&c.to, "to", "", "`database` that is made: a file, or the URL of one on PostgreSQL")
	cmd.Flags().BoolVar(&c.trusting, "no-verify", false, "copy also what differs from its journal")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

// storeName says which database it is, without a password.
func storeName(place string) string {
	if config.IsDatabaseURL(place) {
		return config.DatabaseName(place)
	}
	return place
}

// source is what can be copied.
type source interface {
	store.Store
	store.Exporter
}

func (c *copying) run(ctx context.Context) (err error) {
	switch {
	case c.from == "":
		return usagef("--from: missing: name a database file, or the URL of a database on PostgreSQL")
	case c.to == "":
		return usagef("--to: missing: name a file to make, or the URL of a database on PostgreSQL")
	case c.from == c.to:
		return usagef("--to: is the source itself")
	}
	from, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := c.verify(ctx, from); err != nil {
		return err
	}
	if !config.IsDatabaseURL(c.to) {
		made, err := bolt.MakeFile(ctx, c.to, from)
		if err != nil {
			return existsHint(err)
		}
		return c.done(made.Seq, made.Omitted, made.Left)
	}
	to := omissions{Exporter: from}
	seq, err := c.fill(ctx, &to)
	if err != nil {
		return err
	}
	return c.done(seq, to.list, uint64(len(to.list)))
}

// open opens the source. One on PostgreSQL is claimed, so that no daemon works on it.
func (c *copying) open(ctx context.Context) (source, error) {
	if !config.IsDatabaseURL(c.from) {
		if _, err := os.Stat(c.from); errors.Is(err, os.ErrNotExist) {
			return nil, &exitError{code: exitNotFound, err: fmt.Errorf("--from: there is no file %s", c.from)}
		}
		return openStopped(c.from)
	}
	looked, err := beside(ctx, "--from", c.from) // which makes no tables
	if err != nil {
		return nil, err
	}
	if err := looked.Close(); err != nil {
		return nil, err
	}
	st, err := postgres.Open(ctx, c.from, postgres.Options{Owner: "orreryd copy"})
	if errors.Is(err, store.ErrClaimed) {
		err = fmt.Errorf("%w: stop the daemon first", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %s: %w", storeName(c.from), err)
	}
	return st, nil
}

func (c *copying) verify(ctx context.Context, from store.Store) error {
	if c.trusting {
		return nil
	}
	r, err := replay.Verify(ctx, from, replay.Options{MaxDivergences: 10, Memory: replay.DefaultMemory})
	if err != nil {
		return err
	}
	for _, d := range r.Divergences {
		text.Sayf(c.err, "%s\n", text.Clean(d.String()))
	}
	if !r.Clean() {
		return fmt.Errorf("%s differs from its journal, and was not copied: with --no-verify it is", storeName(c.from))
	}
	return nil
}

// fill makes the database on PostgreSQL, and gives its last batch.
func (c *copying) fill(ctx context.Context, from store.Exporter) (seq uint64, err error) {
	st, err := postgres.Open(ctx, c.to, postgres.Options{Owner: "orreryd copy", Fill: true})
	if err != nil {
		return 0, fmt.Errorf("--to: %s: %w", storeName(c.to), err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Import(ctx, from); err != nil {
		return 0, fmt.Errorf("--to: %s: %w; the same command begins anew", storeName(c.to), err)
	}
	err = st.View(ctx, func(tx store.ReadTx) (err error) {
		seq, err = tx.Seq()
		return err
	})
	return seq, err
}

// omissions notes what a copy lacks.
type omissions struct {
	store.Exporter
	list []store.Omission
}

func (o *omissions) Export(ctx context.Context, to store.Sink) error {
	return o.Exporter.Export(ctx, noting{to, o})
}

type noting struct {
	store.Sink
	o *omissions
}

func (n noting) Omitted(o store.Omission) error {
	n.o.list = append(n.o.list, o)
	return n.Sink.Omitted(o)
}

func (c *copying) done(seq uint64, omitted []store.Omission, left uint64) error {
	from, to := storeName(c.from), storeName(c.to)
	err := c.show(copyReport{from, to, seq}, fmt.Sprintf("%s has all of %s, up to batch %d; no daemon is to be started on %s any more\n",
		text.Clean(to), text.Clean(from), seq, text.Clean(from)))
	if err == nil {
		err = c.tellLeftOut("copy", omitted, left)
	}
	return err
}
