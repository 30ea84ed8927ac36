package shell_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// resumed resumes an engine that is paused.
func resumed(t *testing.T, e *shell.Engine) {
	t.Helper()
	was, err := e.Resume(bg())
	require.NoError(t, err)
	require.True(t, was)
}

// Whoever opens a database that was restored looks at it, changes it, and only then lets it go on.
func TestAPausedEngineTakesEveryRequestAndBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := memory.NewSession("first"), &counting{}
		var left, gone, unwanted, ended core.Action
		var r core.RecurringAction
		var inHand uuid.UUID
		q := core.QueueRef("default", "default", "work")
		crashed(t, shell.Options{Store: st, Tools: tools(newGate()), Concurrency: map[string]int{"count": 1}}, func(e *shell.Engine) {
			var err error
			create := func(trigger core.Trigger) core.Action {
				a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: trigger, Policy: core.RunPolicy{OnInterrupt: core.InterruptRetry}})
				require.NoError(t, err)
				return a
			}
			inHand = create(core.Trigger{}).ID
			left, gone, unwanted = create(core.Trigger{}), create(core.Trigger{}), create(at(time.Hour))
			ended = create(at(time.Hour))
			_, err = e.Actions().Cancel(bg(), ended.ID, "")
			require.NoError(t, err)
			r, err = e.Recurring().Create(bg(), everyMinute())
			require.NoError(t, err)
			_, _, err = e.Queues().Push(bg(), "default", "default", "work", shell.PushOptions{Data: []byte(`1`)})
			require.NoError(t, err)
		})
		elapse(10 * time.Minute)

		log := &logLines{}
		o := shell.Options{
			Store: st.Reopen("second"), Tools: tools(c), StartPaused: true, ActionRetention: time.Minute, HeartbeatEvery: time.Second,
			Logger: slog.New(slog.NewTextHandler(log, nil)), Webhooks: map[string]shell.WebhookRoute{"in": {Tool: "count"}},
		}
		began := time.Now()
		e, stop := start(t, o)
		synctest.Wait()
		since, paused := e.PausedSince()
		assert.True(t, paused)
		assert.Equal(t, began.UTC(), since.UTC())
		assert.Len(t, log.with("level=WARN msg=\"the engine is paused"), 1)
		require.NoError(t, e.Health(bg()))

		// What is asked for is done, and follows of it what takes no time.
		_, err := e.Actions().Cancel(bg(), gone.ID, "")
		require.NoError(t, err)
		_, err = e.Actions().Cancel(bg(), unwanted.ID, "")
		require.NoError(t, err)
		cron := "*/2 * * * *"
		_, err = e.Recurring().Update(bg(), r.ID, core.RecurringPatch{CronExpr: &cron})
		require.NoError(t, err)
		fresh, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, core.StatusPending, fresh.Status.Type)
		hook, err := e.Webhooks().Receive(bg(), "in", nil, []byte(`{}`))
		require.NoError(t, err)
		_, _, err = e.Queues().Push(bg(), "default", "default", "work", shell.PushOptions{Data: []byte(`2`)})
		require.NoError(t, err)

		// No worker has an item, neither one that waits.
		asked := time.Now()
		items, err := e.Queues().Take(bg(), q, shell.TakeOptions{Holder: "outside", Wait: 30 * time.Second})
		require.NoError(t, err)
		assert.Empty(t, items)
		assert.Equal(t, 30*time.Second, time.Since(asked))
		_, err = e.Queues().Take(bg(), core.QueueRef("default", "default", "other"), shell.TakeOptions{Holder: "outside"})
		require.ErrorIs(t, err, shell.ErrNotFound)

		elapse(24 * time.Hour)
		before, err := e.Stats(bg())
		require.NoError(t, err)
		elapse(time.Hour)
		after, err := e.Stats(bg())
		require.NoError(t, err)
		assert.Equal(t, before.JournalSeq, after.JournalSeq, "nothing is decided")
		assert.Zero(t, after.Ticks)
		assert.Zero(t, after.Recovered)
		assert.Zero(t, after.Expired, "what has ended long ago is there")
		assert.Zero(t, c.n.Load())
		for id, want := range map[uuid.UUID]core.StatusType{
			inHand: core.StatusRunning, left.ID: core.StatusRunning, gone.ID: core.StatusCancelled, unwanted.ID: core.StatusCancelled, ended.ID: core.StatusCancelled,
			fresh.ID: core.StatusPending, hook: core.StatusPending,
		} {
			assert.Equal(t, want, actionOf(t, e, id).Status.Type)
		}
		now, err := e.Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.Zero(t, now.ExecutionCount)

		// Who waits is served as soon as it goes on.
		waited, taken := make(chan core.Action, 1), make(chan []core.QueueItem, 1)
		go func() {
			a, _ := e.Actions().Wait(bg(), fresh.ID)
			waited <- a
		}()
		go func() {
			items, _ := e.Queues().Take(bg(), q, shell.TakeOptions{Holder: "outside", Max: 10, Wait: time.Hour})
			taken <- items
		}()
		synctest.Wait()
		at := time.Now()
		was, err := e.Resume(shell.WithActor(bg(), "api:ops"))
		require.NoError(t, err)
		require.True(t, was)
		assert.Len(t, <-taken, 2)
		assert.Equal(t, core.StatusCompleted, (<-waited).Status.Type)
		elapse(0)
		assert.Equal(t, at, time.Now())
		_, paused = e.PausedSince()
		assert.False(t, paused)
		resume := log.with("engine resumed")
		require.Len(t, resume, 1)
		assert.Contains(t, resume[0], "actor=api:ops")
		assert.Contains(t, resume[0], "paused_since="+began.UTC().Format(time.RFC3339))
		for _, id := range []uuid.UUID{inHand, left.ID} {
			assert.Equal(t, core.StatusCompleted, actionOf(t, e, id).Status.Type)
		}
		assert.EqualValues(t, 5, c.n.Load(), "one in hand, one that waited, the fresh one, the webhook's, the last time of the schedule")
		was, err = e.Resume(bg())
		require.NoError(t, err)
		assert.False(t, was)
		require.NoError(t, stop())
		verify(t, o.Store)
	})
}

