package core

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// take gives the first items in the order to a holder (003 take).
func (t *queueTransition) take(e QueueTake) {
	most := max(e.Max, 1)
	if t.invalid(errors.Join(
		checkName("holder", e.Holder, true),
		checkBetween("max", int64(e.Max), 0, MaxQueueTake),
		checkBetween("visibility_ms", e.VisibilityMS, 0, MaxVisibilityMS),
	)) {
		return
	}
	t.fireTimers()
	readied := t.readied
	taken, why := t.takeUpTo(e, int(most))
	t.readied = readied
	if !e.Owner.IsZero() {
		t.send(e.Owner.Ref, QueueTaken{N: e.Owner.N, Items: taken})
		if at := t.Config.Rate.next(t.RateTAT, t.clock.Now); len(taken) < int(most) && at > t.clock.Now {
			t.Limited = at
			t.wakeAt(at)
		}
		return
	}
	if len(taken) == 0 {
		t.refuse(effects.CodeEmpty, "queue %q gives nothing at the moment: %s", clip(t.Name), why)
		return
	}
	t.answer(QueueItems(taken))
}

func (t *queueTransition) takeUpTo(e QueueTake, most int) (taken []QueueItem, why string) {
	if t.Paused {
		return nil, "it is paused"
	}
	visible := e.VisibilityMS
	if visible == 0 {
		visible = t.Config.VisibilityTimeoutMS
	}
	until := laterMS(t.clock.Now, visible)
	for range most + maxDueItems {
		if len(taken) == most || len(taken) > 0 && t.moved >= maxMovedBytes {
			return taken, ""
		}
		if n := t.Config.Concurrency; n > 0 && t.InFlight >= uint64(n) {
			return taken, fmt.Sprintf("its concurrency of %d is used up", n)
		}
		if at := t.Config.Rate.next(t.RateTAT, t.clock.Now); at > t.clock.Now {
			return taken, fmt.Sprintf("its rate allows the next item at %s", at)
		}
		i, ok := t.head(listReady)
		if !ok && t.unblockKey() {
			continue
		}
		if !ok {
			return taken, fmt.Sprintf("no item is ready, %d wait behind their key, %d for their time, %d are in flight", t.Waiting, t.Delayed+t.Retrying, t.InFlight)
		}
		if i, ok = t.takeOne(i, e.Holder, until); ok {
			taken = append(taken, i)
		}
	}
	return taken, "many items are past their attempts: ask again"
}

func (t *queueTransition) takeOne(before QueueItem, holder string, until Time) (QueueItem, bool) {
	if before.Key != "" { // the limits may have been lowered since it entered the line
		k, ok := t.view.key(partID(t.ID, "key", before.Key))
		if may, _ := t.keyMayRun(&k); ok && !may {
			t.advanceKey(k, true)
			return before, false
		}
	}
	if before.Attempts >= t.Config.Retry.Attempts() {
		t.giveUp(before, fmt.Sprintf("max_attempts is %d now, and %d were made", t.Config.Retry.Attempts(), before.Attempts))
		return before, false
	}
	i := before
	i.Attempts++
	i.ReadyPosition = 0
	i.State = ItemState{Type: ItemProcessing, Holder: holder, TakenAt: t.clock.Now, Until: until}
	t.RateTAT = t.Config.Rate.took(t.RateTAT, t.clock.Now)
	increment(&t.Taken)
	t.move(&before, &i)
	t.emit("take", i.ID)
	return i, true
}

// heldItem gives the item if that holder holds it for that attempt, and else refuses.
func (t *queueTransition) heldItem(id uuid.UUID, holder string, attempt uint32) (QueueItem, bool) {
	i, ok := t.findItem(id)
	switch {
	case !ok:
	case i.State.Type != ItemProcessing:
		t.refuse(effects.CodeConflict, "item %s is %s: nobody holds it; who held it was too slow, or has answered already", id, i.State.Type)
	case i.State.Holder != holder:
		t.refuse(effects.CodeConflict, "holder: item %s is held by %q, not by %q", id, clip(i.State.Holder), clip(holder))
	case i.Attempts != attempt:
		t.refuse(effects.CodeConflict, "attempt: item %s is held for attempt %d, not for %d", id, i.Attempts, attempt)
	default:
		return i, true
	}
	return i, false
}

func (t *queueTransition) findItem(id uuid.UUID) (QueueItem, bool) {
	i, ok := t.view.item(id)
	if !ok || i.Queue != t.ID {
		t.refuse(effects.CodeNotFound, "item: %s is not in queue %q: it has ended, or never was there", id, clip(t.Name))
		return i, false
	}
	return i, true
}

// complete ends an item (003 complete).
func (t *queueTransition) complete(e QueueComplete) {
	before, ok := t.heldItem(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	result := storedResult(e.Result)
	if len(result) > MaxInputBytes {
		t.refuse(effects.CodeInvalid, "result: %d bytes is more than %d", len(result), MaxInputBytes)
		return
	}
	i := before
	i.State = ItemState{Type: ItemCompleted, At: t.clock.Now, Result: result}
	increment(&t.Completed)
	t.releaseDedup(&i)
	t.tellOwner(&i, ChildEnded{Outcome: ChildSucceeded, Result: result})
	t.emit("complete", i.ID)
	if keep := t.Config.KeepCompletedMS; keep > 0 {
		i.State.Until = laterMS(t.clock.Now, keep)
		t.move(&before, &i)
		return
	}
	t.move(&before, nil)
}

// fail ends an attempt (003 fail).
func (t *queueTransition) fail(e QueueFail) {
	i, ok := t.heldItem(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	reason := clipText(reasonOr(e.Error, "failed without a reason"))
	increment(&t.Failed)
	t.emitReason("fail", i.ID, "error", reason)
	t.retryOrGiveUp(i, reason, true, e.Permanent || t.Config.Retry.Permanent(reason))
}

// extend renews the visibility timeout of an item.
func (t *queueTransition) extend(e QueueExtend) {
	before, ok := t.heldItem(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	if t.invalid(checkBetween("visibility_ms", e.VisibilityMS, 0, MaxVisibilityMS)) {
		return
	}
	visible := e.VisibilityMS
	if visible == 0 {
		visible = t.Config.VisibilityTimeoutMS
	}
	i := before
	i.State.Until = laterMS(t.clock.Now, visible)
	t.move(&before, &i)
	t.readied = false // it is held as before
	t.answer(i)
}

// release gives an item back: the take does not count.
func (t *queueTransition) release(e QueueRelease) {
	before, ok := t.heldItem(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	var until Time
	if e.DelayMS > 0 {
		until = laterMS(t.clock.Now, e.DelayMS)
	}
	i := pending(before, until)
	i.Attempts = max(i.Attempts, 1) - 1
	t.move(&before, &i)
}
