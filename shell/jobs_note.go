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
// taken, or that another process has it in hand. It is for those who show it; any other run
// stays as it is.
func (r Runs) Noted(ctx context.Context, o core.Orchestrator) (core.Orchestrator, error) {
	asked, ok := askedFor(o)
	if !ok {
		return o, nil
	}
	entry, by, err := r.inHand(ctx, o.ID, asked.N)
	switch {
	case err != nil || entry == nil:
	case entry.Waiting():
		lane := asked.Lane()
		o.Pod.Message = fmt.Sprintf("its runner was not asked yet: it waits for a slot of the lane %s, which has %d",
			lane, cmp.Or(r.e.o.Concurrency[lane], r.e.o.DefaultConcurrency))
	case r.isOther(*entry, by):
		o.Pod.Message = fmt.Sprintf("another process has that in hand, and has not answered yet; it was last heard of at %s, "+
			"and if it stays silent until %s, its runner is asked again", by.Renewed, by.Until)
	}
	return o, err
}

// inHand gives the entry of a run's effect, and the claim of who carries it out; nil where it
// is not to be carried out any more.
func (r Runs) inHand(ctx context.Context, run uuid.UUID, n uint32) (entry *store.OutboxEntry, by store.Claim, err error) {
	err = r.e.store.View(ctx, func(tx store.ReadTx) error {
		found, err := tx.OutboxEntry(store.EffectKey{ID: run, N: n})
		if bad := (*store.OutboxError)(nil); errors.Is(err, store.ErrNotFound) || errors.As(err, &bad) {
			return nil // it has just been answered, or is set aside by the next batch
		}
		if err != nil {
			return err
		}
		found.Effect = nil // valid in the transaction only
		entry = &found
		if found.Waiting() {
			return nil
		}
		if by, err = tx.Claim(found.Holder); errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	return entry, by, err
}

// isOther reports whether not this process carries an effect out, or did.
func (r Runs) isOther(entry store.OutboxEntry, by store.Claim) bool {
	return by.Token == entry.Token && by.Holder != "" && by.Holder != r.e.loop.Instance()
}

// IsElsewhere reports whether another process on the store has an effect of the run in hand,
// or had it when it died: nobody has taken it over yet.
func (r Runs) IsElsewhere(ctx context.Context, o core.Orchestrator) (bool, error) {
	for _, e := range core.Outstanding(o) {
		entry, by, err := r.inHand(ctx, o.ID, e.Number())
		if err != nil || entry != nil && !entry.Waiting() && r.isOther(*entry, by) {
			return err == nil, err
		}
	}
	return false, nil
}

// WaitsFor says what a pending run waits for: the runs that hold the slots of its job, and
// among them one whose pod cannot be deleted; empty for any other run. Runs of one job wait for
// the same. It is for those who show it, and reads the job and at most [maxHolders] of its runs.
func (r Runs) WaitsFor(ctx context.Context, o core.Orchestrator) (string, error) {
	if o.State != core.OrchestratorPending {
		return "", nil
	}
	j, err := readAs[core.Job](ctx, r.e, core.JobRef(o.Namespace, o.Tenant, o.JobID))
	if errors.Is(err, ErrNotFound) {
		return "", nil // it has just been deleted, and cancels its runs
	}
	if err != nil {
		return "", err
	}
	var holders []core.ActiveRun
	for _, a := range j.Active {
		if a.Stage == core.StageAdmitted {
			holders = append(holders, a)
		}
	}
	if len(holders) == 0 {
		return "", nil // it is about to have one
	}
	one, why, err := r.stuckAmong(ctx, holders)
	text := "it waits for run " + one.RunID + " to end"
	if len(holders) > 1 {
		text = fmt.Sprintf("it waits for one of %d runs of its job to end, such as run %s", len(holders), one.RunID)
	}
	return text + why, err
}

// maxHolders is how many runs are looked at for one whose pod cannot be deleted.
const maxHolders = 16

// stuckAmong gives a run whose pod cannot be deleted, with why; else the first.
func (r Runs) stuckAmong(ctx context.Context, of []core.ActiveRun) (one core.ActiveRun, why string, err error) {
	for _, a := range of[:min(len(of), maxHolders)] {
		o, err := r.Get(ctx, a.Run)
		switch {
		case errors.Is(err, ErrNotFound): // it has just ended
		case err != nil:
			return of[0], "", err
		case o.Cleanup.Failing():
			return a, fmt.Sprintf(", whose pod cannot be deleted since %s: %s", o.Cleanup.FailedSince, o.Cleanup.Error), nil
		}
	}
	return of[0], "", nil
}

// EffectWaits reports whether the run's effect with that number waits for a slot of its
// lane: nobody has begun to carry it out. One that is answered does not wait.
func (r Runs) EffectWaits(ctx context.Context, run uuid.UUID, n uint32) (bool, error) {
	entry, _, err := r.inHand(ctx, run, n)
	return entry != nil && entry.Waiting(), err
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
