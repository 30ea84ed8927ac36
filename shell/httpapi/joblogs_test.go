package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
)

type logsFunc func(ctx context.Context, run core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error

// withRun starts an API whose logs are those of a function, and has a job
// triggered. It gives the path of the run's logs.
func withRun(t *testing.T, logs logsFunc, change ...func(*httpapi.Options)) (a *api, path string) {
	t.Helper()
	a = start(t, setup{engine: withCluster, api: func(o *httpapi.Options) {
		withJobs(o)
		o.Jobs = jobService{logs: logs}
		for _, c := range change {
			c(o)
		}
	}})
	_, err := a.engine.Jobs().Apply(t.Context(), core.JobSpec{ID: "nightly", Namespace: "default", Tenant: "default", PodSpec: []byte(`{"containers":[{}]}`)})
	require.NoError(t, err)
	made, err := a.engine.Jobs().Trigger(t.Context(), shell.Scope{Namespace: "default", Tenant: "default"}, "nightly", shell.TriggerOptions{By: "test"})
	require.NoError(t, err)
	return a, "/v1/runs/" + made.Run.String() + "/logs"
}

// ask sends a request over a connection with the server's time-outs.
func ask(t *testing.T, p *pipes, path, header string) (io.Closer, *bufio.Reader) {
	t.Helper()
	conn := p.dial()
	t.Cleanup(func() { _ = conn.Close() })
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%sConnection: close\r\n\r\n", path, header)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

func answered(t *testing.T, r *bufio.Reader) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	return res
}

func TestLogsThatAreFollowedComeAsTheyAreWrittenAndEndWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, path := withRun(t, func(ctx context.Context, run core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error {
			assert.Equal(t, jobs.LogOptions{Follow: true, Container: "main"}, o)
			assert.Equal(t, "nightly", run.JobID)
			assert.Zero(t, attempt)
			for i := range 3 { // for longer than any time limit of the server
				select {
				case <-time.After(10 * time.Minute):
				case <-ctx.Done():
					return ctx.Err()
				}
				if _, err := fmt.Fprintf(w, "line %d \x1b[31m\xff\n", i); err != nil {
					return err
				}
			}
			return nil
		})
		begin := time.Now()
		_, r := ask(t, serve(t, a), path+"?follow=true&container=main", "")
		res := answered(t, r)
		assert.Equal(t, 15*time.Second, time.Since(begin), "the reader is told that it is heard")
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Equal(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"))
		assert.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
		assert.Equal(t, "0", res.Header.Get("X-Orrery-Attempt"))
		body := bufio.NewReader(res.Body)
		for i := range 3 {
			text, err := body.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("line %d \x1b[31m\xff\n", i), text)
			assert.Equal(t, time.Duration(i+1)*10*time.Minute, time.Since(begin))
		}
		rest, err := io.ReadAll(body)
		require.NoError(t, err, "a regular end")
		assert.Empty(t, rest)
	})
}

func TestLogsThatBreakOffHaveNoRegularEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, path := withRun(t, func(_ context.Context, _ core.Orchestrator, _ uint32, _ jobs.LogOptions, w io.Writer) error {
			_, err := io.WriteString(w, "the beginning\n")
			return errors.Join(err, errors.New("the cluster has gone"))
		})
		_, r := ask(t, serve(t, a), path, "")
		res := answered(t, r)
		assert.Equal(t, http.StatusOK, res.StatusCode)
		text, err := io.ReadAll(res.Body)
		assert.Equal(t, "the beginning\n", string(text))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Contains(t, a.logs.String(), "the cluster has gone")
	})
}

// waits is a log that says nothing, and why it was given up.
func waits(gone chan<- error) logsFunc {
	return func(ctx context.Context, _ core.Orchestrator, _ uint32, _ jobs.LogOptions, _ io.Writer) error {
		<-ctx.Done()
		gone <- context.Cause(ctx)
		return ctx.Err()
	}
}

func TestFollowingLogsEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 1)
		a, path := withRun(t, waits(gone))
		conn, r := ask(t, serve(t, a), path+"?follow=true", "")
		answered(t, r)
		require.NoError(t, conn.Close())
		require.ErrorIs(t, <-gone, context.Canceled)
	})
}

func TestFollowingLogsEndsWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 1)
		a, path := withRun(t, waits(gone))
		_, r := ask(t, serve(t, a), path+"?follow=true", "")
		res := answered(t, r)
		a.stop()
		require.ErrorIs(t, <-gone, shell.ErrStopped)
		_, err := io.ReadAll(res.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "it has not ended by itself")
	})
}

func TestFollowingLogsEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 1)
		begin := time.Now()
		a, path := withRun(t, waits(gone), func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{{Name: "short", SHA256: httpapi.HashToken("s"), Expires: begin.Add(time.Hour)}}
		})
		_, r := ask(t, serve(t, a), path+"?follow=true", "Authorization: Bearer s\r\n")
		answered(t, r)
		require.ErrorContains(t, <-gone, "the token has expired")
		assert.WithinDuration(t, begin.Add(time.Hour), time.Now(), 15*time.Second)
	})
}

