package engine

import (
	"context"
	"time"
)

// A paused engine takes every request, and does nothing by itself: it wakes no machine, begins no
// outer effect, tells no machine of effects that were lost, and forgets nothing. What asks for such
// things is stored all the same, as what an outage leaves, and is found by the first batch after
// [Engine.Resume]. A webhook is read, so that its action is seen, and waits. That it was paused is no state of a machine: it
// belongs to the process, and the journal has of it no more than an [core.Absence].

// beginPaused pauses an engine that is made, if the options say so.
func (e *Engine) beginPaused() {
	if !e.o.StartPaused {
		close(e.goesOn)
		return
	}
	e.loop.paused = true
	e.paused.Store(new(e.o.Clock.Now()))
}

// Resume has an engine that was started paused do by itself what there is to do, as after an
// outage. It waits until [Engine.Run] has come as far as its loop, and returns at once if the engine
// is not paused; resumed says whether it was until now.
func (e *Engine) Resume(ctx context.Context) (resumed bool, err error) {
	c := make(chan bool, 1)
	select {
	case <-e.closing:
		return false, ErrStopped
	default:
	}
	select {
	case e.resume <- c:
		return <-c, nil
	case <-e.closing:
		return false, ErrStopped
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// PausedSince gives since when the engine is paused; false: it is not.
func (e *Engine) PausedSince() (since time.Time, paused bool) {
	if at := e.paused.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

// Resumed gives a channel that is closed once the engine is not paused: from the start, or since
// [Engine.Resume].
func (e *Engine) Resumed() <-chan struct{} { return e.goesOn }

// goOn ends the pause, and reports whether there was one.
func (l *loop) goOn() bool {
	if !l.paused {
		return false
	}
	l.paused = false
	l.watch.endPause(l)
	l.beginAll(l.now())
	l.e.paused.Store(nil)
	close(l.e.goesOn)
	return true
}

// beginAll has the next batch begin all that the engine does by itself.
func (l *loop) beginAll(now time.Time) {
	l.nextTick, l.nextPaced, l.nextRecover = now, now, now
}

// withholds reports whether an input of the engine's own is one that a pause holds back: those that
// come at times. What the machines are to know of the program they are told.
func (l *loop) withholds(own OwnInput) bool { return l.paused && own.Every > 0 }
