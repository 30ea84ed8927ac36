package kube

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

type logText struct {
	text  string
	calls int
	err   error
}

// reading begins to read the attempt's logs: "fake logs", and there the stream ends.
func (k *kit) reading(ctx context.Context, o jobs.LogOptions) <-chan logText {
	done := make(chan logText, 1)
	go func() {
		var out strings.Builder
		calls, err := k.runner.Logs(ctx, attempt, o, &out)
		done <- logText{out.String(), calls, err}
	}()
	synctest.Wait()
	return done
}

func TestFollowingWaitsForThePodItsStartAndItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.create(attempt)
		done := k.reading(t.Context(), jobs.LogOptions{Follow: true})
		wait(time.Hour)
		pod := k.createPod(podOf(job))
		wait(time.Hour)
		k.updatePod(runs(pod))
		wait(time.Minute)
		require.Empty(t, done, "it may still write")
		start := time.Now()
		k.updatePod(exits(pod, 0))
		got := <-done
		require.NoError(t, got.err)
		assert.Equal(t, "fake logs", got.text)
		assert.Equal(t, 1+int(time.Minute/confirmFor)+1, got.calls, "once while it waits for neither, again after each stream that ended, and at the end")
		assert.Zero(t, time.Since(start), "the end is waited for, not looked for")
		k.deletePod(pod)
		k.deleteJob(attempt)
		assert.Zero(t, k.tracked())
	})
}

func TestLogsThatAreNotFollowedAreThoseOfNow(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		read := func() logText { return <-k.reading(t.Context(), jobs.LogOptions{}) }
		job := k.create(attempt)
		require.ErrorIs(t, read().err, jobs.ErrNoPod)
		pod := k.createPod(podOf(job))
		assert.Equal(t, logText{}, read())
		pod = runs(pod)
		k.updatePod(pod)
		assert.Equal(t, logText{text: "fake logs", calls: 1}, read())
	})
}

func TestFollowingWaitsForNoPodThatCannotCome(t *testing.T) {
	for name, do := range map[string]func(k *kit){
		"the pod is gone": func(k *kit) { k.deletePod(k.createPod(runs(podOf(k.job(attempt))))) },
		"the Job has ended": func(k *kit) {
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
			wait(lateFor + time.Second)
		},
		"the Job is gone": func(k *kit) { k.deleteJob(attempt) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				k.create(attempt)
				do(k)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, (<-k.reading(ctx, jobs.LogOptions{Follow: true})).err, jobs.ErrNoPod)
			})
		})
	}
}

func TestFollowingEndsWithAPodThatIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(runs(podOf(k.create(attempt))))
		done := k.reading(t.Context(), jobs.LogOptions{Follow: true})
		k.deletePod(pod)
		got := <-done
		require.NoError(t, got.err, "its log had come to its end before it went")
		assert.Equal(t, "fake logs", got.text)
	})
}

func TestAContainerThatItsPodEndedWithoutHasNoLog(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		inBubble(t, func(t *testing.T, k *kit) {
			pod := podOf(k.create(attempt))
			pod.Status.Phase = phase
			k.createPod(pod)
			assert.Equal(t, logText{}, <-k.reading(t.Context(), jobs.LogOptions{Follow: true}))
		})
	}
}

func TestFollowingEndsWithItsContextOrTheWatch(t *testing.T) {
	for name, do := range map[string]func(k *kit, job *batchv1.Job){
		"before there is a pod": func(*kit, *batchv1.Job) {},
		"before it starts":      func(k *kit, job *batchv1.Job) { k.createPod(podOf(job)) },
		"while it runs":         func(k *kit, job *batchv1.Job) { k.createPod(runs(podOf(job))) },
		"while two containers run": func(k *kit, job *batchv1.Job) {
			pod := runs(podOf(job))
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side"})
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "side", State: pod.Status.ContainerStatuses[0].State})
			k.createPod(pod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				do(k, k.create(attempt))
				ctx, cancel := context.WithCancel(t.Context())
				cancelled, stopped := k.reading(ctx, jobs.LogOptions{Follow: true}), k.reading(t.Context(), jobs.LogOptions{Follow: true})
				cancel()
				got := <-cancelled
				require.ErrorIs(t, got.err, context.Canceled)
				require.ErrorContains(t, got.err, "logs of pod")
				k.stop()
				require.ErrorIs(t, (<-stopped).err, errWatchEnded)
			})
		})
	}
}

func TestWhoWaitsForAWatchThatEndsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{hang: make(chan struct{})})
		k.react("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errRefused })
		k.watch()
		synctest.Wait()
		logs := k.reading(t.Context(), jobs.LogOptions{})
		held := make(chan error, 1)
		go func() {
			_, err := k.runner.Held(t.Context())
			held <- err
		}()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, (<-k.reading(short, jobs.LogOptions{})).err, context.DeadlineExceeded)
		k.stop()
		require.ErrorIs(t, (<-logs).err, errWatchEnded)
		require.ErrorIs(t, <-held, errWatchEnded)
	})
}

