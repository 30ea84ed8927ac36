package shell

import (
	"context"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Resume has an engine that was started with Options.StartPaused do what there is to do, as after an
// outage: it returns once that has begun, and waits for [Engine.Run] if need be. An engine that is not
// paused is left as it is; resumed says whether it was paused until now. It belongs to this process:
// the next one begins as its own options say.
func (e *Engine) Resume(ctx context.Context) (resumed bool, err error) {
	since, _ := e.loop.PausedSince()
	resumed, err = e.loop.Resume(ctx)
	if resumed {
		e.log.Info("engine resumed: what is due happens from now on", "paused_since", since.UTC().Format(time.RFC3339), "actor", ActorFrom(ctx))
	}
	return resumed, err
}

// PausedSince gives since when the engine is paused, see Options.StartPaused; false: it is not.
func (e *Engine) PausedSince() (since time.Time, paused bool) { return e.loop.PausedSince() }

// Resumed gives a channel that is closed once the engine is not paused: from the start on without
// Options.StartPaused, else with [Engine.Resume]. Who works beside the engine, with the outside, waits for
// it first.
func (e *Engine) Resumed() <-chan struct{} { return e.loop.Resumed() }

// awaitResume waits until the engine is not paused, for as long as most. It reports false if it still is.
func (e *Engine) awaitResume(ctx context.Context, most time.Duration) (resumed bool, err error) {
	select {
	case <-e.Resumed():
		return true, nil
	default:
	}
	if most > 0 {
		err = e.wait(ctx, e.Resumed(), most)
	}
	select {
	case <-e.Resumed():
		return true, err
	default:
		return false, err
	}
}

// awaitTake is awaitResume for who wants items: what was taken before under the same key is given again at once.
func (e *Engine) awaitTake(ctx context.Context, most time.Duration) (resumed bool, err error) {
	select {
	case <-e.Resumed():
		return true, nil
	default:
	}
	if before, err := e.WasAnswered(ctx); err != nil || before {
		return before, err
	}
	return e.awaitResume(ctx, most)
}

// takeNothing answers who wants items of a queue while the engine is paused.
func (e *Engine) takeNothing(ctx context.Context, queue effects.Ref) ([]core.QueueItem, error) {
	_, err := readAs[core.Queue](ctx, e, queue)
	return nil, err
}
