package pgkv

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/orrery-go/orrery/store"
)

// Errors that callers decide on.
var (
	// ErrNewer: a newer program made the tables, in a format unknown to this one.
	ErrNewer = errors.New("the tables were made by a newer Orrery")
	// ErrLost: the database does not have commits that were acknowledged.
	ErrLost = store.ErrLost
	// ErrOlder: the tables have an earlier format, and nothing may be changed.
	ErrOlder = errors.New("the tables are those of an earlier version")
	// ErrReadOnly: the partition is open for reading only.
	ErrReadOnly = errors.New("read-only")
)

// Options of a [DB].
type Options struct {
	Schema     string // empty: orrery
	Partition  int
	Owner      string // who is named as owner
	Address    string // where the owner answers
	Session    string // no opening had it before; empty: a random one
	ReadOnly   bool
	TakeOver   bool // whoever owns it
	Seen       *Row // takes over only if the partition is still like that
	AcceptLoss bool
	Fill       bool          // claims a partition that is empty, or was not filled to the end: see fill.go
	Lease      time.Duration // of silence that an owner is gone after; zero: 10 s
	Patience   time.Duration // for which a database that is away is waited for; zero: 30 s
	Configure  func(*pgxpool.Config)
	Pools      *Pools        // of the process, which closes them; nil: it has pools of its own
	Bytes      int64         // in memory that begin a checkpoint; zero: 32 MiB
	After      time.Duration // in which a commit is brought into the tables at the latest; zero: 5 s
	Portion    int           // bytes in one transaction of a checkpoint; zero: 4 MiB
	Cache      int           // bytes of what is known of the tables; zero: 64 MiB
	Views      int           // how many connections read; zero: 16
	Logger     *slog.Logger  // nil: nobody is told
}

func (o Options) withDefaults() Options {
	o.Schema = cmp.Or(o.Schema, "orrery")
	o.Session = cmp.Or(o.Session, rand.Text())
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Bytes = cmp.Or(o.Bytes, 32<<20)
	o.After = cmp.Or(o.After, 5*time.Second)
	o.Portion = cmp.Or(o.Portion, 4<<20)
	o.Cache = cmp.Or(o.Cache, 64<<20)
	o.Views = cmp.Or(o.Views, 16)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Row is what the database says of a partition.
type Row struct {
	Part       int
	Token      uint64 // grows with each claim
	Last       uint64 // number of the last commit
	Checkpoint uint64
	Target     uint64
	Beat       uint64 // grows with each sign of life of the owner
	Session    string // empty: nobody owns it
	Owner      string
	Address    string
	Halted     string // why it must not go on by itself
}

// scanRow reads one, and into more what the statement gives behind it.
func scanRow(row pgx.Row, more ...any) (r Row, err error) {
	err = row.Scan(append([]any{&r.Part, &r.Token, &r.Last, &r.Checkpoint, &r.Target, &r.Beat, &r.Session, &r.Owner, &r.Address, &r.Halted}, more...)...)
	return r, err
}

// newPool gives connections for a purpose. Its sessions have limits for whatever would hold a lock while its owner
// is frozen, unless the URL has others.
func newPool(ctx context.Context, url string, o Options, writes bool, most int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database's URL: %w", unquoted(err))
	}
	// Unnamed statements, so that a pooler in transaction mode may stand between.
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	limit := func(name string, d time.Duration) {
		if _, ok := c.ConnConfig.RuntimeParams[name]; !ok {
			c.ConnConfig.RuntimeParams[name] = strconv.FormatInt(max(d.Milliseconds(), 1), 10)
		}
	}
	c.MaxConns = int32(most)
	c.MaxConnIdleTime = min(c.MaxConnIdleTime, 5*time.Minute) // a server has few, and partitions are many
	if writes {
		limit("idle_in_transaction_session_timeout", o.Lease/2)
		limit("lock_timeout", o.Lease)
		limit("statement_timeout", max(3*o.Lease, 30*time.Second))
	} else {
		limit("idle_in_transaction_session_timeout", 15*time.Minute)
	}
	if _, ok := c.ConnConfig.RuntimeParams["application_name"]; !ok {
		c.ConnConfig.RuntimeParams["application_name"] = "orrery"
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = o.Lease / 2
	}
	// A session that has begun while all were read-only by default is read-only until it ends, long after others are no more.
	closes := c.ConnConfig.OnPgError
	c.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		return err.Code != readOnlyCode && (closes == nil || closes(conn, err))
	}
	if o.Configure != nil {
		o.Configure(c)
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// unquoted gives why a URL cannot be used, without the URL: pgx quotes it, and masks a password only where it finds one.
func unquoted(err error) error {
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); !ok {
		return err
	}
	said := err.Error()
	return errors.New(said[strings.LastIndex(said, "`: ")+len("`: "):])
}

