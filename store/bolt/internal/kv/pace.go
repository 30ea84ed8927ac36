package kv

import (
	"context"
	"time"
)

// A commit's sync waits for what a checkpoint has asked the disk for. So a checkpoint that
// nobody waits for writes little at a time, and between its transactions leaves the disk
// to the commits for as long as it had it. Once the log has grown to where it should be
// in the file, it hurries: few large transactions cost the least.

const (
	// calmParts is how many times smaller a portion is where there is no hurry.
	calmParts = 16
	// entryCost is what an entry counts for in a portion beside its bytes: mostly
	// it changes a page that no other one does.
	entryCost = 1 << 10
	// longestPause is how long the disk is left to the commits at most.
	longestPause = 100 * time.Millisecond
)

// haste is the calm of a checkpoint that somebody waits for: it has ended.
var haste = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// hurries reports whether commits may have to wait for the checkpoint, or others do.
func (db *DB) hurries() bool {
	if db.calm == nil || db.calm.Err() != nil {
		return true
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.enough(db.bytes.plus(db.aside))
}

// enough reports whether that much begins a checkpoint, and has it hurry.
func (db *DB) enough(a amount) bool { return a.memory >= db.o.Bytes || a.log >= db.o.LogBytes }

// portion is how much one transaction of a checkpoint is to take.
func (db *DB) portion() int {
	if db.hurries() {
		return db.o.Portion
	}
	return db.o.Portion / calmParts
}

// cost is what an entry counts for in a portion.
func (db *DB) cost(e *entry) int {
	return len(e.key) + e.size() + min(entryCost, db.o.Portion/(4*calmParts))
}

// breathe leaves the disk to the commits after a transaction that took so long.
func (db *DB) breathe(took time.Duration) {
	if took <= 0 || db.hurries() {
		return
	}
	pause := time.NewTimer(min(took, longestPause))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-db.full: // keepUp looks again
		tell(db.full)
	case <-db.calm.Done():
	}
}
