package kubetest_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

func TestAPodThatAPolicyRefusesFailsTheRunAtOnceInItsWords(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	_, err := w.admin.CoreV1().Namespaces().Patch(t.Context(), w.ns, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: kubetest.Busybox}}}}
	eventually(t, func() error { // the server takes a moment to know the label
		_, err := w.admin.CoreV1().Pods(w.ns).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
			return errNotYet("a refusal", err)
		}
		return nil
	})

	began := time.Now()
	o := w.ends(w.runs("job", fakePod(), func(j *core.JobSpec) { j.RetryConfig = retries(5) }))

	t.Logf("it failed after %s: %s", time.Since(began).Round(time.Millisecond), o.Error)
	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.Contains(t, o.Error, `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`)
	assert.Zero(t, o.RetryAttempt, "the next would be refused as well")
	assert.Empty(t, w.attempts())
}

func TestAQuotaThatIsUsedUpIsToldAtOnceAndTheRunGoesOnOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	quotas := w.admin.CoreV1().ResourceQuotas(w.ns)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() error { // it counts from then on
		quota, err = quotas.Get(t.Context(), "none", metav1.GetOptions{})
		if err == nil && len(quota.Status.Hard) == 0 {
			return errNotYet("a quota", nil)
		}
		return err
	})

	began := time.Now()
	run := w.runs("job", fakePod(), nil)
	o := w.until(run, "the refusal", func(o core.Orchestrator) bool { // the first may be "status unknown for quota"
		return o.Pod.Reason == "FailedCreate" && strings.Contains(o.Pod.Message, "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0")
	})
	t.Logf("it was told after %s: %s", time.Since(began).Round(time.Millisecond), o.Pod.Message)
	assert.Equal(t, core.OrchestratorContainerCreating, o.State)

	require.NoError(t, quotas.Delete(t.Context(), "none", metav1.DeleteOptions{}))
	assert.Equal(t, core.OrchestratorCompleted, w.ends(run).State)
	w.onePodEach(run, 1)
}

func TestANameThatIsNoneOfAnImageFailsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.SharedReal(t))
	pod := realPod("true")
	container(pod)["image"] = "UPPER CASE:latest"

	began := time.Now()
	o := w.ends(w.runs("job", pod, func(j *core.JobSpec) { j.RetryConfig = retries(5) }))

	t.Logf("it failed after %s: %s", time.Since(began).Round(time.Millisecond), o.Error)
	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.Contains(t, o.Error, "InvalidImageName: ")
	assert.Zero(t, o.RetryAttempt)
}

func TestASecretThatIsMissingFailsTheAttemptAndTheNextMayHaveIt(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.SharedReal(t))
	pod := realPod("true")
	container(pod)["env"] = []any{map[string]any{"name": "PASSWORD", "valueFrom": map[string]any{"secretKeyRef": map[string]string{"name": "db", "key": "password"}}}}

	began := time.Now()
	run := w.runs("job", pod, func(j *core.JobSpec) {
		j.RetryConfig = core.RetryConfig{MaxRetries: 10, InitialDelayMS: 5000, MaxDelayMS: 5000}
	})
	o := w.until(run, "the first failure", func(o core.Orchestrator) bool { return o.State == core.OrchestratorRetrying || o.LastFailure != "" })
	failure := cmp.Or(o.LastFailure, o.Error)
	t.Logf("it failed after %s: %s", time.Since(began).Round(time.Millisecond), failure)
	assert.Contains(t, failure, `CreateContainerConfigError: secret "db" not found`)
	_, err := w.admin.CoreV1().Secrets(w.ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, StringData: map[string]string{"password": "x"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, core.OrchestratorCompleted, w.ends(run).State)
}

// What a run stops itself has the run's reason, not that somebody deleted it.
func TestAPodThatTheRunItselfStopsWasNotDeletedBySomebody(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.SharedReal(t))
	run := w.runs("job", realPod("sleep 600"), nil)
	w.reaches(run, core.OrchestratorRunning)
	require.NoError(t, w.orrery.Cancel(run))
	o := w.ends(run)
	assert.Equal(t, core.OrchestratorCancelled, o.State)
	assert.NotContains(t, o.Pod.Reason+o.Pod.Message+o.Error, "deleted", "%+v", o.Pod)
}
