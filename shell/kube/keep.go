package kube

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// AnnotationKeep is on a Job that stays after its end: "finished 3600" for so many seconds
// however it has ended, "failed 3600" if it has failed.
const AnnotationKeep = "orrery.dev/keep"

const (
	keepFinished = "finished"
	keepFailed   = "failed"
)

var _ jobs.Keeper = (*Runner)(nil)

// keepBy notes on a Job how long it stays after its end, and gives the time after which the
// cluster deletes it without Orrery: at least as long as that, and as KeepFinished has it, since
// an end that nobody has seen yet must not be forgotten.
func (r *Runner) keepBy(annotations map[string]string, spec core.JobSpec) (ttlSeconds int32) {
	what, seconds := keepFailed, int64((r.keepFailed+time.Second-1)/time.Second)
	if spec.TTLSecondsAfterFinished > 0 {
		what, seconds = keepFinished, spec.TTLSecondsAfterFinished
	}
	if seconds <= 0 {
		return r.ttlSeconds
	}
	seconds = min(seconds, core.MaxTTLSecondsAfterFinished) // a job may be older than the bound
	annotations[AnnotationKeep] = what + " " + strconv.FormatInt(seconds, 10)
	return max(r.ttlSeconds, int32(seconds))
}

// Keeps implements [jobs.Keeper]: a Job that has ended by itself stays as long as it says.
func (r *Runner) Keeps(a jobs.Attempt) time.Time {
	w := r.current()
	if w == nil {
		return time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tracks[a]; t != nil {
		return t.keptUntil()
	}
	return time.Time{}
}

// keptUntil is when the time is over for which the Job and its pod stay; zero: they do not,
// because nobody asked for it, or they have not ended, or are being deleted.
func (t *track) keptUntil() time.Time {
	if t.job == nil || t.job.DeletionTimestamp != nil {
		return time.Time{}
	}
	what, text, _ := strings.Cut(t.job.Annotations[AnnotationKeep], " ")
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil || what != keepFinished && what != keepFailed {
		return time.Time{}
	}
	at, failed := t.endOf()
	if at.IsZero() || what == keepFailed && !failed {
		return time.Time{}
	}
	return at.Std().Add(time.Duration(seconds) * time.Second)
}

// endOf says when the attempt has ended by itself, and whether it has failed; zero: it has not.
func (t *track) endOf() (at core.Time, failed bool) {
	if pod := t.pod(); pod != nil {
		phase := pod.Status.Phase
		if pod.DeletionTimestamp != nil || phase != corev1.PodFailed && phase != corev1.PodSucceeded {
			return 0, false
		}
		_, p := causeOf(pod)
		return cmp.Or(p.FinishedAt, timeOf(t.job.CreationTimestamp)), phase == corev1.PodFailed
	}
	end, complete := jobEnd(t.job)
	if end == nil {
		return 0, false
	}
	return cmp.Or(timeOf(end.LastTransitionTime), timeOf(t.job.CreationTimestamp)), !complete
}
