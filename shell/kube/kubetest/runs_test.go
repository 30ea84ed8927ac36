package kubetest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// exitCode is what a run's pod ended with; -1: it has none.
func exitCode(o core.Orchestrator) int32 {
	if o.Pod.ExitCode == nil {
		return -1
	}
	return *o.Pod.ExitCode
}

// retries has a job tried again so many times, soon.
func retries(n uint32) core.RetryConfig {
	return core.RetryConfig{MaxRetries: n, InitialDelayMS: 100, MaxDelayMS: 200}
}

func TestARunOfAJobRunsItsPodAndKeepsExitCodeAndLogs(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.SharedReal(t))
	eventually(t, w.watched) // until then a creation lists Jobs, too

	run := w.runs("nightly", realPod("echo to stdout; echo to stderr >&2"), nil)
	o := w.ends(run)

	assert.Equal(t, core.OrchestratorCompleted, o.State)
	assert.EqualValues(t, 0, exitCode(o))
	assert.Equal(t, "127.0.0.2", o.Pod.Node)
	assert.True(t, o.Metrics.Success)
	logs, err := w.orrery.Log(run, 0)
	require.NoError(t, err)
	assert.Contains(t, logs, "to stdout\n")
	assert.Contains(t, logs, "to stderr\n")
	w.onePodEach(run, 1)

	calls := w.proxy.Calls(func(c kubetest.Call) bool { return c.Verb != "watch" && c.Verb != "list" })
	assert.LessOrEqual(t, len(calls), 5, "%v", calls)
	assert.EqualValues(t, len(calls), o.Metrics.KubernetesAPICalls, "%v", calls)
	assert.LessOrEqual(t, w.proxy.Watches(), 3, "one of Jobs, one of pods, one of events")
}

func TestARunEndsAsItsPodDoes(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedReal(t)
	tests := []struct {
		name   string
		pod    map[string]any
		state  core.OrchestratorStatus
		code   int32
		reason string // of the pod
	}{
		{"exit code 0", realPod("exit 0"), core.OrchestratorCompleted, 0, ""},
		{"exit code 3", realPod("exit 3"), core.OrchestratorFailed, 3, ""},
		{"killed by a signal", realPod("sleep 600 & kill -9 $!; wait $!"), core.OrchestratorFailed, 137, ""},
		{"out of memory", outOfMemory(), core.OrchestratorFailed, 137, "OOMKilled"},
		{"out of time by its pod spec", outOfTime(), core.OrchestratorFailed, 0, "DeadlineExceeded"},
		{"no such program", podOn(kubetest.RealNode, "/no/such/program"), core.OrchestratorFailed, 128, "StartError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, c)

			run := w.runs("job", tt.pod, nil)
			o := w.ends(run)

			assert.Equal(t, tt.state, o.State, o.Error)
			if tt.reason != "DeadlineExceeded" { // its code depends on when it is killed
				assert.Equal(t, tt.code, exitCode(o))
			}
			if tt.reason != "" {
				assert.Equal(t, tt.reason, o.Pod.Reason, "%+v", o.Pod)
				assert.Contains(t, o.Error, tt.reason)
			}
			w.onePodEach(run, 1)
		})
	}
}

func outOfMemory() map[string]any {
	pod := realPod("tail /dev/zero")
	container(pod)["resources"] = map[string]any{"limits": map[string]string{"memory": "32Mi"}}
	return pod
}

func outOfTime() map[string]any {
	pod := realPod("sleep 600")
	pod["activeDeadlineSeconds"] = 2
	return pod
}

func TestAPodThatCrashesIsTriedAgainAsOftenAsTheJobSays(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.SharedReal(t))

	run := w.runs("crashing", realPod("echo crash; exit 1"), func(j *core.JobSpec) { j.RetryConfig = retries(2) })
	o := w.ends(run)

	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.EqualValues(t, 2, o.RetryAttempt)
	w.onePodEach(run, 3)
	for n := range uint32(3) {
		logs, err := w.orrery.Log(run, n)
		require.NoError(t, err)
		assert.Equal(t, "crash\n", logs)
	}
}

