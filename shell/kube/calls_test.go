package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

var jobsResource = schema.GroupResource{Group: "batch", Resource: "jobs"}

// fails has the calls of that verb and resource fail, one error after the other.
func (k *kit) fails(verb, resource string, errs ...error) {
	k.react(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if len(errs) == 0 {
			return false, nil, nil
		}
		err := errs[0]
		errs = errs[1:]
		return true, nil, err
	})
}

func quota() error {
	return apierrors.NewForbidden(jobsResource, "x", errors.New("exceeded quota: small, requested: count/jobs.batch=1"))
}

func TestWhatMayPassIsTriedAgain(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
	}{
		{"no connection", errors.New("dial tcp: connection refused")},
		{"too many requests", apierrors.NewTooManyRequests("slow down", 1)},
		{"internal error", apierrors.NewInternalError(errors.New("etcd has no leader"))},
		{"unavailable", apierrors.NewServiceUnavailable("starting")},
		{"server time-out", apierrors.NewServerTimeout(jobsResource, "create", 2)},
		{"gateway time-out", apierrors.NewTimeoutError("gateway", 0)},
		{"a write that met another", apierrors.NewConflict(jobsResource, "x", errors.New("modified"))},
		{"credentials that are renewed", apierrors.NewUnauthorized("token expired")},
		{"a quota that is used up", quota()},
		{"context of one call", context.DeadlineExceeded},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				k.fails("create", "jobs", row.err, row.err)
				calls, err := k.runner.Create(t.Context(), run(attempt))
				require.NoError(t, err)
				assert.Equal(t, 3, calls)
				k.job(attempt)
			})
		})
	}
}

func TestWhatIsRefusedIsAPermanentErrorAtOnce(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "x", field.ErrorList{
		field.Invalid(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image"), "x", "must not have spaces"),
		field.Required(field.NewPath("spec", "template", "spec", "serviceAccountName"), ""),
	})
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"bad request", apierrors.NewBadRequest("strict decoding"), "strict decoding"},
		{"forbidden", apierrors.NewForbidden(jobsResource, "x", errors.New("no rights")), "no rights"},
		{"no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "jobs"), `namespaces "jobs" not found`},
		{"too large", apierrors.NewRequestEntityTooLargeError("3 MB"), "3 MB"},
		{"invalid", invalid, "pod_spec.containers[0].image: Invalid value: \"x\": must not have spaces; pod_spec.serviceAccountName: Required value"},
		{"no such API", apierrors.NewMethodNotSupported(jobsResource, "create"), "not supported"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				k.fails("create", "jobs", row.err)
				calls, err := k.runner.Create(t.Context(), run(attempt))
				require.ErrorContains(t, err, row.want)
				assert.True(t, shell.IsPermanent(err))
				assert.Equal(t, 1, calls)
			})
		})
	}
}

func TestTheServersWaitIsRespected(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.fails("create", "jobs", apierrors.NewTooManyRequests("slow down", 300))
		start := time.Now()
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(start), 300*time.Second)
	})
}

func TestTryingAgainEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.react("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, quota() })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		calls, err := k.runner.Create(ctx, run(attempt))
		require.ErrorContains(t, err, "exceeded quota", "it says what it waited for")
		assert.False(t, shell.IsPermanent(err))
		assert.Greater(t, calls, 10)
		assert.Less(t, calls, 50, "the wait grows")
		assert.Contains(t, k.sink.messages(), "exceeded quota: small")
		assert.Equal(t, []string{"created CreateRetried"}, k.sink.take(), "told once")
		synctest.Wait()
		assert.Zero(t, k.tracked(), "there is nothing to wait for any more")
	})
}

func TestCredentialsThatAreNotRenewedEndItSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.react("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewUnauthorized("token expired")
		})
		start := time.Now()
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.Error(t, err)
		assert.False(t, shell.IsPermanent(err), "the next attempt may have them")
		assert.Less(t, time.Since(start), 2*unauthorizedFor)
	})
}

func TestCreatingTwiceMakesOneJob(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.create(attempt)
		calls, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		assert.Equal(t, 1, calls)
		list, err := k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, 1)
	})
}

