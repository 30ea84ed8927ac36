package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/stream"
)

func TestMetricsHaveTheNamesOfTheSourceAndCount(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Webhooks = map[string]httpapi.WebhookAuth{"open": {Scheme: httpapi.SchemeNone}, "gh": {Scheme: httpapi.SchemeGitHub, Secrets: []string{"s"}}}
	}})
	id := a.do("POST", "/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"@yearly","provider":"fail","action_type":"x"}`).str("recurring_id")
	require.Equal(t, 201, a.do("POST", "/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"@yearly","provider":"fail","action_type":"x","enabled":false}`).status)
	sub := a.engine.Subscribe(nil, 16)
	defer sub.Close()
	require.Equal(t, 200, a.do("POST", "/v1/recurring/"+id+"/trigger", nil).status)
	for (<-sub.C).Kind.String() != "action:failed" {
	}
	a.ended(a.do("POST", "/v1/webhooks/open", "x").str("action_id"))
	require.Equal(t, 401, a.do("POST", "/v1/webhooks/gh", "x").status)
	a.ended(a.do("POST", "/v1/webhooks/gh", "x", gitHub("s", "d", "x")).str("action_id"))
	require.Equal(t, 202, a.do("POST", "/v1/webhooks/gh", "x", gitHub("s", "d", "x")).status)
	require.Equal(t, 404, a.do("GET", "/some/path", nil).status)
	require.Equal(t, 201, a.do("POST", "/v1/actions", `{"tool_name":"hold"}`).status)

	r := a.do("GET", "/metrics", nil)
	require.Equal(t, http.StatusOK, r.status)
	assert.Contains(t, r.header.Get("Content-Type"), "text/plain")
	for _, line := range []string{
		"recurring_dispatched 1", "recurring_active 1", "recurring_errors 1", "# TYPE recurring_dispatched counter", "# TYPE recurring_active gauge",
		"orrery_up 1", `orrery_build_info{core="16",tzdb="2025c",version="v1.2.3"} 1`,
		`orrery_actions{status="running"} 1`, `orrery_actions{status="failed"} 1`, `orrery_actions_ended_total{outcome="failed"} 1`, "orrery_runs_running 1",
		"orrery_webhooks_received_total 2", `orrery_webhooks_rejected_total{route="gh"} 1`, `orrery_webhooks_replayed_total{route="gh"} 1`,
		`orrery_webhooks_rejected_total{route="open"} 0`, `orrery_webhooks_replayed_total{route="open"} 0`,
		`orrery_http_requests_total{route="POST /v1/recurring",status="201"} 2`, `orrery_http_requests_total{route="/",status="404"} 1`,
		"# TYPE orrery_lateness_seconds histogram", `orrery_lateness_seconds_bucket{le="+Inf"}`, "orrery_ticks_total 1", "go_goroutines ",
	} {
		assert.True(t, strings.Contains(r.body, "\n"+line), line) //nolint:testifylint // the whole page in a message hides the line
	}
	assert.NotContains(t, r.body, "/some/path", "a label for each path that somebody tries would grow without bound")
}

func TestLatenessIsACumulativeHistogram(t *testing.T) {
	c := newClock()
	a := start(t, setup{engine: func(o *shell.Options) { o.Clock = c }})
	at := func(d time.Duration) map[string]any {
		return map[string]any{"type": "scheduled", "next_tick_at": c.Now().Add(d)}
	}
	var ids []string
	for _, d := range []time.Duration{time.Second, 3900 * time.Millisecond} {
		ids = append(ids, a.do("POST", "/v1/actions", map[string]any{"tool_name": "echo", "trigger": at(d)}).str("id"))
	}
	c.advance(4 * time.Second) // 3 s and 100 ms late
	a.wake()
	for _, id := range ids {
		a.ended(id)
	}
	body := a.do("GET", "/metrics", nil).body
	buckets := regexp.MustCompile(`orrery_lateness_seconds_bucket\{le="([^"]+)"\} (\d+)`).FindAllStringSubmatch(body, -1)
	got := make([]string, len(buckets))
	for i, b := range buckets {
		got[i] = b[1] + ":" + b[2]
	}
	assert.Equal(t, "0.001:0 0.002:0 0.005:0 0.01:0 0.025:0 0.05:0 0.1:1 0.25:1 0.5:1 1:1 2.5:1 5:2 10:2 30:2 60:2 300:2 +Inf:2", strings.Join(got, " "))
	assert.Contains(t, body, "\norrery_lateness_seconds_sum 3.1\norrery_lateness_seconds_count 2\n")
}

func TestMetricsSayThatTheStoreIsDown(t *testing.T) {
	st := &blind{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st, stopped: true})
	st.err = errors.New("cannot read /var/lib/secret/orrery.db")
	r := a.do("GET", "/metrics", nil)
	require.Equal(t, http.StatusOK, r.status)
	assert.Contains(t, r.body, "\norrery_up 0\n")
	assert.NotContains(t, r.body, "secret")
	assert.NotContains(t, r.body, "recurring_dispatched")
}

// blind is a store that cannot be read.
type blind struct {
	store.Store
	err error
}

func (b *blind) View(ctx context.Context, fn func(store.ReadTx) error) error {
	if b.err != nil {
		return b.err
	}
	return b.Store.View(ctx, fn)
}

func TestAnInternalErrorTellsNothingButItsNumber(t *testing.T) {
	st := &blind{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st, stopped: true})
	st.err = errors.New("cannot read /var/lib/secret/orrery.db")
	r := a.do("GET", "/v1/actions", nil, with("X-Request-Id", "req-42"))
	assert.Equal(t, http.StatusInternalServerError, r.status)
	assert.Equal(t, "internal error", r.errorText())
	assert.Equal(t, "req-42", r.header.Get("X-Request-Id"))
	assert.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))
	assert.Equal(t, "no-store", r.header.Get("Cache-Control"))
	assert.Contains(t, a.logs.String(), "request_id=req-42")
	assert.Contains(t, a.logs.String(), "/var/lib/secret", "the log has what the answer has not")

	bad := a.do("GET", "/v1/actions", nil, with("X-Request-Id", "a b\tc"))
	assert.NotEqual(t, "a b\tc", bad.header.Get("X-Request-Id"), "an id that is no plain name is replaced")
}

