package page

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

// reached is a run's record once it is in a state of the column, with all borders before it.
func reached(s core.OrchestratorStatus, constraints bool) core.Orchestrator {
	var o core.Orchestrator
	o.CreatedAt, o.ScheduledAt = 1000, 2000
	if constraints {
		o.Config.ConstraintConfig = []byte(`{"window":{}}`)
	}
	for _, border := range []struct {
		to core.OrchestratorStatus
		at *core.Time
	}{
		{core.OrchestratorPreRun, new(core.Time)}, {core.OrchestratorPending, new(core.Time)}, {core.OrchestratorConditionRunning, &o.ConstraintCheckStarted},
		{core.OrchestratorActionRunning, new(core.Time)}, {core.OrchestratorContainerCreating, &o.CreationAskedAt},
		{core.OrchestratorRunning, &o.ExecutionStartedAt}, {core.OrchestratorTerminating, &o.ExecutionEndedAt},
	} {
		*border.at = 3000
		if border.to == s {
			break
		}
	}
	o.State, o.UpdatedAt = s, 7000
	return o
}

func TestTheWayOfARunLeadsAlongTheMapToTheStateThatItHas(t *testing.T) {
	for _, from := range core.OrchestratorStatuses() {
		for _, to := range core.OrchestratorTransitions(from) {
			if passes(from) || passes(to) {
				continue // no run rests there
			}
			skips := from == core.OrchestratorPending && to == core.OrchestratorContainerCreating
			o := reached(from, !skips)
			if from == core.OrchestratorRetrying {
				o = reached(core.OrchestratorTerminating, true)
				o.State = from
			}
			if !to.Terminal() && to != core.OrchestratorRetrying {
				o = reached(to, !skips)
				if from == core.OrchestratorRetrying {
					o.RetryAttempt, o.ConstraintCheckStarted = 1, 0
				}
			}
			o.State, o.PreviousState = to, from
			if to.Terminal() {
				o.CompletedAt = 8000
			}
			path := runSteps(o)
			last := path[len(path)-1]
			assert.Equal(t, to, last.state, "%s → %s", from, to)
			if to.Terminal() {
				assert.Equal(t, core.Time(8000), last.at)
				assert.Equal(t, from, path[len(path)-2].state, "%s → %s: %v", from, to, path)
			}
			for i := 1; i < len(path); i++ {
				assert.Contains(t, core.OrchestratorTransitions(path[i-1].state), path[i].state, "%s → %s: %v", from, to, path)
			}
		}
	}
}

// passes reports whether runs pass a state without a rest.
func passes(s core.OrchestratorStatus) bool {
	return s == core.OrchestratorConditionPending || s == core.OrchestratorActionPending
}
