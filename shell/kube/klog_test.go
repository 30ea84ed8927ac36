package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

func logger(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})), out
}

func TestWhatClientGoSaysOnItsOwnIsLoggedWithTheRest(t *testing.T) {
	log, out := logger(slog.LevelDebug)
	LogTo(log)
	t.Cleanup(klog.ClearLogger)
	klog.TODO().Error(errors.New("no such file"), "Unable to rotate token", "path", "x")
	klog.TODO().V(1).Info("for its developers")
	assert.Contains(t, out.String(), "level=WARN")
	assert.Contains(t, out.String(), `msg="Unable to rotate token"`)
	assert.Contains(t, out.String(), "path=x")
	assert.NotContains(t, out.String(), "developers")
}

func TestWhatClientGoSaysOfAWatchIsForThoseWhoLookForADefect(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		log, out := logger(level)
		l := klog.FromContext(logged(t.Context(), log)).WithName("reflector").WithValues("type", "pods")
		l.Error(errors.New("EOF"), "watch failed")
		l.V(2).Info("for its developers")
		assert.Equal(t, want, strings.Count(out.String(), "watch failed"))
		assert.Equal(t, want, strings.Count(out.String(), "level=DEBUG"))
		assert.NotContains(t, out.String(), "developers")
	}
}

// Nothing of client-go goes to standard error, where klog writes else.
func TestAClusterThatCannotBeReachedIsNoNewsOfKlogs(t *testing.T) {
	global, out := logger(slog.LevelDebug)
	LogTo(global)
	t.Cleanup(klog.ClearLogger)
	synctest.Test(t, func(t *testing.T) {
		log, own := logger(slog.LevelInfo)
		r, err := New(Options{Client: clientset{fake.NewClientset()}, Logger: log})
		require.NoError(t, err)
		r.client, err = r.clientOf(&rest.Config{Host: "http://cluster", Transport: transport(func(q *http.Request) (int, string) {
			switch query := q.URL.Query(); {
			case query.Get("sendInitialEvents") != "":
				return http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"forbidden"}`
			case query.Get("watch") != "": // ends at once, of which client-go says so each time
				return http.StatusOK, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"overloaded"}}`
			case strings.HasSuffix(q.URL.Path, "/pods"):
				return http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}`
			}
			return http.StatusServiceUnavailable, "starting"
		})}, Options{})
		require.NoError(t, err)
		r.feed.client = r.client
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Watch(ctx, &sinkOf{}) }()
		wait(10 * 60e9)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		assert.Equal(t, 1, strings.Count(own.String(), "\n"), "that the Jobs cannot be listed: %s", own)
	})
	assert.Empty(t, out.String())
}

type warning struct{}

// RoundTrip implements [http.RoundTripper].
func (warning) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusForbidden, Request: q, Body: io.NopCloser(strings.NewReader("")),
		Header: http.Header{"Warning": {`299 - "would violate PodSecurity"`}},
	}, nil
}

func TestWhatTheServerWarnsOfIsLogged(t *testing.T) {
	log, out := logger(slog.LevelInfo)
	r, err := New(Options{Client: clientset{fake.NewClientset()}, Logger: log})
	require.NoError(t, err)
	r.client, err = r.clientOf(&rest.Config{Host: "http://cluster", Transport: warning{}}, Options{})
	require.NoError(t, err)
	_, err = r.Create(t.Context(), run(attempt))
	require.Error(t, err)
	assert.Contains(t, out.String(), `msg="the API server warns" warning="would violate PodSecurity"`)
}
