package replay_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// tb is what tests, benchmarks and properties have in common.
type tb interface {
	require.TestingT
	Helper()
}

// maker writes what an engine would, as fast as it can.
type maker struct {
	tb   tb
	st   store.Store
	seq  uint64
	now  effects.Time
	live map[effects.Ref]was
	keep bool // states that nothing comes to in the benchmark
	tx   store.ReadTx
	rand *rand.ChaCha8
}

type was struct {
	state core.State
	prev  store.Prev
}

func newMaker(t tb, st store.Store) *maker {
	begin := effects.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &maker{tb: t, st: st, now: begin, live: make(map[effects.Ref]was), rand: rand.NewChaCha8([32]byte{1})}
}

// made makes a database of n actions, with an item of a queue for each ten of them.
func made(t tb, path string, n int) {
	t.Helper()
	st, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	m := newMaker(t, st)
	var running []core.Input
	const batch = 100
	for made := 0; made < n; made += batch {
		inputs := running
		running = nil
		for i := range batch {
			create, ref := m.create(i%10 == 0)
			inputs = append(inputs, create)
			if i%10 != 0 {
				inputs = append(inputs, core.Input{To: ref, Actor: "clock", Event: core.ActionDue{}})
				running = append(running, core.Input{To: ref, Actor: "tool", Ack: 1, Event: core.ActionComplete{Run: 1, Result: json.RawMessage(`{"delivered":true}`)}})
			}
		}
		for range batch / 10 {
			inputs = append(inputs, core.Input{To: core.QueueRef("bench", "t", "mail"), Actor: "api:bench", Event: core.QueuePush{Namespace: "bench", Tenant: "t", Name: "mail", Data: json.RawMessage(`{"to":"team@example.com"}`)}})
		}
		m.batch(inputs)
		m.queue()
	}
	m.batch(running)
	require.NoError(t, st.Close())
}

func (m *maker) create(later bool) (core.Input, effects.Ref) {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], m.rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], m.rand.Uint64())
	spec := core.ActionSpec{
		ID: id, ToolName: "count", Label: "benchmark", Namespace: "bench", Tenant: "t",
		ToolInput: json.RawMessage(`{"to":"team@example.com","subject":"Daily Digest"}`),
		Trigger:   core.Scheduled(m.now),
	}
	if later {
		spec.Trigger = core.Scheduled(m.now.Add(10_000 * time.Hour))
	}
	ref := effects.Ref{Kind: core.KindAction, ID: id}
	return core.Input{To: ref, Actor: "api:bench", Event: core.ActionCreate{Spec: spec}}, ref
}

// queue takes and completes what was pushed.
func (m *maker) queue() {
	to := core.QueueRef("bench", "t", "mail")
	answer := m.batch([]core.Input{{To: to, Actor: "api:bench", Event: core.QueueTake{Holder: "w", Max: 10}}})
	var done []core.Input
	for _, item := range answer.(core.QueueItems) {
		done = append(done, core.Input{To: to, Actor: "api:bench", Event: core.QueueComplete{Item: item.ID, Holder: "w", Attempt: item.Attempts}})
	}
	m.batch(done)
}

func (m *maker) Load(ref effects.Ref) (core.State, error) { return m.live[ref].state, nil }

func (m *maker) Scan(kind effects.Kind, term string, after core.Cursor, limit int) (out []core.Cursor, err error) {
	found, err := m.tx.Scan(kind, term, store.Cursor(after), false, limit)
	for _, c := range found {
		out = append(out, core.Cursor(c))
	}
	return out, err
}

// batch commits one batch, and gives the last answer.
func (m *maker) batch(inputs []core.Input) (answer effects.Value) {
	m.now = m.now.Add(10 * time.Millisecond)
	m.seq++
	err := m.st.Update(context.Background(), func(tx store.Tx) error {
		m.tx = tx
		b := core.NewBatch(m, core.Clock{Now: m.now}, m.seq)
		entry := core.NewEntry(m.seq, m.now, "bench")
		for _, in := range inputs {
			res, err := b.Apply(in)
			require.NoError(m.tb, err)
			if !res.Changed && m.keep {
				continue
			}
			require.True(m.tb, res.Changed, "%s to %s: %v", in.Event.EventType(), in.To, res.Refused)
			answer = res.Answer
			entry.Inputs = append(entry.Inputs, in)
			if in.Ack != 0 {
				if err := tx.DeleteOutbox(store.EffectKey{ID: in.To.ID, N: in.Ack}); err != nil {
					return err
				}
			}
		}
		if err := m.put(tx, b); err != nil {
			return err
		}
		return tx.AppendJournal(m.seq, m.now, entry.AppendJSON(nil))
	})
	require.NoError(m.tb, err)
	return answer
}

func (m *maker) put(tx store.Tx, b *core.Batch) error {
	var writes []store.Write
	for _, c := range b.Changes() {
		w := store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID, Prev: m.live[c.Ref].prev}
		if c.After == nil {
			delete(m.live, c.Ref)
		} else {
			w.State, w.Due, w.Terms = c.After.AppendJSON(nil), c.After.Deadline(), c.After.Terms()
			w.Share = engine.DueShare(core.ScopeOf(c.After))
			m.live[c.Ref] = was{c.After, store.Prev{Version: w.Prev.Version + 1, Seq: m.seq, Due: w.Due, Terms: w.Terms}}
			if !m.keep && (!core.Cacheable(c.After) || w.Due > m.now.Add(1000*time.Hour)) {
				delete(m.live, c.Ref) // nothing comes to it any more
			}
		}
		writes = append(writes, w)
	}
	for _, w := range b.Withdrawn() {
		if err := tx.DeleteOutbox(store.EffectKey{ID: w.From.ID, N: w.N}); err != nil {
			return err
		}
	}
	for _, o := range b.Outer() {
		e := store.OutboxEntry{
			Key: store.EffectKey{ID: o.From.ID, N: o.Effect.Number()}, Seq: m.seq, Kind: o.From.Kind,
			Lane: store.ShareLane(o.Effect.Lane(), "t"+strconv.Itoa(int(o.Effect.Number()))),
		}
		if o.Effect.Repeatable() || m.seq%2 == 0 { // earlier builds stored each
			e.Effect = o.Effect.AppendJSON(nil)
		}
		if err := tx.PutOutbox(e); err != nil {
			return err
		}
	}
	return tx.Put(m.seq, writes)
}
