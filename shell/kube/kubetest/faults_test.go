package kubetest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

func deleting(c kubetest.Call) bool { return c.Verb == "delete" }
func logging(c kubetest.Call) bool  { return c.Subresource == "log" }
func watching(c kubetest.Call) bool { return c.Verb == "watch" }

// What may pass must pass: the run completes, with one pod.
func TestARunOutlivesErrorsOfTheAPIThatPass(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	tests := []struct {
		name  string
		fault kubetest.Fault
	}{
		{"conflict as it is created", kubetest.Fault{Match: creating, Times: 2, Status: http.StatusConflict}},
		{"throttled as it is created", kubetest.Fault{Match: creating, Times: 2, Status: http.StatusTooManyRequests, RetryAfter: "1"}},
		{"server error as it is created", kubetest.Fault{Match: creating, Times: 2, Status: http.StatusInternalServerError}},
		{"server unavailable as it is created", kubetest.Fault{Match: creating, Times: 2, Status: http.StatusServiceUnavailable}},
		{"time-out as it is created", kubetest.Fault{Match: creating, Times: 1, Status: http.StatusGatewayTimeout, Lose: true}},
		{"connection broken as it is created", kubetest.Fault{Match: creating, Times: 2}},
		{"answer of its creation lost", kubetest.Fault{Match: creating, Times: 1, Lose: true}},
		{"logs throttled", kubetest.Fault{Match: logging, Times: 2, Status: http.StatusTooManyRequests, RetryAfter: "1"}},
		{"logs broken off", kubetest.Fault{Match: logging, Times: 2}},
		{"conflict as it is deleted", kubetest.Fault{Match: deleting, Times: 2, Status: http.StatusConflict}},
		{"throttled as it is deleted", kubetest.Fault{Match: deleting, Times: 2, Status: http.StatusTooManyRequests, RetryAfter: "1"}},
		{"answer of its deletion lost", kubetest.Fault{Match: deleting, Times: 1, Lose: true}},
		{"watches refused at first", kubetest.Fault{Match: watching, Times: 4, Status: http.StatusTooManyRequests, RetryAfter: "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c)
			w.proxy.Inject(tt.fault)
			w.run()

			run := w.runs("job", fakePod(), nil)
			o := w.ends(run)

			assert.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
			assert.True(t, o.Logs.Stored, "%+v", o.Logs)
			assert.NotEmpty(t, w.proxy.Calls(func(c kubetest.Call) bool { return c.Injected }), "the fault was met")
			w.onePodEach(run, 1)
		})
	}
}

// What will not pass ends the run at once, whatever retries it has.
func TestARunFailsAtOnceWhereTheAPIRefusesItForGood(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	for _, code := range []int{http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusBadRequest} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			w := start(t, c)
			w.proxy.Inject(kubetest.Fault{Match: creating, Status: code})

			run := w.runs("job", fakePod(), func(j *core.JobSpec) { j.RetryConfig = retries(5) })
			o := w.ends(run)

			assert.Equal(t, core.OrchestratorFailed, o.State)
			assert.Zero(t, o.RetryAttempt)
			assert.Contains(t, o.Error, "injected by the proxy")
			assert.Len(t, w.proxy.Calls(creating), 1)
		})
	}
}

// A pod spec that only the API server finds wrong names the field.
func TestAPodSpecThatTheServerRefusesFailsTheRunWithTheField(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	pod := fakePod()
	pod["nodeSelector"] = map[string]string{kubetest.NodeLabel: "not a label"}

	o := w.ends(w.runs("job", pod, nil))

	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.Contains(t, o.Error, "pod_spec.nodeSelector")
	assert.Contains(t, o.Error, "not a label")
}

func TestARunGoesOnWhereTheWatchesBreak(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	for name, expired := range map[string]bool{"410 Gone": true, "connection broken": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, c)
			run := w.runs("job", fakePod(), labelled(kubetest.RunFor, untilFinished))
			w.reaches(run, core.OrchestratorRunning)
			before := len(w.proxy.Calls(watching))

			w.proxy.BreakWatches(expired)
			w.finish(run)
			o := w.ends(run)

			assert.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
			assert.Greater(t, len(w.proxy.Calls(watching)), before, "it watches again")
			w.onePodEach(run, 1)
		})
	}
}

// A cluster of its own: nobody else's server goes away.
func TestARunGoesOnWhereTheServerIsRestarted(t *testing.T) {
	t.Parallel()
	kubetest.Shared(t) // is skipped where that is
	c, err := kubetest.Start(t.Context(), kubetest.Options{FakeNodes: 1})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	w := start(t, c)
	during := w.runs("during", fakePod(), labelled(kubetest.RunFor, untilFinished))
	before := w.runs("before", fakePod(), labelled(kubetest.RunFor, untilFinished))
	w.reaches(during, core.OrchestratorRunning)
	w.reaches(before, core.OrchestratorRunning)

	require.NoError(t, c.StopProgram(t.Context(), kubetest.Server))
	asked := w.runs("asked", fakePod(), nil) // while there is no server
	require.NoError(t, w.orrery.Cancel(before))
	require.NoError(t, c.StartProgram(t.Context(), kubetest.Server))
	back := time.Now()
	w.finish(during)
	w.until(asked, "what the cluster says of it", func(o core.Orchestrator) bool { return o.Pod.Name != "" })
	t.Logf("the first update came %s after the server was back", time.Since(back).Round(time.Millisecond))

	assert.Equal(t, core.OrchestratorCompleted, w.until(during, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() }).State)
	assert.Equal(t, core.OrchestratorCompleted, w.until(asked, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() }).State)
	assert.Equal(t, core.OrchestratorCancelled, w.ends(before).State)
	assert.Len(t, w.attempts(), 3, "one pod for each")
}

// The node's kubelet hangs, so nobody confirms that its pods have ended: the run is
// tried again nonetheless. The cluster is its own: it loses its nodes.
func TestARunWhoseNodeIsLostIsTriedAgain(t *testing.T) {
	t.Parallel()
	kubetest.SharedReal(t) // is skipped where that is
	// Where all nodes are silent the cluster gives up none: the fake ones are not.
	c, err := kubetest.Start(t.Context(), kubetest.Options{FakeNodes: 2, RealNode: true, NodeGrace: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	w := start(t, c)
	run := w.runs("job", realPod("sleep 600"), func(j *core.JobSpec) { j.RetryConfig = retries(1) })
	w.reaches(run, core.OrchestratorRunning)

	require.NoError(t, c.PauseProgram(t.Context(), kubetest.Kubelet))
	w.until(run, "its second attempt", func(o core.Orchestrator) bool { return o.RetryAttempt == 1 })
	require.NoError(t, c.ContinueProgram(t.Context(), kubetest.Kubelet)) // the node is back
	w.until(run, "its second pod", func(o core.Orchestrator) bool { return o.RetryAttempt == 1 && o.State == core.OrchestratorRunning })

	require.NoError(t, w.orrery.Cancel(run))
	assert.Equal(t, core.OrchestratorCancelled, w.ends(run).State)
	w.onePodEach(run, 2)
}
