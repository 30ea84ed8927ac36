package storetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// model is a store told in the simplest way: plain maps, and every question
// answered by looking at everything.
type model struct {
	records map[effects.Ref]modelRecord
	seq     uint64
	journal map[uint64]string
	changes map[uint64][]modelChange
	epochs  []store.Epoch
	base    map[uint64]map[effects.Ref]store.Record
	outbox  map[store.EffectKey]store.OutboxEntry
	claims  map[string]store.Claim
	meta    map[string]string
	logs    map[store.EffectKey]string // of a run's attempt
}

// modelChange is what a batch did to a record: the states before and after it, nil: none.
type modelChange struct {
	ref           effects.Ref
	before        uint64 // the batch of the state before
	found, became []byte
	based         bool // the epoch's base has what was found
}

type modelRecord struct {
	store.Record
	due   effects.Time
	share uint32
	terms []store.Term
}

func newModel() *model {
	return &model{
		records: map[effects.Ref]modelRecord{}, journal: map[uint64]string{}, epochs: []store.Epoch{{Number: 1, First: 1}},
		changes: map[uint64][]modelChange{},
		base:    map[uint64]map[effects.Ref]store.Record{}, outbox: map[store.EffectKey]store.OutboxEntry{},
		claims: map[string]store.Claim{}, meta: map[string]string{}, logs: map[store.EffectKey]string{},
	}
}

// clone lets a transaction be taken back.
func (m *model) clone() *model {
	c := *m
	c.records, c.journal, c.epochs = maps.Clone(m.records), maps.Clone(m.journal), slices.Clone(m.epochs)
	c.outbox, c.claims, c.meta, c.logs = maps.Clone(m.outbox), maps.Clone(m.claims), maps.Clone(m.meta), maps.Clone(m.logs)
	c.changes = maps.Clone(m.changes)
	c.base = map[uint64]map[effects.Ref]store.Record{}
	for n, records := range m.base {
		c.base[n] = maps.Clone(records)
	}
	return &c
}

func (m *model) put(w store.Write) {
	ref := effects.Ref{Kind: w.Kind, ID: w.ID}
	epoch := m.epochs[len(m.epochs)-1]
	if old, ok := m.records[ref]; ok && old.Seq < epoch.First {
		if m.base[epoch.Number] == nil {
			m.base[epoch.Number] = map[effects.Ref]store.Record{}
		}
		m.base[epoch.Number][ref] = old.Record
	}
	share := w.Share
	if old, ok := m.records[ref]; ok && old.due == w.Due {
		share = old.share
	}
	if old, ok := m.records[ref]; ok || w.State != nil {
		change := modelChange{ref: ref, before: old.Seq, found: old.State, became: w.State, based: ok && old.Seq < epoch.First}
		m.changes[m.seq+1] = append(slices.Clone(m.changes[m.seq+1]), change)
	}
	delete(m.records, ref)
	if w.State != nil {
		r := store.Record{Kind: w.Kind, ID: w.ID, Version: w.Prev.Version + 1, Seq: m.seq + 1, State: w.State}
		m.records[ref] = modelRecord{r, w.Due, share, w.Terms}
	}
}

// modelTerms are the terms that are drawn; the last two are counted as one.
var modelTerms = [...]string{"al", "all\x00", "all", "status:pending", "status:pending\x1fns"}

var (
	kindGen = rapid.SampledFrom([]effects.Kind{"action", "recurring"})
	nameGen = rapid.SampledFrom(modelTerms[:])
	timeGen = rapid.Custom(func(t *rapid.T) effects.Time { return effects.Time(rapid.IntRange(-1, 6).Draw(t, "time")) })
	laneGen = rapid.SampledFrom([]string{"a", "b", "ab"})
	termGen = rapid.Custom(func(t *rapid.T) store.Term {
		name := nameGen.Draw(t, "name")
		return store.Term{Name: name, At: timeGen.Draw(t, "at"), Counted: name != "al" && name != "all\x00"}
	})
	termsGen = rapid.SliceOfNDistinct(termGen, 0, 4, func(t store.Term) string { return t.Name })
)

// ref draws a record's name. Ids are few, so that both kinds have some of them.
func ref(t *rapid.T) effects.Ref {
	return effects.Ref{Kind: kindGen.Draw(t, "kind"), ID: id(rapid.IntRange(0, 5).Draw(t, "id"))}
}

