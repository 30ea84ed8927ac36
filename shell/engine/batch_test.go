package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// idle makes an engine that says nothing.
func idle(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	e, err := engine.New(o)
	require.NoError(t, err)
	return e
}

// begin runs an engine until the test ends.
func begin(t *testing.T, e *engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// write changes the store behind the engine's back.
func write(t *testing.T, st store.Store, fn func(tx store.Tx) error) {
	t.Helper()
	require.NoError(t, st.Update(t.Context(), fn))
}

// makeUnreadable leaves a record that is no state.
func makeUnreadable(t *testing.T, st store.Store, ref effects.Ref) {
	t.Helper()
	write(t, st, func(tx store.Tx) error {
		now := effects.TimeOf(time.Now())
		if err := tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil)); err != nil {
			return err
		}
		return tx.Put(1, []store.Write{{Kind: ref.Kind, ID: ref.ID, State: []byte(`{"id":7}`)}})
	})
}

var mainLock = core.LockRef("", "", "main")

func acquire(holder string) engine.Request {
	return engine.Request{Inputs: []core.Input{{To: mainLock, Event: core.LockAcquire{Name: "main", Holder: holder}}}, Want: mainLock}
}

func TestARequestWhoseConditionFailsIsAnsweredByItAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t, engine.Options{Store: memory.New()})
		begin(t, e)
		no := errors.New("not now")
		r := acquire("ann")
		r.If = func(s core.State) error {
			assert.Nil(t, s)
			return no
		}

		_, err := e.Do(t.Context(), r)

		require.ErrorIs(t, err, no)
		_, err = e.Read(t.Context(), mainLock)
		assert.ErrorIs(t, err, engine.ErrNotFound)
	})
}

func TestAConditionSeesWhatTheRequestsBeforeItHaveDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t, engine.Options{Store: memory.New()})
		begin(t, e)
		_, err := e.Do(t.Context(), acquire("ann"))
		require.NoError(t, err)
		holder := "nobody was asked"
		r := acquire("bob")
		r.If = func(s core.State) error {
			l, _ := s.(core.Lock)
			holder = l.Holder
			return nil
		}

		synctest.Wait() // the loop sleeps: both come into one batch
		require.True(t, e.Post(t.Context(), engine.Request{Inputs: []core.Input{{To: mainLock, Event: core.LockRelease{Holder: "ann"}}}}))
		require.True(t, e.Post(t.Context(), r))
		synctest.Wait()

		assert.Empty(t, holder)
	})
}

func TestTheConditionOfARequestForAnUnreadableRecordIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		makeUnreadable(t, st, mainLock)
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		r, asked := acquire("ann"), false
		r.If = func(core.State) error {
			asked = true
			return nil
		}

		s, err := e.Do(t.Context(), r)

		require.NoError(t, err, "the record is set aside, and the lock is made anew")
		assert.Equal(t, "ann", s.(core.Lock).Holder)
		assert.False(t, asked)
	})
}

func TestAWriteThatTheStoreRefusesUndoesItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t, engine.Options{Store: memory.New()})
		require.True(t, e.Post(t.Context(), acquire("ann")))
		full := errors.New("no space left")
		answered := make(chan error, 1)
		go func() {
			_, err := e.Do(t.Context(), engine.Request{Write: &engine.Write{
				Of: mainLock, Check: func(core.State) error { return nil }, Put: func(store.Tx) error { return full },
			}})
			answered <- err
		}()
		synctest.Wait()
		begin(t, e)

		err := <-answered

		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, "not stored")
		_, err = e.Read(t.Context(), mainLock)
		assert.ErrorIs(t, err, engine.ErrNotFound, "what was decided before it in the batch is undone")
	})
}

func TestAnUnreadableRecordThatOnlyARefusedInputMeetsIsSetAsideForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait() // its first batch has more to store
		makeUnreadable(t, st, mainLock)

		_, err := e.Send(t.Context(), mainLock, core.LockRelease{Holder: "ann"})

		require.ErrorAs(t, err, new(*effects.Refused))
		_, err = e.Read(t.Context(), mainLock)
		require.ErrorIs(t, err, engine.ErrNotFound)
		stats, err := e.Stats(t.Context(), nil)
		require.NoError(t, err)
		assert.EqualValues(t, 1, stats.Quarantined)
	})
}

// failing is a store whose next commit fails.
type failing struct {
	store.Store
	next error
}

func (f *failing) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := f.next; err != nil {
		f.next = nil
		return err
	}
	return f.Store.Update(ctx, fn)
}

