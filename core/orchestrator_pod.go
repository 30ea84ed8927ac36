package core

import (
	"cmp"
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// Pod is what is known of a run's pod.
type Pod struct {
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
	Node       string `json:"node,omitempty"`
	Home       string `json:"home,omitempty"`    // the instance on whose computer it runs; empty: it runs in a cluster, or there is one instance
	Reason     string `json:"reason,omitempty"`  // "OOMKilled", say: why it waits or ended; see also [PodAsked]
	Message    string `json:"message,omitempty"` // in more words
	ExitCode   *int32 `json:"exit_code,omitempty"`
	StartedAt  Time   `json:"started_at"`  // as the cluster says
	FinishedAt Time   `json:"finished_at"` // as the cluster says
	// Queued says that there is no pod yet because its runner has no room for one: the limit
	// of its start does not run meanwhile.
	Queued bool `json:"queued,omitempty"`
}

// PodDeleted is the reason of a pod that was deleted while it ran.
const PodDeleted = "Deleted"

// PodCreateRetried is the reason of a pod that could not be asked for yet: the cluster is
// away, say. Its limit of the start does not run.
const PodCreateRetried = "CreateRetried"

// bounded cleans what the cluster says.
func (p Pod) bounded() Pod {
	p.Name, p.UID, p.Node = firstText(p.Name), firstText(p.UID), firstText(p.Node)
	p.Home = firstText(p.Home)
	p.Reason, p.Message = firstText(p.Reason), firstText(p.Message)
	for _, t := range []*Time{&p.StartedAt, &p.FinishedAt} {
		*t = min(max(*t, 0), effects.MaxTime)
	}
	return p
}

// started is bounded, of a pod that is there.
func (p Pod) started() Pod {
	p = p.bounded()
	p.Queued = false
	return p
}

// why says why a pod waits, or ended.
func (p Pod) why() string {
	switch {
	case p.Reason == "":
		return p.Message
	case p.Message == "":
		return p.Reason
	}
	return firstText(p.Reason + ": " + p.Message)
}

// failure says how a pod that has ended failed; empty: it did not.
func (p Pod) failure() string {
	why := p.why()
	switch {
	case p.ExitCode == nil && why == "":
		return "the pod ended without an exit code"
	case p.ExitCode == nil:
		return why
	case *p.ExitCode == 0:
		return ""
	case why == "":
		return fmt.Sprintf("exit code %d", *p.ExitCode)
	}
	return firstText(fmt.Sprintf("exit code %d: %s", *p.ExitCode, why))
}

// replacedBy reports whether it is another pod than the one that is known.
func (p Pod) replacedBy(pod Pod) bool { return p.UID != "" && pod.UID != "" && p.UID != pod.UID }

// A due event that comes later than tardyDueMS says that nobody watched the pod meanwhile: it
// may well have started or ended in time. The run waits to hear of it, once: for tardySpareMS,
// and for lateSpareMS where the event comes later than lateDueMS, as watches have to begin
// anew then. While no runner has looked at it since the process began, it waits as often as it
// takes: for lateSpareMS at first, then twice as long each time, up to longestSpareMS.
const (
	tardyDueMS     = 1000
	tardySpareMS   = 10_000
	lateDueMS      = 10_000
	lateSpareMS    = 60_000
	longestSpareMS = 600_000

	spareMS = 30_000 // each time by rules before 6, to which nothing but lateDueMS is late
)

// spare puts the limit of a pod off, which nobody watched until now.
func (t *orchestratorTransition) spare(at Time, unseen bool) bool {
	watched := t.State == OrchestratorContainerCreating || t.State == OrchestratorRunning
	lag := betweenMS(at, t.clock.Now)
	if !t.SparedAt.IsZero() {
		lag = 0 // that was told before
	}
	old := t.clock.Rules.before(6)
	if !watched || !unseen && (lag <= tardyDueMS || old && lag <= lateDueMS) {
		return false
	}
	switch {
	case old:
	case unseen:
		t.SparedMS = min(max(2*min(t.SparedMS, longestSpareMS), lateSpareMS), longestSpareMS)
	case lag > lateDueMS:
		t.SparedMS = lateSpareMS
	default:
		t.SparedMS = tardySpareMS
	}
	t.SparedAt, t.UpdatedAt = max(t.clock.Now, effects.MinTime), t.clock.Now
	if lag > lateDueMS && !t.CreateBy.IsZero() { // nobody could ask meanwhile
		t.CreateBy = t.createBy()
	}
	return true
}

// spared is that time, or until when it is put off.
func (o Orchestrator) spared(at Time) Time {
	if o.SparedAt.IsZero() {
		return at
	}
	return max(at, laterMS(o.SparedAt, cmp.Or(o.SparedMS, spareMS)))
}

// limit is the run's deadline as though nobody had put it off.
func (o Orchestrator) limit() Time {
	o.SparedAt = 0
	return o.Deadline()
}

// createTimeoutMS is how long a cluster has to be reached by the creation of a pod, at
// least: the pod's time to start counts only from then on.
const createTimeoutMS = 300_000

// CreateTimeoutMS is how long the cluster may take to be reached by the creation of the
// run's pod, in milliseconds.
func (o Orchestrator) CreateTimeoutMS() int64 {
	return max(createTimeoutMS, o.Config.PodStartTimeoutMS)
}

// createBy is until when the cluster must be reached by what is asked for now.
func (t *orchestratorTransition) createBy() Time { return laterMS(t.clock.Now, t.CreateTimeoutMS()) }

// created notes that the attempt has something in the cluster, unless that is known. A pod
// that waits for room is not there.
func (t *orchestratorTransition) created() {
	if !t.CreateBy.IsZero() && !t.Pod.Queued && t.Exit.To == "" {
		t.CreateBy, t.ThereAt, t.SparedAt, t.SparedMS = 0, t.clock.Now, 0, 0
		if t.Pod.expected() {
			t.Pod = Pod{Reason: PodAccepted, Message: "its runner has taken it, and told nothing of it yet"}
		}
	}
}

// Reasons of a [Pod] of which nobody has told anything: what its run waits for.
const (
	PodAsked    = "Asked"    // it was asked for
	PodAccepted = "Accepted" // the cluster has something under its name
)

// expected reports whether it is such a pod.
func (p Pod) expected() bool {
	return p.Name == "" && !p.Queued && (p.Reason == PodAsked || p.Reason == PodAccepted)
}

// expectNone takes back what was noted of a pod of which nobody has told anything.
func (t *orchestratorTransition) expectNone() {
	if t.Pod.expected() {
		t.Pod = Pod{}
	}
}

// podDue is the time from which the pod's latency counts: that its creation was asked
// for, or that its runner had room for it.
func (o Orchestrator) podDue() Time { return max(o.CreationAskedAt, o.RoomAt) }

// createPod: → container_creating. Nothing is asked for in a cluster if the map has no
// such edge.
func (t *orchestratorTransition) createPod() {
	if err := validateTransition(t.State, OrchestratorContainerCreating); err != nil {
		t.fail(err.Error(), true)
		return
	}
	t.to(OrchestratorContainerCreating)
	t.CreationAskedAt, t.InCluster = t.clock.Now, true
	if !t.clock.Rules.before(5) {
		t.CreateBy = t.createBy()
		t.Pod = Pod{Reason: PodAsked, Message: "its runner has not answered yet"}
	}
	t.ask(effects.CreateRun{N: t.Pending.next(), Attempt: t.RetryAttempt})
}

// unreachedFor says for how long the cluster was not reached by the creation of the pod: more
// than its limit, where that was put off or has begun anew.
func (t *orchestratorTransition) unreachedFor() string {
	waited := betweenMS(t.podDue(), t.clock.Now)
	if t.clock.Rules.before(6) || waited <= t.CreateTimeoutMS()+tardyDueMS {
		return "within " + lengthText(t.CreateTimeoutMS())
	}
	const second = 1000
	return "in the " + lengthText(waited/second*second) + " since its pod was asked for, at " + t.podDue().String()
}

// failPodStart: container_creating → failed or retrying: the cluster was not reached, or
// the pod did not start in time.
func (t *orchestratorTransition) failPodStart() {
	if !t.CreateBy.IsZero() {
		why := cmp.Or(t.Pod.why(), "its pod was asked for, and nothing has answered")
		t.fail("the cluster was not reached "+t.unreachedFor()+": "+why, false)
		return
	}
	reason := "the pod did not start within " + lengthText(t.Config.PodStartTimeoutMS)
	if why := t.Pod.why(); why != "" {
		reason += ": " + why
	}
	t.fail(reason, false)
}

// awaitsPod reports whether the run waits for the pod of that attempt to start or to
// end.
func (t *orchestratorTransition) awaitsPod(attempt uint32) bool {
	waits := t.State == OrchestratorContainerCreating || t.State == OrchestratorRunning
	return waits && attempt == t.RetryAttempt && t.Exit.To == ""
}

// concernsPod reports whether the event is about the pod that the run waits for. If
// another pod has replaced that one, the run has lost it; any other event is refused.
func (t *orchestratorTransition) concernsPod(attempt uint32, pod Pod) bool {
	switch {
	case !t.awaitsPod(attempt):
		t.refuseNow()
	case t.Pod.replacedBy(pod):
		t.podReplaced(pod)
	default:
		return true
	}
	return false
}

// podCreated notes what is known of a pod that does not run yet.
func (t *orchestratorTransition) podCreated(e PodCreated) {
	pod := e.Pod.bounded()
	if pod.Reason == PodCreateRetried && !t.clock.Rules.before(5) {
		pod.Queued = t.Pod.Queued // it is not there yet: a restart has to ask for it again
	}
	switch {
	case !t.concernsPod(e.Attempt, pod):
	case t.State != OrchestratorContainerCreating || t.Pod == pod:
		t.refuseNow()
	default:
		if t.Pod.Queued && !pod.Queued {
			t.RoomAt = t.clock.Now
		}
		t.Pod, t.UpdatedAt = pod, t.clock.Now
		if pod.Reason != PodCreateRetried {
			t.created()
		}
	}
}

// podRunning: container_creating → running.
func (t *orchestratorTransition) podRunning(e PodRunning) {
	pod := e.Pod.started()
	switch {
	case !t.concernsPod(e.Attempt, pod):
	case t.State != OrchestratorContainerCreating:
		t.refuseNow()
	default:
		t.Pod = pod
		t.startRunning()
	}
}

// startRunning: container_creating → running. If the creation was not answered yet,
// its answer decides nothing any more, but is waited for: it tells of its API calls.
func (t *orchestratorTransition) startRunning() {
	t.created()
	t.ExecutionStartedAt = t.clock.Now
	t.noteBegan()
	t.Metrics.PodStartLatencyMS = betweenMS(t.podDue(), t.startedAt())
	t.to(OrchestratorRunning)
	t.announce("update", t.update(updateStarted, ""))
	if !t.Config.Alerts.None() {
		t.send(t.job(), JobRunBegan{Run: t.ID})
	}
}

// podEnded: running → terminating. A pod that nobody saw running has run. Of one that
// ends while it is deleted its exit code is noted.
func (t *orchestratorTransition) podEnded(e PodEnded) {
	pod := e.Pod.started()
	awaited := t.awaitsPod(e.Attempt)
	switch {
	case awaited && t.Pod.replacedBy(pod):
		t.podReplaced(pod)
	case awaited:
		t.Pod = pod
		if t.State == OrchestratorContainerCreating {
			t.startRunning()
		}
		t.noteEnded()
		t.terminate(t.Pod.failure())
	default:
		t.noteExit(e.Attempt, pod)
	}
}

// noteExit notes the exit code of a pod that is being deleted, or that could not be: it can
// do no harm any more.
func (t *orchestratorTransition) noteExit(attempt uint32, pod Pod) {
	if !t.InCluster || attempt != t.RetryAttempt || t.Pod.ExitCode != nil || pod.ExitCode == nil || t.Pod.replacedBy(pod) {
		t.refuseNow()
		return
	}
	if pod.Reason == PodDeleted && !t.clock.Rules.before(5) {
		pod.Reason, pod.Message = "", "" // by the run itself, whose error says why
	}
	t.Pod, t.UpdatedAt = pod, t.clock.Now
	t.noteEnded()
	if t.leavesRemains() {
		t.releaseLocks()
	}
	if !t.cleanupDue().IsZero() { // it has ended by itself
		t.retryCleanup()
	}
}

// podReplaced: the attempt's pod is gone, and the cluster has made another, which does
// not count: an attempt is never run by two pods.
func (t *orchestratorTransition) podReplaced(by Pod) {
	t.losePod(firstText(fmt.Sprintf(
		"the pod is gone, and the cluster has made another, %s, which is not followed: an attempt has one pod", by.Name)))
}

// podLost: the pod is gone, and nobody knows how it would have ended, or it will never run.
func (t *orchestratorTransition) podLost(e PodLost) {
	if !t.awaitsPod(e.Attempt) || e.Refused && t.State != OrchestratorContainerCreating {
		t.refuseNow()
		return
	}
	if e.Refused {
		t.Logs.Error = "the pod did not start"
		t.fail(boundedReason(e.Reason, "the cluster does not start the pod"), e.Final)
		return
	}
	t.losePod(boundedReason(e.Reason, "the pod is gone"))
}

// losePod: running → terminating; container_creating → failed or retrying.
func (t *orchestratorTransition) losePod(reason string) {
	t.Logs.Error = "the pod is gone"
	if t.State == OrchestratorContainerCreating {
		t.fail(reason, false)
		return
	}
	t.noteEnded()
	t.terminate(reason)
}

// stopOverrun: running → terminating: the pod has run for longer than it may, and is
// killed (R15).
func (t *orchestratorTransition) stopOverrun() {
	t.terminate("it ran for longer than maxAllowedRunTime, " + lengthText(t.MaxAllowedRunTimeMS))
}

// terminate: running → terminating. First what the pod wrote is fetched, then it
// is deleted, then the constraints are checked.
func (t *orchestratorTransition) terminate(failure string) {
	t.withdraw(&t.Pending)
	t.Error, t.ExecutionEndedAt = failure, t.clock.Now
	t.to(OrchestratorTerminating)
	t.fetchLogs()
}

// adopts reports whether the run is orphaned and goes on with the pod of that attempt,
// and refuses the event otherwise.
func (t *orchestratorTransition) adopts(attempt uint32) bool {
	if t.Step == StepAdopted && attempt == t.RetryAttempt {
		return true
	}
	t.refuseNow()
	return false
}

// adoptedEnded: the pod of an orphaned run has ended. If it has an exit code, that is
// told.
func (t *orchestratorTransition) adoptedEnded(e PodEnded) {
	pod := e.Pod.started()
	if t.Pod.replacedBy(pod) {
		t.adoptedLost("")
		return
	}
	t.Pod, t.UpdatedAt, t.Step = pod, t.clock.Now, StepNone
	t.noteEnded()
	if t.wasAdopted() {
		t.announce("update", t.update(updateAdopted, t.Error))
	}
	t.fetchLogs()
}

// adoptedLost: the pod of an orphaned run is gone, and nobody saw it end.
func (t *orchestratorTransition) adoptedLost(reason string) {
	t.Logs.Error, t.UpdatedAt = boundedReason(reason, "the pod is gone"), t.clock.Now
	t.deletePod()
}