// Times that come while the daemon is paused are missed or caught up as those of an outage are, and
// say so; also if the daemon is stopped, or killed, before it is resumed.
func TestTimesThatComeDuringAPauseSayThatTheDaemonWasPaused(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(t *testing.T, x *outage)
		want []string
	}{
		"resumed": {func(t *testing.T, x *outage) { resumed(t, x.e) },
			[]string{"the daemon was stopped from ", "the daemon was paused from "}},
		"stopped": {func(t *testing.T, x *outage) {
			require.NoError(t, x.stop())
			elapse(10 * time.Second)
			x.again(t)
		}, []string{"the daemon was stopped from ", "the daemon was paused from ", "the daemon was stopped from "}},
		"killed": {func(t *testing.T, x *outage) {
			close(x.store.gone)
			require.Error(t, x.stop())
			elapse(10 * time.Second)
			x.again(t)
		}, []string{"the daemon was stopped from ", "the daemon was paused from ", "(killed, or its machine failed)"}},
		"paused again": {func(t *testing.T, x *outage) {
			require.NoError(t, x.stop())
			elapse(10 * time.Second)
			x.paused = true
			x.again(t)
			elapse(10 * time.Second)
			resumed(t, x.e)
		}, []string{"the daemon was stopped from ", "the daemon was paused from ", "the daemon was stopped from ", "the daemon was paused from "}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &outage{st: memory.NewSession("first"), log: &logLines{}}
				x.start(t, x.st)
				r, err := x.e.Recurring().Create(bg(), everySecond())
				require.NoError(t, err)
				elapse(3*time.Second + 500*time.Millisecond)
				require.NoError(t, x.stop())
				elapse(10 * time.Second)
				x.paused = true
				x.again(t)
				x.paused = false
				elapse(2 * time.Minute) // the claim is renewed
				row.end(t, x)
				elapse(time.Second)

				missed := missedOf(t, x.e, r.ID)
				require.Len(t, missed, len(row.want))
				for i, want := range row.want {
					assert.Contains(t, missed[i].Reason, want)
				}
				assert.EqualValues(t, 10, missed[0].Count)
				for i := 1; i < len(missed); i++ {
					assert.Equal(t, missed[i-1].LastDueAt.Add(time.Second), missed[i].DueAt, "no time is left out")
				}
				require.NoError(t, x.stop())
				verify(t, x.o.Store)
			})
		})
	}
}

// again starts on what the last process has left.
func (x *outage) again(t *testing.T) {
	t.Helper()
	x.st = x.st.Reopen(uuid.NewString())
	x.start(t, x.st)
}

