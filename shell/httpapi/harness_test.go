package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is the API over a running engine, as a client on this machine sees it.
type api struct {
	t      *testing.T
	engine *shell.Engine
	server *httpapi.Server
	// Of several partitions: engine and server are those of the first.
	engines       []*shell.Engine
	router        *httpapi.Router // who is asked
	routerOptions httpapi.RouterOptions
	processes     []*process
	header        http.Header // sent with every request
	logs          *locked.Buffer
	stop          func() // stops the engine and waits for it; also called at the test's end
	hold          chan struct{}
}

type setup struct {
	store   store.Store
	engine  func(*shell.Options)
	api     func(*httpapi.Options)
	stopped bool // do not run the engine
	// partitions, if there are several, are divided over two processes; requests go to one that owns the first.
	partitions int
	logs       []*audit.Log // of requests, of the processes where there are partitions
}

// picky refuses an input that says so.
type picky struct{}

func (picky) Run(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil }

func (picky) ValidateInput(input json.RawMessage) error {
	if strings.Contains(string(input), "bad") {
		return errors.New(`tool_input.word: "bad" is not taken: use another`)
	}
	return nil
}

func start(t *testing.T, s setup) *api {
	t.Helper()
	a := &api{t: t, header: http.Header{}, logs: &locked.Buffer{}, hold: make(chan struct{})}
	if s.store == nil {
		s.store = memory.New()
		t.Cleanup(func() { _ = s.store.Close() })
	}
	log := slog.New(slog.NewTextHandler(a.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	eo := shell.Options{
		Store: s.store, Logger: log,
		Tools: map[string]shell.Tool{
			"echo": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { return c.Input, nil }),
			"fail": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errors.New("did not work") }),
			"hold": shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
				select {
				case <-a.hold:
					return nil, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}),
			"email": picky{},
		},
		Webhooks: map[string]shell.WebhookRoute{
			"std":  {Tool: "echo", Namespace: "ns", Tenant: "t1"},
			"gh":   {Tool: "echo", Namespace: "ns", Tenant: "t1"},
			"open": {Tool: "echo", Namespace: "ns", Tenant: "t1"},
		},
	}
	if s.engine != nil {
		s.engine(&eo)
	}
	ho := httpapi.Options{Logger: log, Version: "v1.2.3"}
	if s.api != nil {
		s.api(&ho)
	}
	if s.partitions > 1 {
		a.divide(s.partitions, eo, ho, s.logs)
	} else {
		var err error
		a.engine, err = shell.New(eo)
		require.NoError(t, err)
		ho.Engine = a.engine
		a.server, err = httpapi.New(ho)
		require.NoError(t, err)
		a.engines = []*shell.Engine{a.engine}
	}
	a.stop = func() {}
	if !s.stopped {
		a.run()
	}
	return a
}

func (a *api) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, len(a.engines))
	for _, e := range a.engines {
		go func() { done <- e.Run(ctx) }()
	}
	a.stop = sync.OnceFunc(func() {
		close(a.hold)
		cancel()
		for range a.engines {
			if err := <-done; !errors.Is(err, store.ErrFenced) { // which a test is about
				assert.NoError(a.t, err)
			}
		}
	})
	a.t.Cleanup(a.stop)
	require.Equal(a.t, http.StatusOK, a.do("GET", "/readyz", nil).status)
}

// wake makes the loop look at the clock: it may just have set a timer for a
// sleep that it reckoned before.
func (a *api) wake() {
	a.t.Helper()
	for _, e := range a.engines {
		_, err := e.Send(a.t.Context(), effects.Ref{Kind: core.KindAction, ID: uuid.New()}, core.ActionTrigger{})
		var refused *shell.Refusal
		require.ErrorAs(a.t, err, &refused)
	}
}

// answer is what came back.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// do sends a request from loopback. A body that is a string goes as it is,
// anything else as JSON; opts change the request before it is sent.
func (a *api) do(method, target string, body any, opts ...func(*http.Request)) answer {
	a.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	case io.Reader:
		r = b
	default:
		j, err := json.Marshal(b)
		require.NoError(a.t, err)
		r = bytes.NewReader(j)
	}
	req := httptest.NewRequestWithContext(a.t.Context(), method, target, r)
	req.Host, req.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, a.header)
	for _, o := range opts {
		o(req)
	}
	rec := httptest.NewRecorder()
	a.handler().ServeHTTP(rec, req)
	if a.router == nil || !ofRouters[rec.Code] {
		checkDescribed(a.t, req, rec.Code)
	}
	return answer{t: a.t, status: rec.Code, header: rec.Header(), body: rec.Body.String()}
}

func with(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(key, value) }
}

func bearer(token string) func(*http.Request) { return with("Authorization", "Bearer "+token) }

// object reads the body as a JSON object.
func (r answer) object() map[string]any {
	r.t.Helper()
	var v map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

// errorText reads the body as an error, which has one field, and of a set what is refused of it.
func (r answer) errorText() string {
	r.t.Helper()
	require.Equal(r.t, "application/json", r.header.Get("Content-Type"), r.body)
	v := r.object()
	if _, ofASet := v["refused"]; ofASet {
		require.Contains(r.t, r.body, `"refused":[{`)
		delete(v, "refused")
	}
	require.Len(r.t, v, 1, r.body)
	text, ok := v["error"].(string)
	require.True(r.t, ok, r.body)
	return text
}

func (r answer) str(field string) string {
	r.t.Helper()
	s, ok := r.object()[field].(string)
	require.True(r.t, ok, "%s in %s", field, r.body)
	return s
}
