package browsertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/store/bolt"
)

// daemon is an engine over a database on the disk, with the API and the page on one address, as orreryd
// serves them. It can be stopped and started again.
type daemon struct {
	t      *testing.T
	dir    string
	addr   string // it keeps its port
	url    string
	tokens []httpapi.Token
	fake   *runnertest.Fake
	print  string // what the tool print writes
	change func(*httpapi.Options)

	engine  *shell.Engine
	streams atomic.Int64 // requests to the stream of changes
	stop    func()
}

// startDaemon starts a daemon that stops when the test ends.
func startDaemon(t *testing.T, tokens ...httpapi.Token) *daemon {
	t.Helper()
	return startDaemonWith(t, func(*httpapi.Options) {}, tokens...)
}

// startDaemonWith is startDaemon with other options of the API.
func startDaemonWith(t *testing.T, change func(*httpapi.Options), tokens ...httpapi.Token) *daemon {
	t.Helper()
	browser(t) // without one nothing need be started
	d := &daemon{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", tokens: tokens, fake: &runnertest.Fake{Script: script}, change: change}
	t.Cleanup(func() { d.stop() })
	d.start()
	return d
}

// script has the pods of a job do what its name begins with.
func script(r jobs.Run) runnertest.Script {
	switch {
	case strings.HasPrefix(r.JobID, "fails"):
		return runnertest.Script{Output: "reading\nno space left on device\n", Starts: true, Ends: true, Exit: 3}
	case strings.HasPrefix(r.JobID, "stays"):
		return runnertest.Script{Output: "working\n", Starts: true}
	default:
		return runnertest.Script{Output: "all done\n", Starts: true, Ends: true}
	}
}

func (d *daemon) tools() map[string]shell.Tool {
	return map[string]shell.Tool{
		"echo": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { return c.Input, nil }),
		"fail": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			return nil, errors.New("exit code 3: disk full: " + string(c.Input))
		}),
		"print": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"exit_code": 0, "stdout": "\x1b[1;32mok\x1b[0m 14 tables\n\x1b[33mwarning\x1b[0m 2 indexes\n" + d.print, "stderr": d.print})
		}),
		"hold": shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}),
	}
}

// start begins a process' life over the database.
func (d *daemon) start() {
	d.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := bolt.Open(filepath.Join(d.dir, "o.db"), bolt.Options{})
	require.NoError(d.t, err)
	checks, err := constraints.New(constraints.Options{})
	require.NoError(d.t, err)
	eo := shell.Options{
		Store: store, Logger: quiet, Tools: d.tools(), StopTimeout: time.Second, LeaseTTL: 2 * time.Second,
		Webhooks: map[string]shell.WebhookRoute{"hook": {Tool: "echo", Namespace: "default", Tenant: "default"}},
	}
	service, err := jobs.Wire(&eo, jobs.Options{Runners: map[string]jobs.Runner{"fake": d.fake}, Checker: checks, Actions: checks, Logger: quiet})
	require.NoError(d.t, err)
	d.engine, err = shell.New(eo)
	require.NoError(d.t, err)
	requests, err := audit.Open(audit.Options{Dir: filepath.Join(d.dir, "audit")})
	require.NoError(d.t, err)
	ao := httpapi.Options{
		Audit: requests, AuditReads: true,
		Engine: d.engine, Logger: quiet, Version: "v1.2.3", Tokens: d.tokens, Jobs: service, OpenRunners: []string{"fake"},
		Cluster:    func(context.Context) (wire.Cluster, error) { return three, nil },
		Drain:      func(context.Context, string, bool) error { return nil },
		AcceptLoss: func(context.Context, int, string) error { return nil },
		Webhooks:   map[string]httpapi.WebhookAuth{"hook": {Scheme: httpapi.SchemeNone}},
	}
	d.change(&ao)
	api, err := httpapi.New(ao)
	require.NoError(d.t, err)
	ui, err := page.New(page.Options{API: api, Version: "v1.2.3", Logger: quiet})
	require.NoError(d.t, err)
	listener, err := net.Listen("tcp", d.addr)
	require.NoError(d.t, err)
	d.addr = listener.Addr().String()
	d.url = "http://" + d.addr
	server := api.HTTPServer(d.addr)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ui/live" {
			d.streams.Add(1)
		}
		if strings.HasPrefix(r.URL.Path, "/ui") {
			ui.ServeHTTP(w, r)
			return
		}
		api.Handler().ServeHTTP(w, r)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { assert.NoError(d.t, d.engine.Run(ctx)) })
	all.Go(func() { assert.NoError(d.t, service.Run(context.Background(), d.engine)) })
	all.Go(func() { assert.ErrorIs(d.t, server.Serve(api.Listener(listener)), http.ErrServerClosed) })
	d.stop = sync.OnceFunc(func() {
		assert.NoError(d.t, server.Close())
		cancel()
		all.Wait()
		assert.NoError(d.t, requests.Close())
		assert.NoError(d.t, store.Close())
	})
	require.Eventually(d.t, func() bool { status, _ := d.ask("GET", "/readyz", ""); return status == http.StatusOK }, patience, 10*time.Millisecond)
}

