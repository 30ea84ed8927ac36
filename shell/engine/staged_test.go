package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// asked is a request under way: done gets its error.
func asked(e *engine.Engine, r engine.Request) (done chan error) {
	done = make(chan error, 1)
	go func() {
		_, err := e.Do(context.Background(), r)
		done <- err
	}()
	synctest.Wait()
	return done
}

// settled has the disk answer until nobody asks it any more.
func (d *lateDisk) settled() {
	for synctest.Wait(); d.answer(nil); synctest.Wait() {
	}
}

// beginLate runs an engine over a late disk until the test ends, and lets its first batches
// become durable.
func beginLate(t *testing.T, o engine.Options) (*engine.Engine, *lateDisk) {
	t.Helper()
	d := newLateDisk(t)
	o.Store, o.TickRate, o.LeaseTTL = d, time.Hour, 24*time.Hour
	e := idle(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for {
			synctest.Wait()
			select {
			case err := <-ended:
				require.True(t, err == nil || d.failed(), "%v", err)
				return
			case d.answers <- nil:
			}
		}
	})
	d.settled()
	return e, d
}

// tool is a hook whose tools run until their context ends or finish is closed; begun counts
// them by the action.
func tool(begun map[uuid.UUID]int, finish chan struct{}) func(engine.OuterEffect) engine.Procedure {
	return func(o engine.OuterEffect) engine.Procedure {
		begun[o.State.Ref().ID]++ // by the loop alone
		return engine.Procedure{What: "tool", Call: func(ctx context.Context) (json.RawMessage, error) {
			select {
			case <-finish:
				return json.RawMessage(`1`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
	}
}

func unanswered(t *testing.T, done ...chan error) {
	t.Helper()
	for _, c := range done {
		select {
		case err := <-c:
			require.Fail(t, "it was answered before it was durable", "%v", err)
		default:
		}
	}
}

func TestTheNextBatchIsDecidedWhileTheDiskTakesTheOneBeforeAndNoneIsAnsweredBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := map[uuid.UUID]int{}
		e, d := beginLate(t, engine.Options{Hooks: engine.Hooks{Procedure: tool(begun, nil)}})
		before, _ := d.count()

		first := asked(e, runningTool(1))
		second := asked(e, runningTool(2))
		third := asked(e, runningTool(3))

		staged, _ := d.count()
		require.Equal(t, before+2, staged, "one is decided ahead, and no more")
		unanswered(t, first, second, third)
		require.Empty(t, begun)
		require.True(t, d.answer(nil))
		synctest.Wait()
		require.NoError(t, <-first)
		unanswered(t, second, third)
		require.Len(t, begun, 1)
		staged, _ = d.count()
		require.Equal(t, before+3, staged)
		require.True(t, d.answer(nil))
		synctest.Wait()
		require.NoError(t, <-second)
		if d.isDurable() < before+3 { // else the sync has begun after the third was staged, and has taken it along
			unanswered(t, third)
		}
		d.settled()
		require.NoError(t, <-third)
		require.Len(t, begun, 3)
	})
}

func TestARefusalWaitsUntilWhatItHasReadIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := beginLate(t, engine.Options{})
		made := asked(e, runningTool(1))
		refused := asked(e, runningTool(1))
		unanswered(t, made, refused)

		d.settled()

		require.NoError(t, <-made)
		require.ErrorAs(t, <-refused, new(*effects.Refused))
	})
}

