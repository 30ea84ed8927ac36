// Package bolt is the embedded [store.Store]: one file, opened by one process,
// on bbolt. What Update returned nil for survives a crash of the process and of
// the machine. Values are JSON that any bolt browser shows, each with a
// checksum, so that damage is an error and never a wrong answer.
//
// The files, in the order in which they are best read:
//
//   - backing.go: how package [github.com/orrery-go/orrery/store/internal/tables], which has the
//     records and all else that is stored, stands on the file;
//   - open.go: opening, formats, migrations; store.go: [Store], transactions, commit;
//   - identity.go: whether the path still leads to the open file;
//   - restore.go: a copy as it was after a batch;
//   - export.go: all that a store holds, given and taken;
//   - backup.go, makefile.go, compact.go, check.go with pages.go and inspect.go: whole files.
package bolt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

var (
	_ store.Store  = (*Store)(nil)
	_ store.Stager = (*Store)(nil)
	_ store.Logged = (*Store)(nil)
)

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
	ErrReadOnly = kv.ErrReadOnly
	// ErrUnknownOutcome: the disk failed in the last step of a commit, so nobody
	// knows whether it is durable: that Update's error is [store.ErrUnconfirmed], too.
	// The store refuses everything from then on, and [Store.Failed] is closed; what holds
	// is known after it was opened again, best by a process that begins anew.
	ErrUnknownOutcome = kv.ErrUnknownOutcome
	// ErrNoLog: the file was not closed, and the folder with its log is not there, or
	// not all of it. What it has is older than what was acknowledged.
	ErrNoLog = kv.ErrNoLog
	// ErrOtherLog: the folder beside the file holds the log of another file.
	ErrOtherLog = kv.ErrOtherLog
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
	// first; where it grows beyond, a checkpoint waits until no View is open, and ends
	// those that are before commits would have to wait. It costs no
	// memory. Zero: 64 GiB, on 32-bit systems 256 MiB, on Windows (where the file
	// would really grow to it) as much as the file has. Negative: as much as the
	// file has.
	MapSize int64
	// ViewBytes is how much a View may keep from being used anew, of the file and of the log
	// beside it, in bytes: one that lives on while that much is written is ended, and
	// its reads fail with store.ErrViewTooOld. Zero: as much as half of what the file has as it
	// begins, and at least 1 GiB.
	ViewBytes int64
	// Session names this opening instead of a random name: see store.Session.
	Session string
	// Logger is told where the log cannot be brought into the file, such as on a full
	// disk: commits go on as long as there is room for the log. Nil: nobody is told.
	Logger *slog.Logger
	// Redo says for how long what was committed can be carried out once more in an older
	// copy: see [Restore]. The zero value: not at all.
	Redo Redo
}

// Redo says for how long the log is kept behind the checkpoints, beside the file or
// elsewhere. It is on if Age or Bytes is set.
//
// A part of the log is moved into the folder PATH.redo, in one step, once a checkpoint has passed it, and
// at Close. With a Folder it is copied there from then on, durable before it is removed; where that
// fails commits go on, what waits is kept, and all of it goes over later. Options.Logger and
// LogStats tell.
type Redo struct {
	// Age is how long after it was written a part of the log goes; zero: never for its age.
	Age time.Duration
	// Bytes is how many bytes there are at most, of those that wait for the Folder and of those
	// there, each: the oldest go first. Zero: as many as there are.
	Bytes int64
	// Folder is where they go, perhaps on another disk; it must be there. Empty: they
	// stay in PATH.redo.
	Folder string
}