func TestAPanicIsAnsweredAndLogged(t *testing.T) {
	a := start(t, setup{stopped: true, api: func(o *httpapi.Options) { o.Ready = func() error { panic("secret of the program") } }})
	r := a.do("GET", "/readyz", nil)
	assert.Equal(t, http.StatusInternalServerError, r.status)
	assert.Equal(t, "internal error", r.errorText())
	assert.Contains(t, a.logs.String(), "secret of the program")
	assert.Contains(t, a.logs.String(), "ops_test.go", "with the stack")
	assert.Equal(t, http.StatusOK, a.do("GET", "/healthz", nil).status)
}

func TestReadinessHasItsReason(t *testing.T) {
	var reason error
	a := start(t, setup{api: func(o *httpapi.Options) { o.Ready = func() error { return reason } }})
	assert.Equal(t, http.StatusOK, a.do("GET", "/readyz", nil).status)
	reason = errors.New("the configuration is being loaded")
	r := a.do("GET", "/readyz", nil)
	assert.Equal(t, http.StatusServiceUnavailable, r.status)
	assert.Equal(t, "not ready: the configuration is being loaded", r.errorText())
	reason = nil
	a.stop()
	assert.Equal(t, "not ready: the engine is stopped", a.do("GET", "/readyz", nil).errorText())
}

// mute is a store that does not answer.
type mute struct{ store.Store }

