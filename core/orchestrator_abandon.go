package core

import (
	"strings"

	"github.com/orrery-go/orrery/effects"
)

// abandon ends the cleanup of a run whose deletions fail, although something of it may still
// be in the cluster: the run goes on as if nothing were. While its pod may live there is no
// other attempt, and its error says so.
func (t *orchestratorTransition) abandon(e OrchestratorAbandon) {
	if !t.Cleanup.Failing() {
		t.refuseAbandon()
		return
	}
	cleans := t.State.Terminal() || t.Step == StepLogs || t.Step == StepDeleting
	t.Cleanup.AbandonedAt, t.Cleanup.RetryAt = max(t.clock.Now, effects.MinTime), 0
	t.InCluster, t.UpdatedAt = false, t.clock.Now
	if t.State.Terminal() {
		t.noteAbandoned()
	}
	t.announce("cleanup_abandoned", struct {
		Reason   string `json:"reason"`
		Pod      string `json:"pod,omitempty"`
		MayRun   bool   `json:"may_run"`
		Failures uint32 `json:"failures"`
		Error    string `json:"error"`
	}{boundedReason(e.Reason, "abandoned"), t.Pod.Name, !t.podIsOver(), t.Cleanup.Failures, t.Cleanup.Error})
	if cleans { // else its post-execution constraints are decided, and it goes on by itself
		t.withdraw(&t.Pending)
		t.Step = StepNone
		t.afterCleanup()
	}
}

// refuseAbandon says what is right instead.
func (t *orchestratorTransition) refuseAbandon() {
	run := clip(t.RunID)
	switch {
	case !t.Cleanup.AbandonedAt.IsZero():
		t.conflict("run %s was abandoned already, at %s", run, t.Cleanup.AbandonedAt)
	case !t.InCluster && t.State.Terminal():
		t.conflict("run %s is %s, and has nothing in a cluster: there is nothing to abandon", run, t.State)
	case t.Step == StepDeleting || t.Step == StepLogs:
		t.conflict("run %s is being cleaned up, and that has not failed: it can be abandoned once a deletion has failed", run)
	default:
		t.conflict("run %s is %s: cancel it first; it can be abandoned once its pod cannot be deleted", run, t.State)
	}
}

// noteAbandoned has the error of a run that ends, or has ended, say that its pod may live.
func (t *orchestratorTransition) noteAbandoned() {
	if !t.abandonedAlive() {
		return
	}
	pod := "its pod"
	if t.Pod.Name != "" {
		pod += " " + clip(t.Pod.Name)
	}
	t.Error = firstText(strings.TrimSuffix("abandoned: "+pod+" may still run; "+t.Error, "; "))
}

// abandonedAlive reports whether the pod of the attempt may live, and nobody deletes it: then
// no other attempt follows.
func (o Orchestrator) abandonedAlive() bool {
	return !o.Cleanup.AbandonedAt.IsZero() && !o.podIsOver()
}