// runModel draws transactions, runs them on a store and on the model, rolls
// some back, and compares all that can be read.
func runModel(t *testing.T, open func(t *testing.T) store.Store) {
	ctx := context.Background()
	s := &suite{T: t, store: open(t)}
	defer func() { require.NoError(t, s.store.Close()) }()
	rapid.Check(t, func(rt *rapid.T) {
		m := emptied(t, s.store)
		for range rapid.IntRange(1, 8).Draw(rt, "transactions") {
			next := m.clone()
			commit := rapid.IntRange(0, 4).Draw(rt, "commit") > 0
			err := s.store.Update(ctx, func(tx store.Tx) error {
				for range rapid.IntRange(0, 5).Draw(rt, "steps") {
					step(rt, next, tx)
				}
				compare(rt, next, tx) // it reads its own writes
				if !commit {
					return errAbort
				}
				return nil
			})
			if commit {
				require.NoError(rt, err)
				m = next
			} else {
				require.ErrorIs(rt, err, errAbort)
			}
			require.NoError(rt, s.store.View(ctx, func(tx store.ReadTx) error {
				compare(rt, m, tx)
				return nil
			}))
		}
		compareCopy(t, rt, m, s.store, open)
	})
}

// emptied deletes what the last run left, so that thousands of runs need one
// store, and gives a model of what cannot be deleted.
func emptied(t *testing.T, st store.Store) *model {
	m := newModel()
	require.NoError(t, st.Update(context.Background(), func(tx store.Tx) error {
		seq := must(tx.Seq())(t)
		var gone []store.Write
		require.NoError(t, tx.Records(func(r store.Record) error {
			gone = append(gone, erasing(t, tx, r))
			return nil
		}))
		require.NoError(t, tx.Put(seq+1, gone))
		require.NoError(t, tx.AppendJournal(seq+1, 1, nil))
		var keys []store.EffectKey
		require.NoError(t, tx.Outbox(func(e store.OutboxEntry) error { keys = append(keys, e.Key); return nil }))
		for _, k := range keys {
			require.NoError(t, tx.DeleteOutbox(k))
		}
		for _, c := range must(tx.Claims(""))(t) {
			require.NoError(t, tx.Fence(c.Name))
		}
		for _, name := range []string{"a", "b"} {
			require.NoError(t, tx.SetMeta(name, nil))
		}
		for n := range modelRuns {
			require.NoError(t, tx.DeleteRunLogs(id(n)))
		}
		require.NoError(t, tx.BeginEpoch(1))
		epochs := must(tx.Epochs())(t)
		last := epochs[len(epochs)-1]
		require.False(t, must(tx.DropEpochs(last.Number, 1<<30))(t))
		m.seq, m.epochs = seq+1, []store.Epoch{last}
		return nil
	}))
	return m
}

// erasing finds where a record stands by looking at all indexes.
func erasing(t *testing.T, tx store.Tx, r store.Record) store.Write {
	w := store.Write{Kind: r.Kind, ID: r.ID, Prev: store.Prev{Version: r.Version, Seq: r.Seq}}
	for _, e := range must(tx.Due(nil, nil, effects.MaxTime, 1<<20))(t) {
		if e.Key.ID() == r.ID && e.Kind == r.Kind {
			w.Prev.Due = cmp.Or(e.Key.At(), -1) // a negative time stands there as 0
		}
	}
	w.Prev.Terms = must(tx.TermsOf(r.Kind, r.ID))(t)
	return w
}