func TestAFailedSyncIsAnsweredAsSuchToAllWhoWaitAndNothingBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, missed := map[uuid.UUID]int{}, 0
		var told []uint64
		e, d := beginLate(t, engine.Options{Hooks: engine.Hooks{
			Procedure: tool(begun, nil),
			Missed:    func() { missed++ },
			Count:     func(c engine.Committed) { told = append(told, c.Seq()) },
		}})
		told = nil
		first := asked(e, runningTool(1))
		refused := asked(e, runningTool(1))
		late := asked(e, runningTool(2))
		eio := errors.New("input/output error")

		require.True(t, d.answer(eio))
		synctest.Wait()

		require.ErrorIs(t, <-late, eio)
		for _, c := range []chan error{first, refused} {
			err := <-c
			require.ErrorIs(t, err, eio)
			require.ErrorIs(t, err, store.ErrUnconfirmed)
			require.ErrorContains(t, err, "not confirmed")
		}
		require.Empty(t, begun)
		require.Empty(t, told)
		require.Equal(t, 1, missed)
		require.ErrorIs(t, e.Health(t.Context()), eio)
		require.ErrorIs(t, <-asked(e, acquire("ann")), eio)
	})
}

func TestASecondSyncThatFailsTakesNothingBackOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := map[uuid.UUID]int{}
		e, d := beginLate(t, engine.Options{Hooks: engine.Hooks{Procedure: tool(begun, nil)}})
		first := asked(e, runningTool(1))
		second := asked(e, runningTool(2))
		require.True(t, d.answer(nil))
		synctest.Wait()
		require.NoError(t, <-first)
		eio := errors.New("input/output error")
		require.True(t, d.answer(eio))
		require.ErrorIs(t, <-second, eio)
		require.Equal(t, map[uuid.UUID]int{runningTool(1).Want.ID: 1}, begun)
	})
}

func TestABatchThatCannotBeStoredLeavesTheOneBeforeAloneAndIsWhatHealthTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := beginLate(t, engine.Options{})
		first := asked(e, acquire("ann"))
		full := errors.New("no space left")
		second := asked(e, engine.Request{Write: &engine.Write{
			Of: mainLock, Check: func(core.State) error { return nil }, Put: func(store.Tx) error { return full },
		}})
		unanswered(t, first, second)
		require.True(t, d.answer(nil))
		synctest.Wait()
		require.NoError(t, <-first)
		err := <-second
		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, "not stored")
		require.ErrorIs(t, e.Health(t.Context()), full)
		third := asked(e, runningTool(3))
		d.settled()
		require.NoError(t, <-third)
		require.NoError(t, e.Health(t.Context()))
	})
}

// Where the store goes on, what was not confirmed is there, with what was decided on top of it.
func TestWhatWasStagedOnTopOfAnUnconfirmedBatchIsFoundOutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, finish := map[uuid.UUID]int{}, make(chan struct{})
		e, d := beginLate(t, engine.Options{Concurrency: map[string]int{"http": 2}, Hooks: engine.Hooks{Procedure: tool(begun, finish)}})
		first := asked(e, runningTool(1))
		second := asked(e, runningTool(2))

		require.True(t, d.answer(store.ErrUnconfirmed))
		d.settled()

		require.ErrorIs(t, <-first, store.ErrUnconfirmed)
		require.ErrorIs(t, <-second, store.ErrUnconfirmed, "it rests on the first")
		<-time.After(2 * time.Hour)
		d.settled()
		require.Equal(t, map[uuid.UUID]int{runningTool(1).Want.ID: 1, runningTool(2).Want.ID: 1}, begun)
		close(finish)
		d.settled()
		for n := range byte(2) {
			a, err := e.Read(t.Context(), runningTool(n+1).Want)
			require.NoError(t, err)
			assert.Equal(t, core.StatusCompleted, a.(core.Action).Status.Type)
		}
		third := asked(e, runningTool(3))
		d.settled()
		require.NoError(t, <-third, "and the slots are free again")
		require.Len(t, begun, 3)
	})
}

func TestAnOutcomeThatWasNotStoredIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, finish := map[uuid.UUID]int{}, make(chan struct{})
		e, d := beginLate(t, engine.Options{Hooks: engine.Hooks{Procedure: tool(begun, finish)}})
		made := asked(e, runningTool(1))
		d.settled()
		require.NoError(t, <-made)
		close(finish)
		synctest.Wait()
		require.True(t, d.answer(store.ErrUnconfirmed), "the outcome's batch")
		<-time.After(2 * time.Hour)
		d.settled()
		a, err := e.Read(t.Context(), runningTool(1).Want)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.(core.Action).Status.Type)
		require.Len(t, begun, 1)
	})
}

