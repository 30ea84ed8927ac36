package repartition_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/repartition"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

var start = effects.TimeOf(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))

// world is a database with several partitions, which a test writes as engines would.
type world struct {
	t     require.TestingT
	parts []*memory.Store
	now   effects.Time
}

func newWorld(t require.TestingT, partitions int) *world {
	w := &world{t: t, now: start}
	for range partitions {
		w.parts = append(w.parts, memory.New())
	}
	return w
}

// in gives the partition of a tenant.
func (w *world) in(of core.Scope) int { return core.Partition(of, len(w.parts)) }

// loader reads one transaction.
type loader struct{ tx store.ReadTx }

func (l loader) Load(ref effects.Ref) (core.State, error) {
	r, err := l.tx.Get(ref.Kind, ref.ID)
	if err != nil {
		return nil, nil //nolint:nilerr // it is not there
	}
	return core.DecodeState(r.Kind, r.State)
}

func (l loader) Scan(kind effects.Kind, term string, after core.Cursor, limit int) (out []core.Cursor, err error) {
	found, err := l.tx.Scan(kind, term, store.Cursor{At: after.At, ID: after.ID}, false, limit)
	for _, c := range found {
		out = append(out, core.Cursor{At: c.At, ID: c.ID})
	}
	return out, err
}

// commit decides one input in a partition, a second after the last one, and commits it. It gives what was answered.
func (w *world) commit(partition int, in core.Input) (res core.Result) {
	w.now = w.now.Add(time.Second)
	err := w.parts[partition].Update(context.Background(), func(tx store.Tx) error {
		last, err := tx.Seq()
		require.NoError(w.t, err)
		seq := last + 1
		b := core.NewBatch(loader{tx}, core.Clock{Now: w.now}, seq)
		b.Partition(uint16(partition))
		res, err = b.Apply(in)
		require.NoError(w.t, err)
		if !res.Changed {
			return nil
		}
		entry := core.NewEntry(seq, w.now, "test")
		entry.Partition = uint16(partition)
		in.Full = res.Full
		entry.Inputs = []core.Input{in}
		var writes []store.Write
		for _, c := range b.Changes() {
			writes = append(writes, w.write(tx, c))
		}
		for _, o := range b.Outer() {
			e := store.OutboxEntry{Key: store.EffectKey{ID: o.From.ID, N: o.Effect.Number()}, Seq: seq, Kind: o.From.Kind, Lane: o.Effect.Lane()}
			require.NoError(w.t, tx.PutOutbox(e))
		}
		require.NoError(w.t, tx.Put(seq, writes))
		return tx.AppendJournal(seq, w.now, entry.AppendJSON(nil))
	})
	require.NoError(w.t, err)
	return res
}

func (w *world) write(tx store.ReadTx, c core.Change) store.Write {
	out := store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID}
	if c.Before != nil {
		r, err := tx.Get(c.Ref.Kind, c.Ref.ID)
		require.NoError(w.t, err)
		out.Prev = store.Prev{Version: r.Version, Seq: r.Seq, Due: c.Before.Deadline(), Terms: c.Before.Terms()}
	}
	if c.After != nil {
		out.State, out.Due, out.Terms = c.After.AppendJSON(nil), c.After.Deadline(), c.After.Terms()
		out.Share = engine.DueShare(core.ScopeOf(c.After))
	}
	return out
}

// taken is commit for what is not refused.
func (w *world) taken(partition int, to effects.Ref, ev core.Event) core.Result {
	res := w.commit(partition, core.Input{To: to, Actor: "test", Event: ev})
	require.Nil(w.t, res.Refused, "%s: %v", ev.EventType(), res.Refused)
	return res
}

func (w *world) sources() (out []repartition.Source) {
	for _, p := range w.parts {
		out = append(out, p)
	}
	return out
}

var options = repartition.Options{Place: core.Partition, At: start}

// copied copies into that many partitions, and verifies each of them.
func (w *world) copied(partitions int, o repartition.Options) (*world, repartition.Report) {
	next := newWorld(w.t, partitions)
	next.now = w.now
	var to []repartition.Target
	for _, p := range next.parts {
		to = append(to, p.Import)
	}
	report, err := repartition.Copy(context.Background(), w.sources(), to, o)
	require.NoError(w.t, err)
	next.verified()
	return next, report
}

// verified folds the journals, and looks whether each record is where its tenant is.
func (w *world) verified() {
	for k, p := range w.parts {
		r, err := replay.Verify(context.Background(), p, replay.Options{})
		require.NoError(w.t, err)
		require.Empty(w.t, r.Divergences, "partition %d", k)
		require.NoError(w.t, p.View(context.Background(), func(tx store.ReadTx) error {
			return tx.Records(func(r store.Record) error {
				b, err := core.StoredBelonging(r.Kind, r.State)
				require.NoError(w.t, err)
				switch {
				case b.Each:
				case !b.With.IsZero():
					_, err := tx.Get(b.With.Kind, b.With.ID)
					require.NoError(w.t, err, "%s/%s is not with %s", r.Kind, r.ID, b.With)
				default:
					assert.Equal(w.t, w.in(b.Of), k, "%s/%s of %v", r.Kind, r.ID, b.Of)
				}
				return nil
			})
		}))
	}
}

// all lists what the partitions hold but for their journals, claims and small values.
func (w *world) all() []string {
	var l lines
	for _, p := range w.parts {
		require.NoError(w.t, p.Export(context.Background(), &l))
	}
	slices.Sort(l)
	return l
}

// lines is a sink that notes what comes.
type lines []string

func (l *lines) note(what string, v ...any) error {
	*l = append(*l, fmt.Sprintf("%s %+v", what, v))
	return nil
}

func (l *lines) Begin(store.Head) error { return nil }
func (l *lines) Record(r store.Record) error {
	return l.note("record", r.Kind, r.ID, r.Version, r.Seq, string(r.State))
}
func (l *lines) Due(d store.DueEntry) error { return l.note("due", d) }
func (l *lines) Term(kind effects.Kind, id uuid.UUID, t store.Term) error {
	return l.note("term", kind, id, t)
}
func (l *lines) Outbox(e store.OutboxEntry) error { return l.note("outbox", e) }
func (l *lines) Webhook(h store.Webhook) error    { return l.note("webhook", h) }
func (l *lines) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	return l.note("log", run, attempt, string(text))
}
func (l *lines) Claim(store.Claim) error               { return nil }
func (l *lines) Quarantined(q store.Quarantined) error { return l.note("quarantined", q) }
func (l *lines) Meta(string, []byte) error             { return nil }
func (l *lines) Base(uint64, uint64, store.Record) error {
	return nil
}
func (l *lines) Batch(effects.Time, store.Batch) error { return nil }
func (l *lines) Epoch(store.Epoch) error               { return nil }
func (l *lines) Omitted(o store.Omission) error        { return l.note("omitted", o) }
