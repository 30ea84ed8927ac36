package kubetest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// mayDelete gives the account the right to delete, or takes it away.
func (w *world) mayDelete(yes bool) {
	w.t.Helper()
	role, err := w.admin.RbacV1().Roles(w.ns).Get(w.t.Context(), "orrery", metav1.GetOptions{})
	require.NoError(w.t, err)
	for i := range role.Rules {
		rule := &role.Rules[i]
		rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == "delete" })
		if yes && !slices.Contains(rule.Resources, "pods/log") {
			rule.Verbs = append(rule.Verbs, "delete")
		}
	}
	_, err = w.admin.RbacV1().Roles(w.ns).Update(w.t.Context(), role, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// The process is killed in between: what it could not delete the next one deletes.
func TestARunThatIsCancelledIsNotCancelledBeforeItsPodCouldBeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	kill := w.launch()
	run := w.runs("job", fakePod(), labelled(kubetest.RunFor, "24h"))
	w.reaches(run, core.OrchestratorRunning)
	w.mayDelete(false)

	require.NoError(t, w.orrery.Cancel(run))
	failing := func(o core.Orchestrator) bool { return o.Cleanup.Failing() }
	o := w.until(run, "a failure to clean up", failing)
	assert.Contains(t, o.Cleanup.Error, "forbidden")
	kill()
	w.launch()
	o = w.until(run, "a failure to clean up", failing)

	assert.False(t, o.State.Terminal(), "it is %s", o.State)
	assert.True(t, o.InCluster)
	assert.Equal(t, corev1.PodRunning, w.pod(run, 0, nil).Status.Phase, "its pod lives")
	w.mayDelete(true)
	o = w.ends(run)
	assert.Equal(t, core.OrchestratorCancelled, o.State, o.Error)
	assert.False(t, o.Cleanup.Failing())
	w.onePodEach(run, 1)
}
