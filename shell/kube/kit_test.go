package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	runUUID = uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	attempt = jobs.Attempt{Run: runUUID}
	begin   = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
)

func run(a jobs.Attempt) jobs.Run {
	at := effects.TimeOf(begin)
	return jobs.Run{
		Attempt: a, RunID: core.RunID("nightly", at), JobID: "nightly", ScheduledAt: at,
		Spec: core.JobSpec{ID: "nightly", PodSpec: json.RawMessage(`{"containers":[{"name":"main","image":"busybox"}]}`)},
	}
}

// sinkOf records what it is told; hang, if any, holds it up.
type sinkOf struct {
	mu   sync.Mutex
	told []jobs.Observation
	hang chan struct{}
}

func (s *sinkOf) Observe(_ context.Context, o jobs.Observation) {
	if s.hang != nil {
		<-s.hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, o)
}

// take gives what was told since the last time, as "phase reason".
func (s *sinkOf) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []string{}
	for _, o := range s.told {
		text := string(o.Phase)
		if o.Pod.Reason != "" {
			text += " " + o.Pod.Reason
		}
		if o.Pod.ExitCode != nil {
			text += fmt.Sprintf(" exit %d", *o.Pod.ExitCode)
		}
		out = append(out, text)
	}
	s.told = nil
	return out
}

// messages gives the messages of what was told, and of which attempts it was.
func (s *sinkOf) messages() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, o := range s.told {
		fmt.Fprintf(&out, "%s: %s\n", o.Attempt.Name(), o.Pod.Message)
	}
	return out.String()
}

// kit is a runner at a fake API, in a bubble of virtual time.
type kit struct {
	t      *testing.T
	api    *fake.Clientset
	runner *Runner
	sink   *sinkOf
	logs   *locked.Buffer
	stop   func()

	mu      sync.Mutex
	watches []watchInterface
}

// breakWatches ends all watches, as an API server does that stops.
func (k *kit) breakWatches() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.watches {
		w.Stop()
	}
	k.watches = nil
}

// react has calls of the API answered by fn first. Virtual time orders nothing for
// the race detector, so what fn shares with the test is changed in [kit.locked].
func (k *kit) react(verb, resource string, fn clienttesting.ReactionFunc) {
	k.locked(func() { k.api.PrependReactor(verb, resource, fn) })
}

// reactWatch is react for watches.
func (k *kit) reactWatch(resource string, fn clienttesting.WatchReactionFunc) {
	k.api.PrependWatchReactor(resource, fn) // which takes the lock itself, other than its brother
}

// expireWatches breaks the watches, and has so many of a resource find that they have
// expired.
func (k *kit) expireWatches(resource string, times int) {
	expired := 0
	k.reactWatch(resource, func(clienttesting.Action) (bool, watchInterface, error) {
		expired++
		return expired <= times, nil, apierrors.NewResourceExpired("too old resource version")
	})
	k.breakWatches()
}

// tracked counts the attempts that the runner knows.
func (k *kit) tracked() int {
	w := k.runner.current()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tracks)
}

// hasPod reports whether the runner knows a pod of the attempt, which it follows.
func (k *kit) hasPod(a jobs.Attempt) bool {
	w := k.runner.current()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracks[a].pod() != nil
}

// locked runs fn while no reactor does.
func (k *kit) locked(fn func()) {
	k.api.Lock()
	defer k.api.Unlock()
	fn()
}

// inBubble runs a test with a Watch that runs.
func inBubble(t *testing.T, test func(t *testing.T, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.watch()
		defer func() { k.stop() }()
		synctest.Wait()
		test(t, k)
	})
}

func newKit(t *testing.T, sink *sinkOf) *kit {
	t.Helper()
	k := &kit{t: t, api: fake.NewClientset(), sink: sink, logs: &locked.Buffer{}}
	r, err := New(Options{Client: clientset{k.api}, Namespace: "jobs", Logger: slog.New(slog.NewTextHandler(k.logs, nil))})
	require.NoError(t, err)
	k.runner = r
	k.reactWatch("*", func(a clienttesting.Action) (bool, watchInterface, error) {
		w, err := k.api.Tracker().Watch(a.GetResource(), a.GetNamespace())
		k.mu.Lock()
		defer k.mu.Unlock()
		k.watches = append(k.watches, w)
		return true, w, err
	})
	return k
}

