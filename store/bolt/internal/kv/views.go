package kv

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orrery-go/orrery/store"
)

// A transaction that reads keeps whatever was freed since it began from being used anew: pages
// of the file, and the log from where the file ended then. So the file grows as long as
// it lives, and one that lives on has it grow without end. One that has kept back more than
// Options.Behind is ended: what it stands on is given back at once, or as soon as the read
// within it returns, and its next read fails with [store.ErrViewTooOld]. So that this may happen
// at any time, what it hands out of the file is a copy.

// views are the transactions that may be ended.
type views struct {
	mu    sync.Mutex
	open  map[*Tx]struct{}
	ended uint64
}

// viewed is what a transaction that reads has to be ended by another goroutine.
type viewed struct {
	may    bool       // it may be ended: nothing else of this counts if not
	mu     sync.Mutex // held while it reads, and while it is ended
	why    error      // it was ended; nil: it was not
	began  time.Time
	size   int64  // of the file then
	passed int64  // DB.passed then
	room   []byte // for copies
}

var errEnded = errors.New("the transaction has ended")

// enter keeps the transaction from being ended until leave. It panics where it has ended.
func (tx *Tx) enter() {
	if !tx.viewed.may {
		return
	}
	tx.viewed.mu.Lock()
	if tx.base != nil {
		return
	}
	why := tx.viewed.why
	tx.viewed.mu.Unlock()
	if why == nil {
		why = errEnded
	}
	panic(unread{why})
}

func (tx *Tx) leave() {
	if tx.viewed.may {
		tx.viewed.mu.Unlock()
	}
}

// copyChunk is the greatest room that is made for copies at once.
const copyChunk = 32 << 10

// copied gives a copy of a part of the file, which stays when the transaction is ended.
func (tx *Tx) copied(b []byte) []byte {
	if b == nil || !tx.viewed.may {
		return b
	}
	r := &tx.viewed.room
	if *r == nil || len(b) > cap(*r)-len(*r) {
		*r = make([]byte, 0, max(len(b), min(2*cap(*r), copyChunk), 512))
	}
	start := len(*r)
	*r = append(*r, b...)
	return (*r)[start:len(*r):len(*r)]
}

// watch has a transaction ended if it keeps back too much. The caller holds mu.
func (db *DB) watch(tx *Tx) {
	tx.viewed.may, tx.viewed.began, tx.viewed.size, tx.viewed.passed = true, time.Now(), tx.base.Size(), db.passed
	db.views.mu.Lock()
	defer db.views.mu.Unlock()
	if db.views.open == nil {
		db.views.open = make(map[*Tx]struct{})
	}
	db.views.open[tx] = struct{}{}
}

// letGo gives back what the transaction stands on.
func (tx *Tx) letGo() {
	tx.db.file.rollback(tx.base)
	tx.base = nil
	tx.past.Release()
	tx.hold.Release()
	if tx.viewed.may {
		tx.db.views.mu.Lock()
		defer tx.db.views.mu.Unlock()
		delete(tx.db.views.open, tx)
	}
}

// end ends the transaction from outside, once no read is within it.
func (tx *Tx) end(why error) {
	tx.viewed.mu.Lock()
	defer tx.viewed.mu.Unlock()
	if tx.base == nil {
		return
	}
	tx.viewed.why = why
	tx.letGo()
	tx.active, tx.frozen, tx.met, tx.metBytes = nil, nil, nil, nil
	for _, t := range tx.tables {
		t.top, t.frozen = nil, nil
	}
	tx.db.views.mu.Lock()
	tx.db.views.ended++
	tx.db.views.mu.Unlock()
	tx.db.o.Logger.Warn("a View was ended since it kept the database from using space anew", "began", tx.viewed.began, "error", why)
}

// endViews ends those transactions for which why gives a reason.
func (db *DB) endViews(why func(*Tx) error) {
	reasons := map[*Tx]error{}
	db.views.mu.Lock()
	for tx := range db.views.open {
		if err := why(tx); err != nil {
			reasons[tx] = err
		}
	}
	db.views.mu.Unlock()
	for tx, err := range reasons {
		tx.end(err)
	}
}

const shorter = "read in shorter Views, or begin anew while less is written"

// leastBehind is what a View may keep back at least, unless Options.Behind says otherwise.
const leastBehind = 1 << 30

// boundViews ends the transactions that keep back more than they may.
func (db *DB) boundViews() {
	size, from := db.file.size.Load(), uint64(0)
	if log := db.log.Load(); log != nil {
		from, _ = log.Held()
	}
	db.mu.RLock()
	passed := db.passed
	db.mu.RUnlock()
	db.endViews(func(tx *Tx) error {
		grown, most := max(0, size-tx.viewed.size), db.o.Behind
		if most == 0 {
			most = max(leastBehind, tx.viewed.size/2)
		}
		held := int64(0)
		if tx.hold.Keeps(from) { // else it is kept for another, such as who copies it
			held = passed - tx.viewed.passed
		}
		if grown+held <= most {
			return nil
		}
		return fmt.Errorf("%w: since it began, %s ago, the database file has grown by %d bytes, and %d of the log are kept for it: at most %d are; %s",
			store.ErrViewTooOld, time.Since(tx.viewed.began).Round(time.Millisecond), grown, held, most, shorter)
	})
}

const (
	// impatience is how long somebody waits for Views to end before they are ended.
	impatience = time.Second
	// openFor is how long the entrance stays open before it is closed once more.
	openFor = 200 * time.Millisecond
)

// crowded is called where the file's map may have to grow, which no View lets it, after a
// checkpoint has waited so long in vain. It waits on, or ends all Views: when half of what may
// be committed before commits have to wait was committed, or somebody waits for the checkpoint.
func (db *DB) crowded(waited time.Duration) {
	db.mu.RLock()
	half := db.fill() > 0.5
	db.mu.RUnlock()
	if half || db.calm == nil || db.calm.Err() != nil {
		db.makeWay(waited)
		return
	}
	pause := time.NewTimer(openFor)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-db.calm.Done():
	}
}

// makeWay ends all Views once somebody has waited for them for long enough.
func (db *DB) makeWay(waited time.Duration) {
	if waited < impatience {
		<-time.After(openFor / 10)
		return
	}
	db.endViews(func(tx *Tx) error {
		return fmt.Errorf("%w: the database file outgrows its map in memory, for which all Views must have ended, and this one began %s ago; %s, or open the file with a greater map",
			store.ErrViewTooOld, time.Since(tx.viewed.began).Round(time.Millisecond), shorter)
	})
}