// A call that has failed is repeated, and the process may have been frozen meanwhile.
func TestEachCallThatCreatesAJobIsPrecededByTheQuestionWhoseTheDatabaseIs(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.fails("create", "jobs", apierrors.NewInternalError(errors.New("etcd has no leader")))
		asked, is := 0, run(attempt)
		unsure := shell.NotStarted(errors.New("it may be another process's"))
		is.Confirm = func() error {
			if asked++; asked == 2 {
				return unsure
			}
			return nil
		}
		_, err := k.runner.Create(t.Context(), is)
		require.Equal(t, unsure, err)
		list, err := k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
		_, err = k.runner.Create(t.Context(), is)
		require.NoError(t, err)
		assert.Equal(t, 3, asked)
	})
}

func TestAJobOfAnotherInstanceOrAttemptIsNotTaken(t *testing.T) {
	for label, other := range map[string]string{LabelInstance: "other", LabelAttempt: "7"} {
		inBubble(t, func(t *testing.T, k *kit) {
			job, err := k.runner.jobOf(run(attempt))
			require.NoError(t, err)
			job.Labels[label] = other
			_, err = k.api.BatchV1().Jobs("jobs").Create(t.Context(), job, metav1.CreateOptions{})
			require.NoError(t, err)
			synctest.Wait()
			_, err = k.runner.Create(t.Context(), run(attempt))
			require.ErrorContains(t, err, `not of instance "orrery"`)
			assert.True(t, shell.IsPermanent(err))
		})
	}
}

func TestANameThatBecomesFreeWhileItIsLookedAtIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.fails("create", "jobs", apierrors.NewAlreadyExists(jobsResource, "x"))
		calls, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		assert.Equal(t, 3, calls)
		k.job(attempt)
	})
}

// lingering has what is deleted stay, marked, as with finalizers and a kubelet, until
// it is purged.
func (k *kit) lingering() {
	k.react("delete", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := k.api.Tracker().Get(a.GetResource(), "jobs", a.(clienttesting.DeleteAction).GetName())
		if err != nil {
			return true, nil, err
		}
		obj = obj.DeepCopyObject()
		meta := obj.(metav1.Object)
		if meta.GetDeletionTimestamp() == nil {
			now, grace := metav1.Now(), int64(30)
			meta.SetDeletionTimestamp(&now)
			meta.SetDeletionGracePeriodSeconds(&grace)
			err = k.api.Tracker().Update(a.GetResource(), obj, "jobs")
		}
		return true, nil, err
	})
}

func (k *kit) purge(resource, name string) {
	k.t.Helper()
	group := map[string]string{"jobs": "batch", "pods": ""}[resource]
	require.NoError(k.t, k.api.Tracker().Delete(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, "jobs", name))
	synctest.Wait()
}

// deletes counts the calls that delete, and gives the options of the last.
func (k *kit) deletes(resource string) (int, metav1.DeleteOptions) {
	n, o := 0, metav1.DeleteOptions{}
	for _, a := range k.api.Actions() {
		if a.GetVerb() == "delete" && a.GetResource().Resource == resource {
			n, o = n+1, a.(clienttesting.DeleteAction).GetDeleteOptions()
		}
	}
	return n, o
}

type deleted struct {
	calls int
	err   error
}

// deleting begins to delete the attempt.
func (k *kit) deleting(ctx context.Context) <-chan deleted {
	done := make(chan deleted, 1)
	go func() {
		calls, err := k.runner.Delete(ctx, attempt)
		done <- deleted{calls, err}
	}()
	synctest.Wait()
	return done
}

func TestDeleteReturnsWhenTheJobAndItsPodsAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.lingering()
		pod := k.createPod(exits(podOf(k.create(attempt)), 0))
		k.sink.take()
		done := k.deleting(t.Context())
		wait(time.Hour)
		assert.Empty(t, done, "both are still there")
		k.purge("pods", pod.Name)
		assert.Empty(t, done, "the Job is still there")
		k.purge("jobs", nameOf("nightly", attempt))
		assert.Equal(t, deleted{1, nil}, <-done)
		n, o := k.deletes("jobs")
		assert.Equal(t, 1, n, "one call, no polling")
		assert.Equal(t, metav1.DeletePropagationForeground, *o.PropagationPolicy)
		assert.Nil(t, o.GracePeriodSeconds, "the pod's own counts")
		wait(time.Hour)
		assert.Empty(t, k.sink.take(), "what was deleted is not lost")
		held, err := k.runner.Held(t.Context())
		require.NoError(t, err)
		assert.Empty(t, held)
		assert.Zero(t, k.tracked())
	})
}