// eager is a scheduler by which a batch is decided ahead whenever there is anything to decide.
type eager struct{}

func (eager) Add(int)                  {}
func (eager) Answered(context.Context) {}
func (eager) Ahead(int) bool           { return true }
func (eager) AfterFunc(_ string, d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

func TestABatchAfterAnUnconfirmedOneTakesAllOutcomesSoThatNoEffectBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, finish := map[uuid.UUID]int{}, make(chan struct{})
		e, d := beginLate(t, engine.Options{Scheduler: eager{}, Concurrency: map[string]int{"http": 6}, Hooks: engine.Hooks{Procedure: tool(begun, finish)}})
		for n := range byte(4) {
			made := asked(e, runningTool(n+1))
			d.settled()
			require.NoError(t, <-made)
		}
		first, second := asked(e, runningTool(5)), asked(e, runningTool(6)) // the disk takes one batch, and one is staged on top of it
		close(finish)                                                       // four outcomes, which no batch has yet
		synctest.Wait()
		require.True(t, d.answer(store.ErrUnconfirmed))
		for range 5 {
			<-time.After(2 * time.Hour)
			d.settled()
		}
		require.ErrorIs(t, <-first, store.ErrUnconfirmed)
		require.ErrorIs(t, <-second, store.ErrUnconfirmed)
		for n := range byte(4) {
			a, err := e.Read(t.Context(), runningTool(n+1).Want)
			require.NoError(t, err)
			assert.Equal(t, core.StatusCompleted, a.(core.Action).Status.Type)
			assert.Equal(t, 1, begun[runningTool(n+1).Want.ID], "tool %d", n)
		}
	})
}

func TestAStopWaitsForTheDiskAndAnswers(t *testing.T) {
	for _, all := range [][]engine.Request{{runningTool(1)}, {runningTool(1), acquire("ann")}} {
		synctest.Test(t, func(t *testing.T) { stopAtWork(t, all) })
	}
}

func stopAtWork(t *testing.T, all []engine.Request) {
	d, begun := newLateDisk(t), map[uuid.UUID]int{}
	e := idle(t, engine.Options{Store: d, TickRate: time.Hour, LeaseTTL: 24 * time.Hour, StopTimeout: time.Second, Hooks: engine.Hooks{Procedure: tool(begun, nil)}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	d.settled()
	var waiting []chan error
	for _, r := range all {
		waiting = append(waiting, asked(e, r))
	}
	cancel()
	<-time.After(time.Minute) // longer than it waits for what runs
	unanswered(t, waiting...)
	select {
	case err := <-ended:
		require.Fail(t, "it has left what was staged", "%v", err)
	default:
	}

	d.settled()

	for _, done := range waiting {
		require.NoError(t, <-done)
	}
	for {
		d.settled()
		select {
		case err := <-ended:
			require.NoError(t, err)
			return
		case <-time.After(time.Second):
		}
	}
}

func TestAFenceCountsOnceItIsDurableAndLetsWhatWasDecidedBeforeGoItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := map[uuid.UUID]int{}
		e, d := beginLate(t, engine.Options{Hooks: engine.Hooks{Procedure: tool(begun, nil)}})
		first := asked(e, runningTool(1))
		fenced := make(chan error, 1)
		go func() {
			fenced <- d.Update(context.Background(), func(tx store.Tx) error { return tx.Fence("instance/0") })
		}()
		synctest.Wait()
		second := asked(e, acquire("ann"))
		unanswered(t, first, second)
		d.settled()
		require.NoError(t, <-first)
		require.NoError(t, <-fenced)
		require.NoError(t, <-second, "under a claim of its own again")
		require.Len(t, begun, 1)
	})
}

