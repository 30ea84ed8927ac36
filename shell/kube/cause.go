package kube

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Reasons that this package gives besides those of Kubernetes itself.
const (
	reasonPodNotCreated = "PodNotCreated" // there is a Job, and no pod yet
	reasonCreateRetried = core.PodCreateRetried
	reasonInitializing  = "Initializing"  // an init container runs
	reasonPending       = "Pending"       // nobody says why
	reasonTerminating   = "Terminating"   // it is deleted before it ran
	reasonDeleted       = core.PodDeleted // while it ran
	reasonPreempted     = "Preempted"
	reasonEvicted       = "Evicted"
	reasonNodeLost      = "NodeLost"
	reasonNodeShutdown  = "NodeShutdown"
	reasonOOMKilled     = "OOMKilled"
	reasonDeadline      = batchv1.JobReasonDeadlineExceeded
	reasonFailed        = "Failed" // nobody says why

	reasonImagePull     = "ErrImagePull"
	reasonImageBackOff  = "ImagePullBackOff"
	reasonCreating      = "ContainerCreating"
	reasonInvalidImage  = "InvalidImageName"
	reasonConfigError   = "CreateContainerConfigError"
	reasonStatusUnknown = "ContainerStatusUnknown"

	byTaintManager = "DeletionByTaintManager" // a reason of DisruptionTarget
)

// causeOf turns a pod into what is told of it (004 Pod Monitoring): its phase, and why it
// waits or how it ended. It is a pure function, and knows no fate of the pod's Job.
//
//   - A pod that waits is Created, whatever it waits for: also for an image that
//     does not exist. Its job's limit of the start decides how long.
//   - One of whose containers some run is Running once Kubernetes says so: when each
//     of its containers has started.
//   - One that has ended has the exit code 0 only where Kubernetes says that it
//     succeeded. Otherwise it has that of the container that failed first, if any
//     did, and the reason of the pod before that of the container.
func causeOf(pod *corev1.Pod) (jobs.Phase, core.Pod) {
	p := core.Pod{Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName}
	p.StartedAt, p.FinishedAt = timesOf(pod)
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		p.ExitCode = new(int32)
		return jobs.PhaseEnded, p
	case corev1.PodFailed:
		failed(pod, &p)
		return jobs.PhaseEnded, p
	case corev1.PodRunning:
		p.FinishedAt = 0
		return jobs.PhaseRunning, p
	case corev1.PodUnknown: // of old: the kubelet is not heard of
		if p.FinishedAt = 0; p.StartedAt != 0 {
			return jobs.PhaseRunning, p
		}
	default: // Pending, or none yet
	}
	p.StartedAt, p.FinishedAt = 0, 0
	p.Reason, p.Message = waiting(pod)
	return jobs.PhaseCreated, p
}

// timesOf says when the first of the containers began and the last one ended, init
// containers and sidecars aside. If none began, the end is unknown too.
func timesOf(pod *corev1.Pod) (started, finished core.Time) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i].State
		switch {
		case s.Running != nil:
			started = earlier(started, timeOf(s.Running.StartedAt))
		case s.Terminated != nil:
			started = earlier(started, timeOf(s.Terminated.StartedAt))
			finished = max(finished, timeOf(s.Terminated.FinishedAt))
		}
	}
	return started, finished
}

func earlier(a, b core.Time) core.Time {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// timeOf gives 0 for what is no time: zero, or before 1970.
func timeOf(t metav1.Time) core.Time {
	if t.IsZero() || t.Unix() <= 0 {
		return 0
	}
	return effects.TimeOf(t.Time)
}

// waiting says what a pod waits for that has not started.
func waiting(pod *corev1.Pod) (reason, message string) {
	if pod.DeletionTimestamp != nil {
		return reasonTerminating, "the pod is being deleted before it ran"
	}
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		if r, m := stuck(c); r != "" {
			return r, inContainer("init container", c.Name, m)
		}
		if c.State.Running != nil && !isSidecar(pod, c.Name) {
			return reasonInitializing, fmt.Sprintf("init container %s runs", c.Name)
		}
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if r, m := stuck(c); r != "" {
			if len(pod.Status.ContainerStatuses) > 1 {
				m = inContainer("container", c.Name, m)
			}
			return r, m
		}
	}
	if c := condition(pod, corev1.PodScheduled, corev1.ConditionFalse); c != nil {
		return cmp.Or(c.Reason, corev1.PodReasonUnschedulable), c.Message
	}
	if len(pod.Status.ContainerStatuses) == 0 && pod.Spec.NodeName == "" {
		return cmp.Or(pod.Status.Reason, reasonPending), pod.Status.Message
	}
	return reasonCreating, ""
}

// stuck gives the reason for which a container waits, if that is unusual.
func stuck(c *corev1.ContainerStatus) (reason, message string) {
	if w := c.State.Waiting; w != nil && w.Reason != reasonCreating && w.Reason != "PodInitializing" {
		return w.Reason, w.Message
	}
	return "", ""
}

