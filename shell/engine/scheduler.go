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
// What runs is the loop while it does not wait, each execution of an outer effect, each
// caller whose answer has come, whoever waits beside the loop for a [store.Stager] to make a batch durable, and who asks for former owners ([Handover]). Whoever makes something of the engine run counts it before:
// who calls [Engine.Run] or [Engine.Ask] in a goroutine of its own, who ends the context of Run,
// which he does while the loop waits, and, with a timer that
// fires, its [Clock], until that timer is stopped. A store, a tool or an interpreter that
// waits takes itself out of the count meanwhile.
//
// Not counted are those who wait with [Engine.WaitFor], the scrub, and callers whose contexts
// end.
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
	// Ahead reports whether that many things are to be decided while the store makes the batch before durable, where it is a
	// [store.Stager]. Without a Scheduler the engine measures what is faster, which in virtual time says nothing. Any answer is right.
	Ahead(many int) bool
}

// activity counts for a [Scheduler]: a message to the loop counts as long as the loop waits for
// messages of its kind and has not taken it. The zero value counts nothing.
type activity struct {
	to Scheduler

	mu      sync.Mutex
	unread  [kindsOfMessages]int  // messages to the loop
	listens [kindsOfMessages]bool // the loop waits for them
}

// messageKind is what the loop waits for together.
type messageKind int

const (
	ofWork          messageKind = iota // requests and outcomes
	ofSync                             // the end of the sync under way
	ofFormers                          // what the database says of former owners
	kindsOfMessages = iota
)

// add counts goroutines of the engine.
func (a *activity) add(delta int) {
	if a.to != nil {
		a.to.Add(delta)
	}
}

// message counts a message that is about to be sent to the loop (1), or was taken (-1).
func (a *activity) message(kind messageKind, delta int) {
	if a.to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread[kind] += delta
	if a.listens[kind] {
		a.to.Add(delta)
	}
}

// rest says that the loop waits for messages of these kinds.
func (a *activity) rest(kinds ...messageKind) {
	if a.to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	unread := 0
	for _, k := range kinds {
		a.listens[k] = true
		unread += a.unread[k]
	}
	a.to.Add(unread - 1)
}

// work says that the loop goes on.
func (a *activity) work() {
	if a.to == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	unread := 0
	for k, listens := range a.listens {
		if listens {
			a.listens[k] = false
			unread += a.unread[k]
		}
	}
	a.to.Add(1 - unread)
}
