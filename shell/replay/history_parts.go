package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// makeWhole puts into the states of a history what the machine keeps as records of their own,
// as each of them was at that time.
func makeWhole(tx store.ReadTx, ref effects.Ref, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	p := past{tx: tx, since: steps[len(steps)-1].Seq - 1, trails: map[effects.Ref]Trail{}}
	for i := range steps {
		s := &steps[i]
		before, err := p.whole(ref, s.Before, s.Seq-1)
		if err != nil {
			return err
		}
		after, err := p.whole(ref, s.After, s.Seq)
		if err != nil {
			return err
		}
		if bytes.Equal(before, s.Before) && bytes.Equal(after, s.After) {
			continue
		}
		s.Before, s.After = before, after
		if s.Fields, err = changedFields(before, after); err != nil {
			return fmt.Errorf("%w: batch %d: %w", store.ErrCorrupt, s.Seq, err)
		}
	}
	return nil
}

// past gives records as they were since a batch. Each is walked along once, and no farther.
type past struct {
	tx     store.ReadTx
	since  uint64
	trails map[effects.Ref]Trail
}

func (p past) whole(ref effects.Ref, stored []byte, seq uint64) ([]byte, error) {
	if stored == nil {
		return nil, nil
	}
	return core.WholeJSON(ref.Kind, stored, func(part effects.Ref) (core.State, error) {
		state, err := p.at(part, seq)
		if err != nil || state == nil {
			return nil, err
		}
		return core.DecodeState(part.Kind, state)
	})
}

// at gives the stored form of a record as a batch left it; nil: there was none, or it is gone
// since. As far back as the journal does not go it is taken for unchanged.
func (p past) at(ref effects.Ref, seq uint64) ([]byte, error) {
	t, ok := p.trails[ref]
	if !ok {
		rec, err := p.tx.Get(ref.Kind, ref.ID)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
		case err != nil:
			return nil, err
		default:
			state := bytes.Clone(rec.State)
			if t, err = walk(p.tx, ref, rec.Seq, state, p.since, HistoryOptions{Limit: maxPartSteps}); err != nil {
				return nil, err
			}
			t.Steps = append([]Step{{Seq: rec.Seq, Before: state}}, t.Steps...)
		}
		p.trails[ref] = t
	}
	i := slices.IndexFunc(t.Steps, func(s Step) bool { return s.After != nil && s.Seq <= seq })
	switch {
	case i >= 0:
		return t.Steps[i].After, nil
	case len(t.Steps) > 0:
		return t.Steps[len(t.Steps)-1].Before, nil
	}
	return nil, nil
}

// maxPartSteps bounds how far back a record is followed that a machine keeps beside its own.
const maxPartSteps = 10_000
