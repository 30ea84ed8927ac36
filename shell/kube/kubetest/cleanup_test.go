package kubetest_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// forbid takes the right to delete away, and gives back what gives it back.
func (w *world) forbid() (allow func()) {
	w.t.Helper()
	roles := w.admin.RbacV1().Roles(w.ns)
	set := func(change func(*rbacv1.PolicyRule)) {
		w.t.Helper()
		eventually(w.t, func() error {
			role, err := roles.Get(w.t.Context(), "orrery", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for i := range role.Rules {
				change(&role.Rules[i])
			}
			_, err = roles.Update(w.t.Context(), role, metav1.UpdateOptions{})
			return err
		})
	}
	isDelete := func(verb string) bool { return verb == "delete" }
	set(func(r *rbacv1.PolicyRule) { r.Verbs = slices.DeleteFunc(r.Verbs, isDelete) })
	return func() {
		set(func(r *rbacv1.PolicyRule) {
			if slices.Contains(r.Resources, "jobs") || slices.Contains(r.Resources, "pods") {
				r.Verbs = append(r.Verbs, "delete")
			}
		})
	}
}

// The right to delete is taken away as a run is cancelled, Orrery restarts, and the right is
// given back: the run is cancelled when its pod is gone, with all that it wrote.
func TestARunIsCancelledOnlyWhenItsPodCanBeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.SharedReal(t))
	stop := w.run()
	pod := realPod(`exec 2>/dev/null; trap 'sleep 1; echo saved; exit 3' TERM; echo begun; while :; do sleep 0.1; done`)
	pod["terminationGracePeriodSeconds"] = 60
	run := w.runs("job", pod, nil)
	w.reaches(run, core.OrchestratorRunning)
	allow := w.forbid()
	require.NoError(t, w.orrery.Cancel(run))
	w.failing(run, 2)
	stop()
	w.run()
	o := w.failing(run, 3)
	assert.Equal(t, core.OrchestratorRunning, o.State)
	assert.Contains(t, o.Cleanup.Error, "forbidden")
	w.pod(run, 0, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning })
	allow()
	o = w.ends(run)
	assert.Equal(t, core.OrchestratorCancelled, o.State)
	assert.Zero(t, o.Cleanup)
	assert.Equal(t, core.RunLogs{Stored: true, Bytes: int64(len("begun\nsaved\n"))}, o.Logs, "also what it wrote as it was told to end")
	w.onePodEach(run, 1)
	w.leavesNothing()
}

// failing waits until so many deletions of a run have failed.
func (w *world) failing(run uuid.UUID, times uint32) core.Orchestrator {
	w.t.Helper()
	return w.until(run, "a deletion that fails", func(o core.Orchestrator) bool { return o.Cleanup.Failures >= times })
}
