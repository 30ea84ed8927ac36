package replay_test

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

var (
	benchActions = flag.Int("actions", 100_000, "BenchmarkVerify: how many actions the database has seen")
	benchFile    = flag.String("replayed", "", "BenchmarkVerify: the database `file` to replay; one that is not there is made, and kept")
)

// BenchmarkVerify replays a database of actions that were created, started and completed,
// of which one in ten waits for its time still, and of items that went through a queue.
func BenchmarkVerify(b *testing.B) {
	path := *benchFile
	if path == "" {
		path = filepath.Join(b.TempDir(), "orrery.db")
	}
	if _, err := os.Stat(path); err != nil {
		made(b, path, *benchActions)
	}
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	b.ReportAllocs()
	b.ResetTimer()
	begin, inputs := time.Now(), uint64(0)
	for range b.N {
		rep, err := replay.Verify(b.Context(), st, replay.Options{})
		require.NoError(b, err)
		require.Empty(b, rep.Divergences)
		inputs += rep.Inputs
	}
	b.ReportMetric(float64(inputs)/time.Since(begin).Seconds(), "events/s")
}

// maker writes what an engine would, as fast as it can.
type maker struct {
	tb    testing.TB
	st    store.Store
	seq   uint64
	now   effects.Time
	live  map[effects.Ref]was
	lists map[effects.Ref]bool
	tx    store.ReadTx
	rand  *rand.ChaCha8
}

type was struct {
	state core.State
	prev  store.Prev
}

// made makes a database of n actions, with an item of a queue for each ten of them.
func made(tb testing.TB, path string, n int) {
	tb.Helper()
	st, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(tb, err)
	m := &maker{tb: tb, st: st, now: effects.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), live: map[effects.Ref]was{}, rand: rand.NewChaCha8([32]byte{1})}
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
	require.NoError(tb, st.Close())
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
	err := m.st.Update(m.tb.Context(), func(tx store.Tx) error {
		m.tx = tx
		b := core.NewBatch(m, core.Clock{Now: m.now}, m.seq)
		entry := core.NewEntry(m.seq, m.now, "bench")
		for _, in := range inputs {
			res, err := b.Apply(in)
			if err != nil || !res.Changed {
				m.tb.Fatalf("%s to %s: %v, %v", in.Event.EventType(), in.To, err, res.Refused)
			}
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
			m.live[c.Ref] = was{c.After, store.Prev{Version: w.Prev.Version + 1, Seq: m.seq, Due: w.Due, Terms: w.Terms}}
			if !core.Cacheable(c.After) || w.Due > m.now.Add(1000*time.Hour) {
				delete(m.live, c.Ref) // nothing comes to it any more
			}
		}
		writes = append(writes, w)
	}
	for _, o := range b.Outer() {
		err := tx.PutOutbox(store.OutboxEntry{
			Key: store.EffectKey{ID: o.From.ID, N: o.Effect.Number()}, Seq: m.seq, Kind: o.From.Kind,
			Lane: store.ShareLane(o.Effect.Lane(), "t"+strconv.Itoa(int(o.Effect.Number()))), Effect: o.Effect.AppendJSON(nil),
		})
		if err != nil {
			return err
		}
	}
	return tx.Put(m.seq, writes)
}
