package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sameReport verifies with much memory and with next to none, and gives the report, which
// must be the same. Nothing may be left in the folder.
func sameReport(t tb, st store.Store, folder string) replay.Report {
	t.Helper()
	want, err := replay.Verify(context.Background(), st, replay.Options{Spill: filepath.Join(folder, "is not there")})
	require.NoError(t, err)
	for _, memory := range []int64{1, 20_000} {
		got, err := replay.Verify(context.Background(), st, replay.Options{Memory: memory, Spill: folder})
		require.NoError(t, err)
		require.Equal(t, want, got, "with %d bytes", memory)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
	return want
}

func TestWhatDoesNotFitIntoMemoryChangesNothing(t *testing.T) {
	for name, keep := range map[string]time.Duration{"whole": 0, "cut": 7 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rep := sameReport(t, lived(t, keep), t.TempDir())
				assert.Empty(t, rep.Divergences)
				assert.NotZero(t, rep.Entities)
			})
		})
	}
}

func TestDatabasesOfEarlierCommitsReplayAlsoWithoutMemory(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "written-by-*", "*.db.gz"))
	require.NoError(t, err)
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			assert.Empty(t, sameReport(t, unpacked(t, path), t.TempDir()).Divergences)
		})
	}
}

func TestAFolderThatIsNotThereIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "missing")
		_, err := replay.Verify(t.Context(), lived(t, 0), replay.Options{Memory: 1, Spill: folder})
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "put states aside")
		require.ErrorContains(t, err, folder)
	})
}

// A replay that is given up leaves neither a file nor a goroutine, wherever it was.
func TestAReplayThatIsGivenUpLeavesNothing(t *testing.T) {
	m := newMaker(t, memory.New())
	for range 300 {
		create, _ := m.create(true)
		m.batch([]core.Input{create})
	}
	folder := t.TempDir()
	for after := range 25 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := replay.Verify(ctx, &fails{Store: m.st, after: 1 + after*20, do: cancel}, replay.Options{Memory: 1, Spill: folder})
		require.ErrorIs(t, err, context.Canceled)
		_, err = replay.Verify(t.Context(), &fails{Store: m.st, after: 1 + after*20, err: errStop}, replay.Options{Memory: 1, Spill: folder})
		require.ErrorIs(t, err, errStop)
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
		cancel()
	}
}

// fails is a store that does something at one of the entries of the journal, and at one of
// the records if there are fewer entries.
type fails struct {
	store.Store
	after int
	do    func()
	err   error
}

func (f *fails) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return f.Store.View(ctx, func(tx store.ReadTx) error { return fn(&failsTx{tx, f}) })
}

type failsTx struct {
	store.ReadTx
	f *fails
}

func (t *failsTx) passed() error {
	if t.f.after--; t.f.after != 0 {
		return nil
	}
	if t.f.do != nil {
		t.f.do()
	}
	return t.f.err
}

func (t *failsTx) Batches(from uint64, fn func(store.Batch) error) error {
	return t.ReadTx.Batches(from, func(b store.Batch) error { return errors.Join(t.passed(), fn(b)) })
}

func (t *failsTx) Records(fn func(store.Record) error) error {
	return t.ReadTx.Records(func(r store.Record) error { return errors.Join(t.passed(), fn(r)) })
}

// Whatever has happened, and whatever was changed behind the journal's back: the report does
// not depend on what was put aside.
func TestAnyJournalGivesTheSameReportWithAndWithoutMemory(t *testing.T) {
	folder, harmed := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		m := newMaker(t, memory.New())
		m.keep = true
		var known []effects.Ref
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			if rapid.IntRange(0, 7).Draw(t, "new epoch") == 0 {
				m.epoch(rapid.Bool().Draw(t, "drop"))
			}
			known = drawBatch(t, m, known)
		}
		if rep := sameReport(t, m.st, folder); len(rep.Divergences) > 0 {
			t.Fatalf("%v", rep.Divergences)
		}
		for last := m.seq; m.seq-last < rapid.Uint64Range(1, 3).Draw(t, "harms"); {
			drawHarm(t, m, last)
		}
		harmed += len(sameReport(t, m.st, folder).Divergences)
	})
	assert.NotZero(t, harmed)
}

// epoch begins one, and may forget those before it.
func (m *maker) epoch(drop bool) {
	require.NoError(m.tb, m.st.Update(context.Background(), func(tx store.Tx) error {
		if err := tx.BeginEpoch(m.now); err != nil || !drop {
			return err
		}
		epochs, err := tx.Epochs()
		if err != nil {
			return err
		}
		_, err = tx.DropEpochs(epochs[len(epochs)-1].Number, 1<<20)
		return err
	}))
}

// drawBatch commits one, and gives the machines that something came to so far.
func drawBatch(t *rapid.T, m *maker, known []effects.Ref) []effects.Ref {
	var inputs []core.Input
	for range rapid.IntRange(1, 8).Draw(t, "inputs") {
		in := drawInput(t, m, known)
		if !slices.Contains(known, in.To) {
			known = append(known, in.To)
		}
		inputs = append(inputs, in)
	}
	m.batch(inputs)
	return known
}