// step does one thing to both.
func step(t *rapid.T, m *model, tx store.Tx) {
	switch rapid.SampledFrom([]string{"write", "write", "write", "reindex", "conflict", "outbox", "outbox", "ack", "claim", "release", "epoch", "drop", "meta", "log", "logs gone"}).Draw(t, "do") {
	case "write":
		stepWrite(t, m, tx)
	case "reindex":
		stepReindex(t, m, tx)
	case "conflict":
		r := ref(t)
		w := store.Write{Kind: r.Kind, ID: r.ID, State: []byte(`{}`), Prev: store.Prev{Version: m.records[r].Version + 1}}
		require.ErrorIs(t, tx.Put(m.seq+1, []store.Write{w}), store.ErrConflict)
	case "outbox":
		n := rapid.IntRange(0, 5).Draw(t, "n")
		e := store.OutboxEntry{
			Key: store.EffectKey{ID: id(n % 3), N: uint32(n)}, Seq: rapid.Uint64Range(1, 3).Draw(t, "seq"), Kind: kindGen.Draw(t, "kind"),
			Lane: laneGen.Draw(t, "lane"), Effect: rapid.SampledFrom([][]byte{nil, []byte(`{"x":1}`)}).Draw(t, "effect"), Holder: rapid.SampledFrom([]string{"", "h"}).Draw(t, "holder"),
		}
		require.NoError(t, tx.PutOutbox(e))
		m.outbox[e.Key] = e
	case "ack":
		n := rapid.IntRange(0, 5).Draw(t, "n")
		key := store.EffectKey{ID: id(n % 3), N: uint32(n)}
		if _, ok := m.outbox[key]; ok {
			require.NoError(t, tx.DeleteOutbox(key))
		} else {
			require.ErrorIs(t, tx.DeleteOutbox(key), store.ErrNotFound)
		}
		delete(m.outbox, key)
	case "claim":
		stepClaim(t, m, tx)
	case "release":
		name := laneGen.Draw(t, "claim")
		c, ok := m.claims[name]
		if err := tx.Release(name, c.Token); ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, store.ErrFenced)
		}
		delete(m.claims, name)
	case "epoch":
		require.NoError(t, tx.BeginEpoch(5))
		m.epochs = append(m.epochs, store.Epoch{Number: m.epochs[len(m.epochs)-1].Number + 1, First: m.seq + 1, Started: 5})
	case "drop":
		stepDrop(t, m, tx)
	case "meta":
		name, v := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "meta"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "value")
		require.NoError(t, tx.SetMeta(name, []byte(v)))
		m.meta[name] = v
	case "log":
		key := store.EffectKey{ID: id(rapid.IntRange(0, modelRuns-1).Draw(t, "run")), N: rapid.Uint32Range(0, 2).Draw(t, "attempt")}
		m.logs[key] = rapid.SampledFrom([]string{"", "x", "\x00y\n"}).Draw(t, "text")
		require.NoError(t, tx.PutRunLog(key.ID, key.N, []byte(m.logs[key])))
	case "logs gone":
		run := id(rapid.IntRange(0, modelRuns-1).Draw(t, "run"))
		require.NoError(t, tx.DeleteRunLogs(run))
		maps.DeleteFunc(m.logs, func(k store.EffectKey, _ string) bool { return k.ID == run })
	}
}

// modelRuns is how many runs have logs.
const modelRuns = 3

func compareLogs(t *rapid.T, m *model, tx store.ReadTx) {
	for n := range modelRuns {
		for attempt := range uint32(3) {
			text, err := tx.RunLog(id(n), attempt)
			want, ok := m.logs[store.EffectKey{ID: id(n), N: attempt}]
			if !ok {
				require.ErrorIs(t, err, store.ErrNotFound)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, string(text))
		}
	}
}

func stepWrite(t *rapid.T, m *model, tx store.Tx) {
	var writes []store.Write
	seen := map[effects.Ref]bool{}
	for range rapid.IntRange(1, 6).Draw(t, "writes") {
		r := ref(t)
		if seen[r] {
			continue
		}
		seen[r] = true
		old := m.records[r]
		w := store.Write{Kind: r.Kind, ID: r.ID, Prev: store.Prev{Version: old.Version, Seq: old.Seq, Due: old.due, Terms: old.terms}}
		if rapid.IntRange(0, 3).Draw(t, "keep") > 0 {
			w.State = fmt.Appendf(nil, `{"v":%d}`, rapid.IntRange(0, 99).Draw(t, "v"))
			w.Due, w.Terms = timeGen.Draw(t, "due"), termsGen.Draw(t, "terms")
			w.Share = rapid.SampledFrom([]uint32{0, 1, 63, 64, 1 << 30, math.MaxUint32}).Draw(t, "share")
		}
		writes = append(writes, w)
	}
	require.NoError(t, tx.Put(m.seq+1, writes))
	for _, w := range writes {
		m.put(w)
	}
	batch := fmt.Sprintf(`{"batch":%d}`, len(writes))
	require.NoError(t, tx.AppendJournal(m.seq+1, timeGen.Draw(t, "at"), []byte(batch)))
	m.seq++
	m.journal[m.seq] = batch
}

