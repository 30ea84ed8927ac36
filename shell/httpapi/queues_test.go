package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
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
)

// polling is a take that waits over a connection of its own.
type polling struct {
	conn  net.Conn
	ended chan polled
}

type polled struct {
	status int
	body   string
	after  time.Duration
	err    error
}

// poll sends a take that waits, and does not wait for its answer.
func poll(t *testing.T, p *pipes, holder string, seconds int) *polling {
	t.Helper()
	l := &polling{conn: p.dial(), ended: make(chan polled, 1)}
	t.Cleanup(func() { _ = l.conn.Close() })
	body := fmt.Sprintf(`{"holder": %q, "wait_seconds": %d}`, holder, seconds)
	begin := time.Now()
	go func() {
		_, err := fmt.Fprintf(l.conn, "POST /v1/queues/work/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if err != nil {
			l.ended <- polled{err: err}
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(l.conn), nil)
		if err != nil {
			l.ended <- polled{err: err, after: time.Since(begin)}
			return
		}
		b, err := io.ReadAll(resp.Body)
		l.ended <- polled{status: resp.StatusCode, body: strings.TrimSpace(string(b)), after: time.Since(begin), err: err}
	}()
	synctest.Wait()
	return l
}

func (a *api) push(o shell.PushOptions) core.QueueItem {
	a.t.Helper()
	i, _, err := a.engine.Queues().Push(a.t.Context(), "default", "default", "work", o)
	require.NoError(a.t, err)
	return i
}

// inBubble runs the API with the server's real time-outs in the bubble's time.
func inBubble(t *testing.T, run func(t *testing.T, a *api, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: func(o *shell.Options) { o.TickRate = time.Hour }})
		_, err := a.engine.Queues().Configure(t.Context(), "default", "default", "work", core.QueueConfig{})
		require.NoError(t, err)
		run(t, a, serve(t, a))
	})
}

func TestATakeWaitsForAsLongAsItMayAndIsThenAnsweredWithNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *api, p *pipes) {
		got := <-poll(t, p, "w", 60).ended
		require.NoError(t, got.err)
		assert.Equal(t, http.StatusOK, got.status)
		assert.JSONEq(t, `{"items": []}`, got.body)
		assert.Equal(t, time.Minute, got.after)
	})
}

func TestATakeThatWaitsIsAnsweredAtThePush(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api, p *pipes) {
		l := poll(t, p, "w", 60)
		<-time.After(10 * time.Second) // of the bubble
		item := a.push(shell.PushOptions{})
		got := <-l.ended
		require.NoError(t, got.err)
		assert.Contains(t, got.body, item.ID.String())
		assert.Equal(t, 10*time.Second, got.after)
	})
}

func TestAClientThatGoesWhileItWaitsKeepsNoItemFromOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api, p *pipes) {
		gone := poll(t, p, "gone", 60)
		require.NoError(t, gone.conn.Close())
		require.Error(t, (<-gone.ended).err)
		synctest.Wait()
		item := a.push(shell.PushOptions{})
		got := <-poll(t, p, "here", 60).ended
		require.NoError(t, got.err)
		assert.Contains(t, got.body, item.ID.String())
		assert.Zero(t, got.after, "nobody held it meanwhile")
		assert.Contains(t, got.body, `"attempts":1`)
	})
}

func TestATakeThatWaitsEndsWhenTheEngineStops(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api, p *pipes) {
		l := poll(t, p, "w", 60)
		a.stop()
		got := <-l.ended
		require.NoError(t, got.err)
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
		assert.Zero(t, got.after)
	})
}

func TestTheLimitOfARequestIsBesideTheWaitOfATake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{
			engine: func(o *shell.Options) { o.TickRate = time.Hour },
			api:    func(o *httpapi.Options) { o.RequestTimeout = time.Second },
		})
		_, err := a.engine.Queues().Configure(t.Context(), "default", "default", "work", core.QueueConfig{})
		require.NoError(t, err)
		begin := time.Now()
		got := a.do("POST", "/v1/queues/work/take", `{"holder": "w", "wait_seconds": 45}`)
		assert.Equal(t, http.StatusOK, got.status, got.body)
		assert.Equal(t, 45*time.Second, time.Since(begin))
	})
}

