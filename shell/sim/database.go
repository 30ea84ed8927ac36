package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// database is a partition of what all instances share: it behaves as [store/postgres] does. It has one owner, whoever has opened it
// last, unless it is one that all use at once, with claims alone between them.
type database struct {
	*run
	number  int // of the partition
	live    *memory.Store
	shared  bool
	owner   int           // counts the openings
	standby *memory.Store // what a standby has that lags behind; nil: it lacks nothing
	lagging int           // the step since which it lags
	former  *memory.Store // before the last commit; for a defect
	row     store.Partition
	kept    uint64         // the last commit that the standby has
	told    map[int]uint64 // by opening: up to which of its commits those that are gone were told
	sign    time.Time      // when the owner has given its last sign of life
}

// lives notes a sign of life of the owner.
func (db *database) lives() { db.row.Beat, db.sign = db.row.Beat+1, db.now }

var (
	// errRefused is a failure that passes, such as one to serialise.
	errRefused = errors.New("the transaction was refused, try it again")
	// errLost is what an owner is told that finds its last commit gone.
	errLost = fmt.Errorf("%w: %w", store.ErrFenced, store.ErrLost)
	// errAway: nobody reaches the database.
	errAway = errors.New("the database cannot be reached")
)

func newDatabase(r *run, number int) *database {
	session := "session-0"
	if r.o.Shared {
		session = ""
	}
	return &database{run: r, number: number, live: memory.NewSession(session), shared: r.o.Shared, row: store.Partition{Number: number}, told: map[int]uint64{}}
}

// handle is one opening of the database.
type handle struct {
	db     *database
	of     *unit
	number int
	as     string   // its session
	failed error    // it refuses everything since
	n      int      // counts its commits
	heard  int      // the step of its last commit
	acked  uint64   // the number of its last commit, or
	found  uint64   // of the last one that it has found
	before int      // the number of the opening before
	judged bool     // it has found out that it is the owner no more
	in     *cluster // nil: it is in none
}

func (db *database) open(u *unit) *handle {
	before := db.owner
	db.owner++
	if db.former != nil {
		db.live = db.former
	}
	if !db.shared {
		db.live = db.live.Reopen(fmt.Sprintf("session-%d", db.owner))
	}
	h := &handle{db: db, of: u, number: db.owner, as: db.live.Session(), acked: db.row.Last, found: db.row.Last, before: before}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.last = int(u.on.name[1] - '0')
	return h
}

// store is the database as engines see it.
func (h *handle) store() store.Store { return h.db.spoilt(h.db.live) }

// spoilt gives what the defects of a test make of a store.
func (db *database) spoilt(st *memory.Store) store.Store {
	if db.defects.store == nil {
		return st
	}
	return db.defects.store(st)
}

// stale reports whether another one has opened the database since.
func (h *handle) stale() bool {
	return !h.db.shared && h.number != h.db.owner
}

func (h *handle) failure() error { return h.failed }

// Session implements [store.Store]: that of this opening, also once another one owns the database.
func (h *handle) Session() string { return h.as }

// Backup implements [store.Store].
func (h *handle) Backup(ctx context.Context, w io.Writer) (int64, error) {
	return h.store().Backup(ctx, w)
}

// usable gives why nothing can be written with it, once it has looked.
func (h *handle) usable() error {
	h.judge()
	return h.readable()
}

// readable gives why nothing can be done with it.
func (h *handle) readable() error {
	h.db.mu.Lock()
	leaving := h.of.leaving
	h.db.mu.Unlock()
	switch {
	case leaving:
		return fmt.Errorf("the run is over: %w", store.ErrFenced)
	case h.failed != nil:
		return h.failed
	case h.stale():
		return fmt.Errorf("opening %d of the database: %w", h.number, store.ErrFenced)
	}
	return nil
}

// View implements [store.Store].
func (h *handle) View(ctx context.Context, fn func(store.ReadTx) error) error {
	if err := h.readable(); err != nil {
		return err
	}
	if h.db.away.After(h.of.time()) {
		return errAway
	}
	return h.store().View(ctx, fn)
}

