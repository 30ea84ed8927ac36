package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/store/memory"
)

// kit is the page over a running engine, as a browser on this machine sees it.
type kit struct {
	t      *testing.T
	api    *httpapi.Server
	page   *page.Page
	engine *shell.Engine
	as     string            // the token of the browser; empty: none is configured
	sess   map[string]string // the sessions by token
	// rewrite sends another request in the place of one of write; ok is false if it has not. nil: none is.
	rewrite func(method, path, body string) (w *httptest.ResponseRecorder, ok bool)
}

// terminal takes what is asked of a session, and does nothing.
type terminal struct{}

func (terminal) Carry(context.Context, effects.Ref, effects.Outer) (json.RawMessage, error) {
	return nil, nil
}

func newKit(t *testing.T, tokens ...httpapi.Token) *kit {
	t.Helper()
	return newKitWith(t, func(*httpapi.Options) {}, tokens...)
}

// setClock is a clock that a test sets.
type setClock struct {
	shell.SystemClock
	now time.Time
}

func (c *setClock) Now() time.Time { return c.now }

// newKitWith is newKit with other options of the API.
func newKitWith(t *testing.T, change func(*httpapi.Options), tokens ...httpapi.Token) *kit {
	t.Helper()
	return newKitOn(t, func(*shell.Options) {}, change, tokens...)
}

// newKitOn is newKitWith with other options of the engine, too.
func newKitOn(t *testing.T, changeEngine func(*shell.Options), change func(*httpapi.Options), tokens ...httpapi.Token) *kit {
	t.Helper()
	k := &kit{t: t, sess: make(map[string]string)}
	hold := make(chan struct{}) // a tool that runs delays the engine's end
	st := memory.New()
	t.Cleanup(func() { _ = st.Close() })
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	eo := shell.Options{
		Store: st, Logger: log, Interpreters: map[string]shell.Interpreter{effects.LaneSession: terminal{}},
		Webhooks: map[string]shell.WebhookRoute{"deploys": {Tool: "echo", Namespace: "default", Tenant: "default", Label: "Deploy"}, "other": {Tool: "echo", Namespace: "default", Tenant: "b"}},
		Tools: map[string]shell.Tool{
			"echo": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { return c.Input, nil }),
			"fail": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
				return nil, errors.New("did <b>not</b> work")
			}),
			"hold": shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
				select {
				case <-hold:
					return nil, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}),
		},
	}
	changeEngine(&eo)
	engine, err := shell.New(eo)
	require.NoError(t, err)
	k.engine = engine
	o := httpapi.Options{Engine: engine, Logger: log, Version: "v1.2.3", Tokens: tokens}
	change(&o)
	k.api, err = httpapi.New(o)
	require.NoError(t, err)
	k.page, err = page.New(page.Options{API: k.api, Logger: log, Clock: o.Clock})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- engine.Run(t.Context()) }() // which ends before what is cleaned up
	t.Cleanup(func() {
		close(hold)
		assert.NoError(t, <-done)
	})
	return k
}

// write sends a request of the API that must succeed, and gives the answer.
func (k *kit) write(method, path, body string) map[string]any {
	k.t.Helper()
	r := httptest.NewRequestWithContext(k.t.Context(), method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if k.as != "" {
		r.Header.Set("Authorization", "Bearer "+k.as)
	}
	w, done := httptest.NewRecorder(), false
	if k.rewrite != nil {
		if other, ok := k.rewrite(method, path, body); ok {
			w, done = other, true
		}
	}
	if !done {
		k.api.Handler().ServeHTTP(w, r)
	}
	require.Less(k.t, w.Code, 300, "%s %s: %s", method, path, w.Body)
	var out map[string]any
	if w.Body.Len() > 0 {
		require.NoError(k.t, json.Unmarshal(w.Body.Bytes(), &out))
	}
	return out
}

// make makes something by the API, and gives its id.
func (k *kit) make(path, body string) string {
	k.t.Helper()
	made := k.write("POST", path, body)
	id, _ := made["id"].(string)
	if of, ok := made["recurring_id"].(string); ok {
		id = of
	}
	require.NotEmpty(k.t, id)
	return id
}

// until asks the API until something has a value, such as "phase.type".
func (k *kit) until(path, field, want string) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		var v any = k.write("GET", path, "")
		for name := range strings.SplitSeq(field, ".") {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		return v == want
	}, 20*time.Second, 20*time.Millisecond, "%s of %s never was %q", field, path, want)
}

