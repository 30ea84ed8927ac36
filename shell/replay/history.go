package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Step is one batch that changed a machine.
type Step struct {
	Seq      uint64
	At       effects.Time
	Instance string // the engine that committed it
	// Inputs are those of the batch that were the machine's own, in order. Without any, what
	// another machine did in this batch changed it.
	Inputs []core.Input
	// Fields are the fields of its state, at the top level, that the batch changed, by name.
	Fields []Field
	// Before and After are its states, JSON, with what it keeps as records of their own; nil: it
	// was not there.
	Before, After []byte
}

// Field is a change of one field. Nil stands for a field that is not there.
type Field struct {
	Name          string
	Before, After json.RawMessage
}

// HistoryOptions bound a [History]. The zero value is a sound default.
type HistoryOptions struct {
	Limit int // of steps; zero: 100
	// MaxBytes ends the history early once the states before its steps have as many bytes; zero: it does not.
	MaxBytes int
}

// Trail is a machine's history, newest step first.
type Trail struct {
	Steps []Step
	// Before is the batch in which the history goes on behind the last step; zero: it does not.
	Before uint64
	// Reached says that Before is older than the journal: no more can be told.
	Reached bool
}

// History walks back along the batches that changed a machine, as far as the journal goes. It reads
// these batches and no others. A machine that was deleted has none: [store.ErrNotFound].
// It is safe for concurrent use.
func History(ctx context.Context, st store.Store, ref effects.Ref, o HistoryOptions) (t Trail, err error) {
	if o.Limit <= 0 {
		o.Limit = 100
	}
	err = st.View(ctx, func(tx store.ReadTx) error {
		rec, err := tx.Get(ref.Kind, ref.ID)
		if err != nil {
			return err
		}
		if t, err = walk(tx, ref, rec.Seq, bytes.Clone(rec.State), 0, o); err != nil {
			return err
		}
		return makeWhole(tx, ref, t.Steps)
	})
	if err != nil {
		return t, fmt.Errorf("history of %s: %w", ref, err)
	}
	return t, nil
}

// walk goes back from the state that a batch left, over the batches after since.
func walk(tx store.ReadTx, ref effects.Ref, seq uint64, state []byte, since uint64, o HistoryOptions) (t Trail, err error) {
	held := 0
	for t.Before = seq; t.Before > since && len(t.Steps) < o.Limit && (o.MaxBytes == 0 || held < o.MaxBytes); {
		b, err := tx.Batch(t.Before)
		if errors.Is(err, store.ErrNotFound) {
			t.Reached = true
			return t, nil
		}
		if err != nil {
			return t, err
		}
		i := slices.IndexFunc(b.Changes, func(c store.Changed) bool { return c.Kind == ref.Kind && c.ID == ref.ID })
		switch {
		case !b.Known: // of a build that noted no changes
			t.Reached = true
			return t, nil
		case i < 0:
			return t, fmt.Errorf("%w: batch %d does not name it", store.ErrCorrupt, b.Seq)
		}
		s, err := newStep(b, ref, b.Changes[i], state)
		if err != nil {
			return t, err
		}
		t.Steps = append(t.Steps, s)
		if t.Before = b.Changes[i].Before; t.Before >= b.Seq {
			return t, fmt.Errorf("%w: batch %d says that batch %d came before", store.ErrCorrupt, b.Seq, t.Before)
		}
		state = s.Before
		held += len(state)
	}
	return t, nil
}

func newStep(b store.Batch, ref effects.Ref, c store.Changed, after []byte) (Step, error) {
	e, err := core.DecodeEntry(b.Entry)
	if err != nil {
		return Step{}, fmt.Errorf("batch %d: %w", b.Seq, err)
	}
	s := Step{Seq: b.Seq, At: e.At, Instance: e.Instance, After: after}
	for _, in := range e.Inputs {
		if in.To == ref {
			s.Inputs = append(s.Inputs, in)
		}
	}
	if c.Before != 0 {
		before, ok := c.Delta.Before([]byte{}, after)
		if !ok || !json.Valid(before) {
			return Step{}, fmt.Errorf("%w: the change of batch %d does not lead back from the state that it left", store.ErrCorrupt, b.Seq)
		}
		s.Before = before
	}
	s.Fields, err = changedFields(s.Before, after)
	if err != nil {
		return Step{}, fmt.Errorf("%w: batch %d: %w", store.ErrCorrupt, b.Seq, err)
	}
	return s, nil
}

// changedFields compares two states; nil is one without fields.
func changedFields(before, after []byte) (changed []Field, err error) {
	var was, is map[string]json.RawMessage
	for _, part := range []struct {
		raw  []byte
		into *map[string]json.RawMessage
	}{{before, &was}, {after, &is}} {
		if part.raw != nil {
			if err := json.Unmarshal(part.raw, part.into); err != nil {
				return nil, err
			}
		}
	}
	for name, v := range is {
		if !bytes.Equal(was[name], v) {
			changed = append(changed, Field{Name: name, Before: was[name], After: v})
		}
	}
	for name, v := range was {
		if _, ok := is[name]; !ok {
			changed = append(changed, Field{Name: name, Before: v})
		}
	}
	slices.SortFunc(changed, func(a, b Field) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return changed, nil
}
