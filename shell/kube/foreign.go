package kube

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/shell/jobs"
)

// remedy tells an operator how two databases come apart that have the same instance in one namespace.
const remedy = "give one of the two daemons another instance or namespace"

// UseDatabase puts the identity of a database on each Job and pod as [LabelDatabase], and has the
// runner leave alone what has another one: see [jobs.Marker]. Without it nothing is marked and
// nothing is another's.
func (r *Runner) UseDatabase(id string) { r.database.Store(&id) }

// ownDatabase is empty if nobody has said.
func (r *Runner) ownDatabase() string {
	if id := r.database.Load(); id != nil {
		return *id
	}
	return ""
}

// isOthers reports whether a Job or pod is not the runner's, and notes whether it is there if it is another database's.
func (w *watcher) isOthers(obj any, there bool) bool {
	var m *metav1.ObjectMeta
	switch o := obj.(type) {
	case *batchv1.Job:
		m = &o.ObjectMeta
	case *corev1.Pod:
		m = &o.ObjectMeta
	default:
		return false
	}
	is := w.r.whoseIs(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	if is != whoseForeign || !there {
		delete(w.foreign, m.UID)
		return is != whoseOwn
	}
	name := m.Name
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		name = owner.Name // a Job and its pod are one attempt
	}
	w.foreign[m.UID] = jobs.Foreign{Name: name, Database: cmp.Or(m.Labels[LabelDatabase], m.Labels[LabelCluster])}
	return true
}

// Foreign lists the Jobs of other databases that have the runner's instance: see [jobs.Marker].
func (r *Runner) Foreign() ([]jobs.Foreign, string) {
	w := r.current()
	if w == nil {
		return nil, remedy
	}
	w.mu.Lock()
	out := make([]jobs.Foreign, 0, len(w.foreign))
	for _, f := range w.foreign { // order-free: it is sorted below
		out = append(out, f)
	}
	w.mu.Unlock()
	slices.SortFunc(out, func(a, b jobs.Foreign) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Database, b.Database))
	})
	return slices.Compact(out), remedy
}

// Lives reports whether an attempt is of the runner's database and has not ended: see [jobs.Marker].
func (r *Runner) Lives(a jobs.Attempt) bool {
	w := r.current()
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tracks[a]
	return t != nil && t.livesOf(r)
}

// livesOf reports whether there is a Job or pod with a mark of the runner's database or cluster that has not ended.
func (t *track) livesOf(r *Runner) bool {
	if pod := t.pod(); pod != nil {
		phase := pod.Status.Phase
		return r.hasMark(&pod.ObjectMeta) && phase != corev1.PodFailed && phase != corev1.PodSucceeded
	}
	end, _ := jobEnd(t.job)
	return t.job != nil && r.hasMark(&t.job.ObjectMeta) && end == nil
}

// NameOf is the name of an attempt's Job: see [jobs.Namer].
func (r *Runner) NameOf(jobID string, a jobs.Attempt) string {
	if w := r.current(); w != nil {
		if job := w.jobOf(a); job != nil {
			return job.Name
		}
	}
	if name := r.nameOfExpected(a); name != "" {
		return name
	}
	if jobID != "" {
		return nameOf(jobID, a)
	}
	return a.Name()
}
