// Package bolt is the embedded [store.Store]: one file, opened by one process,
// on bbolt. What Update returned nil for survives a crash of the process and of
// the machine. Values are JSON that any bolt browser shows, each with a
// checksum, so that damage is an error and never a wrong answer.
//
// The files, in the order in which they are best read:
//
//   - keys.go: the buckets and their keys; envelope.go: the stored form of values;
//   - open.go: opening, formats, migrations; store.go: [Store], transactions, commit;
//   - identity.go: whether the path still leads to the open file;
//   - tx.go: what reads and writes have in common; write.go: Put;
//   - records.go, recordpage.go, due.go, lists.go: records and their two kinds of index;
//   - journal.go: the journal and its epochs; outbox.go: outer effects;
//   - claims.go, webhooks.go, runlogs.go, meta.go, quarantine.go: what else is kept;
//   - backup.go, compact.go, check.go with pages.go and inspect.go: whole files.
package bolt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/orrery-go/orrery/store"
)

var _ store.Store = (*Store)(nil)

// Errors of Open that callers decide on.
var (
	// ErrLocked: another process has the file open, or this one has twice.
	ErrLocked = errors.New("the file is in use by another process")
	// ErrForeign: the file belongs to another program.
	ErrForeign = errors.New("not an Orrery database")
	// ErrNewer: a newer Orrery wrote the file, in a format unknown to this one.
	ErrNewer = errors.New("written by a newer Orrery")
	// ErrReadOnly: the store was opened with Options.ReadOnly, or the file or its
	// folder cannot be written to.
	ErrReadOnly = errors.New("read-only")
	// ErrUnknownOutcome: the disk failed in the last step of a commit, so nobody
	// knows whether it is durable. The store refuses everything from then on; what
	// holds is known after it was opened again.
	ErrUnknownOutcome = errors.New("the disk failed while committing: close the store and open it again")
)

// Options change how a file is opened. The zero value is right for a daemon.
type Options struct {
	// ReadOnly opens an existing file without changing it, beside other readers;
	// a process that writes must not have it open. Update fails.
	ReadOnly bool
	// LockTimeout is how long Open waits for another process to close the file.
	// Zero: one second. Negative: do not wait.
	LockTimeout time.Duration
	// NoSync leaves out the waiting for the disk: fast, and only for tests and
	// bulk loads, since a crash of the machine can then destroy the file.
	NoSync bool
	// MapSize is how many bytes of address space the file is mapped with at
	// first; where it grows beyond, a commit waits for all readers. It costs no
	// memory. Zero: 64 GiB, on 32-bit systems 256 MiB, on Windows (where the file
	// would really grow to it) as much as the file has. Negative: as much as the
	// file has.
	MapSize int64
	// Session names this opening instead of a random name: see store.Session.
	Session string
}

// lockTimeout is never 0, which bbolt takes for ever.
func (o Options) lockTimeout() time.Duration {
	return max(time.Nanosecond, cmp.Or(o.LockTimeout, time.Second))
}

func (o Options) mapSize() int {
	switch {
	case runtime.GOOS == "windows" || o.MapSize < 0:
		return 0
	case o.MapSize > 0:
		return int(min(o.MapSize, maxMap))
	case strconv.IntSize == 32:
		return 256 << 20
	}
	return int(min(64<<30, maxMap))
}

// maxMap is the greatest map that bbolt makes.
const maxMap int64 = (1<<47)*int64(strconv.IntSize/64) + (1<<30)*int64(1-strconv.IntSize/64)

// Store is an open database file. Its methods are safe for concurrent use. A
// View never waits for an Update; a commit waits for the Views only where the
// file outgrows its map (see Options.MapSize).
type Store struct {
	db      *bbolt.DB
	path    string
	file    *identity    // of the file that is open
	inUse   atomic.Int64 // the bytes that the file must have: those of the last commit but one, at least
	session string
	writer  chan struct{} // holds one value while an Update runs
	arena   []byte        // of the last Update, for the next one; the writer's

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup        // transactions under way
	broken atomic.Pointer[error] // set once nothing can be trusted any more
	stuck  atomic.Bool           // bbolt panicked while it held its locks: it cannot be closed

	beginning sync.Mutex // held while bbolt begins a transaction
}

func newStore(db *bbolt.DB, path string, file *identity, o Options) *Store {
	return &Store{db: db, path: path, file: file, session: cmp.Or(o.Session, rand.Text()), writer: make(chan struct{}, 1)}
}

// Session implements [store.Store]: a random name for each Open.
func (s *Store) Session() string { return s.session }

