package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/store"
)

// defect is a hand-made one, and how the run must be for it to matter.
type defect struct {
	make   func() defects
	shared bool
	losses bool
	hands  bool // partitions are handed over while tools run
	engine func(*shell.Options)
}

// broken are defects, by name; so are the ones of brokenToo.
var broken = map[string]defect{
	"a new owner does not find the last commit": {make: func() defects { return defects{amnesia: true} }},
	"nobody is told of lost commits":            {make: func() defects { return defects{untold: true} }, losses: true},
	"nobody accepts a loss":                     {make: func() defects { return defects{unaccepted: true} }, losses: true, hands: true},
	"a staged commit is durable before it is":   {make: func() defects { return defects{hasty: true} }},
	"requests that come again have no key":      {make: func() defects { return defects{noKeys: true} }},
	"nobody takes back what the lost one had":   {make: func() defects { return defects{} }, shared: true, engine: func(o *shell.Options) { o.RecoverAfter = 1000 * time.Hour }},
	"a tool that hangs has no time limit":       {make: func() defects { return defects{} }, engine: func(o *shell.Options) { o.DefaultTimeout = 0 }},
	"a commit is not made and acknowledged": {make: spoil(func(s *spoiling) {
		s.update = func(st store.Store, ctx context.Context, fn func(store.Tx) error) error {
			lie := s.every(9)
			err := st.Update(ctx, func(tx store.Tx) error {
				if err := fn(tx); err != nil || !lie {
					return err
				}
				return errSpoilt
			})
			if errors.Is(err, errSpoilt) {
				return nil
			}
			return err
		}
	})},
	"a commit is made and refused": {make: spoil(func(s *spoiling) {
		s.update = func(st store.Store, ctx context.Context, fn func(store.Tx) error) error {
			err := st.Update(ctx, fn)
			if err == nil && s.every(7) {
				return errSpoilt
			}
			return err
		}
	})},
	"a commit is made twice": {make: spoil(func(s *spoiling) {
		s.update = func(st store.Store, ctx context.Context, fn func(store.Tx) error) error {
			err := st.Update(ctx, fn)
			if err == nil && s.every(9) {
				return st.Update(ctx, fn)
			}
			return err
		}
	})},
	"an outbox entry is lost": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{putOutbox: func(tx store.Tx, e store.OutboxEntry) error {
			if s.every(7) {
				return nil
			}
			return tx.PutOutbox(e)
		}}
	})},
	"an outbox entry that was handed out seems to wait": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{putOutbox: func(tx store.Tx, e store.OutboxEntry) error {
			if e.Holder != "" && s.every(6) {
				e.Holder, e.Token = "", 0
			}
			return tx.PutOutbox(e)
		}}
	})},
	"an outbox entry stays": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{delOutbox: func(tx store.Tx, k store.EffectKey) error {
			if s.every(5) {
				return nil
			}
			return tx.DeleteOutbox(k)
		}}
	})},
	"an outbox entry of another one goes": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{delOutbox: func(tx store.Tx, k store.EffectKey) error {
			if s.every(5) {
				_ = tx.Outbox(func(e store.OutboxEntry) error {
					if e.Key != k {
						k = e.Key
						return errSpoilt
					}
					return nil
				})
			}
			return tx.DeleteOutbox(k)
		}}
	})},
	"nobody sees the outbox": {shared: true, make: within(func(*spoiling) spoiltTx {
		return spoiltTx{outbox: func(store.Tx, func(store.OutboxEntry) error) error { return nil }}
	})},
	"no lane waits": {make: within(func(*spoiling) spoiltTx {
		return spoiltTx{lanes: func(store.Tx) ([]string, error) { return nil, nil }}
	})},
	"the journal lacks inputs": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{journal: func(tx store.Tx, seq uint64, at effects.Time, entry []byte) error {
			var m map[string]any
			if s.every(6) && json.Unmarshal(entry, &m) == nil {
				delete(m, "inputs")
				entry, _ = json.Marshal(m)
			}
			return tx.AppendJournal(seq, at, entry)
		}}
	})},
	"the journal has another time": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{journal: func(tx store.Tx, seq uint64, at effects.Time, entry []byte) error {
			if s.every(6) {
				entry = bytes.Replace(entry, []byte(`"at":"2026-01-01T00:0`), []byte(`"at":"2026-01-01T01:0`), 1)
			}
			return tx.AppendJournal(seq, at, entry)
		}}
	})},
	"an answer is not kept": {make: within(func(*spoiling) spoiltTx {
		return spoiltTx{putAnswer: func(store.Tx, store.AnswerKey, store.Answer) error { return nil }}
	})},
	"what is due is not found": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{due: func(tx store.Tx, dst []store.DueEntry, after *store.DueKey, now effects.Time, limit int) ([]store.DueEntry, error) {
			list, err := tx.Due(dst, after, now, limit)
			return slices.DeleteFunc(list, func(d store.DueEntry) bool { return d.Kind == core.KindAction && d.Key.ID()[0] < 32 }), err
		}}
	})},
	"a record cannot be found": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{get: func(tx store.Tx, kind effects.Kind, id uuid.UUID) (store.Record, error) {
			if kind == core.KindAction && s.every(5) {
				return store.Record{}, fmt.Errorf("spoilt: %w", store.ErrNotFound)
			}
			return tx.Get(kind, id)
		}}
	})},
	"an action is not written": {make: written(core.KindAction, 9, func(w store.Write) (store.Write, bool) { return w, false })},
	"an action is due never": {make: written(core.KindAction, 9, func(w store.Write) (store.Write, bool) {
		w.Due = 0
		return w, true
	})},
	"an action is due later": {make: written(core.KindAction, 9, func(w store.Write) (store.Write, bool) {
		if w.Due != 0 {
			w.Due += 1000 * 3600 * 1000
		}
		return w, true
	})},
	"an action has no index terms": {make: written(core.KindAction, 9, func(w store.Write) (store.Write, bool) {
		w.Terms = nil
		return w, true
	})},
	"an item is not written":          {make: written(core.KindQueueItem, 3, func(w store.Write) (store.Write, bool) { return w, false })},
	"an occurrence is not written":    {make: written(core.KindOccurrence, 3, func(w store.Write) (store.Write, bool) { return w, false })},
	"a pipeline is not written":       {make: written(core.KindPipeline, 3, func(w store.Write) (store.Write, bool) { return w, false })},
	"the token of a lock goes back":   {make: replaced(core.KindLock, 2, `"token":\d+`, `"token":7`)},
	"a lock is not written":           {make: written(core.KindLock, 2, func(w store.Write) (store.Write, bool) { return w, false })},
	"the wrong attempt of an action":  {make: replaced(core.KindAction, 5, `"attempt":1`, `"attempt":0`)},
	"the policy of an action is lost": {make: replaced(core.KindAction, 2, `"on_interrupt":"fail"`, `"on_interrupt":"retry"`)},
	"an outcome is another one":       {make: replaced(core.KindAction, 3, `"completed"`, `"cancelled"`)},
	"an occurrence stands for more":   {make: replaced(core.KindOccurrence, 2, `"count":1`, `"count":2`)},
}

