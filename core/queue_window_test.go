package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// gathered is the queue with all that a world keeps for it.
func (w world) gathered(ref effects.Ref) core.Queue {
	s, _ := w.Load(ref)
	q, _ := s.(core.Queue)
	for other := range w { // order-free: sorted below
		s, _ := w.Load(other)
		switch s := s.(type) {
		case core.QueueItem:
			if s.Queue == ref.ID {
				q.Items = append(q.Items, s)
			}
		case core.QueueKey:
			if s.Queue == ref.ID {
				q.Keys = append(q.Keys, s)
			}
		case core.QueueDedup:
			if s.Queue == ref.ID {
				q.Dedups = append(q.Dedups, s)
			}
		}
	}
	byID := func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(q.Items, func(a, b core.QueueItem) int { return byID(a.ID, b.ID) })
	slices.SortFunc(q.Keys, func(a, b core.QueueKey) int { return byID(a.ID, b.ID) })
	slices.SortFunc(q.Dedups, func(a, b core.QueueDedup) int { return byID(a.ID, b.ID) })
	return q
}

// A queue of which a batch sees only what each event touches is the same as one
// with all its items, for every event, in one batch and over many.
func TestAQueueWithAWindowOfItemsEqualsTheQueueWithAllItems(t *testing.T) {
	ref := core.QueueRef("", "", "q")
	rapid.Check(t, func(t *rapid.T) {
		w, whole, clock := world{}, core.Queue{}, core.Clock{Now: start}
		for seq := uint64(1); seq <= uint64(rapid.IntRange(1, 12).Draw(t, "turns")); seq++ {
			clock = drawClock(t, clock)
			if at := whole.Deadline(); !at.IsZero() && rapid.Bool().Draw(t, "until due") {
				clock.Now = max(clock.Now, at)
			}
			batch, taken := core.NewBatch(w, clock, seq), 0
			for range rapid.IntRange(1, 8).Draw(t, "events") {
				e := drawQueueEvent(t, whole, clock)
				if p, ok := e.(core.QueuePush); ok && !exists(whole) && p.Name != "q" {
					continue // it belongs to another queue
				}
				clock.Step = stepOf(int(seq), taken)
				before := len(batch.Events())
				next, effs := checkedApply(t, whole, e, clock)
				res, err := batch.Apply(core.Input{To: ref, Event: e})
				require.NoError(t, err)
				require.Equal(t, refusal(effs) == nil, res.Changed, "%v", res.Refused)
				if r := refusal(effs); r != nil {
					require.Equal(t, r.Code, res.Refused.Code)
					require.Equal(t, r.Reason, res.Refused.Reason)
					continue
				}
				taken++
				whole = next.(core.Queue)
				var announced []effects.EventKind
				var answer effects.Value
				for _, eff := range effs {
					if e, ok := eff.(effects.Emit); ok {
						announced = append(announced, e.Event.Kind)
					}
					if a, ok := eff.(effects.Answer); ok {
						answer = a.Value
					}
				}
				require.Equal(t, answer, res.Answer)
				var heard []effects.EventKind
				for _, ev := range batch.Events()[before:] {
					if ev.Source.ID == ref.ID { // not of the dead letter queue
						heard = append(heard, ev.Kind)
					}
				}
				require.Equal(t, announced, heard)
			}
			w.store(batch)
			require.Equal(t, encoded(whole), encoded(w.gathered(ref)))
		}
	})
}

// Several queues, with dead letters and what goes back, replay to the same bytes.
func TestManyQueuesReplayFromTheirJournalToTheSameBytes(t *testing.T) {
	names := []string{"q", "dlq", "work"}
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		stored, cached, replayed := world{}, loader{}, world{}
		for seq := uint64(1); seq <= uint64(rapid.IntRange(1, 10).Draw(t, "turns")); seq++ {
			clock = drawClock(t, clock)
			live, warm := core.NewBatch(stored, clock, seq), core.NewBatch(cached, clock, seq)
			batch := core.NewEntry(seq, clock.Now, "test")
			apply := func(in core.Input) {
				res, err := live.Apply(in)
				require.NoError(t, err)
				again, err := warm.Apply(in)
				require.NoError(t, err)
				require.Equal(t, res.Changed, again.Changed)
				require.Equal(t, res.Refused, again.Refused)
				if res.Changed {
					batch.Inputs = append(batch.Inputs, in)
				}
			}
			for _, in := range stored.due(clock) {
				apply(in)
			}
			for range rapid.IntRange(1, 6).Draw(t, "inputs") {
				ref := core.QueueRef("", "", rapid.SampledFrom(names).Draw(t, "queue"))
				q := stored.with(live).gathered(ref)
				e := drawQueueEvent(t, q, clock)
				switch e := e.(type) { // most go where they belong
				case core.QueuePush:
					ref = core.QueueRef("", "", e.Name)
				case core.QueueCreate:
					ref = core.QueueRef("", "", e.Name)
				case core.QueueDeadLetter:
					if e.Item.Origin != nil {
						ref = core.QueueRef("", "", e.Item.Origin.To)
					}
				}
				apply(core.Input{To: ref, Event: e})
			}
			want := observe(live)
			require.Equal(t, want, observe(warm))
			decoded, err := core.DecodeEntry(batch.AppendJSON(nil))
			require.NoError(t, err)
			again := core.NewBatch(replayed, core.Clock{Now: decoded.At}, decoded.Seq)
			for _, in := range decoded.Inputs {
				res, err := again.Apply(in)
				require.NoError(t, err)
				require.True(t, res.Changed, "the replay refuses %s: %v", in.Event.EventType(), res.Refused)
			}
			require.Equal(t, want, observe(again))
			stored.store(live)
			replayed.store(again)
			for _, c := range warm.Changes() {
				if cached[c.Ref] = c.After; c.After == nil {
					delete(cached, c.Ref)
				}
			}
		}
		require.Equal(t, stored, replayed)
	})
}