func everyMinute(n byte) engine.Request {
	ref := effects.Ref{Kind: core.KindRecurring, ID: uuid.UUID{14: 1, 15: n}}
	return engine.Request{Want: ref, Inputs: []core.Input{{To: ref, Event: core.RecurringCreate{Spec: core.RecurringSpec{
		ID: ref.ID, Namespace: "n", Tenant: "t", CronExpr: "* * * * *", Timezone: "UTC", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{Provider: "http", ActionType: "x", Payload: json.RawMessage("{}")},
	}}}}}
}

// Three would each make an action of a tenant that may have one, in two batches.
func TestWhatIsAllowedIsAskedOnceWhatWasDecidedBeforeIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, most := int64(0), int64(0)
		e, d := beginLate(t, engine.Options{MaxBatch: 2, Hooks: engine.Hooks{
			Procedure: tool(map[uuid.UUID]int{}, nil),
			Count: func(c engine.Committed) {
				for _, ch := range c.Changes {
					if ch.Ref.Kind == core.KindAction && ch.Before == nil {
						live++
					}
				}
				most = max(most, live)
			},
			Allowed: func(_ core.Scope, kind effects.Kind) core.Allowance {
				return core.Allowance{Left: 1 - live, Most: 1, What: "actions"}
			},
		}})
		for n := range byte(3) {
			made := asked(e, everyMinute(n+1))
			d.settled()
			require.NoError(t, <-made)
		}
		for range 3 {
			<-time.After(time.Minute)
			d.settled()
		}
		assert.EqualValues(t, 1, most)
	})
}

// TestNothingIsSeenBeforeItIsDurable has callers ask, tools end, others write, time pass, the
// disk answer and at last perhaps fail, in any order. Whatever anybody gets to see meanwhile
// must have been durable by then.
func TestNothingIsSeenBeforeItIsDurable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 999), 5, 60).Draw(rt, "steps")
		fails := rapid.Bool().Draw(rt, "the disk fails at last")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			w := newWitness(t)
			for _, n := range steps {
				w.step(n)
			}
			w.end(fails)
			wrong = w.wrong
		})
		if len(wrong) > 0 {
			rt.Fatalf("%v", wrong)
		}
	})
}

// witness watches an engine over a late disk.
type witness struct {
	*lateDisk
	t      *testing.T
	e      *engine.Engine
	stop   func()
	ended  chan error
	finish chan struct{}
	begun  map[store.EffectKey]int
	wait   sync.WaitGroup

	mu    sync.Mutex
	wrong []string
}

func newWitness(t *testing.T) *witness {
	w := &witness{lateDisk: newLateDisk(t), t: t, finish: make(chan struct{}), begun: map[store.EffectKey]int{}, ended: make(chan error, 1)}
	w.e = idle(t, engine.Options{
		Store: w.lateDisk, TickRate: time.Hour, LeaseTTL: 24 * time.Hour, Concurrency: map[string]int{"http": 2}, MaxBatch: 4,
		Hooks: engine.Hooks{Procedure: w.procedure, Count: w.committed, Committed: w.committed},
	})
	sub := w.e.Subscribe(func(ev effects.Event) bool {
		if ev.Source.Component == string(core.KindAction) && !w.known(effects.Ref{Kind: core.KindAction, ID: ev.Source.ID}) {
			w.is("the event %v", ev)
		}
		return false
	}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = func() { cancel(); sub.Close() }
	go func() { w.ended <- w.e.Run(ctx) }()
	w.settled()
	return w
}

func (w *witness) is(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...)+" was seen before it was durable")
}

// known reports whether there was durably such an action once.
func (w *witness) known(ref effects.Ref) bool {
	w.lateDisk.mu.Lock()
	defer w.lateDisk.mu.Unlock()
	return ref.Kind != core.KindAction || w.lives[ref] || w.gone[ref]
}

