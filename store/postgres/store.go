package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
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
	// ErrNewer: the tables are those of a newer Orrery.
	ErrNewer = pgkv.ErrNewer
	// ErrLost: the database does not have what it had acknowledged, as after a failover to a standby that was behind.
	ErrLost = pgkv.ErrLost
)

// DefaultSchema is where the tables are if nothing else is said.
const DefaultSchema = "orrery"

// DefaultLease is how long the owner of a store is silent before another process takes it over.
const DefaultLease = pgkv.DefaultLease

// defaultConnections bounds how many connections there are at a time, where the URL does not.
const defaultConnections = 16

// Options change how a database is opened. The zero value is right for a daemon that is to fail if another one
// has the store.
type Options struct {
	// Schema has the tables: a lower-case name of at most 63 letters, digits and underscores. Empty: [DefaultSchema].
	Schema string
	// Partition is the number of the part of the tables that is opened, from 0 on. Each is a store of its own.
	Partition int
	// Owner and Address are told to whoever finds the store claimed: a name of the process, and where it answers.
	Owner, Address string
	// Lease is how long the owner may be silent before another process takes the store over; it must be the same in all
	// of them. Zero: [DefaultLease].
	Lease time.Duration
	// Wait has Open wait until the store is free, or its owner silent, instead of failing with [store.ErrClaimed].
	Wait bool
	// Session names this opening instead of a random name: see store.Session.
	Session string
	// CheckpointBytes is how much stands in memory and in the log before it is brought into the table. Zero: 32 MiB.
	CheckpointBytes int64
	// CheckpointAfter is after what time it is at the latest. Zero: 5 s.
	CheckpointAfter time.Duration
	// CacheBytes is how much is kept in memory of what was read. Zero: 64 MiB.
	CacheBytes int64
	// Logger is told of lost connections and checkpoints that fail. Nil: nobody is told.
	Logger *slog.Logger
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Store is a claimed partition of a database. Its methods are safe for concurrent use.
type Store struct {
	db      *pgkv.DB
	learned tables.Learned // of the last Update, for the next one; the writer's

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup // transactions under way
}

// Open claims the store in a database, makes its tables if there are none, and reads what was committed last.
// See [Options.Wait] for what it does if another process has the store.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := open(ctx, url, o)
	if err != nil {
		return nil, fmt.Errorf("open the PostgreSQL database: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, url string, o Options) (*Store, error) {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	switch {
	case !schemaName.MatchString(o.Schema):
		return nil, fmt.Errorf("schema %q: want a name of at most 63 lower-case letters, digits and underscores, the first no digit", o.Schema)
	case o.Partition < 0:
		return nil, fmt.Errorf("partition %d: want a number from 0 on", o.Partition)
	case o.Lease < 0 || o.Lease > 0 && o.Lease < 100*time.Millisecond:
		return nil, fmt.Errorf("lease %s: want at least 100ms, or 0 for %s", o.Lease, DefaultLease)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err // which hides the password
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = defaultConnections
	}
	lease := o.Lease
	if lease == 0 {
		lease = DefaultLease
	}

	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = lease
	}
	setDefault(config, "application_name", "orrery")
	db, err := pgkv.Open(ctx, config, pgkv.Options{
		Schema: o.Schema, Partition: o.Partition, Owner: o.Owner, Address: o.Address, Lease: lease, Wait: o.Wait, Session: o.Session,
		Bytes: o.CheckpointBytes, After: o.CheckpointAfter, Cache: o.CacheBytes, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func setDefault(config *pgxpool.Config, name, value string) {
	if _, ok := config.ConnConfig.RuntimeParams[name]; !ok && value != "" {
		config.ConnConfig.RuntimeParams[name] = value
	}
}

// create puts into a new store what each has.
func (s *Store) create(ctx context.Context) error {
	t, err := s.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer t.Rollback()
	if t.Last() > 0 {
		return nil
	}
	if err := tables.Create(backing{t}); err != nil {
		return err
	}
	staged, err := t.Stage()
	if err != nil {
		return err
	}
	return staged.Wait()
}

// Failed is closed once the store refuses everything, until it is opened anew: another process has taken it over, or
// the database has lost what it had acknowledged. Failure tells why.
func (s *Store) Failed() <-chan struct{} { return s.db.Over() }

// Failure is why the store refuses everything; nil: it does not.
func (s *Store) Failure() error { return s.db.Broken() }

// LogStats implements [store.Logged].
func (s *Store) LogStats() store.LogStats { return s.db.Stats() }

// RoundTrips counts the requests to the database for which transactions have waited since Open.
func (s *Store) RoundTrips() uint64 { return s.db.RoundTrips() }

// Session implements [store.Store]: a random name for each Open.
func (s *Store) Session() string { return s.db.Session() }

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

// View implements [store.Store]: with a snapshot of the database, on a connection of its own.
func (s *Store) View(ctx context.Context, fn func(store.ReadTx) error) (err error) {
	if err := s.enter(ctx, "view"); err != nil {
		return err
	}
	defer s.open.Done()
	b, err := s.db.View(ctx)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	t := tables.NewReadTx(ctx, backing{b})
	defer guardRead("view", &err)
	defer func() {
		t.End()
		b.Rollback()
	}()
	return fn(t)
}

// guardRead turns the panic of a read that no guard stands around into an error. It is to be deferred itself; other
// panics go on.
func guardRead(op string, err *error) {
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

// Update implements [store.Store]. A context that ends before the commit begins rolls it back.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	durable, err := s.Stage(ctx, fn)
	if unknown := durable(); unknown != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return unknown // whatever fn has made of what it has read
	}
	return err
}

// Stage implements [store.Stager].
func (s *Store) Stage(ctx context.Context, fn func(store.Tx) error) (durable func() error, err error) {
	if err := s.enter(ctx, "update"); err != nil {
		return nothingSeen, err
	}
	b, err := s.db.Begin(ctx)
	if err != nil {
		s.open.Done()
		return nothingSeen, fmt.Errorf("update: %w", err)
	}
	t := tables.NewTx(ctx, backing{b}, s.db.Session(), &s.learned)
	defer func() {
		t.End()
		b.Rollback()
		if durable == nil { // fn panics
			s.open.Done()
		}
	}()
	if err := run(t, fn); err != nil {
		return s.durable(b.Seen()), err
	}
	seen := b.Seen()
	staged, err := b.Stage()
	if err != nil {
		return s.durable(seen), fmt.Errorf("commit: %w", err)
	}
	t.Committed(number(staged.Last()))
	return s.durable(staged), nil
}

// run has fn write, and puts what is written at the end.
func run(t *tables.Tx, fn func(store.Tx) error) (err error) {
	defer guardRead("update", &err)
	if err := t.RunAs(tables.FetchTx{Tx: t}, fn); err != nil {
		return err
	}
	t.Finish()
	return nil
}

// nothingSeen is for who has not come to read anything.
func nothingSeen() error { return nil }

func (s *Store) durable(staged pgkv.Staged) func() error {
	return sync.OnceValue(func() error {
		defer s.open.Done()
		if err := staged.Wait(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// Checkpoint brings all that is committed into the table from which others read. It is done by itself every
// few seconds.
func (s *Store) Checkpoint(ctx context.Context) error { return s.db.Checkpoint(ctx) }

// Backup implements [store.Store]: it writes a stream that package stream reads.
func (s *Store) Backup(ctx context.Context, w io.Writer) (int64, error) {
	written, err := stream.Write(ctx, w, s, stream.Options{})
	return written.Bytes, err
}

// Export implements [store.Exporter].
func (s *Store) Export(ctx context.Context, to store.Sink) error {
	return s.View(ctx, func(tx store.ReadTx) error { return tables.Export(tx.(*tables.ReadTx), to, tables.ExportOptions{}) })
}

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, from store.Exporter) error {
	if err := s.enter(ctx, "import"); err != nil {
		return err
	}
	defer s.open.Done()
	return tables.Import(ctx, &portions{ctx: ctx, s: s}, from)
}

// portions are the transactions of an Import, each of which is brought into the table.
type portions struct {
	ctx context.Context // of the one call of Import
	s   *Store
	tx  *pgkv.Tx
}

// Begin implements [tables.Portions].
func (p *portions) Begin() (_ tables.Backing, err error) {
	if p.tx, err = p.s.db.Begin(p.ctx); err != nil {
		return nil, err
	}
	return backing{p.tx}, nil
}

// Commit implements [tables.Portions].
func (p *portions) Commit() error {
	staged, err := p.tx.Stage()
	if err == nil {
		err = staged.Wait()
	}
	if err != nil {
		return err
	}
	return p.s.db.Checkpoint(p.ctx)
}

// Rollback implements [tables.Portions].
func (p *portions) Rollback() { p.tx.Rollback() }

// Close implements [store.Store]: it brings what was committed into the table, and gives the store back, so that
// another process can open it at once. A second Close does nothing.
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
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// backing gives the record layer a transaction of package pgkv.
type backing struct{ *pgkv.Tx }

var (
	_ tables.Backing = backing{}
	_ tables.Fetcher = backing{}
)

// Table implements [tables.Backing].
func (b backing) Table(name string) tables.Table { return table{b.Tx.Table(name)} }

// Last implements [tables.Backing]: the commit of create does not count.
func (b backing) Last() uint64 { return number(b.Tx.Last()) }

// number gives that of a commit as the record layer counts them.
func number(of uint64) uint64 { return max(of, 1) - 1 }

type table struct{ *pgkv.Table }

// Cursor implements [tables.Table].
func (t table) Cursor() tables.Cursor { return t.Table.Cursor() }

// WarmCursor implements [tables.Table].
func (t table) WarmCursor() tables.Cursor { return t.Table.Cursor() }
