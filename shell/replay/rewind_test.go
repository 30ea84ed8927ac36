package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// held is what a store holds, as texts, by what they are of.
type heldIn struct {
	seq     uint64
	journal map[uint64]string
	parts   map[string][]string
}

func holds(t tb, from store.Exporter) *heldIn {
	t.Helper()
	h := &heldIn{parts: map[string][]string{}}
	require.NoError(t, from.Export(context.Background(), h))
	for _, part := range []string{"terms", "bases"} { // in no order that counts
		slices.Sort(h.parts[part])
	}
	return h
}

func (h *heldIn) add(part, format string, args ...any) error {
	h.parts[part] = append(h.parts[part], fmt.Sprintf(format, args...))
	return nil
}

func withoutShares(due []string) (out []string) {
	for _, d := range due {
		entry, _, _ := strings.Cut(d, " of ")
		out = append(out, entry)
	}
	return out
}

func (h *heldIn) Begin(head store.Head) error {
	h.seq = head.Seq
	return nil
}

func (h *heldIn) Record(r store.Record) error {
	return h.add("records", "%s/%s version %d of batch %d: %s", r.Kind, r.ID, r.Version, r.Seq, r.State)
}
func (h *heldIn) Due(d store.DueEntry) error {
	return h.add("due", "%x %s of %x", d.Key, d.Kind, d.Share)
}
func (h *heldIn) Term(kind effects.Kind, id uuid.UUID, term store.Term) error {
	return h.add("terms", "%s/%s %+v", kind, id, term)
}

func (h *heldIn) Outbox(e store.OutboxEntry) error {
	lane, _ := store.SplitLane(e.Lane)
	if !e.Waiting() {
		_ = h.add("begun", "%s", e.Key)
	}
	_ = h.add("lanes", "%s in %q: %s", e.Key, e.Lane, e.Effect)
	return h.add("outbox", "%s %s in %s", e.Kind, e.Key, lane)
}
func (h *heldIn) Webhook(w store.Webhook) error { return h.add("webhooks", "%s", w.ID) }
func (h *heldIn) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	return h.add("logs", "%s %d: %s", run, attempt, text)
}
func (h *heldIn) Claim(c store.Claim) error             { return h.add("claims", "%+v", c) }
func (h *heldIn) Quarantined(q store.Quarantined) error { return h.add("aside", "%+v", q) }
func (h *heldIn) Meta(name string, value []byte) error {
	return h.add("meta", "%s: %s", name, value)
}

func (h *heldIn) Base(epoch, seq uint64, r store.Record) error {
	return h.add("bases", "%d %d %s/%s version %d of batch %d: %s", epoch, seq, r.Kind, r.ID, r.Version, r.Seq, r.State)
}

