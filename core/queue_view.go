package core

import (
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// queueView is what a transition sees of the items, keys and dedup keys of its
// queue, and writes to: all of them, or those that a [Batch] looks up.
type queueView interface {
	// record gives a record of that kind; nil if there is none.
	record(kind effects.Kind, id uuid.UUID) State
	// first gives the first record of a list; of is the queue, or for listKey the key.
	first(l queueList, of uuid.UUID) State
	// cursors gives all of a list, in its order, as the index has it: for what is lost.
	cursors(l queueList, of uuid.UUID) []Cursor

	put(record State)
	drop(kind effects.Kind, id uuid.UUID)
}

// queueRecords gives the records of a view by their types.
type queueRecords struct{ queueView }

// stateAs gives a state as that of one machine; false: it is another's, or none.
func stateAs[S State](s State) (S, bool) {
	as, ok := s.(S)
	return as, ok
}

func (v queueRecords) item(id uuid.UUID) (QueueItem, bool) {
	return stateAs[QueueItem](v.record(KindQueueItem, id))
}

func (v queueRecords) key(id uuid.UUID) (QueueKey, bool) {
	return stateAs[QueueKey](v.record(KindQueueKey, id))
}

func (v queueRecords) dedup(id uuid.UUID) (QueueDedup, bool) {
	return stateAs[QueueDedup](v.record(KindQueueDedup, id))
}

func (v queueRecords) firstItem(l queueList, of uuid.UUID) (QueueItem, bool) {
	return stateAs[QueueItem](v.first(l, of))
}

func (v queueRecords) firstKey(of uuid.UUID) (QueueKey, bool) {
	return stateAs[QueueKey](v.first(listBlocked, of))
}

func (v queueRecords) firstDedup(of uuid.UUID) (QueueDedup, bool) {
	return stateAs[QueueDedup](v.first(listWindow, of))
}

// whole is the view of all that a queue holds, in no order.
type whole struct{ records []State }

// wholeOf gives the view of the records that the queue itself has.
func wholeOf(q Queue) *whole {
	w := &whole{records: make([]State, 0, len(q.Items)+len(q.Keys)+len(q.Dedups))}
	for _, i := range q.Items {
		w.records = append(w.records, i)
	}
	for _, k := range q.Keys {
		w.records = append(w.records, k)
	}
	for _, d := range q.Dedups {
		w.records = append(w.records, d)
	}
	return w
}

// recordsOf lists the records of one kind, ordered by id; nil if there are none.
func recordsOf[S State](w *whole) (out []S) {
	for _, r := range w.records {
		if s, ok := r.(S); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b S) int { return Cursor{ID: a.Ref().ID}.compare(Cursor{ID: b.Ref().ID}) })
	return out
}

func (w *whole) record(kind effects.Kind, id uuid.UUID) State {
	if i := w.find(refOf(kind, id)); i >= 0 {
		return w.records[i]
	}
	return nil
}

func (w *whole) find(ref effects.Ref) int {
	return slices.IndexFunc(w.records, func(s State) bool { return s.Ref() == ref })
}

func (w *whole) first(l queueList, of uuid.UUID) State {
	if all := w.cursors(l, of); len(all) > 0 {
		return w.record(l.kind(), all[0].ID)
	}
	return nil
}

func (w *whole) cursors(l queueList, of uuid.UUID) (out []Cursor) {
	for _, s := range w.records {
		at, in := standing(s, l, of)
		if i, ok := s.(QueueItem); ok && in && l == listKey { // standing does not look at the key
			in = partID(i.Queue, "key", i.Key) == of
		}
		if in {
			out = append(out, Cursor{at, s.Ref().ID})
		}
	}
	slices.SortFunc(out, Cursor.compare)
	return out
}

func (w *whole) put(record State) {
	w.drop(record.Ref().Kind, record.Ref().ID)
	w.records = append(w.records, record)
}

func (w *whole) drop(kind effects.Kind, id uuid.UUID) {
	if i := w.find(refOf(kind, id)); i >= 0 {
		w.records = slices.Delete(w.records, i, i+1)
	}
}
