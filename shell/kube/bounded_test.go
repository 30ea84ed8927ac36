package kube

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell/jobs"
)

// bounding is a watch of five minutes, and what was said of its end.
type bounding struct {
	bounds
	server *watch.FakeWatcher

	mu  sync.Mutex
	all []error
}

func (b *bounding) said() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

func newBounding() *bounding {
	b := &bounding{server: watch.NewFake()}
	b.broke = func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all = append(b.all, err)
	}
	return b
}

func (b *bounding) begin(t *testing.T) (watchInterface, error) {
	t.Helper()
	return b.watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(300))}, func(context.Context, metav1.ListOptions) (watchInterface, error) {
		return b.server, nil
	})
}

// drain takes what a watch tells until it ends.
func drain(w watchInterface) (events int) {
	for range w.ResultChan() {
		events++
	}
	return events
}

func TestAWatchThatDoesNotBeginIsGivenUpSoon(t *testing.T) {
	for name, begins := range map[string]watchFunc{
		"nobody answers": func(ctx context.Context, _ metav1.ListOptions) (watchInterface, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"client-go tries again and says that all is well": func(ctx context.Context, _ metav1.ListOptions) (watchInterface, error) {
			<-ctx.Done()
			return watch.NewEmptyWatch(), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := newBounding().watch(t.Context(), metav1.ListOptions{}, begins)
				require.ErrorIs(t, err, errUnanswered)
				assert.True(t, unreachable(err))
				assert.Equal(t, beginTimeout, time.Since(start))
			})
		})
	}
}

func TestAWatchWhoseConnectionBreaksBeforeItBeginsHasNotBegun(t *testing.T) {
	b := newBounding()
	_, err := b.watch(t.Context(), metav1.ListOptions{}, func(context.Context, metav1.ListOptions) (watchInterface, error) { return watch.NewEmptyWatch(), nil })
	require.ErrorIs(t, err, errBrokeOff)
}

func TestWhichEndOfAWatchIsAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		ends  func(s *watch.FakeWatcher)
		want  string // empty: none
	}{
		"the server ends it in its time":    {295 * time.Second, (*watch.FakeWatcher).Stop, ""},
		"it breaks off":                     {time.Minute, (*watch.FakeWatcher).Stop, errBrokeOff.Error()},
		"its connection is lost":            {time.Minute, func(s *watch.FakeWatcher) { s.Error(errorOf(apierrors.NewInternalError(errors.New("lost")))); s.Stop() }, "Internal error occurred: lost"},
		"what it goes on from is not known": {time.Minute, func(s *watch.FakeWatcher) { s.Error(errorOf(apierrors.NewResourceExpired("too old"))) }, ""},
		"the server does not end it at all": {300*time.Second + lateEnd + time.Second, func(s *watch.FakeWatcher) {
			if !s.IsStopped() {
				panic("it goes on")
			}
		}, ""},
		"somebody stops it who wants no more": {time.Minute, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBounding()
				w, err := b.begin(t)
				require.NoError(t, err)
				done := make(chan int, 1)
				go func() { done <- drain(w) }()
				wait(c.after)
				if c.ends == nil {
					w.Stop()
				} else {
					c.ends(b.server)
					synctest.Wait()
				}
				if c.want == "" {
					assert.Empty(t, b.said())
				} else if assert.NotEmpty(t, b.said()) {
					assert.ErrorContains(t, b.said()[0], c.want)
				}
				w.Stop()
				<-done
			})
		})
	}
}

func errorOf(err *apierrors.StatusError) runtime.Object { return &err.ErrStatus }

func TestAServerThatSaysEachMinuteThatItLivesAndNoLongerDoesIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounding()
		w, err := b.begin(t)
		require.NoError(t, err)
		done := make(chan int, 1)
		go func() { done <- drain(w) }()
		for range 3 {
			wait(time.Minute)
			b.server.Action(watch.Bookmark, &corev1.Pod{})
		}
		wait(quietFor - time.Second)
		assert.Empty(t, b.said())
		wait(2 * time.Second)
		assert.Equal(t, []error{errQuiet}, b.said())
		assert.Equal(t, 3, <-done, "it has ended")
		assert.True(t, b.server.IsStopped())
	})
}