func (mute) View(ctx context.Context, _ func(store.ReadTx) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestWhoWatchesAStoreThatDoesNotAnswerEndsTheWaitForIt(t *testing.T) {
	st := memory.New()
	t.Cleanup(func() { _ = st.Close() })
	var asked atomic.Int64
	a := start(t, setup{store: mute{st}, stopped: true, api: func(o *httpapi.Options) {
		o.Ready = func() error {
			if asked.Add(1) < 3 {
				return nil
			}
			return errors.New("the store is away")
		}
	}})
	r := a.do("GET", "/readyz", nil)
	assert.Equal(t, http.StatusServiceUnavailable, r.status)
	assert.Equal(t, "not ready: the store is away", r.errorText())
	assert.EqualValues(t, 3, asked.Load())
}

func TestAnEngineThatDoesNotAnswerIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{stopped: true})
		begin := time.Now()
		r := a.do("GET", "/readyz", nil)
		assert.Equal(t, http.StatusServiceUnavailable, r.status)
		assert.Equal(t, "not ready: the engine did not answer within 5s", r.errorText())
		assert.Equal(t, 5*time.Second, time.Since(begin)) // the bubble's time

		begin = time.Now()
		r = a.do("POST", "/v1/actions", `{"tool_name":"echo"}`)
		assert.Equal(t, http.StatusServiceUnavailable, r.status)
		assert.Contains(t, r.errorText(), "the engine did not answer in time")
		assert.Equal(t, 30*time.Second, time.Since(begin))
	})
}

// unwritten is a store whose checkpoints fail.
type unwritten struct {
	*failing
	ill  atomic.Pointer[error]
	full atomic.Bool
}

func (u *unwritten) LogStats() store.LogStats {
	if err := u.ill.Load(); err != nil {
		l := store.LogStats{Err: *err}
		if u.full.Load() {
			l.Fill = 1.01
		}
		return l
	}
	return store.LogStats{}
}

func TestReadinessTellsWhatKeepsTheLogFromTheFile(t *testing.T) {
	st := &unwritten{failing: &failing{Store: memory.New()}}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st})
	const grows = "the log cannot be brought into the database file, and grows until it is full: "
	for err, want := range map[error]string{
		nil:                                   "",
		fmt.Errorf("x: %w", store.ErrCorrupt): grows + "a part of the file is damaged: stop the daemon and make a new file with orreryd salvage",
		fmt.Errorf("x: %w", syscall.ENOSPC):   grows + "the disk is full",
		errors.New("/var/lib/secret is ill"):  grows + "the daemon's log says why",
	} {
		st.ill.Store(nil)
		if err != nil {
			st.ill.Store(&err)
		}
		r := a.do("GET", "/readyz", nil)
		require.Equal(t, http.StatusOK, r.status, "it takes all that comes")
		assert.Equal(t, want != "", strings.Contains(r.body, "database"))
		if want != "" {
			assert.Equal(t, want, r.str("database"))
		}
		assert.Contains(t, a.do("GET", "/metrics", nil).body, "\norrery_checkpoint_failing "+map[bool]string{false: "0", true: "1"}[err != nil])
	}
	bad := fmt.Errorf("page 7: %w", store.ErrCorrupt)
	st.ill.Store(&bad)
	st.fail(fmt.Errorf("the log is full: %w", bad))
	require.GreaterOrEqual(t, a.do("POST", "/v1/actions", `{"tool_name":"echo"}`).status, 500)
	for full, and := range map[bool]string{false: "", true: ", and the log is full"} {
		st.full.Store(full)
		r := a.do("GET", "/readyz", nil)
		assert.Equal(t, http.StatusServiceUnavailable, r.status)
		assert.Equal(t, "not ready: a part of the database file is damaged"+and+": stop the daemon and make a new file with orreryd salvage", r.errorText())
	}
	st.fail(nil)
}

func TestReadinessSaysWhyNothingCanBeStored(t *testing.T) {
	for want, err := range map[string]error{
		"not ready: the disk is full: nothing can be stored":                       syscall.ENOSPC,
		"not ready: the database cannot be written: nothing can be stored":         os.ErrPermission,
		"not ready: the engine is stopped":                                         store.ErrClosed,
		"not ready: the lists of a database of an earlier version are being built": shell.ErrReindexing,
		"not ready: the database failed: the daemon's log says why":                errors.New("page 7 is torn"),
	} {
		st := &failing{Store: memory.New()}
		t.Cleanup(func() { _ = st.Close() })
		a := start(t, setup{store: st})
		st.fail(err)
		require.GreaterOrEqual(t, a.do("POST", "/v1/actions", `{"tool_name":"echo"}`).status, 500)
		before, statsErr := a.engine.Stats(t.Context())
		require.NoError(t, statsErr)
		for range 5 {
			assert.Equal(t, want, a.do("GET", "/readyz", nil).errorText())
		}
		after, statsErr := a.engine.Stats(t.Context())
		require.NoError(t, statsErr)
		assert.Equal(t, before.CommitErrors, after.CommitErrors, "a probe tries nothing")
		assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil).status, "what is stored can still be read")
		assert.Contains(t, a.logs.String(), "/var/lib/secret", "the log has what the answer has not")
		st.fail(nil)
		require.Equal(t, 201, a.do("POST", "/v1/actions", `{"tool_name":"echo"}`).status)
		assert.Equal(t, http.StatusOK, a.do("GET", "/readyz", nil).status)
	}
}

