package core_test

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// mapOf004 is the map of 004 (Allowed Transitions Map), line by line, with what
// ruling R6 adds to it.
var mapOf004 = map[core.OrchestratorStatus][]core.OrchestratorStatus{
	core.OrchestratorPreRun: {
		core.OrchestratorPending,
		core.OrchestratorCancelled,
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorPending: {
		core.OrchestratorConditionPending,
		core.OrchestratorContainerCreating, // skip constraints if none defined
		core.OrchestratorCancelled,
		core.OrchestratorFailed,
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorConditionPending: {
		core.OrchestratorConditionRunning,
		core.OrchestratorCancelled,
		core.OrchestratorFailed,
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorConditionRunning: {
		core.OrchestratorActionPending,     // constraint violated
		core.OrchestratorContainerCreating, // all constraints passed
		core.OrchestratorCancelled,
		core.OrchestratorFailed,
		core.OrchestratorRetrying, // R6
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorActionPending: {
		core.OrchestratorActionRunning,
		core.OrchestratorCancelled,
		core.OrchestratorFailed,
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorActionRunning: {
		core.OrchestratorContainerCreating, // action completed, proceed
		core.OrchestratorCompleted,         // action: skip job
		core.OrchestratorCancelled,
		core.OrchestratorFailed,
		core.OrchestratorRetrying, // R6
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorContainerCreating: {
		core.OrchestratorRunning,
		core.OrchestratorCancelled,
		core.OrchestratorFailed,
		core.OrchestratorRetrying, // R6
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorRunning: {
		core.OrchestratorTerminating,
		core.OrchestratorCancelled,
		core.OrchestratorFailed,
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorTerminating: {
		core.OrchestratorCompleted,
		core.OrchestratorFailed,
		core.OrchestratorRetrying,
		core.OrchestratorCancelled,
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorRetrying: {
		core.OrchestratorPending, // retry attempt
		core.OrchestratorFailed,  // no retries left
		core.OrchestratorCancelled,
		core.OrchestratorOrphaned, // R6
	},
	core.OrchestratorCompleted: {},
	core.OrchestratorFailed:    {},
	core.OrchestratorCancelled: {},
	core.OrchestratorOrphaned:  {},
}

func TestTheMapIsThatOf004WithWhatRulingR6Adds(t *testing.T) {
	require.Len(t, core.OrchestratorStatuses(), 14)
	for _, from := range core.OrchestratorStatuses() {
		assert.ElementsMatch(t, mapOf004[from], core.OrchestratorTransitions(from), "%s", from)
		assert.Equal(t, len(mapOf004[from]) == 0, from.Terminal(), "%s", from)
	}
	assert.Empty(t, core.OrchestratorTransitions("odd"))
	to := core.OrchestratorTransitions(core.OrchestratorPreRun)
	to[0] = core.OrchestratorCompleted
	assert.NotEqual(t, to, core.OrchestratorTransitions(core.OrchestratorPreRun), "who asks for the map must not change it")
}

// 004 Transition Enforcement: all changes of state go through transitionTo.
func TestNoCodeAssignsTheStateOfARunButTheFunctionThatValidatesIt(t *testing.T) {
	assigns := map[string]bool{}
	for _, f := range parseCore(t) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			recv := fn.Recv.List[0].Type
			if ptr, ok := recv.(*ast.StarExpr); ok {
				recv = ptr.X
			}
			if name, ok := recv.(*ast.Ident); !ok || name.Name != "Orchestrator" && name.Name != "orchestratorTransition" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok {
					for _, to := range a.Lhs {
						if field, ok := to.(*ast.SelectorExpr); ok && (field.Sel.Name == "State" || field.Sel.Name == "PreviousState") {
							assigns[fn.Name.Name] = true
						}
					}
				}
				return true
			})
		}
	}
	assert.Equal(t, map[string]bool{"transitionTo": true}, assigns)
}
