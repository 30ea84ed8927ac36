package kube

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/orrery-go/orrery/shell/jobs"
)

// keeping is a kit whose runner keeps what has failed for an hour.
func keeping(t *testing.T, test func(t *testing.T, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.runner.keepFailed = time.Hour
		k.watch()
		defer func() { k.stop() }()
		synctest.Wait()
		test(t, k)
	})
}

// ended is a pod that ends now.
func (k *kit) ended(pod *corev1.Pod, exit int32) *corev1.Pod {
	pod = exits(pod, exit)
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].State.Terminated.FinishedAt = metav1.Now()
	}
	return k.createPod(pod)
}

func (k *kit) remaining() int {
	k.t.Helper()
	list, err := k.api.BatchV1().Jobs("jobs").List(k.t.Context(), metav1.ListOptions{})
	require.NoError(k.t, err)
	return len(list.Items)
}

func TestAFailedJobStaysForItsTimeAndIsThenDeleted(t *testing.T) {
	keeping(t, func(t *testing.T, k *kit) {
		job := k.create(attempt)
		assert.Equal(t, "failed 3600", job.Annotations[AnnotationKeep])
		assert.EqualValues(t, 86400, *job.Spec.TTLSecondsAfterFinished, "a daemon that is away must find the end")
		assert.NotContains(t, job.Spec.Template.Annotations, AnnotationKeep)
		k.ended(podOf(job), 3)
		until := k.runner.Keeps(attempt)
		assert.WithinRange(t, until, time.Now().Add(time.Hour-2*time.Second), time.Now().Add(time.Hour))
		calls, err := k.runner.Delete(t.Context(), attempt)
		require.NoError(t, err)
		assert.Zero(t, calls)
		assert.Equal(t, 1, k.remaining(), "the run goes on without it, and it stays")
		assert.Equal(t, []jobs.Attempt{attempt}, k.held())

		k.stop() // the daemon is another one
		k.watch()
		synctest.Wait()
		_, err = k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		_, err = k.runner.Delete(t.Context(), attempt)
		require.NoError(t, err)
		assert.Equal(t, 1, k.remaining(), "there is never another, and it stays still")

		wait(time.Hour)
		assert.False(t, k.runner.Keeps(attempt).IsZero())
		_, err = k.runner.Delete(t.Context(), attempt)
		require.NoError(t, err)
		assert.Zero(t, k.remaining())
	})
}

func TestWhatHasNotFailedByItselfIsDeleted(t *testing.T) {
	for name, pod := range map[string]func(k *kit, job *batchv1.Job){
		"it has succeeded":  func(k *kit, job *batchv1.Job) { k.ended(podOf(job), 0) },
		"it runs":           func(k *kit, job *batchv1.Job) { k.createPod(runs(podOf(job))) },
		"there is no pod":   func(*kit, *batchv1.Job) {},
		"it does not start": func(k *kit, job *batchv1.Job) { k.createPod(podOf(job)) },
	} {
		t.Run(name, func(t *testing.T) {
			keeping(t, func(t *testing.T, k *kit) {
				pod(k, k.create(attempt))
				assert.Zero(t, k.runner.Keeps(attempt))
				_, err := k.runner.Delete(t.Context(), attempt)
				require.NoError(t, err)
				assert.Zero(t, k.remaining())
			})
		})
	}
}

func TestTtlSecondsAfterFinishedOfAJobKeepsItHoweverItHasEnded(t *testing.T) {
	for _, exit := range []int32{0, 7} {
		keeping(t, func(t *testing.T, k *kit) {
			in := run(attempt)
			in.Spec.TTLSecondsAfterFinished = 2 * 86400
			_, err := k.runner.Create(t.Context(), in)
			require.NoError(t, err)
			synctest.Wait()
			job := k.job(attempt)
			assert.EqualValues(t, 2*86400, *job.Spec.TTLSecondsAfterFinished)
			k.ended(podOf(job), exit)
			_, err = k.runner.Delete(t.Context(), attempt)
			require.NoError(t, err)
			assert.Equal(t, 1, k.remaining())
			assert.Greater(t, time.Until(k.runner.Keeps(attempt)), 47*time.Hour)
		})
	}
}

func TestAJobOfWhichThePodIsGoneIsKeptIfItHasFailed(t *testing.T) {
	keeping(t, func(t *testing.T, k *kit) {
		job := k.create(attempt)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		k.updateJob(job)
		_, err := k.runner.Delete(t.Context(), attempt)
		require.NoError(t, err)
		assert.Equal(t, 1, k.remaining())
	})
}

func TestKeepFailedIsChecked(t *testing.T) {
	for _, d := range []time.Duration{-1, 8 * 24 * time.Hour} {
		_, err := New(Options{Client: clientset{fake.NewClientset()}, KeepFailed: d})
		require.ErrorContains(t, err, "KeepFailed")
	}
}
