package core_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// cluster is a model of what interpreters do in a cluster: what was handed out and
// not answered, and the pods that exist. The effects of one run are carried out one
// after the other, and what is withdrawn may have been carried out nevertheless.
type cluster struct {
	world
	clock   core.Clock
	seq     uint64
	pending []core.OuterEffect
	pods    map[uuid.UUID]map[uint32]podPhase // of a run: its attempts
}

type podPhase string

const (
	podMade podPhase = "made"
	podRuns podPhase = "runs"
	podOver podPhase = "over"
)

// give applies one input, and takes what it hands out and withdraws.
func (c *cluster) give(t *rapid.T, to effects.Ref, e core.Event) core.Result {
	c.seq++
	batch := core.NewBatch(c.world, c.clock, c.seq)
	res, err := batch.Apply(core.Input{To: to, Event: e})
	require.NoError(t, err)
	c.store(batch)
	for _, gone := range batch.Withdrawn() {
		i := slices.IndexFunc(c.pending, func(o core.OuterEffect) bool { return o.From == gone.From && o.Effect.Number() == gone.N })
		if i < 0 {
			continue // it was carried out, and its answer is on the way
		}
		if rapid.Bool().Draw(t, "was it being carried out") {
			c.do(c.pending[i])
		}
		c.pending = slices.Delete(c.pending, i, i+1)
	}
	c.pending = append(c.pending, batch.Outer()...)
	return res
}

// do carries an effect out.
func (c *cluster) do(o core.OuterEffect) {
	if c.pods[o.From.ID] == nil {
		c.pods[o.From.ID] = map[uint32]podPhase{}
	}
	switch e := o.Effect.(type) {
	case effects.CreateRun:
		if _, there := c.pods[o.From.ID][e.Attempt]; !there { // its name is the same: once
			c.pods[o.From.ID][e.Attempt] = podMade
		}
	case effects.DeleteRun:
		delete(c.pods[o.From.ID], e.Attempt)
	}
}

// answer carries out what is first in line, or does not, and answers it.
func (c *cluster) answer(t *rapid.T, calm bool) {
	o := c.pending[0]
	c.pending = slices.Clone(c.pending[1:])
	n := o.Effect.Number()
	outcome := "done"
	if !calm {
		outcome = rapid.SampledFrom([]string{"done", "done", "done", "failed", "done, but the answer is an error", "crash before", "crash after", "handed back"}).Draw(t, "outcome")
	}
	switch outcome {
	case "failed", "crash before", "handed back":
	default:
		c.do(o)
	}
	switch outcome {
	case "done":
		c.give(t, o.From, drawDone(t, o.Effect))
	case "failed", "done, but the answer is an error":
		c.give(t, o.From, core.EffectFailed{N: n, Reason: "no"})
	case "handed back":
		c.give(t, o.From, core.EffectHandedBack{N: n})
	default:
		c.give(t, o.From, core.EffectInterrupted{N: n, Reason: "crash"})
	}
}

// happen lets something happen to a pod.
func (c *cluster) happen(t *rapid.T, run uuid.UUID, attempt uint32, calm bool) {
	switch phase := c.pods[run][attempt]; {
	case !calm && rapid.IntRange(0, 9).Draw(t, "by hand") == 0:
		delete(c.pods[run], attempt)
		c.give(t, refOf(run), core.PodLost{Attempt: attempt, Reason: "deleted by hand"})
	case phase == podMade:
		c.pods[run][attempt] = podRuns
		c.give(t, refOf(run), core.PodRunning{Attempt: attempt, Pod: podAt()})
	default:
		c.pods[run][attempt] = podOver
		c.give(t, refOf(run), core.PodEnded{Attempt: attempt, Pod: podAt(rapid.SampledFrom([]int32{0, 1}).Draw(t, "exit"))})
	}
}

