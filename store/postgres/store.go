package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/internal/tables"
	"github.com/orrery-go/orrery/store/postgres/internal/pgkv"
	"github.com/orrery-go/orrery/store/stream"
)

var (
	_ store.Store    = (*Store)(nil)
	_ store.Stager   = (*Store)(nil)
	_ store.Logged   = (*Store)(nil)
	_ store.Exporter = (*Store)(nil)
	_ store.Importer = (*Store)(nil)
)

// Errors that callers decide on.
var (
	// ErrLost: the database lacks commits that were acknowledged, as after a failover to a standby that lagged behind.
	// Nobody opens the partition before [Cluster.AcceptLoss], or with [Options.AcceptLoss].
	ErrLost = store.ErrLost
	// ErrNewer: a newer Orrery made the tables, in a format unknown to this one.
	ErrNewer = pgkv.ErrNewer
	// ErrUnfilled: the partition was opened with Options.Fill, and Import has not come to its end.
	ErrUnfilled = pgkv.ErrUnfilled
	// ErrFull: the partition, which was to be opened with Options.Fill, has content already.
	ErrFull = pgkv.ErrFull
	// ErrOlder: the database was made by an earlier version, and Connect was told to change nothing.
	ErrOlder = pgkv.ErrOlder
	// ErrReadOnly: the store was opened with Options.ReadOnly.
	ErrReadOnly = pgkv.ErrReadOnly
)

// Options change how a partition is opened. The zero value is right for a single daemon.
type Options struct {
	// Schema has the tables; it is made where it is not there. Empty: orrery.
	Schema string
	// Partition is its number, from 0.
	Partition int
	// Owner and Address are what others find in the partition's row: the name of the instance, and where it
	// answers requests.
	Owner, Address string
	// ReadOnly opens the partition without claiming it: for Views, beside the owner. Update fails. See also [Connect].
	ReadOnly bool
	// TakeOver claims the partition although another one owns it, without looking for signs of life.
	TakeOver bool
	// Seen is for a watcher that has looked for them itself: Open claims the partition if it is still as Seen, and else
	// fails at once with [store.ErrClaimed].
	Seen *Partition
	// AcceptLoss opens a partition that was stopped with ErrLost, as it is.
	AcceptLoss bool
	// Fill opens a partition for one Import. It must be empty, or was opened so before, and not filled to the end: then it is
	// emptied. Until Import has come to its end nobody else opens it ([ErrUnfilled]).
	Fill bool
	// Lease is how long an owner may be silent before Open takes its partition over. Sessions that hold locks are ended by
	// the server after half of it. All who share a database have the same. Zero: 10 seconds.
	Lease time.Duration
	// Patience is how long a commit, and what it has to read, waits for a database that is away. Zero: 30 seconds.
	Patience time.Duration
	// Checkpoint is how long after a commit what it has changed is brought into the table entries, at the latest. Zero: 5
	// seconds.
	Checkpoint time.Duration
	// LogBytes is how many bytes of commits in memory begin a checkpoint before that; at four times as many commits wait
	// for it. Zero: 32 MiB.
	LogBytes int64
	// CacheBytes is how much the owner keeps of what it has read, in bytes. Zero: 64 MiB.
	CacheBytes int
	// Views is how many Views may be open at the same time; more wait. Each has a connection. The partitions of a [Cluster] share them, and each has one more for itself. Zero: 16.
	Views int
	// Configure changes how connections are made, such as their TLS or a tracer. It is called for each of the two
	// pools, of Views and of commits, that a partition has, or all partitions of a [Cluster] together. Nil: as the URL says.
	Configure func(*pgxpool.Config)
	// Logger is told of what goes wrong and is tried again. Nil: nobody is told.
	Logger *slog.Logger
}

func (o Options) kv() pgkv.Options {
	k := pgkv.Options{
		Schema: o.Schema, Partition: o.Partition, Owner: o.Owner, Address: o.Address, ReadOnly: o.ReadOnly,
		TakeOver: o.TakeOver, AcceptLoss: o.AcceptLoss, Fill: o.Fill, Lease: o.Lease, Patience: o.Patience, Configure: o.Configure,
		Bytes: o.LogBytes, After: o.Checkpoint, Cache: o.CacheBytes, Views: o.Views, Logger: o.Logger,
	}
	if o.Seen != nil {
		k.Seen = &pgkv.Row{Token: o.Seen.Token, Beat: o.Seen.Beat}
	}
	return k
}

