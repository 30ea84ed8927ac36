package engine

import "time"

// Clock is where time enters the engine. [SystemClock] is the real one; a test
// that needs a wall clock that jumps brings its own, and any other test runs
// the real one under testing/synctest.
type Clock interface {
	// Now gives the wall clock. It may jump.
	Now() time.Time
	// Steady gives a reading that does not jump when the wall clock is set. Only
	// differences between two readings count.
	Steady() time.Time
	// Timer sends once after d on the channel, unless stop is called before.
	Timer(d time.Duration) (c <-chan time.Time, stop func())
}

// SuspendClock is a [Clock] that tells a machine that was suspended from a wall clock that was
// set: a steady clock stands still while the machine is suspended.
type SuspendClock interface {
	Clock
	// Suspended gives how long the machine has been suspended in all; below 0: not known.
	// Only differences between two readings count.
	Suspended() time.Duration
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now gives the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }

// Steady gives the machine's time, which carries a monotonic reading.
func (SystemClock) Steady() time.Time { return time.Now() }

// Suspended gives how long the machine has been suspended since it booted, where its system
// tells (Linux), and else -1.
func (SystemClock) Suspended() time.Duration { return suspended() }

// Timer starts a timer of the runtime.
func (SystemClock) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
