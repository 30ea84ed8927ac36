package replay

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// listKey names a list index.
type listKey struct {
	kind effects.Kind
	term string
}

// list is a list index as the replay has it: a heap of the places in which
// records have ever stood. An entry counts only where its record stands there
// now. What a batch has read is put back once the batch is over.
type list struct {
	open bool // what the journal does not touch is in it
	heap places
	read []core.Cursor
}

type places []core.Cursor

func (p places) Len() int { return len(p) }

func (p places) Less(i, j int) bool { return compare(p[i], p[j]) < 0 }

func (p places) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

func (p *places) Push(x any) { *p = append(*p, x.(core.Cursor)) }

func (p *places) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

func compare(a, b core.Cursor) int {
	return cmp.Or(cmp.Compare(a.At, b.At), bytes.Compare(a.ID[:], b.ID[:]))
}

// readFirst reads what the records that the journal touches were before it: the
// earliest base has it.
func (f *fold) readFirst() error {
	if len(f.epochs) == 0 {
		return nil
	}
	first := f.epochs[0].First
	for _, ep := range f.epochs {
		err := f.tx.Base(ep.Number, func(r store.Record) error {
			ref := effects.Ref{Kind: r.Kind, ID: r.ID}
			if _, ok := f.first[ref]; ok || r.Seq >= first {
				return nil // an earlier base has it, or the journal makes it
			}
			f.first[ref] = bytes.Clone(r.State)
			if !core.Scanned(r.Kind) {
				return nil
			}
			s, err := core.DecodeState(r.Kind, r.State)
			if err == nil {
				f.place(ref, s)
			}
			return nil // who loads it is told
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// place puts a record into the lists in which it stands.
func (f *fold) place(ref effects.Ref, s core.State) {
	if !core.Scanned(ref.Kind) {
		return
	}
	for _, t := range s.Terms() {
		heap.Push(&f.list(listKey{ref.Kind, t.Name}).heap, core.Cursor{At: t.At, ID: ref.ID})
	}
}

func (f *fold) list(key listKey) *list {
	l, ok := f.lists[key]
	if !ok {
		l = &list{}
		f.lists[key] = l
	}
	return l
}

// Scan gives the batch a list index as the replay has it so far.
func (f *fold) Scan(kind effects.Kind, term string, _ core.Cursor, limit int) ([]core.Cursor, error) {
	l := f.list(listKey{kind, term})
	if !l.open {
		l.open = true
		if err := f.addUntouched(l, kind, term); err != nil {
			return nil, err
		}
	}
	if len(l.read) == 0 {
		f.scanned = append(f.scanned, l)
	}
	from := len(l.read)
	for len(l.read)-from < limit && l.heap.Len() > 0 {
		p, ok := heap.Pop(&l.heap).(core.Cursor)
		if !ok || len(l.read) > 0 && l.read[len(l.read)-1] == p {
			continue // it stands there twice
		}
		s, err := f.Load(effects.Ref{Kind: kind, ID: p.ID})
		if err != nil {
			return nil, err
		}
		if s != nil && slices.ContainsFunc(s.Terms(), func(t effects.Term) bool { return t.Name == term && t.At == p.At }) {
			l.read = append(l.read, p)
		}
	}
	return slices.Clone(l.read[from:]), nil
}

// endScans puts back what a batch has read.
func (f *fold) endScans() {
	for _, l := range f.scanned {
		for _, p := range l.read {
			heap.Push(&l.heap, p)
		}
		l.read = l.read[:0]
	}
	f.scanned = f.scanned[:0]
}

// addUntouched adds the records that the journal touches nowhere: they stand in
// the store as they were before it.
func (f *fold) addUntouched(l *list, kind effects.Kind, term string) error {
	if f.report.FirstBatch <= 1 {
		return nil // there is nothing from before
	}
	const page = 1000
	for from := (store.Cursor{}); ; {
		found, err := f.tx.Scan(kind, term, from, false, page)
		if err != nil {
			return err
		}
		for _, c := range found {
			from = c
			rec, err := f.tx.Get(kind, c.ID)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				continue // the comparison names it
			}
			if err != nil {
				return err
			}
			if rec.Seq < f.report.FirstBatch {
				heap.Push(&l.heap, core.Cursor(c))
			}
		}
		if len(found) < page {
			return nil
		}
	}
}