// Before the end of a watch, and once all was told that there was, each server says so.
func TestAServerThatDoesNotSayEachMinuteThatItLivesMayBeQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounding()
		for range 3 {
			b.server = watch.NewFake()
			w, err := b.begin(t)
			require.NoError(t, err)
			done := make(chan int, 1)
			go func() { done <- drain(w) }()
			b.server.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
			b.server.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
			wait(298 * time.Second)
			b.server.Action(watch.Bookmark, &corev1.Pod{})
			b.server.Stop()
			assert.Equal(t, 3, <-done)
		}
		assert.Empty(t, b.said())
	})
}

func TestWhatAWatchHasToldBeforeAnybodyAskedIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounding()
		b.server = watch.NewFakeWithChanSize(2, false)
		b.server.Add(&corev1.Pod{})
		b.server.Add(&corev1.Pod{})
		w, err := b.begin(t)
		require.NoError(t, err)
		wait(295 * time.Second)
		b.server.Stop()
		assert.Equal(t, 2, drain(w))
	})
}

// hang has the server take what is asked and not answer, and tell nothing any more; its
// connections are given up by the client some time later.
func (k *kit) hang() {
	for _, verb := range []string{"list", "create", "delete"} {
		k.react(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, context.DeadlineExceeded
		})
	}
	k.reactWatch("*", func(clienttesting.Action) (bool, watchInterface, error) { return true, nil, errUnanswered })
}

func TestAServerThatHangsIsAwayOnceItsConnectionsAreGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.running()
		wait(time.Minute)
		k.hang()
		wait(time.Minute)
		assert.Equal(t, jobs.HealthWorks, k.runner.Health().Status, "nobody knows yet")
		k.breakWatches()
		wait(brokenFor + time.Second)
		h := k.runner.Health()
		assert.Equal(t, jobs.HealthDown, h.Status)
		assert.Contains(t, h.Error, "cannot watch jobs: ")
		assert.Contains(t, h.Brief, "unreachable")
	})
}

// Servers are restarted, and what stands before them closes connections: nobody is told.
func TestAWatchThatBreaksOffAndBeginsAgainAtOnceIsNoOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		wait(time.Minute)
		since := k.runner.Health().Since
		for range 20 {
			k.breakWatches()
			for range 10 {
				assert.Equal(t, jobs.HealthWorks, k.runner.Health().Status)
				wait(time.Second / 2)
			}
		}
		assert.Equal(t, since, k.runner.Health().Since)
		assert.NotContains(t, k.logs.String(), "watch the cluster")
		assert.NotContains(t, k.logs.String(), "watching the cluster")
	})
}

// Somebody may change the label of a pod by hand, to have it for himself.
func TestAPodOrJobWhoseLabelsAreChangedIsGoneForItsAttempt(t *testing.T) {
	other := map[string]string{LabelInstance: "orrery", LabelRun: "11111111-1111-4111-8111-111111111111", LabelAttempt: "0"}
	const want = "lost the labels of the pod or its Job were changed, so that it is not the attempt's any more"
	t.Run("the pod", func(t *testing.T) {
		inBubble(t, func(t *testing.T, k *kit) {
			pod := k.running()
			pod.Labels = other
			k.updatePod(pod)
			wait(lostFor + time.Second)
			assert.Equal(t, []string{want}, k.sink.take())
			k.deleteJob(attempt)
			assert.Empty(t, k.held())
			assert.Zero(t, k.tracked())
		})
	})
	t.Run("the pod, while nobody watches", func(t *testing.T) {
		inBubble(t, func(t *testing.T, k *kit) {
			pod := k.running()
			pod.Labels = other
			k.expireWatches("*", 4)
			k.updatePod(pod)
			wait(time.Minute)
			assert.Equal(t, []string{want}, k.sink.take())
		})
	})
	t.Run("the Job, before it has a pod", func(t *testing.T) {
		inBubble(t, func(t *testing.T, k *kit) {
			job := k.create(attempt)
			job.Labels = other
			k.updateJob(job)
			assert.Equal(t, []string{want}, k.sink.take())
			assert.Empty(t, k.held())
		})
	})
}

