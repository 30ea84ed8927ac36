package core

import (
	"bytes"
	"slices"

	"github.com/google/uuid"
)

// queueView is what a transition sees of the items, keys and dedup keys of its
// queue, and writes to: all of them, or those that a [Batch] looks up.
type queueView interface {
	item(id uuid.UUID) (QueueItem, bool)
	key(id uuid.UUID) (QueueKey, bool)
	dedup(id uuid.UUID) (QueueDedup, bool)
	// The first of a list; of is the queue, or for listKey the key.
	firstItem(l queueList, of uuid.UUID) (QueueItem, bool)
	firstKey(of uuid.UUID) (QueueKey, bool)
	firstDedup(of uuid.UUID) (QueueDedup, bool)
	// All cursors of a list, in its order, as the index has them: for what is lost.
	cursors(l queueList, of uuid.UUID) []Cursor

	putItem(i QueueItem)
	putKey(k QueueKey)
	putDedup(d QueueDedup)
	dropItem(id uuid.UUID)
	dropKey(id uuid.UUID)
	dropDedup(id uuid.UUID)
}

// whole is the view of all that a queue holds, as slices ordered by id. It replaces
// slices, and never writes to those that it was given.
type whole struct {
	items  []QueueItem
	keys   []QueueKey
	dedups []QueueDedup
}

func find[T any](list []T, id uuid.UUID, of func(T) uuid.UUID) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(e T, id uuid.UUID) int {
		own := of(e)
		return bytes.Compare(own[:], id[:])
	})
}

// with gives the list with one element put in or replaced, or with nil taken out.
func with[T any](list []T, id uuid.UUID, of func(T) uuid.UUID, e *T) []T {
	i, there := find(list, id, of)
	end := i
	if there {
		end++
	}
	out := append(make([]T, 0, len(list)+1), list[:i]...)
	if e != nil {
		out = append(out, *e)
	}
	if out = append(out, list[end:]...); len(out) == 0 {
		return nil
	}
	return out
}

func idOfItem(i QueueItem) uuid.UUID { return i.ID }

func idOfKey(k QueueKey) uuid.UUID { return k.ID }

func idOfDedup(d QueueDedup) uuid.UUID { return d.ID }

func get[T any](list []T, id uuid.UUID, of func(T) uuid.UUID) (e T, ok bool) {
	i, ok := find(list, id, of)
	if ok {
		e = list[i]
	}
	return e, ok
}

// least gives the first element that stands in a list, by its key there, then by id.
func least[T any](list []T, at func(*T) (Time, bool)) (e T, ok bool) {
	best, when := -1, Time(0)
	for i := range list {
		if t, in := at(&list[i]); in && (best < 0 || t < when) { // ordered by id
			best, when = i, t
		}
	}
	if best < 0 {
		return e, false
	}
	return list[best], true
}

func (w *whole) item(id uuid.UUID) (QueueItem, bool) { return get(w.items, id, idOfItem) }

func (w *whole) key(id uuid.UUID) (QueueKey, bool) { return get(w.keys, id, idOfKey) }

func (w *whole) dedup(id uuid.UUID) (QueueDedup, bool) { return get(w.dedups, id, idOfDedup) }

func (w *whole) firstItem(l queueList, of uuid.UUID) (QueueItem, bool) {
	key := ""
	if l == listKey {
		k, _ := w.key(of)
		key = k.Key
		for i := range w.items { // the record of a new key is not there yet
			if key == "" && w.items[i].queued() && partID(w.items[i].Queue, "key", w.items[i].Key) == of {
				key = w.items[i].Key
			}
		}
	}
	return least(w.items, func(i *QueueItem) (Time, bool) {
		at, in := i.at(l, of)
		return at, in && (l != listKey || i.Key == key)
	})
}

func (w *whole) firstKey(of uuid.UUID) (QueueKey, bool) {
	return least(w.keys, func(k *QueueKey) (Time, bool) { return k.Until, !k.Until.IsZero() && k.Queue == of })
}

func (w *whole) firstDedup(of uuid.UUID) (QueueDedup, bool) {
	return least(w.dedups, func(d *QueueDedup) (Time, bool) { return d.Until, !d.Until.IsZero() && d.Queue == of })
}

func (w *whole) cursors(l queueList, of uuid.UUID) (out []Cursor) {
	add := func(at Time, id uuid.UUID, in bool) {
		if in {
			out = append(out, Cursor{at, id})
		}
	}
	for i := range w.items {
		at, in := w.items[i].at(l, of)
		if l == listKey {
			in = in && partID(w.items[i].Queue, "key", w.items[i].Key) == of
		}
		add(at, w.items[i].ID, in && l.kind() == KindQueueItem)
	}
	for _, k := range w.keys {
		add(k.Until, k.ID, l == listBlocked && k.Queue == of && !k.Until.IsZero())
	}
	for _, d := range w.dedups {
		add(d.Until, d.ID, l == listWindow && d.Queue == of && !d.Until.IsZero())
	}
	slices.SortFunc(out, Cursor.compare)
	return out
}

func (w *whole) putItem(i QueueItem) { w.items = with(w.items, i.ID, idOfItem, &i) }

func (w *whole) putKey(k QueueKey) { w.keys = with(w.keys, k.ID, idOfKey, &k) }

func (w *whole) putDedup(d QueueDedup) { w.dedups = with(w.dedups, d.ID, idOfDedup, &d) }

func (w *whole) dropItem(id uuid.UUID) { w.items = with(w.items, id, idOfItem, nil) }

func (w *whole) dropKey(id uuid.UUID) { w.keys = with(w.keys, id, idOfKey, nil) }

func (w *whole) dropDedup(id uuid.UUID) { w.dedups = with(w.dedups, id, idOfDedup, nil) }