func stepClaim(t *rapid.T, m *model, tx store.Tx) {
	name, holder := laneGen.Draw(t, "claim"), rapid.SampledFrom([]string{"h1", "h2"}).Draw(t, "holder")
	now := effects.Time(rapid.IntRange(1, 30).Draw(t, "now"))
	old, held := m.claims[name]
	c, err := tx.Acquire(name, holder, 10*time.Millisecond, now)
	switch {
	case held && old.Holder != holder && now < old.Until:
		require.ErrorIs(t, err, store.ErrClaimed)
		return
	case held && old.Holder == holder:
		require.Equal(t, old.Token, c.Token)
	default:
		for _, other := range m.claims {
			require.Greater(t, c.Token, other.Token)
		}
	}
	require.NoError(t, err)
	require.Equal(t, now+10, c.Until)
	require.ErrorIs(t, tx.CheckClaim(name, c.Token+1), store.ErrFenced)
	m.claims[name] = c
}

func stepDrop(t *rapid.T, m *model, tx store.Tx) {
	before := m.epochs[rapid.IntRange(0, len(m.epochs)-1).Draw(t, "epoch")]
	limit := rapid.IntRange(1, 4).Draw(t, "limit")
	for rounds := 0; must(tx.DropEpochs(before.Number, limit))(t); rounds++ {
		require.Less(t, rounds, 1000)
	}
	m.epochs = slices.DeleteFunc(m.epochs, func(e store.Epoch) bool { return e.Number < before.Number })
	maps.DeleteFunc(m.journal, func(seq uint64, _ string) bool { return seq < before.First })
	maps.DeleteFunc(m.changes, func(seq uint64, _ []modelChange) bool { return seq < before.First })
	maps.DeleteFunc(m.base, func(n uint64, _ map[effects.Ref]store.Record) bool { return n < before.Number })
}

// compareBatches holds what each batch has changed against the model, read one after the
// other and one alone.
func compareBatches(t *rapid.T, m *model, tx store.ReadTx) {
	var all []uint64
	require.NoError(t, tx.Batches(0, func(b store.Batch) error {
		all = append(all, b.Seq)
		compareBatch(t, m, b)
		alone, err := tx.Batch(b.Seq)
		require.NoError(t, err)
		require.Equal(t, b, alone)
		return nil
	}))
	require.Equal(t, slices.Sorted(maps.Keys(m.journal)), slices.Sorted(slices.Values(all)))
	_, err := tx.Batch(m.seq + 1)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = tx.Batch(m.epochs[0].First - 1)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func compareBatch(t *rapid.T, m *model, b store.Batch) {
	require.Equal(t, m.journal[b.Seq], string(b.Entry))
	require.True(t, b.Known)
	require.Len(t, b.Changes, len(m.changes[b.Seq]))
	var digest uint64
	for _, want := range m.changes[b.Seq] {
		digest += store.Digest(want.ref.Kind, want.ref.ID, want.became)
		i := slices.IndexFunc(b.Changes, func(c store.Changed) bool { return c.Kind == want.ref.Kind && c.ID == want.ref.ID })
		require.GreaterOrEqual(t, i, 0, want.ref)
		got := b.Changes[i]
		require.Equal(t, want.before, got.Before)
		require.Equal(t, want.became == nil, got.Gone)
		if want.found != nil && (want.became != nil || !want.based) {
			found, ok := got.Delta.Before(nil, want.became)
			require.True(t, ok)
			require.Equal(t, string(want.found), string(found))
		}
	}
	require.Equal(t, digest, b.Digest)
}

// compare reads everything from both.
func compare(t *rapid.T, m *model, tx store.ReadTx) {
	compareRecords(t, m, tx)
	compareDue(t, m, tx)
	compareLists(t, m, tx)
	require.Equal(t, m.seq, must(tx.Seq())(t))
	require.Equal(t, m.epochs, must(tx.Epochs())(t))
	journal := map[uint64]string{}
	require.NoError(t, tx.Journal(0, func(seq uint64, b []byte) error { journal[seq] = string(b); return nil }))
	require.Equal(t, m.journal, journal)
	compareBatches(t, m, tx)
	for _, e := range m.epochs {
		got := map[effects.Ref]store.Record{}
		require.NoError(t, tx.Base(e.Number, func(r store.Record) error {
			r.State = bytes.Clone(r.State)
			got[effects.Ref{Kind: r.Kind, ID: r.ID}] = r
			return nil
		}))
		require.Equal(t, maps.Collect(maps.All(m.base[e.Number])), got)
	}
	compareOutbox(t, m, tx)
	compareLogs(t, m, tx)
	byName := func(a, b store.Claim) int { return cmp.Compare(a.Name, b.Name) }
	require.Equal(t, slices.SortedFunc(maps.Values(m.claims), byName), must(tx.Claims(""))(t))
	for _, name := range []string{"a", "b"} {
		require.Equal(t, m.meta[name], string(must(tx.Meta(name))(t)))
	}
}

func compareRecords(t *rapid.T, m *model, tx store.ReadTx) {
	var visited []effects.Ref
	require.NoError(t, tx.Records(func(r store.Record) error {
		k := effects.Ref{Kind: r.Kind, ID: r.ID}
		require.Equal(t, m.records[k].Record, r)
		visited = append(visited, k)
		return nil
	}))
	require.Len(t, visited, len(m.records))
	require.True(t, slices.IsSortedFunc(visited, func(a, b effects.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.ID[:], b.ID[:]))
	}))
	for n := range 12 {
		k := effects.Ref{Kind: []effects.Kind{"action", "recurring"}[n%2], ID: id(n / 2)}
		r, err := tx.Get(k.Kind, k.ID)
		if want, ok := m.records[k]; ok {
			require.NoError(t, err)
			require.Equal(t, want.Record, r)
		} else {
			require.ErrorIs(t, err, store.ErrNotFound)
		}
	}
}

