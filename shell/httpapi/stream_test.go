package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// follow opens a stream of events over a connection with the server's time-outs.
func follow(t *testing.T, a *api, query string) *bufio.Reader {
	t.Helper()
	conn := serve(t, a).dial()
	t.Cleanup(func() { _ = conn.Close() })
	_, err := fmt.Fprintf(conn, "GET /v1/events%s HTTP/1.1\r\nHost: localhost\r\n\r\n", query)
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	line(t, r, ": events from now on")
	return r
}

// line reads on to a line that begins so.
func line(t *testing.T, r *bufio.Reader, prefix string) string {
	t.Helper()
	for {
		text, err := r.ReadString('\n')
		require.NoError(t, err, "before %q", prefix)
		if strings.HasPrefix(text, prefix) {
			return strings.TrimSpace(text)
		}
	}
}

func publish(t *testing.T, a *api, category, action string) {
	t.Helper()
	_, err := a.engine.Subscribers().Send(t.Context(), shell.Scope{}, core.BusPublish{Kind: effects.Custom(category, action), Source: effects.EventSource{Component: "test"}})
	require.NoError(t, err)
}

func TestAStreamOfEventsOutlivesTheTimeLimitsAndHasOnlyWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) { o.RequestTimeout = time.Second }})
		r := follow(t, a, "?category=deploys&category=other&action=done")
		begin := time.Now()
		for range 20 {
			line(t, r, ":") // a sign of life
		}
		assert.Equal(t, 5*time.Minute, time.Since(begin))
		publish(t, a, "builds", "done")
		publish(t, a, "deploys", "begun")
		publish(t, a, "deploys", "done")
		assert.Contains(t, line(t, r, "data:"), `"kind":{"category":"deploys","action":"done"}`)
		publish(t, a, "other", "done")
		assert.Contains(t, line(t, r, "data:"), `"kind":{"category":"other","action":"done"}`)
	})
}

func TestAStreamOfEventsSaysHowManyItsReaderHasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		r := follow(t, a, "?category=deploys")
		const most = 1024 + 1 // in the buffer, and on its way
		for range most + 10 {
			publish(t, a, "deploys", "done")
		}
		synctest.Wait()
		line(t, r, "event: dropped")
		assert.Equal(t, `data: {"dropped":10}`, line(t, r, "data:"))
		for range most - 1 {
			line(t, r, "data: {\"id\"")
		}
	})
}

func TestAStreamOfEventsEndsWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		r := follow(t, a, "")
		a.stop()
		line(t, r, "0") // the last chunk
	})
}

func TestTheHeadOfAStreamDoesNotWaitForIt(t *testing.T) {
	a := start(t, setup{})
	r := a.do("HEAD", "/v1/events", nil)
	assert.Equal(t, http.StatusOK, r.status)
	assert.Equal(t, "text/event-stream", r.header.Get("Content-Type"))
}

// follow opens a stream of events, and gives the first line of the answer.
func (p *pipes) follow(t *testing.T) (net.Conn, string) {
	t.Helper()
	conn := p.dial()
	t.Cleanup(func() { _ = conn.Close() })
	_, err := fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	status, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return conn, strings.TrimSpace(status)
}

func TestStreamsOfEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, start(t, setup{}))
		for range 64 {
			_, status := p.follow(t)
			assert.Equal(t, "HTTP/1.1 200 OK", status)
		}
		_, status := p.follow(t)
		assert.Equal(t, "HTTP/1.1 429 Too Many Requests", status)
	})
}

func TestAWaitEndsWithThePipelineOrBeforeTheRequestsTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		p, err := a.engine.Pipelines().Create(t.Context(), core.PipelineSpec{Definition: core.PipelineDef{
			Name: "p", Phases: []core.PhaseDef{{Name: "wait", Wait: &core.WaitPhase{ForMS: 30_000}}},
		}})
		require.NoError(t, err)
		begin := time.Now()
		r := a.do("GET", "/v1/pipelines/"+p.ID.String()+"?wait_seconds=60", nil)
		assert.Equal(t, http.StatusOK, r.status)
		assert.Contains(t, r.body, `"phase":{"type":"running","name":"wait"}`)
		assert.Equal(t, 27*time.Second, time.Since(begin), "nine tenths of the limit")
		r = a.do("GET", "/v1/pipelines/"+p.ID.String()+"?wait_seconds=60", nil)
		assert.Contains(t, r.body, `"phase":{"type":"done"}`)
		assert.Equal(t, 30*time.Second, time.Since(begin))
	})
}

func TestAWaitIsAnsweredWhenTheEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: func(o *shell.Options) { o.StopTimeout = time.Second }})
		p, err := a.engine.Pipelines().Create(context.Background(), core.PipelineSpec{Definition: core.PipelineDef{
			Name: "p", Phases: []core.PhaseDef{{Name: "wait", Signal: &core.SignalPhase{Name: "go"}}},
		}})
		require.NoError(t, err)
		done := make(chan answer)
		go func() { done <- a.do("GET", "/v1/pipelines/"+p.ID.String()+"?wait_seconds=20", nil) }()
		synctest.Wait()
		a.stop()
		assert.Equal(t, http.StatusServiceUnavailable, (<-done).status)
	})
}
