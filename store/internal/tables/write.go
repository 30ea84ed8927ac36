package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// indexOp puts or deletes one entry of a list index.
type indexOp struct {
	table *table
	key   []byte
	value []byte // nil: delete
}

// Put sorts what it does by table and key: so each part of a tree is found while it is
// still in the processor's cache.
func (t *Tx) Put(seq uint64, writes []store.Write) (err error) {
	if err := t.check("put"); err != nil {
		return err
	}
	defer Guard("put", &err)
	last, err := t.lastSeq()
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if seq != last+1 && (!t.appended || seq != last) {
		return fmt.Errorf("put: batch %d is out of order: want %d", seq, last+1)
	}
	epoch, err := t.current()
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	t.changed.begin(t, seq)
	p := putter{Tx: t, seq: seq, epoch: epoch}
	for _, w := range inKeyOrder(writes) {
		err := w.Validate()
		if err == nil {
			err = p.write(w)
		}
		if err != nil {
			return &store.RecordError{Op: "put", Kind: w.Kind, ID: w.ID, Err: err}
		}
	}
	t.put = seq
	p.finish()
	return nil
}

func inKeyOrder(writes []store.Write) []*store.Write {
	sorted := make([]*store.Write, len(writes))
	for i := range writes {
		sorted[i] = &writes[i]
	}
	slices.SortFunc(sorted, func(a, b *store.Write) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return sorted
}

// putter is one Put under way.
type putter struct {
	*Tx
	seq    uint64
	epoch  store.Epoch
	due    []dueOp
	lists  []indexOp
	counts map[countKey]int64
	keys   []byte // room for index keys, until they are put
	old    Texts  // of one state
}

type countKey struct {
	kind effects.Kind
	term string
}

func (k countKey) compare(other countKey) int {
	return cmp.Or(cmp.Compare(k.kind, other.kind), cmp.Compare(k.term, other.term))
}

func (p *putter) write(w *store.Write) error {
	tables := p.kind(w.Kind)
	raw, exists := tables.records.Get(w.ID[:])
	var old store.Record
	if exists {
		var err error
		if old, err = ParseRecord(w.Kind, w.ID, raw, p.old.again()); err != nil {
			return err
		}
	}
	if old.Version != w.Prev.Version {
		return fmt.Errorf("%w: stored version is %d, the writer expected %d", store.ErrConflict, old.Version, w.Prev.Version)
	}
	based := exists && old.Seq < p.epoch.First
	if based {
		p.keepBase(p.epoch, p.seq, w.Kind, w.ID, raw)
	}
	if w.State == nil {
		if !exists {
			return nil
		}
		p.changed.add(w, &old, based)
		tables.records.Delete(w.ID[:])
		p.moveDue(w, 0)
		p.moveTerms(w, tables.lists, nil)
		return nil
	}
	p.changed.add(w, &old, based)
	p.scratch = AppendRecord(p.scratch[:0], w.Kind, w.ID, w.Prev.Version+1, p.seq, w.State)
	if exists {
		tables.records.Put(w.ID[:], p.scratch)
	} else {
		tables.records.PutNew(w.ID[:], p.scratch)
	}
	p.moveDue(w, w.Due)
	p.moveTerms(w, tables.lists, w.Terms)
	return nil
}

// Room for index keys is made in pieces of these sizes, each twice as large as the one before.
const (
	leastKeys = 1 << 10
	mostKeys  = 16 << 10
)

// key gives room for an index key that is valid until the Put ends.
func (p *putter) key(n int) []byte {
	if cap(p.keys)-len(p.keys) < n {
		p.keys = make([]byte, 0, max(n, min(max(2*cap(p.keys), leastKeys), mostKeys)))
	}
	start := len(p.keys)
	p.keys = p.keys[:start+n]
	return p.keys[start : start : start+n]
}

func (p *putter) moveDue(w *store.Write, to effects.Time) {
	from := w.Prev.Due
	if from == to {
		return
	}
	if from != 0 {
		p.due = append(p.due, dueOp{key: p.dueKey(from, w.ID), kind: w.Kind})
	}
	if to != 0 {
		p.due = append(p.due, dueOp{key: p.dueKey(to, w.ID), kind: w.Kind, share: w.Share, waits: true})
	}
}

func (p *putter) dueKey(at effects.Time, id uuid.UUID) []byte {
	k := store.NewDueKey(at, id)
	return append(p.key(len(k)), k[:]...)
}

func (p *putter) moveTerms(w *store.Write, lists *table, terms []store.Term) {
	for i := range w.Prev.Terms {
		term := &w.Prev.Terms[i]
		if slices.Contains(terms, *term) {
			continue
		}
		p.lists = append(p.lists, indexOp{table: lists, key: p.listKey(term, w.ID)})
		p.count(w.Kind, term, -1)
	}
	for i := range terms {
		term := &terms[i]
		if slices.Contains(w.Prev.Terms, *term) {
			continue
		}
		value := []byte{}
		if term.Counted {
			value = []byte(Counted)
		}
		p.lists = append(p.lists, indexOp{table: lists, key: p.listKey(term, w.ID), value: value})
		p.count(w.Kind, term, +1)
	}
}

func (p *putter) listKey(term *store.Term, id uuid.UUID) []byte {
	return AppendListKey(p.key(lengthSize+len(term.Name)+listTail), term.Name, term.At, id)
}

func (p *putter) count(kind effects.Kind, term *store.Term, delta int64) {
	if !term.Counted {
		return
	}
	if p.counts == nil {
		p.counts = make(map[countKey]int64)
	}
	p.counts[countKey{kind, term.CountName()}] += delta
}

// finish writes the indexes.
func (p *putter) finish() {
	p.putDue(p.due)
	// Where a term only changes whether it is counted, the deletion of its key comes
	// before the new entry.
	slices.SortFunc(p.lists, func(a, b indexOp) int {
		switch c := bytes.Compare(a.key, b.key); {
		case c != 0:
			return c
		case a.value == nil && b.value != nil:
			return -1
		case a.value != nil && b.value == nil:
			return 1
		}
		return 0
	})
	for i := range p.lists {
		op := &p.lists[i]
		if op.value == nil {
			op.table.Delete(op.key)
		} else {
			op.table.PutNew(op.key, op.value)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.counts), countKey.compare) {
		p.add(k, p.counts[k])
	}
}

// add changes a count. It stops at 0, where only a damaged count or a wrong
// Prev can lead; Check finds it.
func (t *Tx) add(k countKey, delta int64) {
	if delta == 0 {
		return
	}
	key := CountKey(k.kind, k.term)
	old, err := t.count(key)
	if err != nil {
		old = 0 // a count is not worth stopping for
	}
	n := max(int64(old)+delta, 0)
	counts := t.table(inCounts)
	if n == 0 {
		counts.Delete(key)
		return
	}
	counts.Put(key, strconv.AppendInt(nil, n, 10))
}
