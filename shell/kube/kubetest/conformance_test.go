package kubetest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/shell/kube"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// Each test has a namespace of its own, and no more rights than the manifest gives.
func TestTheRunnerKeepsItsContract(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedReal(t)
	var ns string
	runnertest.Run(t, func(t *testing.T) jobs.Runner {
		proxy, _, made := proxied(t, c)
		ns = made
		r, err := kube.New(kube.Options{Kubeconfig: proxy.Kubeconfig(t, token(t, c.Client(), ns), ns), Logger: discard()})
		require.NoError(t, err)
		return r
	}, runnertest.Scripts{
		Prints: func(exit int, lines ...string) json.RawMessage {
			return scripted(t, fmt.Sprintf("cat <<'EOF'\n%s\nEOF\nexit %d", strings.Join(lines, "\n"), exit))
		},
		LastWords: func() json.RawMessage {
			pod := realPod(`exec 2>/dev/null; trap 'sleep 1; echo saved; exit 0' TERM; echo begun; while :; do sleep 0.1; done`)
			pod["terminationGracePeriodSeconds"] = 60
			spec, err := json.Marshal(pod)
			require.NoError(t, err)
			return spec
		},
		Waits:    func() json.RawMessage { return scripted(t, "echo begun; exec sleep 600") },
		Bad:      json.RawMessage(`{"containers":[{"name":"m","image":"i","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}`),
		BadField: "containers[0].volumeMounts",
		Lose: func(t *testing.T, a jobs.Attempt) {
			t.Helper()
			background := metav1.DeletePropagationBackground
			require.NoError(t, c.Client().BatchV1().Jobs(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: &background},
				metav1.ListOptions{LabelSelector: kube.LabelRun + "=" + a.Run.String()}))
		},
		Patience: patience,
	})
}

// scripted is realPod as a Runner takes it.
func scripted(t *testing.T, script string) json.RawMessage {
	t.Helper()
	spec, err := json.Marshal(realPod(script))
	require.NoError(t, err)
	return spec
}

// The Job controller does not count a pod whose finalizer somebody took off, and makes
// another whatever the Job's backoffLimit.
func TestAnAttemptWhosePodTheClusterReplacesIsLost(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	run := w.runs("job", fakePod(), func(j *core.JobSpec) {
		labelled(kubetest.RunFor, "24h")(j)
		j.RetryConfig = retries(1)
	})
	w.reaches(run, core.OrchestratorRunning)
	first := w.pod(run, 0, nil)

	_, err := w.admin.CoreV1().Pods(w.ns).Patch(t.Context(), first.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	now := int64(0)
	require.NoError(t, w.admin.CoreV1().Pods(w.ns).Delete(t.Context(), first.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	w.until(run, "its second attempt", func(o core.Orchestrator) bool {
		return o.RetryAttempt == 1 && o.State == core.OrchestratorRunning
	})

	eventually(t, func() error { // of the first attempt nothing is left, whoever made it
		pods, err := w.admin.CoreV1().Pods(w.ns).List(t.Context(), metav1.ListOptions{LabelSelector: kube.LabelAttempt + "=0"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods of the first attempt", len(pods.Items))
		}
		return err
	})
	require.NoError(t, w.orrery.Cancel(run))
	assert.Equal(t, core.OrchestratorCancelled, w.ends(run).State)
	assert.Contains(t, w.attempts(), run.String()+"/1")
}
