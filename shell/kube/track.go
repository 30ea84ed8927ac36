package kube

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Waits before something is told.
const (
	bareFor  = 10 * time.Second // a Job without a pod
	lostFor  = 10 * time.Second // a pod that is gone, whose Job may say how it ended
	lateFor  = 30 * time.Second // a pod that was not seen, whose Job has ended: two watches
	stuckFor = time.Minute      // a pod that is terminating, beyond its grace period

	defaultGrace = 30 * time.Second // of pods, where their spec names none
)

// track is what is known of one attempt. Its watcher's mutex guards it.
type track struct {
	job     *batchv1.Job // nil: there is none
	jobSeen bool         // there was one
	pods    map[types.UID]*corev1.Pod
	first   types.UID   // of the pod that counts; empty: there was none yet
	gone    *corev1.Pod // that pod, as it was when it went
	left    bool        // the last that went is not the attempt's any more, and may still be there
	second  string      // the name of a pod that the Job controller made beside it
	note    string      // why the API does not take the Job
	taken   bool        // the API has taken it since
	warned  notice      // the last that the cluster said of the Job or a pod

	bareSince  time.Time // a Job and no pod
	goneSince  time.Time // the pod went
	stuckSince time.Time // the pod is being deleted
	endedSince time.Time // the Job has ended, and no pod was seen
	failsSince time.Time // the pod waits for a reason for which it will not start

	told     jobs.Observation // the last; its Phase is empty before
	queued   bool
	doubtful bool // of the last verdict
	deleting bool // Delete was called: its loss is no news
	users    int  // who waits for changes
	changed  chan struct{}
	timer    *time.Timer
}

func newTrack() *track {
	return &track{pods: map[types.UID]*corev1.Pod{}, changed: make(chan struct{})}
}

// take takes a new or changed pod. The first one of an attempt is the one that counts:
// the Job controller makes another where somebody takes its finalizer off the first,
// whatever the Job's backoffLimit, and people make copies by hand. synced says that
// all that there was at the beginning has been seen; before, the oldest is the first.
func (t *track) take(p *corev1.Pod, synced bool) {
	t.pods[p.UID], t.left = p, false
	first := t.pods[t.first]
	switch {
	case t.first == "", !synced && first != nil && first.UID != p.UID && older(p, first):
		t.first = p.UID
	case t.first == p.UID:
		return
	default:
		first = p
	}
	if first != nil && metav1.GetControllerOfNoCopy(first) != nil {
		t.second = first.Name
	}
}

// lose takes a pod that is gone.
func (t *track) lose(p *corev1.Pod) {
	delete(t.pods, p.UID)
	if t.first == p.UID {
		t.gone = p
	}
}

func older(a, b *corev1.Pod) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// pod is the pod that counts; nil where there is none.
func (t *track) pod() *corev1.Pod { return t.pods[t.first] }

func (t *track) inCluster() bool { return t.job != nil || len(t.pods) > 0 }

// final reports whether nothing more is told.
func (t *track) final() bool {
	return t.told.Phase == jobs.PhaseEnded || t.told.Phase == jobs.PhaseLost || t.told.Phase == jobs.PhaseRefused
}

// forgettable reports whether the track has served its purpose.
func (t *track) forgettable() bool {
	return !t.inCluster() && t.users == 0 && t.note == "" && !t.queued && (t.final() || t.deleting || !t.jobSeen && t.gone == nil)
}

// verdict is what is to be told of an attempt: nothing where its phase is empty. Then
// it may be something after wait, if that is not 0, though nothing changes.
type verdict struct {
	phase jobs.Phase
	pod   core.Pod
	final bool // no other pod of the job will start either
	wait  time.Duration
	doubt bool // after wait it will be known what became of the attempt
}

