package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/watchdog"
)

// outside is who is told: it notes when, and answers as it is set to.
type outside struct {
	mu     sync.Mutex
	at     []time.Time
	answer int // 0: no answer at all
	agent  string
}

func (o *outside) RoundTrip(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at, o.agent = append(o.at, time.Now()), r.Method+" "+r.URL.Path+" "+r.Header.Get("User-Agent")
	if o.answer == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: o.answer, Body: io.NopCloser(strings.NewReader("OK"))}, nil
}

const secretURL = "https://hc.example.com/ping/5d0b6c1e-s3cret"

func TestSomebodyOutsideIsToldAtOnceAndThenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{answer: 200}
		w, err := watchdog.New(watchdog.Options{URL: secretURL, Every: 20 * time.Second, Healthy: func(context.Context) error { return nil }, Transport: o})
		require.NoError(t, err)
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 70*time.Second)
		defer stop()
		w.Run(ctx)
		require.Len(t, o.at, 4)
		for i, at := range o.at {
			assert.Equal(t, time.Duration(i)*20*time.Second, at.Sub(began))
		}
		assert.Equal(t, "GET /ping/5d0b6c1e-s3cret orrery", o.agent)
		assert.Equal(t, watchdog.Stats{Taken: 4, TakenAt: o.at[3]}, w.Stats())
	})
}

// Whoever is outside must not be told that all is well while the loop stands still.
func TestNobodyIsToldWhileTheEngineDoesNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, broken := &outside{answer: 200}, errors.New("the disk is full")
		began := time.Now()
		var log bytes.Buffer
		w, err := watchdog.New(watchdog.Options{URL: secretURL, Transport: o, Logger: slog.New(slog.NewTextHandler(&log, nil)), Healthy: func(ctx context.Context) error {
			switch since := time.Since(began); {
			case since >= 5*time.Minute:
				return nil
			case since >= 3*time.Minute:
				<-ctx.Done() // the loop hangs
				return ctx.Err()
			case since >= time.Minute:
				return broken
			}
			return nil
		}})
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute+time.Second)
		defer stop()
		w.Run(ctx)
		assert.Len(t, o.at, 2, "before, and after")
		assert.Equal(t, uint64(4), w.Stats().Held)
		assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), "once for each reason: %s", log.String())
		assert.Contains(t, log.String(), "the daemon is not healthy: the disk is full")
		assert.Equal(t, 1, strings.Count(log.String(), "level=INFO"))
	})
}

func TestARequestThatIsNotTakenIsSaidOnceWithoutTheURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{answer: 404}
		var log bytes.Buffer
		w, err := watchdog.New(watchdog.Options{URL: secretURL, Transport: o, Logger: slog.New(slog.NewTextHandler(&log, nil)), Healthy: func(context.Context) error { return nil }})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		<-time.After(3*time.Minute + time.Second) // of the bubble
		o.mu.Lock()
		o.answer = 0
		o.mu.Unlock()
		<-time.After(2 * time.Minute)
		stop()
		running.Wait()
		assert.Equal(t, watchdog.Stats{Failed: 6}, w.Stats())
		assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
		assert.Contains(t, log.String(), `why="it answers 404"`)
		assert.Contains(t, log.String(), `why="connection refused"`)
		assert.Contains(t, log.String(), "host=hc.example.com")
		assert.NotContains(t, log.String(), "s3cret")
	})
}

func TestAWatchdogThatCannotBeIsRefused(t *testing.T) {
	fine := func(context.Context) error { return nil }
	for want, o := range map[string]watchdog.Options{
		"URL: it is not the URL of a web server": {URL: "hc.example.com/s3cret", Healthy: fine},
		"Every: 500ms is not between 1s and 24h": {URL: secretURL, Every: 500 * time.Millisecond, Healthy: fine},
		"Healthy: is nil":                        {URL: secretURL},
	} {
		_, err := watchdog.New(o)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "s3cret")
	}
}