// Path gives the file's path, as it was given to Open.
func (s *Store) Path() string { return s.path }

// enter counts a transaction that Close waits for, until s.open.Done. Bbolt's
// own waiting would hang where a goroutine ends a View within a View meanwhile.
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

// begin starts a bbolt transaction, unless ctx has ended. On success the caller
// calls s.open.Done when the transaction has ended.
func (s *Store) begin(ctx context.Context, op string, writable bool) (t *bbolt.Tx, err error) {
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.open.Done()
		}
	}()
	switch t, err = s.beginTx(op, writable); {
	case errors.Is(err, berrors.ErrDatabaseReadOnly):
		return nil, fmt.Errorf("%s: %s: %w", op, s.path, ErrReadOnly)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return t, nil
}

// beginTx starts a bbolt transaction. Where bbolt panics on meta pages that are
// damaged or gone it keeps its locks, so that whatever asks it for a transaction
// afterwards, or ends one, waits for ever: the store is broken then, and stuck.
// One begins at a time, so that no other is within bbolt when that happens.
func (s *Store) beginTx(op string, writable bool) (t *bbolt.Tx, err error) {
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if broken := s.broken.Load(); broken != nil {
		return nil, *broken
	}
	begun := false
	defer func() {
		if !begun {
			broken := err
			s.stuck.Store(true)
			s.broken.Store(&broken)
		}
	}()
	defer guard(op, &err)
	t, err = s.db.Begin(writable)
	begun = true
	return t, err
}

// View implements [store.Store].
func (s *Store) View(ctx context.Context, fn func(store.ReadTx) error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := s.inPlace(); errors.Is(err, errCut) { // where the file was moved, reading goes on
		return fmt.Errorf("view: %w", err)
	}
	btx, err := s.begin(ctx, "view", false)
	if err != nil {
		return err
	}
	t := &readTx{ctx: ctx, tx: btx}
	defer func() {
		t.tx = nil
		_ = s.rollback(btx)
		s.open.Done()
	}()
	return fn(t)
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

// Update implements [store.Store]. A context that ends before the commit begins
// rolls it back. It fails with [store.ErrMoved] where the path does not lead to the open
// file any more, and goes on once it does again.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := s.lockWriter(ctx); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	defer s.unlockWriter()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := s.inPlace(); err != nil { // before bbolt looks at its pages
		return fmt.Errorf("update: %w", err)
	}
	btx, err := s.begin(ctx, "update", true)
	if err != nil {
		return err
	}
	s.inUse.Store(btx.Size())
	t := &tx{readTx: readTx{ctx: ctx, tx: btx}, s: s, arena: s.arena[:0]}
	committed := false
	defer func() {
		t.tx = nil
		if !committed {
			_ = s.rollback(btx)
		}
		s.open.Done()
		if s.arena = nil; cap(t.arena) <= arenaKept {
			s.arena = t.arena
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("commit: %w", context.Cause(ctx))
	}
	if err := t.unappended(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.tx = nil
	committed, err = s.commit(btx)
	return err
}

// commit ends the transaction; ended is false where it still must be rolled
// back. Before and after it the path must lead to the open file: what was written to
// another one must not be acknowledged.
func (s *Store) commit(btx *bbolt.Tx) (ended bool, err error) {
	defer guard("commit", &err)
	if err := s.inPlace(); err != nil {
		return false, fmt.Errorf("commit: %w", err)
	}
	id := btx.ID()
	if err = btx.Commit(); err == nil {
		if err := s.inPlace(); err != nil {
			return true, fmt.Errorf("commit: %w: %w", store.ErrUnconfirmed, err)
		}
		return true, nil
	}
	// bbolt reports an error after it wrote the meta page but could not sync it:
	// then it reads the new state, which a crash of the machine may undo.
	if after, verr := s.beginTx("commit", false); verr == nil {
		if after.ID() == id {
			broken := fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
			s.broken.Store(&broken)
			err = broken
		}
		_ = after.Rollback()
	}
	return true, fmt.Errorf("commit: %w", err)
}

// rollback ends a transaction that may stand on damaged pages. One of a store that is
// stuck cannot be ended: it would wait for bbolt's locks.
func (s *Store) rollback(btx *bbolt.Tx) (err error) {
	if s.stuck.Load() {
		return nil
	}
	defer guard("rollback", &err)
	return btx.Rollback()
}

// Close implements [store.Store]. A second Close does nothing.
func (s *Store) Close() (err error) {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.open.Wait()
	defer guard("close", &err)
	if s.stuck.Load() {
		return fmt.Errorf("close %s: left open until the process ends: %w", s.path, *s.broken.Load())
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}
