package rewind_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/stream"
)

// kit is a store that a test writes as an engine would; batch n is decided at n seconds.
type kit struct {
	t    *testing.T
	st   rewind.Source
	seq  uint64
	live map[effects.Ref]core.State
	prev map[effects.Ref]store.Prev
}

func newKit(t *testing.T) *kit { return newKitOf(t, memory.New()) }

func newKitOf(t *testing.T, st rewind.Source) *kit {
	return &kit{t: t, st: st, live: map[effects.Ref]core.State{}, prev: map[effects.Ref]store.Prev{}}
}

func at(seq uint64) effects.Time { return effects.TimeOf(time.Unix(int64(seq), 0)) }

func (k *kit) Load(ref effects.Ref) (core.State, error) { return k.live[ref], nil }

func (k *kit) Scan(effects.Kind, string, core.Cursor, int) ([]core.Cursor, error) { return nil, nil }

func (k *kit) update(do func(tx store.Tx) error) {
	k.t.Helper()
	require.NoError(k.t, k.st.Update(k.t.Context(), do))
}

// batch commits one; what its machines ask for waits in the outbox.
func (k *kit) batch(inputs ...core.Input) {
	k.t.Helper()
	k.seq++
	b := core.NewBatch(k, core.Clock{Now: at(k.seq)}, k.seq)
	entry := core.NewEntry(k.seq, at(k.seq), "test")
	for _, in := range inputs {
		res, err := b.Apply(in)
		require.NoError(k.t, err)
		require.True(k.t, res.Changed, "%v", res.Refused)
		entry.Inputs = append(entry.Inputs, in)
	}
	k.update(func(tx store.Tx) error {
		var writes []store.Write
		for _, c := range b.Changes() {
			w := store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID, Prev: k.prev[c.Ref]}
			k.live[c.Ref], k.prev[c.Ref] = c.After, store.Prev{}
			if c.After != nil {
				w.State, w.Due, w.Terms = c.After.AppendJSON(nil), c.After.Deadline(), c.After.Terms()
				k.prev[c.Ref] = store.Prev{Version: w.Prev.Version + 1, Seq: k.seq, Due: w.Due, Terms: w.Terms}
			}
			writes = append(writes, w)
		}
		for _, in := range inputs {
			if in.Ack != 0 {
				require.NoError(k.t, tx.DeleteOutbox(store.EffectKey{ID: in.To.ID, N: in.Ack}))
			}
		}
		for _, o := range b.Outer() {
			e := store.OutboxEntry{Key: store.EffectKey{ID: o.From.ID, N: o.Effect.Number()}, Seq: k.seq, Kind: o.From.Kind, Lane: o.Effect.Lane()}
			require.NoError(k.t, tx.PutOutbox(e))
		}
		require.NoError(k.t, tx.Put(k.seq, writes))
		return tx.AppendJournal(k.seq, at(k.seq), entry.AppendJSON(nil))
	})
}

func action(n byte) effects.Ref { return effects.Ref{Kind: core.KindAction, ID: uuid.UUID{n}} }

func create(n byte) core.Input {
	return core.Input{To: action(n), Event: core.ActionCreate{Spec: core.ActionSpec{ID: action(n).ID, ToolName: "t", Trigger: core.Scheduled(at(1000))}}}
}

func to(n byte, ev core.Event, ack ...uint32) core.Input {
	in := core.Input{To: action(n), Event: ev}
	if len(ack) > 0 {
		in.Ack = ack[0]
	}
	return in
}

func (k *kit) to(o rewind.Options) (*memory.Store, *rewind.Rewind, error) {
	r := rewind.New(k.st, o)
	back := memory.New()
	err := back.Import(context.Background(), r)
	return back, r, err
}

func (k *kit) mustTo(batch uint64) (*memory.Store, rewind.Report) {
	k.t.Helper()
	back, r, err := k.to(rewind.Options{Batch: batch})
	require.NoError(k.t, err)
	return back, r.Report()
}

func view(t *testing.T, st store.Store, do func(tx store.ReadTx)) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		do(tx)
		return nil
	}))
}

