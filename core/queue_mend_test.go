package core_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// inBatch applies events to the queue "q" in one batch over the world.
func (w world) inBatch(t tb, clock core.Clock, seq uint64, evs ...core.Event) []core.Result {
	t.Helper()
	var out []core.Result
	batch := core.NewBatch(w, clock, seq)
	for _, e := range evs {
		res, err := batch.Apply(core.Input{To: core.QueueRef("", "", "q"), Event: e})
		require.NoError(t, err)
		out = append(out, res)
	}
	w.store(batch)
	return out
}

// drawLife gives a world in which a queue has lived for a while.
func drawLife(t *rapid.T) (w world, clock core.Clock, seq uint64) {
	ref := core.QueueRef("", "", "q")
	w, clock = world{}, core.Clock{Now: start}
	for seq = 1; seq <= uint64(rapid.IntRange(1, 10).Draw(t, "turns")); seq++ {
		clock = drawClock(t, clock)
		for range rapid.IntRange(1, 6).Draw(t, "events") {
			e := drawQueueEvent(t, w.gathered(ref), clock)
			if p, ok := e.(core.QueuePush); !ok || p.Name == "q" {
				w.inBatch(t, clock, seq, e)
			}
		}
	}
	return w, clock, seq
}

// What follows the loss of a record is the same whether the queue still has it, as
// in a replay, or not; all is counted right afterwards, and goes on so.
func TestAQueueThatHasLostARecordCountsAllAnew(t *testing.T) {
	ref := core.QueueRef("", "", "q")
	rapid.Check(t, func(t *rapid.T) {
		replayed, clock, seq := drawLife(t)
		var parts []effects.Ref
		for _, r := range replayed.refs() {
			s, _ := replayed.Load(r)
			i, item := s.(core.QueueItem)
			k, key := s.(core.QueueKey)
			d, dedup := s.(core.QueueDedup)
			if item && i.Queue == ref.ID || key && k.Queue == ref.ID || dedup && d.Queue == ref.ID {
				parts = append(parts, r)
			}
		}
		if len(parts) == 0 {
			t.Skip("nothing to lose")
		}
		lost := rapid.SampledFrom(parts).Draw(t, "lost")
		was, _ := replayed.Load(lost)
		raw := []byte(encoded(was))
		if i, ok := was.(core.QueueItem); ok && i.State.Type != core.ItemProcessing && i.DedupKey == "" && rapid.Bool().Draw(t, "illegible") {
			raw = []byte(`{"id":7}`)
		}
		live := maps.Clone(replayed)
		delete(live, lost)
		e := core.MendQueue(ref.ID, lost, was.Terms(), raw)
		for n, w := range []world{live, replayed} {
			require.True(t, w.inBatch(t, clock, seq, e)[0].Changed, n)
		}
		require.Equal(t, replayed, live)
		require.Empty(t, checkCounts(step{}, core.Queue{}, live.gathered(ref)))
		for range rapid.IntRange(0, 6).Draw(t, "more events") {
			seq++
			clock = drawClock(t, clock)
			before := live.gathered(ref)
			if next := drawQueueEvent(t, before, clock); next.EventType() != "push" || next.(core.QueuePush).Name == "q" {
				live.inBatch(t, clock, seq, next)
				replayed.inBatch(t, clock, seq, next)
			}
			require.Equal(t, replayed, live)
			require.Empty(t, checkCounts(step{}, core.Queue{}, live.gathered(ref)))
		}
	})
}

