package engine

import (
	"context"
	"sync"
	"time"
)

// Scheduler is told by an engine how much of it runs, so that a simulation knows when nothing
// does, and what happens next is its choice alone. It is for simulations: without one, nothing
// is counted.
//
// What runs is the loop while it does not wait, each execution of an outer effect, and each
// caller whose answer has come. Whoever makes something of the engine run counts it before:
// who calls [Engine.Run] or [Engine.Ask] in a goroutine of its own, who ends the context of Run,
// which he does while the loop waits, and, with a timer that
// fires, its [Clock], until that timer is stopped. A store, a tool or an interpreter that
// waits takes itself out of the count meanwhile.
//
// Not counted are those who wait with [Engine.WaitFor], the scrub, and callers whose contexts
// end. With a Scheduler the engine commits by [store.Store.Update] alone, also where the store
// is a [store.Stager].
type Scheduler interface {
	// Add changes the count of what runs. It is called from any goroutine.
	Add(delta int)
	// AfterFunc has f called after d, in any goroutine, unless stop is called before; f is
	// quick and is counted by who calls it. The name tells timers of one engine apart that are
	// set at the same time in no certain order.
	AfterFunc(name string, d time.Duration, f func()) (stop func())
	// Answered is called by each caller of [Engine.Ask] whose answer has come, with its context, before it goes on: beside the
	// loop, which may decide the next batch meanwhile. So whoever wants a caller that asks again to do so at a certain time
	// has it wait here, and takes it out of the count.
	Answered(ctx context.Context)
}

// activity counts for a [Scheduler]: a message to the loop counts as long as the loop waits for
// messages and has not taken it. The zero value counts nothing.
type activity struct {
	to Scheduler

	mu      sync.Mutex
	unread  int  // messages to the loop
	listens bool // the loop waits
}

// add counts goroutines of the engine.
func (a *activity) add(delta int) {
	if a.to != nil {
		a.to.Add(delta)
	}
}

// message counts a message that is about to be sent to the loop (1), or was taken (-1).
func (a *activity) message(delta int) {
	if a.to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread += delta
	if a.listens {
		a.to.Add(delta)
	}
}

// rest says that the loop waits.
func (a *activity) rest() {
	if a.to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listens = true
	a.to.Add(a.unread - 1)
}

// work says that the loop goes on.
func (a *activity) work() {
	if a.to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listens = false
	a.to.Add(1 - a.unread)
}
