package engine

import "github.com/orrery-go/orrery/store"

// entryQueue is a queue of due entries. It grows by blocks and moves none of them: a slice that
// grows to a hundred thousand entries is copied five times over, into memory that is new to the
// process, which took longer than to read them.
type entryQueue struct {
	blocks [][]store.DueEntry // none is empty
	n      int
}

// A queue's first block is small, as most tenants have few entries; each further one holds as many as
// all before it, up to a bound.
const (
	leastBlock = 8
	mostBlock  = 512
)

func (q *entryQueue) len() int { return q.n }

// add puts an entry behind the others.
func (q *entryQueue) add(d store.DueEntry) {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last]) == cap(q.blocks[last]) {
		q.blocks = append(q.blocks, make([]store.DueEntry, 0, min(max(q.n, leastBlock), mostBlock)))
		last++
	}
	q.blocks[last] = append(q.blocks[last], d)
	q.n++
}

// take moves the first n entries to the end of dst; all, if it has no more.
func (q *entryQueue) take(dst []store.DueEntry, n int) []store.DueEntry {
	for n > 0 && q.n > 0 {
		part := min(n, len(q.blocks[0]))
		dst = append(dst, q.blocks[0][:part]...)
		n, q.n = n-part, q.n-part
		if q.blocks[0] = q.blocks[0][part:]; len(q.blocks[0]) == 0 {
			q.blocks = q.blocks[1:]
		}
	}
	return dst
}
