package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// redrive gives items another chance.
func (r *queueRun) redrive(e QueueRedrive) {
	if err := checkBetween("limit", int64(e.Limit), 0, MaxQueueBatch); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return
	}
	if e.Item != uuid.Nil {
		i, ok := r.ownItem(e.Item)
		if !ok {
			return
		}
		if i.State.Type != ItemDead && !i.returnable() {
			r.refuse(effects.CodeConflict, fmt.Sprintf("item %s is %s: only a dead one, or a dead letter that nobody holds, gets another chance", i.ID, i.State.Type))
			return
		}
		r.revive(i)
		r.answer(QueueMoved{Moved: 1})
		return
	}
	m := QueueMoved{}
	for limit := batchOf(e.Limit); m.Moved < limit && r.moved < maxMovedBytes; m.Moved++ {
		i, ok := r.first(listOrigin)
		if !ok {
			i, ok = r.first(listDead)
		}
		if !ok {
			break
		}
		r.revive(i)
	}
	if m.Moved == 0 {
		r.refuse(effects.CodeEmpty, fmt.Sprintf("queue %q has no item that is dead or came as a dead letter", clip(r.q.Name)))
		return
	}
	_, origin := r.first(listOrigin)
	m.More = origin || r.q.Dead > 0
	r.answer(m)
}

func batchOf(limit uint32) uint32 {
	if limit == 0 {
		return MaxQueueBatch
	}
	return limit
}

// revive sends a dead letter back to where it comes from, and lets a dead item
// begin again.
func (r *queueRun) revive(before QueueItem) {
	up(&r.q.Redriven)
	if o := before.Origin; o != nil {
		r.move(&before, nil)
		r.send(QueueRef(o.Namespace, o.Tenant, o.Name), QueuePush{
			Namespace: o.Namespace, Tenant: o.Tenant, Name: o.Name,
			Data: before.Data, Priority: before.Priority, Key: before.Key,
		})
		return
	}
	i := before
	i.Attempts, i.Turn = 0, r.nextTurn()
	i = pending(i, 0)
	r.move(&before, &i)
}

// pause: active → paused.
func (r *queueRun) pause(e QueuePause) {
	if err := errors.Join(checkName("by", e.By, false), checkText("reason", e.Reason)); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return
	}
	if r.q.Paused {
		r.refuse(effects.CodeConflict, fmt.Sprintf("queue %q is paused already", clip(r.q.Name)))
		return
	}
	r.q.Paused, r.q.PausedBy, r.q.Reason = true, e.By, e.Reason
}

// resume: paused → active.
func (r *queueRun) resume() {
	if !r.q.Paused {
		r.refuse(effects.CodeConflict, fmt.Sprintf("queue %q is not paused", clip(r.q.Name)))
		return
	}
	r.q.Paused, r.q.PausedBy, r.q.Reason = false, "", ""
	r.readied = true
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
func (r *queueRun) purge(e QueuePurge) {
	if err := r.checkPurge(e); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return
	}
	reason := clipText(reasonOr(e.Reason, "purged"))
	limit, m, dropped := batchOf(e.Limit), QueueMoved{}, uint32(0)
	for _, p := range purgeable {
		if len(e.States) > 0 && !slices.Contains(e.States, p.state) {
			continue
		}
		for _, l := range p.lists {
			for m.Moved < limit && r.moved < maxMovedBytes {
				i, ok := r.first(l)
				if !ok {
					break
				}
				r.discard(i, reason)
				m.Moved++
			}
			m.More = m.More || *r.q.gauge(l) > 0
		}
	}
	if len(e.States) == 0 { // and what is only remembered
		for ; m.Moved+dropped < limit; dropped++ {
			d, ok := r.v.firstDedup(r.q.ID)
			if !ok {
				break
			}
			r.dropDedup(d.ID)
		}
		m.More = m.More || m.Moved+dropped == limit
	}
	if m.Moved+dropped == 0 {
		r.refuse(effects.CodeEmpty, fmt.Sprintf("queue %q has nothing to purge", clip(r.q.Name)))
		return
	}
	r.readied = false
	r.answer(m)
}

func (r *queueRun) checkPurge(e QueuePurge) error {
	for n, s := range e.States {
		if s != ItemPending && s != ItemFailed && s != ItemDead && s != ItemCompleted || n >= len(purgeable) {
			return fmt.Errorf("states[%d]: %q cannot be purged: use %q, %q, %q or %q, each once", n, clip(string(s)), ItemPending, ItemFailed, ItemDead, ItemCompleted)
		}
	}
	return checkBetween("limit", int64(e.Limit), 0, MaxQueueBatch)
}

// remove: active, paused → (absent), once no item is left.
func (r *queueRun) remove() {
	if n := r.q.Held(); n > 0 {
		r.refuse(effects.CodeConflict, fmt.Sprintf("queue %q holds %d items: purge or finish them first", clip(r.q.Name), n))
		return
	}
	for range MaxQueueBatch {
		d, ok := r.v.firstDedup(r.q.ID)
		if !ok {
			break
		}
		r.dropDedup(d.ID)
	}
	for range MaxQueueBatch {
		k, ok := r.v.firstKey(r.q.ID)
		if !ok {
			break
		}
		r.putKey(k, true, false)
	}
	_, keys := r.v.firstKey(r.q.ID)
	if _, windows := r.v.firstDedup(r.q.ID); keys || windows {
		r.refuse(effects.CodeConflict, fmt.Sprintf("queue %q remembers %d keys and %d dedup keys: purge it first", clip(r.q.Name), r.q.KeyCount, r.q.Windows))
		return
	}
	r.q, r.readied = Queue{}, false
}
