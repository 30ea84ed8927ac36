package daemon

import (
	"context"
	"errors"
)

// errPaused keeps the watchdog from being told that all is well: nothing of what is due happens.
var errPaused = errors.New("it was started paused, and is not resumed yet")

// works gives what keeps the daemon from doing its work; nil: nothing.
func (d *daemon) works(ctx context.Context) error {
	if d.paused() {
		return errPaused
	}
	return d.engine.Health(ctx)
}

// paused reports whether the daemon was started paused, and was not resumed yet.
func (d *daemon) paused() bool {
	_, paused := d.engine.PausedSince()
	return paused
}

// pausedText says what to type to have the daemon go on.
func (d *daemon) pausedText() string {
	return "It is paused: nothing fires and nothing is begun before " + d.hints.line("system resume", nil)
}

// awaitResume waits until the engine is not paused: at once, unless the daemon was started so. It reports
// false if the daemon is to stop.
func (d *daemon) awaitResume(ctx context.Context) bool {
	select {
	case <-d.engine.Resumed():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
