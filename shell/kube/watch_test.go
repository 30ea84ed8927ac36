package kube

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell/jobs"
)

func TestAPodIsToldFromItsCreationToItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(podOf(k.create(attempt)))
		assert.Equal(t, []string{"created Pending"}, k.sink.take())
		pod.Spec.NodeName = "n1"
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
		k.updatePod(pod)
		k.updatePod(runs(pod))
		assert.Equal(t, []string{"created ContainerCreating", "running"}, k.sink.take())
		k.updatePod(exits(pod, 3))
		assert.Equal(t, []string{"ended Error exit 3"}, k.sink.take())
		k.deletePod(pod)
		k.deleteJob(attempt)
		wait(time.Hour)
		assert.Empty(t, k.sink.take(), "after the end nothing more is told")
		assert.Zero(t, k.tracked(), "what is gone is forgotten")
	})
}

func TestAWatchThatBeginsTellsAllThereIs(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.running()
		k.stop()
		k.watch()
		synctest.Wait()
		assert.Equal(t, []string{"running"}, k.sink.take())
	})
}

func TestAPodThatWaitsOrRunsForADayIsNoNews(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(podOf(k.create(attempt)))
		wait(24 * time.Hour)
		k.updatePod(runs(pod))
		wait(24 * time.Hour)
		assert.Equal(t, []string{"created Pending", "running"}, k.sink.take())
	})
}

func TestWhatTheAPIDoesNotTakeIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.react("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, quota() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := k.runner.Create(ctx, run(attempt))
			done <- err
		}()
		wait(time.Minute)
		assert.Equal(t, []string{"created CreateRetried"}, k.sink.take())
		assert.Empty(t, k.held())
		require.Error(t, <-done)
	})
}

func TestWhileTheClusterWasNeverReachedItIsToldWhyThereIsNoJobAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.createPod(runs(podOf(k.create(attempt))))
		down := map[string]bool{"pods": true, "jobs": true}
		refused := func(a clienttesting.Action) (bool, runtime.Object, error) {
			return down[a.GetResource().Resource], nil, apierrors.NewServiceUnavailable("starting")
		}
		k.react("list", "*", refused)
		k.react("create", "jobs", refused)
		k.watch()
		defer func() { k.stop() }()
		done := make(chan error, 1)
		go func() {
			_, err := k.runner.Create(t.Context(), run(attempt))
			done <- err
		}()
		wait(time.Minute)
		assert.Equal(t, attempt.Name()+": the API did not take the Job yet: starting\n", k.sink.messages())
		assert.Equal(t, []string{"created CreateRetried"}, k.sink.take())

		k.locked(func() { down["pods"] = false })
		wait(10 * time.Minute)
		assert.Empty(t, k.sink.take(), "a pod whose Job was not seen yet")

		k.locked(func() { down["jobs"] = false })
		wait(10 * time.Minute)
		require.NoError(t, <-done)
		assert.Equal(t, []string{"running"}, k.sink.take())
	})
}

func TestTriesToPullAnImageAreNotEachTold(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(podOf(k.create(attempt)))
		k.sink.take()
		for _, reason := range []string{"ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff", "ErrImagePull"} {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: time.Now().String()}}}}
			k.updatePod(pod)
			wait(time.Second)
		}
		assert.Equal(t, []string{"created ErrImagePull", "created ImagePullBackOff"}, k.sink.take())
	})
}

func TestAJobThatGetsNoPodIsToldAfterAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.create(attempt)
		wait(bareFor - time.Second)
		assert.Empty(t, k.sink.take())
		wait(2 * time.Second)
		assert.Equal(t, []string{"created PodNotCreated"}, k.sink.take())
	})
}

func TestWhatIsNotOursIsNotTold(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.create(attempt)
		for i, change := range []func(*corev1.Pod){
			func(p *corev1.Pod) { p.Labels = map[string]string{LabelInstance: "orrery"} },
			func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
			func(p *corev1.Pod) { p.OwnerReferences[0].Name = "other" },
			func(p *corev1.Pod) {
				p.OwnerReferences, p.Labels = nil, map[string]string{LabelInstance: "orrery", LabelRun: "x"}
			},
		} {
			pod := runs(podOf(job))
			pod.Name, pod.UID = pod.Name+strings.Repeat("x", i), types.UID(strings.Repeat("x", i+1))
			change(pod)
			k.createPod(pod)
		}
		wait(bareFor)
		assert.Equal(t, []string{"created PodNotCreated"}, k.sink.take())
		job.Name += "-copy"
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		_, err := k.api.BatchV1().Jobs("jobs").Create(t.Context(), job, metav1.CreateOptions{})
		require.NoError(t, err)
		wait(lateFor + time.Second)
		require.NoError(t, k.api.BatchV1().Jobs("jobs").Delete(t.Context(), job.Name, metav1.DeleteOptions{}))
		synctest.Wait()
		assert.Empty(t, k.sink.take())
		assert.Equal(t, 1, k.tracked())
	})
}

func TestBeatAnswersUnlessTheSinkHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{hang: make(chan struct{})})
		k.watch()
		defer k.stop()
		synctest.Wait()
		require.NoError(t, k.runner.Beat(t.Context()))
		k.createPod(runs(podOf(k.create(attempt))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, k.runner.Beat(ctx), context.DeadlineExceeded)
		close(k.sink.hang)
		require.NoError(t, k.runner.Beat(t.Context()))
		assert.Equal(t, []string{"running"}, k.sink.take(), "what was seen before the beat was told before it answered")
	})
}

func TestABeatOfAWatchThatEndsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{hang: make(chan struct{})})
		k.watch()
		synctest.Wait()
		k.createPod(runs(podOf(k.create(attempt))))
		beat := make(chan error, 1)
		go func() { beat <- k.runner.Beat(t.Context()) }()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() {
			k.stop()
			close(stopped)
		}()
		synctest.Wait()
		close(k.sink.hang)
		require.ErrorIs(t, <-beat, errWatchEnded)
		<-stopped
	})
}

// errGoneVersion is how older servers say that a version has expired.
var errGoneVersion = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone}}

func TestAnEndOfAListOrAWatchThatIsNothingUnusualIsNotLogged(t *testing.T) {
	k := newKit(t, &sinkOf{})
	f := k.runner.feed
	ended, end := context.WithCancel(t.Context())
	end()
	f.reached(ended, "pods", ended.Err())
	for _, err := range []error{apierrors.NewResourceExpired("too old"), errGoneVersion} {
		f.reached(t.Context(), "pods", err)
	}
	assert.Empty(t, k.logs.String())
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	f.reached(late, "pods", late.Err())
	assert.Contains(t, k.logs.String(), "cannot watch the cluster", "nobody answered")
}

func TestAClusterThatCannotBeReachedIsLoggedOnceAndIsNoMissingBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		var down atomic.Bool
		down.Store(true)
		for _, verb := range []string{"list", "watch"} {
			k.react(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return down.Load(), nil, errors.New("connection refused")
			})
		}
		k.reactWatch("*", func(clienttesting.Action) (bool, watchInterface, error) {
			return down.Load(), nil, errors.New("connection refused")
		})
		k.watch()
		defer k.stop()
		wait(10 * time.Minute)
		require.NoError(t, k.runner.Beat(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := k.runner.Held(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody knows what the cluster holds")
		assert.Equal(t, 2, strings.Count(k.logs.String(), "cannot watch the cluster"), "%s", k.logs)
		down.Store(false)
		wait(10 * time.Minute)
		held, err := k.runner.Held(t.Context())
		require.NoError(t, err)
		assert.Empty(t, held)
		assert.Equal(t, 2, strings.Count(k.logs.String(), "watching the cluster again"), "%s", k.logs)
	})
}

func TestAWatchThatHasExpiredBeginsAgainWithAList(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.running()
		k.expireWatches("pods", 2)
		k.updatePod(exits(pod, 4))
		wait(5 * time.Minute)
		assert.Equal(t, []string{"ended Error exit 4"}, k.sink.take())
		assert.NotContains(t, k.logs.String(), "cannot watch")
	})
}

func TestWhatWasCreatedIsHeldBeforeTheWatchShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		blind := true
		k.reactWatch("jobs", func(clienttesting.Action) (bool, watchInterface, error) {
			if blind {
				return true, newDeafWatch(), nil
			}
			return false, nil, nil
		})
		k.watch()
		defer k.stop()
		synctest.Wait()
		k.create(attempt)
		held, err := k.runner.Held(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []jobs.Attempt{attempt}, held)
		assert.Empty(t, k.runner.current().held(), "the watch has not shown it")
	})
}

func TestOneWatchOfEachResourceServesAllRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		for n := range uint32(200) {
			a := jobs.Attempt{Run: runUUID, N: n}
			k.createPod(exits(podOf(k.create(a)), 0))
		}
		watches, calls := 0, 0
		for _, action := range k.api.Actions() {
			switch {
			case action.GetVerb() == "watch":
				watches++
			case action.GetVerb() == "get" || action.GetVerb() == "list":
				calls++
			}
		}
		assert.Equal(t, 3, watches, "of Jobs, pods and events")
		assert.Len(t, k.sink.take(), 200)
		assert.LessOrEqual(t, calls, 3+200, "the kit itself gets each Job once")
	})
}

