package kubetest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// mayDelete gives the account the right to delete, or takes it away, and waits until the
// server knows that.
func (w *world) mayDelete(yes bool) {
	w.t.Helper()
	roles := w.admin.RbacV1().Roles(w.ns)
	eventually(w.t, func() error {
		role, err := roles.Get(w.t.Context(), "orrery", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range role.Rules {
			r := &role.Rules[i]
			r.Verbs = slices.DeleteFunc(r.Verbs, func(verb string) bool { return verb == "delete" })
			if yes && (slices.Contains(r.Resources, "jobs") || slices.Contains(r.Resources, "pods")) {
				r.Verbs = append(r.Verbs, "delete")
			}
		}
		_, err = roles.Update(w.t.Context(), role, metav1.UpdateOptions{})
		return err
	})
	eventually(w.t, func() error {
		review, err := w.admin.AuthorizationV1().SubjectAccessReviews().Create(w.t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + w.ns + ":orrery",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.ns, Verb: "delete", Group: "batch", Resource: "jobs"},
		}}, metav1.CreateOptions{})
		if err == nil && review.Status.Allowed != yes {
			return fmt.Errorf("that it may delete is %t: %s", review.Status.Allowed, review.Status.Reason)
		}
		return err
	})
}

// The right to delete is taken away as a run is cancelled, the process is killed, and the right
// is given back: what it could not delete the next one deletes, and the run is cancelled when its
// pod is gone, with all that it wrote.
func TestARunIsCancelledOnlyWhenItsPodCanBeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.SharedReal(t))
	kill := w.launch()
	pod := realPod(`exec 2>/dev/null; trap 'sleep 10; echo saved; exit 3' TERM; echo begun; while :; do sleep 0.1; done`)
	pod["terminationGracePeriodSeconds"] = 60
	run := w.runs("job", pod, nil)
	w.reaches(run, core.OrchestratorRunning)
	w.mayDelete(false)
	require.NoError(t, w.orrery.Cancel(run))
	w.failing(run, 2)
	kill()
	w.launch()
	o := w.failing(run, 2)
	o = w.failing(run, o.Cleanup.Failures+1)
	assert.Equal(t, core.OrchestratorRunning, o.State)
	assert.True(t, o.InCluster)
	assert.Contains(t, o.Cleanup.Error, "forbidden")
	w.pod(run, 0, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning })
	w.mayDelete(true)
	o = w.ends(run)
	assert.Equal(t, core.OrchestratorCancelled, o.State, o.Error)
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