func TestATimeIsTheLastBatchBeforeTheFirstLaterOne(t *testing.T) {
	k := newKit(t)
	for n := range byte(4) {
		k.batch(create(n + 1))
	}
	for _, tc := range []struct {
		at   effects.Time
		want uint64
	}{{at(1), 1}, {at(2).Add(time.Millisecond), 2}, {at(3).Add(999 * time.Millisecond), 3}, {at(4), 4}, {at(9), 4}} {
		_, r, err := k.to(rewind.Options{At: tc.at})
		require.NoError(t, err)
		assert.Equal(t, rewind.Place{Batch: tc.want, At: at(tc.want)}, r.Report().To, "%s", tc.at)
		assert.Equal(t, rewind.Place{Batch: 4, At: at(4)}, r.Report().From)
		assert.Equal(t, tc.want, k.records(t, tc.want), "each batch has made one")
	}
	_, _, err := k.to(rewind.Options{At: at(1).Add(-time.Millisecond)})
	require.ErrorIs(t, err, rewind.ErrUnreachable)
	require.ErrorContains(t, err, "it begins with batch 1 of 1970-01-01T00:00:01.000Z, which is later than 1970-01-01T00:00:00.999Z")
	_, _, err = k.to(rewind.Options{Batch: 5})
	require.ErrorContains(t, err, "batch 5 is to come: the store has batch 4 of")
	for _, o := range []rewind.Options{{}, {Batch: 1, At: at(1)}} {
		_, _, err = k.to(o)
		require.ErrorContains(t, err, "give a batch or a time")
	}
}

// records gives how many there are after a batch.
func (k *kit) records(t *testing.T, batch uint64) (n uint64) {
	back, _ := k.mustTo(batch)
	view(t, back, func(tx store.ReadTx) {
		require.NoError(t, tx.Records(func(store.Record) error { n++; return nil }))
	})
	return n
}

// entries gives the outbox.
func entries(t *testing.T, st store.Store) map[string]bool {
	waiting := map[string]bool{}
	view(t, st, func(tx store.ReadTx) {
		require.NoError(t, tx.Outbox(func(e store.OutboxEntry) error {
			waiting[e.Key.String()] = e.Waiting()
			return nil
		}))
	})
	return waiting
}

func key(n byte, run uint32) string { return store.EffectKey{ID: action(n).ID, N: run}.String() }

func TestWhatMayHaveBegunIsInterruptedAndWhatStillWaitsDoesNot(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2), create(3))
	k.batch(to(1, core.ActionTrigger{}), to(2, core.ActionTrigger{}), to(3, core.ActionTrigger{}))
	k.update(func(tx store.Tx) error { // 2 has begun
		e, err := tx.OutboxEntry(store.EffectKey{ID: action(2).ID, N: 1})
		require.NoError(t, err)
		e.Holder, e.Token = "instance/0", 7
		return tx.PutOutbox(e)
	})
	k.batch(to(3, core.ActionComplete{Run: 1}, 1))
	require.Equal(t, map[string]bool{key(1, 1): true, key(2, 1): false}, entries(t, k.st))
	back, rep := k.mustTo(2)
	assert.Equal(t, map[string]bool{key(1, 1): true, key(2, 1): false, key(3, 1): false}, entries(t, back))
	assert.Equal(t, uint64(2), rep.Interrupted)
	back, rep = k.mustTo(1)
	assert.Empty(t, entries(t, back))
	assert.Zero(t, rep.Interrupted)
	assert.Equal(t, uint64(3), rep.Records)
}

func TestClaimsAreNotThereAndTheirTokensStayTaken(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(create(2))
	var old store.Claim
	k.update(func(tx store.Tx) (err error) {
		old, err = tx.Acquire("instance/0", "a", time.Hour, at(2))
		return err
	})
	back, _ := k.mustTo(1)
	view(t, back, func(tx store.ReadTx) {
		claims, err := tx.Claims("")
		require.NoError(t, err)
		assert.Empty(t, claims)
	})
	require.NoError(t, back.Update(t.Context(), func(tx store.Tx) error {
		c, err := tx.Acquire("instance/0", "b", time.Hour, at(2))
		assert.Greater(t, c.Token, old.Token)
		return err
	}))
}

