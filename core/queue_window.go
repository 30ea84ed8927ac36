package core

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Cursor is a position in a list index: its time, then an id.
type Cursor struct {
	At Time
	ID uuid.UUID
}

func (p Cursor) before(o Cursor) bool { return p.compare(o) < 0 }

func (p Cursor) compare(o Cursor) int {
	if c := cmp.Compare(p.At, o.At); c != 0 {
		return c
	}
	return bytes.Compare(p.ID[:], o.ID[:])
}

// window is what a batch shows a queue of its items: it looks them up where the
// transition asks for them, and makes each a slot of its own, as it does with
// machines. What the batch itself has changed is laid over what the loader gives.
type window struct {
	records
	queue uuid.UUID
}

// listKeyOf names one list within a batch.
type listKeyOf struct {
	list queueList
	of   uuid.UUID
}

// windowList is one list as a batch sees it: what stood there before the batch, page
// by page, and what the batch has put there. An entry counts only where the
// record stands there now; others are skipped for good. Where a change is
// undone, the record's cursor is put in once more.
type windowList struct {
	page []Cursor // of the loader, not yet skipped
	last Cursor   // where the next page begins
	end  bool     // there is no further page
	size int      // of the next page
	heap []Cursor // of the batch
}

// Bounds of the pages that a batch asks for.
const (
	firstPage = 16
	lastPage  = 512
)

// applyIn carries out one transition of a queue over the window.
func (q Queue) applyIn(t *Batch, e Event) (State, []effects.Effect, error) {
	own, ok := e.(QueueEvent)
	if !ok { // refused
		next, effs := kinds[KindQueue].apply(q, e, t.clock)
		return next, effs, nil
	}
	w := window{records{t: t}, q.ID}
	next, effs := q.header().applyTo(&w, own, t.clock)
	return next, effs, w.err
}

// overlay puts a record that has changed into the lists in which it stands now.
func (t *Batch) overlay(s State) {
	switch s := s.(type) {
	case QueueItem:
		l, at := s.list()
		t.enlist(l, s.Queue, Cursor{at, s.ID})
		if s.queued() {
			t.enlist(listKey, partID(s.Queue, "key", s.Key), Cursor{order(s.Priority, s.Position), s.ID})
		}
		if s.returnable() {
			t.enlist(listOrigin, s.Queue, Cursor{s.CreatedAt, s.ID})
		}
	case QueueKey:
		if !s.Until.IsZero() {
			t.enlist(listBlocked, s.Queue, Cursor{s.Until, s.ID})
		}
	case QueueDedup:
		if !s.Until.IsZero() {
			t.enlist(listWindow, s.Queue, Cursor{s.Until, s.ID})
		}
	}
}

func (t *Batch) list(l queueList, of uuid.UUID) *windowList {
	key := listKeyOf{l, of}
	w, ok := t.lists[key]
	if !ok {
		if t.lists == nil {
			t.lists = make(map[listKeyOf]*windowList)
		}
		w = &windowList{size: firstPage}
		t.lists[key] = w
	}
	return w
}

func (t *Batch) enlist(l queueList, of uuid.UUID, p Cursor) {
	w := t.list(l, of)
	w.heap = append(w.heap, p)
	for i := len(w.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !w.heap[i].before(w.heap[up]) {
			break
		}
		w.heap[i], w.heap[up] = w.heap[up], w.heap[i]
		i = up
	}
}

// pop takes the first entry out of the heap.
func (w *windowList) pop() {
	n := len(w.heap) - 1
	w.heap[0] = w.heap[n]
	w.heap = w.heap[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if w.heap[c].before(w.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		w.heap[i], w.heap[least] = w.heap[least], w.heap[i]
		i = least
	}
}

// first gives the first record that stands in a list.
func (w *window) first(l queueList, of uuid.UUID) State {
	list := w.t.list(l, of)
	for w.err == nil {
		if len(list.page) == 0 && !list.end {
			if w.err = w.t.fetch(list, l, of); w.err != nil {
				return nil
			}
		}
		heap := len(list.heap) > 0 && (len(list.page) == 0 || list.heap[0].before(list.page[0]))
		var p Cursor
		switch {
		case heap:
			p = list.heap[0]
		case len(list.page) > 0:
			p = list.page[0]
		default:
			return nil
		}
		if s := w.record(l.kind(), p.ID); s != nil && standsAt(s, l, of, p.At) {
			return s
		}
		if w.err != nil {
			return nil
		}
		if heap {
			list.pop()
		} else {
			list.page = list.page[1:]
		}
	}
	return nil
}

// cursors gives all of a list. The index is believed where the batch has not seen
// the record: it may be one of a million.
func (w *window) cursors(l queueList, of uuid.UUID) []Cursor {
	list := w.t.list(l, of)
	for !list.end && w.err == nil {
		have := list.page
		if w.err = w.t.fetch(list, l, of); w.err != nil {
			return nil
		}
		list.page = slices.Concat(have, list.page)
	}
	all := slices.Concat(list.page, list.heap)
	slices.SortFunc(all, Cursor.compare)
	return slices.DeleteFunc(slices.Compact(all), func(p Cursor) bool {
		s, seen := w.t.slots[effects.Ref{Kind: l.kind(), ID: p.ID}]
		return seen && (s.now == nil || !standsAt(s.now, l, of, p.At))
	})
}

func (t *Batch) fetch(list *windowList, l queueList, of uuid.UUID) error {
	page, err := t.loader.Scan(l.kind(), l.term(of), list.last, list.size)
	if err != nil {
		t.lost = true
		return err
	}
	list.page, list.end = page, len(page) < list.size
	if len(page) > 0 {
		list.last = page[len(page)-1]
	}
	list.size = min(2*list.size, lastPage)
	return nil
}

// standing reports whether a record stands in that list of the queue, or of the item's
// key, and at which time.
func standing(s State, l queueList, of uuid.UUID) (Time, bool) {
	switch s := s.(type) {
	case QueueItem:
		return s.at(l, of)
	case QueueKey:
		return s.Until, l == listBlocked && s.Queue == of && !s.Until.IsZero()
	case QueueDedup:
		return s.Until, l == listWindow && s.Queue == of && !s.Until.IsZero()
	}
	return 0, false
}

// standsAt reports whether a record stands in that list at that time.
func standsAt(s State, l queueList, of uuid.UUID, at Time) bool {
	is, in := standing(s, l, of)
	return in && is == at
}
