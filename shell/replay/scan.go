package replay

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"

	"github.com/tidwall/btree"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// lists are the list indexes that batches read, as the replay has them so far.
type lists struct {
	places *btree.BTreeG[place]
	open   map[uint64]bool // what the journal does not touch is in it
	seed   maphash.Seed
}

// place is where a record stands in a list, which is named by a hash.
type place struct {
	list uint64
	core.Cursor
}

func (p place) before(q place) bool {
	return cmp.Or(cmp.Compare(p.list, q.list), cmp.Compare(p.At, q.At), bytes.Compare(p.ID[:], q.ID[:])) < 0
}

func newLists() *lists {
	return &lists{
		places: btree.NewBTreeGOptions(place.before, btree.Options{NoLocks: true}),
		open:   make(map[uint64]bool), seed: maphash.MakeSeed(),
	}
}

func (l *lists) name(kind effects.Kind, term string) uint64 {
	return maphash.Comparable(l.seed, [2]string{string(kind), term})
}

// move takes a record from the lists in which it stood to those in which it stands; nil: it
// does not exist.
func (l *lists) move(ref effects.Ref, before, after core.State) {
	if !core.Scanned(ref.Kind) {
		return
	}
	if before != nil {
		for _, t := range before.Terms() {
			l.places.Delete(place{l.name(ref.Kind, t.Name), core.Cursor{At: t.At, ID: ref.ID}})
		}
	}
	if after != nil {
		for _, t := range after.Terms() {
			l.places.Set(place{l.name(ref.Kind, t.Name), core.Cursor{At: t.At, ID: ref.ID}})
		}
	}
}

// Scan gives the batch a list index as the replay has it so far: what it changes itself
// comes after its end.
func (f *fold) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	name := f.lists.name(kind, term)
	if !f.lists.open[name] && f.report.FirstBatch > 1 {
		f.lists.open[name] = true
		if err := f.addUntouched(name, kind, term); err != nil {
			return nil, err
		}
	}
	var found []core.Cursor
	f.lists.places.Ascend(place{name, after}, func(p place) bool {
		if p.list == name && p.Cursor != after {
			found = append(found, p.Cursor)
		}
		return p.list == name && len(found) < limit
	})
	return found, nil
}

// addUntouched adds the records that the journal touches nowhere: they stand in
// the store as they were before it.
func (f *fold) addUntouched(name uint64, kind effects.Kind, term string) error {
	const page = 1000
	return f.tx.read(func(tx store.ReadTx) error {
		for from := (store.Cursor{}); ; {
			found, err := tx.Scan(kind, term, from, false, page)
			if err != nil {
				return err
			}
			for _, c := range found {
				from = c
				rec, err := tx.Get(kind, c.ID)
				if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
					continue // the comparison names it
				}
				if err != nil {
					return err
				}
				if rec.Seq < f.report.FirstBatch {
					f.lists.places.Set(place{name, core.Cursor(c)})
				}
			}
			if len(found) < page {
				return nil
			}
		}
	})
}
