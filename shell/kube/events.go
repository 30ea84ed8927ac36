package kube

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/shell/jobs"
)

// notice is what the cluster says of a Job or a pod that it cannot make or start.
type notice struct {
	of              types.UID
	reason, message string
}

const (
	reasonFailedCreate = "FailedCreate" // of a Job: its pod was refused

	maxUnplaced = 256
)

// ofPods are the reasons of events that say why a pod waits, of which its status says only
// that its containers are being created.
var ofPods = map[string]bool{
	"FailedMount": true, "FailedAttachVolume": true, "FailedMapVolume": true, "FailedCreatePodSandBox": true, "NetworkNotReady": true,
}

// eventsOf makes the reflection of the namespace's warnings: one watch for all runs. None
// is kept but the last of each attempt that still waits.
func (w *watcher) eventsOf(ctx context.Context) *reflection {
	warnings := fields.OneTermEqualSelector("type", corev1.EventTypeWarning).String()
	store := newMirror(w.warned, nil)
	store.objects = nil
	f := reflect(ctx, w, source[*corev1.EventList]{
		watchingEvents, w.r.client.CoreV1().Events(w.r.namespace), func(o *metav1.ListOptions) { o.FieldSelector = warnings },
	}, &corev1.Event{}, store)
	f.optional = true
	return f
}

// warned takes an event from the watch.
func (w *watcher) warned(obj any) {
	e, ok := obj.(*corev1.Event)
	if !ok || e.Type != corev1.EventTypeWarning {
		return
	}
	of := &e.InvolvedObject
	a, rest, ok := attemptOfName(of.Name)
	job := of.Kind == "Job" && rest == "" && e.Reason == reasonFailedCreate
	pod := of.Kind == "Pod" && rest != "" && ofPods[e.Reason]
	if !ok || !job && !pod {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.place(a, notice{of: of.UID, reason: e.Reason, message: strings.TrimSpace(e.Message)})
}

// place gives a warning to its attempt; under the lock. One that comes before what it is
// about waits for that: each has a watch of its own.
func (w *watcher) place(a jobs.Attempt, warned notice) {
	t := w.tracks[a]
	if t == nil || !t.has(warned.of) {
		if len(w.unplaced) >= maxUnplaced { // those of other instances, and of what is gone
			clear(w.unplaced)
		}
		w.unplaced[a] = warned
		return
	}
	t.warned = warned
	w.enqueue(a, t)
}

// has reports whether a Job or pod of that UID is the attempt's.
func (t *track) has(uid types.UID) bool {
	return t.job != nil && t.job.UID == uid || t.pods[uid] != nil
}

// attemptOfName reads the attempt from the name of its Job or pod; rest is what follows.
func attemptOfName(name string) (a jobs.Attempt, rest string, ok bool) {
	parts := strings.SplitN(name, "-", 4)
	if len(parts) < 3 || parts[0] != "orrery" {
		return a, "", false
	}
	id, err := hex.DecodeString(parts[1])
	n, numberErr := strconv.ParseUint(parts[2], 10, 32)
	if err != nil || numberErr != nil || len(id) != len(uuid.UUID{}) {
		return a, "", false
	}
	a = jobs.Attempt{Run: uuid.UUID(id), N: uint32(n)}
	if len(parts) == 4 {
		rest = parts[3]
	}
	return a, rest, strings.HasPrefix(name, a.Name())
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
	for _, part := range lasting {
		if strings.Contains(message, part) {
			return true
		}
	}
	return false
}

// neverStarts reports whether a pod that waits for that reason cannot start: final, if
// another one of its job could not either.
func neverStarts(reason, message string) (never, final bool) {
	switch reason {
	case reasonInvalidImage:
		return true, true
	case reasonConfigError: // a Secret, say, that somebody may make until the next attempt
		return !strings.Contains(message, "failed to sync") && !strings.Contains(message, "timed out"), false
	}
	return false, false
}
