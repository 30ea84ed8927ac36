package shell_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// computer has terminal sessions and worktrees, which are there however often an engine begins.
type computer struct {
	mu       sync.Mutex
	sessions []string
	looked   []string // the sessions that were looked for
}

func (c *computer) Carry(_ context.Context, _ effects.Ref, e effects.Outer) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := e.(type) {
	case effects.Spawn:
		c.sessions = append(c.sessions, e.Session)
		return json.RawMessage(`{"session":"` + e.Session + `"}`), nil
	case effects.Kill:
		c.sessions = slices.DeleteFunc(c.sessions, func(s string) bool { return s == e.Session })
	}
	return nil, nil
}

func (c *computer) Observe(_ context.Context, names []string) ([]shell.SessionObservation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = append(c.looked, names...)
	out := make([]shell.SessionObservation, 0, len(names))
	for _, n := range names {
		out = append(out, shell.SessionObservation{Session: n, Alive: slices.Contains(c.sessions, n)})
	}
	return out, nil
}

func (c *computer) has() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sessions)
}

// at is an engine on a computer, of an instance of that name.
func (c *computer) at(st store.Store, home string) shell.Options {
	return shell.Options{
		Store: st, Home: home, TickRate: time.Hour, Sessions: c, WatchEvery: time.Second,
		Interpreters: map[string]shell.Interpreter{effects.LaneSession: c, effects.LaneGit: c},
	}
}

func agent(recoveries uint32) core.TaskSpec {
	return core.TaskSpec{Command: []string{"agent"}, Config: core.TaskConfig{IdleTimeoutMS: 3_600_000, HeartbeatTimeoutMS: 3_600_000, MaxRecoveryAttempts: recoveries}}
}

// inWorktree is a pipeline that makes a worktree, and works in it.
func inWorktree() core.PipelineSpec {
	tree, work := core.PhaseDef{Name: "tree"}, core.PhaseDef{Name: "work", OnFailure: "told"}
	tree.Worktree = &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "r", Branch: "b", Path: "wt"}
	work.Manual = &core.ManualPhase{}
	told := core.PhaseDef{Name: "told"}
	told.Manual = &core.ManualPhase{}
	return core.PipelineSpec{Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{tree, work, told}}}
}

func TestWhatHasAHomeGoesOnWithAnEngineOfThatHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, a := inMemory(t), &computer{}
		e, stop := start(t, a.at(st, "a"))
		task, err := e.Tasks().Create(bg(), agent(1))
		require.NoError(t, err)
		p, err := e.Pipelines().Create(bg(), inWorktree())
		require.NoError(t, err)
		elapse(2 * time.Second)
		task, err = e.Tasks().Get(bg(), task.ID)
		require.NoError(t, err)
		require.Equal(t, "a", task.Home)
		p, err = e.Pipelines().Get(bg(), p.ID)
		require.NoError(t, err)
		require.Equal(t, []core.Worktree{{Repo: "r", Path: "wt", Home: "a"}}, p.Worktrees)
		require.NoError(t, stop())

		e = running(t, a.at(st, "a"))
		elapse(10 * time.Second)
		now, err := e.Tasks().Get(bg(), task.ID)
		require.NoError(t, err)
		assert.Equal(t, core.TaskRunning, now.State.Type)
		assert.Zero(t, now.Restarts)
		p, err = e.Pipelines().Get(bg(), p.ID)
		require.NoError(t, err)
		assert.Equal(t, "work", p.Phase.Name)
		assert.Equal(t, []string{task.SessionID}, a.has())
	})
}