func TestAnImageThatDoesNotExistFailsTheRunOnceItsStartTimeIsOver(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedReal(t)
	for policy, reason := range map[string]string{"Never": "ErrImageNeverPull", "IfNotPresent": "ImagePull"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := start(t, c)
			pod := realPod("true")
			container(pod)["image"], container(pod)["imagePullPolicy"] = "localhost:1/absent:1", policy

			run := w.runs("imageless", pod, func(j *core.JobSpec) { j.PodStartTimeoutMS = 60_000 })
			w.until(run, reason, func(o core.Orchestrator) bool {
				return o.State == core.OrchestratorContainerCreating && strings.Contains(o.Pod.Reason, reason)
			})
			o := w.ends(run)

			assert.Equal(t, core.OrchestratorFailed, o.State)
			assert.Contains(t, o.Error, "did not start within")
			assert.Contains(t, o.Error, reason)
		})
	}
}

func TestAPodThatNoNodeTakesFailsTheRunOnceItsStartTimeIsOver(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	pod := podOn("no-such-node", "true")

	run := w.runs("homeless", pod, func(j *core.JobSpec) { j.PodStartTimeoutMS = 60_000 })
	o := w.ends(run)

	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.Contains(t, o.Error, "did not start within")
	assert.Contains(t, o.Error, "Unschedulable")
}

// What somebody does by hand to a run's pod is a failure: the next attempt runs.
func TestARunWhosePodOrJobSomebodyTakesAwayIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	background := metav1.DeletePropagationBackground
	tests := map[string]func(w *world, pod corev1.Pod) error{
		"pod deleted": func(w *world, pod corev1.Pod) error {
			return w.admin.CoreV1().Pods(w.ns).Delete(w.t.Context(), pod.Name, metav1.DeleteOptions{})
		},
		"pod deleted by force": func(w *world, pod corev1.Pod) error {
			now := int64(0)
			return w.admin.CoreV1().Pods(w.ns).Delete(w.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		},
		"pod evicted": func(w *world, pod corev1.Pod) error {
			return w.admin.PolicyV1().Evictions(w.ns).Evict(w.t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: w.ns}})
		},
		"Job deleted": func(w *world, pod corev1.Pod) error {
			return w.admin.BatchV1().Jobs(w.ns).Delete(w.t.Context(), pod.Labels["job-name"], metav1.DeleteOptions{PropagationPolicy: &background})
		},
	}
	for name, take := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, c)
			run := w.runs("job", fakePod(), func(j *core.JobSpec) {
				labelled(kubetest.RunFor, "24h")(j)
				j.RetryConfig = retries(1)
			})
			w.reaches(run, core.OrchestratorRunning)

			require.NoError(t, take(w, w.pod(run, 0, nil)))
			w.until(run, "its second attempt", func(o core.Orchestrator) bool {
				return o.RetryAttempt == 1 && o.State == core.OrchestratorRunning
			})

			require.NoError(t, w.orrery.Cancel(run))
			assert.Equal(t, core.OrchestratorCancelled, w.ends(run).State)
			w.onePodEach(run, 2)
		})
	}
}

// kubelet evicts a pod by ending it with the phase Failed and that reason.
func TestAnEvictedPodFailsTheRunAndSaysSo(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	run := w.runs("evicted", fakePod(), labelled(kubetest.RunFor, "24h"))
	w.reaches(run, core.OrchestratorRunning)

	pod := w.pod(run, 0, nil)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	_, err := w.admin.CoreV1().Pods(w.ns).UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	o := w.ends(run)

	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.Equal(t, "Evicted", o.Pod.Reason)
	assert.Contains(t, o.Error, "low on resource")
}
