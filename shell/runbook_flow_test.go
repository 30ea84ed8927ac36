package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
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
)

var flow = shell.Scope{Namespace: "ns", Tenant: "t"}

func begin(t *testing.T, e *shell.Engine, phases ...core.PhaseDef) core.Pipeline {
	t.Helper()
	p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Namespace: "ns", Tenant: "t", Definition: core.PipelineDef{Name: "p", Phases: phases}})
	require.NoError(t, err)
	return p
}

func state(t *testing.T, e *shell.Engine, id uuid.UUID) core.Pipeline {
	t.Helper()
	p, err := e.Pipelines().Get(bg(), id)
	require.NoError(t, err)
	return p
}

func run(tool string) *core.ToolRun { return &core.ToolRun{Tool: tool, Input: json.RawMessage(`null`)} }

// 003: the merge worker is woken on pipeline:phase(merge).
func TestAWorkerIsWokenByThePhaseOfAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), TickRate: time.Hour})
		_, err := e.Workers().Send(bg(), flow, "merger", core.WorkerConfigure{Spec: core.WorkerSpec{
			Namespace: "ns", Tenant: "t", Name: "merger", Queue: "work", PollMS: (24 * time.Hour).Milliseconds(), Do: core.WorkerDo{Run: run("count")},
		}})
		require.NoError(t, err)
		_, err = e.Queues().Pause(bg(), work, "", "")
		require.ErrorIs(t, err, shell.ErrNotFound)
		push(t, e, shell.PushOptions{Delay: time.Minute})
		elapse(2 * time.Minute)
		before := c.n.Load()
		sub := core.WorkerWakeSubscriber{
			Match:  core.EventMatch{Category: "pipeline", Action: "phase", Data: map[string]string{"phase": "merge"}},
			Worker: core.MachineName{Namespace: "ns", Tenant: "t", Name: "merger"},
		}
		_, err = e.Subscribers().Send(bg(), flow, core.BusSubscribe{Subscriber: sub.Subscription("merge worker")})
		require.NoError(t, err)
		p := begin(t, e, core.PhaseDef{Name: "build", Manual: &core.ManualPhase{}}, core.PhaseDef{Name: "merge", Manual: &core.ManualPhase{}})
		synctest.Wait()
		woken := func() int { // each wake looks at the queue once
			q, err := e.Workers().Get(bg(), flow, "merger")
			require.NoError(t, err)
			return int(q.Last)
		}
		was := woken()
		_, err = e.Pipelines().Send(bg(), p.ID, core.PhaseComplete{Phase: "build"})
		require.NoError(t, err)
		synctest.Wait()
		assert.Greater(t, woken(), was, "the phase merge has woken it")
		assert.EqualValues(t, 1, max(before, c.n.Load()), "the item was worked on once")
		_, err = e.Pipelines().Send(bg(), p.ID, core.PipelineCancel{Reason: "enough"})
		require.NoError(t, err)
	})
}

func TestALockIsGivenInTheOrderInWhichPipelinesAskedAndSlotsBoundThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		var inside, most atomic.Int64
		tool := shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			<-time.After(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			order = append(order, string(c.Input))
			return nil, nil
		})
		e := running(t, shell.Options{Store: inBolt(t), Tools: tools(tool), TickRate: time.Hour})
		_, err := e.Semaphores().Send(bg(), flow, "two", core.SemaphoreConfigure{Name: "two", Namespace: "ns", Tenant: "t", Slots: 2})
		require.NoError(t, err)
		var want []string
		for n := range 5 {
			begin(t, e, core.PhaseDef{Name: "lock", Lock: &core.LockPhase{Name: "one"}},
				core.PhaseDef{Name: "run", Run: &core.ToolRun{Tool: "count", Input: json.RawMessage(fmt.Sprint(n))}})
			want = append(want, fmt.Sprint(n))
		}
		elapse(10 * time.Minute)
		assert.Equal(t, want, order, "one after the other")
		assert.EqualValues(t, 1, most.Load(), "never two at once")
		most.Store(0)
		for range 5 {
			begin(t, e, core.PhaseDef{Name: "slot", Semaphore: &core.SemaphorePhase{Name: "two"}}, core.PhaseDef{Name: "run", Run: run("count")})
		}
		elapse(10 * time.Minute)
		assert.Len(t, order, 10)
		assert.EqualValues(t, 2, most.Load())
		s, err := e.Semaphores().Get(bg(), flow, "two")
		require.NoError(t, err)
		assert.Empty(t, s.Holders)
	})
}

