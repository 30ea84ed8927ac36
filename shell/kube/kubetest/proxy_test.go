package kubetest_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// proxied is a proxy with a client that goes through it, with the rights of the
// manifest in a namespace of its own.
func proxied(t *testing.T, c *kubetest.Cluster) (p *kubetest.Proxy, client kubernetes.Interface, ns string) {
	t.Helper()
	ns = namespace(t, c.Client())
	token := account(t, c.Client(), ns)
	p = kubetest.NewProxy(t, c)
	client, err := kubernetes.NewForConfig(p.Config(token))
	require.NoError(t, err)
	eventually(t, func() error {
		_, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
		return err
	})
	p.Forget()
	return p, client, ns
}

func creating(c kubetest.Call) bool { return c.Verb == "create" && c.Resource == "jobs" }

func TestTheProxyCountsCallsAndInjectsFaults(t *testing.T) {
	t.Parallel()
	p, client, ns := proxied(t, kubetest.Shared(t))
	create := func(name string) error {
		_, err := client.BatchV1().Jobs(ns).Create(t.Context(), plainJob(kubetest.FakeNode, name, nil, "true"), metav1.CreateOptions{})
		return err
	}

	p.Inject(kubetest.Fault{Match: creating, Times: 1, Status: http.StatusConflict})
	assert.True(t, apierrors.IsConflict(create("a")), "an answer of the proxy")
	p.Inject(kubetest.Fault{Match: creating, Times: 1, Lose: true})
	lost := create("b")
	assert.Error(t, lost, "the answer is lost")
	assert.False(t, apierrors.IsAlreadyExists(lost))
	assert.True(t, apierrors.IsAlreadyExists(create("b")), "but it was carried out")
	require.NoError(t, create("c"))

	var got []string
	for _, call := range p.Calls(creating) {
		got = append(got, fmt.Sprintf("%s %s %s %d %t", call.Verb, call.Resource, call.Namespace, call.Status, call.Injected))
	}
	assert.Equal(t, []string{
		"create jobs " + ns + " 409 true",
		"create jobs " + ns + " 0 true", // broken off
		"create jobs " + ns + " 409 false",
		"create jobs " + ns + " 201 false",
	}, got)
	assert.Contains(t, p.Calls(creating)[3].Body, kubetest.Busybox)
}

func TestTheProxyEndsWatchesAsTheServerDoesWhenTheirPlaceIsCompactedAway(t *testing.T) {
	t.Parallel()
	p, client, ns := proxied(t, kubetest.Shared(t))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, expired := range []bool{true, false} {
		events, err := client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		eventually(t, func() error {
			if n := p.Watches(); n != 1 {
				return fmt.Errorf("%d watches are open", n)
			}
			return nil
		})

		p.BreakWatches(expired)

		saysExpired := false
		for event := range events.ResultChan() {
			require.Equal(t, watch.Error, event.Type)
			saysExpired = apierrors.IsResourceExpired(apierrors.FromObject(event.Object))
		}
		assert.Equal(t, expired, saysExpired)
		assert.NoError(t, ctx.Err(), "it ended at once")
	}
}

func TestTheProxyHoldsCalls(t *testing.T) {
	t.Parallel()
	p, client, ns := proxied(t, kubetest.Shared(t))
	release := make(chan struct{})
	p.Inject(kubetest.Fault{Match: creating, Hold: release, Pass: true})
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	_, err := client.BatchV1().Jobs(ns).Create(short, plainJob(kubetest.FakeNode, "a", nil, "true"), metav1.CreateOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(release) // the proxy may not know yet that the first caller has gone
	_, err = client.BatchV1().Jobs(ns).Create(t.Context(), plainJob(kubetest.FakeNode, "b", nil, "true"), metav1.CreateOptions{})
	require.NoError(t, err)
}