func (o Options) validate() error {
	switch {
	case o.Partition < 0:
		return fmt.Errorf("partition is %d: want 0 or more", o.Partition)
	case o.ReadOnly && (o.TakeOver || o.Seen != nil || o.Fill):
		return errors.New("ReadOnly with TakeOver, Seen or Fill: who only reads claims nothing")
	case o.Lease < 0 || o.Patience < 0 || o.Checkpoint < 0:
		return fmt.Errorf("lease %s, patience %s, checkpoint %s: want none of them negative", o.Lease, o.Patience, o.Checkpoint)
	case o.LogBytes < 0 || o.CacheBytes < 0 || o.Views < 0:
		return fmt.Errorf("LogBytes is %d, CacheBytes %d, Views %d: want none of them negative", o.LogBytes, o.CacheBytes, o.Views)
	}
	return nil
}

// Store is a partition that is open. Its methods are safe for concurrent use. Views do not wait for Updates.
type Store struct {
	db      *pgkv.DB
	fills   bool
	writer  chan struct{} // holds one value while an Update runs, until it waits for the database
	learned tables.Learned

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup // transactions under way
}

// Open opens a partition of the database that a URL in libpq's form leads to, and claims it: see [Options]. It makes
// the tables, and the partition, where they are not there.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o, nil)
}

// open does so with connections that others have, too; nil: with those of its own.
func open(ctx context.Context, url string, o Options, by *pgkv.Pools) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	with := o.kv()
	with.Pools = by
	db, err := pgkv.Open(ctx, url, with)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	s := &Store{db: db, fills: o.Fill, writer: make(chan struct{}, 1)}
	if !o.ReadOnly {
		if err := s.create(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("open the database: %w", err), db.Close())
		}
	}
	return s, nil
}

