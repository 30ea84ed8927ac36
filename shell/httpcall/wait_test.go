package httpcall_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
)

// script answers one request after the other, without a network.
type script []func() (*http.Response, error)

func (s *script) RoundTrip(*http.Request) (*http.Response, error) {
	next := (*s)[0]
	*s = (*s)[1:]
	return next()
}

func answer(status int, retryAfter string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		u, _ := http.NewRequest(http.MethodGet, "http://x", nil)
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {retryAfter}}, Body: http.NoBody, Request: u}, nil
	}
}

func scripted(t *testing.T, o httpcall.Options, answers ...func() (*http.Response, error)) *httpcall.Tool {
	tool := newTool(t, o)
	s := script(answers)
	tool.SetTransport(&s)
	return tool
}

func TestTheServersWaitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		date := begin.Add(20 * time.Second).UTC().Format(http.TimeFormat)
		tool := scripted(t, httpcall.Options{}, answer(429, "50"), answer(503, date), answer(200, ""))
		_, err := run(t, tool, in("url", "http://x", "total_timeout_seconds", 100))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begin), 50*time.Second)
		assert.Less(t, time.Since(begin), 51*time.Second, "the date of the second answer had passed")
	})
}

func TestTheWaitBetweenAttemptsGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		broken := func() (*http.Response, error) { return nil, http.ErrServerClosed }
		tool := scripted(t, httpcall.Options{Backoff: 4 * time.Second, Retries: 3}, broken, broken, broken, broken)
		_, err := run(t, tool, in("url", "http://x"))
		require.ErrorContains(t, err, "(tried 4 times)")
		assert.GreaterOrEqual(t, time.Since(begin), (2+4+5)*time.Second)
		assert.LessOrEqual(t, time.Since(begin), (4+8+10)*time.Second)
	})
}

func TestACancelDuringTheWaitBetweenAttemptsIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		time.AfterFunc(10*time.Second, func() { cancel(shell.ErrCancelled) })
		tool := scripted(t, httpcall.Options{}, answer(429, "50"))
		_, err := tool.Run(ctx, shell.Call{Input: in("url", "http://x")})
		require.ErrorIs(t, err, shell.ErrCancelled)
		assert.True(t, strings.HasPrefix(err.Error(), "GET http://x: was stopped: the action was cancelled"), err)
		assert.Equal(t, 10*time.Second, time.Since(begin))
	})
}

func TestAWaitThatWouldPassTheTotalLimitIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		tool := scripted(t, httpcall.Options{}, answer(429, "50"))
		_, err := run(t, tool, in("url", "http://x", "total_timeout_seconds", 40))
		require.EqualError(t, err, "GET http://x answered 429 Too Many Requests, try again after 50s")
		assert.Zero(t, time.Since(begin))
	})
}

// What the engine asks an error about: whether another attempt of the action makes sense, and when.
func TestAnErrorSaysWhetherTheRequestWouldFailAgain(t *testing.T) {
	for status, lasting := range map[int]bool{400: true, 401: true, 404: true, 408: false, 409: true, 425: false, 429: false, 302: false, 500: false, 503: false} {
		err := error(&httpcall.StatusError{Status: status, RetryAfter: 90 * time.Second})
		assert.Equal(t, lasting, shell.IsPermanent(err), status)
	}
	delayed := &httpcall.StatusError{Status: 503, RetryAfter: 90 * time.Second}
	assert.Equal(t, 90*time.Second, delayed.RetryDelay())
	assert.False(t, shell.IsPermanent(&httpcall.RequestError{Err: io.EOF}))
	assert.True(t, shell.IsPermanent(&httpcall.RequestError{Err: &httpcall.AddressError{}}))
}