func compareDue(t *rapid.T, m *model, tx store.ReadTx) {
	var all []store.DueEntry
	for _, r := range m.records {
		if r.due != 0 {
			all = append(all, store.DueEntry{Key: store.NewDueKey(r.due, r.ID), Kind: r.Kind, Share: r.share})
		}
	}
	slices.SortFunc(all, func(a, b store.DueEntry) int {
		return cmp.Or(bytes.Compare(a.Key[:], b.Key[:]), cmp.Compare(a.Kind, b.Kind))
	})
	for now := effects.Time(-1); now < 8; now++ {
		bound := store.DueUpperBound(now)
		var want []store.DueEntry
		var next *effects.Time
		for _, e := range all {
			if bytes.Compare(e.Key[:], bound[:]) <= 0 {
				want = append(want, e)
			}
			if at := e.Key.At(); at > now && next == nil {
				next = &at
			}
		}
		var got []store.DueEntry
		var after *store.DueKey
		for { // in pages of 2, or of 3 where the last key has two kinds
			page := must(tx.Due(nil, after, now, 2))(t)
			require.LessOrEqual(t, len(page), 3)
			got = append(got, page...)
			if len(page) < 2 {
				break
			}
			after = &page[len(page)-1].Key
		}
		require.Equal(t, want, got, "due at %d", now)
		at, ok, err := tx.NextDue(now)
		require.NoError(t, err)
		require.Equal(t, next != nil, ok)
		if next != nil {
			require.Equal(t, *next, at)
		}
	}
}

func compareOutbox(t *rapid.T, m *model, tx store.ReadTx) {
	got := map[store.EffectKey]store.OutboxEntry{}
	require.NoError(t, tx.Outbox(func(e store.OutboxEntry) error {
		e.Effect = bytes.Clone(e.Effect)
		got[e.Key] = e
		return nil
	}))
	require.Equal(t, m.outbox, got)
	lanes := map[string]bool{}
	for _, lane := range []string{"a", "b", "ab"} {
		var want []store.EffectKey
		for _, e := range m.outbox {
			if e.Waiting() && e.Lane == lane {
				want = append(want, e.Key)
				lanes[lane] = true
			}
		}
		slices.SortFunc(want, func(a, b store.EffectKey) int {
			return cmp.Or(cmp.Compare(m.outbox[a].Seq, m.outbox[b].Seq), bytes.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.N, b.N))
		})
		var keys []store.EffectKey
		for _, e := range must(tx.Waiting(lane, 99))(t) {
			keys = append(keys, e.Key)
		}
		require.Equal(t, want, keys)
	}
	assert.Equal(t, slices.Sorted(maps.Keys(lanes)), must(tx.WaitingLanes())(t))
}
