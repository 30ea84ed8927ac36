package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/repartition"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/stream"
)

// copying are the flags of a copy.
type copying struct {
	*app
	from, to      string
	partitions    int // of the copy; 0: as many as the database that is made has, or 1
	trusting      bool
	leavePods     bool
	leaveSessions bool
	dry           bool    // nothing is written
	lease         float64 // seconds; 0: an owner is not waited for
	tmp           string
}

// copyReport is what copy --json prints.
type copyReport struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Batch   uint64 `json:"batch"`   // the last one
	Entries uint64 `json:"entries"` // of all kinds; of another number of partitions records alone
	// Journal says that the journal was copied, Partitions is their number in the copy, and Left is what stays behind but for the journal.
	Journal    bool               `json:"journal"`
	Partitions int                `json:"partitions"`
	Left       []repartition.Left `json:"left,omitempty"`
	// DryRun says that nothing was written: what is told would be so. Records are then those of each partition, and Refused is why the copy would
	// fail.
	DryRun  bool     `json:"dry_run,omitempty"`
	Records []uint64 `json:"records,omitempty"`
	Refused []string `json:"refused,omitempty"`
}

func (a *app) copyCommand() *cobra.Command {
	c := copying{app: a}
	cmd := &cobra.Command{
		Use:   "copy --from FILE|URL --to FILE|URL",
		Short: "Copy a stopped database from a file to PostgreSQL, back, or into another number of partitions",
		Long: `Copy all of a database that no daemon works on, with its journal, into a new one: from
a file to PostgreSQL, back, or from one to another of the same kind. What a daemon does
with the copy is what it would have done with the source, which stays as it is.

The copy has as many partitions as the database on PostgreSQL was divided into by "orreryd cluster
init", or --partitions, which divides one that is new; else one, as a file has. If the source has
another number, each record goes to the partition of its tenant, and the journal stays behind: each
partition begins a new one above the last batch of all. What else stays behind is
told by name. Runs must have no pods in the cluster, unless --leave-pods is given, tasks no terminal
sessions, unless --leave-sessions is given, and webhooks must have become actions.

First the journal of the source is folded through the core, as "orreryd replay --verify"
does: a source that differs from its journal is not copied, unless --no-verify is given.

A file that is made must not exist, and appears when it is whole. A database on PostgreSQL must
have no content of Orrery; until the copy is whole no daemon opens it, and a copy that
was interrupted is begun anew by the same command.

A source on PostgreSQL must have been given back by its daemons, as a clean stop does, and none of them
may go on with a tool that it has begun there, since only they know how long they may be silent. After
a crash name their cluster.lease_seconds with --lease: the copy begins if no daemon gives a sign of life
for that long. What a daemon has told of its tools since, and no daemon has noted yet, would be lost: then
start a daemon on the source, and stop it. While the copy goes on, no daemon can work on the source. How
far it is is told on the standard error.

With --dry-run nothing is written: the source is read and verified, and it is told how many
records each partition would have, what would stay behind, and why the copy would fail. It
fails as the copy would. With --lease it waits for signs of life, too.

Do not start a daemon on the source afterwards: what is under way in it is under way in the
copy, too.`,
		Example: "  orreryd copy --from orrery.db --to postgres://orrery@db.example/orrery\n  orreryd copy --from postgres://orrery@db.example/orrery --to orrery.db\n  orreryd copy --from orrery.db --to postgres://orrery@db.example/orrery --partitions 16 --dry-run",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&c.from, "from", "", "`database` that is copied: a file, or the URL of one on PostgreSQL")
	cmd.Flags().StringVar(&c.to, "to", "", "`database` that is made: a file, or the URL of one on PostgreSQL")
	cmd.Flags().IntVar(&c.partitions, "partitions", 0, "`number` of partitions of the database that is made (default what it was divided into, or 1)")
	cmd.Flags().BoolVar(&c.leavePods, "leave-pods", false, "copy into another number of partitions also if runs have pods, which nobody watches or deletes then")
	cmd.Flags().BoolVar(&c.leaveSessions, "leave-sessions", false, "copy into another number of partitions also if tasks have terminal sessions, which nobody watches or ends then")
	cmd.Flags().BoolVar(&c.dry, "dry-run", false, "tell what would go where, and write nothing")
	cmd.Flags().BoolVar(&c.trusting, "no-verify", false, "copy also what differs from its journal")
	cmd.Flags().Float64Var(&c.lease, "lease", 0, "`seconds` without a sign of life after which the daemons of a source on PostgreSQL have crashed: their cluster.lease_seconds")
	cmd.Flags().StringVar(&c.tmp, "tmp", "", "`folder` of temporary files (default the system's)")
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

func (c *copying) check() error {
	switch {
	case c.from == "":
		return usagef("--from: missing: name a database file, or the URL of a database on PostgreSQL")
	case c.to == "":
		return usagef("--to: missing: name a file to make, or the URL of a database on PostgreSQL")
	case c.from == c.to:
		return usagef("--to: is the source itself")
	case c.partitions < 0 || c.partitions > store.MaxDivided:
		return badPartitions(c.partitions)
	case c.partitions > 1 && !config.IsDatabaseURL(c.to):
		return usagef("--partitions: a file has one partition: leave it out, or name a database on PostgreSQL with --to")
	case c.lease != 0 && !(c.lease >= 1 && c.lease <= maxLease):
		return usagef("--lease: %v is not between 1 and %d seconds", c.lease, maxLease)
	case c.lease != 0 && !config.IsDatabaseURL(c.from):
		return usagef("--lease: is of a source on PostgreSQL: leave it out for a file")
	case c.tmp != "" && !isFolder(c.tmp):
		return usagef("--tmp: there is no folder %s", c.tmp)
	}
	return nil
}

func (c *copying) run(ctx context.Context) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if _, err := os.Lstat(c.to); err == nil && !config.IsDatabaseURL(c.to) {
		return c.existsHint(os.ErrExist)
	}
	if c.dry {
		return c.dryRun(ctx)
	}
	if !config.IsDatabaseURL(c.from) {
		if _, err := os.Stat(c.from); errors.Is(err, os.ErrNotExist) {
			return &exitError{code: exitNotFound, err: fmt.Errorf("--from: there is no file %s", c.from)}
		}
		return withStopped(c.from, func(st *bolt.Store) error { return c.copy(ctx, []source{st}) })
	}
	stores, err := c.claim(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(stores)) }()
	return heldAll(ctx, stores, func(ctx context.Context) error {
		sources := make([]source, len(stores))
		for k, st := range stores {
			if st != nil {
				sources[k] = st
			}
		}
		return c.copy(ctx, sources)
	})
}

