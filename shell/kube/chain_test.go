package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// daemon is an engine and its service, with a runner at a fake API.
type daemon struct {
	k     *kit
	store store.Store
	e     *shell.Engine
	stop  func()
}

// withDaemon runs a test in a bubble of virtual time.
func withDaemon(t *testing.T, test func(t *testing.T, d *daemon)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{k: newKit(t, &sinkOf{}), store: memory.New()}
		d.start()
		defer func() { d.stop() }()
		test(t, d)
	})
}

// start begins it, also anew, as another process would.
func (d *daemon) start() {
	d.k.t.Helper()
	r, err := New(Options{Client: clientset{d.k.api}, Namespace: "jobs", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(d.k.t, err)
	d.k.runner = r
	s, err := jobs.New(jobs.Options{Runners: map[string]jobs.Runner{"cluster": r}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(d.k.t, err)
	e, err := shell.New(shell.Options{Store: d.store, Interpreters: s.Interpreters(), Logger: slog.New(slog.DiscardHandler), StopTimeout: time.Second})
	require.NoError(d.k.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var engineErr, serviceErr error
	wg.Go(func() { engineErr = e.Run(ctx) })
	wg.Go(func() { serviceErr = s.Run(context.Background(), e) }) // it ends with the engine
	d.e = e
	d.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		require.NoError(d.k.t, engineErr)
		require.NoError(d.k.t, serviceErr)
	})
}

// trigger makes a run of a job whose pod has that long to start.
func (d *daemon) trigger(starts time.Duration) core.Orchestrator {
	d.k.t.Helper()
	ctx := d.k.t.Context()
	_, err := d.e.Jobs().Apply(ctx, core.JobSpec{
		ID: "nightly", Namespace: "default", Tenant: "default", PodStartTimeoutMS: starts.Milliseconds(),
		PodSpec: json.RawMessage(`{"containers":[{"name":"main","image":"busybox"}]}`),
	})
	require.NoError(d.k.t, err)
	made, err := d.e.Jobs().Trigger(ctx, shell.Scope{Namespace: "default", Tenant: "default"}, "nightly", shell.TriggerOptions{By: "test"})
	require.NoError(d.k.t, err)
	synctest.Wait()
	return d.run(made.Run)
}

func (d *daemon) run(id uuid.UUID) core.Orchestrator {
	d.k.t.Helper()
	o, err := d.e.Runs().Get(d.k.t.Context(), id)
	require.NoError(d.k.t, err)
	return o
}

// What became of an attempt while nobody watched decides before its limit does, though the
// limit comes while the runner has seen its Job already and still waits for its pod.
func TestWhatBecameOfAnAttemptDecidesBeforeALimitThatComesWhileTheRunnerIsInDoubt(t *testing.T) {
	for _, down := range []time.Duration{25 * time.Second, 35 * time.Second, 55 * time.Second, 59 * time.Second, 2 * time.Minute, time.Hour} {
		t.Run(down.String(), func(t *testing.T) {
			withDaemon(t, func(t *testing.T, d *daemon) {
				o := d.trigger(time.Minute)
				require.Equal(t, core.OrchestratorContainerCreating, o.State)
				require.True(t, o.CreateBy.IsZero(), "its Job exists")
				d.stop()
				list, err := d.k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				require.Len(t, list.Items, 1)
				done := list.Items[0]
				done.Status.Conditions = append(done.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, Reason: "CompletionsReached"})
				d.k.updateJob(&done)
				wait(down)
				d.start()
				wait(2 * time.Minute)
				o = d.run(o.ID)
				require.Equal(t, core.OrchestratorCompleted, o.State, "%s: its Job says that it ended well", o.Error)
			})
		})
	}
}

// While the cluster is away nobody sees what becomes of a pod: a limit that comes meanwhile
// waits for the look once it is back, without a restart too.
func TestWhatAPodDidDuringAnOutageDecidesBeforeALimitThatCameMeanwhile(t *testing.T) {
	for name, ended := range map[string]bool{"it ended well": true, "it did not start": false} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(t *testing.T, d *daemon) {
				o := d.trigger(time.Minute)
				list, err := d.k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				pod := d.k.createPod(podOf(&list.Items[0]))
				wait(30 * time.Second)
				back := d.k.outage()
				if ended {
					d.k.updatePod(exits(pod, 0))
				}
				wait(20 * time.Minute)
				o = d.run(o.ID)
				require.Equal(t, core.OrchestratorContainerCreating, o.State, o.Error)
				back()
				// The watch begins anew after a pause that is drawn. What happens between the fake
				// cluster's list and its watch nobody is told of, until the next comparison.
				for range 60 {
					wait(15 * time.Second)
					if o = d.run(o.ID); o.State.Terminal() {
						break
					}
				}
				if ended {
					require.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
				} else {
					require.Contains(t, o.Error+o.Exit.Reason, "the pod did not start within 1m0s")
				}
			})
		})
	}
}

// outage has nothing of the API answer what watches ask, until back is called.
func (k *kit) outage() (back func()) {
	var away atomic.Bool
	away.Store(true)
	refused := apierrors.NewServiceUnavailable("away")
	k.react("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return away.Load(), nil, refused })
	k.reactWatch("*", func(clienttesting.Action) (bool, watchInterface, error) { return away.Load(), nil, refused })
	k.breakWatches()
	synctest.Wait()
	return func() { away.Store(false) }
}
