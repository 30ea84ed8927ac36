package kube

import (
	"context"
	"errors"
	"io"
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
		k.createPod(runs(podOf(k.create(attempt))))
		k.sink.take()
		k.stop()
		k.watch()
		synctest.Wait()
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

func TestAPodThatIsGoneIsLost(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(k *kit, pod *corev1.Pod)
		want []string
	}{
		{"with its Job", func(k *kit, pod *corev1.Pod) {
			k.deleteJob(attempt)
			k.deletePod(pod)
		}, []string{"lost the pod and its Job were deleted"}},
		{"while its Job says nothing", func(k *kit, pod *corev1.Pod) { k.deletePod(pod) }, []string{"lost the pod was deleted"}},
		{"and its Job failed", func(k *kit, pod *corev1.Pod) {
			k.deletePod(pod)
			k.condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
		}, []string{"lost the pod was deleted"}},
		{"unless its Job is complete", func(k *kit, pod *corev1.Pod) {
			k.deletePod(pod)
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
		}, []string{"ended exit 0"}},
		{"unless the Job's deadline killed it", func(k *kit, pod *corev1.Pod) {
			k.deletePod(pod)
			k.condition(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded)
		}, []string{"ended DeadlineExceeded"}},
		{"unless it ended before", func(k *kit, pod *corev1.Pod) {
			k.updatePod(exits(pod, 2))
			k.deletePod(pod)
			k.deleteJob(attempt)
		}, []string{"ended Error exit 2"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				pod := k.createPod(runs(podOf(k.create(attempt))))
				require.Equal(t, []string{"running"}, k.sink.take())
				row.do(k, pod)
				wait(lostFor + time.Second)
				assert.Equal(t, row.want, k.sink.take())
			})
		})
	}
}

// condition gives the Job a condition.
func (k *kit) condition(c batchv1.JobConditionType, reason string) {
	job := k.job(attempt)
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, Reason: reason})
	k.updateJob(job)
}

func TestAJobWhosePodNobodySawSaysHowItEnded(t *testing.T) {
	for _, row := range []struct {
		condition batchv1.JobConditionType
		reason    string
		want      []string
	}{
		{batchv1.JobComplete, "CompletionsReached", []string{"ended exit 0"}},
		{batchv1.JobFailed, "BackoffLimitExceeded", []string{"ended BackoffLimitExceeded"}},
	} {
		inBubble(t, func(t *testing.T, k *kit) {
			k.create(attempt)
			k.condition(row.condition, row.reason)
			wait(lateFor - time.Second)
			assert.Empty(t, k.sink.take(), "the watch of pods may be late")
			wait(2 * time.Second)
			assert.Equal(t, row.want, k.sink.take())
		})
	}
}

func TestAPodThatIsSeenAfterTheEndOfItsJobEndsAsItDid(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := exits(podOf(k.create(attempt)), 3)
		k.condition(batchv1.JobFailed, "BackoffLimitExceeded")
		wait(10 * time.Second)
		k.createPod(pod)
		assert.Equal(t, []string{"ended Error exit 3"}, k.sink.take())
	})
}

func TestAJobThatIsDeletedByHandIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.create(attempt)
		k.deleteJob(attempt)
		assert.Equal(t, []string{"lost its Job was deleted"}, k.sink.take())
	})
}

func TestTheJobsDeadlineIsTheReasonOfAPodThatItKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(runs(podOf(k.create(attempt))))
		k.condition(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded)
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		k.updatePod(exits(pod, 7))
		assert.Equal(t, []string{"running", "ended DeadlineExceeded exit 7"}, k.sink.take())
	})
}

func TestAPodThatNobodyConfirmsIsLostAfterItsGracePeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(runs(podOf(k.create(attempt))))
		k.sink.take()
		grace, now := int64(20), metav1.Now()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: byTaintManager}}
		k.updatePod(pod)
		wait(20*time.Second + stuckFor - time.Second)
		assert.Empty(t, k.sink.take())
		wait(2 * time.Second)
		assert.Equal(t, []string{"lost NodeLost: the cluster has given up node n1, on which the pod ran"}, k.sink.take())
	})
}

func TestWhatIsNotOursIsNotTold(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.create(attempt)
		for i, change := range []func(*corev1.Pod){
			func(p *corev1.Pod) { p.Labels = map[string]string{LabelInstance: "orrery"} },
			func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
			func(p *corev1.Pod) { p.OwnerReferences[0].Name = "other" },
		} {
			pod := runs(podOf(job))
			pod.Name, pod.UID = pod.Name+strings.Repeat("x", i), types.UID(strings.Repeat("x", i+1))
			change(pod)
			k.createPod(pod)
		}
		assert.Empty(t, k.sink.take())
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
		pod := k.createPod(runs(podOf(k.create(attempt))))
		k.sink.take()
		expired := 0
		k.reactWatch("pods", func(clienttesting.Action) (bool, watchInterface, error) {
			expired++
			return expired <= 2, nil, apierrors.NewResourceExpired("too old resource version")
		})
		k.breakWatches()
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
		assert.Equal(t, 2, watches)
		assert.Len(t, k.sink.take(), 200)
		assert.LessOrEqual(t, calls, 2+200, "the kit itself gets each Job once")
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

func TestAWatchThatIsStuckEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds := int64(300)
		o := metav1.ListOptions{TimeoutSeconds: &seconds}
		var inner context.Context
		w, err := boundedWatch(t.Context(), o, func(ctx context.Context, _ metav1.ListOptions) (watchInterface, error) {
			inner = ctx
			return newDeafWatch(), nil
		})
		require.NoError(t, err)
		wait(300 * time.Second)
		require.NoError(t, inner.Err(), "the server ends it")
		wait(watchTimeout + time.Second)
		require.Error(t, inner.Err())
		w.Stop()

		start := time.Now()
		_, err = boundedWatch(t.Context(), o, func(ctx context.Context, _ metav1.ListOptions) (watchInterface, error) {
			<-ctx.Done() // nobody answers
			return nil, ctx.Err()
		})
		require.Error(t, err)
		assert.Equal(t, watchTimeout, time.Since(start))
	})
}

