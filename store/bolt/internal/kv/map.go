package kv

import (
	"bytes"
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
func (f *file) commitAlone(tx *bbolt.Tx, w *written, wait func(time.Duration)) error {
	if !f.mayOutgrow(tx, w) {
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
// The list of free pages takes eight bytes for each of them. A node with large values has as many
// pages as these need, and is written as a whole for whatever changes in it; all nodes together have
// no more than the file has.
func (f *file) mayOutgrow(tx *bbolt.Tx, w *written) bool {
	page, size, stats := int64(tx.DB().Info().PageSize), tx.Size(), tx.Stats()
	if least := mapSize(size); f.mapped < least {
		f.mapped = least
	}
	most := size + (2*stats.GetNodeCount()+16)*page + 3*int64(w.bytes) + size/page*8
	return most+size >= f.mapped && most+w.beside(tx, int(page)) >= f.mapped
}

// written is what a transaction of the file has written, as far as it tells how the file may grow.
type written struct {
	bytes int // of keys and values, about
	parts []writtenPart
}

// writtenPart is what of that belongs to one table, in the order of the keys.
type writtenPart struct {
	table   string
	entries []entry
}

// inNode is how many entries a node has at most if one of them is too large for a page: bbolt
// divides what has more.
const inNode = 4

// beside gives how many bytes the large values take that may stand in one node with what was written.
// Where entries were deleted, bbolt may also have made one node of what was left of theirs, a
// quarter of a page, and the next.
func (w *written) beside(tx *bbolt.Tx, page int) (sum int64) {
	for _, p := range w.parts {
		b := tx.Bucket([]byte(p.table))
		if b == nil {
			continue
		}
		c, last := b.Cursor(), []byte(nil)
		count := func(k, v []byte) {
			if bytes.Compare(k, last) > 0 && len(k)+len(v) > page/(2*inNode) {
				sum += int64(len(k) + len(v))
			}
		}
		for i := range p.entries {
			e := &p.entries[i]
			around := inNode
			if !e.there() {
				around += page / 4 / leastEntry
			}
			k, v := c.Seek(e.key)
			if k == nil {
				k, v = c.Last()
			}
			for range around {
				before, value := c.Prev()
				if before == nil {
					k, v = c.First()
					break
				}
				k, v = before, value
			}
			for range 2*around + 1 {
				if k == nil {
					break
				}
				count(k, v)
				if bytes.Compare(k, last) > 0 {
					last = k
				}
				k, v = c.Next()
			}
		}
	}
	return sum
}

// leastEntry is how many bytes an entry takes in a page at least.
const leastEntry = 16

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
