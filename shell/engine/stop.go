package engine

import (
	"time"

	"github.com/orrery-go/orrery/store"
)

// beginStop stops taking new work.
func (l *loop) beginStop() {
	l.stopping = true
	close(l.e.closing)
	l.timeStop()
	l.lasts = l.e.o.Handover.lasts()
	if l.lasts {
		l.e.log.Info("giving the store to another process, while this one goes on", "running", len(l.running), "stop_timeout", l.e.o.StopTimeout)
	} else {
		l.e.log.Info("stopping", "running", len(l.running), "stop_timeout", l.e.o.StopTimeout)
	}
	if h := l.e.o.Handover; h != nil {
		l.gives = l.lasts || h.Wanted != nil && h.Wanted()
		l.followStore()
	}
}

// timeStop begins the time that a stop may take.
func (l *loop) timeStop() {
	l.stopSoft = l.now().Add(l.e.o.StopTimeout)
	l.stopHard = l.stopSoft.Add(l.e.o.AbandonAfter + time.Second)
}

// followProcess begins that time anew once the process is told to end that had to give its store to another one before.
func (l *loop) followProcess() {
	if l.lasts && !l.e.o.Handover.lasts() {
		l.lasts = false
		l.timeStop()
		l.e.log.Info("stopping what runs on of a store that was another process's", "running", len(l.running), "stop_timeout", l.e.o.StopTimeout)
	}
}

// followStore ends the handover of a store that refuses everything for good. Nothing can be noted of it then, so what runs has the time of any stop: else
// an engine that waits for a store that takes its results would never end, and its process could not own the partition again.
func (l *loop) followStore() {
	f, ok := l.e.store.(store.Failing)
	if !ok || !l.gives || f.Failure() == nil {
		return
	}
	l.e.log.Warn("the store refuses everything, so it cannot be handed over", "error", f.Failure(), "running", len(l.running), "stop_timeout", l.e.o.StopTimeout)
	l.lasts, l.gives = false, false
	l.timeStop()
}

// processEnds gives what tells that the process is told to end, while the loop must know that. With a [Scheduler] it finds out when it wakes: that nobody
// counts.
func (l *loop) processEnds() <-chan struct{} {
	if !l.lasts || l.e.o.Scheduler != nil {
		return nil
	}
	return l.e.o.Handover.Ends
}

// stopNext is when the stop has to be moved on, if nothing else happens.
func (l *loop) stopNext() time.Time {
	switch {
	case l.lasts && l.gives && !l.runsPinned():
		return l.giveAgain
	case l.lasts && l.gives:
		next := l.stopHard
		for _, x := range l.running {
			if until := l.mayKeep(x); !x.p.Portable && !x.cut && until.Before(next) {
				next = until
			}
		}
		return next
	case l.cancelled:
		return l.stopHard
	}
	return l.stopSoft
}

// repeatsWithin is how long what the next owner of a store may repeat keeps that from being handed over.
const repeatsWithin = 5 * time.Second

// mayKeep is until when an execution may keep the store from a process that should have it.
func (l *loop) mayKeep(x *execution) time.Time {
	if x.p.Repeats {
		return earliest(l.stopSoft, l.stopSoft.Add(repeatsWithin-l.e.o.StopTimeout))
	}
	return l.stopSoft
}

// finished moves the stop on, and reports whether nothing is left to wait for.
func (l *loop) finished() bool {
	l.followProcess()
	l.followStore()
	now := l.now()
	if l.idle() || !now.Before(l.stopHard) {
		l.settle() // which may begin what was handed out before the stop
	}
	if l.idle() {
		return true
	}
	if l.gives && len(l.requests) == 0 && len(l.outcomes) == 0 {
		l.settle()
		if l.handsOver() {
			return true
		}
	}
	l.cutOff(now)
	switch {
	case now.Before(l.stopHard) || l.lasts && l.gives && !l.runsPinned():
		return false
	case l.lasts && l.gives:
		l.stopMoving()
		return false
	}
	l.e.log.Error("stopping although not all has returned; the next start tells the machines", "running", len(l.running), "not_stored", len(l.outcomes))
	return true
}

// cutOff cancels what keeps the store, at the end of its time: all of what runs, or, if the store is to be handed over while the process goes on, what
// cannot go on without it.
func (l *loop) cutOff(now time.Time) {
	if !l.lasts || !l.gives {
		if len(l.running) > 0 && !now.Before(l.stopSoft) {
			l.cancelAll()
		}
		return
	}
	for _, x := range l.running {
		if !x.p.Portable && !x.cut && !now.Before(l.mayKeep(x)) {
			l.e.log.Warn("cancelling what keeps the store from the process that should have it", "ref", x.ref.String())
			l.cut(x)
		}
	}
}

// cut cancels an execution. It has the time to return that it would have if the loop had not come late, after a commit that took long.
func (l *loop) cut(x *execution) {
	x.cut = true
	x.cancel(ErrStopping)
	if until := l.now().Add(l.e.o.AbandonAfter + time.Second); l.stopHard.Before(until) {
		l.stopHard = until
	}
}

// cancelAll cancels what runs and was not cancelled yet.
func (l *loop) cancelAll() {
	l.cancelled = true
	cut := 0
	for _, x := range l.running {
		if !x.cut {
			l.cut(x)
			cut++
		}
	}
	if cut > 0 {
		l.e.log.Warn("cancelling what still runs", "running", cut)
	}
}

// stopMoving ends all that runs, since what cannot go on without the store was cancelled and has not returned in its time. The claim is released then: a tool
// that ran on would run beside the one that the next owner begins in its place. Results that are there come first, since after them the store may be handed over.
func (l *loop) stopMoving() {
	for len(l.e.result) > 0 {
		l.e.activity.message(ofWork, -1)
		l.returned(<-l.e.result)
	}
	if !l.runsPinned() {
		return
	}
	l.e.log.Error("what keeps the store from the process that should have it has not returned: nothing runs on", "running", len(l.running))
	l.lasts = false
	l.cancelAll()
}

// runsPinned reports whether anything runs that cannot go on once the store is another process's.
func (l *loop) runsPinned() bool {
	for _, x := range l.running {
		if !x.p.Portable {
			return true
		}
	}
	return false
}

// idle reports whether nothing runs, and nothing is left to decide.
func (l *loop) idle() bool {
	return len(l.running) == 0 && len(l.outcomes) == 0 && len(l.requests) == 0
}

// endDeciding takes no more requests. Those that wait are refused before the channel is closed, since their callers may count among the stimuli of a
// scheduler until they are answered, and once more behind it: a request may have come in between.
func (l *loop) endDeciding() {
	l.refuseRest()
	close(l.e.decided)
	l.refuseRest()
}

// refuseRest refuses the requests that came too late.
func (l *loop) refuseRest() {
	for {
		select {
		case r := <-l.e.inbox:
			l.e.activity.message(ofWork, -1)
			r.answer(Reply{Err: ErrStopped})
		default:
			return
		}
	}
}
