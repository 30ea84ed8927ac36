package core

import (
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// due: the queue's time has come.
func (t *queueTransition) due() {
	if t.Wake.IsZero() || t.Wake > t.clock.Now {
		t.refuse(effects.CodeConflict, "queue %q is due at %s, after %s", clip(t.Name), t.Wake, t.clock.Now)
		return
	}
	t.fireTimers()
}

// fireTimers fires the timers that have come due, at most maxDueItems of them, and
// finds the time of the next one. The timers are the first entries of the lists of
// delayed, held, failed and completed items, of keys and of dedup keys.
func (t *queueTransition) fireTimers() {
	if t.Wake.IsZero() || t.Wake > t.clock.Now {
		return
	}
	for n := 0; n < maxDueItems && t.moved < maxMovedBytes; n++ {
		at, l := t.nextTimer()
		if at.IsZero() || at > t.clock.Now {
			t.Wake = at
			return
		}
		t.fire(l)
	}
	t.Wake, _ = t.nextTimer()
	if !t.Wake.IsZero() { // another event fires the rest; it must not come at this very instant
		t.Wake = max(t.Wake, laterMS(t.clock.Now, 1))
	}
}

// listRate stands for the time at which the queue's own rate allows the next take.
const listRate = listOrigin

// nextTimer gives the time of the earliest timer, and the list whose head it is.
func (t *queueTransition) nextTimer() (at Time, l queueList) {
	earlier := func(t Time, in queueList) {
		if !t.IsZero() && (at.IsZero() || t < at) {
			at, l = t, in
		}
	}
	for _, in := range []queueList{listDelayed, listFlight, listRetrying, listKept} {
		if i, ok := t.head(in); ok {
			earlier(max(i.State.Until, 1), in)
		}
	}
	if t.KeyCount > 0 {
		if k, ok := t.view.firstKey(t.ID); ok {
			earlier(k.Until, listBlocked)
		} else if t.live() == 0 { // see recount
			t.KeyCount = 0
		}
	}
	if t.Windows > 0 {
		if d, ok := t.view.firstDedup(t.ID); ok {
			earlier(d.Until, listWindow)
		} else if t.live() == 0 {
			t.Windows = 0
		}
	}
	earlier(t.Limited, listRate)
	return at, l
}

// fire applies the timer at the head of a list.
func (t *queueTransition) fire(l queueList) {
	switch l {
	case listDelayed, listRetrying:
		i, _ := t.head(l)
		after := pending(i, 0)
		t.move(&i, &after)
		t.readied = true
	case listFlight:
		i, _ := t.head(l)
		increment(&t.TimedOut)
		t.retryOrGiveUp(i, fmt.Sprintf("holder %q gave no sign of life until %s", clip(i.State.Holder), i.State.Until), false, false)
	case listKept:
		i, _ := t.head(l)
		t.move(&i, nil)
	case listBlocked:
		k, _ := t.view.firstKey(t.ID)
		t.advanceKey(k, true)
	case listWindow:
		d, _ := t.view.firstDedup(t.ID)
		t.dropDedup(d.ID)
	case listRate:
		t.Limited = 0
		t.readied = true
	case listReady, listWaiting, listKey, listDead:
	}
}
