package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

var (
	errRefused = errors.New("dial tcp: connection refused")
	errNoRoles = apierrors.NewForbidden(jobsResource, "x", errors.New("no RBAC policy matched"))
)

// A server that has just started knows no roles yet.
func TestA403AfterAnOutageIsNotBelievedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.fails("create", "jobs", errRefused, errNoRoles, errNoRoles)
		calls, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		assert.Equal(t, 4, calls)
	})
}

func TestA403WhileTheClusterCannotBeWatchedIsNotBelievedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		down := true
		k.reactWatch("*", func(clienttesting.Action) (bool, watchInterface, error) { return down, nil, errRefused })
		k.react("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return down, nil, errRefused })
		k.breakWatches()
		wait(time.Minute)
		k.fails("create", "jobs", errNoRoles)
		calls, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		assert.Equal(t, 2, calls)

		k.locked(func() { down = false })
		wait(time.Hour)
		k.fails("create", "jobs", errNoRoles)
		_, err = k.runner.Create(t.Context(), run(jobs.Attempt{Run: runUUID, N: 1}))
		assert.True(t, shell.IsPermanent(err), "it is watched again: %v", err)
	})
}

func TestA403ThatLastsIsBelieved(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.react("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errNoRoles })
		k.fails("create", "jobs", errRefused)
		start := time.Now()
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.ErrorContains(t, err, "no RBAC policy matched")
		assert.True(t, shell.IsPermanent(err))
		assert.Greater(t, time.Since(start), forbiddenFor)
		assert.Less(t, time.Since(start), 3*forbiddenFor)
	})
}

func TestA403IsDoubtedAnewAfterTheNextOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		errs := []error{errRefused, errNoRoles}
		for range 10 {
			errs = append(errs, errRefused) // for longer than a 403 is doubted
		}
		k.fails("create", "jobs", append(errs, errNoRoles)...)
		start := time.Now()
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		assert.Greater(t, time.Since(start), 2*forbiddenFor)
	})
}

func TestTheLogsAreNotLostToA403AfterAnOutage(t *testing.T) {
	readsAtThird(t, "one\n", func(w http.ResponseWriter) {
		status(w, 503, "ServiceUnavailable", "starting")
	}, func(w http.ResponseWriter) {
		status(w, 403, "Forbidden", "no RBAC policy matched")
	})
}

// 401 again and again is an error, however it alternates with others it is not one
// that lasts.
func TestCredentialsCountAsExpiredWhileThatIsAllTheServerSays(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		var errs []error
		for range 10 {
			errs = append(errs, apierrors.NewUnauthorized("token expired"), errRefused)
		}
		k.fails("create", "jobs", errs...)
		start := time.Now()
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		assert.Greater(t, time.Since(start), 2*unauthorizedFor)
	})
}

func TestACallThatNobodyAnswersEndsAndIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		n := 0
		start := time.Now()
		calls, err := k.runner.retried(t.Context(), "call", nil, func(ctx context.Context) error {
			if n++; n > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		require.NoError(t, err)
		assert.Equal(t, 2, calls)
		assert.GreaterOrEqual(t, time.Since(start), callTimeout)
	})
}

type transport func(*http.Request) (int, string)

// RoundTrip implements [http.RoundTripper].
func (f transport) RoundTrip(q *http.Request) (*http.Response, error) {
	code, body := f(q)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: q}, nil
}

// The token of a service account expires, and its file is written anew: client-go
// looks at it once a minute.
func TestATokenThatIsRenewedInItsFileIsUsedBeforeTheCallIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
		r, err := New(Options{Client: clientset{fake.NewClientset()}})
		require.NoError(t, err)
		var seen []string
		r.client, err = r.clientOf(&rest.Config{Host: "http://cluster", BearerTokenFile: file, Transport: transport(func(q *http.Request) (int, string) {
			seen = append(seen, q.Header.Get("Authorization"))
			if seen[len(seen)-1] == "Bearer new" {
				return http.StatusBadRequest, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"far enough"}`
			}
			assert.NoError(t, os.WriteFile(file, []byte("new"), 0o600))
			return http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"expired"}`
		})}, Options{})
		require.NoError(t, err)

		calls, err := r.Create(t.Context(), run(attempt))

		require.ErrorContains(t, err, "far enough")
		assert.Equal(t, len(seen), calls)
		assert.Equal(t, "Bearer old", seen[0])
	})
}

// All waits are by this machine's clock alone.
func TestTheClustersClockMayBeWrong(t *testing.T) {
	for _, skew := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		inBubble(t, func(t *testing.T, k *kit) {
			cluster := func() metav1.Time { return metav1.NewTime(time.Now().Add(skew)) }
			job := k.create(attempt)
			job.CreationTimestamp = cluster()
			k.updateJob(job)
			wait(bareFor - time.Second)
			assert.Empty(t, k.sink.take())
			wait(2 * time.Second)
			assert.Equal(t, []string{"created PodNotCreated"}, k.sink.take())
			pod := runs(podOf(job))
			pod.CreationTimestamp = cluster()
			pod = k.createPod(pod)
			assert.Equal(t, []string{"running"}, k.sink.take())

			now, grace := cluster(), int64(20)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
			k.updatePod(pod)
			wait(20*time.Second + stuckFor - time.Second)
			assert.Empty(t, k.sink.take())
			wait(2 * time.Second)
			assert.Equal(t, []string{"lost the pod was deleted, and node n1 does not confirm that it ended"}, k.sink.take())
		})
	}
}

func TestTheCodesOfTheAPIAreDividedIntoWhatMayPassAndWhatNot(t *testing.T) {
	for code, want := range map[int]bool{
		400: true, 401: false, 403: true, 404: true, 405: true, 408: false, 409: false, 410: false, 413: true, 415: true, 422: true,
		425: false, 429: false, 500: false, 502: false, 503: false, 504: false,
	} {
		err := fmt.Errorf("call: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Reason: metav1.StatusReasonUnknown}})
		assert.Equal(t, want, isPersistent(err), "%d", code)
	}
	assert.True(t, isPersistent(apierrors.NewAlreadyExists(jobsResource, "x")))
	assert.False(t, isPersistent(errRefused))
}

func TestTheWaitGrowsToItsLimitUnlessTheServerWantsALongerOne(t *testing.T) {
	for n := range 70 { // far beyond where a shift overflows
		got := waitAfter(n, errRefused)
		assert.LessOrEqual(t, got, longestWait)
		assert.GreaterOrEqual(t, got, min(firstWait<<min(n, 10), longestWait)*4/5)
	}
	assert.GreaterOrEqual(t, waitAfter(10, apierrors.NewTooManyRequests("slow down", 1)), longestWait*4/5, "a shorter one is not taken")
	assert.Equal(t, 5*time.Minute, waitAfter(0, apierrors.NewTooManyRequests("slow down", 300)))
}

func TestAJobThatIsDeletedBeforeItHasAPodIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.create(attempt)
		now := metav1.Now()
		job.DeletionTimestamp = &now
		k.updateJob(job)
		assert.Equal(t, []string{"lost its Job was deleted"}, k.sink.take(), "none is made any more")
	})
}
