package kubetest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// orphaned runs a pod that goes on until there is a file "end", and has its runner
// hang until the run is orphaned.
func orphaned(t *testing.T, policy core.OrphanPolicy) (*world, uuid.UUID) {
	t.Helper()
	w := start(t, kubetest.SharedReal(t))
	pod := realPod("until [ -e /gates/end ]; do sleep 1; done; echo it went on; exit 7")
	container(pod)["volumeMounts"] = []any{map[string]any{"name": "gates", "mountPath": "/gates"}}
	pod["volumes"] = []any{map[string]any{"name": "gates", "hostPath": map[string]any{"path": w.gates.folder}}}
	run := w.runs("job", pod, func(j *core.JobSpec) { j.OrphanPolicy = policy })
	w.reaches(run, core.OrchestratorRunning)

	require.NoError(t, w.gates.open(hangs))
	o := w.reaches(run, core.OrchestratorOrphaned)

	assert.Contains(t, o.Error, "heartbeat")
	return w, run
}

// works lets the runner go on.
func (w *world) works() {
	w.t.Helper()
	require.NoError(w.t, os.Remove(filepath.Join(w.gates.folder, hangs)))
}

func TestThePodOfARunWhoseRunnerHungIsDeletedOnceTheRunnerWorksAgain(t *testing.T) {
	t.Parallel()
	w, run := orphaned(t, core.OrphanDelete)
	assert.Nil(t, w.pod(run, 0, nil).DeletionTimestamp, "the runner hangs")

	w.works()
	o := w.ends(run)

	assert.Equal(t, core.OrchestratorOrphaned, o.State)
	w.onePodEach(run, 1)
}

func TestThePodOfARunWhoseRunnerHungGoesOnWhereTheJobAdoptsIt(t *testing.T) {
	t.Parallel()
	w, run := orphaned(t, core.OrphanAdopt)

	w.works()
	require.NoError(t, w.gates.open("end"))
	o := w.until(run, "its pod's end", func(o core.Orchestrator) bool { return !o.InCluster })
	w.leavesNothing()

	assert.Equal(t, core.OrchestratorOrphaned, o.State)
	assert.EqualValues(t, 7, exitCode(o))
	logs, err := w.orrery.Log(run, 0)
	require.NoError(t, err)
	assert.Equal(t, "it went on\n", logs)
	w.onePodEach(run, 1)
}