//go:embed migrations/*.sql
var migrations embed.FS

// format is that of the tables that this program makes, and least the least one that one must know to work
// with them. Once there are several partitions that is divided.
const (
	format  = 5
	least   = 1
	divided = 2
)

// Migrate makes the tables of a schema, or brings them to this program's format. Programs that know the format
// that is needed least go on meanwhile.
func Migrate(ctx context.Context, p *lane, schema string) error {
	switch found, err := formatOf(ctx, p, schema); {
	case err != nil:
		return fmt.Errorf("the format of schema %s: %w", schema, err)
	case found >= format:
		return nil
	}
	tx, err := p.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, "orrery schema "+schema); err != nil {
		return fmt.Errorf("wait for who else makes the tables of schema %s: %w", schema, err)
	}
	found, err := formatOf(ctx, tx, schema)
	if err != nil || found >= format {
		return err
	}
	if err := migrateFrom(ctx, tx, schema, found); err != nil {
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42501" && found == 0 { // insufficient_privilege
			return fmt.Errorf("make the tables of schema %s: the role may not make them: have an administrator run CREATE SCHEMA %s AUTHORIZATION with its name, or have the role that owns the tables make them: %w", schema, schema, err)
		}
		return fmt.Errorf("make the tables of schema %s: %w", schema, err)
	}
	return tx.Commit(ctx)
}

// readable refuses a schema whose tables this program would first have to make, or to bring to its format.
func readable(ctx context.Context, p *lane, schema string) error {
	found, err := formatOf(ctx, p, schema)
	switch {
	case err != nil:
		return fmt.Errorf("the format of schema %s: %w", schema, err)
	case found == 0:
		return fmt.Errorf("%w: there are no tables in schema %s", store.ErrNotFound, schema)
	case found < format:
		return fmt.Errorf("%w: the tables of schema %s have format %d, and who only reads needs %d: a program that may write brings them there as it starts", ErrOlder, schema, found, format)
	}
	return nil
}

