package kv

import (
	"errors"
	"time"

	"github.com/orrery-go/orrery/store"
)

// made counts checkpoints.
type made struct {
	whole, failed uint64
	took, total   time.Duration // the last one, and all of them
}

func (m *made) note(err error, took time.Duration) {
	if err != nil {
		m.failed++
		return
	}
	m.whole++
	m.took = took
	m.total += took
}

// Stats tells what the log holds beyond the file, and of the checkpoints since it was opened.
func (db *DB) Stats() store.LogStats {
	db.mu.RLock()
	defer db.mu.RUnlock()
	all := db.bytes.plus(db.aside)
	db.views.mu.Lock()
	ended := db.views.ended
	db.views.mu.Unlock()
	return store.LogStats{
		ViewsEnded: ended,
		Fill:       db.fill(),
		Frames:     db.last - db.inFile, Bytes: all.log, Memory: all.memory, Written: db.written,
		Kept: db.kept.bytes, Unshipped: db.kept.waiting, KeepErr: errors.Join(db.notKept, db.kept.err),
		Checkpoints: db.made.whole, Failed: db.made.failed, Took: db.made.took, Total: db.made.total, Err: db.failed,
	}
}