func TestAFailedPipelineGoesOnAtItsPhaseAndOneThatWaitsForItFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &counting{}, atomic.Int64{}
		flaky := shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
			if second.Add(1) == 1 {
				return nil, errBoom
			}
			return nil, nil
		})
		st := inBolt(t)
		o := shell.Options{Store: st, Tools: map[string]shell.Tool{"count": first, "flaky": flaky}, TickRate: time.Hour}
		e, stop := start(t, o)
		p := begin(t, e, core.PhaseDef{Name: "one", Run: run("count")}, core.PhaseDef{Name: "two", Run: run("flaky")})
		after, err := e.Pipelines().Create(bg(), core.PipelineSpec{Namespace: "ns", Tenant: "t", DependsOn: []uuid.UUID{p.ID}, Definition: core.PipelineDef{Name: "after", Phases: []core.PhaseDef{{Name: "one", Run: run("count")}}}})
		require.NoError(t, err)
		synctest.Wait()
		got := state(t, e, p.ID)
		assert.Equal(t, core.Phase{Type: core.PhaseFailure, Name: "two", Error: "boom", Recoverable: true}, got.Phase)
		require.NoError(t, stop())
		e, stop = start(t, o)
		_, err = e.Pipelines().Send(bg(), p.ID, core.PipelineRetry{})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, core.PhaseDone, state(t, e, p.ID).Phase.Type)
		assert.EqualValues(t, 1, first.n.Load(), "what was done is not done again")
		blocked := state(t, e, after.ID).Phase
		assert.Equal(t, core.PhaseFailure, blocked.Type, "its dependency had failed: %+v", blocked)
		_, err = e.Pipelines().Send(bg(), after.ID, core.PipelineRetry{})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, core.PhaseDone, state(t, e, after.ID).Phase.Type)
		require.NoError(t, stop())
		verify(t, st)
	})
}

func TestACancelledPipelineTakesItsChildrenAndItsLocksAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		hangs := shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		e := running(t, shell.Options{Store: inBolt(t), Tools: map[string]shell.Tool{"hangs": hangs}, TickRate: time.Hour})
		child := core.PipelineDef{Name: "child", Phases: []core.PhaseDef{{Name: "hang", Run: run("hangs")}}}
		holds := begin(t, e, core.PhaseDef{Name: "lock", Lock: &core.LockPhase{Name: "one"}},
			core.PhaseDef{Name: "start", Pipelines: &core.PipelinesPhase{Wait: true, Start: []core.PipelineStartDef{{Definition: child}}}})
		waits := begin(t, e, core.PhaseDef{Name: "lock", Lock: &core.LockPhase{Name: "one"}}, core.PhaseDef{Name: "stay", Manual: &core.ManualPhase{}})
		pushes := begin(t, e, core.PhaseDef{Name: "push", Push: &core.PushPhase{Queue: "work", Wait: true}})
		synctest.Wait()
		require.True(t, atPhase("lock")(state(t, e, waits.ID)))
		for _, p := range []core.Pipeline{holds, pushes} {
			_, err := e.Pipelines().Send(bg(), p.ID, core.PipelineCancel{Reason: "changed my mind"})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.ErrorIs(t, <-ended, shell.ErrCancelled)
		assert.True(t, atPhase("stay")(state(t, e, waits.ID)), "the lock went on")
		list, _, err := e.Pipelines().List(bg(), shell.MachineFilter{Status: string(core.PhaseCancelled)}, shell.Page{})
		require.NoError(t, err)
		assert.Len(t, list, 3, "both and the child")
		assert.Empty(t, take(t, e, shell.TakeOptions{}), "nobody waits for what was pushed")
		_, err = e.Pipelines().Send(bg(), waits.ID, core.PipelineCancel{Reason: "enough"})
		require.NoError(t, err)
	})
}

// carrying is an interpreter that does what it is told to.
type carrying func(ctx context.Context) (json.RawMessage, error)

func (m carrying) Carry(ctx context.Context, _ effects.Ref, _ effects.Outer) (json.RawMessage, error) {
	return m(ctx)
}

