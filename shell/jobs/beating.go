package jobs

import (
	"context"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Limits of what a run without a pod waits for, beyond which it does not beat.
const (
	// effectSlack is how long an effect may wait for its turn, beside the engine's own limit
	// of each ([shell.Options.EffectTimeout]): the engine ends it then, and the run decides.
	effectSlack = time.Minute
	// lostWithin is how long it may take until a run is told that its pod is gone.
	lostWithin = 6 * lostAfter
)

// askedSince is when an effect was first seen to be waited for.
type askedSince struct {
	n  uint32
	at time.Time
}

// beats reports whether a run beats: somebody still has it in hand. Runs that have no pods
// wait for the engine alone. Of the others one beats
//
//   - whose pod the runner holds, if the runner works;
//   - that waits for room for its pod, and is among those that wait;
//   - that waits for the answer to an effect, within its limit;
//   - that waits until a deletion that failed is tried again;
//   - whose pod is gone, until the run should have been told.
func (b *heartbeats) beats(ctx context.Context, run uuid.UUID, works held) bool {
	if p, may := b.pods[run]; !may || b.findPod(run, works) && b.s.keptUntil(p.runner, p.attempt).IsZero() {
		return true // what is kept may be of an earlier attempt
	}
	o, err := b.read(ctx, run)
	p, may := b.pods[run]
	switch open := o.Pending.Open; {
	case err != nil:
		return ctx.Err() == nil // gone meanwhile, or damaged, which is the engine's affair
	case !may || b.findPod(run, works):
		return true
	case len(open) > 0:
		return b.noteAsked(ctx, o, open[len(open)-1].Effect)
	case !o.Cleanup.RetryAt.IsZero():
		return true // for as long as it takes
	case o.Pod.Queued && b.s.places[p.runner] != nil:
		return !b.s.places[p.runner].isKnown()
	case !works.works(p.runner):
		return false
	}
	return b.seekPod(run, p.runner)
}

// findPod reports whether the run's pod is there, or waits for room; then what was noted of
// its absence is forgotten.
func (b *heartbeats) findPod(run uuid.UUID, works held) bool {
	p := b.pods[run]
	places := b.s.places[p.runner]
	if !works.has(p) && (places == nil || !places.waits(p.attempt)) {
		return false
	}
	delete(b.asked, run)
	delete(b.missing, run)
	return true
}

// noteAsked notes since when a run waits for an effect, and reports whether
// that is within the effect's limit. The limit does not run while the effect waits for a slot of its lane.
func (b *heartbeats) noteAsked(ctx context.Context, o core.Orchestrator, e effects.Outer) bool {
	run, n := o.ID, e.Number()
	now := b.s.o.Clock.Steady()
	waits, err := b.s.e.Runs().EffectWaits(ctx, run, n)
	if waits || b.asked[run].n != n || b.asked[run].at.IsZero() {
		b.asked[run] = askedSince{n, now}
	}
	return err != nil || now.Sub(b.asked[run].at) <= b.s.e.EffectTimeout()+patience(o, e)+effectSlack
}

// seekPod has somebody look for a pod that is not there, and reports whether it is time to
// wait for that.
func (b *heartbeats) seekPod(run uuid.UUID, runner string) bool {
	delete(b.asked, run)
	now := b.s.o.Clock.Steady()
	since, known := b.missing[run]
	if !known {
		since = now
		b.missing[run] = since
	}
	select {
	case b.s.missed[runner] <- struct{}{}:
	default:
	}
	return now.Sub(since) <= lostWithin
}

// forget forgets what it knew of runs that have no pods any more.
func (b *heartbeats) forget() {
	gone := func(run uuid.UUID) bool { _, may := b.pods[run]; return !may }
	maps.DeleteFunc(b.asked, func(run uuid.UUID, _ askedSince) bool { return gone(run) })
	maps.DeleteFunc(b.missing, func(run uuid.UUID, _ time.Time) bool { return gone(run) })
}