// What a pause ends says so, too: the times that have passed belong to it.
func TestWhatIsPausedByHandDuringAPauseOfTheDaemonNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &outage{st: memory.NewSession("first"), log: &logLines{}, paused: true}
		x.start(t, x.st)
		r, err := x.e.Recurring().Create(bg(), everySecond())
		require.NoError(t, err)
		elapse(10*time.Second + 500*time.Millisecond)
		_, err = x.e.Recurring().Pause(bg(), r.ID, "")
		require.NoError(t, err)
		missed := missedOf(t, x.e, r.ID)
		require.Len(t, missed, 1)
		assert.Regexp(t, `^the daemon was paused from .*; paused before it was dispatched$`, missed[0].Reason)
		resumed(t, x.e)
		elapse(10 * time.Second)
		require.NoError(t, x.stop())
		verify(t, x.o.Store)
	})
}

// The file of a database goes through a pause, a stop within it, and another pause; the replay of its journal
// comes to the same.
func TestAPauseOfADatabaseFileOutlivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		var st store.Store
		begin := func(paused bool) (*shell.Engine, func() error) {
			st = openBolt(t, path)
			e, stop := start(t, shell.Options{Store: st, Tools: tools(c), StartPaused: paused})
			synctest.Wait()
			return e, func() error {
				if err := stop(); err != nil {
					return err
				}
				return st.Close()
			}
		}
		e, stop := begin(true)
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Minute)})
		require.NoError(t, err)
		elapse(time.Hour)
		require.NoError(t, st.Update(bg(), func(tx store.Tx) error { return tx.SetMeta("journal-core", []byte(`"an earlier one"`)) }))
		require.NoError(t, stop())

		e, stop = begin(true)
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			epochs, err := tx.Epochs()
			require.NoError(t, err)
			seq, err := tx.Seq()
			assert.Greater(t, epochs[len(epochs)-1].First, seq, "what this core decides stands in an epoch of its own")
			return err
		}))
		b, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		elapse(time.Hour)
		assert.Zero(t, c.n.Load())
		resumed(t, e)
		synctest.Wait()
		for _, id := range []uuid.UUID{a.ID, b.ID} {
			assert.Equal(t, core.StatusCompleted, actionOf(t, e, id).Status.Type)
		}
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			raw, err := tx.Meta("presence")
			assert.NotContains(t, string(raw), `"paused":`, "the pause has ended")
			assert.Contains(t, string(raw), `"cause":"paused"`)
			return err
		}))
		require.NoError(t, stop())

		e, stop = begin(false)
		_, paused := e.PausedSince()
		assert.False(t, paused, "that the last process was paused is nothing to this one")
		verify(t, st)
		require.NoError(t, stop())
	})
}

// Who resumes an engine that does not run waits until it does, or is told that it never will.
func TestAnEngineIsResumedOnlyWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := shell.New(shell.Options{Store: inMemory(t), Logger: quiet, StartPaused: true})
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(bg(), time.Second)
		defer cancel()
		_, err = e.Resume(soon)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		ctx, end := context.WithCancel(bg())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		synctest.Wait()
		end()
		require.NoError(t, <-done)
		_, err = e.Resume(bg())
		require.ErrorIs(t, err, shell.ErrStopped)
		select {
		case <-e.Resumed():
			assert.Fail(t, "it was not resumed")
		default:
		}
	})
}

// What a request asks for at once, without any time that comes, waits as well.
func TestAnEffectThatAPausedEngineIsAskedForWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		st := memory.NewSession("first")
		o := shell.Options{Store: st, Interpreters: map[string]shell.Interpreter{effects.LaneNotify: carrying(func(context.Context) (json.RawMessage, error) {
			told.Add(1)
			return nil, nil
		})}}
		e, stop := start(t, o)
		p := begin(t, e, core.PhaseDef{Name: "ask", Approval: &core.ApprovalPhase{}}, core.PhaseDef{Name: "tell", Notify: &core.NotifyPhase{Title: "hello"}})
		synctest.Wait()
		require.NoError(t, stop())

		o.Store, o.StartPaused = st.Reopen("second"), true
		e = running(t, o)
		s, err := e.Send(bg(), p.Ref(), core.PipelineApprove{Phase: "ask", Approved: true, By: "ops"})
		require.NoError(t, err)
		require.Len(t, core.Outstanding(s), 1)
		elapse(time.Hour)
		assert.Zero(t, told.Load())
		resumed(t, e)
		done, err := e.Pipelines().Wait(bg(), p.ID)
		require.NoError(t, err)
		assert.Equal(t, core.PhaseDone, done.Phase.Type)
		assert.EqualValues(t, 1, told.Load())
	})
}
