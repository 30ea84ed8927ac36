package kubetest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		Waits:    func() json.RawMessage { return scripted(t, "echo begun; exec sleep 600") },
		Bad:      json.RawMessage(`{"containers":[{"name":"m","image":"i","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}`),
		BadField: "containers[0].volumeMounts",
		Lose: func(t *testing.T, a jobs.Attempt) {
			t.Helper()
			background := metav1.DeletePropagationBackground
			require.NoError(t, c.Client().BatchV1().Jobs(ns).Delete(t.Context(), a.Name(), metav1.DeleteOptions{PropagationPolicy: &background}))
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