func (o Options) keep(path string) kv.Keep {
	r := o.Redo
	if r.Age <= 0 && r.Bytes <= 0 {
		return kv.Keep{}
	}
	k := kv.Keep{Folder: redoFolder(path), Age: max(r.Age, 0), Bytes: max(r.Bytes, 0)}
	if r.Folder == "" {
		return k
	}
	ship, err := filepath.Abs(r.Folder) // as path is: the process may change its folder
	if err != nil {
		ship = r.Folder
	}
	if target(ship) != k.Folder {
		k.Ship = ship
	}
	return k
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

// Store is an open database file with its log. Its methods are safe for concurrent use. A
// View never waits for an Update; a checkpoint waits for the Views only where the
// file outgrows its map (see Options.MapSize).
type Store struct {
	db      *kv.DB
	path    string
	file    *identity    // of the file that is open
	inUse   atomic.Int64 // the bytes that the file must have: those of the last commit but one, at least
	session string
	writer  chan struct{}  // holds one value while an Update runs, until it waits for the disk
	learned tables.Learned // of the last Update, for the next one; the writer's

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup // transactions under way
}

func newStore(db *kv.DB, path string, file *identity, o Options) *Store {
	return &Store{db: db, path: path, file: file, session: cmp.Or(o.Session, rand.Text()), writer: make(chan struct{}, 1)}
}

// Failed is closed once the store refuses everything, until it was opened anew: the disk has
// failed in a commit, or somebody has cut the file. Failure tells why.
func (s *Store) Failed() <-chan struct{} { return s.db.Over() }

// Failure is why the store refuses everything; nil: it does not.
func (s *Store) Failure() error { return s.db.Broken() }

// LogStats implements [store.Logged].
func (s *Store) LogStats() store.LogStats { return s.db.Stats() }

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

// begin starts a transaction, unless ctx has ended. On success the caller
// calls s.open.Done when the transaction has ended.
func (s *Store) begin(ctx context.Context, op string, write bool) (t *kv.Tx, err error) {
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.open.Done()
		}
	}()
	switch t, err = s.db.Begin(ctx, write); {
	case errors.Is(err, ErrReadOnly):
		return nil, fmt.Errorf("%s: %s: %w", op, s.path, ErrReadOnly)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return t, nil
}

// View implements [store.Store]. One that lives on while much is written is ended: its reads
// fail with [store.ErrViewTooOld] from then on (see Options.ViewBytes).
func (s *Store) View(ctx context.Context, fn func(store.ReadTx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := s.fileInPlace(); errors.Is(err, errCut) { // where the file was moved, reading goes on
		return fmt.Errorf("view: %w", err)
	}
	ktx, err := s.begin(ctx, "view", false)
	if err != nil {
		return err
	}
	t := tables.NewReadTx(ctx, backing{ktx})
	defer guardEnded("view", &err)
	defer func() {
		t.End()
		ktx.Rollback()
		s.open.Done()
	}()
	return fn(t)
}

// guardEnded turns the panic of a read that no guard stands around, of a transaction that was ended,
// into an error. It is to be deferred itself; other panics go on.
func guardEnded(op string, err *error) {
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

// Update implements [store.Store]. A context that ends before the commit begins
// rolls it back. It fails with [store.ErrMoved] where the path does not lead to the open
// file any more, and goes on once it does again. Several that wait for the disk at the same
// time share one sync.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	durable, err := s.Stage(ctx, fn)
	if unknown := durable(); unknown != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return unknown // whatever fn has made of what it has read
	}
	return err
}

// Stage implements [store.Stager].
func (s *Store) Stage(ctx context.Context, fn func(store.Tx) error) (durable func() error, err error) {
	if err := s.lockWriter(ctx); err != nil {
		return nothingSeen, fmt.Errorf("update: %w", err)
	}
	defer s.unlockWriter()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := s.inPlace(); err != nil { // before bbolt looks at its pages
		return nothingSeen, fmt.Errorf("update: %w", err)
	}
	ktx, err := s.begin(ctx, "update", true)
	if err != nil {
		return nothingSeen, err
	}
	s.inUse.Store(ktx.Base().Size())
	t := tables.NewTx(ctx, backing{ktx}, s.session, &s.learned)
	defer func() {
		t.End()
		ktx.Rollback()
		if durable == nil { // fn panics
			s.open.Done()
		}
	}()
	if err := t.Run(fn); err != nil {
		return s.durable(ktx.Seen(), false), err
	}
	t.Finish()
	if err := s.inPlace(); err != nil {
		return s.durable(ktx.Seen(), false), fmt.Errorf("commit: %w", err)
	}
	staged, err := ktx.Stage()
	if err != nil {
		return s.durable(ktx.Seen(), false), fmt.Errorf("commit: %w", err)
	}
	t.Committed(staged.Last())
	return s.durable(staged, true), nil
}

// nothingSeen is for who has not come to read anything.
func nothingSeen() error { return nil }

// durable gives what waits for the disk, once. Before a commit and after its sync the path
// must lead to the open file: what was written beside another one must not be acknowledged.
func (s *Store) durable(staged kv.Staged, committed bool) func() error {
	return sync.OnceValue(func() error {
		defer s.open.Done()
		if err := staged.Wait(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if !committed {
			return nil
		}
		if err := s.inPlace(); err != nil {
			return fmt.Errorf("commit: %w: %w", store.ErrUnconfirmed, err)
		}
		return nil
	})
}

// Close implements [store.Store]: it brings what the log holds into the file, and removes
// the log. A second Close does nothing.
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
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}
