// Package kv keeps tables of ordered keys: a bbolt file, and in memory above it what a log
// holds beyond the file's last checkpoint. A commit is one frame appended to the log and
// one sync; a goroutine brings the net change of many commits into the file.
//
// The files, in the order in which they are best read:
//
//   - frame.go: what a commit writes; overlay.go: what has changed since a checkpoint;
//   - tx.go, cursor.go: transactions, tables and cursors, which merge both with the file;
//   - db.go: who sees what; commit.go: commits, from the log to the disk;
//   - checkpoint.go: bringing them into the file;
//   - placed.go: values that stand in the log alone; views.go: Views that keep back too much;
//   - past.go: tables that are only appended to, which a checkpoint writes elsewhere;
//   - keep.go: frames that stay behind the checkpoint; redo.go: carrying them out in a copy;
//   - recover.go: what is found at the start; file.go: bbolt, which panics on damage.
package kv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
	"github.com/orrery-go/orrery/store/internal/names"
)

// Errors that callers decide on.
var (
	// ErrReadOnly: the file is open for reading only.
	ErrReadOnly = errors.New("read-only")
	// ErrUnknownOutcome: the disk failed in the last step of a commit. Everything is
	// refused from then on.
	ErrUnknownOutcome = errors.New("the disk failed while committing, so nobody knows whether that is stored: the next start finds out")
	// ErrNoLog: the file was not closed, and its log is not there, or not all of it.
	ErrNoLog = errors.New("the file was not closed, and the log beside it is missing or cut")
	// ErrOtherLog: the folder beside the file holds the log of another file.
	ErrOtherLog = errors.New("the log beside the file is another file's")
)

// Options of a [DB]. Seal and Unseal are needed.
type Options struct {
	Folder   string  // of the log, beside the file
	FS       disk.FS // nil: the system's
	NoSync   bool    // nothing waits for the disk
	ReadOnly bool
	Bytes    int64         // in memory that begin a checkpoint; zero: 32 MiB
	LogBytes int64         // of frames that begin one; zero: four times Bytes
	Large    int           // bytes of a value that does not stay in memory; zero: 8 KiB
	After    time.Duration // in which a commit is brought into the file at the latest; zero: 5 s
	Portion  int           // bytes of keys and values in one transaction of a checkpoint; zero: 4 MiB
	Segment  int64         // bytes of the log's greatest segment; zero: as package wal has it
	Fill     func(table string) float64
	// Behind is how many bytes a transaction that reads may keep from being used anew, of the file
	// and of the log, before it is ended. Zero: as many as half of the file had as it began, and at
	// least 1 GiB.
	Behind int64
	// Map is how many bytes of the file were mapped as it was opened, if more than it had.
	Map    int64
	Past   Past
	Keep   Keep
	Logger *slog.Logger // told of checkpoints that fail; nil: nobody is
	// Seal gives a value the form in which it is stored under a key, and Unseal reads it.
	Seal   func(key []byte, v any) ([]byte, error)
	Unseal func(key, raw []byte, v any) error
}

const (
	defaultBytes = 32 << 20
	defaultAfter = 5 * time.Second
	// defaultPortion is small: a commit's sync waits for what the disk has in hand.
	defaultPortion = 4 << 20
	// room is how many times Bytes may be in memory before commits wait for the checkpoint,
	// logRoom how many times LogBytes in the log: a start reads all of that, and a checkpoint
	// that is under way may have as much in hand.
	room    = 4
	logRoom = 2
)

// amount is what frames take.
type amount struct {
	memory int64 // in the overlays
	log    int64 // on the disk
}

func (a amount) plus(b amount) amount { return amount{a.memory + b.memory, a.log + b.log} }

// DB is an open file with its log. Its methods are safe for concurrent use; one
// transaction writes at a time.
type DB struct {
	o       Options
	file    file
	numbers names.Numbers
	session state                   // of the log that is open, or of the last one
	past    *archive.Archive        // nil: there are no tables of the past
	log     atomic.Pointer[wal.Log] // nil: nothing was committed yet; the writer changes it
	writer  sync.Mutex              // held by the one that writes, or freezes what was written
	syncing sync.Mutex              // held by the one that waits for the disk; after writer
	working mutex                   // held while a checkpoint is made
	calm    context.Context         // of that checkpoint: until it ends nobody waits for it; nil: somebody does
	rest    []byte                  // room in memory that the last frame has left; the writer's
	broken  atomic.Pointer[error]
	views   views

	mu      sync.RWMutex // guards what is below, and that it fits to the file
	active  *overlay
	frozen  *overlay // nil: no checkpoint is under way
	staged  []staged // what is in the log and not shown yet, in order
	logID   string   // of the log that is open, or of the last one
	last    uint64   // the number of the last commit that is shown
	sum     uint32   // the checksum of that commit's frame
	upTo    uint64   // the number of the last commit in frozen
	upSum   uint32   // the checksum of that commit's frame
	bytes   amount   // of the frames in active
	written uint64   // bytes of the frames that were committed since it was opened
	aside   amount   // and in frozen
	failed  error    // of the last checkpoint
	inFile  uint64   // the last commit that the file has
	passed  int64    // bytes of the frames that checkpoints have brought into the file since it was opened
	made    made
	kept    kept
	notKept error         // of the last segment that was to be kept; nil: it is
	ended   chan struct{} // closed when the checkpoint under way ends

	dirty, full, half chan struct{} // tell the goroutine: there is something, enough, a log that will need room
	over              chan struct{} // closed once everything is refused
	stop              context.CancelFunc
	stopped           chan struct{}
	keeping           chan struct{} // tells the goroutine that keeps: there may be something to keep or to ship
	keeper            chan struct{} // closed when that goroutine has ended
}