func TestWebhooksThatHadComeStayAndLaterOnesAreCounted(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(create(2))
	k.update(func(tx store.Tx) error {
		for n, at := range []effects.Time{at(1), at(1).Add(time.Millisecond), at(2)} {
			require.NoError(t, tx.PutWebhook(store.Webhook{ID: uuid.UUID{byte(n + 1)}, Route: "r", ReceivedAt: at, Body: []byte("b")}))
		}
		return nil
	})
	back, rep := k.mustTo(1)
	view(t, back, func(tx store.ReadTx) {
		hooks, err := tx.Webhooks(9)
		require.NoError(t, err)
		require.Len(t, hooks, 1)
		assert.Equal(t, uuid.UUID{1}, hooks[0].ID)
	})
	assert.Equal(t, uint64(2), rep.Webhooks)
}

func TestSmallValuesAreWhatTheyWere(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(create(2))
	mark := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	k.update(func(tx store.Tx) error {
		for name, value := range map[string][]byte{
			"journal-core": []byte(`"of tomorrow"`), "indexes": []byte(`{"version":"0","done":false}`), "other": []byte("kept"),
			"jobs/feed/behind": mark(1), "jobs/feed/ahead": mark(2),
		} {
			require.NoError(t, tx.SetMeta(name, value))
		}
		return nil
	})
	back, _ := k.mustTo(1)
	view(t, back, func(tx store.ReadTx) {
		for name, want := range map[string][]byte{
			"journal-core": fmt.Appendf(nil, "%q", core.Version), "indexes": fmt.Appendf(nil, `{"version":%q,"done":true}`, core.IndexVersion), "other": []byte("kept"),
			"jobs/feed/behind": mark(1), "jobs/feed/ahead": mark(1),
		} {
			got, err := tx.Meta(name)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got), name)
		}
	})
}

func TestARecordThatWasSetAsideSinceIsToldUnlessAnEpochHasIt(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2), create(3))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	k.batch(to(1, core.ActionTrigger{}), to(3, core.ActionTrigger{})) // 2: bases of 1 and 3
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	k.batch(to(3, core.ActionComplete{Run: 1}, 1)) // 3
	k.batch(create(4))                             // 4
	k.update(func(tx store.Tx) error {
		for n := byte(1); n <= 3; n++ {
			require.NoError(t, tx.SetAside(store.Quarantined{Kind: core.KindAction, ID: action(n).ID, At: at(5), Reason: "r"}, 0))
		}
		return nil
	})
	has := func(batch uint64) (found, told []string) {
		back, r := memory.New(), &tellsOmitted{Rewind: rewind.New(k.st, rewind.Options{Batch: batch})}
		require.NoError(t, back.Import(t.Context(), r))
		view(t, back, func(tx store.ReadTx) {
			require.NoError(t, tx.Records(func(r store.Record) error {
				found = append(found, fmt.Sprintf("%d of batch %d", r.ID[0], r.Seq))
				return nil
			}))
			aside, err := tx.Quarantine(9)
			require.NoError(t, err)
			assert.Len(t, aside, 3)
		})
		for _, o := range r.told {
			told = append(told, o.Name)
		}
		return found, told
	}
	found, told := has(3)
	assert.Equal(t, []string{"1 of batch 2", "2 of batch 1"}, found)
	assert.Equal(t, []string{action(3).String()}, told)
	found, told = has(2)
	assert.Equal(t, []string{"1 of batch 2", "2 of batch 1", "3 of batch 2"}, found)
	assert.Empty(t, told)
	found, told = has(1)
	assert.Equal(t, []string{"1 of batch 1", "2 of batch 1", "3 of batch 1"}, found)
	assert.Empty(t, told)
}

// tellsOmitted notes what is omitted.
type tellsOmitted struct {
	*rewind.Rewind
	told []store.Omission
}

func (r *tellsOmitted) Export(ctx context.Context, to store.Sink) error {
	return r.Rewind.Export(ctx, omissions{to, r})
}

type omissions struct {
	store.Sink
	r *tellsOmitted
}

