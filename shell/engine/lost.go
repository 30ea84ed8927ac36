package engine

import (
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/store"
)

// An engine may lose its store for good: another process has opened it, and whatever this one commits is refused
// ([store.ErrFenced]). That is another thing than a claim that was taken over within a store that both use, after which an
// instance starts afresh (see fenced). Here nothing can be decided any more: what runs is told to end at once, and what it
// comes to is dropped, since the other process has told the machines, or will.

// lose ends the engine, since the store is lost.
func (l *loop) lose(err error) {
	if l.lost != nil {
		return
	}
	l.lost, l.lastErr = err, err
	l.e.log.Error("the store is another process's now; ending what runs here, of which nothing is stored", "error", err, "running", len(l.running))
	l.dropAll()
	if !l.stopping {
		l.stopping = true
		close(l.e.closing)
	}
	l.lasts, l.gives = false, false // there is nothing to hand over: what runs has the time that follows, whatever becomes of the process
	now := l.now()
	l.cancelled, l.stopSoft, l.stopHard = true, now, now.Add(l.e.o.AbandonAfter)
	l.nextRenew, l.retryAt = l.stopHard, now
	l.refuseAll()
}

// dropAll ends what runs, and forgets what has come of it.
func (l *loop) dropAll() {
	for _, r := range l.running {
		r.dropped, r.cut = true, true
		r.cancel(ErrFenced)
	}
	for _, o := range l.outcomes {
		o.write.done()
	}
	clear(l.outcomes)
	l.outcomes = l.outcomes[:0]
}

// refuseAll answers who has asked that nothing was stored.
func (l *loop) refuseAll() {
	for _, r := range l.requests {
		r.answer(Reply{Err: fmt.Errorf("not stored: %w", l.lost)})
	}
	clear(l.requests)
	l.requests = l.requests[:0]
}

// refusedByFence reports whether an error says that another one owns the store, and that nothing was stored.
func refusedByFence(err error) bool {
	return errors.Is(err, store.ErrFenced) && !errors.Is(err, store.ErrUnconfirmed)
}

// watchStore gives what is closed once the store refuses everything; nil: it does not tell, or a [Scheduler] runs the engine, by
// which whatever wakes the loop is counted.
func (l *loop) watchStore() <-chan struct{} {
	if f, ok := l.e.store.(store.Failing); ok && l.e.o.Scheduler == nil {
		return f.Failed()
	}
	return nil
}

// storeFailed ends the engine if it has lost the store. A store that has failed in another way, such as by its disk, goes on refusing.
func (l *loop) storeFailed() {
	l.storeGone = nil
	if f, ok := l.e.store.(store.Failing); ok && errors.Is(f.Failure(), store.ErrFenced) {
		l.settle()
		l.lose(f.Failure())
	}
}
