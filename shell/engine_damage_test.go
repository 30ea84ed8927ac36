package shell_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// spoil puts bytes that are no state in the place of a record, and leaves its
// places in the indexes.
func spoil(t *testing.T, st store.Store, s core.State) {
	t.Helper()
	require.NoError(t, st.Update(bg(), func(tx store.Tx) error {
		seq, err := tx.Seq()
		if err != nil {
			return err
		}
		w := store.Write{Kind: s.Ref().Kind, ID: s.Ref().ID, State: []byte(`{"id":7}`), Due: s.Deadline(), Terms: s.Terms()}
		if rec, err := tx.Get(w.Kind, w.ID); err == nil {
			w.Prev = store.Prev{Version: rec.Version, Seq: rec.Seq, Due: w.Due, Terms: w.Terms}
		}
		now := effects.TimeOf(time.Now())
		if err := tx.AppendJournal(seq+1, now, core.NewEntry(seq+1, now, "test").AppendJSON(nil)); err != nil {
			return err
		}
		return tx.Put(seq+1, []store.Write{w})
	}))
}

func guard(key string, holder uuid.UUID) core.Dedup {
	return core.Dedup{ID: core.DedupRef("", "", key).ID, Key: key, Holder: holder}
}

func TestADedupKeyThatCannotBeReadStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := memory.New(), &counting{}
		spoil(t, st, guard("k", id(1)))
		e, stop := start(t, shell.Options{Store: st, Tools: tools(c), TickRate: time.Second})
		spec := everyMinute()
		spec.Namespace, spec.Tenant, spec.ActionTemplate.DedupKey = "", "", "k"
		_, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		other, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(90 * time.Second)})
		require.NoError(t, err)
		elapse(10*time.Minute + time.Second)
		other = actionOf(t, e, other.ID)
		assert.Equal(t, core.StatusCompleted, other.Status.Type)
		assert.EqualValues(t, 11, c.n.Load(), "the recurring one too")
		require.NoError(t, stop())
	})
}

func TestAResultThatMeetsADamagedRecordIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, g := memory.New(), newGate()
		e, stop := start(t, shell.Options{Store: st, Tools: tools(g), TickRate: time.Second})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k"})
		require.NoError(t, err)
		synctest.Wait()
		held := guard("k", a.ID)
		held.Since = a.CreatedAt
		spoil(t, st, held)
		g.open()
		elapse(time.Minute)
		a = actionOf(t, e, a.ID)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		require.NoError(t, stop())
	})
}

func TestTheDedupKeyOfAnActionThatWasSetAsideIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := memory.New(), &counting{}
		e, stop := start(t, shell.Options{Store: st, Tools: tools(c)})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k", Trigger: at(time.Minute)})
		require.NoError(t, err)
		require.NoError(t, stop())
		spoil(t, st, a)
		e, stop = start(t, shell.Options{Store: st, Tools: tools(c)})
		elapse(2 * time.Minute)
		_, err = e.Actions().Get(bg(), a.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k"})
		require.NoError(t, err)
		require.NoError(t, stop())
	})
}

// damaged opens a bolt file in which change has spoilt something.
func damaged(t *testing.T, path string, change func(tx *bbolt.Tx) error) store.Store {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(change))
	require.NoError(t, db.Close())
	st := openBolt(t, path)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func TestADueEntryForAnotherTimeLeavesItsRecordAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	synctest.Test(t, func(t *testing.T) {
		st := openBolt(t, path)
		c := &counting{}
		e, stop := start(t, shell.Options{Store: st, Tools: tools(c)})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
		require.NoError(t, err)
		require.NoError(t, stop())
		require.NoError(t, st.Close())
		stray := store.NewDueKey(effects.TimeOf(time.Now().Add(time.Minute)), a.ID)
		again := damaged(t, path, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("due")).Put(stray[:], []byte("action"))
		})
		e, stop = start(t, shell.Options{Store: again, Tools: tools(c)})
		elapse(2 * time.Minute)
		require.NoError(t, again.View(bg(), func(tx store.ReadTx) error {
			due, err := tx.Due(nil, nil, effects.MaxTime, 9)
			require.Len(t, due, 1)
			assert.Equal(t, a.Deadline(), due[0].Key.At())
			return err
		}))
		elapse(2 * time.Hour)
		a = actionOf(t, e, a.ID)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.EqualValues(t, 1, c.n.Load())
		require.NoError(t, stop())
		verify(t, again)
	})
}