func TestEveryCommitErrorIsAnsweredWithoutItsDetails(t *testing.T) {
	st := &failing{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st})
	for _, test := range []struct {
		err    error
		status int
		says   string
	}{
		{store.ErrClosed, 503, "the engine is stopped"},
		{os.ErrPermission, 503, "the database cannot be written: nothing was stored"},
		{shell.ErrReindexing, 503, "the lists of a database of an earlier version are being built: try again later"},
		{store.ErrUnconfirmed, 503, "the database did not confirm it: this may have been carried out, and can be sent again with the same Idempotency-Key if it had one"},
		{fmt.Errorf("begin a view: %w: dial tcp 10.0.0.7:5432: connection refused", store.ErrUnreachable), 503, "the database is not available: try again"},
		{errors.New("page 7 is torn"), 500, "internal error"},
	} {
		st.fail(test.err)
		r := a.do("POST", "/v1/actions", `{"tool_name":"echo"}`)
		assert.Equal(t, test.status, r.status)
		assert.Equal(t, test.says, r.errorText())
	}
	st.fail(nil)
	assert.Equal(t, 201, a.do("POST", "/v1/actions", `{"tool_name":"hold"}`).status)
	st.fail(fmt.Errorf("partition 0: %w", store.ErrFenced)) // after which the engine has ended
	r := a.do("POST", "/v1/actions", `{"tool_name":"echo"}`)
	assert.Equal(t, 503, r.status)
	assert.Equal(t, "another process has the database now: nothing was stored", r.errorText())
	assert.Equal(t, "1", r.header.Get("Retry-After"))
}

func TestABackupIsADatabaseThatOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	st, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st})
	id := a.do("POST", "/v1/actions", `{"tool_name":"echo","tool_input":{"a":1}}`).str("id")
	a.ended(id)

	head := a.do("HEAD", "/v1/backup", nil)
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
	r := a.do("GET", "/v1/backup", nil)
	require.Equal(t, http.StatusOK, r.status)
	assert.Equal(t, stream.ContentType, r.header.Get("Content-Type"))
	assert.Contains(t, r.header.Get("Content-Disposition"), "attachment")
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err = bolt.ReceiveBackup(t.Context(), copied, strings.NewReader(r.body), nil)
	require.NoError(t, err)
	second, err := bolt.Open(copied, bolt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = second.Close() })
	b := start(t, setup{store: second})
	assert.JSONEq(t, a.do("GET", "/v1/actions/"+id, nil).body, b.do("GET", "/v1/actions/"+id, nil).body)
}

// slowBackup is a store whose backups wait, or fail, after the first bytes.
type slowBackup struct {
	store.Store
	begun chan struct{}
	end   chan error
}

