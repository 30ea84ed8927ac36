package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// terminal is a fake of terminal sessions: an interpreter and an observer, which
// sees what the test says.
type terminal struct {
	mu   sync.Mutex
	did  []string
	look shell.SessionObservation
}

func (s *terminal) Carry(_ context.Context, _ effects.Ref, e effects.Outer) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, fmt.Sprintf("%T", e))
	return nil, nil
}

func (s *terminal) Observe(_ context.Context, sessions []string) (out []shell.SessionObservation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range sessions {
		o := s.look
		o.Session = name
		out = append(out, o)
	}
	return out, nil
}

func (s *terminal) done() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.did...)
}

// 003 Task: what goes silent is nudged, then restarted, and at last somebody is
// told.
func TestATaskThatGoesSilentIsNudgedRestartedAndEscalated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &terminal{look: shell.SessionObservation{Alive: true, IdleFor: time.Hour, Tail: "> "}}
		e := running(t, shell.Options{Store: inBolt(t), TickRate: time.Hour, Sessions: s, Interpreters: map[string]shell.Interpreter{effects.LaneSession: s, effects.LaneNotify: s}})
		p := begin(t, e, core.PhaseDef{Name: "agent", Task: &core.AgentPrompt{Command: []string{"agent"}, Workspace: "here", Config: core.TaskConfig{
			HeartbeatTimeoutMS: 60_000, IdleTimeoutMS: 120_000, RecoveryIntervalMS: 60_000, MaxRecoveryAttempts: 2,
		}}})
		elapse(time.Minute)
		assert.Equal(t, []string{"effects.Spawn"}, s.done())
		elapse(30 * time.Minute)
		assert.Equal(t, []string{"effects.Spawn", "effects.Nudge", "effects.Kill", "effects.Spawn"}, s.done()[:4], "first it is nudged, then restarted")
		assert.Equal(t, "effects.Kill", s.done()[len(s.done())-1], "nothing is left of it: %v", s.done())
		got := state(t, e, p.ID).Phase
		assert.Equal(t, core.PhaseFailure, got.Type, "%+v", got)
		tasks, _, err := e.Tasks().List(bg(), shell.MachineFilter{Status: string(core.TaskDone)}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, tasks, 1)
		assert.EqualValues(t, 2, tasks[0].RecoveryAttempts)
		stats, err := e.RunbookStats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 1, stats.Events[effects.KindEscalate], "somebody is called, once")
	})
}

