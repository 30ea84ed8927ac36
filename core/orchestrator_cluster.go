package core

import (
	"encoding/json"
	"math"

	"github.com/orrery-go/orrery/effects"
)

// RunLogs says what is kept of what the pod wrote.
type RunLogs struct {
	Stored    bool   `json:"stored"`
	Bytes     int64  `json:"bytes"`     // kept
	Dropped   int64  `json:"dropped"`   // from the middle
	Error     string `json:"error"`     // why there are none
	Truncated bool   `json:"truncated"` // some were dropped, as many as Dropped says, or more
	// ToRead: Error may pass, and they are read once more as the pod is deleted.
	ToRead bool `json:"to_read,omitempty"`
}

// bounded cleans an answer: either there are logs, or it says why not.
func (l RunLogs) bounded() RunLogs {
	if !l.Stored {
		return RunLogs{Error: boundedReason(l.Error, "none were stored")}
	}
	l.ToRead = false
	l.Bytes, l.Dropped, l.Error = max(l.Bytes, 0), max(l.Dropped, 0), firstText(l.Error)
	return l
}

// clusterResult is what the effects that reach a cluster answer with.
type clusterResult struct {
	APICalls uint32  `json:"api_calls"` // calls of the Kubernetes API
	Logs     RunLogs `json:"logs"`      // of FetchLogs, and of DeleteRun
	// NotCreated, of CreateRun: no runner was asked for the pod.
	NotCreated bool `json:"not_created"`
}

// clusterResult reads an answer, and counts the API calls that it tells of.
func (t *orchestratorTransition) clusterResult(result json.RawMessage) clusterResult {
	var r clusterResult
	if err := json.Unmarshal(storedResult(result), &r); err != nil {
		return clusterResult{}
	}
	t.Metrics.KubernetesAPICalls += min(r.APICalls, math.MaxUint32-t.Metrics.KubernetesAPICalls)
	return r
}

// fetchLogs asks for what the pod wrote, if that is wanted and there may be some; then
// what is in the cluster is deleted. A pod that may still run is deleted at once, and its
// logs are followed meanwhile: what it writes as it ends is the most telling. So are logs
// read that could not be fetched.
func (t *orchestratorTransition) fetchLogs() {
	switch {
	case !t.wantsLogs():
		t.deletePod()
	case t.Logs.ToRead || !t.podIsOver() && !t.clock.Rules.before(5):
		t.delete(true)
	default:
		t.Step, t.Cleanup.RetryAt = StepLogs, 0
		t.ask(effects.FetchLogs{N: t.Pending.next(), Attempt: t.RetryAttempt})
	}
}

// wantsLogs reports whether there may be logs that are to be stored, and that were not
// asked for yet, or for nothing.
func (t *orchestratorTransition) wantsLogs() bool {
	ran := !t.ExecutionStartedAt.IsZero() || t.Pod.ExitCode != nil
	return ran && !t.Config.Logs.Discard && !t.Logs.Stored && (t.Logs.Error == "" || t.Logs.ToRead)
}

// logsFetched notes what is kept of what the pod wrote, and why nothing is.
func (t *orchestratorTransition) logsFetched(logs RunLogs) {
	t.Logs = logs
	t.deletePod()
}

// logsNotFetched notes why nothing is kept of what the pod wrote. What may pass, such as an
// outage, costs no logs: the pod is there until it is deleted, and is read then.
func (t *orchestratorTransition) logsNotFetched(reason string, permanent bool) {
	if permanent || t.clock.Rules.before(6) {
		t.logsFetched(RunLogs{Error: reason})
		return
	}
	t.Logs = RunLogs{Error: reason, ToRead: true}
	t.delete(true)
}

// deletePod deletes what the attempt has in the cluster.
func (t *orchestratorTransition) deletePod() { t.delete(false) }

// delete deletes what the attempt has in the cluster; logs says that what its pod writes
// meanwhile is to be stored.
func (t *orchestratorTransition) delete(logs bool) {
	t.Step, t.Cleanup.RetryAt = StepDeleting, 0
	t.ask(effects.DeleteRun{N: t.Pending.next(), Attempt: t.RetryAttempt, Logs: logs, NoGrace: t.Exit.NoGrace})
}

// deleted takes the answer to a deletion.
func (t *orchestratorTransition) deleted(of effects.DeleteRun, result clusterResult) {
	switch {
	case !of.Logs:
	case t.Logs.ToRead && result.Logs == RunLogs{}: // it says nothing of them
		t.Logs.ToRead = false
	default:
		t.Logs = result.Logs.bounded()
	}
	t.podDeleted()
}

// podDeleted: nothing is left in the cluster. A run that ends goes on to its end, one
// that is terminating to its post-execution constraints.
func (t *orchestratorTransition) podDeleted() {
	t.InCluster, t.Step, t.UpdatedAt = false, StepNone, t.clock.Now
	if t.Ran.EndedAt.IsZero() {
		t.noteEnded()
	}
	t.endCleanupFailure()
	t.afterCleanup()
}

// afterCleanup goes on once nothing of the attempt can run any more.
func (t *orchestratorTransition) afterCleanup() {
	switch {
	case t.State.Terminal():
		t.releaseLocks()
	case t.Exit.To != "":
		t.takeExit()
	case len(t.Config.ConstraintConfig) == 0:
		t.endAttempt()
	default:
		t.Step = StepChecking
		t.ask(effects.CheckConstraints{N: t.Pending.next(), Phase: effects.CheckPost})
	}
}