func TestPagesOfItemsGoThroughTheStatesOneAfterAnother(t *testing.T) {
	a := start(t, setup{})
	const n = 7
	for i := range n {
		a.push(shell.PushOptions{Delay: time.Duration(i%2) * time.Hour, Key: []string{"", "", "k", "k"}[i%4]})
	}
	for _, limit := range []int{1, 2, 3, 5, 7, 100} {
		seen, token := map[string]bool{}, ""
		var states []string
		for range 2 * n {
			page := a.do("GET", fmt.Sprintf("/v1/queues/work/items?limit=%d&page_token=%s", limit, token), nil)
			require.Equal(t, http.StatusOK, page.status, page.body)
			v := page.object()
			for _, i := range v["items"].([]any) {
				item := i.(map[string]any)
				assert.False(t, seen[item["id"].(string)], "twice")
				seen[item["id"].(string)] = true
				state := "ready"
				if until := item["state"].(map[string]any)["until"]; until != nil {
					state = "delayed"
				} else if item["place"].(float64) == 0 {
					state = "waiting"
				}
				if len(states) == 0 || states[len(states)-1] != state {
					states = append(states, state)
				}
			}
			if token = v["next_page_token"].(string); token == "" {
				break
			}
		}
		assert.Len(t, seen, n, "limit %d", limit)
		assert.Equal(t, []string{"ready", "waiting", "delayed"}, states, "limit %d", limit)
	}
}

func TestTheOldestReadyItemIsFoundBehindThoseOfAHigherPriority(t *testing.T) {
	c := newClock()
	a := start(t, setup{engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) { o.Clock = c }})
	a.push(shell.PushOptions{Priority: -2147483648})
	c.advance(time.Minute)
	a.push(shell.PushOptions{Priority: 2147483647})
	a.push(shell.PushOptions{Priority: 2147483647})
	a.push(shell.PushOptions{})
	c.advance(time.Minute)
	v := a.do("GET", "/v1/queues/work", nil).object()
	assert.InDelta(t, 120, v["oldest_ready_seconds"], 0)
}

func TestTheMetricsTellWhatIsInEachQueueAndWhatHasHappened(t *testing.T) {
	c := newClock()
	a := start(t, setup{engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) { o.Clock = c }})
	_, err := a.engine.Queues().Configure(t.Context(), "default", "default", "idle \"q\"\n", core.QueueConfig{})
	require.Error(t, err, "a name has no control characters")
	_, err = a.engine.Queues().Configure(t.Context(), "default", "default", `idle "q"`, core.QueueConfig{})
	require.NoError(t, err)
	for range 3 {
		a.push(shell.PushOptions{})
	}
	a.push(shell.PushOptions{Delay: time.Hour})
	items, err := a.engine.Queues().Take(t.Context(), core.QueueRef("default", "default", "work"), shell.TakeOptions{Holder: "w", Max: 2})
	require.NoError(t, err)
	require.NoError(t, a.engine.Queues().Complete(t.Context(), shell.HoldOf(items[0]), nil))
	require.NoError(t, a.engine.Queues().Fail(t.Context(), shell.HoldOf(items[1]), "no", true))
	c.advance(90 * time.Second)
	text := a.do("GET", "/metrics", nil).body
	const of = `{namespace="default",queue="work",tenant="default"`
	for _, want := range []string{
		`orrery_queue_items{namespace="default",queue="work",state="ready",tenant="default"} 1`,
		`orrery_queue_items{namespace="default",queue="work",state="delayed",tenant="default"} 1`,
		`orrery_queue_items{namespace="default",queue="work",state="dead",tenant="default"} 1`,
		`orrery_queue_items{namespace="default",queue="work",state="processing",tenant="default"} 0`,
		`orrery_queue_oldest_ready_seconds` + of + `} 90`,
		`orrery_queue_oldest_ready_seconds{namespace="default",queue="idle \"q\"",tenant="default"} 0`,
		`orrery_queue_total{event="pushed",namespace="default",queue="work",tenant="default"} 4`,
		`orrery_queue_total{event="taken",namespace="default",queue="work",tenant="default"} 2`,
		`orrery_queue_total{event="completed",namespace="default",queue="work",tenant="default"} 1`,
		`orrery_queue_total{event="failed",namespace="default",queue="work",tenant="default"} 1`,
	} {
		assert.Contains(t, text, want+"\n")
	}
}
