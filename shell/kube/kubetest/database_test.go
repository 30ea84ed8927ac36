package kubetest_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// degraded waits until the runner says that.
func (w *world) degraded(why string) {
	w.t.Helper()
	eventually(w.t, func() error {
		if h := w.health(); h.Status != jobs.HealthDegraded || !strings.Contains(h.Error, why) {
			return fmt.Errorf("it is not %q, but %s: %s", why, h.Status, h.Error)
		}
		return nil
	})
}

func lives(p corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning
}

// Two Orrerys with the default instance share a namespace, each with a database of its own, and
// both run: neither deletes a pod of the other, takes it for its own or hides that it is there.
func TestADatabaseDeletesNoPodOfAnotherOneWithItsInstanceAndNamespace(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	long := labelled(kubetest.RunFor, untilFinished)
	first := w.runs("job", fakePod(), long)
	w.reaches(first, core.OrchestratorRunning)
	theFirst, pod := w.orrery, w.pod(first, 0, lives)

	w.settings.DB = filepath.Join(t.TempDir(), "second.db")
	stop := w.run()
	theSecond := w.orrery
	w.degraded("1 pod, such as " + pod.Labels["batch.kubernetes.io/job-name"])
	assert.Contains(t, w.health().Error, "give one of the two daemons another instance or namespace")
	second := w.runs("another", fakePod(), long)
	w.reaches(second, core.OrchestratorRunning)
	w.orrery = theFirst
	w.degraded("1 pod, such as another-")
	w.orrery = theSecond
	w.finish(second)
	assert.Equal(t, core.OrchestratorCompleted, w.until(second, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() }).State)
	stop()
	w.run() // a restart finds it once more
	w.degraded("another database has pods here")

	assert.Equal(t, pod.UID, w.pod(first, 0, lives).UID)
	w.orrery = theFirst
	w.finish(first)
	assert.Equal(t, core.OrchestratorCompleted, w.until(first, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() }).State)
	eventually(t, w.watched)
}

// A backup is restored that knows nothing of a run that began after it.
func TestThePodOfARunThatARestoredBackupDoesNotKnowGoesOnUntilItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	stop := w.run()
	eventually(t, w.watched)
	restored := filepath.Join(t.TempDir(), "restored.db")
	_, err := bolt.MakeFile(t.Context(), restored, w.orrery.(here).engine.Store().(store.Exporter))
	require.NoError(t, err)
	run := w.runs("job", fakePod(), labelled(kubetest.RunFor, untilFinished))
	w.reaches(run, core.OrchestratorRunning)
	stop()

	w.settings.DB = restored
	stop = w.run()
	w.degraded("does not know any more: 1 pod, such as job-")
	w.pod(run, 0, lives)
	w.finish(run)
	stop()
	w.run() // which compares the cluster with the store at once
	w.leavesNothing()
	eventually(t, w.watched)
}
