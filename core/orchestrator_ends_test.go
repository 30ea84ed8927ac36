package core_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// nextRunInput answers the effect of some run, lets its pod go on, or lets time
// pass to the next deadline; false where none of these is left. With
// faults left it may fail, be lost, cancelled or orphaned instead.
func nextRunInput(t *rapid.T, w world, clock *core.Clock, faults *int) (core.Input, bool) {
	fault := func(label string) bool {
		if *faults == 0 || rapid.IntRange(0, 2).Draw(t, label) > 0 {
			return false
		}
		*faults--
		return true
	}
	var due effects.Ref
	var at core.Time
	for _, ref := range w.refs() {
		s, err := w.Load(ref)
		require.NoError(t, err)
		if _, isJob := s.(core.Job); isJob && fault("to the job") {
			return core.Input{To: ref, Event: rapid.SampledFrom([]core.Event{
				core.JobTrigger{By: "bob"}, core.JobKill{}, core.JobKill{All: true}, core.JobPause{}, core.JobResume{}, core.JobSkipNext{}, core.JobDelete{},
			}).Draw(t, "what")}, true
		}
		if d := s.Deadline(); !d.IsZero() && ref.Kind != core.KindScheduler && (at.IsZero() || d < at) {
			due, at = ref, d
		}
		o, isRun := s.(core.Orchestrator)
		if !isRun {
			continue
		}
		if !o.State.Terminal() && fault("disturb") {
			switch e := drawRunEvent(t, o, *clock).(type) {
			case core.OrchestratorOrphan, core.OrchestratorHeartbeats: // the scheduler's
				clock.Now = clock.Now.Add(31 * time.Second)
				return core.Input{To: core.SchedulerRef(ref.ID), Event: core.SchedulerDue{}}, true
			case core.OrchestratorAdmit, core.OrchestratorCreate: // the job's
			default:
				return core.Input{To: ref, Event: e}, true
			}
		}
		if open := core.Outstanding(o); len(open) > 0 {
			if fault("fail") {
				return core.Input{To: ref, Event: drawAnswer(t, o)}, true
			}
			return core.Input{To: ref, Event: drawRunAnswer(t, o)}, true
		}
		end := podAt(rapid.SampledFrom([]int32{0, 0, 1}).Draw(t, "exit"))
		switch {
		case !o.Cleanup.RetryAt.IsZero(): // only time goes on
		case o.State == core.OrchestratorContainerCreating && !fault("no pod"):
			return core.Input{To: ref, Event: core.PodRunning{Attempt: o.RetryAttempt, Pod: podAt()}}, true
		case o.State == core.OrchestratorRunning, o.Step == core.StepAdopted:
			return core.Input{To: ref, Event: core.PodEnded{Attempt: o.RetryAttempt, Pod: end}}, true
		}
	}
	if at.IsZero() {
		return core.Input{}, false
	}
	clock.Now = max(clock.Now, at)
	if fault("stopped") { // nobody was there when it was due
		clock.Now = clock.Now.Add(time.Duration(rapid.SampledFrom([]int{11, 45, 3700}).Draw(t, "seconds")) * time.Second)
	}
	return core.Input{To: due, Event: core.DueEvent(due.Kind)}, true
}

// Whatever fails, as long as it does not fail for ever: each run of a job comes to
// a terminal state, has its verdict and its metrics, and leaves nothing behind.
func TestEachRunComesToAnEndUnderAnyFiniteSequenceOfFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawJobSpec(t)
		key, clock, w, seq := core.JobRef("", "", spec.ID), core.Clock{Now: start}, world{}, uint64(1)
		if !w.apply(t, seq, core.Input{To: key, Event: core.JobApply{Spec: spec}}, clock).Changed {
			return // an odd one
		}
		scheduled := spec.Schedule != "" // until there are enough runs
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			seq++
			require.Nil(t, w.apply(t, seq, core.Input{To: key, Event: core.JobTrigger{By: "ann"}}, clock).Refused)
		}
		faults := rapid.IntRange(0, 12).Draw(t, "faults")
		for end := seq + 600; seq < end; {
			if scheduled && len(load[core.Orchestrator](w, core.KindOrchestrator)) >= 5 {
				spec.Schedule, scheduled = "", false
				seq++
				w.apply(t, seq, core.Input{To: key, Event: core.JobApply{Spec: spec}}, clock)
			}
			in, ok := nextRunInput(t, w, &clock, &faults)
			if !ok {
				break
			}
			seq++
			w.apply(t, seq, in, clock)
		}
		runs := load[core.Orchestrator](w, core.KindOrchestrator)
		for ref, o := range runs { // order-free: each is checked by itself
			require.True(t, o.State.Terminal(), "%s: %s", ref, encoded(o))
			require.True(t, o.Reported && !o.InCluster && len(o.Pending.Open) == 0, "%s: %s", ref, encoded(o))
			_, ended := core.EndedAt(o)
			require.True(t, ended)
		}
		for ref, job := range load[core.Job](w, core.KindJob) { // order-free: so is each
			n := job.Counts
			require.True(t, ref != key || len(job.Active) == 0, "%s", encoded(job))
			require.True(t, ref != key || n.Dispatched == n.Completed+n.Failed+n.Cancelled+n.Orphaned, "%s", encoded(job))
		}
		for _, s := range load[core.Scheduler](w, core.KindScheduler) { // order-free: and each
			require.Empty(t, s.Runs)
		}
		verdicts := map[uuid.UUID]int{}
		for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: and each
			settled := o.Verdict != core.VerdictWaiting && (o.Verdict != core.VerdictDispatched || o.Outcome != "")
			require.True(t, settled, "%s", encoded(o))
			verdicts[o.ActionID]++
		}
		for ref, o := range runs { // order-free: and each
			require.LessOrEqual(t, verdicts[ref.ID], 1, "%s", ref)
			require.True(t, !o.Admitted || verdicts[ref.ID] == 1, "%s", ref) // others may share an entry
		}
	})
}