func TestWhatHasAnotherHomeIsToldLostWhenAnEngineTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, a, b := inMemory(t), &computer{}, &computer{}
		e, stop := start(t, a.at(st, "a"))
		again, err := e.Tasks().Create(bg(), agent(1))
		require.NoError(t, err)
		never, err := e.Tasks().Create(bg(), agent(core.NoRecovery))
		require.NoError(t, err)
		p, err := e.Pipelines().Create(bg(), inWorktree())
		require.NoError(t, err)
		elapse(2 * time.Second)
		require.Len(t, a.has(), 2)
		require.NoError(t, stop())

		e = running(t, b.at(st, "b"))
		synctest.Wait()
		again, err = e.Tasks().Get(bg(), again.ID)
		require.NoError(t, err)
		assert.Equal(t, core.TaskRunning, again.State.Type)
		assert.Equal(t, "b", again.Home)
		assert.Equal(t, uint32(1), again.Restarts)
		assert.Equal(t, []string{again.SessionID}, b.has())
		never, err = e.Tasks().Get(bg(), never.ID)
		require.NoError(t, err)
		assert.Equal(t, `the session is out of reach: its home is the instance "a", and another one works on the task now; 0 of 0 recovery attempts used`, never.State.Result.Error)
		p, err = e.Pipelines().Get(bg(), p.ID)
		require.NoError(t, err)
		assert.Equal(t, "told", p.Phase.Name, "the phase that ran has failed, and says where to go on")
		assert.Contains(t, p.History[len(p.History)-1].Reason, `worktree wt is out of reach: its home is the instance "a"`)
		assert.Empty(t, p.Worktrees)

		elapse(10 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.NotContains(t, b.looked, never.SessionID, "nobody looks here for what is elsewhere")
		assert.Subset(t, []string{again.SessionID}, b.looked)
	})
}

// Each one that is told waits for a commit: one after a takeover of thousands would have thousands of goroutines wait.
func TestMachinesWhoseHomeIsLostAreToldSoManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 600
		st, a, b := inMemory(t), &computer{}, &computer{}
		slots := func(o shell.Options) shell.Options {
			o.DefaultConcurrency = tasks
			return o
		}
		e, stop := start(t, slots(a.at(st, "a")))
		for range tasks {
			_, err := e.Tasks().Create(bg(), agent(core.NoRecovery))
			require.NoError(t, err)
		}
		elapse(2 * time.Second)
		require.Len(t, a.has(), tasks)
		require.NoError(t, stop())

		var said, most atomic.Int32 // since the last commit
		o := b.at(counted{Store: st, batch: func() { most.Store(max(most.Load(), said.Swap(0))) }}, "b")
		o.Logger = slog.New(lineCounter{slog.DiscardHandler, "what a machine has is out of reach: another instance is its home", &said})
		e = running(t, o)
		synctest.Wait()
		lost, _, err := e.Tasks().List(bg(), shell.MachineFilter{Status: string(core.TaskDone)}, shell.Page{Limit: 1000})
		require.NoError(t, err)
		assert.Len(t, lost, tasks)
		assert.LessOrEqual(t, most.Load(), int32(256))
		assert.Greater(t, most.Load(), int32(1), "those of one time are committed together")
	})
}

// counted is a store that tells of each transaction that writes.
type counted struct {
	store.Store
	batch func()
}

func (c counted) Update(ctx context.Context, fn func(store.Tx) error) error {
	c.batch()
	return c.Store.Update(ctx, fn)
}

// lineCounter counts the lines of a log with a message.
type lineCounter struct {
	slog.Handler
	message string
	lines   *atomic.Int32
}

func (lineCounter) Enabled(context.Context, slog.Level) bool { return true }

func (c lineCounter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == c.message {
		c.lines.Add(1)
	}
	return nil
}

func (c lineCounter) WithAttrs([]slog.Attr) slog.Handler { return c }

func TestAWorktreeOnADiskThatAllReachHasNoHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := inMemory(t), &computer{}
		o := c.at(st, "a")
		o.SharedWorkspace = true
		e, stop := start(t, o)
		p, err := e.Pipelines().Create(bg(), inWorktree())
		require.NoError(t, err)
		elapse(time.Second)
		require.NoError(t, stop())

		o.Home = "b"
		e = running(t, o)
		elapse(time.Second)
		p, err = e.Pipelines().Get(bg(), p.ID)
		require.NoError(t, err)
		assert.Equal(t, "work", p.Phase.Name)
		assert.Empty(t, p.Worktrees)
	})
}

func TestAnEngineWithoutAHomeNotesNoneAndTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := inMemory(t), &computer{}
		e, stop := start(t, c.at(st, "a"))
		task, err := e.Tasks().Create(bg(), agent(1))
		require.NoError(t, err)
		elapse(time.Second)
		require.NoError(t, stop())

		e = running(t, c.at(st, ""))
		other, err := e.Tasks().Create(bg(), agent(1))
		require.NoError(t, err)
		elapse(5 * time.Second)
		other, err = e.Tasks().Get(bg(), other.ID)
		require.NoError(t, err)
		assert.Empty(t, other.Home)
		task, err = e.Tasks().Get(bg(), task.ID)
		require.NoError(t, err)
		assert.Zero(t, task.Restarts)
		assert.Equal(t, "a", task.Home)
	})
}
