package kubetest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// The server is gone for half a minute, by breaking every connection, as one does that
// nobody listens for. What ends meanwhile is seen once it is back.
func TestAfterAnOutageOfTheServerRunsAreSeenAgain(t *testing.T) {
	t.Parallel()
	began := time.Now()
	w := start(t, kubetest.Shared(t))
	run := w.runs("job", fakePod(), labelled(kubetest.RunFor, untilFinished))
	w.reaches(run, core.OrchestratorRunning)
	eventually(t, w.watched)
	assert.False(t, w.health().SeenAt.Before(began))

	w.proxy.Inject(kubetest.Fault{})
	w.proxy.BreakWatches(false)
	asked := w.runs("asked", fakePod(), nil)
	w.finish(run)
	before, gone := len(w.proxy.Calls(nil)), time.Now()
	<-time.After(30 * time.Second) // of a real cluster
	calls, away := len(w.proxy.Calls(nil))-before, time.Since(gone)
	var h jobs.Health
	eventually(t, func() error {
		if h = w.health(); h.Status != jobs.HealthDown {
			return errNotYet("a runner that is down", nil)
		}
		return nil
	})
	w.proxy.Heal()
	back := time.Now()

	o := w.until(run, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() || o.Pod.ExitCode != nil })
	seen := time.Since(back)
	t.Logf("the first update came %s after the server was back; the runner made %d calls meanwhile", seen.Round(time.Millisecond), calls)
	assert.Less(t, calls, 3*int(away.Seconds()), "and asked for little until then")
	assert.Contains(t, h.Trouble(), "cannot watch")
	assert.NotEqual(t, core.OrchestratorFailed, o.State)
	assert.Equal(t, core.OrchestratorCompleted, w.until(asked, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() }).State)
	eventually(t, w.watched) // each of the three watches comes back by itself
}

// The server hangs, as one that is stopped: no connection breaks by itself.
func TestAServerThatHangsIsNoticedAndRunsAreSeenAgainOnceItGoesOn(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	run := w.runs("job", fakePod(), labelled(kubetest.RunFor, untilFinished))
	w.reaches(run, core.OrchestratorRunning)
	eventually(t, w.watched)

	w.proxy.Freeze()
	began := time.Now()
	w.finish(run)
	eventually(t, func() error {
		if h := w.health(); h.Status != jobs.HealthDown {
			return errNotYet("a runner that is down", nil)
		}
		return nil
	})
	noticed := time.Since(began)
	w.proxy.Heal()
	back := time.Now()
	w.until(run, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() || o.Pod.ExitCode != nil })
	t.Logf("it was noticed after %s; the first update came %s after the server was back", noticed.Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	eventually(t, w.watched)
}

// A server that answers with errors is as much away as one that does not answer.
func TestAServerThatIsNotReadyIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := start(t, kubetest.Shared(t))
	run := w.runs("job", fakePod(), labelled(kubetest.RunFor, untilFinished))
	w.reaches(run, core.OrchestratorRunning)

	w.proxy.Inject(kubetest.Fault{Status: http.StatusServiceUnavailable})
	w.proxy.BreakWatches(false)
	w.finish(run)
	<-time.After(20 * time.Second)
	w.proxy.Heal()
	back := time.Now()

	w.until(run, "the end", func(o core.Orchestrator) bool { return o.State.Terminal() || o.Pod.ExitCode != nil })
	t.Logf("the first update came %s after the server was back", time.Since(back).Round(time.Millisecond))
}

func TestANamespaceThatIsMissingFailsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	w := newWorld(t, c)
	_, err := c.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all-" + w.ns}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "orrery", Namespace: w.ns}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.settings.Kubeconfig = w.proxy.Kubeconfig(t, token(t, c.Client(), w.ns), "no-such-namespace")
	w.run()

	began := time.Now()
	o := w.until(w.runs("job", fakePod(), nil), "its end", func(o core.Orchestrator) bool { return o.State.Terminal() })

	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.Contains(t, o.Error, `namespaces "no-such-namespace" not found`)
	t.Logf("it failed after %s", time.Since(began).Round(time.Millisecond))
	assert.Equal(t, jobs.HealthDegraded, w.health().Status)
}

// The account has its rights in another namespace. At first that is doubted: roles may be
// just being applied.
func TestANamespaceThatTheAccountMayNotListFailsTheRunInAMinute(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	w := newWorld(t, c)
	w.settings.Kubeconfig = w.proxy.Kubeconfig(t, token(t, c.Client(), w.ns), "default")
	w.run()

	began := time.Now()
	o := w.until(w.runs("job", fakePod(), nil), "its end", func(o core.Orchestrator) bool {
		return o.State.Terminal() || !o.Cleanup.RetryAt.IsZero()
	})
	took := time.Since(began)
	t.Logf("after %s it is %s, %s, because: %s %s, cleaning up: %+v", took.Round(time.Millisecond), o.State, o.Step, o.Error, o.Exit.Reason, o.Cleanup)
	assert.Less(t, took, time.Minute)
	assert.Contains(t, o.Error+o.Exit.Reason, "cannot list resource")
	assert.Equal(t, jobs.HealthDown, w.health().Status)
}

// The right is taken away while the runner works: no run waits for what will not come.
func TestARightThatIsLostIsToldOnTheRun(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	w := start(t, c)
	w.ends(w.runs("before", fakePod(), nil))
	role, err := c.Client().RbacV1().Roles(w.ns).Get(t.Context(), "orrery", metav1.GetOptions{})
	require.NoError(t, err)
	role.Rules[0].Verbs = []string{"get", "list", "watch", "delete"}
	_, err = c.Client().RbacV1().Roles(w.ns).Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)

	var o core.Orchestrator
	eventually(t, func() error { // the server takes a moment
		began := time.Now()
		id, err := w.orrery.Trigger("before")
		require.NoError(t, err)
		if o = w.until(id, "its end", func(o core.Orchestrator) bool { return o.State.Terminal() }); o.State == core.OrchestratorCompleted {
			return errNotYet("a refusal", nil)
		}
		t.Logf("it failed after %s", time.Since(began).Round(time.Millisecond))
		return nil
	})
	assert.Contains(t, o.Error, `cannot create resource "jobs"`)
	h := w.health()
	assert.Equal(t, jobs.HealthDegraded, h.Status)
	assert.Contains(t, h.Error, `cannot create resource "jobs"`)
}