// Update implements [store.Store]. The transaction begins once that is picked, and its answer comes once that is.
func (h *handle) Update(ctx context.Context, fn func(store.Tx) error) error {
	name := h.begins()
	if err := h.usable(); err != nil {
		return err
	}
	f := h.db.meets()
	if f.Kind != "" {
		h.of.log("%s: %s", name, f.Kind)
	}
	commit := func() error {
		if err := h.usable(); err != nil {
			return err
		}
		if h.db.defects.amnesia {
			h.db.former = h.db.live
			h.db.live = h.db.live.Reopen(h.db.live.Session())
		}
		h.hears()
		return h.db.refuses(name, h.store().Update(ctx, fn))
	}
	var err error
	switch f.Kind {
	case RefuseCommit:
		return errors.Join(errRefused, h.dry(ctx, h.db.live, fn))
	case LoseAnswer: // it is looked up once the database answers
		err = commit()
		h.of.parks(name+" is looked up", f.For, nil)
		if h.stale() && err == nil {
			err = fmt.Errorf("%w: %w", store.ErrUnconfirmed, store.ErrFenced)
		}
	case LoseCommit: // it is looked up, and made then
		h.of.parks(name+" is looked up, and made", f.For, nil)
		err = commit()
	case LoseBoth:
		if f.N%2 == 0 {
			if err := commit(); err != nil {
				return err
			}
		}
		h.of.parks(name+" is given up", f.For, nil)
		return h.fail(name)
	case Unconfirm:
		if f.N%2 == 0 {
			return errors.Join(unconfirmed(name), h.dry(ctx, h.db.live, fn))
		}
		if err = commit(); err != nil {
			return err
		}
		h.of.parks(name+" is not confirmed", f.For, nil)
		return unconfirmed(name)
	case SlowCommit:
		err = commit()
		h.of.parks(name+" is slow", f.For, nil)
	default:
		err = commit()
		h.of.parks(name+" is answered", 0, nil)
	}
	return err
}

// unconfirmed is what an owner is told whose commit may not be durable.
func unconfirmed(name string) error {
	return fmt.Errorf("%s: the sync has failed: %w", name, store.ErrUnconfirmed)
}

// refuses notes that the store refuses what its owner writes since it rests on something else than the store has: the engine reads it anew, and all goes well, but nobody else has
// written.
func (db *database) refuses(name string, err error) error {
	if errors.Is(err, store.ErrConflict) {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.conflicts = append(db.conflicts, fmt.Sprintf("%s at step %d: %v", name, db.steps, err))
	}
	return err
}

// begins waits for the begin of a transaction, and gives its name.
func (h *handle) begins() string {
	h.n++
	name := fmt.Sprintf("%s commit %d", h.of.name, h.n)
	h.of.parks(name+" begins", 0, nil)
	for h.db.away.After(h.of.time()) {
		h.of.parks(name+" is tried again", h.db.away.Sub(h.of.time()), nil)
	}
	return name
}

// hears notes that the database has taken a commit.
func (h *handle) hears() {
	h.db.mu.Lock()
	defer h.db.mu.Unlock()
	h.heard = h.db.steps
	if h.db.row.Halted != "" {
		h.db.unopened = append(h.db.unopened, fmt.Sprintf("%s commits at step %d in %s: %s", h.of.name, h.heard, h.db.partition(h.db.number), h.db.row.Halted))
	}
	h.db.row.Last++
	h.acked = h.db.row.Last
	h.db.lives()
}

// fail has everything refused, since nobody knows of a commit.
func (h *handle) fail(name string) error {
	if h.failed == nil {
		h.failed = fmt.Errorf("nobody knows what became of %s: %w", name, store.ErrUnconfirmed)
	}
	return h.failed
}

// dry has the transaction decided, and dropped.
func (h *handle) dry(ctx context.Context, st *memory.Store, fn func(store.Tx) error) error {
	err := h.db.spoilt(st).Update(ctx, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errRefused
	})
	if errors.Is(err, errRefused) {
		return nil
	}
	return err
}

// meets gives what the commit that begins meets.
func (r *run) meets() (f Fault) {
	if len(r.meeting) > 0 {
		f, r.meeting = r.meeting[0], r.meeting[1:]
	}
	return f
}

// lag has the standby stay as the database is now.
func (db *database) lag() {
	if db.shared || db.standby != nil {
		return
	}
	session := db.live.Session()
	db.standby = db.live.Reopen("standby")
	db.live = db.live.Reopen(session)
	db.lagging, db.kept = db.steps, db.row.Last
}

// failOver makes the standby the database: what it lacks is gone, and the owner is told. It reports whether that may be something.
func (db *database) failOver() (lost bool) {
	if db.standby == nil {
		return false
	}
	if db.seq(db.standby) < db.seq(db.live) {
		db.counts[CountLost]++
	}
	db.live, db.standby, db.row.Last = db.standby, nil, db.kept
	for _, i := range db.all {
		if h := i.units[db.number].handle; h.failed == nil && !h.stale() {
			db.bereft = append(db.bereft, bereft{i, h, db.steps})
			if !db.defects.untold {
				h.failed = errLost
			}
		}
	}
	return true
}

// seq gives the number of the last batch.
func (db *database) seq(st *memory.Store) (seq uint64) {
	if err := st.View(context.Background(), func(tx store.ReadTx) (err error) {
		seq, err = tx.Seq()
		return err
	}); err != nil {
		db.broken = errors.Join(db.broken, err)
	}
	return seq
}