// The engine is stopped and started again in the midst of each kind of phase that
// waits, and the definition that the caller had is spoilt meanwhile.
func TestAPipelineGoesOnAfterAStopInEachKindOfPhase(t *testing.T) {
	child := core.PipelineDef{Name: "child", Phases: []core.PhaseDef{{Name: "stay", Manual: &core.ManualPhase{}}}}
	for name, c := range map[string]struct {
		phase  core.PhaseDef
		answer func(t *testing.T, e *shell.Engine, p core.Pipeline)
	}{
		"wait": {core.PhaseDef{Wait: &core.WaitPhase{ForMS: 60_000}}, func(*testing.T, *shell.Engine, core.Pipeline) { elapse(2 * time.Minute) }},
		"signal": {core.PhaseDef{Signal: &core.SignalPhase{Name: "go"}}, func(t *testing.T, e *shell.Engine, p core.Pipeline) {
			_, err := e.Pipelines().Send(bg(), p.ID, core.PipelineSignal{Name: "go"})
			require.NoError(t, err)
		}},
		"approval": {core.PhaseDef{Approval: &core.ApprovalPhase{}}, func(t *testing.T, e *shell.Engine, p core.Pipeline) {
			_, err := e.Pipelines().Send(bg(), p.ID, core.PipelineApprove{Phase: "it", By: "me", Approved: true})
			require.NoError(t, err)
		}},
		"manual": {core.PhaseDef{Manual: &core.ManualPhase{}}, func(t *testing.T, e *shell.Engine, p core.Pipeline) {
			_, err := e.Pipelines().Send(bg(), p.ID, core.PhaseComplete{Phase: "it"})
			require.NoError(t, err)
		}},
		"task": {core.PhaseDef{Task: &core.AgentPrompt{Prompt: "x"}}, func(t *testing.T, e *shell.Engine, _ core.Pipeline) {
			tasks, _, err := e.Tasks().List(bg(), shell.MachineFilter{}, shell.Page{})
			require.NoError(t, err)
			require.Len(t, tasks, 1)
			_, err = e.Tasks().Send(bg(), tasks[0].ID, core.TaskComplete{})
			require.NoError(t, err)
		}},
		"push": {core.PhaseDef{Push: &core.PushPhase{Queue: "work", Wait: true}}, func(t *testing.T, e *shell.Engine, _ core.Pipeline) {
			items := take(t, e, shell.TakeOptions{})
			require.Len(t, items, 1)
			require.NoError(t, e.Queues().Complete(bg(), shell.HoldOf(items[0]), nil))
		}},
		"pipelines": {core.PhaseDef{Pipelines: &core.PipelinesPhase{Wait: true, Start: []core.PipelineStartDef{{Definition: child}}}}, func(t *testing.T, e *shell.Engine, p core.Pipeline) {
			list, _, err := e.Pipelines().List(bg(), shell.MachineFilter{}, shell.Page{})
			require.NoError(t, err)
			require.Len(t, list, 2)
			for _, c := range list {
				if c.ID != p.ID {
					_, err := e.Pipelines().Send(bg(), c.ID, core.PhaseComplete{Phase: "stay"})
					require.NoError(t, err)
				}
			}
		}},
		"lock": {core.PhaseDef{Lock: &core.LockPhase{Name: "one"}}, func(t *testing.T, e *shell.Engine, _ core.Pipeline) {
			_, err := e.Locks().Send(bg(), flow, "one", core.LockRelease{Holder: "somebody"})
			require.NoError(t, err)
		}},
		"semaphore": {core.PhaseDef{Semaphore: &core.SemaphorePhase{Name: "two"}}, func(t *testing.T, e *shell.Engine, _ core.Pipeline) {
			_, err := e.Semaphores().Send(bg(), flow, "two", core.SemaphoreRelease{Holder: "somebody"})
			require.NoError(t, err)
		}},
		"run, whose tool is given back":  {core.PhaseDef{Run: &core.ToolRun{Tool: "slow", Input: json.RawMessage(`1`), OnInterrupt: core.InterruptRetry}}, nil},
		"notify, which is carried again": {core.PhaseDef{Notify: &core.NotifyPhase{Title: "x"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, hangs := inBolt(t), true
				slow := func(ctx context.Context) (json.RawMessage, error) {
					if hangs {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, nil
				}
				o := shell.Options{
					Store: st, TickRate: time.Hour, StopTimeout: time.Second,
					Tools:        map[string]shell.Tool{"slow": shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) { return slow(ctx) })},
					Interpreters: map[string]shell.Interpreter{effects.LaneNotify: carrying(slow)},
				}
				e, stop := start(t, o)
				_, err := e.Locks().Send(bg(), flow, "one", core.LockAcquire{Name: "one", Namespace: "ns", Tenant: "t", Holder: "somebody"})
				require.NoError(t, err)
				_, err = e.Semaphores().Send(bg(), flow, "two", core.SemaphoreAcquire{Name: "two", Namespace: "ns", Tenant: "t", Holder: "somebody", Slots: 2, Total: 2})
				require.NoError(t, err)
				it := c.phase
				it.Name = "it"
				phases := []core.PhaseDef{it, {Name: "last", Checkpoint: &core.CheckpointPhase{Message: "here"}}}
				p := begin(t, e, phases...)
				synctest.Wait()
				require.True(t, atPhase("it")(state(t, e, p.ID)), "%+v", state(t, e, p.ID).Phase)
				require.NoError(t, stop())
				verify(t, st)
				phases[1] = core.PhaseDef{Name: "edited", Manual: &core.ManualPhase{}}

				hangs = false
				e, stop = start(t, o)
				if c.answer != nil {
					c.answer(t, e, p)
				}
				elapse(10 * time.Minute)
				got := state(t, e, p.ID)
				assert.Equal(t, core.PhaseDone, got.Phase.Type, "%+v", got.Phase)
				if assert.Len(t, got.Checkpoints, 1) {
					assert.Equal(t, "here", got.Checkpoints[0].Message)
				}
				require.NoError(t, stop())
				verify(t, st)
			})
		})
	}
}