func TestAnInterpreterThatMisbehavesFailsItsPhaseAndNothingElse(t *testing.T) {
	big := append(append([]byte{'"'}, make([]byte, 8<<20)...), '"')
	for i := range big[1 : len(big)-1] {
		big[1+i] = 'x'
	}
	for name, c := range map[string]struct {
		does carrying
		want string // a part of the error; empty: the phase is done
	}{
		"it panics":            {func(context.Context) (json.RawMessage, error) { panic("oh dear") }, "oh dear"},
		"it hangs till told":   {func(ctx context.Context) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() }, "time"},
		"it answers garbage":   {func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"a":`), nil }, "JSON"},
		"it answers too much":  {func(context.Context) (json.RawMessage, error) { return big, nil }, "bytes"},
		"it fails with binary": {func(context.Context) (json.RawMessage, error) { return nil, errors.New("\xff\x00") }, "�"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := shell.Options{Store: inMemory(t), TickRate: time.Hour, EffectTimeout: time.Minute, Interpreters: map[string]shell.Interpreter{effects.LaneNotify: c.does}}
				e := running(t, o)
				p := begin(t, e, core.PhaseDef{Name: "tell", Notify: &core.NotifyPhase{Title: "hello"}})
				other := begin(t, e, core.PhaseDef{Name: "rest", Wait: &core.WaitPhase{ForMS: 1000}})
				elapse(5 * time.Minute)
				got := state(t, e, p.ID).Phase
				assert.Equal(t, core.PhaseFailure, got.Type, "%.200s", fmt.Sprintf("%+v", got))
				assert.Contains(t, got.Error, c.want)
				assert.Equal(t, core.PhaseDone, state(t, e, other.ID).Phase.Type)
			})
		})
	}
}

// Records of the new kinds that cannot be read are set aside, whatever they are,
// and the rest goes on.
func TestDamagedRecordsOfRunbooksAreSetAsideAndTheRestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		o := shell.Options{Store: st, TickRate: time.Minute}
		e, stop := start(t, o)
		p := begin(t, e, core.PhaseDef{Name: "rest", Wait: &core.WaitPhase{ForMS: 60_000}})
		task, err := e.Tasks().Create(bg(), core.TaskSpec{Prompt: "x"})
		require.NoError(t, err)
		bad := push(t, e, shell.PushOptions{Key: "k"})
		good := push(t, e, shell.PushOptions{Key: "k"})
		fine := begin(t, e, core.PhaseDef{Name: "rest", Wait: &core.WaitPhase{ForMS: 60_000}})
		synctest.Wait()
		p, bad = state(t, e, p.ID), itemOf(t, e, bad.ID)
		task, err = e.Tasks().Get(bg(), task.ID)
		require.NoError(t, err)
		require.NoError(t, stop())
		for _, s := range []core.State{p, task, bad} {
			spoil(t, st, s)
		}
		e, stop = start(t, o)
		elapse(5 * time.Minute)
		assert.Equal(t, core.PhaseDone, state(t, e, fine.ID).Phase.Type)
		_, err = e.Pipelines().Get(bg(), p.ID)
		require.ErrorIs(t, err, shell.ErrNotFound, "set aside")
		items := take(t, e, shell.TakeOptions{Max: 5})
		require.Len(t, items, 1, "it was the first of its key")
		assert.Equal(t, good.ID, items[0].ID)
		require.NoError(t, stop())
	})
}

func itemOf(t *testing.T, e *shell.Engine, id uuid.UUID) core.QueueItem {
	t.Helper()
	i, err := e.Queues().Item(bg(), work, id)
	require.NoError(t, err)
	return i
}

// An effect of a runbook that cannot be read is set aside, and who asked for it is
// told, so that it does not wait for ever.
func TestAMachineIsToldOfItsEffectThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		hangs := carrying(func(ctx context.Context) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
		o := shell.Options{Store: st, TickRate: time.Minute, StopTimeout: time.Second, Interpreters: map[string]shell.Interpreter{effects.LaneNotify: hangs, effects.LaneGit: hangs}}
		e, stop := start(t, o)
		p := begin(t, e, core.PhaseDef{Name: "tell", Notify: &core.NotifyPhase{Title: "x"}})
		s, err := e.Strategies().Create(bg(), core.StrategySpec{Approaches: []core.Approach{{Name: "merge", Action: core.ApproachAction{
			Merge: &core.MergeRun{Repo: "r", Branch: "b", Into: "m", Strategy: effects.MergeRebase},
		}}}})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, stop())
		var entries []store.OutboxEntry
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			return tx.Outbox(func(o store.OutboxEntry) error { entries = append(entries, o); return nil })
		}))
		require.Len(t, entries, 2)
		require.NoError(t, st.Update(bg(), func(tx store.Tx) error {
			for _, o := range entries {
				o.Effect = []byte(`{"type":"of a later build"}`)
				if err := tx.PutOutbox(o); err != nil {
					return err
				}
			}
			return nil
		}))
		e, stop = start(t, o)
		elapse(10 * time.Minute)
		assert.Equal(t, core.PhaseFailure, state(t, e, p.ID).Phase.Type, "%+v", state(t, e, p.ID).Phase)
		s, err = e.Strategies().Get(bg(), s.ID)
		require.NoError(t, err)
		assert.True(t, s.Status.Ended(), "strategy %s", s.Status)
		require.NoError(t, stop())
	})
}
