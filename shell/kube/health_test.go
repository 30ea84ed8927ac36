package kube

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// outage is a server that can be taken away; it counts what asks for it meanwhile.
type outage struct {
	k     *kit
	down  atomic.Bool
	asked atomic.Int32
}

func newOutage(k *kit) *outage {
	o := &outage{k: k}
	away := func() error {
		o.asked.Add(1)
		return errRefused
	}
	k.react("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !o.down.Load() {
			return false, nil, nil
		}
		return true, nil, away()
	})
	k.reactWatch("*", func(clienttesting.Action) (bool, watchInterface, error) {
		if !o.down.Load() {
			return false, nil, nil
		}
		return true, nil, away()
	})
	return o
}

func (o *outage) begins() {
	o.down.Store(true)
	o.k.breakWatches()
	synctest.Wait()
}

// backSoon is how long a server is back at most until it is watched again.
const backSoon = 10 * time.Second

func TestAfterAnOutageOfAnyLengthTheWatchIsBackWithinTenSeconds(t *testing.T) {
	for _, lasts := range []time.Duration{time.Second, 26 * time.Second, 102 * time.Second, 10 * time.Minute, time.Hour} {
		t.Run(lasts.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				pod := k.running()
				o := newOutage(k)
				o.begins()
				wait(lasts)
				assert.Less(t, int(o.asked.Load()), 20+int(lasts/time.Second), "three watches ask for little")
				o.down.Store(false)
				k.updatePod(exits(pod, 0))
				wait(backSoon)
				assert.Equal(t, []string{"ended exit 0"}, k.sink.take())
				assert.Equal(t, jobs.HealthWorks, k.runner.Health().Status)
			})
		})
	}
}

func TestCallsComeBackWithTheWatchHoweverLongTheyHaveFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		o := newOutage(k)
		o.begins()
		const calls = 50
		done := make(chan error, calls)
		for n := range uint32(calls) {
			go func() {
				_, err := k.runner.Create(t.Context(), run(jobs.Attempt{Run: runUUID, N: n}))
				done <- err
			}()
		}
		wait(5 * time.Minute)
		o.asked.Store(0)
		wait(time.Minute)
		assert.Less(t, int(o.asked.Load()), 4*calls, "each call asks for less than one thing in 15 seconds")
		o.down.Store(false)
		wait(backSoon + backWithin + calls/defaultQPS*time.Second)
		assert.Len(t, done, calls)
	})
}

func TestAnOutageIsToldByTheHealthAndWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.running()
		began := time.Now()
		assert.Equal(t, jobs.HealthWorks, k.runner.Health().Status)
		o := newOutage(k)
		o.begins()
		wait(time.Hour)
		h := k.runner.Health()
		assert.Equal(t, jobs.HealthDown, h.Status)
		assert.Contains(t, h.Error, "connection refused")
		assert.Regexp(t, "^cannot watch (jobs|pods): unreachable$", h.Brief)
		assert.WithinDuration(t, began, h.Since, 2*time.Second)
		assert.WithinDuration(t, began, h.SeenAt, 2*time.Second, "nothing was heard since")
		assert.Empty(t, k.sink.take(), "no run is told of it: a thousand would write a thousand events")

		o.down.Store(false)
		wait(backSoon)
		h = k.runner.Health()
		assert.Equal(t, jobs.HealthWorks, h.Status)
		assert.Empty(t, h.Error)
		assert.Contains(t, h.LastError, "connection refused", "the last error is kept")
		assert.WithinDuration(t, time.Now(), h.Since, backSoon)
	})
}

// Nobody may delete anything for days: that it failed while the server was away is no news.
func TestACallThatFailedInAnOutageDoesNotDegradeTheRunnerForLonger(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		wait(time.Minute)
		o := newOutage(k)
		o.begins()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := k.runner.Delete(ctx, attempt)
		require.Error(t, err)
		assert.Contains(t, k.runner.health.parts, "list Jobs")
		assert.Equal(t, jobs.HealthDown, k.runner.Health().Status)
		o.down.Store(false)
		wait(backSoon)
		h := k.runner.Health()
		assert.Equal(t, jobs.HealthWorks, h.Status, "%s", h.Error)
	})
}

func TestARunnerWhoseWatchDoesNotRunOrHasNotSeenAllYetIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		assert.Equal(t, "is down since 2000-01-01T00:00:00Z: its watch does not run", k.runner.Health().Trouble())
		refused := true
		k.react("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refused, nil, errNoRights("list", "jobs")
		})
		k.watch()
		wait(time.Second)
		assert.Contains(t, k.runner.Health().Error, "cannot watch jobs: ")
		k.locked(func() { refused = false })
		wait(time.Minute)
		assert.Equal(t, jobs.HealthWorks, k.runner.Health().Status)
		k.stop()
		assert.Equal(t, jobs.HealthDown, k.runner.Health().Status)
	})
}

// errNoRights is how RBAC refuses a call.
func errNoRights(verb, resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New(
		`User "system:serviceaccount:orrery:orrery" cannot `+verb+` resource "`+resource+`" in API group "" in the namespace "jobs"`))
}

