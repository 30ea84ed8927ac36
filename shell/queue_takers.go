package shell

import (
	"math"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// takers wakes those who wait for an item: one for each item that was pushed, in
// the order in which they came, and all where many items may have become ready.
type takers struct {
	mu sync.Mutex
	m  map[uuid.UUID][]chan struct{}
}

func (t *takers) init() { t.m = make(map[uuid.UUID][]chan struct{}) }

// add lets somebody wait, from before he looks: so that nothing is missed.
func (t *takers) add(queue uuid.UUID) chan struct{} {
	c := make(chan struct{}, 1)
	t.mu.Lock()
	t.m[queue] = append(t.m[queue], c)
	t.mu.Unlock()
	return c
}

// remove ends the waiting. Who was woken and did not use it wakes the next one:
// he may have looked before the item was there, or has gone.
func (t *takers) remove(queue uuid.UUID, c chan struct{}) {
	if c == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.m[queue], c); i >= 0 {
		t.m[queue] = slices.Delete(t.m[queue], i, i+1)
	}
	select {
	case <-c:
		t.wake(queue, 1)
	default:
	}
	if len(t.m[queue]) == 0 {
		delete(t.m, queue)
	}
}

// hear wakes who is concerned by an announcement of a queue.
func (t *takers) hear(ev effects.Event) {
	var n int
	switch ev.Kind.Action {
	case "push":
		n = 1
	case "ready":
		n = math.MaxInt
	default:
		return
	}
	t.mu.Lock()
	t.wake(ev.Source.ID, n)
	t.mu.Unlock()
}

func (t *takers) wake(queue uuid.UUID, n int) {
	list := t.m[queue]
	n = min(n, len(list))
	for _, c := range list[:n] {
		c <- struct{}{} // buffered, and woken once
	}
	if t.m[queue] = list[n:]; len(list) == n {
		delete(t.m, queue)
	}
}
