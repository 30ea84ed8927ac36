package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// redrive gives items another chance.
func (t *queueTransition) redrive(e QueueRedrive) {
	if t.invalid(checkBetween("limit", int64(e.Limit), 0, MaxQueueBatch)) {
		return
	}
	if e.Item != uuid.Nil {
		i, ok := t.findItem(e.Item)
		if !ok {
			return
		}
		if i.State.Type != ItemDead && !i.returnable() {
			t.refuse(effects.CodeConflict, "item %s is %s: only a dead one, or a dead letter that nobody holds, gets another chance", i.ID, i.State.Type)
			return
		}
		t.redriveItem(i)
		t.answer(QueueMoved{Moved: 1})
		return
	}
	m := QueueMoved{}
	for limit := limitOr(e.Limit); m.Moved < limit && t.moved < maxMovedBytes; m.Moved++ {
		i, ok := t.head(listOrigin)
		if !ok {
			i, ok = t.head(listDead)
		}
		if !ok {
			break
		}
		t.redriveItem(i)
	}
	if m.Moved == 0 {
		t.refuse(effects.CodeEmpty, "queue %q has no item that is dead or came as a dead letter", clip(t.Name))
		return
	}
	_, origin := t.head(listOrigin)
	m.More = origin || t.Dead > 0
	t.answer(m)
}

func limitOr(limit uint32) uint32 {
	if limit == 0 {
		return MaxQueueBatch
	}
	return limit
}

// redriveItem sends a dead letter back to where it comes from, and lets a dead item
// begin again.
func (t *queueTransition) redriveItem(before QueueItem) {
	increment(&t.Redriven)
	if o := before.Origin; o != nil {
		t.move(&before, nil)
		t.send(QueueRef(o.Namespace, o.Tenant, o.Name), QueuePush{
			Namespace: o.Namespace, Tenant: o.Tenant, Name: o.Name,
			Data: before.Data, Priority: before.Priority, Key: before.Key,
		})
		return
	}
	i := before
	i.Attempts, i.Position = 0, t.nextPosition()
	i = pending(i, 0)
	t.move(&before, &i)
}

// purgeable are the lists of each state that can be purged.
//
// read-only: a table
var purgeable = [...]struct {
	state ItemStateType
	lists []queueList
}{

	{ItemPending, []queueList{listReady, listWaiting, listDelayed}},
	{ItemFailed, []queueList{listRetrying}},
	{ItemDead, []queueList{listDead}},
	{ItemCompleted, []queueList{listKept}},
}

// purge removes items by their state.
func (t *queueTransition) purge(e QueuePurge) {
	if t.invalid(t.checkPurge(e)) {
		return
	}
	reason := clipText(reasonOr(e.Reason, "purged"))
	limit, m, dropped := limitOr(e.Limit), QueueMoved{}, uint32(0)
	for _, p := range purgeable {
		if len(e.States) > 0 && !slices.Contains(e.States, p.state) {
			continue
		}
		for _, l := range p.lists {
			for m.Moved < limit && t.moved < maxMovedBytes {
				i, ok := t.head(l)
				if !ok {
					break
				}
				t.removeItem(i, reason)
				m.Moved++
			}
			m.More = m.More || *t.gauge(l) > 0
		}
	}
	if len(e.States) == 0 { // and what is only remembered
		for ; m.Moved+dropped < limit; dropped++ {
			d, ok := t.view.firstDedup(t.ID)
			if !ok {
				break
			}
			t.dropDedup(d.ID)
		}
		m.More = m.More || m.Moved+dropped == limit
	}
	if m.Moved+dropped == 0 {
		t.refuse(effects.CodeEmpty, "queue %q has nothing to purge", clip(t.Name))
		return
	}
	t.readied = false
	t.answer(m)
}

func (t *queueTransition) checkPurge(e QueuePurge) error {
	for n, s := range e.States {
		if s != ItemPending && s != ItemFailed && s != ItemDead && s != ItemCompleted || n >= len(purgeable) {
			return fmt.Errorf("states[%d]: %q cannot be purged: use %q, %q, %q or %q, each once", n, clip(string(s)), ItemPending, ItemFailed, ItemDead, ItemCompleted)
		}
	}
	return checkBetween("limit", int64(e.Limit), 0, MaxQueueBatch)
}

// cancelItem removes an item that is not held.
func (t *queueTransition) cancelItem(e QueueCancelItem) {
	i, ok := t.findItem(e.Item)
	if !ok {
		return
	}
	if is := i.State.Type; is == ItemProcessing || is == ItemCompleted {
		t.refuse(effects.CodeConflict, "item %s is %s: only one that is pending, failed or dead can be removed", i.ID, is)
		return
	}
	t.removeItem(i, clipText(reasonOr(e.Reason, "cancelled")))
}