func (w *witness) sees(what string, s core.State) {
	w.lateDisk.mu.Lock()
	ok := s == nil || w.states[string(s.AppendJSON(nil))]
	w.lateDisk.mu.Unlock()
	if !ok {
		w.is("%s: %s", what, s.AppendJSON(nil))
	}
}

func (w *witness) procedure(o engine.OuterEffect) engine.Procedure {
	key := store.EffectKey{ID: o.State.Ref().ID, N: o.Effect.Number()}
	w.begun[key]++
	w.lateDisk.mu.Lock()
	handed := w.handed[key]
	w.lateDisk.mu.Unlock()
	if !handed || w.begun[key] > 1 {
		w.is("start %d of %v", w.begun[key], key)
	}
	return engine.Procedure{What: "tool", Call: func(ctx context.Context) (json.RawMessage, error) {
		select {
		case <-w.finish:
			return json.RawMessage(`1`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

var lockNames = [...]string{"a", "b", "c"}

func (w *witness) committed(c engine.Committed) {
	if len(c.Changes) > 0 && c.Seq() > w.seq() {
		w.is("batch %d", c.Seq())
	}
	for _, ch := range c.Changes {
		w.sees("a change", ch.After)
	}
	for _, name := range lockNames {
		ref := core.LockRef("", "", name)
		if s, ok := c.Cached(ref); ok {
			w.sees("what is at hand", s)
		}
		if s, err := c.State(ref); err == nil {
			w.sees("a state", s)
		}
	}
}

// ask sends a request; its answer, also if that is a refusal, must be durable.
func (w *witness) ask(r engine.Request) {
	w.wait.Go(func() {
		rep, err := w.e.Ask(context.Background(), r)
		if err == nil && rep.Err == nil {
			w.sees("an answer", rep.State)
			if rep.Result.Refused != nil && r.Want.Kind == core.KindAction && !w.known(r.Want) && rep.State != nil {
				w.is("the refusal %v", rep.Result.Refused)
			}
		}
	})
}

func (w *witness) step(n int) {
	what, k := n%15, n/15
	holder, name := fmt.Sprint("h", k%2), lockNames[k/2%3]
	lock, action := core.LockRef("", "", name), runningTool(byte(1+k%5))
	switch what {
	case 0, 1, 2:
		w.ask(engine.Request{Want: lock, Inputs: []core.Input{{To: lock, Event: core.LockAcquire{Name: name, Holder: holder}}}})
	case 3:
		w.ask(engine.Request{Want: lock, Inputs: []core.Input{{To: lock, Event: core.LockRelease{Holder: holder}}}})
	case 4, 5, 6:
		w.ask(action)
	case 7:
		w.ask(engine.Request{Want: action.Want, Inputs: []core.Input{{To: action.Want, Event: core.ActionCancel{}}}})
	case 8:
		select {
		case w.finish <- struct{}{}:
		default:
		}
	case 9:
		w.wait.Go(w.readAndWrite)
	case 10:
		<-time.After(time.Duration(k) * time.Second)
	default:
		w.answer(nil)
	}
	synctest.Wait()
}

// readAndWrite is somebody else who writes.
func (w *witness) readAndWrite() {
	var seq uint64
	err := w.Update(context.Background(), func(tx store.Tx) (err error) {
		seq, err = tx.Seq()
		return errors.Join(err, tx.SetMeta("other", []byte{byte(seq)}))
	})
	if err == nil && seq > w.seq() {
		w.is("batch %d", seq)
	}
}

func (w *witness) end(fails bool) {
	if fails {
		w.answer(errors.New("input/output error"))
	}
	w.settled()
	w.wait.Wait() // everybody is answered
	w.stop()
	for {
		w.settled()
		select {
		case err := <-w.ended:
			require.True(w.t, err == nil || w.failed(), "%v", err)
			return
		case <-time.After(time.Second):
		}
	}
}