func TestAPodThatHasTheNameOfOneThatWentWhileNobodyWatchedIsAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.running()
		k.expireWatches("*", 4)
		k.deletePod(pod)
		again := pod.DeepCopy()
		again.UID = "another"
		k.createPod(again)
		wait(time.Minute)
		told := k.sink.take()
		require.Len(t, told, 1)
		assert.Contains(t, told[0], "lost ")
	})
}

func TestOnceTheJobIsMadeNobodySaysThatTheAPIDoesNotTakeIt(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		down := true
		k.react("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return down, nil, errRefused })
		made := make(chan error, 1)
		go func() {
			_, err := k.runner.Create(t.Context(), run(attempt))
			made <- err
		}()
		wait(time.Minute)
		assert.Equal(t, []string{"created CreateRetried"}, k.sink.take())
		k.locked(func() { down = false })
		require.NoError(t, <-made)
		synctest.Wait()
		assert.Equal(t, []string{"created Pending"}, k.sink.take())
		wait(bareFor)
		assert.Equal(t, []string{"created PodNotCreated"}, k.sink.take())
	})
}

// What hinders the end of a pod is said while it does, and changes nothing of the run.
func TestWhatTheEndOfAPodWaitsForIsSaidAfterHalfAMinute(t *testing.T) {
	asked := begin
	for name, c := range map[string]struct {
		pod  func(p *corev1.Pod)
		late time.Duration
		want string // a part; empty: nothing
	}{
		"it lives":                    {func(p *corev1.Pod) { p.DeletionTimestamp = nil }, time.Hour, ""},
		"it was just asked to end":    {func(*corev1.Pod) {}, 29 * time.Second, ""},
		"its grace period goes on":    {func(*corev1.Pod) {}, 30 * time.Second, "pod p is being deleted: it has until 2026-11-21T19:00:00Z to end, a grace period of 1h0m0s"},
		"its grace period is over":    {func(*corev1.Pod) {}, time.Hour, "node n1 does not confirm that it has ended"},
		"it has ended and is held":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, time.Minute, "since 2026-11-21T18:00:00Z: it waits for its finalizers to be removed: example.com/hold"},
		"it has ended and stays":      {func(p *corev1.Pod) { p.Status.Phase, p.Finalizers = corev1.PodFailed, nil }, time.Minute, "it has ended, and the cluster has not removed it since"},
		"it never had a node":         {func(p *corev1.Pod) { p.Spec.NodeName = "" }, time.Hour, "finalizers to be removed: example.com/hold"},
		"it never had a node, either": {func(p *corev1.Pod) { p.Spec.NodeName, p.Finalizers = "", nil }, time.Hour, "the cluster has not removed it since"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: "p", UID: "u", Finalizers: []string{"example.com/hold"},
				DeletionTimestamp: &metav1.Time{Time: asked.Add(time.Hour)}, DeletionGracePeriodSeconds: new(int64(3600)),
			}, Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			c.pod(pod)
			kept, err := trim(pod)
			require.NoError(t, err)
			tr := newTrack()
			tr.take(kept.(*corev1.Pod), true)
			got := tr.ending(asked.Add(c.late))
			if c.want == "" {
				assert.Empty(t, got)
			}
			assert.Contains(t, got, c.want)
		})
	}
}

func TestWhatTheEndOfAJobWithoutPodsWaitsForIsSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.create(attempt)
		assert.Empty(t, k.runner.NoteOf(attempt))
		job.DeletionTimestamp, job.Finalizers = &metav1.Time{Time: time.Now()}, []string{metav1.FinalizerDeleteDependents, "example.com/hold"}
		k.updateJob(job)
		assert.Empty(t, k.runner.NoteOf(attempt))
		wait(endingFor)
		assert.Contains(t, k.runner.NoteOf(attempt), "Job "+job.Name+" is being deleted since ")
		assert.Contains(t, k.runner.NoteOf(attempt), ": it waits for its finalizers to be removed: example.com/hold")
		assert.Empty(t, k.runner.NoteOf(jobs.Attempt{Run: runUUID, N: 9}))
	})
}
