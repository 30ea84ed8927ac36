package kubetest_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// The node removes the log of a pod that is deleted while it is still being read, and says so
// in its place: nothing of that is a part of what the pod wrote.
func TestTheLogOfAPodThatIsStoppedIsWhatItWroteAndNoMore(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.SharedReal(t))
	const script = "trap 'echo saved; exit 0' TERM; echo begun; while :; do sleep 0.1; done"
	var runs []uuid.UUID
	for i := range 9 {
		runs = append(runs, w.runs(fmt.Sprintf("stopped-%d", i), realPod(script), nil))
	}
	for _, run := range runs {
		w.reaches(run, core.OrchestratorRunning)
	}
	for _, run := range runs {
		require.NoError(t, w.orrery.Cancel(run))
	}
	for _, run := range runs {
		o := w.until(run, "cancelled", func(o core.Orchestrator) bool { return o.State == core.OrchestratorCancelled })
		logs, err := w.orrery.Log(run, 0)
		require.NoError(t, err)
		assert.Equal(t, "begun\nsaved\n", logs, "%+v", o.Logs)
	}
}