func TestEachAttemptIsToldByItsName(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		want := ""
		for n := range uint32(3) {
			a := jobs.Attempt{Run: runUUID, N: n}
			k.createPod(runs(podOf(k.create(a))))
			want += a.Name() + ": \n"
		}
		assert.Equal(t, want, k.sink.messages())
	})
}

func TestWhatOtherInstancesHaveIsNotAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		asked := map[string]int{}
		for _, action := range k.api.Actions() {
			of := ""
			switch a := action.(type) {
			case clienttesting.ListActionImpl:
				of = a.GetListRestrictions().Labels.String() + a.GetListRestrictions().Fields.String()
			case clienttesting.WatchActionImpl:
				of = a.GetWatchRestrictions().Labels.String() + a.GetWatchRestrictions().Fields.String()
			}
			asked[action.GetVerb()+" "+action.GetResource().Resource+" "+of]++
		}
		of := " " + LabelInstance + "=orrery"
		assert.Equal(t, map[string]int{"list jobs" + of: 1, "list pods" + of: 1, "watch jobs" + of: 1, "watch pods" + of: 1, "list events type=Warning": 1, "watch events type=Warning": 1}, asked)
	})
}

func TestWhatWentWhileTheWatchWasBrokenIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.running()
		k.expireWatches("*", 4)
		k.deletePod(pod)
		k.deleteJob(attempt)
		wait(5 * time.Minute)
		assert.Equal(t, []string{"lost the pod and its Job were deleted"}, k.sink.take())
		assert.Empty(t, k.held())
	})
}

func TestAWatchThatIsRefusedWhileListsAreNotIsLoggedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		refused := true
		k.reactWatch("pods", func(clienttesting.Action) (bool, watchInterface, error) {
			return refused, nil, apierrors.NewForbidden(jobsResource, "", errors.New("cannot watch pods"))
		})
		k.breakWatches()
		wait(time.Hour)
		assert.Equal(t, 1, strings.Count(k.logs.String(), "cannot watch the cluster"), "%s", k.logs)
		assert.NotContains(t, k.logs.String(), "watching the cluster again")
		k.locked(func() { refused = false })
		wait(time.Hour)
		assert.Equal(t, 1, strings.Count(k.logs.String(), "watching the cluster again"), "%s", k.logs)
	})
}

func TestOnlyOneWatchRunsAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		require.ErrorContains(t, k.runner.Watch(t.Context(), k.sink), "runs already")
	})
}

func TestNothingIsToldBeforeAllIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.create(attempt)
		k.condition(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded)
		pod := exits(podOf(k.job(attempt)), 1)
		pod.DeletionTimestamp = &metav1.Time{Time: begin}
		k.createPod(pod)
		// A reactor must not block: it holds the lock of the fake, and whoever waits for
		// that lets no time pass in the bubble.
		var known atomic.Bool
		k.react("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !known.Load(), nil, apierrors.NewServiceUnavailable("starting")
		})
		k.watch()
		defer func() { k.stop() }()
		wait(time.Second)
		assert.Empty(t, k.sink.take(), "the pod's Job is not known yet")
		known.Store(true)
		wait(time.Minute) // the list is tried again
		assert.Equal(t, []string{"ended DeadlineExceeded exit 1"}, k.sink.take())
	})
}

func TestWhatCameAndWentWhileNobodyWatchedIsNotHeldForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.react("create", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
			job := a.(clienttesting.CreateAction).GetObject().(*batchv1.Job).DeepCopy()
			job.ResourceVersion = "5"
			return true, job, nil // and somebody deletes it at once
		})
		version := "4"
		k.react("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
		})
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		held := func() int {
			h, err := k.runner.Held(t.Context())
			require.NoError(t, err)
			return len(h)
		}
		k.watch()
		wait(time.Hour)
		assert.Equal(t, 1, held(), "the watch has not got as far")
		wait(time.Hour)
		assert.Equal(t, 1, held(), "nor has it an hour later")
		k.stop()
		k.locked(func() { version = "10" })
		k.watch()
		defer func() { k.stop() }()
		wait(time.Second)
		assert.Equal(t, 1, held(), "it may still be on its way")
		wait(expectedFor + time.Second)
		assert.Zero(t, held())
	})
}