func TestWithoutTheRightToReadEventsTheRunnerWorksAndSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		asked := atomic.Int32{}
		k.react("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked.Add(1)
			return true, nil, errNoRights("list", "events")
		})
		k.watch()
		defer func() { k.stop() }()
		wait(time.Hour)
		assert.Less(t, int(asked.Load()), 70, "once a minute at most")
		h := k.runner.Health()
		assert.Equal(t, jobs.HealthDegraded, h.Status)
		assert.Contains(t, h.Error, `cannot watch events: `)
		assert.Contains(t, h.Error, `cannot list resource "events"`)
		assert.Equal(t, "cannot watch events: forbidden", h.Brief, "without names")
		assert.Equal(t, "forbidden", h.LastBrief)
		k.createPod(runs(podOf(k.create(attempt))))
		assert.Equal(t, []string{"running"}, k.sink.take())
	})
}

func TestARightThatIsLostFailsTheRunAtOnceAndDegradesTheRunner(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		wait(time.Minute)
		k.fails("create", "jobs", errNoRights("create", "jobs"))
		start := time.Now()
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.ErrorContains(t, err, `cannot create resource "jobs"`)
		assert.True(t, shell.IsPermanent(err))
		assert.Less(t, time.Since(start), time.Second)
		assert.Equal(t, jobs.HealthDegraded, k.runner.Health().Status)
		k.create(attempt)
		assert.Equal(t, jobs.HealthWorks, k.runner.Health().Status, "another was made")
	})
}

func TestWhatIsWrongWithOneJobIsNoTroubleOfTheRunner(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.fails("create", "jobs", apierrors.NewForbidden(jobsResource, "x", errors.New("violates PodSecurity")))
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.Error(t, err)
		assert.Equal(t, jobs.HealthWorks, k.runner.Health().Status)
	})
}

// Without roles from the beginning: what may be so because all is just being applied is
// doubted, and not for longer than that.
func TestA403FromTheStartIsBelievedHalfAMinuteLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		for _, resource := range []string{"jobs", "pods"} {
			k.react("*", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errNoRights(a.GetVerb(), resource)
			})
		}
		k.watch()
		defer func() { k.stop() }()
		synctest.Wait()
		start := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := k.runner.Create(t.Context(), run(attempt))
			done <- err
		}()
		wait(2 * time.Second)
		assert.Contains(t, k.sink.messages(), ` resource "jobs"`, "the run says so within seconds")
		err := <-done
		assert.True(t, shell.IsPermanent(err), "%v", err)
		assert.Less(t, time.Since(start), 3*forbiddenFor/2)
	})
}

// Else the run whose Job could not be made waits for the end of its deletion.
func TestADeletionDoesNotWaitForARightThatNobodyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		for _, resource := range []string{"jobs", "pods"} {
			k.react("*", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errNoRights(a.GetVerb(), resource)
			})
		}
		k.watch()
		defer func() { k.stop() }()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := k.runner.Delete(ctx, attempt)
		assert.True(t, shell.IsPermanent(err), "%v", err)
		assert.ErrorContains(t, err, ` cannot list resource "`)
		assert.Greater(t, time.Since(start), forbiddenFor, "at first it is doubted")
		assert.Less(t, time.Since(start), 3*forbiddenFor/2)
	})
}

func TestABookmarkIsASignOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		watches := make(chan *watch.FakeWatcher, 1)
		k.reactWatch("pods", func(clienttesting.Action) (bool, watchInterface, error) {
			f := watch.NewFakeWithChanSize(1, false)
			watches <- f
			return true, f, nil
		})
		k.reactWatch("jobs", func(clienttesting.Action) (bool, watchInterface, error) { return true, newDeafWatch(), nil })
		k.watch()
		defer func() { k.stop() }()
		wait(time.Minute)
		before := k.runner.Health().SeenAt
		(<-watches).Action(watch.Bookmark, &corev1.Pod{})
		synctest.Wait()
		assert.Equal(t, before, k.runner.Health().SeenAt, "the older of the two counts")
		assert.WithinDuration(t, time.Now(), k.runner.health.parts[watchingPods].heard, time.Second)
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range []error{errRefused, quota()} {
			_, ended := k.runner.pause(ctx, time.Minute, err)
			require.ErrorIs(t, ended, context.DeadlineExceeded)
		}
	})
}

func TestWhichErrorsSayThatAClusterIsNotThere(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, c := range map[string]struct {
		err  error
		away bool
	}{
		"no error":               {nil, false},
		"no connection":          {errRefused, true},
		"no answer in time":      {context.DeadlineExceeded, true},
		"nobody waits any more":  {fmt.Errorf("create: %w", context.Canceled), false},
		"the object is gone":     {fmt.Errorf("delete: %w", errGone), false},
		"503":                    {apierrors.NewServiceUnavailable("etcd is away"), true},
		"500":                    {apierrors.NewInternalError(errors.New("no leader")), true},
		"a status without code":  {&apierrors.StatusError{}, true},
		"forbidden":              {apierrors.NewForbidden(jobs, "a", errors.New("no role")), false},
		"not found":              {apierrors.NewNotFound(jobs, "a"), false},
		"too many requests, 429": {apierrors.NewTooManyRequests("slower", 1), false},
	} {
		assert.Equal(t, c.away, unreachable(c.err), name)
	}
}

func TestTheTroubleOfARunnerIsItsCauseAndNotTheAddressThatWasAsked(t *testing.T) {
	h := newHealth()
	h.watch(true)
	h.failed(watchingJobs, fmt.Errorf("list: %w", &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/apis/batch/v1/namespaces/jobs/jobs?allowWatchBookmarks=true", Err: errors.New("dial tcp: connection refused")}))
	got := h.of()
	assert.Equal(t, "cannot watch jobs: list: dial tcp: connection refused", got.Error)
	assert.Equal(t, "list: dial tcp: connection refused", got.LastError)
}