func TestAfterAFailedCommitTheEngineTriesWhetherTheStoreTakesOneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &failing{Store: memory.New()}
		e := idle(t, engine.Options{Store: st, TickRate: time.Hour, LeaseTTL: 24 * time.Hour})
		begin(t, e)
		synctest.Wait()
		full := errors.New("no space left")
		st.next = full
		_, err := e.Do(t.Context(), acquire("ann"))
		require.ErrorIs(t, err, full)
		require.ErrorIs(t, e.Health(t.Context()), full)

		<-time.After(2 * time.Second) // nobody asks for anything
		synctest.Wait()

		assert.NoError(t, e.Health(t.Context()))
	})
}

func TestAnAnswerThatNobodyWaitsForEndsItsEntryInTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		write(t, st, func(tx store.Tx) error {
			return tx.PutOutbox(store.OutboxEntry{
				Key: store.EffectKey{ID: uuid.Max, N: 1}, Seq: 1, Kind: core.KindAction, Lane: "http",
				Effect: effects.RunTool{Run: 1, Tool: "http"}.AppendJSON(nil), Holder: "instance/7", Token: 3,
			})
		})
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait()
		var left int
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			return tx.Outbox(func(store.OutboxEntry) error {
				left++
				return nil
			})
		}))
		assert.Zero(t, left)
	})
}

// runningTool is an action whose tool is to run at once.
func runningTool(n byte) engine.Request { return toolAt(n, effects.TimeOf(time.Now())) }

// toolAt is an action whose tool is to run at that time.
func toolAt(n byte, at effects.Time) engine.Request {
	ref := effects.Ref{Kind: core.KindAction, ID: uuid.UUID{15: n}}
	return engine.Request{Want: ref, Inputs: []core.Input{{To: ref, Event: core.ActionCreate{Spec: core.ActionSpec{
		ID: ref.ID, ToolName: "http", Trigger: core.Scheduled(at),
	}}}}}
}

func TestABatchHandsOutNoMoreOfALaneThanItHasSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int32
		e := idle(t, engine.Options{Store: memory.New(), Concurrency: map[string]int{"http": 2}, Hooks: engine.Hooks{
			Procedure: func(engine.OuterEffect) engine.Procedure {
				return engine.Procedure{What: "tool", Call: func(context.Context) (json.RawMessage, error) {
					all.Add(1)
					most.Store(max(most.Load(), now.Add(1)))
					<-time.After(time.Second)
					now.Add(-1)
					return nil, nil
				}}
			},
		}})
		for n := range byte(5) {
			require.True(t, e.Post(t.Context(), runningTool(n+1)))
		}

		begin(t, e)
		<-time.After(time.Minute)
		synctest.Wait()

		assert.EqualValues(t, 2, most.Load())
		assert.EqualValues(t, 5, all.Load())
	})
}

func TestAResultThatIsNotStoredAtTheFirstTryAsTheEngineStopsIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, finish := &failing{Store: memory.New()}, make(chan struct{})
		e := idle(t, engine.Options{Store: st, Hooks: engine.Hooks{Procedure: func(engine.OuterEffect) engine.Procedure {
			return engine.Procedure{What: "tool", Call: func(context.Context) (json.RawMessage, error) {
				<-finish
				return json.RawMessage(`1`), nil
			}}
		}}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		a, err := e.Do(t.Context(), runningTool(1))
		require.NoError(t, err)

		stop()
		synctest.Wait()
		st.next = errors.New("no space left")
		close(finish)
		require.NoError(t, <-ended)

		a, err = e.Read(t.Context(), a.Ref())
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.(core.Action).Status.Type)
	})
}

// nothing is a loader of a store that is empty.
type nothing struct{}

func (nothing) Load(effects.Ref) (core.State, error) { return nil, nil }

func (nothing) Scan(effects.Kind, string, core.Cursor, int) ([]core.Cursor, error) { return nil, nil }

// decided gives the records that inputs to new machines leave.
func decided(t *testing.T, at effects.Time, inputs ...core.Input) (writes []store.Write) {
	t.Helper()
	b := core.NewBatch(nothing{}, core.Clock{Now: at}, 1)
	for _, in := range inputs {
		res, err := b.Apply(in)
		require.NoError(t, err)
		require.Nil(t, res.Refused)
	}
	for _, c := range b.Changes() {
		writes = append(writes, store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID, State: c.After.AppendJSON(nil), Due: c.After.Deadline(), Terms: c.After.Terms()})
	}
	return writes
}

