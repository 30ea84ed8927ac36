package kubetest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// No attempt ever has a second pod, whenever the process dies.
func TestARunGoesOnWhereTheProcessIsKilledInAnyState(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	for _, s := range stages {
		t.Run(string(s.state), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c)
			kill := w.launch()
			run := s.reach(w)
			w.reaches(run, s.state)

			kill()
			if s.release != nil {
				s.release(w)
			}
			w.launch()
			o := w.until(run, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() })

			if s.attempts == 1 {
				assert.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
			} else {
				assert.Equal(t, core.OrchestratorFailed, o.State, o.Error)
			}
			if s.state == core.OrchestratorPending {
				assert.Len(t, w.attempts(), 2, "that of the run before it, and its own")
			} else {
				w.onePodEach(run, s.attempts)
			}
			w.leavesNothing()
		})
	}
}

// The create has reached the server, and its answer nobody: the process is killed as
// it waits for it.
func TestARunMakesNoSecondPodWhereTheProcessIsKilledAsItCreatesTheFirst(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	for name, lose := range map[string]bool{"before the server has it": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c)
			kill := w.launch()
			hold := make(chan struct{})
			fault := kubetest.Fault{Match: creating, Times: 1, Hold: hold}
			if lose {
				fault = kubetest.Fault{Match: creating, Times: 1, Lose: true, After: hold}
			}
			w.proxy.Inject(fault)
			run := w.runs("job", fakePod(), labelled(kubetest.RunFor, "60s"))
			if lose {
				w.pod(run, 0, nil)
			} else {
				eventually(t, func() error {
					if len(w.proxy.Calls(creating)) == 0 {
						return errNotYet("a create", nil)
					}
					return nil
				})
			}

			kill()
			close(hold)
			w.launch()
			o := w.ends(run)

			assert.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
			w.onePodEach(run, 1)
		})
	}
}
