package core

import "github.com/google/uuid"

// moveInKey does for the item's key what move does for the queue.
func (t *queueTransition) moveInKey(id uuid.UUID, key string, before, after *QueueItem) {
	keyID := partID(t.ID, "key", key)
	k, there := t.view.key(keyID)
	if !there {
		k = QueueKey{ID: keyID, Queue: t.ID, Key: key}
	}
	was := before != nil && before.State.Type == ItemProcessing
	is := after != nil && after.State.Type == ItemProcessing
	switch {
	case was && !is:
		decrement(&k.InFlight)
	case is && !was:
		increment(&k.InFlight)
		k.RateTAT = t.Config.KeyRate.took(k.RateTAT, t.clock.Now)
	}
	if before != nil && before.queued() {
		decrement(&k.Waiting)
		if k.Front == id {
			k.Front = uuid.Nil
		}
	}
	if after != nil && after.queued() {
		increment(&k.Waiting)
	}
	t.advanceKey(k, there)
}

// keyMayRun reports whether an item of the key may be taken now; if only the key's
// rate forbids that, at is when.
func (t *queueTransition) keyMayRun(k *QueueKey) (ok bool, at Time) {
	if most := t.Config.KeyConcurrency; most > 0 && k.InFlight >= uint64(most) {
		return false, 0
	}
	at = t.Config.KeyRate.next(k.RateTAT, t.clock.Now)
	return at <= t.clock.Now, at
}

// advanceKey puts the first item of the key into the ready line if an item of the key
// may run, and takes any other one out: so the keys rotate. The record of a key that
// has no item left is dropped.
func (t *queueTransition) advanceKey(k QueueKey, there bool) {
	var first QueueItem
	waits := false
	if k.Waiting > 0 {
		if first, waits = t.view.firstItem(listKey, k.ID); !waits {
			k.Waiting = 0 // its record was set aside
		}
	}
	may, at := t.keyMayRun(&k)
	position := uint32(0)
	if k.Front != uuid.Nil && (!may || !waits || k.Front != first.ID) {
		position = t.leaveLine(k.Front)
		k.Front = uuid.Nil
	}
	k.Until = 0
	switch {
	case waits && may && k.Front == uuid.Nil:
		if position == 0 { // else the item takes the position of the one that it has overtaken
			position = first.Position
			if first.Position != t.LastPosition {
				position = t.nextPosition()
			}
			t.readied = true
		}
		first.ReadyPosition = position
		decrement(&t.Waiting)
		increment(&t.Ready)
		k.Front = first.ID
		t.view.put(first)
	case waits && !may:
		k.Until = at // 0: the key advances when one of its items in flight ends
	case !waits && k.InFlight == 0 && at > t.clock.Now:
		k.Until = at // the record of its rate is needed until then
	}
	t.wakeAt(k.Until)
	t.putKey(k, there, waits || k.InFlight > 0 || !k.Until.IsZero())
}

// leaveLine takes the item of a key out of the ready line, and gives its position.
func (t *queueTransition) leaveLine(id uuid.UUID) uint32 {
	i, ok := t.view.item(id)
	if !ok || !i.queued() || i.ReadyPosition == 0 {
		return 0
	}
	position := i.ReadyPosition
	i.ReadyPosition = 0
	decrement(&t.Ready)
	increment(&t.Waiting)
	t.view.put(i)
	return position
}

// putKey stores the record of a key, or drops it.
func (t *queueTransition) putKey(k QueueKey, there, keep bool) {
	switch {
	case keep && !there:
		increment(&t.KeyCount)
	case there && !keep:
		decrement(&t.KeyCount)
	}
	switch {
	case keep:
		t.view.put(k)
	case there:
		t.view.drop(KindQueueKey, k.ID)
	}
}

// unblockKey advances the first key that waits for its time, if the rate was raised
// since that time was set; it reports whether the key may run.
func (t *queueTransition) unblockKey() bool {
	if t.KeyCount == 0 {
		return false
	}
	k, ok := t.view.firstKey(t.ID)
	if !ok {
		return false
	}
	may, _ := t.keyMayRun(&k)
	if may {
		t.advanceKey(k, true)
	}
	return may
}
