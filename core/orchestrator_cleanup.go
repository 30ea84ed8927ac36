package core

import (
	"math"

	"github.com/orrery-go/orrery/effects"
)

// RunCleanup says that what a run has in its cluster could not be deleted so far, see
// [Orchestrator]. It is zero unless the latest deletion of the present attempt has failed, also
// if an operator has abandoned the attempt then.
type RunCleanup struct {
	FailedSince Time   `json:"failed_since"`       // when the first deletion failed
	Failures    uint32 `json:"failures"`           // deletions that have failed since
	Error       string `json:"error"`              // why the latest one has
	RetryAt     Time   `json:"retry_at,omitempty"` // of the next deletion; zero: it is under way, or there is none
	// AbandonedAt is when an operator has given the cleanup up, see [OrchestratorAbandon]: what
	// the attempt had in the cluster may still be there. Zero: nobody did.
	AbandonedAt Time `json:"abandoned_at,omitempty"`
}

// Failing reports whether a deletion has failed, and none has succeeded since, and whether it
// is tried again.
func (c RunCleanup) Failing() bool { return !c.FailedSince.IsZero() && c.AbandonedAt.IsZero() }

// A deletion that failed is tried again after firstCleanupDelayMS, and each further
// failure doubles the wait up to maxCleanupDelayMS. After cleanupPatienceMS the wait is a
// quarter of the time beyond that, up to longCleanupDelayMS: an operator who has not mended
// the cause by then has no use for a try each minute. It never ends: a right that was taken away is given back
// some day, and a cluster comes back.
const (
	firstCleanupDelayMS = 1_000
	maxCleanupDelayMS   = 60_000
	cleanupPatienceMS   = 3_600_000
	longCleanupDelayMS  = 900_000
)

// cleanupDelayMS is how long to wait before the next deletion. Before version 6 it did not
// grow beyond maxCleanupDelayMS.
func (t *orchestratorTransition) cleanupDelayMS() int64 {
	const doublings = 6 // 64 s
	delay := min(int64(firstCleanupDelayMS)<<min(max(t.Cleanup.Failures, 1)-1, doublings), maxCleanupDelayMS)
	if t.clock.Rules.before(6) {
		return delay
	}
	beyond := betweenMS(t.Cleanup.FailedSince, t.clock.Now) - cleanupPatienceMS
	return max(delay, min(beyond/4, longCleanupDelayMS))
}

// podIsOver reports whether the pod of the attempt is known to have ended: what is left of
// it in the cluster runs nothing, and holds nobody up.
func (o Orchestrator) podIsOver() bool { return o.Pod.ExitCode != nil }

// cleanupDue is when a deletion that failed is tried again; zero if nothing waits for that.
// A run that checks its post-execution constraints meanwhile deletes afterwards.
func (o Orchestrator) cleanupDue() Time {
	if !o.InCluster || o.Cleanup.RetryAt.IsZero() || len(o.Pending.Open) > 0 || o.Step != StepDeleting && !o.State.Terminal() {
		return 0
	}
	return max(o.Cleanup.RetryAt, effects.MinTime)
}

// deletionFailed notes that, and tries it again later, for as long as it takes (E5): until
// then the run stays where it is. If the pod has ended the run goes on: nobody has to wait
// for the end of what is left of it.
func (t *orchestratorTransition) deletionFailed(of effects.DeleteRun, reason string, permanent bool) {
	if t.clock.Rules.before(5) {
		t.giveDeletionUp(of, reason, permanent)
		return
	}
	t.noteCleanupFailure(reason)
	if t.leavesRemains() && !t.clock.Rules.before(6) {
		t.releaseLocks()
	}
	switch {
	case !t.podIsOver():
	case t.wantsLogs() && !t.Logs.ToRead: // it ended while it was being deleted
		t.fetchLogs()
	default:
		t.afterCleanup()
	}
}

// giveDeletionUp is what builds before version 5 made of it: they tried it once more, a
// bounded number of times; then the run went on without.
func (t *orchestratorTransition) giveDeletionUp(of effects.DeleteRun, reason string, permanent bool) {
	if !permanent && t.Repeats < MaxEffectRepeats {
		t.Repeats++
		t.reissue(&t.Pending, of)
		return
	}
	t.announce("cleanup_failed", announcementTexts("error", reason))
	t.podDeleted()
}

// noteCleanupFailure notes that a deletion has failed. The first one in a row is announced.
func (t *orchestratorTransition) noteCleanupFailure(reason string) {
	c := &t.Cleanup
	if !c.Failing() {
		c.FailedSince = max(t.clock.Now, effects.MinTime)
		t.announce("cleanup_failed", announcementTexts("error", reason))
	}
	if c.Failures < math.MaxUint32 {
		c.Failures++
	}
	c.Error, c.RetryAt = reason, laterMS(t.clock.Now, t.cleanupDelayMS())
}

// endCleanupFailure announces that what could not be deleted is gone.
func (t *orchestratorTransition) endCleanupFailure() {
	if c := t.Cleanup; c.Failing() {
		t.announce("cleaned_up", struct {
			FailedSince Time   `json:"failed_since"`
			Failures    uint32 `json:"failures"`
		}{c.FailedSince, c.Failures})
	}
	t.Cleanup = RunCleanup{}
}

// noteNotCreated notes that there is nothing to be deleted. If the creation was asked for
// more than once, an earlier one may have had another answer.
func (t *orchestratorTransition) noteNotCreated(r clusterResult) {
	if r.NotCreated && t.Repeats == 0 && t.Pod.UID == "" && !t.clock.Rules.before(5) {
		t.InCluster = false
	}
}

// retryCleanup tries the deletion that has failed once more, now.
func (t *orchestratorTransition) retryCleanup() {
	t.UpdatedAt = t.clock.Now
	t.fetchLogs()
}

// awaitCleanup keeps a run that is about to make another attempt where it is: what the
// attempt before has left is deleted first, so that a run never has two pods.
func (t *orchestratorTransition) awaitCleanup() {
	t.Exit, t.Step = RunExit{To: OrchestratorFailed, Reason: t.Error}, StepDeleting
}

// leavesRemains reports whether the run has ended, and only what can do no harm is still to
// be deleted.
func (o Orchestrator) leavesRemains() bool {
	return o.State.Terminal() && o.Cleanup.Failing() && o.podIsOver()
}
