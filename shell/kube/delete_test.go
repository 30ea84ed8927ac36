package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

var errNoRight = apierrors.NewForbidden(jobsResource, "x", errors.New("no right to delete"))

// deaf has the watch of Jobs show none.
func (k *kit) deaf() {
	k.reactWatch("jobs", func(clienttesting.Action) (bool, watchInterface, error) { return true, newDeafWatch(), nil })
}

func (k *kit) held() []jobs.Attempt {
	k.t.Helper()
	held, err := k.runner.Held(k.t.Context())
	require.NoError(k.t, err)
	return held
}

func TestAPodThatRunsAndIsDeletedIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.lingering()
		pod := k.running()
		done := k.deleting(t.Context())
		k.purge("pods", pod.Name)
		k.purge("jobs", nameOf("nightly", attempt))
		require.NoError(t, (<-done).err)
		wait(time.Hour)
		assert.Empty(t, k.sink.take(), "who deletes it knows")
		assert.Zero(t, k.tracked())
	})
}

func TestAPodThatIsKilledGetsTheLeastGraceThatTheNodeConfirms(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.lingering()
		pod := k.running()
		var graces []int64
		k.react("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if o := action.(clienttesting.DeleteActionImpl).DeleteOptions; o.GracePeriodSeconds != nil {
				graces = append(graces, *o.GracePeriodSeconds)
			}
			return false, nil, nil
		})
		done := make(chan error, 1)
		go func() {
			_, err := k.runner.Kill(t.Context(), attempt)
			done <- err
		}()
		synctest.Wait()
		assert.Equal(t, []int64{killGrace}, graces)
		k.purge("pods", pod.Name)
		k.purge("jobs", nameOf("nightly", attempt))
		require.NoError(t, <-done)
		assert.Len(t, graces, 1)
	})
}

func TestADeletionThatIsRefusedIsAPermanentError(t *testing.T) {
	t.Run("of the Job", func(t *testing.T) {
		inBubble(t, func(t *testing.T, k *kit) {
			k.create(attempt)
			k.fails("delete", "jobs", errNoRight)
			calls, err := k.runner.Delete(t.Context(), attempt)
			require.ErrorContains(t, err, "delete Job "+nameOf("nightly", attempt))
			require.ErrorContains(t, err, "no right to delete")
			assert.True(t, shell.IsPermanent(err))
			assert.Equal(t, 1, calls)
		})
	})
	t.Run("of a pod without its Job", func(t *testing.T) {
		inBubble(t, func(t *testing.T, k *kit) {
			pod := podOf(k.create(attempt))
			k.createPod(runs(pod))
			k.deleteJob(attempt)
			k.fails("delete", "pods", errNoRight)
			calls, err := k.runner.Delete(t.Context(), attempt)
			require.ErrorContains(t, err, "delete pod "+pod.Name)
			assert.True(t, shell.IsPermanent(err))
			assert.Equal(t, 2, calls)
		})
	})
	t.Run("of the Job, when it is asked once more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKit(t, &sinkOf{})
			k.lingering()
			k.deaf()
			k.watch()
			defer k.stop()
			synctest.Wait()
			k.create(attempt)
			done := k.deleting(t.Context())
			k.fails("delete", "jobs", errNoRight)
			wait(askEvery)
			got := <-done
			assert.True(t, shell.IsPermanent(got.err), "%v", got.err)
			assert.Equal(t, 2, got.calls)
		})
	})
}

func TestAJobThatWasNeverShownIsHeldUntilItIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.deaf()
		k.watch()
		defer k.stop()
		synctest.Wait()
		k.create(attempt)
		k.fails("delete", "jobs", errNoRight)
		_, err := k.runner.Delete(t.Context(), attempt)
		require.Error(t, err)
		assert.Equal(t, []jobs.Attempt{attempt}, k.held(), "it was not deleted")
		_, err = k.runner.Delete(t.Context(), attempt)
		require.NoError(t, err)
		assert.Empty(t, k.held())
	})
}

func TestADeletionSaysThatItWaitsInVain(t *testing.T) {
	unfinished := func(t *testing.T, k *kit) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := k.runner.Delete(ctx, attempt)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "delete the Job of attempt "+k.runner.NameOf("", attempt)+": it or its pods are still there")
		assert.False(t, shell.IsPermanent(err))
	}
	t.Run("for what stays", func(t *testing.T) {
		inBubble(t, func(t *testing.T, k *kit) {
			k.lingering()
			k.create(attempt)
			unfinished(t, k)
			n, _ := k.deletes("jobs")
			assert.Equal(t, 1, n, "the watch shows it: nobody asks again")
		})
	})
	t.Run("for a watch that does not begin", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKit(t, &sinkOf{})
			k.react("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errRefused })
			k.watch()
			defer k.stop()
			unfinished(t, k)
		})
	})
}

func TestAPodWhoseJobWasNeverThereIsDeletedWithoutPolling(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job, err := k.runner.jobOf(run(attempt))
		require.NoError(t, err)
		k.lingering()
		pod := k.createPod(runs(podOf(job)))
		done := k.deleting(t.Context())
		wait(time.Hour)
		assert.Empty(t, done, "the pod is still there")
		n, _ := k.deletes("jobs")
		assert.Zero(t, n, "the API has no Job of it")
		n, _ = k.deletes("pods")
		assert.Equal(t, 1, n)
		k.purge("pods", pod.Name)
		assert.Equal(t, deleted{2, nil}, <-done)
	})
}

func TestAPodThatGoesWhileItIsDeletedIsGone(t *testing.T) {
	for _, err := range []error{
		apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x"),
		apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "x", errors.New("the UID in the precondition does not match")),
	} {
		inBubble(t, func(t *testing.T, k *kit) {
			pod := k.createPod(runs(podOf(k.create(attempt))))
			k.deleteJob(attempt)
			k.fails("delete", "pods", err)
			done := k.deleting(t.Context())
			wait(time.Hour)
			n, _ := k.deletes("pods")
			assert.Equal(t, 1, n, "once")
			assert.Empty(t, done, "the watch still shows it")
			k.purge("pods", pod.Name)
			assert.Equal(t, deleted{2, nil}, <-done)
		})
	}
}

func TestAPodThatIsBeingDeletedAlreadyIsNotDeletedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.lingering()
		pod := runs(podOf(k.create(attempt)))
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		k.createPod(pod)
		k.deleteJob(attempt)
		k.purge("jobs", nameOf("nightly", attempt))
		done := k.deleting(t.Context())
		wait(time.Hour)
		n, _ := k.deletes("pods")
		assert.Zero(t, n)
		k.purge("pods", pod.Name)
		assert.Equal(t, deleted{1, nil}, <-done)
	})
}