func TestEachDefectIsFound(t *testing.T) {
	raced.Skip(t)
	const most = 100
	maps.Copy(broken, brokenToo)
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		d := broken[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Shared: d.shared, Losses: d.losses, MaxSteps: 3000, Engine: d.engine, broken: d.make}
			if d.hands {
				o.Fleet, o.Instances, o.Faults, o.MaxSteps = true, 3, 16, 15_000
			}
			for seed := uint64(1); seed <= most; seed++ {
				rep, err := Run(seed, o)
				if err != nil || !rep.Failed() {
					continue
				}
				t.Logf("seed %d: %s", seed, rep.Violations[0])
				return
			}
			assert.Fail(t, "it is not found", "within %d seeds", most)
		})
	}
	require.Greater(t, len(broken), 50)
}

func TestWhatHasFailedIsShrunk(t *testing.T) {
	d := broken["requests that come again have no key"]
	o := Options{broken: d.make}
	rep, err := Run(1, o)
	require.NoError(t, err)
	require.True(t, rep.Failed())
	small, err := Shrink(rep, func() Options { return o }, 200)
	require.NoError(t, err)
	assert.True(t, sameRule(rep, small))
	assert.Less(t, len(small.Kept), len(rep.Kept)/2, "%s", small)
	o.Keep = small.Kept
	again, err := Run(1, o)
	require.NoError(t, err)
	assert.Equal(t, small.Trace, again.Trace)
	assert.Contains(t, small.String(), fmt.Sprintf("Options.Keep: %#v", small.Kept))
}