func (s *slowBackup) Backup(ctx context.Context, w io.Writer) (int64, error) {
	n, err := io.WriteString(w, "the first bytes")
	if err != nil {
		return int64(n), err
	}
	s.begun <- struct{}{}
	select {
	case err = <-s.end:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return int64(n), err
}

func newSlowBackup(t *testing.T) *slowBackup {
	s := &slowBackup{Store: memory.New(), begun: make(chan struct{}, 1), end: make(chan error)}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestOneBackupRunsAtATime(t *testing.T) {
	st := newSlowBackup(t)
	a := start(t, setup{store: st})
	first := make(chan answer, 1)
	go func() { first <- a.do("GET", "/v1/backup", nil) }()
	<-st.begun
	r := a.do("GET", "/v1/backup", nil)
	assert.Equal(t, http.StatusTooManyRequests, r.status)
	assert.Equal(t, "60", r.header.Get("Retry-After"))
	assert.Contains(t, r.errorText(), "a backup is running")
	st.end <- nil
	assert.Equal(t, http.StatusOK, (<-first).status)

	go func() { first <- a.do("GET", "/v1/backup", nil) }()
	<-st.begun
	st.end <- nil
	assert.Equal(t, http.StatusOK, (<-first).status, "the next one may run")
}

func TestABackupThatFailsBreaksOff(t *testing.T) {
	st := newSlowBackup(t)
	a := start(t, setup{store: st})
	srv := httptest.NewServer(a.server.Handler())
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/v1/backup", http.NoBody)
	require.NoError(t, err)
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	<-st.begun
	st.end <- errors.New("a torn page")
	_, err = io.ReadAll(res.Body)
	require.Error(t, err, "nobody may take it for whole")
	srv.Client().CloseIdleConnections()
	assert.Contains(t, a.logs.String(), "a torn page")
}

func TestAStopIsNoFaultInTheLog(t *testing.T) {
	a := start(t, setup{})
	a.stop()
	assert.Equal(t, http.StatusServiceUnavailable, a.do("POST", "/v1/actions", `{"tool_name":"hold"}`).status)
	assert.Contains(t, a.logs.String(), "request ended early")
	assert.NotContains(t, a.logs.String(), "ERROR")
}

func TestTheOpenAPIDocumentIsServed(t *testing.T) {
	a := start(t, setup{stopped: true})
	r := a.do("GET", "/openapi.json", nil)
	require.Equal(t, http.StatusOK, r.status)
	assert.Equal(t, "application/json", r.header.Get("Content-Type"))
	assert.True(t, json.Valid([]byte(r.body)))
}

func TestTheJournalNamesWhoAsked(t *testing.T) {
	st := memory.New()
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st})
	require.Equal(t, 201, a.do("POST", "/v1/actions", `{"tool_name":"hold"}`).status)
	b := start(t, setup{store: st, api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "alice", SHA256: httpapi.HashToken("s")}}
	}})
	require.Equal(t, 201, b.do("POST", "/v1/actions", `{"tool_name":"hold"}`, bearer("s")).status)
	var journal strings.Builder
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Journal(1, func(_ uint64, batch []byte) error { journal.Write(batch); return nil })
	}))
	assert.Contains(t, journal.String(), `"api:loopback"`)
	assert.Contains(t, journal.String(), `"api:alice"`)
}

func TestRunbooksAreMeasured(t *testing.T) {
	a := start(t, setup{})
	id := a.do("POST", "/v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"secret-name","run":{"tool":"echo","input":null}}]}}`).str("id")
	require.Equal(t, 200, a.do("GET", "/v1/pipelines/"+id+"?wait_seconds=20", nil).status)
	failing := a.do("POST", "/v1/pipelines", `{"definition":{"name":"f","phases":[{"name":"a","manual":{}}]}}`).str("id")
	require.Eventually(t, func() bool {
		return a.do("POST", "/v1/pipelines/"+failing+"/phases/a/fail", `{"error":"no"}`).status == 200
	}, time.Minute, 10*time.Millisecond, "it starts at once")
	require.Equal(t, 202, a.do("POST", "/v1/events", `{"kind":{"category":"secret-category","action":"x"}}`).status)
	require.Equal(t, 201, a.do("POST", "/v1/tasks", `{"label":"t"}`).status)
	body := a.do("GET", "/metrics", nil).body
	for _, line := range []string{
		`orrery_pipelines{status="done"} 1`, `orrery_pipelines{status="running"} 0`, `orrery_tasks{status="running"} 1`, `orrery_strategies{status="running"} 0`,
		`orrery_events_total{action="complete",category="pipeline"} 1`, `orrery_events_total{action="",category="custom"} 1`,
		`orrery_phase_duration_seconds_count{kind="manual",outcome="failed"} 1`, `orrery_phase_duration_seconds_count{kind="run",outcome="done"} 1`, `orrery_phase_duration_seconds_bucket{kind="run",outcome="done",le="86400"} 1`,
	} {
		assert.True(t, strings.Contains(body, "\n"+line), line) //nolint:testifylint // the whole page in a message hides the line
	}
	assert.NotContains(t, body, "secret", "a label for each name would grow without bound")
}