func TestAnInputThatIsUndoneLeavesTheOrderAsItWas(t *testing.T) {
	ref := core.QueueRef("", "", "q")
	bus := core.BusRef()
	w := world{}
	batch := core.NewBatch(w, core.Clock{Now: start}, 1)
	for range 40 { // more than a page
		_, err := batch.Apply(core.Input{To: ref, Event: core.QueuePush{Name: "q"}})
		require.NoError(t, err)
	}
	w.store(batch)

	batch = core.NewBatch(broken{w, bus}, core.Clock{Now: start}, 2)
	_, err := batch.Apply(core.Input{To: ref, Event: core.QueueTake{Holder: "h", Max: 20}})
	require.ErrorIs(t, err, errDisk, "its announcement cannot be routed")
	assert.Empty(t, batch.Changes())

	batch = core.NewBatch(w, core.Clock{Now: start}, 2)
	_, err = batch.Apply(core.Input{To: ref, Event: core.QueueTake{Holder: "h", Max: 10}})
	require.NoError(t, err)
	first := batch.Changes()
	_, err = batch.Apply(core.Input{To: ref, Event: core.QueueConfigure{Config: core.QueueConfig{Concurrency: 30}}})
	require.NoError(t, err)
	res, err := batch.Apply(core.Input{To: ref, Event: core.QueueTake{Holder: "h", Max: 256}})
	require.NoError(t, err)
	items := res.Answer.(core.QueueItems)
	require.Len(t, items, 20)
	assert.Equal(t, core.ItemID(ref.ID, 11, stepOf(1, 10)), items[0].ID, "after %d", len(first))
}

// counting counts what a batch asks for.
type countingLoader struct {
	loader
	loads, entries int
}

func (l *countingLoader) Load(ref effects.Ref) (core.State, error) {
	l.loads++
	return l.loader.Load(ref)
}

func (l *countingLoader) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	found, err := l.loader.Scan(kind, term, after, limit)
	l.entries += len(found)
	return found, err
}

func TestABatchLooksAtNoMoreOfAQueueThanItsEventsTouch(t *testing.T) {
	ref := core.QueueRef("", "", "q")
	states := &countingLoader{loader: loader{}}
	batch := core.NewBatch(states, core.Clock{Now: start}, 1)
	for range 3000 {
		_, err := batch.Apply(core.Input{To: ref, Event: core.QueuePush{Name: "q"}})
		require.NoError(t, err)
	}
	for _, c := range batch.Changes() {
		states.loader[c.Ref] = c.After
	}
	states.loads, states.entries = 0, 0
	batch = core.NewBatch(states, core.Clock{Now: start}, 2)
	for range 2000 {
		res, err := batch.Apply(core.Input{To: ref, Event: core.QueueTake{Holder: "h"}})
		require.NoError(t, err)
		require.True(t, res.Changed)
	}
	assert.LessOrEqual(t, states.loads, 2010)
	assert.LessOrEqual(t, states.entries, 2700)
}

func TestATakeThatIsRefusedLeavesWhatHasTimedOutToOthersOfItsBatch(t *testing.T) {
	ref := core.QueueRef("", "", "q")
	w := world{}
	batch := core.NewBatch(w, core.Clock{Now: start}, 1)
	for _, e := range []core.Event{core.QueuePush{Name: "q"}, core.QueueTake{Holder: "h"}, core.QueuePush{Name: "q"}, core.QueueTake{Holder: "h", VisibilityMS: 120_000}, core.QueuePause{}} {
		_, err := batch.Apply(core.Input{To: ref, Event: e})
		require.NoError(t, err)
	}
	w.store(batch)
	batch = core.NewBatch(w, core.Clock{Now: start.Add(time.Minute)}, 2)
	res, err := batch.Apply(core.Input{To: ref, Event: core.QueueTake{Holder: "h"}})
	require.NoError(t, err)
	require.Equal(t, effects.CodeEmpty, res.Refused.Code)
	res, err = batch.Apply(core.Input{To: ref, Event: core.QueueDue{}})
	require.NoError(t, err)
	require.True(t, res.Changed)
	w.store(batch)
	q := w.gathered(ref)
	assert.EqualValues(t, 1, q.TimedOut)
	assert.EqualValues(t, 1, q.Ready)
	assert.Equal(t, start.Add(2*time.Minute), q.Deadline())
}
