package core_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

// runsAlike is the same for runs between whose edges nothing makes a difference.
func runsAlike(o core.Orchestrator) string {
	return fmt.Sprint(
		o.State, o.PreviousState, o.Step, o.Exit.To, o.Exit.Final, o.RetryAttempt, o.Error == "", o.Decision.Verdict, o.ToTake, len(o.Actions),
		o.InCluster, o.Admitted, len(o.Pending.Open), o.ExecutionStartedAt.IsZero(), len(o.Config.ConstraintConfig), o.Config.ConstraintErrors,
		o.Pod.ExitCode == nil, o.Cleanup.Failing(), o.Cleanup.RetryAt.IsZero(), o.Logs == core.RunLogs{},
	)
}

// eventsFor gives events of each kind, as they may come to a run.
func eventsFor(o core.Orchestrator) []core.OrchestratorEvent {
	var n uint32
	if open := core.Outstanding(o); len(open) > 0 {
		n = open[0].Number()
	}
	attempt, other := o.RetryAttempt, core.Pod{UID: "other"}
	events := []core.OrchestratorEvent{
		core.OrchestratorDue{}, core.OrchestratorConfigure{Config: o.Config}, core.OrchestratorAdmit{Occurrence: id(5)}, core.OrchestratorRetry{},
		core.OrchestratorCancel{}, core.OrchestratorCancel{Missed: true}, core.OrchestratorCancel{NoGrace: true}, core.OrchestratorOrphan{LastHeartbeat: start}, core.OrchestratorHeartbeats{},
		core.PodCreated{Attempt: attempt, Pod: podAt()}, core.PodCreated{Attempt: attempt, Pod: other},
		core.PodRunning{Attempt: attempt, Pod: podAt()}, core.PodRunning{Attempt: attempt, Pod: other},
		core.PodEnded{Attempt: attempt, Pod: podAt(0)}, core.PodEnded{Attempt: attempt, Pod: podAt(1)}, core.PodLost{Attempt: attempt},
		core.ChildEnded{Outcome: core.ChildRefused}, core.ChildEnded{Outcome: core.ChildRefused, N: o.Metrics.ActionsExecuted},
		core.EffectFailed{N: n}, core.EffectFailed{N: n, Permanent: true}, core.EffectFailed{N: n, Result: json.RawMessage(`{"not_created":true}`)}, core.EffectInterrupted{N: n}, core.EffectHandedBack{N: n},
		core.EffectDone{N: n}, core.EffectDone{N: n, Result: report(true)},
	}
	webhook, tolerated := core.ActionRequest{Type: "webhook"}, core.ActionRequest{Type: "webhook", ContinueOnError: true}
	skip, retry := core.ActionRequest{Type: core.ActionSkip}, core.ActionRequest{Type: core.ActionRetryRun}
	for _, actions := range [][]core.ActionRequest{{}, {skip}, {retry}, {webhook}, {webhook, skip}, {tolerated, skip}, {tolerated, retry}} {
		events = append(events, core.EffectDone{N: n, Result: report(false, violated(actions...))})
	}
	asked := core.ActionRequest{Type: core.ActionSkipNext} // of the job, which may refuse it
	return append(events, core.EffectDone{N: n, Result: report(true, violated(tolerated))}, core.EffectDone{N: n, Result: report(true, violated(asked, webhook))})
}

// edgesTaken walks all runs that can be reached from a new one of the jobs, and gives
// the edges of the map, each with the type of the event that took it.
func edgesTaken(jobs ...core.JobSpec) []string {
	var edges []string
	var next []core.Orchestrator
	seen := map[string]bool{}
	reach := func(o core.Orchestrator) {
		if alike := runsAlike(o); !seen[alike] {
			seen[alike] = true
			next = append(next, o)
		}
	}
	for _, job := range jobs {
		reach(madeRun(job))
	}
	for ; len(next) > 0; next = next[1:] {
		for _, e := range eventsFor(next[0]) {
			before := next[0]
			if e.EventType() == "effect_interrupted" {
				before.Repeats = core.MaxEffectRepeats
			}
			for _, late := range []time.Duration{0, time.Hour} {
				after, effs := before.Apply(e, core.Clock{Now: max(before.UpdatedAt, before.Deadline()).Add(late)})
				path := append([]core.OrchestratorStatus{before.State}, entered(step{effs: effs})...)
				for i, to := range path[1:] {
					edges = append(edges, fmt.Sprintf("%s → %s: %s", path[i], to, e.EventType()))
				}
				if refusal(effs) == nil {
					reach(after)
				}
			}
		}
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

func TestTheEventsThatTakeAnEdgeOfTheMapAreThoseThatItNames(t *testing.T) {
	constrained := goldenJobSpec() // which goes on if its checker fails
	constrained.RetryConfig.MaxRetries, constrained.RetryConfig.InitialDelayMS = 1, 0
	closed, plain := constrained, constrained
	closed.ConstraintErrors = core.FailClosed
	plain.ConstraintConfig, plain.Logs.Discard = nil, true

	var named []string
	core.OrchestratorEdges(func(from, to core.OrchestratorStatus, events []string, _ string) {
		for _, e := range events {
			named = append(named, fmt.Sprintf("%s → %s: %s", from, to, e))
		}
	})
	slices.Sort(named)
	assert.Equal(t, named, edgesTaken(constrained, closed, plain))
}

// entering gives, of each state, the methods that enter it: they call to or
// enterTerminal with it. An exit names its state itself: see takeExit.
func entering(t *testing.T) map[string][]string {
	out := map[string][]string{}
	for _, f := range parseCore(t) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "to" || method.Sel.Name == "enterTerminal") {
					if state, ok := call.Args[0].(*ast.Ident); ok && strings.HasPrefix(state.Name, "Orchestrator") {
						name := strings.ToLower(strings.TrimPrefix(state.Name, "Orchestrator"))
						out[name] = append(out[name], fn.Name.Name)
					}
				}
				return true
			})
		}
	}
	out["cancelled"] = []string{"takeExit"}
	return out
}

func TestTheMethodThatTakesAnEdgeOfTheMapIsTheOneThatItNames(t *testing.T) {
	named := map[string][]string{}
	core.OrchestratorEdges(func(from, to core.OrchestratorStatus, events []string, by string) {
		assert.Equal(t, len(events) == 0, by == "", "%s → %s", from, to)
		if name := strings.ReplaceAll(string(to), "_", ""); by != "" && !slices.Contains(named[name], by) {
			named[name] = append(named[name], by)
		}
	})
	found := entering(t)
	for state, methods := range named {
		assert.ElementsMatch(t, methods, slices.Compact(slices.Sorted(slices.Values(found[state]))), state)
	}
	assert.Len(t, found, len(named))
}
