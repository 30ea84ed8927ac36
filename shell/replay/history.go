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
	// Effects are the outer effects that began or ceased to be pending.
	Effects []StepEffect
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
	// From is the batch with which it begins, such as [Trail.Before] of another; zero: the last one that changed the machine. See
	// [ErrFrom].
	From uint64
	// Keep chooses steps by the machine's own inputs; nil: all. The history ends early once it has looked at [MaxLooked] batches.
	Keep func([]core.Input) bool
}

// Bounds of a history.
const (
	MaxLooked  = 2_000   // batches of which Keep chooses
	MaxSkipped = 100_000 // changes between the present and From
)

// ErrFrom says that [HistoryOptions.From] has not changed the machine, or is more than [MaxSkipped] changes back.
var ErrFrom = errors.New("it did not change the machine, or more than 100,000 changes came after it")

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
		seq, state := rec.Seq, bytes.Clone(rec.State)
		if o.From != 0 {
			state, err = skipTo(ctx, tx, ref, seq, state, o.From)
			if errors.Is(err, store.ErrNotFound) { // of a batch: the journal was cut
				t = Trail{Before: o.From, Reached: true}
				return nil
			}
			if err != nil {
				return err
			}
			seq = o.From
		}
		if t, err = walk(tx, ref, seq, state, 0, o); err != nil {
			return err
		}
		if err := tellEffects(ref.Kind, t.Steps); err != nil {
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
	held, looked := 0, 0
	for t.Before = seq; t.Before > since && len(t.Steps) < o.Limit && (o.MaxBytes == 0 || held < o.MaxBytes) && (o.Keep == nil || looked < MaxLooked); looked++ {
		b, c, err := changeBy(tx, ref, t.Before)
		if errors.Is(err, store.ErrNotFound) {
			t.Reached = true
			return t, nil
		}
		if err != nil {
			return t, err
		}
		s, err := newStep(b, ref, c, state)
		if err != nil {
			return t, err
		}
		t.Before, state = c.Before, s.Before
		if o.Keep != nil && !o.Keep(s.Inputs) {
			continue
		}
		if s.Fields, err = changedFields(s.Before, s.After); err != nil {
			return t, fmt.Errorf("%w: batch %d: %w", store.ErrCorrupt, b.Seq, err)
		}
		t.Steps = append(t.Steps, s)
		held += len(state)
	}
	return t, nil
}

// changeBy gives what a batch changed of a machine. It is [store.ErrNotFound] if the journal does not have the batch, or a build made
// it that noted no changes.
func changeBy(tx store.ReadTx, ref effects.Ref, seq uint64) (b store.Batch, c store.Changed, err error) {
	if b, err = tx.Batch(seq); err != nil {
		return b, c, err
	}
	if !b.Known {
		return b, c, fmt.Errorf("%w: the changes of batch %d", store.ErrNotFound, seq)
	}
	i := slices.IndexFunc(b.Changes, func(c store.Changed) bool { return c.Kind == ref.Kind && c.ID == ref.ID })
	if i < 0 {
		return b, c, fmt.Errorf("%w: batch %d does not name it", store.ErrCorrupt, b.Seq)
	}
	if c = b.Changes[i]; c.Before >= b.Seq {
		return b, c, fmt.Errorf("%w: batch %d says that batch %d came before", store.ErrCorrupt, b.Seq, c.Before)
	}
	return b, c, nil
}

// skipTo gives the state that a batch left, from the one that a later one left, over the batches between them that changed the machine.
func skipTo(ctx context.Context, tx store.ReadTx, ref effects.Ref, seq uint64, state []byte, from uint64) ([]byte, error) {
	var spare []byte
	for skipped := 0; seq > from && skipped < MaxSkipped; skipped++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, c, err := changeBy(tx, ref, seq)
		if err != nil {
			return nil, err
		}
		before, ok := c.Delta.Before(spare[:0], state)
		if !ok {
			return nil, notBack(seq)
		}
		seq, state, spare = c.Before, before, state
	}
	if seq != from {
		return nil, fmt.Errorf("batch %d: %w", from, ErrFrom)
	}
	return state, nil
}

func notBack(seq uint64) error {
	return fmt.Errorf("%w: the change of batch %d does not lead back from the state that it left", store.ErrCorrupt, seq)
}

// newStep tells of a batch all but the fields that it changed.
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
			return Step{}, notBack(b.Seq)
		}
		s.Before = before
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