func (h *heldIn) Batch(_ effects.Time, b store.Batch) error {
	slices.SortFunc(b.Changes, func(a, b store.Changed) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	if h.journal == nil {
		h.journal = map[uint64]string{}
	}
	text := fmt.Appendf(nil, "%s %v %d", b.Entry, b.Known, b.Digest)
	for _, c := range b.Changes {
		text = fmt.Appendf(text, "\n%s/%s %d %v %d %d %s", c.Kind, c.ID, c.Before, c.Gone, c.Delta.Prefix, c.Delta.Suffix, c.Delta.Middle)
	}
	h.journal[b.Seq] = string(text)
	return nil
}
func (h *heldIn) Epoch(e store.Epoch) error      { return h.add("epochs", "%+v", e) }
func (h *heldIn) Omitted(o store.Omission) error { return h.add("omitted", "%s", o) }

// copied gives a store with what another one holds.
func copied(t tb, from store.Exporter) *memory.Store {
	t.Helper()
	st := memory.New()
	require.NoError(t, st.Import(context.Background(), from))
	return st
}

// requireRewound holds what a store had after a batch against a copy that was made then.
func requireRewound(t tb, st rewind.Source, then store.Exporter, o rewind.Options) (got, want *heldIn) {
	t.Helper()
	want = holds(t, then)
	o.Batch = want.seq
	r := rewind.New(st, o)
	got = holds(t, r)
	require.Equal(t, want.seq, got.seq)
	for _, part := range []string{"records", "due", "terms", "outbox", "omitted"} {
		require.Equal(t, want.parts[part], got.parts[part], "%s after batch %d of %d", part, want.seq, r.Report().From.Batch)
	}
	require.Empty(t, got.parts["claims"])
	for seq := reachable(t, st) + 1; seq <= want.seq; seq++ {
		require.Equal(t, want.journal[seq], got.journal[seq])
	}
	require.NotContains(t, got.journal, want.seq+1)
	require.NotEmpty(t, got.parts["epochs"])
	for _, epoch := range got.parts["epochs"] { // the source may have dropped some since
		if want.seq > reachable(t, st) {
			require.Contains(t, want.parts["epochs"], epoch)
		}
	}
	requireClean(t, copied(t, r))
	require.Subset(t, got.parts["begun"], want.parts["begun"], "what may have begun")
	return got, want
}

// requireClean verifies a store.
func requireClean(t tb, st store.Store) {
	t.Helper()
	rep, err := replay.Verify(context.Background(), st, replay.Options{})
	require.NoError(t, err)
	require.Empty(t, rep.Divergences)
}

// reachable gives the first batch that can be had of a store.
func reachable(t tb, st store.Store) (first uint64) {
	t.Helper()
	require.NoError(t, st.View(context.Background(), func(tx store.ReadTx) error {
		epochs, err := tx.Epochs()
		first = epochs[0].First - 1
		return err
	}))
	return first
}

func TestDatabasesOfAnEarlierCommitAreNotRewoundWhereTheirJournalsNoteNoChanges(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "written-by-*", "*.db.gz"))
	require.NoError(t, err)
	for _, path := range paths {
		t.Run(strings.TrimPrefix(path, "testdata"), func(t *testing.T) {
			st := unpacked(t, path)
			var last uint64
			require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) (err error) {
				last, err = tx.Seq()
				return err
			}))
			r := rewind.New(st, rewind.Options{Batch: last - 1})
			err := r.Export(t.Context(), &heldIn{parts: map[string][]string{}})
			require.ErrorIs(t, err, rewind.ErrUnreachable)
			require.ErrorContains(t, err, fmt.Sprintf("batch %d is the first one that can be had", last))
			assert.Equal(t, holds(t, st).parts["records"], holds(t, rewind.New(st, rewind.Options{Batch: last})).parts["records"])
		})
	}
}

// snapshots are copies of a store that were made on its way.
type snapshots struct {
	st   rewind.Source
	made []*memory.Store
}

func (s *snapshots) take(t tb) { s.made = append(s.made, copied(t, s.st)) }

func (s *snapshots) requireAll(t tb) {
	t.Helper()
	first := reachable(t, s.st)
	checked := 0
	for i, then := range s.made {
		seq := holds(t, then).seq
		if seq < first {
			continue
		}
		checked++
		requireRewound(t, s.st, then, rewind.Options{Memory: int64(i%2) * 1000})
	}
	require.Positive(t, checked)
}

func TestWhatIsDrawnIsRewoundByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMaker(t, memory.New())
		m.keep = true
		s := snapshots{st: m.st.(rewind.Source)}
		var known []effects.Ref
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			if rapid.IntRange(0, 7).Draw(t, "new epoch") == 0 {
				m.epoch(rapid.IntRange(0, 3).Draw(t, "drop") == 0)
			}
			known = drawBatch(t, m, known)
			s.take(t)
		}
		some := s.made[len(s.made)-1:]
		for range min(len(s.made), 4) {
			some = append(some, rapid.SampledFrom(s.made).Draw(t, "then"))
		}
		s.made = some
		s.requireAll(t)
	})
}

// requireWhole checks also what only engines write, and gives how many logs of runs there were.
func (s *snapshots) requireWhole(t *testing.T) (logs int) {
	first := reachable(t, s.st)
	now := holds(t, s.st)
	for i, then := range s.made {
		if holds(t, then).seq < first {
			continue
		}
		got, want := requireRewound(t, s.st, then, rewind.Options{Memory: int64(i%2) << 20})
		require.Equal(t, want.parts["lanes"], got.parts["lanes"])
		require.Subset(t, want.parts["logs"], got.parts["logs"])
		require.Subset(t, now.parts["logs"], got.parts["logs"])
		logs += len(got.parts["logs"])
		for _, value := range want.parts["meta"] {
			if strings.HasPrefix(value, "indexes") || strings.HasPrefix(value, "journal-core") {
				require.Contains(t, got.parts["meta"], value)
			}
		}
	}
	return logs
}