func migrateFrom(ctx context.Context, tx pgx.Tx, schema string, found int) error {
	name := pgx.Identifier{schema}.Sanitize()
	if found == 0 {
		// Not CREATE SCHEMA alone: IF NOT EXISTS needs the right to make schemas also where it is there.
		var there bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, `CREATE SCHEMA `+name); err != nil {
				return err
			}
		}
	}
	for n := found + 1; n <= format; n++ {
		sql, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", n))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, strings.ReplaceAll(string(sql), "%s", name), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO `+name+`.meta (one, format, least) VALUES (1, $1, $2)
		ON CONFLICT (one) DO UPDATE SET format = excluded.format, least = greatest(meta.least, excluded.least)`, format, least)
	return err
}

// formatOf gives the format of the tables that are there; 0: there are none.
func formatOf(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, schema string) (found int, err error) {
	var there bool
	// Not to_regclass, which may remember that the schema was not there.
	const sql = `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'meta')`
	if err := q.QueryRow(ctx, sql, schema).Scan(&there); err != nil || !there {
		return 0, err
	}
	var needs int
	err = q.QueryRow(ctx, `SELECT format, least FROM `+pgx.Identifier{schema}.Sanitize()+`.meta WHERE one = 1`).Scan(&found, &needs)
	if pg, ok := errors.AsType[*pgconn.PgError](err); noRow(err) || ok && slices.Contains([]string{"42703", "42883", "22P02", "42804"}, pg.Code) { // another column, or another type of one
		return 0, fmt.Errorf("the table meta in schema %s is another program's, and not Orrery's: name another database, or another schema: %w", schema, err)
	}
	if err == nil && needs > format {
		return 0, fmt.Errorf("%w: they have format %d, and need a program that knows %d; this one knows %d", ErrNewer, found, needs, format)
	}
	return found, err
}

// claim makes the partition this opening's own.
func (db *DB) claim(ctx context.Context) error {
	seen, err := scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
	if noRow(err) { // only then: also an insertion that does nothing waits for who has the row
		if _, err := db.writes.Exec(ctx, db.s.newPart, db.o.Partition); err != nil {
			return fmt.Errorf("make partition %d: %w", db.o.Partition, err)
		}
		seen, err = scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
		if noRow(err) {
			return fmt.Errorf("%w: partition %d: the database is divided into less: want a number that its layout has", store.ErrUnusable, db.o.Partition)
		}
	}
	if err != nil {
		return fmt.Errorf("look at partition %d: %w", db.o.Partition, err)
	}
	if db.o.Fill {
		if err := canFill(seen); err != nil {
			return err
		}
	} else if seen.Halted == filling || seen.Halted != "" && !db.o.AcceptLoss {
		return db.isHalted(seen)
	}
	switch s := db.o.Seen; {
	case s != nil && (seen.Token != s.Token || seen.Beat != s.Beat && seen.Session != ""):
		return db.claimed(seen)
	case s == nil && !db.o.TakeOver && seen.Session != "":
		if seen, err = db.listen(ctx, seen); err != nil {
			return err
		}
	}
	row, err := db.take(ctx, seen)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // somebody else was faster, or gives signs of life again
		seen, err = scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
		switch {
		case err != nil:
			return fmt.Errorf("look at partition %d: %w", db.o.Partition, err)
		case seen.Halted != "" && !db.o.Fill:
			return db.isHalted(seen)
		}
		return db.claimed(seen)
	case err != nil:
		return fmt.Errorf("claim partition %d: %w", db.o.Partition, err)
	}
	db.token, db.row = row.Token, row
	return nil
}

// isHalted says why nobody opens the partition.
func (db *DB) isHalted(r Row) error {
	if err := IsFilled(r.Part, r.Halted); err != nil {
		return err
	}
	return fmt.Errorf("partition %d: %w: %s; what is there is whole, but older: somebody has to accept the loss", r.Part, ErrLost, r.Halted)
}

// claimed says who owns the partition.
func (db *DB) claimed(r Row) error {
	return fmt.Errorf("partition %d: %w: %q at %q owns it and gives signs of life", r.Part, store.ErrClaimed, r.Owner, r.Address)
}

// looks is how often an owner is looked at within a lease.
const looks = 20

// listen waits for a sign of life of the owner, on the own steady clock. It gives the row that has not changed for
// a lease, or that nobody owns now.
func (db *DB) listen(ctx context.Context, seen Row) (Row, error) {
	for range looks {
		pause := time.NewTimer(db.o.Lease / looks)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return seen, context.Cause(ctx)
		}
		now, err := scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
		switch {
		case err != nil:
			return seen, fmt.Errorf("look at partition %d: %w", db.o.Partition, err)
		case now.Session == "":
			return now, nil
		case now.Token != seen.Token || now.Beat != seen.Beat:
			return seen, db.claimed(now)
		}
	}
	return seen, nil
}

// take is the claim itself. It waits for the row, which a commit of a frozen owner may hold.
func (db *DB) take(ctx context.Context, seen Row) (r Row, err error) {
	always := db.o.TakeOver && db.o.Seen == nil
	mark := ""
	if db.o.Fill {
		mark = filling
	}
	err = db.locking(ctx, func(tx pgx.Tx, _ func()) error {
		r, err = scanRow(tx.QueryRow(ctx, db.s.claim, db.o.Partition, db.o.Session, db.o.Owner, db.o.Address, always, seen.Token, seen.Beat, db.o.AcceptLoss || db.o.Fill, mark), &db.before)
		return err
	})
	return r, err
}

// blockedFor is how long a lock is waited for at most before those are ended that hold it: half a lease if that is shorter, since after a lease the server
// waits no more.
var blockedFor = time.Second // a variable for the tests

// endFrozen ends the sessions that one waits for, of the same role, while they wait for their client within a transaction: a
// frozen owner's, which would hold its locks until the server notices. Those that are at work, or wait themselves, are
// left alone.
const endFrozen = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE pid = ANY (pg_blocking_pids($1)) AND usename = current_user AND wait_event = 'ClientRead'`

// locking runs fn in a transaction, and until it calls calm ends those frozen ones that it waits for: whoever holds a lock of
// a partition that somebody else may take owns it no more.
func (db *DB) locking(ctx context.Context, fn func(tx pgx.Tx, calm func()) error) error {
	tx, err := db.writes.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		_ = tx.Rollback(ctx) // after a commit it does nothing
	}()
	var pid int32 // not the connection's, which a pooler has made up
	if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return err
	}
	watch, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			pause := time.NewTimer(min(blockedFor, db.o.Lease/2))
			select {
			case <-watch.Done():
				pause.Stop()
				return
			case <-pause.C:
				// Not given up by calm, which waits for it: the server would go on with it, and end whoever the transaction waits for next. An error is
				// told by the lock's limit.
				_, _ = db.writes.Exec(ctx, endFrozen, pid)
			}
		}
	}()
	calm := func() {
		cancel()
		<-done
	}
	defer calm()
	if err := fn(tx, calm); err != nil {
		return err
	}
	calm()
	return tx.Commit(ctx)
}