func drawInput(t *rapid.T, m *maker, known []effects.Ref) core.Input {
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue")
	queue := core.QueueRef("", "", name)
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		id[0] = 1
		spec := core.ActionSpec{ID: id, ToolName: "t", Label: rapid.SampledFrom([]string{"", "é\"\n"}).Draw(t, "label"), DedupKey: rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key")}
		spec.Trigger = core.Scheduled(m.now.Add(time.Duration(rapid.IntRange(-1, 5).Draw(t, "later")) * time.Second))
		if rapid.IntRange(0, 3).Draw(t, "recurs") == 0 {
			spec.Recurrence = core.Every(time.Minute)
		}
		return core.Input{To: effects.Ref{Kind: core.KindAction, ID: id}, Actor: "a", Event: core.ActionCreate{Spec: spec}}
	case 1:
		return core.Input{To: queue, Actor: "a", Event: core.QueuePush{
			Name: name, Data: json.RawMessage(`[1]`), Key: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "key"), DelayMS: rapid.Int64Range(0, 1).Draw(t, "delay"),
		}}
	case 2:
		return core.Input{To: queue, Actor: "a", Event: rapid.SampledFrom([]core.Event{core.QueueTake{Holder: "h", Max: 2, VisibilityMS: 1000}, core.QueueDue{}, core.QueueRedrive{}}).Draw(t, "event")}
	}
	if len(known) == 0 {
		return core.Input{To: queue, Actor: "a", Event: core.QueueTake{Holder: "h"}}
	}
	return drawAnswer(t, m, rapid.SampledFrom(known).Draw(t, "known"))
}

// drawAnswer draws what may come to a machine in its state.
func drawAnswer(t *rapid.T, m *maker, to effects.Ref) core.Input {
	a, ok := m.live[to].state.(core.Action)
	if !ok {
		return core.Input{To: to, Actor: "a", Event: core.QueueDue{}}
	}
	in := core.Input{To: to, Actor: "a", Event: core.ActionCancel{Reason: "r"}}
	switch {
	case a.Status.Type == core.StatusRunning && rapid.IntRange(0, 3).Draw(t, "end") > 0:
		in.Ack = a.Run
		in.Event = rapid.SampledFrom([]core.Event{core.ActionComplete{Run: a.Run, Result: json.RawMessage(`{"a":1}`)}, core.ActionFail{Run: a.Run, Reason: "r"}, core.ActionHandBack{Run: a.Run}}).Draw(t, "answer")
	case a.Status.Type == core.StatusPending:
		in.Event = rapid.SampledFrom([]core.Event{core.ActionTrigger{}, core.ActionDue{}}).Draw(t, "start")
	case a.Status.Type.Terminal():
		in.Event = core.ActionExpire{}
	}
	return in
}

// drawHarm changes something behind the journal's back, which ends with the batch last.
func drawHarm(t *rapid.T, m *maker, last uint64) {
	m.seq++
	require.NoError(t, m.st.Update(context.Background(), func(tx store.Tx) error {
		entry := core.NewEntry(m.seq, m.now, "test")
		var records []store.Record
		if err := tx.Records(func(r store.Record) error {
			if r.State = bytes.Clone(r.State); r.Seq <= last { // not harmed yet
				records = append(records, r)
			}
			return nil
		}); err != nil {
			return err
		}
		if len(records) > 0 {
			if err := harmRecord(t, tx, m.seq, records[rapid.IntRange(0, len(records)-1).Draw(t, "record")]); err != nil {
				return err
			}
		}
		raw := entry.AppendJSON(nil)
		if rapid.IntRange(0, 3).Draw(t, "garbage") == 0 {
			raw = []byte(`{"seq"`)
		}
		return tx.AppendJournal(m.seq, m.now, raw)
	}))
}

func harmRecord(t *rapid.T, tx store.Tx, seq uint64, r store.Record) error {
	s, err := core.DecodeState(r.Kind, r.State)
	require.NoError(t, err)
	w := store.Write{Kind: r.Kind, ID: r.ID, State: r.State, Due: s.Deadline(), Terms: s.Terms(), Prev: store.Prev{Version: r.Version, Seq: r.Seq, Due: s.Deadline(), Terms: s.Terms()}}
	switch rapid.IntRange(0, 5).Draw(t, "harm") {
	case 0:
		w.State = bytes.Replace(w.State, []byte(`:1,`), []byte(`:2,`), 1)
	case 1:
		w.State, w.Due, w.Terms = nil, 0, nil
	case 2:
		w.Due = w.Due.Add(time.Second)
	case 3:
		w.Due = 0
	case 4:
		w.State = []byte("{}")
	case 5:
		return harmOutbox(t, tx, seq)
	}
	return tx.Put(seq, []store.Write{w})
}

func harmOutbox(t *rapid.T, tx store.Tx, seq uint64) error {
	extra := store.OutboxEntry{Key: store.EffectKey{ID: uuid.UUID{1, 2}, N: 1}, Seq: seq, Kind: core.KindAction, Lane: "t", Effect: []byte(`{"type":"run_tool","run":1,"tool":"t"}`)}
	var first *store.OutboxEntry
	if err := tx.Outbox(func(e store.OutboxEntry) error {
		first = &e
		first.Effect = bytes.Clone(e.Effect)
		return errStop
	}); err != nil && !errors.Is(err, errStop) {
		return err
	}
	switch rapid.IntRange(0, 3).Draw(t, "outbox") {
	case 0:
		return tx.PutOutbox(extra)
	case 1:
		if first != nil {
			return tx.DeleteOutbox(first.Key)
		}
	case 2:
		if first != nil {
			first.Lane = "other"
			return tx.PutOutbox(*first)
		}
	case 3:
		if first != nil {
			first.Effect = extra.Effect
			return tx.PutOutbox(*first)
		}
	}
	return nil
}

var errStop = errors.New("stop")