func TestADamagedWebhookOrOutboxEntryStopsNobody(t *testing.T) {
	for _, bucket := range []string{"webhooks", "outbox"} {
		t.Run(bucket, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "orrery.db")
			synctest.Test(t, func(t *testing.T) {
				st := openBolt(t, path)
				require.NoError(t, st.Update(bg(), func(tx store.Tx) error {
					var err error
					for i := range byte(2) {
						if bucket == "outbox" {
							err = tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: id(i + 1), N: 1}, Seq: 1, Kind: core.KindAction, Lane: "count", Effect: []byte("{}"), Holder: "instance/7", Token: 9})
						} else {
							err = tx.PutWebhook(store.Webhook{ID: id(i + 1), Route: "r", Header: []byte("{}"), ReceivedAt: effects.TimeOf(time.Now()), Body: []byte("body")})
						}
						require.NoError(t, err)
					}
					return nil
				}))
				require.NoError(t, st.Close())
				again := damaged(t, path, func(tx *bbolt.Tx) error {
					b := tx.Bucket([]byte(bucket))
					k, v := b.Cursor().First()
					v = append([]byte(nil), v...)
					v[len(v)/2] ^= 1
					return b.Put(append([]byte(nil), k...), v)
				})
				c := &counting{}
				e, stop := start(t, shell.Options{Store: again, Tools: tools(c), TickRate: time.Second, Webhooks: map[string]shell.WebhookRoute{"r": {Tool: "count"}}})
				elapse(time.Minute)
				_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
				require.NoError(t, err)
				want := map[string]int64{"webhooks": 2, "outbox": 1}[bucket]
				assert.Equal(t, want, c.n.Load(), "the undamaged one is read")
				require.NoError(t, again.View(bg(), func(tx store.ReadTx) error {
					aside, err := tx.Quarantine(9)
					require.NoError(t, err)
					assert.Len(t, aside, 1)
					hooks, err := tx.Webhooks(9)
					require.NoError(t, err)
					assert.Empty(t, hooks)
					return tx.Outbox(func(o store.OutboxEntry) error { return fmt.Errorf("%v is left", o.Key) })
				}))
				require.NoError(t, stop())
			})
		})
	}
}

func id(n byte) uuid.UUID { return uuid.UUID{6: 0x40, 8: 0x80, 15: n} }

// full is a store whose disk is full for a while.
type full struct {
	store.Store
	is    atomic.Bool
	tries atomic.Int64
}

func (f *full) Update(ctx context.Context, fn func(store.Tx) error) error {
	if f.is.Load() {
		if f.tries.Add(1) > 10_000 {
			panic("the loop spins")
		}
		return errors.New("no space left on device")
	}
	return f.Store.Update(ctx, fn)
}

func TestAFullDiskIsTriedAgainAtLongerAndLongerIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := &full{Store: inMemory(t)}, newGate()
		e, stop := start(t, shell.Options{Store: f, Tools: tools(g), MaxBatch: 8})
		for range 8 { // as many results as a batch takes
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
		}
		synctest.Wait()
		f.is.Store(true)
		g.open()
		elapse(time.Minute)
		assert.Less(t, f.tries.Load(), int64(10))
		f.is.Store(false)
		elapse(time.Minute)
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 8, s.ActionsByStatus[core.StatusCompleted])
		require.NoError(t, stop())
	})
}

