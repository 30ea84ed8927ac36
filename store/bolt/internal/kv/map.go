package kv

import (
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// Where the file outgrows what is mapped of it, bbolt maps it anew, and waits until all
// transactions that read have ended; none begins meanwhile, so nothing is committed either. A
// View of minutes would stop everything for minutes. So a transaction of the file that may
// need that first waits until none is open: it closes the entrance for a moment, and opens
// it again where that was in vain.

// closedFor is how long the entrance is closed at most if transactions that read stay open.
const closedFor = 20 * time.Millisecond

// readers counts the transactions that read.
type readers struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed when open comes to 0; nil: nobody waits for that
}

func (r *readers) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open++
}

func (r *readers) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open--; r.open == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// wait reports whether none is open before d has passed. The caller lets none begin.
func (r *readers) wait(d time.Duration) bool {
	r.mu.Lock()
	if r.open == 0 {
		r.mu.Unlock()
		return true
	}
	none := make(chan struct{})
	r.none = none
	r.mu.Unlock()
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-none:
		return true
	case <-limit.C:
		return false
	}
}

// commitAlone commits a transaction, while none that reads is open if the map may have to grow.
func (f *file) commitAlone(tx *bbolt.Tx, bytes int, wait func(time.Duration)) error {
	if !f.mayOutgrow(tx, bytes) {
		return tx.Commit()
	}
	began := time.Now()
	for {
		f.beginning.Lock()
		if f.readers.wait(closedFor) {
			break
		}
		f.beginning.Unlock()
		wait(time.Since(began))
	}
	defer f.beginning.Unlock()
	return tx.Commit()
}

// mayOutgrow reports whether the map may have to grow for a transaction: at most each node that it
// has loaded becomes two pages, and what was put stands on pages that are a third full.
// The list of free pages takes eight bytes for each of them.
func (f *file) mayOutgrow(tx *bbolt.Tx, bytes int) bool {
	page, size, stats := int64(tx.DB().Info().PageSize), tx.Size(), tx.Stats()
	if least := mapSize(size); f.mapped < least {
		f.mapped = least
	}
	return size+(2*stats.GetNodeCount()+16)*page+3*int64(bytes)+size/page*8 >= f.mapped
}

// mapSize is how much bbolt maps of a file of a size at least.
func mapSize(size int64) int64 {
	const step = 1 << 30
	for n := int64(1 << 15); n < step; n *= 2 {
		if size <= n {
			return n
		}
	}
	return (size + step - 1) / step * step
}

// measure notes how great the file has become, and what is mapped then.
func (f *file) measure() {
	tx, err := f.begin(false)
	if err != nil {
		return // whoever begins one next is told
	}
	defer f.rollback(tx)
	size := tx.Size()
	f.size.Store(size)
	if size >= f.mapped {
		f.mapped = mapSize(size + 1)
	}
}