func TestADayOfJobsIsRewoundToAnyMoment(t *testing.T) {
	for name, keep := range map[string]time.Duration{"whole": 0, "cut off": 5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				p, stop := begunJobs(t, st, keep)
				s := snapshots{st: st}
				var mu sync.Mutex
				carried := 0
				p.carries = func() {
					mu.Lock()
					defer mu.Unlock()
					if carried++; carried%230 == 0 {
						s.take(t)
					}
				}
				dayOfJobs(t, p)
				stop()
				assert.Positive(t, s.requireWhole(t), "no log was kept, which proves little")
			})
		})
	}
}

func TestALongPipelineAndQueuesAreRewoundWithTheirParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		s := snapshots{st: st}
		e, stop := begunEngine(t, st)
		def := core.PipelineDef{Name: "long"}
		for n := range 50 {
			def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprint("p", n), Output: fmt.Sprint("o", n%25), Manual: &core.ManualPhase{}})
		}
		p, err := e.Pipelines().Create(t.Context(), core.PipelineSpec{Definition: def})
		require.NoError(t, err)
		for n := range def.Phases {
			if n%5 == 0 {
				synctest.Wait()
				s.take(t)
			}
			_, err = e.Pipelines().Send(t.Context(), p.ID, core.PhaseComplete{Phase: fmt.Sprint("p", n), Result: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
			require.NoError(t, err)
		}
		<-time.After(100 * time.Hour) // it is forgotten, with its parts
		synctest.Wait()
		stop()
		for _, refs := range partsIn(t, st) {
			require.Empty(t, refs)
		}
		s.requireWhole(t)

		then := s.made[len(s.made)-1]
		back := copied(t, rewind.New(st, rewind.Options{Batch: holds(t, then).seq}))
		e, stop = begunEngine(t, back)
		p, err = e.Pipelines().Get(t.Context(), p.ID)
		require.NoError(t, err)
		assert.Len(t, p.History, 45)
		p, err = e.Pipelines().Send(t.Context(), p.ID, core.PhaseComplete{Phase: "p45", Result: json.RawMessage(`1`)})
		require.NoError(t, err)
		assert.Len(t, p.History, 46)
		stop()
		requireClean(t, back)
	})
}

// What a database of an earlier version has kept is there also if this one has begun to change it.
func TestADatabaseOfAnEarlierVersionIsRewoundToWhereThisOneBegan(t *testing.T) {
	for _, name := range []string{"written-by-fdef5e5/actions", "written-by-fdef5e5/queues", "written-by-fdef5e5/runbooks", "written-by-4039b90/jobs-gaps"} {
		t.Run(name, func(t *testing.T) {
			st := unpacked(t, filepath.Join("testdata", filepath.FromSlash(name)+".db.gz"))
			then := copied(t, st)
			m := newMaker(t, st)
			m.keep = true
			require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) (err error) {
				m.seq, err = tx.Seq()
				require.NoError(t, err)
				return tx.Records(func(r store.Record) error {
					s, err := core.DecodeState(r.Kind, bytes.Clone(r.State))
					ref := effects.Ref{Kind: r.Kind, ID: r.ID}
					m.live[ref] = was{s, store.Prev{Version: r.Version, Seq: r.Seq, Due: s.Deadline(), Terms: s.Terms()}}
					return err
				})
			}))
			m.now = effects.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			var inputs []core.Input
			for ref, w := range m.live {
				ev := core.DueEvent(ref.Kind)
				if _, ended := core.EndedAt(w.state); ended && !core.MustBeKept(w.state) {
					ev = core.ExpireEvent(ref.Kind)
				}
				if ev != nil {
					inputs = append(inputs, core.Input{To: ref, Actor: "clock", Event: ev})
				}
			}
			slices.SortFunc(inputs, func(a, b core.Input) int { return strings.Compare(a.To.String(), b.To.String()) })
			require.NotEmpty(t, inputs)
			m.epoch(false)
			m.batch(inputs)
			m.batch(inputs)
			require.NotEqual(t, holds(t, then).parts["records"], holds(t, st).parts["records"])
			got, want := holds(t, rewind.New(st, rewind.Options{Batch: m.seq - 2})), holds(t, then)
			assert.Equal(t, want.parts["records"], got.parts["records"])
			// An earlier version's due index has no shares, one that was rewound has them.
			assert.Equal(t, withoutShares(want.parts["due"]), withoutShares(got.parts["due"]))
			requireClean(t, copied(t, rewind.New(st, rewind.Options{Batch: m.seq - 2})))
		})
	}
}