// A queue whose header was lost finds what it held once it is made again, and
// gives all of it out.
func TestAQueueThatIsMadeAgainFindsWhatItHeld(t *testing.T) {
	ref := core.QueueRef("", "", "q")
	rapid.Check(t, func(t *rapid.T) {
		replayed, clock, seq := drawLife(t)
		before := replayed.gathered(ref)
		if !exists(before) {
			t.Skip("there is no queue")
		}
		live := maps.Clone(replayed)
		delete(live, ref)
		again := rapid.SampledFrom([]core.Event{core.QueueCreate{Name: "q"}, core.QueuePush{Name: "q"}}).Draw(t, "again")
		for _, w := range []world{live, replayed} {
			res := w.inBatch(t, clock, seq, core.MendQueue(ref.ID, ref, nil, nil), core.QueueTake{Holder: "h"}, again)
			require.True(t, res[0].Changed)
			require.Equal(t, effects.CodeNotFound, res[1].Refused.Code)
			require.True(t, res[2].Changed)
		}
		require.Equal(t, replayed, live)
		q := live.gathered(ref)
		exact := counted(q)
		require.GreaterOrEqual(t, q.KeyCount, exact.KeyCount)
		require.GreaterOrEqual(t, q.Windows, exact.Windows)
		exact.KeyCount, exact.Windows = q.KeyCount, q.Windows
		require.Equal(t, encoded(exact.Header()), encoded(q.Header()))
		clock.Now = start.Add(200 * 365 * 24 * time.Hour) // after all jumps of the clock
		for range len(q.Items) + 5 {
			seq++
			clock.Now = clock.Now.Add(400 * 24 * time.Hour) // whatever waited for its time
			for n := 0; n < 20 && !live.gathered(ref).Deadline().IsZero() && live.gathered(ref).Deadline() <= clock.Now; n++ {
				live.inBatch(t, clock, seq, core.QueueDue{})
				seq++
			}
			if items, ok := live.inBatch(t, clock, seq, core.QueueTake{Holder: "h", Max: 100})[0].Answer.(core.QueueItems); ok {
				for _, i := range items {
					seq++
					live.inBatch(t, clock, seq, core.QueueComplete{Item: i.ID, Holder: "h", Attempt: i.Attempts})
				}
			}
		}
		for _, i := range live.gathered(ref).Items {
			require.Equal(t, core.ItemDead, i.State.Type, "%s is stranded", encoded(i))
		}
	})
}

func TestWhoWaitsForALostItemIsToldOfIt(t *testing.T) {
	owner := core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(9)}, N: 3}
	q, _ := core.Queue{}.Apply(core.QueuePush{Name: "q", Owner: owner}, core.Clock{Now: start})
	for name, raw := range map[string]string{
		"bare":           encoded(q.Items[0]),
		"in an envelope": `{"crc":"00000000","version":1,"seq":1,"state":` + encoded(q.Items[0]) + `}`,
	} {
		e := core.MendQueue(q.ID, q.Items[0].Ref(), q.Items[0].Terms(), []byte(raw))
		next, effs := q.Apply(e, core.Clock{Now: start})
		assert.Empty(t, next.Items, name)
		assert.Contains(t, effs, effects.Send{To: owner.Ref, Event: core.ChildEnded{Child: q.Items[0].Ref(), N: 3, Outcome: core.ChildFailed, Reason: core.ReasonUnreadable, Interrupted: true}}, name)
	}
}

func TestWhoWaitsForALostMachineIsTold(t *testing.T) {
	pipe := func(n byte) core.Owner {
		return core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: uuid.UUID{6: 0x40, 8: 0x80, 15: n}}, N: uint32(n)}
	}
	owned, _ := json.Marshal(pipe(1))
	watched, _ := json.Marshal(pipe(2))
	for name, c := range map[string]struct {
		kind effects.Kind
		raw  string
		want []core.Owner
	}{
		"an action":         {core.KindAction, `{"owner":` + string(owned) + `}`, []core.Owner{pipe(1)}},
		"a pipeline":        {core.KindPipeline, `{"owner":` + string(owned) + `,"watchers":[` + string(watched) + `]}`, []core.Owner{pipe(1), pipe(2)}},
		"a lock":            {core.KindLock, `{"owner":` + string(owned) + `,"waiters":[{"owner":` + string(watched) + `}]}`, []core.Owner{pipe(1), pipe(2)}},
		"a semaphore":       {core.KindSemaphore, `{"holders":[{"owner":` + string(owned) + `}],"waiters":[{"owner":` + string(watched) + `}]}`, []core.Owner{pipe(1), pipe(2)}},
		"one that is alone": {core.KindTask, `{"owner":null}`, nil},
		"an illegible one":  {core.KindTask, `{"owner":{"kind":"pipel`, nil},
		"an unknown owner":  {core.KindTask, `{"owner":{"kind":"odd","id":"00000000-0000-4000-8000-000000000001","n":1}}`, nil},
	} {
		var told []core.Owner
		for _, in := range core.LostTo(effects.Ref{Kind: c.kind, ID: id(7)}, []byte(c.raw)) {
			switch e := in.Event.(type) {
			case core.ChildEnded:
				told = append(told, core.Owner{Ref: in.To, N: e.N})
				assert.Equal(t, core.ChildFailed, e.Outcome, name)
			case core.Lost:
				told = append(told, core.Owner{Ref: in.To, N: e.N})
			}
		}
		assert.Equal(t, c.want, told, name)
	}
}
