package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/shell/jobs"
)

// endingFor is how long a pod or Job is being deleted before anybody is told what for.
const endingFor = 30 * time.Second

// NoteOf says what the end of an attempt waits for that is being deleted since half a minute,
// see [jobs.Noter].
func (r *Runner) NoteOf(a jobs.Attempt) string {
	w := r.current()
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tracks[a]; t != nil {
		return t.ending(time.Now())
	}
	return ""
}

// ending says what the deletion of the Job and its pods waits for; empty: it has not been
// going on for long, or there is none.
func (t *track) ending(now time.Time) string {
	pod := t.pod()
	for _, other := range t.pods { // order-free: the least name
		if pod == nil || t.pods[t.first] == nil && other.Name < pod.Name {
			pod = other
		}
	}
	switch {
	case pod != nil && pod.DeletionTimestamp != nil:
		return podEnding(pod, now)
	case pod == nil && t.job != nil && t.job.DeletionTimestamp != nil && now.Sub(askedAt(&t.job.ObjectMeta)) >= endingFor:
		return endingOf("Job", &t.job.ObjectMeta, "the cluster has not removed it since")
	}
	return ""
}

func podEnding(pod *corev1.Pod, now time.Time) string {
	asked := askedAt(&pod.ObjectMeta)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	until := pod.DeletionTimestamp.Time
	switch {
	case now.Sub(asked) < endingFor:
		return ""
	case ended:
		return endingOf("pod", &pod.ObjectMeta, "it has ended, and the cluster has not removed it since")
	case now.Before(until):
		return fmt.Sprintf("pod %s is being deleted: it has until %s to end, a grace period of %s", pod.Name, until.UTC().Format(time.RFC3339), until.Sub(asked))
	case pod.Spec.NodeName == "":
		return endingOf("pod", &pod.ObjectMeta, "the cluster has not removed it since")
	}
	// The kubelet comes first, whatever finalizers there are.
	return fmt.Sprintf("pod %s is being deleted since %s: node %s does not confirm that it has ended", pod.Name, asked.UTC().Format(time.RFC3339), pod.Spec.NodeName)
}

// endingOf says that an object waits for its finalizers, or else why it may still be there.
func endingOf(kind string, m *metav1.ObjectMeta, why string) string {
	text := fmt.Sprintf("%s %s is being deleted since %s: ", kind, m.Name, askedAt(m).UTC().Format(time.RFC3339))
	foreign := slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	if len(foreign) > 0 {
		return text + "it waits for its finalizers to be removed: " + strings.Join(foreign, ", ")
	}
	return text + why
}

// askedAt is when the deletion of an object was asked for: its DeletionTimestamp is when the
// grace period is over.
func askedAt(m *metav1.ObjectMeta) time.Time {
	at := m.DeletionTimestamp.Time
	if g := m.DeletionGracePeriodSeconds; g != nil {
		at = at.Add(-time.Duration(*g) * time.Second)
	}
	return at
}
