package engine

import (
	"sync"
	"time"
)

// pulseEvery is the time between two beats of a [pulse].
const pulseEvery = 250 * time.Millisecond

// A pulse tells a process that did not run from a loop that is busy. While the loop sleeps it
// finds out by itself whether it wakes too late. While it decides, or waits for the disk, a
// goroutine beside it notes the steady clock every [pulseEvery]: where no beat came for much
// longer than that, nothing of the process ran, however long the disk took.
type pulse struct {
	busy chan struct{} // wakes the goroutine

	mu    sync.Mutex
	last  time.Time // the last beat, by the steady clock; zero: the loop sleeps
	stood []standstill
}

// standstill is a span of the steady clock in which the process did not run: after the last beat
// before it, until the first one behind it.
type standstill struct{ from, to time.Time }

// start begins to beat; stop ends that, and waits for it.
func (p *pulse) start(clock Clock) (stop func()) {
	p.busy = make(chan struct{}, 1)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-p.busy:
				p.accompany(clock, quit)
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}

// accompany beats until the loop sleeps.
func (p *pulse) accompany(clock Clock, quit <-chan struct{}) {
	for {
		timer, stop := clock.Timer(pulseEvery)
		select {
		case <-timer:
			if !p.beat(clock.Steady()) {
				return
			}
		case <-quit:
			stop()
			return
		}
	}
}

// beat notes that the process runs, and reports whether the loop is busy.
func (p *pulse) beat(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.note(now)
}

// note is beat with the lock held.
func (p *pulse) note(now time.Time) bool {
	if p.last.IsZero() {
		return false
	}
	if now.Sub(p.last) >= pulseEvery+minAbsence {
		p.stood = append(p.stood, standstill{p.last, now})
	}
	p.last = now
	return true
}

// work says that the loop is busy from now on.
func (p *pulse) work(now time.Time) {
	p.mu.Lock()
	p.last = now
	p.mu.Unlock()
	select {
	case p.busy <- struct{}{}:
	default: // it is told already
	}
}

// rest says that the loop sleeps from now on.
func (p *pulse) rest(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(now)
	p.last = time.Time{}
}

// standstills gives those that were noticed since it was last asked, in order.
func (p *pulse) standstills(now time.Time) []standstill {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(now)
	stood := p.stood
	p.stood = nil
	return stood
}