func (o omissions) Omitted(left store.Omission) error {
	o.r.told = append(o.r.told, left)
	return o.Sink.Omitted(left)
}

func TestWhatTheJournalDoesNotHaveIsNamed(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	k.batch(create(2))
	k.batch(create(3))
	k.update(func(tx store.Tx) error {
		epochs, err := tx.Epochs()
		require.NoError(t, err)
		_, err = tx.DropEpochs(epochs[1].Number, 100)
		return err
	})
	back, rep := k.mustTo(1)
	assert.Equal(t, "batch 1", rep.To.String())
	view(t, back, func(tx store.ReadTx) {
		seq, err := tx.Seq()
		require.NoError(t, err)
		assert.Equal(t, uint64(1), seq)
	})
	k.batch(create(4))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(4)) })
	k.batch(create(5))
	k.update(func(tx store.Tx) error {
		epochs, err := tx.Epochs()
		require.NoError(t, err)
		_, err = tx.DropEpochs(epochs[1].Number, 100)
		return err
	})
	_, _, err := k.to(rewind.Options{Batch: 2})
	require.ErrorIs(t, err, rewind.ErrUnreachable)
	require.ErrorContains(t, err, "it begins with batch 5, so batch 4 is the first one that can be had")
}

// harmed gives other changes, or none, or another digest, or other bases, than the store has.
type harmed struct {
	rewind.Source
	batch func(*store.Batch)
	base  func(store.Record) bool
}

func (h *harmed) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return h.Source.View(ctx, func(tx store.ReadTx) error { return fn(&harmedTx{tx, h}) })
}

type harmedTx struct {
	store.ReadTx
	h *harmed
}

func (t *harmedTx) Batches(from uint64, fn func(store.Batch) error) error {
	return t.ReadTx.Batches(from, func(b store.Batch) error {
		if t.h.batch != nil {
			for i := range b.Changes {
				b.Changes[i].Delta.Middle = bytes.Clone(b.Changes[i].Delta.Middle)
			}
			t.h.batch(&b)
		}
		return fn(b)
	})
}

func (t *harmedTx) Base(epoch uint64, fn func(store.Record) error) error {
	return t.ReadTx.Base(epoch, func(r store.Record) error {
		r.State = bytes.Clone(r.State)
		if t.h.base != nil && !t.h.base(r) {
			return nil
		}
		return fn(r)
	})
}

func TestWhatDoesNotFitTogetherIsRefusedWithTheBatch(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2), create(3))
	k.batch(to(1, core.ActionTrigger{}))
	k.batch(to(1, core.ActionComplete{Run: 1}, 1))
	k.batch(to(2, core.ActionCancel{Reason: "no"}))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(5)) })
	k.batch(to(1, core.ActionExpire{}), to(3, core.ActionCancel{}))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(6)) })
	k.batch(to(2, core.ActionExpire{}))
	in := func(seq uint64, do func(*store.Batch)) func(*store.Batch) {
		return func(b *store.Batch) {
			if b.Seq == seq {
				do(b)
			}
		}
	}
	for name, tc := range map[string]struct {
		h    harmed
		want string
	}{
		"the state before a change":        {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Delta.Middle[0] ^= 1 })}, "batch 2"},
		"a length":                         {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Delta.Prefix += 1000 })}, "batch 3"},
		"a digest":                         {harmed{batch: in(4, func(b *store.Batch) { b.Digest++ })}, "batch 4"},
		"the digest of what stays":         {harmed{batch: in(1, func(b *store.Batch) { b.Digest++ })}, "batch 1"},
		"a change that is not there":       {harmed{batch: in(3, func(b *store.Batch) { b.Changes = nil })}, "batch 2"},
		"another batch before":             {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Before = 1 })}, "batch 2"},
		"a batch before that is later":     {harmed{batch: in(3, func(b *store.Batch) { b.Changes[0].Before = 4 })}, "batch 3"},
		"a deletion that was none":         {harmed{batch: in(4, func(b *store.Batch) { b.Changes[0].Gone = true })}, "batch 4"},
		"a base that is not there at last": {harmed{base: func(r store.Record) bool { return r.ID != action(2).ID }}, "batch 6"},
		"a base that is another": {harmed{base: func(r store.Record) bool {
			if r.ID == action(3).ID {
				copy(r.State[bytes.Index(r.State, []byte(`"t"`)):], `"u"`)
			}
			return true
		}}, "batch 5: action/03000000-0000-0000-0000-000000000000: the state that the epoch keeps is another one"},
		"a base that is not there":    {harmed{base: func(r store.Record) bool { return r.ID != action(1).ID }}, "batch 5"},
		"a batch of an earlier build": {harmed{batch: in(3, func(b *store.Batch) { *b = store.Batch{Seq: b.Seq, Entry: b.Entry} })}, "batch 3 cannot be undone: an earlier build did not note what it changed: batch 3 is the first one"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.h.Source = k.st
			back := memory.New()
			err := back.Import(t.Context(), rewind.New(&tc.h, rewind.Options{Batch: 1}))
			require.Error(t, err)
			assert.ErrorContains(t, err, tc.want)
		})
	}
	back, rep := k.mustTo(1)
	assert.Equal(t, rewind.Report{From: rewind.Place{Batch: 6, At: at(6)}, To: rewind.Place{Batch: 1, At: at(1)}, Records: 3, Gone: 2}, rep)
	view(t, back, func(tx store.ReadTx) {
		r, err := tx.Get(core.KindAction, action(1).ID)
		require.NoError(t, err)
		assert.Equal(t, uint64(1), r.Version)
	})
}

