package kubetest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// stage brings a run into a state in which it stays, and lets it go on from there.
type stage struct {
	state core.OrchestratorStatus
	// reach makes a job and a run of it that comes to stay in the state.
	reach func(w *world) uuid.UUID
	// release lets it go on; nil: it does by itself.
	release func(w *world)
	// attempts is how many pods the run has had once it has ended well.
	attempts int
}

// stages are the non-terminal states in which a run rests. The two that it passes
// within one transition, condition_pending and action_pending, are never stored.
var stages = []stage{
	{core.OrchestratorPreRun, func(w *world) uuid.UUID {
		at := time.Now().Add(75 * time.Second).UTC().Truncate(time.Second)
		w.job("job", fakePod(), func(j *core.JobSpec) {
			j.Schedule, j.CreateAheadMS = "@at "+at.Format(time.RFC3339), time.Hour.Milliseconds()
		})
		var run uuid.UUID
		eventually(w.t, func() error {
			runs, err := w.orrery.Runs("job")
			if err == nil && len(runs) == 1 {
				run = runs[0].ID
				return nil
			}
			return errNotYet("a run", err)
		})
		return run
	}, nil, 1},
	{core.OrchestratorPending, func(w *world) uuid.UUID {
		first := w.runs("job", fakePod(), func(j *core.JobSpec) {
			j.MaxConcurrentRuns, j.ConstraintConfig = 1, gate("check")
		})
		w.reaches(first, core.OrchestratorConditionRunning)
		run, err := w.orrery.Trigger("job")
		require.NoError(w.t, err)
		w.t.Cleanup(func() { _ = w.gates.open("check") })
		return run
	}, opens("check"), 1},
	{core.OrchestratorConditionRunning, func(w *world) uuid.UUID {
		return w.runs("job", fakePod(), func(j *core.JobSpec) { j.ConstraintConfig = gate("check") })
	}, opens("check"), 1},
	{core.OrchestratorActionRunning, func(w *world) uuid.UUID {
		return w.runs("job", fakePod(), func(j *core.JobSpec) { j.ConstraintConfig = gate("action") })
	}, opens("action"), 1},
	{core.OrchestratorContainerCreating, func(w *world) uuid.UUID {
		// There is a pod, and no node for it yet.
		pod := fakePod()
		pod["nodeSelector"] = map[string]string{w.ownLabel(): "yes"}
		run := w.runs("job", pod, nil)
		w.pod(run, 0, nil)
		return run
	}, (*world).labelNode, 1},
	{core.OrchestratorRunning, func(w *world) uuid.UUID {
		return w.runs("job", realOrFake(w), labelled(kubetest.RunFor, "60s"))
	}, nil, 1},
	{core.OrchestratorTerminating, func(w *world) uuid.UUID {
		// The answers about logs are lost until it is released.
		w.proxy.Inject(kubetest.Fault{Match: func(c kubetest.Call) bool { return c.Subresource == "log" }, Status: 503})
		return w.runs("job", fakePod(), nil)
	}, func(w *world) { w.proxy.Heal() }, 1},
	{core.OrchestratorRetrying, func(w *world) uuid.UUID {
		return w.runs("job", fakePod(), func(j *core.JobSpec) {
			labelled(kubetest.ExitCode, "1")(j)
			j.RetryConfig = core.RetryConfig{MaxRetries: 1, InitialDelayMS: 60_000, MaxDelayMS: 60_000}
		})
	}, nil, 2},
}

func TestARunThatIsCancelledInAnyStateLeavesNothing(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	for _, s := range stages {
		t.Run(string(s.state), func(t *testing.T) {
			t.Parallel()
			w := start(t, c)
			run := s.reach(w)
			w.reaches(run, s.state)

			require.NoError(t, w.orrery.Cancel(run))
			if s.state == core.OrchestratorTerminating {
				s.release(w) // it cleans up when it can
			}
			o := w.until(run, "cancelled", func(o core.Orchestrator) bool { return o.State == core.OrchestratorCancelled })

			assert.Contains(t, o.Error, "a test")
			if s.state == core.OrchestratorPending {
				require.NoError(t, w.gates.open("check")) // the run before it
			}
			w.leavesNothing()
		})
	}
}