func TestRetentionReadsNoMoreAtATimeThanABatchMayHold(t *testing.T) {
	raced.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(&counting{}), TickRate: time.Hour, ActionRetention: time.Hour})
		for range 6 {
			_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Trigger: core.Trigger{
				Type: core.TriggerWebhook, ReceivedAt: effects.TimeOf(time.Now()), RawPayload: []byte(strings.Repeat("x", 4<<20)),
			}})
			require.NoError(t, err)
		}
		elapse(3 * time.Hour)
		expired, most := 0, 0
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			return tx.Journal(0, func(_ uint64, raw []byte) error {
				b, err := core.DecodeEntry(raw)
				require.NoError(t, err)
				n := 0
				for _, in := range b.Inputs {
					if _, ok := in.Event.(core.ActionExpire); ok {
						n++
					}
				}
				expired, most = expired+n, max(most, n)
				return nil
			})
		}))
		assert.Equal(t, 6, expired)
		assert.LessOrEqual(t, most, 4, "16 MiB, of which each takes 5.3")
	})
}

func TestAPageEndsWhereItHasBecomeLarge(t *testing.T) {
	raced.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		for range 6 {
			_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Trigger: core.Trigger{
				Type: core.TriggerWebhook, ReceivedAt: effects.TimeOf(time.Now()), RawPayload: []byte(strings.Repeat("x", 4<<20)),
			}})
			require.NoError(t, err)
		}
		seen := map[uuid.UUID]bool{}
		for next, first := "", true; first || next != ""; first = false {
			list, token, err := e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{Limit: 1000, Token: next})
			require.NoError(t, err)
			assert.LessOrEqual(t, len(list), 4)
			for _, a := range list {
				assert.False(t, seen[a.ID])
				seen[a.ID] = true
			}
			next = token
		}
		assert.Len(t, seen, 6)
	})
}

func TestADamagedRecordThatIsNotDueIsSetAsideWhereverItIsMet(t *testing.T) {
	meet := map[string]func(t *testing.T, e *shell.Engine, a core.Action){
		"asked for by its id": func(t *testing.T, e *shell.Engine, a core.Action) {
			_, err := e.Actions().Get(bg(), a.ID)
			require.ErrorIs(t, err, shell.ErrSetAside)
			require.ErrorIs(t, err, shell.ErrNotFound)
		},
		"in a list": func(t *testing.T, e *shell.Engine, _ core.Action) {
			for _, left := range []int{1, 0} { // the second list does not meet it any more
				ctx, damaged := shell.CountDamaged(bg())
				list, _, err := e.Actions().List(ctx, shell.ActionFilter{}, shell.Page{})
				require.NoError(t, err)
				assert.Len(t, list, 1)
				assert.Equal(t, left, damaged())
				synctest.Wait()
			}
		},
		"by the scrub": func(*testing.T, *shell.Engine, core.Action) { elapse(2 * time.Second) },
		"by a trigger": func(t *testing.T, e *shell.Engine, a core.Action) {
			_, err := e.Actions().Trigger(bg(), a.ID)
			require.Error(t, err)
		},
	}
	for how, meets := range meet {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				o := shell.Options{Store: st, Tools: tools(&counting{}), ScrubRate: 10}
				if how != "by the scrub" {
					o.ScrubRate = 0
				}
				e, stop := start(t, o)
				spec := core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)}
				a, err := e.Actions().Create(bg(), spec)
				require.NoError(t, err)
				_, err = e.Actions().Create(bg(), spec)
				require.NoError(t, err)
				require.NoError(t, stop())
				spoil(t, st, a)
				e, stop = start(t, o)

				meets(t, e, a)
				synctest.Wait()

				s, err := e.Stats(bg())
				require.NoError(t, err)
				assert.EqualValues(t, 1, s.Quarantined)
				assert.EqualValues(t, 1, s.ActionsByStatus[core.StatusPending], "it is not counted as pending")
				_, err = e.Actions().Get(bg(), a.ID)
				require.ErrorIs(t, err, shell.ErrSetAside)
				require.NoError(t, stop())

				e, stop = start(t, o)
				synctest.Wait()
				_, err = e.Actions().Get(bg(), a.ID)
				require.ErrorIs(t, err, shell.ErrSetAside, "after a restart, too")
				_, err = e.Actions().Get(bg(), id(77))
				require.NotErrorIs(t, err, shell.ErrSetAside)
				require.NoError(t, stop())
			})
		})
	}
}