// send sends a request of a browser, as who signed in with the kit's token.
func (k *kit) send(method, path string, form url.Values) *httptest.ResponseRecorder {
	k.t.Helper()
	r := httptest.NewRequestWithContext(k.t.Context(), method, "/ui"+path, strings.NewReader(form.Encode()))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if k.as != "" {
		if k.sess[k.as] == "" {
			sealed, err := k.api.SignIn(r, k.as)
			require.NoError(k.t, err)
			k.sess[k.as] = sealed
		}
		r.AddCookie(k.session())
	}
	w := httptest.NewRecorder()
	k.page.ServeHTTP(w, r)
	return w
}

// session is the cookie of who signed in with the kit's token.
func (k *kit) session() *http.Cookie {
	k.t.Helper()
	name, err := k.api.SessionName(k.t.Context())
	require.NoError(k.t, err)
	return &http.Cookie{Name: name, Value: k.sess[k.as]}
}

// read gives the HTML of a page that must be there.
func (k *kit) read(path string) string {
	k.t.Helper()
	w := k.send("GET", path, nil)
	require.Equal(k.t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	assertWellFormed(k.t, w.Body.String())
	return w.Body.String()
}

// text gives the words of a page, without its tags.
func (k *kit) text(path string) string { return words(k.read(path)) }

var tags = regexp.MustCompile(`<[^>]*>`)

func words(page string) string {
	_, main, _ := strings.Cut(page, `<main`)
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(main, " "))), " ")
}

var (
	inputs = regexp.MustCompile(`<input[^>]* name="([^"]*)"[^>]* value="([^"]*)"`)
	areas  = regexp.MustCompile(`(?s)<textarea[^>]* name="([^"]*)"[^>]*>\n?(.*?)</textarea>`)
)

// act opens the form of an act, fills it in over what it has, sends it, and gives where it leads to.
func (k *kit) act(form string, fields url.Values) string {
	k.t.Helper()
	w := k.try(form, fields)
	require.Equal(k.t, http.StatusSeeOther, w.Code, "%s: %s", form, words(w.Body.String()))
	to := w.Header().Get("Location")
	require.True(k.t, strings.HasPrefix(to, "/ui/"), to)
	return strings.TrimPrefix(to, "/ui")
}

// try does what act does, and gives the answer.
func (k *kit) try(form string, fields url.Values) *httptest.ResponseRecorder {
	k.t.Helper()
	return k.send("POST", form, k.filled(form, fields))
}

// filled opens a form and fills some of its fields in.
func (k *kit) filled(form string, fields url.Values) url.Values {
	k.t.Helper()
	sent := url.Values{}
	shown := k.read(form)
	for _, m := range areas.FindAllStringSubmatch(shown, -1) {
		sent.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	for _, m := range inputs.FindAllStringSubmatch(shown, -1) {
		if !strings.Contains(m[0], `type="checkbox"`) {
			sent.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
		}
	}
	for name, values := range fields {
		require.True(k.t, strings.Contains(shown, `name="`+name+`"`), "the form %s has no field %s", form, name) //nolint:testifylint // it would print the page
		sent[name] = values
	}
	return sent
}

// assertWellFormed fails if a page has what the policy forbids, or markup that came out of a value.
func assertWellFormed(t *testing.T, page string) {
	t.Helper()
	assert.NotContains(t, page, " style=")
	assert.NotContains(t, page, "<script>")
	assert.NotContains(t, page, "<b>", "markup of a value")
	assert.NotContains(t, page, "%!", "a format is wrong")
	assert.Equal(t, strings.Count(page, "<svg"), strings.Count(page, "</svg>"))
}

// proof is what shows that a form was made for the browser's session.
func (k *kit) proof() string {
	k.t.Helper()
	_, rest, ok := strings.Cut(k.read("/queues"), `name="proof" value="`)
	require.True(k.t, ok)
	proof, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(proof)
}

// untilSpawned waits until the session of a task has been started: it takes no input before.
func (k *kit) untilSpawned(task string) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		got := k.write("GET", "/v1/tasks/"+task, "")
		asked, _ := got["asked"].(map[string]any)
		open, _ := asked["open"].([]any)
		return got["spawned"] == true && len(open) == 0
	}, 20*time.Second, 20*time.Millisecond)
}
