package kv

import (
	"bytes"
	"slices"

	"github.com/tidwall/btree"

	"github.com/orrery-go/orrery/store/internal/gaps"
)

// entry is what an overlay says of one key. Its bytes are part of a frame and never
// change.
type entry struct {
	key    []byte
	value  []byte  // nil: the key is not there, or the value is placed
	placed *placed // where a large value stands; nil: it is none
	fresh  bool    // nothing beneath this overlay has the key
}

// there reports whether the key has a value.
func (e *entry) there() bool { return e.value != nil || e.placed != nil }

// size is that of the value in bytes.
func (e *entry) size() int {
	if e.placed != nil {
		return e.placed.at.Length
	}
	return len(e.value)
}

func before(a, b entry) bool { return bytes.Compare(a.key, b.key) < 0 }

// layer is what an overlay says of one table.
type layer struct {
	tree *btree.BTreeG[entry]
	near btree.PathHint // where the writer was last: keys mostly come in order
	gone bool           // what is beneath this overlay does not count
	gaps gaps.List
	warm gaps.List // those of cursors that pass over the past
}

// degree is half of a node's entries. A transaction copies the nodes that it changes: half as many as the
// library's own 32 cost a small one less, and take great ones no longer.
const degree = 16

func newLayer() *layer {
	return &layer{tree: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true, Degree: degree})}
}

// copied gives a layer that can be written to, while the old one stays as it is for those
// who read it.
func (l *layer) copied() *layer {
	c := &layer{tree: l.tree.IsoCopy(), near: l.near, gone: l.gone}
	c.gaps.Take(&l.gaps)
	c.warm.Take(&l.warm)
	return c
}

func (l *layer) get(key []byte) (entry, bool) {
	if l == nil {
		return entry{}, false
	}
	return l.tree.Get(entry{key: key})
}

// hides reports whether nothing beneath the layer counts.
func (l *layer) hides() bool { return l != nil && l.gone }

// put notes an entry that has a value. It is fresh if no reader of the table finds the key now.
func (l *layer) put(e entry) {
	isNew := e.fresh
	if old, replaced := l.tree.SetHint(e, &l.near); replaced && old.fresh != isNew {
		e.fresh = old.fresh
		l.tree.SetHint(e, &l.near)
	}
	l.gaps.Put(e.key)
	l.warm.Put(e.key)
}

// remove notes that a key is not there. Nothing is noted of a key that nothing beneath has.
func (l *layer) remove(key []byte) {
	if old, ok := l.tree.DeleteHint(entry{key: key}, &l.near); ok && old.fresh {
		return
	}
	l.tree.SetHint(entry{key: key}, &l.near)
}

// drop makes the table one that is not there, whatever is beneath.
func (l *layer) drop() {
	l.tree, l.near, l.gone = newLayer().tree, btree.PathHint{}, true
	l.gaps.Clear()
	l.warm.Clear()
}

// overlay holds what has changed since a checkpoint, by table. One that was published
// is never written to.
type overlay struct {
	layers []*layer // by the table's number; nil: nothing has changed
	places bool     // there may be values that stand in the log alone
}

func (o *overlay) layer(table int) *layer {
	if o == nil || table < 0 || table >= len(o.layers) {
		return nil
	}
	return o.layers[table]
}

// hasPlaces reports whether values may have to be read from the log.
func (o *overlay) hasPlaces() bool { return o != nil && o.places }

// empty reports whether nothing has changed.
func (o *overlay) empty() bool {
	return o == nil || !slices.ContainsFunc(o.layers, func(l *layer) bool { return l != nil })
}

// writable is an overlay that one transaction writes to.
type writable struct {
	overlay
	own []bool // by table: its layer is the transaction's own
}

func (o *overlay) writable() *writable {
	w := &writable{own: make([]bool, len(o.layers))}
	w.layers, w.places = slices.Clone(o.layers), o.places
	return w
}

// layer gives the transaction's own layer of a table.
func (w *writable) ownLayer(table int) *layer {
	for table >= len(w.layers) {
		w.layers, w.own = append(w.layers, nil), append(w.own, false)
	}
	if !w.own[table] {
		if l := w.layers[table]; l != nil {
			w.layers[table] = l.copied()
		} else {
			w.layers[table] = newLayer()
		}
		w.own[table] = true
	}
	return w.layers[table]
}