// judge says what is to be told of an attempt at that instant.
func (t *track) judge(now time.Time) verdict {
	if pod := t.pod(); pod != nil {
		return t.judgePod(pod, now)
	}
	t.stuckSince = time.Time{}
	if t.gone != nil {
		return t.judgeGone(now)
	}
	end, complete := jobEnd(t.job)
	switch {
	case t.job == nil && t.jobSeen:
		return lost(t.went("its Job was deleted"))
	case t.job == nil && t.note != "":
		return verdict{phase: jobs.PhaseCreated, pod: core.Pod{Reason: reasonCreateRetried, Message: t.note}}
	case t.job == nil && t.taken:
		return verdict{phase: jobs.PhaseCreated, pod: taken}
	case t.job == nil:
		return verdict{}
	case end != nil:
		// The watch of pods may be behind that of Jobs: then there are an exit code and logs.
		if wait := since(&t.endedSince, now, lateFor); wait > 0 {
			return verdict{wait: wait, doubt: true}
		}
		return endedAs(core.Pod{}, end, complete)
	case t.job.DeletionTimestamp != nil:
		return lost("its Job was deleted")
	case t.warned.of == t.job.UID && t.warned.message != "":
		return t.warned.verdict()
	}
	if wait := since(&t.bareSince, now, bareFor); wait > 0 {
		v := verdict{wait: wait, doubt: true}
		if t.told.Pod.Reason == reasonCreateRetried { // which is no longer true
			v.phase, v.pod = jobs.PhaseCreated, taken
		}
		return v
	}
	return verdict{phase: jobs.PhaseCreated, pod: core.Pod{Reason: reasonPodNotCreated, Message: "the cluster has made no pod for Job " + t.job.Name +
		": a quota, an admission policy or a missing service account may be why, and no event of the Job has said so yet"}}
}

// taken is what is told of an attempt whose Job the API did not take, once it has.
var taken = core.Pod{Reason: reasonPending, Message: "the cluster has taken the Job, and has not made its pod yet"}

// verdict is what the watcher tells of a Job whose pod the cluster refuses, in the cluster's words.
func (n notice) verdict() verdict {
	pod := core.Pod{Reason: n.reason, Message: n.message}
	if refusedForGood(n.message) {
		return verdict{phase: jobs.PhaseRefused, pod: pod, final: true}
	}
	return verdict{phase: jobs.PhaseCreated, pod: pod}
}

func (t *track) judgePod(pod *corev1.Pod, now time.Time) verdict {
	phase, p := causeOf(pod)
	if phase == jobs.PhaseEnded {
		return verdict{phase: phase, pod: t.withDeadline(pod, p)}
	}
	v := verdict{phase: phase, pod: p}
	if pod.DeletionTimestamp == nil {
		t.stuckSince = time.Time{}
		return t.withWarning(pod, v, now)
	}
	if v.wait = since(&t.stuckSince, now, graceOf(pod)+stuckFor); v.wait > 0 {
		return v
	}
	if nodeLost(pod) {
		return lost(reasonNodeLost + ": the cluster has given up node " + pod.Spec.NodeName + ", on which the pod ran")
	}
	return lost("the pod was deleted, and node " + pod.Spec.NodeName + " does not confirm that it ended")
}

// withWarning says of a pod that waits what the cluster says of it, and that it will not
// start, where that is so.
func (t *track) withWarning(pod *corev1.Pod, v verdict, now time.Time) verdict {
	never, final, after := neverStarts(v.pod.Reason, v.pod.Message)
	if !never || v.phase != jobs.PhaseCreated {
		t.failsSince = time.Time{}
	}
	switch {
	case v.phase != jobs.PhaseCreated:
	case never:
		if v.wait = since(&t.failsSince, now, after); v.wait <= 0 {
			v.phase, v.final, v.wait = jobs.PhaseRefused, final, 0
		}
	case v.pod.Reason == reasonCreating && t.warned.of == pod.UID && t.warned.reason != "":
		v.pod.Reason, v.pod.Message = t.warned.reason, t.warned.message
	}
	return v
}