func TestAPodThatEndsWhileItIsDeletedIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.lingering()
		pod := k.running()
		done := k.deleting(t.Context())
		k.updatePod(exits(pod, 5))
		k.purge("pods", pod.Name)
		k.purge("jobs", nameOf("nightly", attempt))
		require.NoError(t, (<-done).err)
		assert.Equal(t, []string{"ended Error exit 5"}, k.sink.take())
	})
}

func TestDeletingWhatIsNotThereIsNoError(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		calls, err := k.runner.Delete(t.Context(), attempt)
		require.NoError(t, err)
		assert.Equal(t, 1, calls)
		assert.Zero(t, k.tracked())
	})
}

func TestAPodWithoutItsJobIsDeletedItself(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := podOf(k.create(attempt))
		pod.OwnerReferences = nil
		k.createPod(runs(pod))
		k.deleteJob(attempt)
		calls, err := k.runner.Delete(t.Context(), attempt)
		require.NoError(t, err)
		assert.Equal(t, 2, calls)
		n, o := k.deletes("pods")
		assert.Equal(t, 1, n)
		assert.Equal(t, pod.UID, *o.Preconditions.UID)
		assert.Nil(t, o.GracePeriodSeconds)
	})
}

func TestAPodOnANodeThatIsGivenUpIsDeletedByForceAfterItsGracePeriod(t *testing.T) {
	for _, given := range []bool{true, false} {
		inBubble(t, func(t *testing.T, k *kit) {
			k.lingering()
			pod := runs(podOf(k.create(attempt)))
			if given {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: byTaintManager}}
			}
			now, grace := metav1.Now(), int64(30)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
			k.createPod(pod)
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			done := k.deleting(ctx)
			wait(30*time.Second + stuckFor - time.Second)
			n, _ := k.deletes("pods")
			assert.Zero(t, n)
			wait(time.Hour)
			n, o := k.deletes("pods")
			if !given {
				assert.Zero(t, n, "a slow node is waited for")
				wait(24 * time.Hour)
				require.ErrorIs(t, (<-done).err, context.DeadlineExceeded)
				return
			}
			assert.Equal(t, 1, n)
			assert.Zero(t, *o.GracePeriodSeconds)
			assert.Contains(t, k.logs.String(), "deleting a pod by force")
			k.purge("pods", pod.Name)
			k.purge("jobs", nameOf("nightly", attempt))
			assert.Equal(t, deleted{2, nil}, <-done)
		})
	}
}

func TestDeleteWaitsForAJobThatTheWatchHasNotShownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.lingering()
		k.reactWatch("jobs", func(clienttesting.Action) (bool, watchInterface, error) { return true, newDeafWatch(), nil })
		k.watch()
		defer k.stop()
		synctest.Wait()
		k.create(attempt)
		done := k.deleting(t.Context())
		wait(time.Second)
		assert.Empty(t, done, "the watch lags: that it shows no Job says nothing")
		k.purge("jobs", nameOf("nightly", attempt))
		wait(askEvery)
		assert.Equal(t, deleted{2, nil}, <-done, "and it never shows it: the API is asked once more")
	})
}

func TestDeleteGoesOnOverANewWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.lingering()
		k.create(attempt)
		done := k.deleting(t.Context())
		k.stop()
		k.watch()
		wait(time.Minute)
		assert.Empty(t, done)
		k.purge("jobs", nameOf("nightly", attempt))
		require.NoError(t, (<-done).err)
	})
}

func TestNothingIsWaitedForBeyondItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{}) // no Watch runs
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := k.runner.Held(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = k.runner.Delete(ctx, attempt)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, k.runner.Beat(ctx), context.DeadlineExceeded)
		_, err = k.runner.Logs(ctx, attempt, jobs.LogOptions{}, io.Discard)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestCallsWaitForTheirTurnWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		r, err := New(Options{Client: clientset{k.api}, Namespace: "jobs", QPS: 1, Burst: 1})
		require.NoError(t, err)
		start := time.Now()
		errs := make(chan error, 100)
		for n := range uint32(100) {
			go func() {
				calls, err := r.Create(t.Context(), run(jobs.Attempt{Run: runUUID, N: n}))
				if err == nil && calls != 2 { // no watch tells what is there: that is asked for
					err = fmt.Errorf("%d calls", calls)
				}
				errs <- err
			}()
		}
		for range 100 {
			require.NoError(t, <-errs)
		}
		assert.GreaterOrEqual(t, time.Since(start), 98*time.Second, "longer than one call may take")
	})
}
