// Package pause waits between one try and the next.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx has ended. It gives the cause for which ctx has
// ended, also where both were over at once: nothing is to be tried then. It is for
// waits of the machine's time, where no clock is handed in.
func For(ctx context.Context, d time.Duration) error {
	if d > 0 && ctx.Err() == nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}