// three is the cluster that the page shows: one daemon works, one gives its partitions away, one is silent, and one partition is stopped for a loss of commits.
var three = wire.Cluster{
	Instance: "daemon-1", Database: "postgres://orrery@db.example/orrery",
	Instances: []wire.ClusterInstance{
		{Name: "daemon-1", Address: "https://daemon-1.example:7460", Version: "v1.2.3", Core: "15", SilentSeconds: 0.4, Alive: true, Able: "5d41402abc4b2a76"},
		{Name: "daemon-2", Address: "https://daemon-2.example:7460", Version: "v1.2.3", Core: "15", SilentSeconds: 1.2, Alive: true, Draining: true, Able: "7d793037a0760186"},
		{Name: "daemon-3-on-<b>a</b>-machine-with-a-long-name.region.example", Address: "https://daemon-3.example:7460", Version: "v1.2.2", Core: "14", SilentSeconds: 3601, Able: "5d41402abc4b2a76"},
	},
	Partitions: []wire.ClusterPartition{
		{Number: 0, Owner: "daemon-1", Address: "https://daemon-1.example:7460", Token: 7, Commit: 123456, Behind: 3, FormerOwners: []wire.ClusterFormerOwner{{Instance: "daemon-2", Running: 4}}},
		{Number: 1, Owner: "daemon-2", Address: "https://daemon-2.example:7460", Token: 8, Commit: 99},
		{Number: 2, Token: 9, Commit: 1200, Stopped: "commit 1203 was acknowledged, the database's last one is 1200, as after a failover to a standby that lagged behind", LossCanBeAccepted: true},
	},
}

// ask sends a request to the server, as the first of the tokens, and gives the answer.
func (d *daemon) ask(method, path, body string) (int, []byte) {
	d.t.Helper()
	status, _, answer := d.request(method, path, body)
	return status, answer
}

func (d *daemon) request(method, path, body string) (int, http.Header, []byte) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, bytes.NewBufferString(body))
	require.NoError(d.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if len(d.tokens) > 0 {
		r.Header.Set("Authorization", "Bearer "+d.tokens[0].Name)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	got, err := client.Do(r)
	if err != nil {
		return 0, nil, nil
	}
	defer got.Body.Close()
	answer, err := io.ReadAll(got.Body)
	require.NoError(d.t, err)
	return got.StatusCode, got.Header, answer
}

// make has the API make something, and gives a field of its answer.
func (d *daemon) make(method, path, body, field string) string {
	d.t.Helper()
	status, answer := d.ask(method, path, body)
	require.Less(d.t, status, 300, "%s %s: %s", method, path, answer)
	if field == "" {
		return ""
	}
	var object map[string]any
	require.NoError(d.t, json.Unmarshal(answer, &object), "%s", answer)
	s, ok := object[field].(string)
	require.True(d.t, ok, "%s of %s", field, answer)
	return s
}

// token is one whose text is its name.
func token(name string, change func(*httpapi.Token)) httpapi.Token {
	k := httpapi.Token{Name: name, SHA256: httpapi.HashToken(name)}
	if change != nil {
		change(&k)
	}
	return k
}

// until waits for something of the API to hold.
func (d *daemon) until(path, holds string) {
	d.t.Helper()
	var last []byte
	require.Eventually(d.t, func() bool {
		_, last = d.ask("GET", path, "")
		return bytes.Contains(last, []byte(holds))
	}, patience, 20*time.Millisecond, "%s: no %s", path, holds)
}