// givenBy lists who gave the inputs of a batch, as the journal has them.
func givenBy(t *testing.T, st store.Store, batch uint64) (actors []string) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Journal(batch, func(seq uint64, raw []byte) error {
			entry, err := core.DecodeEntry(raw)
			for _, in := range entry.Inputs {
				if seq == batch {
					actors = append(actors, in.Actor)
				}
			}
			return err
		})
	}))
	return actors
}

// locked is an input that changes something.
func locked(name, actor string) core.Input {
	return core.Input{To: core.LockRef("", "", name), Actor: actor, Event: core.LockAcquire{Name: name, Holder: "ann"}}
}

func TestTheInputsOfABatchStandInTheJournalInTheOrderOfItsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		long := effects.TimeOf(time.Now().Add(-30 * 24 * time.Hour))
		lost, due, old, damaged := toolAt(1, long), toolAt(2, long), toolAt(3, long), runningTool(4)
		damaged.Inputs[0].Actor = "caller"
		writes := decided(t, long,
			lost.Inputs[0], core.Input{To: lost.Want, Event: core.ActionDue{}},
			due.Inputs[0],
			old.Inputs[0], core.Input{To: old.Want, Event: core.ActionCancel{}},
		)
		writes = append(writes, store.Write{Kind: damaged.Want.Kind, ID: damaged.Want.ID, State: []byte(`{"id":7}`)})
		write(t, st, func(tx store.Tx) error {
			return errors.Join(
				tx.AppendJournal(1, long, core.NewEntry(1, long, "test").AppendJSON(nil)), tx.Put(1, writes),
				tx.PutWebhook(store.Webhook{ID: uuid.UUID{15: 9}, Route: "/", ReceivedAt: long, Body: []byte(`{}`)}),
				tx.PutOutbox(store.OutboxEntry{
					Key: store.EffectKey{ID: lost.Want.ID, N: 1}, Seq: 1, Kind: core.KindAction, Lane: "http",
					Effect: effects.RunTool{Run: 1, Tool: "http"}.AppendJSON(nil), Holder: "instance/7", Token: 3,
				}),
			)
		})
		e := idle(t, engine.Options{Store: st, Hooks: engine.Hooks{
			ReadWebhook: func(store.Webhook) (core.Input, error) { return locked("hooked", "webhook"), nil },
			MendAtEnd: func(effects.Ref, engine.Mending) ([]core.Input, error) {
				return []core.Input{locked("mended", "")}, nil
			},
		}})
		require.True(t, e.Post(t.Context(), damaged))

		begin(t, e)
		synctest.Wait()

		assert.Equal(t, []string{
			"caller", "recovery" /* of what a lost instance ran */, "clock" /* what was due */, "webhook", "retention",
			"clock" /* what the batch has made due */, "recovery", /* at the end */
		}, givenBy(t, st, 2))
	})
}

// slow is a store whose next commit waits until it may.
type slow struct {
	store.Store
	may chan struct{}
}

func (s *slow) Update(ctx context.Context, fn func(store.Tx) error) error {
	if may := s.may; may != nil {
		s.may = nil
		<-may
	}
	return s.Store.Update(ctx, fn)
}

func TestWhatCallersAskForStandsInTheJournalBeforeTheOutcomesOfEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, finish := &slow{Store: memory.New()}, make(chan struct{})
		e := idle(t, engine.Options{Store: st, Hooks: engine.Hooks{Procedure: func(engine.OuterEffect) engine.Procedure {
			return engine.Procedure{What: "tool", Call: func(context.Context) (json.RawMessage, error) {
				<-finish
				return json.RawMessage(`1`), nil
			}}
		}}})
		begin(t, e)
		_, err := e.Do(t.Context(), runningTool(1))
		require.NoError(t, err)
		synctest.Wait()
		may := make(chan struct{})
		st.may = may
		require.True(t, e.Post(t.Context(), engine.Request{Inputs: []core.Input{locked("first", "first")}}))
		synctest.Wait() // its commit waits

		close(finish)
		synctest.Wait() // the outcome comes first
		require.True(t, e.Post(t.Context(), engine.Request{Inputs: []core.Input{locked("second", "caller")}}))
		close(may)
		synctest.Wait()

		var last uint64
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) (err error) {
			last, err = tx.Seq()
			return err
		}))
		assert.Equal(t, []string{"caller", "tool"}, givenBy(t, st, last))
	})
}

// unconfirming is a store that loses the confirmation of its next commit.
type unconfirming struct {
	store.Store
	next bool
}

