package kubetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/kube"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// world is a namespace of a cluster with an Orrery for it, which reaches the API
// through a proxy and has the rights of the manifest.
type world struct {
	t        *testing.T
	cluster  *kubetest.Cluster
	admin    kubernetes.Interface
	ns       string
	proxy    *kubetest.Proxy
	settings settings
	gates    gates
	orrery   orrery // the one that runs

	mu   sync.Mutex
	pods map[string]string // the names of all pods that ever were, by UID
}

// newWorld makes a world whose Orrery does not run yet.
func newWorld(t *testing.T, c *kubetest.Cluster) *world {
	t.Helper()
	w := &world{t: t, cluster: c, admin: c.Client(), pods: map[string]string{}}
	proxy, _, ns := proxied(t, c)
	w.proxy, w.ns = proxy, ns
	dir := t.TempDir()
	w.gates = gates{folder: dir}
	w.settings = settings{
		Kubeconfig: proxy.Kubeconfig(t, token(t, c.Client(), ns), ns), DB: filepath.Join(dir, "orrery.db"), Gates: dir,
		Heartbeat: 10 * time.Second, MaxMissed: 3, QPS: 50,
	}
	w.witness()
	t.Cleanup(w.explain)
	return w
}

// start is a world whose Orrery runs until the test ends.
func start(t *testing.T, c *kubetest.Cluster) *world {
	t.Helper()
	w := newWorld(t, c)
	w.run()
	return w
}

// run runs the world's Orrery in this process, and returns what ends it.
func (w *world) run() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ready, ended := make(chan orrery, 1), make(chan error, 1)
	go func() { ended <- serve(ctx, w.settings, discard(), func(o orrery) { ready <- o }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(w.t, <-ended)
	})
	w.t.Cleanup(stop)
	select {
	case w.orrery = <-ready:
	case err := <-ended:
		ended <- nil
		require.NoError(w.t, err)
	}
	return stop
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// witness notes every pod of runs that there ever is.
func (w *world) witness() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	factory := informers.NewSharedInformerFactoryWithOptions(w.admin, 0, informers.WithNamespace(w.ns))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pods[string(pod.UID)] = pod.Labels[kube.LabelRun] + "/" + pod.Labels[kube.LabelAttempt]
	}})
	require.NoError(w.t, err)
	factory.Start(ctx.Done())
	w.t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	require.True(w.t, cache.WaitForCacheSync(ctx.Done(), pods.HasSynced))
}

// attempts are the attempts of which there ever was a pod, once for each.
func (w *world) attempts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Values(w.pods))
}

// onePodEach asserts that each of so many attempts of a run had one pod, and no
// more.
func (w *world) onePodEach(run uuid.UUID, attempts int) {
	w.t.Helper()
	var want []string
	for n := range attempts {
		want = append(want, fmt.Sprintf("%s/%d", run, n))
	}
	assert.Equal(w.t, want, w.attempts(), "one pod for each attempt")
}

// fakePod is the spec of a pod for the fake nodes: labels say what becomes of it.
func fakePod() map[string]any {
	return podOn(kubetest.FakeNode, "true")
}

// realPod is the spec of a pod that runs a script.
func realPod(script string) map[string]any {
	return podOn(kubetest.RealNode, "/bin/sh", "-c", script)
}

func podOn(node string, command ...string) map[string]any {
	return map[string]any{
		"nodeSelector":                  map[string]string{kubetest.NodeLabel: node},
		"automountServiceAccountToken":  false,
		"terminationGracePeriodSeconds": 1,
		"containers":                    []any{map[string]any{"name": "main", "image": kubetest.Busybox, "imagePullPolicy": "Never", "command": command}},
	}
}

// container is the first container of a pod spec, to be changed.
func container(pod map[string]any) map[string]any {
	return pod["containers"].([]any)[0].(map[string]any)
}

// job is a job without a schedule; change may change it.
func (w *world) job(id string, pod map[string]any, change func(*core.JobSpec)) {
	w.t.Helper()
	spec, err := json.Marshal(pod)
	require.NoError(w.t, err)
	job := core.JobSpec{ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, PodSpec: spec, PodStartTimeoutMS: patience.Milliseconds()}
	if change != nil {
		change(&job)
	}
	require.NoError(w.t, w.orrery.Apply(job))
}