// New takes over an open bbolt file, and reads its log.
func New(b *bbolt.DB, o Options) (*DB, error) {
	if o.Bytes == 0 {
		o.Bytes = defaultBytes
	}
	if o.LogBytes == 0 {
		o.LogBytes = 4 * o.Bytes
	}
	if o.Large == 0 {
		o.Large = defaultLarge
	}
	if o.After == 0 {
		o.After = defaultAfter
	}
	if o.Portion == 0 {
		o.Portion = defaultPortion
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{o: o, active: &overlay{}, ended: make(chan struct{}), over: make(chan struct{}), working: make(mutex, 1), dirty: make(chan struct{}, 1), full: make(chan struct{}, 1), half: make(chan struct{}, 1), keeping: make(chan struct{}, 1)}
	db.file.bolt, db.file.beginning, db.file.broken, db.file.fail, db.file.mapped = b, make(mutex, 1), &db.broken, db.Break, mapSize(o.Map)
	if err := db.recover(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	db.stop, db.stopped, db.keeper = stop, make(chan struct{}), make(chan struct{})
	if o.ReadOnly {
		close(db.stopped)
		close(db.keeper)
		return db, nil
	}
	go func() {
		defer close(db.stopped)
		db.keepUp(ctx)
	}()
	go func() {
		defer close(db.keeper)
		db.keepKept(ctx)
	}()
	return db, nil
}

// ReadOnly reports whether the file is open for reading only.
func (db *DB) ReadOnly() bool { return db.o.ReadOnly }

// Broken gives the error for which everything is refused; nil: there is none.
func (db *DB) Broken() error {
	if broken := db.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// InPlace reports with [store.ErrMoved] that what is written to the log would not be found.
func (db *DB) InPlace() error {
	if log := db.log.Load(); log != nil {
		if err := log.InPlace(); errors.Is(err, wal.ErrMoved) {
			return fmt.Errorf("%w: %w: put the same folder back; until then nothing is acknowledged", store.ErrMoved, err)
		}
	}
	return nil
}

// Break refuses everything from now on, for that reason.
func (db *DB) Break(err error) {
	if db.broken.CompareAndSwap(nil, &err) {
		close(db.over)
	}
}

// Over is closed once everything is refused, for the reason that Broken gives.
func (db *DB) Over() <-chan struct{} { return db.over }

// Begin starts a transaction, which must end with Commit or Rollback. One that writes
// waits until no other does, and for room where the checkpoint lags behind.
func (db *DB) Begin(ctx context.Context, write bool) (*Tx, error) {
	if write {
		if db.o.ReadOnly {
			return nil, ErrReadOnly
		}
		if err := db.waitForRoom(ctx); err != nil {
			return nil, err
		}
		db.writer.Lock()
		if err := db.openLog(); err != nil { // before the transaction reads: it changes the file
			db.writer.Unlock()
			return nil, err
		}
	}
	tx, err := db.begin(write)
	if err != nil && write {
		db.writer.Unlock()
	}
	return tx, err
}

func (db *DB) begin(write bool) (*Tx, error) {
	db.mu.RLock() // so that the file is the one that the overlays stand above
	defer db.mu.RUnlock()
	base, err := db.file.begin(false)
	if err != nil {
		return nil, err
	}
	tx := &Tx{db: db, base: base, active: db.active, frozen: db.frozen, last: db.last, sum: db.sum, logID: db.logID, write: write, past: db.currentPast()}
	if write {
		tx.active, tx.last = db.newest()
		if cap(db.rest) > 0 {
			tx.frame.parts = append(tx.frame.parts, db.rest)
		}
	}
	if tx.active.hasPlaces() || tx.frozen.hasPlaces() {
		tx.hold = db.log.Load().Hold(db.inFile + 1)
	}
	if !write && !db.o.ReadOnly {
		db.watch(tx)
	}
	return tx, nil
}

// fill is how much there is behind the checkpoint under way, of what there may be. The caller holds mu.
func (db *DB) fill() float64 {
	return max(float64(db.bytes.memory)/float64(room*db.o.Bytes), float64(db.bytes.log)/float64(logRoom*db.o.LogBytes))
}

// waitForRoom waits while too much is in memory only.
func (db *DB) waitForRoom(ctx context.Context) error {
	for {
		db.mu.RLock()
		lags, failed, ended := db.fill() > 1, db.failed, db.ended
		db.mu.RUnlock()
		if !lags {
			return db.Broken()
		}
		if failed != nil {
			return fmt.Errorf("the log is full, and what it holds cannot be brought into the file: %w", failed)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Rollback ends a transaction and forgets what it has written. After the end it does
// nothing.
func (tx *Tx) Rollback() {
	if tx.viewed.may {
		tx.viewed.mu.Lock()
		defer tx.viewed.mu.Unlock()
	}
	if tx.base == nil {
		return
	}
	tx.letGo()
	if tx.write {
		tx.db.writer.Unlock()
	}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it knows
	}
}

// Close brings all into the file, removes the log, and closes both. Where that fails the
// log stays, and is read at the next start.
func (db *DB) Close() error {
	db.stop()
	<-db.stopped
	var err error
	if !db.o.ReadOnly && db.Broken() == nil {
		err = db.Settle()
	}
	db.endKeeping()
	if log := db.log.Load(); log != nil {
		err = errors.Join(err, log.Close())
	}
	return errors.Join(err, db.closePast(), db.file.close())
}