func TestTheScrubReadsAllRecordsSlowlyAndGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		o := shell.Options{Store: st, Tools: tools(&counting{}), ScrubRate: 1}
		e, stop := start(t, o)
		for range 150 {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
			require.NoError(t, err)
		}
		elapse(62 * time.Second)
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.InDelta(t, 61, s.Scrubbed, 2, "one a second")
		assert.Zero(t, s.ScrubWalks)
		require.NoError(t, stop())

		e, stop = start(t, o)
		elapse(100 * time.Second)
		s, err = e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 1, s.ScrubWalks, "the walk that the first process began is whole")
		require.NoError(t, stop())
	})
}

// gapStore is a store whose second record, and what stands at its end, cannot be walked to.
type gapStore struct{ store.Store }

type gapTx struct{ store.ReadTx }

func (g gapStore) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return g.Store.View(ctx, func(tx store.ReadTx) error { return fn(gapTx{tx}) })
}

func (g gapTx) RecordPage(after effects.Ref, limit int, fn func(store.Record) error) (effects.Ref, error) {
	last, err := g.ReadTx.(store.Walker).RecordPage(after, limit, fn)
	if after == (effects.Ref{}) || last == (effects.Ref{}) {
		err = errors.Join(err, fmt.Errorf("a page: %w", store.ErrCorrupt))
	}
	return last, err
}

func TestTheScrubGoesOnBehindWhatItCannotWalkAndSaysSoOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		o := shell.Options{
			Store: gapStore{memory.New()}, Tools: tools(&counting{}), ScrubRate: 1,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}
		e, stop := start(t, o)
		for range 20 {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
			require.NoError(t, err)
		}
		elapse(119 * time.Second)
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.Greater(t, s.Scrubbed, uint64(100))
		assert.Greater(t, s.ScrubWalks, uint64(4))
		require.NoError(t, stop())
		assert.Equal(t, 2, strings.Count(log.String(), "the scrub could not read records"), log.String())
	})
}

// noting counts how often the scrub notes where it is.
type noting struct {
	*memory.Store
	notes int
}

func (n *noting) Update(ctx context.Context, fn func(store.Tx) error) error {
	return n.Store.Update(ctx, func(tx store.Tx) error { return fn(notingTx{tx, n}) })
}

type notingTx struct {
	store.Tx
	n *noting
}

func (t notingTx) SetMeta(name string, value []byte) error {
	if name == "scrub" {
		t.n.notes++
	}
	return t.Tx.SetMeta(name, value)
}

// Each note is a commit, which idle engines on a disk or a database that others share must not make each second.
func TestTheScrubOfAFewRecordsNotesNothing(t *testing.T) {
	for name, row := range map[string]struct{ rate, walks, notes int }{
		"a walk each second": {1000, 600, 0}, "a walk each three minutes": {1, 3, 10}, // after one minute, after two, and where it begins anew
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &noting{Store: memory.New()}
				e, stop := start(t, shell.Options{Store: st, Tools: tools(&counting{}), ScrubRate: row.rate})
				for range 170 {
					_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(24 * time.Hour)})
					require.NoError(t, err)
				}
				elapse(10 * time.Minute)
				s, err := e.Stats(bg())
				require.NoError(t, err)
				assert.EqualValues(t, row.walks, s.ScrubWalks)
				require.NoError(t, stop())
				assert.Equal(t, row.notes, st.notes)
			})
		})
	}
}