// labelled gives a job labels, which say what becomes of its pods on a fake node.
func labelled(pairs ...string) func(*core.JobSpec) {
	return func(job *core.JobSpec) {
		job.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			job.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

// runs makes a job and a run of it.
func (w *world) runs(id string, pod map[string]any, change func(*core.JobSpec)) uuid.UUID {
	w.t.Helper()
	w.job(id, pod, change)
	run, err := w.orrery.Trigger(id)
	require.NoError(w.t, err)
	return run
}

// reaches waits until a run is in that state.
func (w *world) reaches(run uuid.UUID, state core.OrchestratorStatus) core.Orchestrator {
	w.t.Helper()
	return w.until(run, string(state), func(o core.Orchestrator) bool { return o.State == state })
}

// ends waits until a run has ended, and leaves nothing in the cluster.
func (w *world) ends(run uuid.UUID) core.Orchestrator {
	w.t.Helper()
	o := w.until(run, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() })
	w.leavesNothing()
	return o
}

func (w *world) until(run uuid.UUID, what string, is func(core.Orchestrator) bool) core.Orchestrator {
	w.t.Helper()
	var o core.Orchestrator
	eventually(w.t, func() error {
		var err error
		if o, err = w.orrery.Run(run); err != nil {
			return err
		}
		switch {
		case is(o):
			return nil
		case o.State.Terminal() && !o.InCluster: // it never will: say why at once
			require.Failf(w.t, "the run ended", "it was to reach %s, and is %s: %s; pod %+v", what, o.State, o.Error, o.Pod)
		}
		return fmt.Errorf("run %s is %s (%s), not %s: %s; pod %+v", o.RunID, o.State, o.Step, what, o.Error, o.Pod)
	})
	return o
}

// leavesNothing waits until the namespace is empty.
func (w *world) leavesNothing() {
	w.t.Helper()
	eventually(w.t, func() error {
		pods, err := w.admin.CoreV1().Pods(w.ns).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		there, err := w.admin.BatchV1().Jobs(w.ns).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items)+len(there.Items) > 0 {
			return fmt.Errorf("%d pods and %d Jobs are left", len(pods.Items), len(there.Items))
		}
		return nil
	})
}

// pod waits for the pod of a run's attempt.
func (w *world) pod(run uuid.UUID, attempt int, is func(corev1.Pod) bool) corev1.Pod {
	w.t.Helper()
	var pod corev1.Pod
	eventually(w.t, func() error {
		pods, err := w.admin.CoreV1().Pods(w.ns).List(w.t.Context(), metav1.ListOptions{
			LabelSelector: fmt.Sprintf("%s=%s,%s=%d", kube.LabelRun, run, kube.LabelAttempt, attempt),
		})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("attempt %d of run %s has %d pods", attempt, run, len(pods.Items))
		}
		if pod = pods.Items[0]; is != nil && !is(pod) {
			return fmt.Errorf("pod %s: %+v", pod.Name, pod.Status)
		}
		return nil
	})
	return pod
}

// untilFinished is how long a pod of a fake node runs that the test ends: see finish.
const untilFinished = "24h"

// finish has the pod of a run's first attempt, on a fake node, end well. The proxy does not
// hear of it.
func (w *world) finish(run uuid.UUID) {
	w.t.Helper()
	eventually(w.t, func() error {
		pod := w.pod(run, 0, func(p corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
		state := &pod.Status.ContainerStatuses[0].State
		if state.Running == nil {
			return fmt.Errorf("pod %s does not run: %+v", pod.Name, state)
		}
		ended := &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: state.Running.StartedAt, FinishedAt: metav1.Now()}
		pod.Status.Phase, *state = corev1.PodSucceeded, corev1.ContainerState{Terminated: ended}
		_, err := w.admin.CoreV1().Pods(w.ns).UpdateStatus(w.t.Context(), &pod, metav1.UpdateOptions{})
		return err
	})
}

// explain logs what is in the cluster where a test has failed.
func (w *world) explain() {
	if !w.t.Failed() {
		return
	}
	ctx := context.Background()
	pods, err := w.admin.CoreV1().Pods(w.ns).List(ctx, metav1.ListOptions{})
	for _, p := range pods.Items[:min(len(pods.Items), 5)] {
		w.t.Logf("pod %s, deleted %v, finalizers %v, status %+v", p.Name, p.DeletionTimestamp, p.Finalizers, p.Status)
	}
	there, err2 := w.admin.BatchV1().Jobs(w.ns).List(ctx, metav1.ListOptions{})
	for _, j := range there.Items[:min(len(there.Items), 5)] {
		w.t.Logf("Job %s, deleted %v, finalizers %v, status %+v", j.Name, j.DeletionTimestamp, j.Finalizers, j.Status)
	}
	w.t.Logf("errors: %v, %v; calls: %v", err, err2, tally(w.proxy.Calls(nil)))
}

// health is how the runner of an Orrery in this process is.
func (w *world) health() jobs.Health { return w.orrery.(here).service.Health()["kubernetes"] }

// watched fails until the runner watches the cluster, and knows what it holds.
func (w *world) watched() error {
	if h := w.health(); h.Status != jobs.HealthWorks {
		return errNotYet("a runner that works", &jobs.DownError{Runner: "kubernetes", Health: h})
	}
	return nil
}

// errNotYet says what is not there yet, and why not, if it is known.
func errNotYet(what string, err error) error {
	return errors.Join(fmt.Errorf("there is not %s yet", what), err)
}

// gate is the constraint_config of a job whose check or action waits at the gate of
// that name.
func gate(what string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{%q:%q}`, what, what))
}

// opens opens a gate.
func opens(name string) func(*world) {
	return func(w *world) { require.NoError(w.t, w.gates.open(name)) }
}

// realOrFake is a pod that runs for as long as its labels say on a fake node, or a
// real one that takes a minute.
func realOrFake(w *world) map[string]any {
	if w.cluster.HasRealNode() {
		return realPod("sleep 60")
	}
	return fakePod()
}

// ownLabel is a label of nodes for this world alone.
func (w *world) ownLabel() string { return "orrery.test/" + w.ns }

// labelNode gives a fake node the label.
func (w *world) labelNode() {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"yes"}}}`, w.ownLabel())
	_, err := w.admin.CoreV1().Nodes().Patch(w.t.Context(), "fake-0", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}