func (u *unconfirming) Update(ctx context.Context, fn func(store.Tx) error) error {
	err := u.Store.Update(ctx, fn)
	if err == nil && u.next {
		u.next = false
		return store.ErrUnconfirmed
	}
	return err
}

func TestWhatAnUnconfirmedCommitHandedOutIsStartedOnceAndWhatItCancelledIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &unconfirming{Store: memory.New()}
		begun := map[uuid.UUID]int{}
		var cancelled []uuid.UUID
		e := idle(t, engine.Options{Store: st, Hooks: engine.Hooks{Procedure: func(o engine.OuterEffect) engine.Procedure {
			id := o.State.Ref().ID
			begun[id]++ // by the loop alone
			return engine.Procedure{What: "tool", Call: func(ctx context.Context) (json.RawMessage, error) {
				select {
				case <-ctx.Done():
					cancelled = append(cancelled, id)
					return nil, ctx.Err()
				case <-time.After(time.Hour):
					return json.RawMessage(`1`), nil
				}
			}}
		}}})
		begin(t, e)
		first, second := runningTool(1), runningTool(2)
		_, err := e.Do(t.Context(), first)
		require.NoError(t, err)
		synctest.Wait()

		st.next = true
		cancel := engine.Request{Want: first.Want, Inputs: append([]core.Input{{To: first.Want, Event: core.ActionCancel{}}}, second.Inputs...)}
		_, err = e.Do(t.Context(), cancel)

		require.ErrorIs(t, err, store.ErrUnconfirmed)
		require.ErrorContains(t, err, "not confirmed", "and it is not said to be undone")
		<-time.After(2 * time.Hour)
		synctest.Wait()
		assert.Equal(t, map[uuid.UUID]int{first.Want.ID: 1, second.Want.ID: 1}, begun)
		assert.Equal(t, []uuid.UUID{first.Want.ID}, cancelled)
		a, err := e.Read(t.Context(), second.Want)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.(core.Action).Status.Type)
	})
}

// misplaced is a store that says that it was taken away.
type misplaced struct {
	store.Store
	why error
}

func (m *misplaced) InPlace() error { return m.why }

func TestAnEngineWithoutWorkSaysThatItsDatabaseWasTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &misplaced{Store: memory.New()}
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait()
		require.NoError(t, e.Health(t.Context()))
		st.why = store.ErrMoved
		require.ErrorIs(t, e.Health(t.Context()), store.ErrMoved)
	})
}

func TestWhoPostsWaitsNoLongerThanItsContextLasts(t *testing.T) {
	e := idle(t, engine.Options{Store: memory.New(), MaxBatch: 1}) // it does not run: nobody makes room
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	full := false
	for range 1000 {
		if full = !e.Post(ctx, acquire("ann")); full {
			break
		}
	}
	assert.True(t, full)
}

func TestAMachineThatIsMadeAgainUnderAnIDThatWasSetAsideIsNotTakenForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait()
		makeUnreadable(t, st, mainLock)
		_, err := e.Read(t.Context(), mainLock)
		require.ErrorIs(t, err, engine.ErrSetAside)

		made, err := e.Do(t.Context(), acquire("ann"))
		require.NoError(t, err)
		_, err = e.Send(t.Context(), mainLock, core.LockRelease{Holder: "ann", Token: made.(core.Lock).Token})
		require.NoError(t, err)

		_, err = e.Read(t.Context(), mainLock)
		require.ErrorIs(t, err, engine.ErrNotFound)
		assert.NotErrorIs(t, err, engine.ErrSetAside)
	})
}

func TestTheFrontIsToldOfABatchThatItHasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &unconfirming{Store: memory.New()}
		var missed, seen atomic.Int32
		e := idle(t, engine.Options{Store: st, Hooks: engine.Hooks{
			Missed:    func() { missed.Add(1) },
			Committed: func(c engine.Committed) { seen.Add(int32(len(c.Changes))) },
		}})
		begin(t, e)
		synctest.Wait()

		st.next = true
		_, err := e.Do(t.Context(), acquire("ann"))
		require.ErrorIs(t, err, store.ErrUnconfirmed)
		require.ErrorContains(t, err, "not confirmed")

		assert.EqualValues(t, 1, missed.Load())
		assert.Zero(t, seen.Load())
		s, err := e.Read(t.Context(), mainLock)
		require.NoError(t, err)
		assert.Equal(t, "ann", s.(core.Lock).Holder, "it is stored all the same")
	})
}
