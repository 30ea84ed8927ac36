package engine

import (
	"errors"

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
	by      map[core.Scope]*dueQueue
	entries int
	touched bool // by a batch that was not committed so far
	others  bool // another instance has written since it was read
}

// dueQueue is what one tenant has in the backlog, in the order of the due times.
type dueQueue struct {
	scope   core.Scope
	weight  int // entries that it may take at its turn
	entries []store.DueEntry
}

const (
	// lookAheadPages is how far a batch reads the due index beyond what it carries
	// out, in pages of as many entries as a batch has: a batch must stay short.
	lookAheadPages = 24
	// maxBacklog bounds the entries in memory. What is due beyond them waits until there
	// is room, whosever it is.
	maxBacklog = 1 << 19
)

// clear forgets all: the sweep begins anew.
func (g *backlog) clear() { *g = backlog{} }

// add puts an entry behind those of its tenant.
func (g *backlog) add(scope core.Scope, weight int, d store.DueEntry) {
	q := g.by[scope]
	if q == nil {
		q = &dueQueue{scope: scope, weight: weight}
		if g.by == nil {
			g.by = make(map[core.Scope]*dueQueue)
		}
		g.by[scope] = q
		g.tenants = append(g.tenants, q)
	}
	q.entries = append(q.entries, d)
	g.entries++
}

// turn takes what the tenant whose turn it is may take, at most limit, and puts that
// tenant behind the others.
func (g *backlog) turn(limit int) []store.DueEntry {
	q := g.tenants[0]
	n := min(q.weight, limit, len(q.entries))
	taken := q.entries[:n:n]
	q.entries = q.entries[n:]
	g.entries -= n
	g.tenants = append(g.tenants[1:], q)
	if len(q.entries) == 0 {
		g.tenants = g.tenants[:len(g.tenants)-1]
		delete(g.by, q.scope)
	}
	return taken
}

// sweepBacklog reads on in the due index and carries out a batch of what it has read,
// each tenant in turn. page is what was read already.
func (b *batch) sweepBacklog(page []store.DueEntry) error {
	g := &b.l.backlog
	g.touched = true
	if err := b.lookAhead(page); err != nil {
		return err
	}
	timer := b.l.newStint()
	for left := b.l.e.o.MaxBatch; left > 0 && g.entries > 0; {
		entries := g.turn(left)
		left -= len(entries)
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
		b.sweep = sweep{}
	}
	return nil
}

// lookAhead puts the page, and some that follow it, into the backlog.
func (b *batch) lookAhead(page []store.DueEntry) (err error) {
	limit := b.l.e.o.MaxBatch
	for pages := 0; ; pages++ {
		for _, d := range page {
			if err := b.putOff(d); err != nil {
				return err
			}
		}
		if b.sweep.ended || pages == lookAheadPages || b.l.backlog.entries >= maxBacklog || b.loaded > maxBatchBytes/2 {
			return nil
		}
		if page, err = b.nextPage(limit); err != nil {
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

// putOff puts one entry into the backlog. One that leads nowhere is dealt with at once.
func (b *batch) putOff(d store.DueEntry) error {
	if b.passes(d.Kind) {
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
	b.l.backlog.add(scope, b.l.weight(scope), d)
	return nil
}

// lightly is by how much less the bytes of a record weigh that is looked at and not
// kept, for the bound of what a batch takes into memory.
const lightly = 8

// weight is how many turns a tenant has for one of another's.
func (l *loop) weight(scope core.Scope) int {
	if len(l.e.o.Weights) == 0 {
		return 1
	}
	return max(l.e.o.Weights[ShareOf(scope)], 1)
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
