package kubetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/kube"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

type deaf struct{}

func (deaf) Observe(context.Context, jobs.Observation) {}

// The runners of sixteen partitions have one watch, and each holds its own. One partition moves to another process, while the one before is held up
// within its creation: that comes when the attempt is over, and is seen by the new owner.
func TestPartitionsOfOneProcessWatchOnceAndACreationThatComesLateIsSeenByTheNextOwner(t *testing.T) {
	t.Parallel()
	const partitions = 16
	c := kubetest.Shared(t)
	slow, _, ns := proxied(t, c)
	kubeconfig := slow.Kubeconfig(t, token(t, c.Client(), ns), ns)
	process := func() (runners []*kube.Runner) {
		pool, err := kube.NewPool(kube.Options{Kubeconfig: kubeconfig, Logger: discard()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		t.Cleanup(running.Wait)
		t.Cleanup(cancel)
		for n := range partitions {
			r := pool.Runner(nil)
			r.UseDatabase(fmt.Sprintf("database-%d", n))
			r.UsePlace("cluster", n, partitions)
			running.Go(func() { _ = r.Watch(ctx, deaf{}) })
			runners = append(runners, r)
		}
		return runners
	}
	spec, err := json.Marshal(fakePod())
	require.NoError(t, err)
	of := func(tenant string) (jobs.Run, int) {
		return jobs.Run{
			Attempt: jobs.Attempt{Run: uuid.NewSHA1(uuid.Nil, []byte(tenant))}, RunID: "job:" + tenant, JobID: "job", Namespace: "n", Tenant: tenant,
			Spec: core.JobSpec{ID: "job", PodSpec: spec, Labels: map[string]string{kubetest.RunFor: untilFinished}},
		}, core.Partition(core.Scope{Namespace: "n", Tenant: tenant}, partitions)
	}
	first := process()
	var all []jobs.Run
	for i := range 8 {
		r, at := of(fmt.Sprint("t", i))
		_, err := first[at].Create(t.Context(), r)
		require.NoError(t, err)
		all = append(all, r)
	}
	for i, r := range all {
		_, at := of(fmt.Sprint("t", i))
		for n := range partitions {
			held, err := first[n].Held(t.Context())
			require.NoError(t, err)
			assert.Equal(t, n == at, slices.Contains(held, r.Attempt), "partition %d", n)
		}
	}
	assert.Equal(t, 3, slow.Watches(), "of Jobs, pods and events")

	release, late := make(chan struct{}), make(chan error, 1)
	slow.Inject(kubetest.Fault{Match: creating, Times: 1, Hold: release, Pass: true})
	r, at := of("late")
	go func() {
		_, err := first[at].Create(context.Background(), r)
		late <- err
	}()
	eventually(t, func() error {
		if len(slow.Calls(creating)) <= len(all) {
			return errors.New("it has not been sent yet")
		}
		return nil
	})
	next := process()[at]
	_, err = next.Create(t.Context(), r) // the run asks for it again, and is cancelled
	require.NoError(t, err)
	_, err = next.Delete(t.Context(), r.Attempt)
	require.NoError(t, err)
	close(release)
	require.NoError(t, <-late, "nothing in the cluster refuses it")
	eventually(t, func() error {
		if held, err := next.Held(t.Context()); err != nil || !slices.Contains(held, r.Attempt) {
			return errNotYet("it is not seen", err)
		}
		return nil
	})
	_, err = next.Delete(t.Context(), r.Attempt)
	require.NoError(t, err)
	held, err := next.Held(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, held, r.Attempt)
}