// failed says how a pod failed, never with 0: a process that is told to end may exit so.
func failed(pod *corev1.Pod, p *core.Pod) {
	if c, kind := firstFailed(pod); c != nil {
		t := c.State.Terminated
		// Kubernetes makes this code up for a container that it could not find any more.
		if t.Reason != reasonStatusUnknown {
			p.ExitCode = &t.ExitCode
		}
		p.Reason, p.Message = cmp.Or(t.Reason, "Error"), t.Message
		if p.Message == "" && t.Signal != 0 {
			p.Message = fmt.Sprintf("signal %d", t.Signal)
		}
		if kind != "container" || len(pod.Status.ContainerStatuses) > 1 {
			p.Message = inContainer(kind, c.Name, p.Message)
		}
		p.StartedAt = earlier(p.StartedAt, timeOf(t.StartedAt))
		p.FinishedAt = max(p.FinishedAt, timeOf(t.FinishedAt))
	}
	reason, message := podReason(pod, p)
	switch {
	case reason != "":
		p.Reason, p.Message = reason, cmp.Or(message, p.Message)
	case p.Reason == "":
		p.Reason, p.Message = reasonFailed, cmp.Or(pod.Status.Message, "the pod failed, and the cluster does not say why")
	}
}

// ofKubelet and ofDisruption give our reasons for those of the pod and of DisruptionTarget.
var (
	ofKubelet = map[string]string{
		"Preempting": reasonPreempted,                                      // for a critical pod
		"Shutdown":   reasonNodeShutdown, "Terminated": reasonNodeShutdown, // the kubelet ends with its node
	}
	ofDisruption = map[string]string{
		corev1.PodReasonPreemptionByScheduler: reasonPreempted, "DeletionByPodGC": reasonNodeLost,
		"EvictionByEvictionAPI": reasonEvicted, byTaintManager: reasonEvicted, corev1.PodReasonTerminationByKubelet: reasonEvicted,
	}
)

// podReason gives the pod's own reason, if it says more than its containers'.
func podReason(pod *corev1.Pod, p *core.Pod) (reason, message string) {
	if r := pod.Status.Reason; r != "" {
		return cmp.Or(ofKubelet[r], r), pod.Status.Message
	}
	if p.Reason == reasonOOMKilled {
		return "", ""
	}
	if c := condition(pod, corev1.DisruptionTarget, corev1.ConditionTrue); c != nil {
		return cmp.Or(ofDisruption[c.Reason], c.Reason, reasonEvicted), c.Message
	}
	if d := pod.DeletionTimestamp; d != nil {
		asked := d.Unix()
		if g := pod.DeletionGracePeriodSeconds; g != nil {
			asked -= *g
		}
		if p.FinishedAt == 0 || p.FinishedAt.Std().Unix() >= asked {
			return reasonDeleted, "the pod was deleted while it ran"
		}
	}
	return "", ""
}

// condition gives the pod's condition of a type if it has that status, and nil otherwise.
func condition(pod *corev1.Pod, typ corev1.PodConditionType, status corev1.ConditionStatus) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == typ && c.Status == status {
			return c
		}
	}
	return nil
}

// nodeLost reports whether the cluster itself has given up the pod's node: then
// nobody there will confirm that the pod has ended.
func nodeLost(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodUnknown || pod.Status.Reason == reasonNodeLost {
		return true
	}
	c := condition(pod, corev1.DisruptionTarget, corev1.ConditionTrue)
	return c != nil && c.Reason == byTaintManager
}

// firstFailed gives the container that failed first, and its kind: an init container if
// one failed, since no other began then; else the one that ended first, or within one
// second the first in the pod spec. Sidecars do not count: they are killed at the end.
func firstFailed(pod *corev1.Pod) (*corev1.ContainerStatus, string) {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 && !isSidecar(pod, c.Name) {
			return c, "init container"
		}
	}
	var first *corev1.ContainerStatus
	for _, name := range containerNames(pod) {
		c := statusOf(pod.Status.ContainerStatuses, name)
		if c == nil || c.State.Terminated == nil || c.State.Terminated.ExitCode == 0 {
			continue
		}
		if first == nil || c.State.Terminated.FinishedAt.Unix() < first.State.Terminated.FinishedAt.Unix() {
			first = c
		}
	}
	return first, "container"
}

// containerNames are those of the pod spec, then those of the status: the spec's order
// counts, and a status may have one that the spec has not.
func containerNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Status.ContainerStatuses {
		names = append(names, pod.Status.ContainerStatuses[i].Name)
	}
	return names
}

func statusOf(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func isSidecar(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

func inContainer(kind, name, message string) string {
	if message == "" {
		return kind + " " + name
	}
	return kind + " " + name + ": " + message
}

// jobEnd gives the condition by which a Job has ended or will; nil: it has none.
func jobEnd(job *batchv1.Job) (c *batchv1.JobCondition, complete bool) {
	if job == nil {
		return nil, false
	}
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobSuccessCriteriaMet:
			return c, true
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			return c, false
		default:
		}
	}
	return nil, false
}
