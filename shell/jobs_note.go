package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Noted completes what a run says of a pod that was asked for ([core.PodAsked]) by what
// the run itself cannot know: that nobody has been able to ask yet, since all slots are
// taken. It is for those who show it; any other run stays as it is.
func (r Runs) Noted(ctx context.Context, o core.Orchestrator) (core.Orchestrator, error) {
	asked, ok := askedFor(o)
	if !ok {
		return o, nil
	}
	waits, err := r.EffectWaits(ctx, o.ID, asked.N)
	if err == nil && waits {
		lane := asked.Lane()
		o.Pod.Message = fmt.Sprintf("its runner was not asked yet: it waits for a slot of the lane %s, which has %d",
			lane, cmp.Or(r.e.o.Concurrency[lane], r.e.o.DefaultConcurrency))
	}
	return o, err
}

// EffectWaits reports whether the run's effect with that number waits for a slot of its
// lane: nobody has begun to carry it out. One that is answered does not wait.
func (r Runs) EffectWaits(ctx context.Context, run uuid.UUID, n uint32) (waits bool, err error) {
	err = r.e.store.View(ctx, func(tx store.ReadTx) error {
		entry, err := tx.OutboxEntry(store.EffectKey{ID: run, N: n})
		waits = err == nil && entry.Waiting()
		if bad := (*store.OutboxError)(nil); errors.Is(err, store.ErrNotFound) || errors.As(err, &bad) {
			return nil // it has just been answered, or is set aside by the next batch
		}
		return err
	})
	return waits, err
}

// askedFor gives the creation that the run waits for, if nobody has told anything of it.
func askedFor(o core.Orchestrator) (effects.CreateRun, bool) {
	if o.Pod.Reason != core.PodAsked {
		return effects.CreateRun{}, false
	}
	for _, e := range core.Outstanding(o) {
		if create, ok := e.(effects.CreateRun); ok {
			return create, true
		}
	}
	return effects.CreateRun{}, false
}
