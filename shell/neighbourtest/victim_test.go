//go:build linux

package neighbourtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// victim is tenant a: it works, and notes how well it is served.
type victim struct {
	d      *daemon
	http   *http.Client
	target *httptest.Server

	mu      sync.Mutex
	acked   map[int]time.Time // due times of the actions that were acknowledged
	arrived map[int]time.Time
	api     []time.Duration
	failed  []string // answers that should have been others
	again   int      // requests that were asked again, since their connection was closed
	next    int
}

func newVictim(t *testing.T, d *daemon) *victim {
	t.Helper()
	v := &victim{d: d, http: client(4), acked: map[int]time.Time{}, arrived: map[int]time.Time{}}
	v.target = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Query().Get("n"))
		v.mu.Lock()
		defer v.mu.Unlock()
		if _, again := v.arrived[n]; err == nil && !again {
			v.arrived[n] = time.Now()
		}
	}))
	t.Cleanup(v.target.Close)
	t.Cleanup(v.http.CloseIdleConnections)
	return v
}

// pause is the time between two things that the victim does, and ahead how long
// before its time each action is created.
const (
	pause = 50 * time.Millisecond
	ahead = 400 * time.Millisecond
)

// work creates actions and reads them for as long as that.
func (v *victim) work(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-tick.C:
			n := v.next
			v.next++
			wg.Go(func() { v.order(n) })
		case <-ctx.Done():
			return
		}
	}
}

// order creates one action and reads it.
func (v *victim) order(n int) {
	due := time.Now().Add(ahead)
	var made struct {
		ID string `json:"id"`
	}
	ok := v.call("POST", "/v1/actions", fmt.Sprintf(
		`{"tool_name":"http","tool_input":{"method":"GET","url":"%s/?n=%d"},"trigger":{"type":"scheduled","next_tick_at":%q},"policy":{"on_interrupt":"retry"}}`,
		v.target.URL, n, due.UTC().Format(time.RFC3339Nano)), &made)
	if !ok {
		return
	}
	v.mu.Lock()
	v.acked[n] = due
	v.mu.Unlock()
	v.call("GET", "/v1/actions/"+made.ID, "", nil)
	v.call("GET", "/v1/actions?limit=20", "", nil)
}

// call asks the daemon, and notes how long the answer took. Where every connection that there
// may be is held by strangers, a new one may give way before it has shown its token: then the
// victim asks again, as clients do, and the time goes on.
func (v *victim) call(method, path, body string, into any) bool {
	begin := time.Now()
	status, answer, err := ask(context.Background(), v.http, v.d.url, tokenA, method, path, body)
	again := 0
	for ; err != nil && again < 3; again++ {
		status, answer, err = ask(context.Background(), v.http, v.d.url, tokenA, method, path, body)
	}
	took := time.Since(begin)
	if err == nil && status < 300 && into != nil {
		err = json.Unmarshal(answer, into)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.api = append(v.api, took)
	v.again += again
	if err != nil || status >= 300 {
		v.failed = append(v.failed, fmt.Sprintf("%s %s: %d %v %.200s", method, path, status, err, answer))
		return false
	}
	return true
}

// ask sends one request and reads the answer.
func ask(ctx context.Context, c *http.Client, url, token, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// service is how well the victim was served.
type service struct{ lateness, api time.Duration } // the 99th percentile of each, in a short round the 95th

func (s service) String() string {
	return fmt.Sprintf("tail of lateness %s, of the API %s", s.lateness.Round(time.Millisecond), s.api.Round(time.Millisecond))
}

// served waits for what is still to come, holds that nothing was refused or lost, and
// gives how well it went.
func (v *victim) served(t *testing.T) service {
	t.Helper()
	missing := func() (n int) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for k := range v.acked {
			if _, ok := v.arrived[k]; !ok {
				n++
			}
		}
		return n
	}
	for limit := time.Now().Add(30 * time.Second); missing() > 0 && time.Now().Before(limit); {
		<-time.After(pause)
	}
	assert.Zero(t, missing(), "actions of the victim that were acknowledged did not run")
	v.mu.Lock()
	defer v.mu.Unlock()
	assert.Empty(t, v.failed, "requests of the victim were not answered as they should")
	require.NotEmpty(t, v.acked, "the victim did nothing: the test has tested nothing")
	assert.LessOrEqual(t, v.again, max(3, len(v.api)/50), "requests that had to be asked again, of %d", len(v.api))
	var late []time.Duration
	for k, at := range v.arrived {
		late = append(late, at.Sub(v.acked[k]))
	}
	p := 99
	if len(late) < enough { // of which p99 would be the one that was worst
		p = 95
	}
	s := service{lateness: percentile(late, p), api: percentile(v.api, p)}
	v.again, v.api, v.acked, v.arrived, v.failed = 0, nil, map[int]time.Time{}, map[int]time.Time{}, nil // numbers are not used twice
	return s
}

// enough actions say something of their 99th percentile.
const enough = 500

func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	if len(d) == 0 {
		return 0
	}
	return d[(len(d)-1)*p/100]
}