// TestTheCopyDoesNotFollowInTheSourcesLog: what was committed there does not follow here.
func TestTheCopyDoesNotFollowInTheSourcesLog(t *testing.T) {
	path := file(t)
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	for batch, want := range map[uint64]bool{0: true, 60: false} {
		var from store.Exporter = st
		if batch != 0 {
			from = rewind.New(st, rewind.Options{Batch: batch})
		}
		sum, err := stream.Write(t.Context(), io.Discard, from, stream.Options{})
		require.NoError(t, err)
		assert.Equal(t, want, len(sum.Head.Place) > 0)
	}
	require.NoError(t, st.Close())
}

func TestLogsOfAttemptsThatHadEndedStay(t *testing.T) {
	for state, want := range map[core.OrchestratorStatus][]uint32{
		core.OrchestratorRunning: {0, 1}, core.OrchestratorRetrying: {0, 1, 2}, core.OrchestratorCompleted: {0, 1, 2}, core.OrchestratorFailed: {0, 1, 2},
	} {
		t.Run(string(state), func(t *testing.T) {
			st, run := memory.New(), uuid.UUID{1}
			put := func(seq uint64, state core.OrchestratorStatus, attempt uint32) {
				o := core.Orchestrator{RunSpec: core.RunSpec{ID: run}, State: state, RetryAttempt: attempt}
				require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
					w := store.Write{Kind: core.KindOrchestrator, ID: run, State: o.AppendJSON(nil), Prev: store.Prev{Version: seq - 1, Seq: seq - 1}}
					require.NoError(t, tx.Put(seq, []store.Write{w}))
					e := core.NewEntry(seq, at(seq), "test")
					return tx.AppendJournal(seq, e.At, e.AppendJSON(nil))
				}))
			}
			put(1, state, 2)
			put(2, core.OrchestratorCompleted, 3)
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
				require.NoError(t, tx.PutRunLog(uuid.UUID{2}, 0, []byte("of a run that is gone")))
				for attempt := range uint32(4) {
					require.NoError(t, tx.PutRunLog(run, attempt, []byte("said")))
				}
				return nil
			}))
			k := newKitOf(t, st)
			back, rep := k.mustTo(1)
			var got []uint32
			view(t, back, func(tx store.ReadTx) {
				for attempt := range uint32(4) {
					if _, err := tx.RunLog(run, attempt); err == nil {
						got = append(got, attempt)
					}
				}
			})
			assert.Equal(t, want, got)
			assert.Equal(t, uint64(5-len(want)), rep.RunLogs)
			_, rep = k.mustTo(2)
			assert.Equal(t, uint64(1), rep.RunLogs, "the run is as it was")
		})
	}
}