// check holds what must hold at every moment.
func (c *cluster) check(t *rapid.T) {
	for ref, o := range load[core.Orchestrator](c.world, core.KindOrchestrator) { // order-free: each by itself
		require.LessOrEqual(t, len(c.pods[ref.ID]), 1, "two attempts of %s have pods", o.RunID)
		require.True(t, o.CreateBy.IsZero() || o.State == core.OrchestratorContainerCreating && o.ThereAt.IsZero(), "%s", encoded(o))
		if !o.InCluster {
			require.Empty(t, c.pods[ref.ID], "%s is %s and has left a pod behind", o.RunID, o.State)
		}
		if o.State.Terminal() && o.State != core.OrchestratorOrphaned {
			for attempt, phase := range c.pods[ref.ID] { // order-free: there is one
				require.Equal(t, podOver, phase, "%s is %s, and the pod of attempt %d may live", o.RunID, o.State, attempt)
			}
		}
	}
}

// next lets one thing happen; false where nothing is to be expected any more.
func (c *cluster) next(t *rapid.T, job effects.Ref, calm bool) bool {
	var due effects.Ref
	var at core.Time
	var runs []uuid.UUID // that have a pod, to which something may happen
	for _, ref := range c.refs() {
		s, err := c.Load(ref)
		require.NoError(t, err)
		if d := s.Deadline(); !d.IsZero() && ref.Kind != core.KindScheduler && (at.IsZero() || d < at) {
			due, at = ref, d
		}
		over := calm && slices.Equal(slices.Collect(maps.Values(c.pods[ref.ID])), []podPhase{podOver})
		if len(c.pods[ref.ID]) > 0 && !over {
			runs = append(runs, ref.ID)
		}
	}
	var choices []string
	if len(c.pending) > 0 {
		choices = append(choices, "answer", "answer", "answer")
	}
	if len(runs) > 0 && (!calm || len(c.pending) == 0) {
		choices = append(choices, "pod", "pod")
	}
	if !at.IsZero() && (!calm || len(choices) == 0) {
		choices = append(choices, "time")
	}
	if !calm {
		choices = append(choices, "cancel", "silence", "all")
	}
	if len(choices) == 0 {
		return false
	}
	switch rapid.SampledFrom(choices).Draw(t, "next") {
	case "answer":
		c.answer(t, calm)
	case "pod":
		run := rapid.SampledFrom(runs).Draw(t, "run")
		for attempt := range c.pods[run] { // order-free: there is one
			c.happen(t, run, attempt, calm)
			break
		}
	case "time":
		c.clock.Now = max(c.clock.Now, at)
		c.give(t, due, core.DueEvent(due.Kind))
	case "cancel":
		if run := rapid.SampledFrom(c.refs()).Draw(t, "whom"); run.Kind == core.KindOrchestrator {
			c.give(t, run, core.OrchestratorCancel{})
		}
	case "all":
		c.give(t, job, core.JobKill{All: true})
	case "silence":
		c.clock.Now = c.clock.Now.Add(31 * time.Second)
		for _, s := range c.refs() {
			if s.Kind == core.KindScheduler {
				c.give(t, s, core.SchedulerDue{})
			}
		}
	}
	return true
}

// Whatever fails, crashes, is cancelled, orphaned or deleted by hand: no run ever has
// two pods, and none leaves one behind (E5).
func TestNoRunHasTwoPodsNorLeavesOneBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawJobSpec(t)
		spec.Schedule = ""
		c := &cluster{world: world{}, clock: core.Clock{Now: start}, pods: map[uuid.UUID]map[uint32]podPhase{}}
		key := core.JobRef("", "", spec.ID)
		if !c.give(t, key, core.JobApply{Spec: spec}).Changed {
			return // an odd one
		}
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			c.give(t, key, core.JobTrigger{})
		}
		stormy := rapid.IntRange(0, 60).Draw(t, "storm")
		for n := range 500 {
			c.check(t)
			if !c.next(t, key, n >= stormy) {
				break
			}
		}
		c.check(t)
		for ref, o := range load[core.Orchestrator](c.world, core.KindOrchestrator) { // order-free: each by itself
			require.True(t, o.State.Terminal() && !o.InCluster, "%s: %s", ref, encoded(o))
		}
	})
}