func TestLogsThatNobodyFollowsHaveToComeWithinTheTimeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 1)
		a, path := withRun(t, waits(gone), func(o *httpapi.Options) { o.RequestTimeout = 40 * time.Second })
		begin := time.Now()
		r := a.do("GET", path, nil)
		assert.Equal(t, http.StatusServiceUnavailable, r.status)
		assert.Equal(t, "logs: the runner sent no logs in time", r.errorText())
		assert.Equal(t, "5", r.header.Get("Retry-After"))
		assert.Equal(t, 45*time.Second, time.Since(begin), "looked at every 15 seconds")
		assert.Error(t, <-gone)
	})
}

func TestASlowReaderOfLogsIsWaitedForAsLongAsItTakesSome(t *testing.T) {
	const size = 20 * 64 << 10
	long := strings.Repeat("x", size)
	all := func(_ context.Context, _ core.Orchestrator, _ uint32, _ jobs.LogOptions, w io.Writer) error {
		_, err := io.WriteString(w, long)
		return err
	}
	t.Run("it takes some", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, path := withRun(t, all)
			begin := time.Now()
			_, r := ask(t, serve(t, a), path, "")
			res := answered(t, r)
			n, piece := 0, make([]byte, 64<<10)
			for {
				<-time.After(10 * time.Second) // of the bubble
				k, err := io.ReadFull(res.Body, piece)
				n += k
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
			}
			assert.Equal(t, size, n)
			assert.Greater(t, time.Since(begin), 3*time.Minute)
		})
	})
	t.Run("it takes none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			a, path := withRun(t, func(ctx context.Context, run core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error {
				err := all(ctx, run, attempt, o, w)
				ended <- err
				return err
			})
			begin := time.Now()
			_, r := ask(t, serve(t, a), path+"?follow=true", "")
			answered(t, r)
			require.Error(t, <-ended)
			assert.LessOrEqual(t, time.Since(begin), 31*time.Second)
		})
	})
}

func TestReadersOfLogsAreBounded(t *testing.T) {
	for query, after := range map[string]string{"?follow=true": "60", "": "5"} {
		t.Run("logs"+query, func(t *testing.T) { boundedReaders(t, query, after) })
	}
}

func boundedReaders(t *testing.T, query, after string) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 100)
		a, path := withRun(t, waits(gone))
		p := serve(t, a)
		var first io.Closer
		for range 64 {
			conn, _ := ask(t, p, path+query, "")
			if first == nil {
				first = conn
			}
		}
		synctest.Wait()
		_, r := ask(t, p, path+query, "")
		res := answered(t, r)
		assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
		assert.Equal(t, after, res.Header.Get("Retry-After"))
		require.NoError(t, first.Close())
		assert.Error(t, <-gone)
		synctest.Wait()
		_, r = ask(t, p, path+query, "")
		status := http.StatusServiceUnavailable // nothing comes
		if query != "" {
			status = http.StatusOK
		}
		assert.Equal(t, status, answered(t, r).StatusCode, "there is a place again")
	})
}

func TestTheHeadOfLogsDoesNotWaitForThem(t *testing.T) {
	a, path := withRun(t, func(context.Context, core.Orchestrator, uint32, jobs.LogOptions, io.Writer) error {
		t.Error("the logs are read")
		return nil
	})
	r := a.do("HEAD", path+"?follow=true", nil)
	assert.Equal(t, http.StatusOK, r.status)
	assert.Equal(t, "text/plain; charset=utf-8", r.header.Get("Content-Type"))
	assert.Equal(t, "0", r.header.Get("X-Orrery-Attempt"))
}

func TestWhyThereAreNoLogsIsToldWhereItIsMeantForTheReader(t *testing.T) {
	tests := map[string]struct {
		err    error
		status int
		says   string
	}{
		"no pod":     {fmt.Errorf("%w: it waits for a place", jobs.ErrNoPod), 404, "which is container_creating, has no logs of attempt 0: there is no pod: it waits for a place"},
		"not stored": {fmt.Errorf("read: %w", shell.ErrNotFound), 404, "has no logs of attempt 0"},
		"a wish":     {lasting{errors.New("container: \"x\" is unknown")}, 400, "logs: container: \"x\" is unknown"},
		"no container": {fmt.Errorf("logs of pod x: %w", &jobs.NoContainerError{Name: "c", Names: []string{"a", "b"}}), 400,
			`container: there is no container "c": use one of a, b`},
		"the cluster": {errors.New("dial tcp 10.0.0.1:6443: refused"), 502, "logs: the runner could not give them: the daemon's log says why"},
		"empty":       {nil, 200, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, path := withRun(t, func(context.Context, core.Orchestrator, uint32, jobs.LogOptions, io.Writer) error { return test.err })
			r := a.do("GET", path, nil)
			assert.Equal(t, test.status, r.status)
			if test.err == nil {
				assert.Equal(t, "text/plain; charset=utf-8", r.header.Get("Content-Type"))
				assert.Empty(t, r.body)
				return
			}
			assert.Contains(t, r.errorText(), test.says)
			assert.NotContains(t, r.body, "10.0.0.1")
			assert.Empty(t, r.header.Get("X-Orrery-Attempt"))
			if test.status == http.StatusBadGateway {
				assert.Contains(t, a.logs.String(), "10.0.0.1")
			}
		})
	}
}