func (k *kit) watch() {
	ctx, cancel := context.WithCancel(k.t.Context())
	done := make(chan error, 1)
	go func() { done <- k.runner.Watch(ctx, k.sink) }()
	k.stop = func() {
		cancel()
		require.ErrorIs(k.t, <-done, context.Canceled)
		k.stop = func() {}
	}
}

// wait lets virtual time pass, and all settle.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// create creates the attempt, and gives its Job.
func (k *kit) create(a jobs.Attempt) *batchv1.Job {
	k.t.Helper()
	_, err := k.runner.Create(k.t.Context(), run(a))
	require.NoError(k.t, err)
	synctest.Wait()
	return k.job(a)
}

func (k *kit) job(a jobs.Attempt) *batchv1.Job {
	k.t.Helper()
	job, err := k.api.BatchV1().Jobs("jobs").Get(k.t.Context(), nameOf("nightly", a), metav1.GetOptions{})
	require.NoError(k.t, err)
	return job
}

func (k *kit) updateJob(job *batchv1.Job) {
	k.t.Helper()
	_, err := k.api.BatchV1().Jobs("jobs").Update(k.t.Context(), job, metav1.UpdateOptions{})
	require.NoError(k.t, err)
	synctest.Wait()
}

func (k *kit) deleteJob(a jobs.Attempt) {
	k.t.Helper()
	require.NoError(k.t, k.api.BatchV1().Jobs("jobs").Delete(k.t.Context(), nameOf("nightly", a), metav1.DeleteOptions{}))
	synctest.Wait()
}

// podOf is the pod that the Job controller would make.
func podOf(job *batchv1.Job) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name + "-x", Namespace: job.Namespace, UID: types.UID("uid-" + job.Name), Labels: job.Spec.Template.Labels, Annotations: job.Spec.Template.Annotations,
			CreationTimestamp: metav1.NewTime(time.Now()),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, Controller: &yes}},
		},
		Spec:   job.Spec.Template.Spec,
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func (k *kit) createPod(pod *corev1.Pod) *corev1.Pod {
	k.t.Helper()
	pod, err := k.api.CoreV1().Pods("jobs").Create(k.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(k.t, err)
	synctest.Wait()
	return pod
}

func (k *kit) updatePod(pod *corev1.Pod) {
	k.t.Helper()
	_, err := k.api.CoreV1().Pods("jobs").Update(k.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(k.t, err)
	synctest.Wait()
}

func (k *kit) deletePod(pod *corev1.Pod) {
	k.t.Helper()
	require.NoError(k.t, k.api.CoreV1().Pods("jobs").Delete(k.t.Context(), pod.Name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// running makes a Job whose pod runs, and forgets what was told of it.
func (k *kit) running() *corev1.Pod {
	k.t.Helper()
	pod := k.createPod(runs(podOf(k.create(attempt))))
	k.sink.take()
	return pod
}

// runs has the pod run on a node.
func runs(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = "n1"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}}}}
	return pod
}

// exits has the pod end.
func exits(pod *corev1.Pod, code int32) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: terminated(code, "")}}}
	return pod
}

func terminated(code int32, reason string) *corev1.ContainerStateTerminated {
	if reason == "" {
		reason = "Error"
		if code == 0 {
			reason = "Completed"
		}
	}
	return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(begin), FinishedAt: metav1.NewTime(begin.Add(time.Minute))}
}

type watchInterface = watch.Interface

// newDeafWatch is a watch that shows nothing.
func newDeafWatch() watchInterface { return watch.NewFake() }

// clientset is the API of a fake of client-go's clients.
type clientset struct{ *fake.Clientset }

func (c clientset) Jobs(namespace string) JobsAPI     { return c.BatchV1().Jobs(namespace) }
func (c clientset) Pods(namespace string) PodsAPI     { return c.CoreV1().Pods(namespace) }
func (c clientset) Events(namespace string) EventsAPI { return c.CoreV1().Events(namespace) }
