package engine

import (
	"errors"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// backlog is what is due and does not fit into one batch, by tenant: a sweep reads the
// due index further than it carries it out, and takes from each tenant in turn. So a
// hundred thousand actions of one tenant, due at once, put off those of others by the
// batches that it takes to read the index, not by those that it takes to carry it out.
//
// It is in memory alone. What a batch that failed took from it is read once more.
type backlog struct {
	tenants []*dueQueue // those that have entries, the one whose turn it is first
	by      map[uint32]*dueQueue
	entries int
	taken   []store.DueEntry // room for those of a turn
	several bool             // more than one tenant had entries at a time
	touched bool             // by a batch that was not committed so far
	others  bool             // another instance has written since it was read
}

// dueQueue is what one tenant has in the backlog, in the order of the due times.
type dueQueue struct {
	share   uint32 // see [DueShare]
	weight  int    // entries that it may take at its turn
	may     int    // entries that it may take of the batch
	entries entryQueue
}

const (
	// shortStint is [maxStint] for what a batch takes from a backlog of several tenants. What
	// falls due for one of them meanwhile waits for the batch under way and for its own.
	shortStint = 4 * time.Millisecond
	// shortPart is how many entries a batch takes then of each tenant, times its weight: to write
	// what an entry has changed, and to run what it has begun, takes longer than to decide it.
	shortPart = 8
	// shortQueue is how many entries of a tenant are taken whole then, if it has no more.
	shortQueue = 64
	// maxBacklog bounds the entries in memory. What is due beyond them waits until there
	// is room, whosever it is.
	maxBacklog = 1 << 19
)

// clear forgets all: the sweep begins anew.
func (g *backlog) clear() { *g = backlog{} }

// add puts an entry behind those of its tenant.
func (g *backlog) add(share uint32, weights map[uint32]int, d store.DueEntry) {
	q := g.by[share]
	if q == nil {
		q = &dueQueue{share: share, weight: max(weights[share], 1)}
		if g.by == nil {
			g.by = make(map[uint32]*dueQueue)
		}
		g.by[share] = q
		g.tenants = append(g.tenants, q)
		g.several = g.several || len(g.tenants) > 1
	}
	q.entries.add(d)
	g.entries++
}

// allot says how many entries each tenant may take of a batch of at most limit, and gives how many
// that are in all.
func (g *backlog) allot(limit int) (all int) {
	for _, q := range g.tenants {
		if q.may = limit; g.several && q.entries.len() > shortQueue {
			q.may = shortPart * q.weight
		}
		all += min(q.may, q.entries.len())
	}
	return min(all, limit)
}

// turn takes what the tenant whose turn it is may take, at most limit, and puts that
// tenant behind the others. What it gives is good until the next turn.
func (g *backlog) turn(limit int) []store.DueEntry {
	q := g.tenants[0]
	n := min(q.weight, q.may, limit, q.entries.len())
	g.taken = q.entries.take(g.taken[:0], n)
	q.may -= n
	g.entries -= n
	g.tenants = append(g.tenants[1:], q)
	if q.entries.len() == 0 {
		g.tenants = g.tenants[:len(g.tenants)-1]
		delete(g.by, q.share)
	}
	return g.taken
}

// sweepBacklog reads on in the due index and carries out a batch of what it has read,
// each tenant in turn. page is what was read already.
func (b *batch) sweepBacklog(page []store.DueEntry) error {
	g := &b.l.backlog
	g.touched = true
	if err := b.lookAhead(page); err != nil {
		return err
	}
	timer, left := b.l.newStint(), g.allot(b.l.e.o.MaxBatch)
	if g.several {
		timer.most = shortStint
	}
	if !b.sweep.ended && g.entries < maxBacklog {
		timer.most = shortStint / 2 // it reads on in the next batch, which must not wait long
	}
	for left > 0 && g.entries > 0 {
		entries := g.turn(left)
		left -= len(entries)
		if err := b.fetchDue(entries, isNone); err != nil {
			return err
		}
		for _, d := range entries {
			if err := b.due(d, true); err != nil {
				return err
			}
		}
		if b.loaded > maxBatchBytes || timer.over() {
			return nil // the next batch goes on from here
		}
	}
	if g.entries == 0 && b.sweep.ended {
		b.endSweep()
	}
	return nil
}

// lookAhead puts the page, and what follows it as far as the time allows, into the backlog. A
// sweep that has read all goes on with what has fallen due since, unless it belongs to a strict
// tick, which ends with what was due.
func (b *batch) lookAhead(page []store.DueEntry) (err error) {
	if b.sweep.ended && len(page) == 0 && b.l.e.o.StrictTick {
		return nil
	}
	timer := b.l.newStint()
	for ended := false; ; ended = b.sweep.ended {
		if err := b.fetchDue(page, isShared); err != nil {
			return err
		}
		for _, d := range page {
			if err := b.putOff(d); err != nil {
				return err
			}
		}
		if ended || b.l.backlog.entries >= maxBacklog || b.loaded > maxBatchBytes/2 || timer.over() {
			return nil
		}
		if page, err = b.nextPage(b.l.e.o.MaxBatch); err != nil {
			return err
		}
	}
}

// nextPage reads on in the due index.
func (b *batch) nextPage(limit int) ([]store.DueEntry, error) {
	page, err := b.tx.Due(b.l.due[:0], b.sweep.after, b.now, limit)
	b.l.due = page // room for the next one
	if err != nil {
		return nil, err
	}
	if b.sweep.ended = len(page) < limit; len(page) > 0 {
		last := page[len(page)-1].Key
		b.sweep.after = &last
	}
	return page, nil
}

// putOff puts one entry into the backlog. Whose it is says its share, and if that is not known
// its record; an entry that leads nowhere is dealt with at once then.
func (b *batch) putOff(d store.DueEntry) error {
	if b.passes(d.Kind) {
		return nil
	}
	if d.Share != 0 {
		b.l.backlog.add(d.Share, b.l.weights, d)
		return nil
	}
	ref := effects.Ref{Kind: d.Kind, ID: d.Key.ID()}
	scope := core.Scope{}
	if c, ok := b.l.cache.get(ref); ok {
		scope = core.ScopeOf(c.state)
	} else {
		rec, err := b.tx.Get(ref.Kind, ref.ID)
		if errors.Is(err, store.ErrNotFound) {
			return b.due(d, false)
		}
		if err == nil { // else its tenant does not matter: it is set aside
			scope, _ = core.StoredScope(ref.Kind, rec.State)
			b.loaded += len(rec.State) / lightly
		}
	}
	b.l.backlog.add(DueShare(scope), b.l.weights, d)
	return nil
}

// lightly is by how much less the bytes of a record weigh that is looked at and not
// kept, for the bound of what a batch takes into memory.
const lightly = 8

// DueShare is the share of a tenant's entries in the due index, see [store.DueEntry]: a hash of
// [ShareOf], never 0. Two tenants with the same hash have one queue in the backlog, and so one
// turn and the greater of their weights. It is stored: another hash would part what a tenant has
// from before and after.
func DueShare(s core.Scope) uint32 {
	if s == (core.Scope{}) {
		return shareHash()
	}
	return shareHash(s.Namespace, "\x1f", s.Tenant)
}

// shareHash is FNV-1a of 64 bits, folded.
func shareHash(parts ...string) uint32 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, s := range parts {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	return max(uint32(h>>32)^uint32(h), 1)
}

// weightsByShare gives the turns that tenants have for one of another's; those that are not
// there have one.
func weightsByShare(weights map[string]int) map[uint32]int {
	by := make(map[uint32]int, len(weights))
	for of, n := range weights {
		share := shareHash(of)
		by[share] = max(by[share], n)
	}
	return by
}

// passes reports whether the sweep leaves machines of that kind where they are.
func (b *batch) passes(kind effects.Kind) bool {
	return b.skips(kind) || b.sweep.paced && !core.Paced(kind)
}

// restoreBacklog begins the sweep anew if the backlog has lost entries to a batch that
// was not committed.
func (b *batch) restoreBacklog() {
	if b.l.backlog.touched {
		b.l.backlog.clear()
		b.sweep.after, b.sweep.ended = nil, false
	}
}
