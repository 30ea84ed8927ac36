package kube

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/shell/jobs"
)

// notice is what the cluster says of a Job or a pod that it cannot make or start. The UID is
// all that ties it to them: whoever may create events and knows the UID can say it, too.
type notice struct {
	of              types.UID
	ofJob           bool // it is of a Job, else of a pod
	reason, message string
}

const (
	reasonFailedCreate = "FailedCreate"   // of a Job: its pod was refused
	jobController      = "job-controller" // who says so

	maxUnplaced = 256
)

// ofPods are the reasons of events that say why a pod waits, of which its status says only
// that its containers are being created.
var ofPods = map[string]bool{
	"FailedMount": true, "FailedAttachVolume": true, "FailedMapVolume": true, "FailedCreatePodSandBox": true, "NetworkNotReady": true,
}

// eventsOf makes the reflection of the namespace's warnings: one watch for all runs. None
// is kept but the last of each attempt that still waits.
func (on *feeding) eventsOf(ctx context.Context) *reflection {
	warnings := fields.OneTermEqualSelector("type", corev1.EventTypeWarning).String()
	store := newMirror(&on.f.mu, func(obj any) { on.tell(func(w *watcher) { w.warned(obj) }) }, nil, nil)
	store.objects = nil
	r := reflect(ctx, on.f, source[*corev1.EventList]{
		watchingEvents, on.f.client.Events(on.f.namespace), func(o *metav1.ListOptions) { o.FieldSelector = warnings },
	}, &corev1.Event{}, store)
	r.optional = true
	return r
}

// warned takes an event from the watch.
func (w *watcher) warned(obj any) {
	e, ok := obj.(*corev1.Event)
	if !ok || e.Type != corev1.EventTypeWarning {
		return
	}
	of := &e.InvolvedObject
	ofJob := of.Kind == "Job" && e.Reason == reasonFailedCreate && cmp.Or(e.ReportingController, e.Source.Component) == jobController
	ofPod := of.Kind == "Pod" && ofPods[e.Reason]
	if of.UID == "" || !ofJob && !ofPod {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	said := notice{of: of.UID, ofJob: ofJob, reason: e.Reason, message: strings.TrimSpace(e.Message)}
	a, known := w.of[of.UID]
	if t := w.tracks[a]; known && t != nil {
		t.heed(said)
		w.enqueue(a, t)
		return
	}
	// What it is about comes by a watch of its own, if it is this instance's.
	if len(w.unplaced) >= maxUnplaced {
		clear(w.unplaced)
	}
	w.unplaced[of.UID] = said
}

// know notes whose a Job or pod is that has come or gone; under the lock.
func (w *watcher) know(a jobs.Attempt, t *track, uid types.UID) {
	if !t.has(uid) {
		delete(w.of, uid)
		return
	}
	w.of[uid] = a
	if said, waits := w.unplaced[uid]; waits {
		delete(w.unplaced, uid)
		t.heed(said)
	}
}

// heed keeps what the cluster says of the attempt's Job or of a pod of it, unless it says of
// the one what is true of the other alone.
func (t *track) heed(n notice) {
	if n.ofJob == (t.job != nil && t.job.UID == n.of) {
		t.warned = n
	}
}

// has reports whether a Job or pod of that UID is the attempt's.
func (t *track) has(uid types.UID) bool {
	return t.job != nil && t.job.UID == uid || t.pods[uid] != nil
}

// lasting are parts of the sentences with which an API server refuses a pod for what it is,
// and will until its job changes, or who refuses it. All other refusals may pass, such as
// those of a quota that is used up, or for want of a service account: the cluster asks again
// by itself, and the limit of the start decides.
var lasting = []string{
	"violates PodSecurity",
	"denied the request",  // an admission webhook
	"denied request",      // a ValidatingAdmissionPolicy
	"failed quota",        // the quota counts what the pod does not name
	" is invalid: ",       // the API server's own
	"is not allowed in",   // hostPath and the like of admission plugins
	"usage per Container", // a LimitRange
	"usage per Pod",
	"limit to request ratio",
}

// refusedForGood reports whether a pod that was refused so will never be made.
func refusedForGood(message string) bool {
	if strings.Contains(message, "Internal error occurred") || strings.Contains(message, "exceeded quota") {
		return false // a webhook that does not answer; a quota that is used up
	}
	return containsAny(message, lasting)
}

func containsAny(message string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(message, part) })
}

// configFor is how long a pod waits for what its containers are configured with before it
// is refused: a Secret that is applied together with the job may come some seconds later.
const configFor = 15 * time.Second

// passing are parts of what a kubelet says that lacks nothing of the pod's own: it has only
// not read yet what there is, and goes on by itself.
var passing = []string{
	"failed to sync", "timed out",
	"services have not yet been read", // by a kubelet that has just started
}

// neverStarts reports whether a pod that waits for that reason cannot start once it has
// waited that long: final, if another one of its job could not either.
func neverStarts(reason, message string) (never, final bool, after time.Duration) {
	switch reason {
	case reasonInvalidImage:
		return true, true, 0
	case reasonConfigError: // a Secret, say, that somebody may make until the next attempt
		return !containsAny(message, passing), false, configFor
	}
	return false, false, 0
}