// create makes the first commit of a new partition.
func (s *Store) create(ctx context.Context) (err error) {
	defer tables.Guard("create", &err)
	tx, err := s.db.Begin(ctx, true)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if tx.Last() != 0 {
		return nil
	}
	if err := tables.Create(backing{tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// Session implements [store.Store]: a random name for each Open.
func (s *Store) Session() string { return s.db.Session() }

// Token is the fencing token of this opening: each claim of the partition makes it greater.
func (s *Store) Token() uint64 { return s.db.Claimed().Token }

// Renew gives a sign of life of the owner. It fails with [store.ErrFenced] if another one owns the partition.
func (s *Store) Renew(ctx context.Context) error {
	if err := s.enter(ctx, "renew"); err != nil {
		return err
	}
	defer s.open.Done()
	return s.db.Renew(ctx)
}

// Failed is closed once the store refuses everything, until it was opened anew: another one owns the partition, the database
// was away for too long in a commit, or it has lost commits. Failure tells why.
func (s *Store) Failed() <-chan struct{} { return s.db.Over() }

// Failure is why the store refuses everything: [store.ErrFenced], [ErrLost] or another reason; nil: it does not.
func (s *Store) Failure() error { return s.db.Broken() }

// LogStats implements [store.Logged]: the table log takes the place of a file.
func (s *Store) LogStats() store.LogStats { return s.db.Stats() }

// enter counts a transaction that Close waits for, until s.open.Done.
func (s *Store) enter(ctx context.Context, op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	case s.closed:
		return fmt.Errorf("%s: %w", op, store.ErrClosed)
	}
	s.open.Add(1)
	return nil
}

// begin starts a transaction, unless ctx has ended. On success the caller
// calls s.open.Done when the transaction has ended.
func (s *Store) begin(ctx context.Context, op string, write bool) (*pgkv.Tx, error) {
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	t, err := s.db.Begin(ctx, write)
	if err != nil {
		s.open.Done()
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return t, nil
}

// View implements [store.Store]. It is a transaction of the database that sees one snapshot, and takes a connection
// as long as it lives; one of many minutes keeps the database from cleaning up.
func (s *Store) View(ctx context.Context, fn func(store.ReadTx) error) (err error) {
	return s.view(ctx, "view", func(t *tables.ReadTx) error { return fn(t) })
}

func (s *Store) view(ctx context.Context, op string, fn func(*tables.ReadTx) error) (err error) {
	ktx, err := s.begin(ctx, op, false)
	if err != nil {
		return err
	}
	t := tables.NewReadTx(ctx, backing{ktx})
	defer guardUnread(op, &err)
	defer func() {
		t.End()
		ktx.Rollback()
		s.open.Done()
	}()
	return fn(t)
}

// guardUnread turns the panic of a read that no guard stands around into an error. It is to be deferred itself; other
// panics go on.
func guardUnread(op string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	why := tables.Unread(p)
	if why == nil {
		panic(p)
	}
	*err = fmt.Errorf("%s: %w", op, why)
}

// lockWriter waits until nobody writes, and lets nobody else until unlockWriter.
func (s *Store) lockWriter(ctx context.Context) error {
	select {
	case s.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Store) unlockWriter() { <-s.writer }

// Update implements [store.Store]. A context that ends before the commit begins rolls it back. Several that wait for
// the database at the same time are written together.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	durable, err := s.Stage(ctx, fn)
	if unknown := durable(); unknown != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return unknown // whatever fn has made of what it has read
	}
	return err
}

// Stage implements [store.Stager]: what was staged is written once somebody waits for it. What is staged while a commit is
// under way is written with the next one, all in one statement.
func (s *Store) Stage(ctx context.Context, fn func(store.Tx) error) (durable func() error, err error) {
	if err := s.lockWriter(ctx); err != nil {
		return nothingSeen, fmt.Errorf("update: %w", err)
	}
	defer s.unlockWriter()
	ktx, err := s.begin(ctx, "update", true)
	if err != nil {
		return nothingSeen, err
	}
	t := tables.NewTx(ctx, backing{ktx}, s.Session(), &s.learned)
	defer func() {
		t.End()
		ktx.Rollback()
		if durable == nil { // fn panics
			s.open.Done()
		}
	}()
	if err := s.run(t, fn); err != nil {
		return s.durable(ktx.Seen()), err
	}
	staged, err := ktx.Stage()
	if err != nil {
		return s.durable(ktx.Seen()), fmt.Errorf("commit: %w", err)
	}
	t.Committed(number(staged.Last()))
	return s.durable(staged), nil
}

// run calls fn, and has what it has gathered written.
func (s *Store) run(t *tables.Tx, fn func(store.Tx) error) (err error) {
	defer guardUnread("update", &err)
	if err := t.RunAs(tables.FetchTx{Tx: t}, fn); err != nil {
		return err
	}
	t.Finish()
	return nil
}

// nothingSeen is for who has not come to read anything.
func nothingSeen() error { return nil }

// durable gives what waits for the database, once.
func (s *Store) durable(staged pgkv.Staged) func() error {
	return sync.OnceValue(func() error {
		defer s.open.Done()
		if err := staged.Wait(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// Backup implements [store.Store]: it writes a stream of package
// [github.com/orrery-go/orrery/store/stream], which any other store can be made of. A backup of the database itself, as
// its own programs make it, is as good.
func (s *Store) Backup(ctx context.Context, w io.Writer) (int64, error) {
	sum, err := stream.Write(ctx, w, s, stream.Options{})
	if err != nil {
		return sum.Bytes, fmt.Errorf("backup: %w", err)
	}
	return sum.Bytes, nil
}

// Export implements [store.Exporter].
func (s *Store) Export(ctx context.Context, to store.Sink) error {
	return s.view(ctx, "export", func(t *tables.ReadTx) error { return tables.Export(t, to, tables.ExportOptions{}) })
}

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, from store.Exporter) error {
	if err := s.lockWriter(ctx); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer s.unlockWriter()
	if err := tables.Import(ctx, &portions{ctx: ctx, s: s}, from); err != nil || !s.fills {
		return err
	}
	if err := s.db.Filled(ctx); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// portions are the transactions of one Import.
type portions struct {
	ctx context.Context // of the one call of Import
	s   *Store
	tx  *pgkv.Tx
}

// Begin implements [tables.Portions].
func (p *portions) Begin() (tables.Backing, error) {
	tx, err := p.s.begin(p.ctx, "write", true)
	if err != nil {
		return nil, err
	}
	p.tx = tx
	return backing{tx}, nil
}

// Commit implements [tables.Portions]: a checkpoint makes room in memory.
func (p *portions) Commit() error {
	defer p.s.open.Done()
	if err := p.tx.Commit(); err != nil {
		return err
	}
	return p.s.db.Checkpoint(p.ctx)
}

// Rollback implements [tables.Portions].
func (p *portions) Rollback() {
	p.tx.Rollback()
	p.s.open.Done()
}

// Close implements [store.Store]: it gives the partition back, so that another one may open it at once. A second Close
// does nothing. If the database is away, whoever opens the partition next waits for a lease.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.open.Wait()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