// replaces has the Job controller make another pod, as it does where somebody takes
// the finalizer off the first.
func (k *kit) replaces(job *batchv1.Job) *corev1.Pod {
	k.t.Helper()
	pod := runs(podOf(job))
	pod.Name, pod.UID = job.Name+"-second", "second"
	pod.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Second))
	return k.createPod(pod)
}

func TestAnAttemptIsNeverRunByTwoPods(t *testing.T) {
	lost := "lost the pod was deleted, and the cluster has made another, " + attempt.Name() + "-second, which is not followed: an attempt has one pod"
	for _, row := range []struct {
		name string
		do   func(k *kit, first *corev1.Pod)
		want []string
	}{
		{"the first is gone, and the second runs", func(k *kit, first *corev1.Pod) {
			k.deletePod(first)
			k.replaces(k.job(attempt))
		}, []string{"running", lost}},
		{"the first is gone, and the second has ended well", func(k *kit, first *corev1.Pod) {
			k.deletePod(first)
			k.updatePod(exits(k.replaces(k.job(attempt)), 0))
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
		}, []string{"running", lost}},
		{"the second comes while the first is still there", func(k *kit, first *corev1.Pod) {
			k.updatePod(exits(k.replaces(k.job(attempt)), 0))
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
			k.deletePod(first)
		}, []string{"running", lost}},
		{"the first ends beside the second", func(k *kit, first *corev1.Pod) {
			k.updatePod(exits(k.replaces(k.job(attempt)), 0))
			k.updatePod(exits(first, 3))
		}, []string{"running", "ended Error exit 3"}},
		{"the first had ended, and is gone", func(k *kit, first *corev1.Pod) {
			k.updatePod(exits(first, 0))
			k.deletePod(first)
			k.updatePod(exits(k.replaces(k.job(attempt)), 3))
		}, []string{"running", "ended exit 0"}},
		{"a watch that begins finds both", func(k *kit, first *corev1.Pod) {
			k.replaces(k.job(attempt))
			k.stop()
			k.watch()
			synctest.Wait()
			k.updatePod(exits(first, 4))
		}, []string{"running", "running", "ended Error exit 4"}},
		{"a watch that begins finds both, and the first goes", func(k *kit, first *corev1.Pod) {
			k.replaces(k.job(attempt))
			k.stop()
			k.watch()
			synctest.Wait()
			k.deletePod(first)
		}, []string{"running", "running", lost}},
		{"a copy that somebody made by hand", func(k *kit, first *corev1.Pod) {
			by := runs(podOf(k.job(attempt)))
			by.Name, by.UID, by.OwnerReferences = "by-hand", "by-hand", nil
			by = k.createPod(by)
			k.updatePod(exits(by, 9))
			k.deletePod(by)
			k.deletePod(first)
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
		}, []string{"running", "ended exit 0"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				first := runs(podOf(k.create(attempt)))
				first.Name = attempt.Name() + "-y" // by name it comes after the other
				row.do(k, k.createPod(first))
				wait(lostFor + time.Second)
				assert.Equal(t, row.want, k.sink.take())
				_, err := k.runner.Logs(t.Context(), attempt, jobs.LogOptions{}, io.Discard)
				if !k.hasPod(attempt) {
					require.ErrorIs(t, err, jobs.ErrNoPod, "the second one's logs are not the attempt's")
				}
				_, err = k.runner.Delete(t.Context(), attempt)
				require.NoError(t, err)
				pods, err := k.api.CoreV1().Pods("jobs").List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				assert.Empty(t, pods.Items, "nothing is left")
			})
		})
	}
}

func TestTheOldestOfThePodsThatAreFoundAtFirstCounts(t *testing.T) {
	pod := func(name string, age time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(begin.Add(-age))}}
	}
	for _, pods := range [][]*corev1.Pod{
		{pod("a", time.Hour), pod("b", 0)}, {pod("b", 0), pod("a", time.Hour)}, {pod("a", 0), pod("b", 0)}, {pod("b", 0), pod("a", 0)},
	} {
		tr := newTrack()
		tr.take(pods[0], false)
		tr.take(pods[1], false)
		assert.Equal(t, "a", tr.pod().Name)
		tr = newTrack()
		tr.take(pods[0], true)
		tr.take(pods[1], true)
		assert.Equal(t, pods[0].Name, tr.pod().Name, "later ones are none, whatever the clocks say")
	}
}