func TestARefusalOfOneContainersLogEndsAll(t *testing.T) {
	for _, follow := range []bool{false, true} {
		stop := make(chan struct{})
		l := newLogAPI(t, threeEnded, func(w http.ResponseWriter, c string, _ int) {
			switch c {
			case "a":
				status(w, 403, "Forbidden", "pods/log is forbidden")
			case "b":
				_, _ = io.WriteString(w, "one\n")
				if follow {
					w.(http.Flusher).Flush()
					<-stop
				}
			}
		})
		_, _, err := l.read(t, jobs.LogOptions{Follow: follow})
		close(stop)
		require.ErrorContains(t, err, "forbidden", "not that the others were stopped")
		assert.True(t, shell.IsPermanent(err))
	}
}

func TestALogOnANodeThatIsGivenUpIsNotWaitedFor(t *testing.T) {
	lost := strings.Replace(onePodRuns, `"phase":"Running"`, `"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager"}]`, 1)
	l := newLogAPI(t, lost, func(w http.ResponseWriter, _ string, _ int) { status(w, 500, "InternalError", "no route to host") })
	_, calls, err := l.read(t, jobs.LogOptions{})
	require.ErrorContains(t, err, "its node is lost")
	require.ErrorContains(t, err, "no route to host")
	assert.False(t, shell.IsPermanent(err))
	assert.Equal(t, 1, calls)
}

func TestABadRequestForALogIsPermanentUnlessTheContainerWaits(t *testing.T) {
	l := newLogAPI(t, onePodEnded, func(w http.ResponseWriter, _ string, _ int) {
		status(w, 400, "BadRequest", "a container name must be specified")
	})
	_, _, err := l.read(t, jobs.LogOptions{})
	assert.True(t, shell.IsPermanent(err), "%v", err)

	l = newLogAPI(t, onePodEnded, func(w http.ResponseWriter, _ string, ask int) {
		if ask == 1 {
			status(w, 400, "BadRequest", `container "main" in pod "x" is waiting to start: ContainerCreating`)
			return
		}
		_, _ = io.WriteString(w, "one\n")
	})
	text, calls, err := l.read(t, jobs.LogOptions{Follow: true})
	require.NoError(t, err)
	assert.Equal(t, "one\n", text)
	assert.Equal(t, 2, calls, "the kubelet was behind")
}

// silent is a log of one byte after 50 s, and of no other.
type silent struct {
	ctx   context.Context // of its request
	wrote bool
}

func (s *silent) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&silent{ctx: q.Context()}), Request: q}, nil
}

func (s *silent) Read(b []byte) (int, error) {
	byteAt := time.After(50 * time.Second)
	if s.wrote {
		byteAt = nil
	}
	select {
	case <-byteAt:
		s.wrote = true
		return copy(b, "x"), nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func TestALogOfWhichNoByteComesIsGivenUpUnlessItIsFollowed(t *testing.T) {
	for follow, want := range map[bool]time.Duration{false: 50*time.Second + idleFor, true: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newKit(t, &sinkOf{}).runner
			var err error
			r.client, err = r.clientOf(&rest.Config{Host: "http://cluster", Transport: &silent{}}, Options{})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start := time.Now()
			l := &logs{r: r, pod: "x", o: jobs.LogOptions{Follow: follow}}
			require.Error(t, l.stream(ctx, "main", newResuming(io.Discard, nil)))
			assert.Equal(t, want, time.Since(start))
		})
	}
}

func TestALineIsHeldUntilItIsCompleteOrTooLong(t *testing.T) {
	var out strings.Builder
	l := &lineWriter{mu: &sync.Mutex{}, out: &out}
	writes := func(text string) {
		n, err := l.Write([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, len(text), n)
	}
	writes("one")
	assert.Empty(t, out.String())
	writes("\ntwo\nthr")
	assert.Equal(t, "one\ntwo\n", out.String())
	writes("ee")
	require.NoError(t, l.flush())
	assert.Equal(t, "one\ntwo\nthree\n", out.String())

	out.Reset()
	l.held = nil
	writes(strings.Repeat("x", maxLineHeld))
	assert.Zero(t, out.Len())
	writes("y")
	assert.Equal(t, maxLineHeld+1, out.Len(), "a line without an end takes no memory without one")
	require.NoError(t, l.flush())
	assert.Equal(t, maxLineHeld+1, out.Len(), "nothing is held")

	l.out = brokenPipe{}
	_, err := l.Write([]byte("a\n"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	l.held = []byte("a")
	require.ErrorIs(t, l.flush(), io.ErrClosedPipe)
}