// withDeadline names the Job's deadline as the reason, where that killed the pod.
func (t *track) withDeadline(pod *corev1.Pod, p core.Pod) core.Pod {
	end, _ := jobEnd(t.job)
	if end != nil && end.Reason == reasonDeadline && pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp != nil {
		p.Reason, p.Message = end.Reason, end.Message
	}
	return p
}

// judgeGone says what became of a pod that is gone. Its Job may still know.
func (t *track) judgeGone(now time.Time) verdict {
	phase, p := causeOf(t.gone)
	if phase == jobs.PhaseEnded {
		return verdict{phase: phase, pod: t.withDeadline(t.gone, p)}
	}
	if t.second != "" { // and what the Job says is about that one
		return lost("the pod was deleted, and the cluster has made another, " + t.second + ", which is not followed: an attempt has one pod")
	}
	switch end, complete := jobEnd(t.job); {
	case end != nil && (complete || end.Reason == reasonDeadline):
		p.Reason, p.Message = "", ""
		return endedAs(p, end, complete)
	case t.job == nil:
		return lost(t.went("the pod and its Job were deleted"))
	case end != nil || t.job.DeletionTimestamp != nil || since(&t.goneSince, now, lostFor) <= 0:
		return lost(t.went("the pod was deleted"))
	}
	return verdict{phase: t.told.Phase, pod: t.told.Pod, wait: lostFor - now.Sub(t.goneSince), doubt: true}
}

// went says why the pod or its Job is gone: as given, unless it is known better.
func (t *track) went(deleted string) string {
	if t.left {
		return "the labels of the pod or its Job were changed, so that it is not the attempt's any more"
	}
	return deleted
}

// endedAs is the end of a pod of which the Job alone knows.
func endedAs(p core.Pod, end *batchv1.JobCondition, complete bool) verdict {
	p.FinishedAt = timeOf(end.LastTransitionTime)
	if complete {
		p.ExitCode = new(int32)
		p.Message = "the pod is gone; its Job says that it is complete"
		return verdict{phase: jobs.PhaseEnded, pod: p}
	}
	p.Reason, p.Message = cmp.Or(end.Reason, reasonFailed), "the pod is gone; its Job says: "+cmp.Or(end.Message, "failed")
	return verdict{phase: jobs.PhaseEnded, pod: p}
}

func lost(reason string) verdict {
	return verdict{phase: jobs.PhaseLost, pod: core.Pod{Reason: reason}}
}

// since notes when something began, and gives what is left of its time.
func since(began *time.Time, now time.Time, limit time.Duration) time.Duration {
	if began.IsZero() {
		*began = now
	}
	return limit - now.Sub(*began)
}

// graceOf is the grace period of a pod that is being deleted.
func graceOf(pod *corev1.Pod) time.Duration {
	for _, s := range []*int64{pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds} {
		if s != nil {
			return time.Duration(min(max(*s, 0), int64(24*time.Hour/time.Second))) * time.Second
		}
	}
	return defaultGrace
}

// phases in the order in which they are told; none is told after a later one.
var phases = []jobs.Phase{"", jobs.PhaseCreated, jobs.PhaseRunning, jobs.PhaseEnded, jobs.PhaseRefused, jobs.PhaseLost}

// news reports whether the verdict is worth telling after what was told before.
// Messages alone are not, nor is that the kubelet tries to pull an image again: each
// would be an event of the run, for as long as the pod waits.
func (t *track) news(v verdict) bool {
	was, is := t.told, v.pod
	switch {
	case v.phase == "" || t.final() || slices.Index(phases, v.phase) < slices.Index(phases, was.Phase):
		return false
	case (v.phase == jobs.PhaseLost || v.phase == jobs.PhaseRefused) && t.deleting:
		return false
	case v.phase != was.Phase || is.UID != was.Pod.UID || is.Node != was.Pod.Node:
		return true
	case is.Reason == reasonImagePull && was.Pod.Reason == reasonImageBackOff:
		return false
	}
	return is.Reason != was.Pod.Reason
}