// copy copies what nobody works on. A nil source is a partition on which nobody has ever worked.
func (c *copying) copy(ctx context.Context, sources []source) error {
	to, err := c.partitionsOfCopy(ctx)
	if err != nil {
		return err
	}
	if err := c.verifyAll(ctx, sources); err != nil {
		return err
	}
	p := newProgress(c.err)
	defer p.end()
	if to > 1 || len(sources) > 1 {
		return c.repartition(ctx, sources, to, p)
	}
	from := &streamed{from: sources[0], tell: p.tell}
	if config.IsDatabaseURL(c.to) {
		if err := c.fill(ctx, from); err != nil {
			return err
		}
	} else if _, err := bolt.MakeFile(ctx, c.to, from); err != nil {
		return c.existsHint(err)
	}
	p.end()
	return c.done(from.sum)
}

// existsHint names the flag, and says what to do about a file that is there already.
func (c *copying) existsHint(err error) error {
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("--to: %s is there already: it is not overwritten: choose another name", c.to)
	}
	return err
}

// verifyAll verifies each partition of the source.
func (c *copying) verifyAll(ctx context.Context, sources []source) error {
	for k, source := range sources {
		if source == nil {
			continue
		}
		if err := c.verify(ctx, source); err != nil {
			if len(sources) > 1 {
				err = fmt.Errorf("partition %d: %w", k, err)
			}
			return err
		}
	}
	return nil
}

func (c *copying) verify(ctx context.Context, from store.Store) error {
	if c.trusting {
		return nil
	}
	clean, err := c.replays(ctx, from)
	if err == nil && !clean {
		err = fmt.Errorf("%s differs from its journal, and was not copied: with --no-verify it is", storeName(c.from))
	}
	return err
}

// replays folds a journal, and tells what differs; false: something does.
func (c *copying) replays(ctx context.Context, from store.Store) (clean bool, err error) {
	r, err := replay.Verify(ctx, from, replay.Options{MaxDivergences: 10, Memory: replay.DefaultMemory, Spill: c.tmp})
	if err != nil {
		return false, err
	}
	for _, d := range r.Divergences {
		text.Sayf(c.err, "%s\n", text.Clean(d.String()))
	}
	return r.Clean(), nil
}

// fill makes the database on PostgreSQL.
func (c *copying) fill(ctx context.Context, from store.Exporter) (err error) {
	st, err := postgres.Open(ctx, c.to, postgres.Options{Owner: copyOwner, Address: copyAddress(), Fill: true})
	if err != nil {
		return fmt.Errorf("--to: %s: %w", storeName(c.to), err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	err = held(ctx, st, func(ctx context.Context) error { return st.Import(ctx, from) })
	if err != nil {
		return fmt.Errorf("--to: %s: %w; the same command begins anew", storeName(c.to), err)
	}
	return nil
}

func (c *copying) done(sum stream.Summary) error {
	from, to := storeName(c.from), storeName(c.to)
	report := copyReport{From: from, To: to, Batch: sum.Head.Seq, Journal: true, Partitions: 1}
	for _, n := range sum.Entries {
		report.Entries += n
	}
	err := c.show(report, fmt.Sprintf("%s has all of %s, up to batch %d; no daemon is to be started on %s any more\n",
		text.Clean(to), text.Clean(from), report.Batch, text.Clean(from)))
	if err == nil {
		err = c.tellLeftOut("copy", sum.Omitted, sum.Left)
	}
	return err
}

// streamed is an exporter that tells how far it is. What it gives goes through a stream, whose checksums and counts are checked.
type streamed struct {
	from store.Exporter
	tell func(stream.Progress)
	sum  stream.Summary // once Export has returned nil
}

// errGivenUp is what the writer of a stream gets whose reader has failed.
var errGivenUp = errors.New("the copy was given up")

// Export implements [store.Exporter].
func (s *streamed) Export(ctx context.Context, to store.Sink) error {
	out, in := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, err := stream.Write(ctx, in, s.from, stream.Options{})
		_ = in.CloseWithError(err)
		written <- err
	}()
	err := s.read(ctx, out, to)
	_ = out.CloseWithError(errGivenUp)
	if wrong := <-written; wrong != nil && !errors.Is(wrong, errGivenUp) {
		return wrong // which is why reading has failed
	}
	return err
}

func (s *streamed) read(ctx context.Context, from io.Reader, to store.Sink) error {
	r, err := stream.NewReader(from)
	if err != nil {
		return err
	}
	r.Progress = s.tell
	err = r.Export(ctx, to)
	s.sum = r.Summary()
	return err
}
