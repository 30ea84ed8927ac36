package daemon

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// works is who works, as a standby knows it.
type works struct {
	mu      sync.Mutex
	o       owner
	changed chan struct{}
}

func newWorks(address string) *works {
	return &works{o: owner{"other", address}, changed: make(chan struct{})}
}

func (w *works) current() (owner, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.o, w.changed
}

func (w *works) set(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.o.address = address
	close(w.changed)
	w.changed = make(chan struct{})
}

// passing is a daemon that stands by, before those that work.
func passing(t *testing.T, w *works) *httptest.Server {
	t.Helper()
	f := &forwarder{name: "me", most: 1 << 20, owner: w.current, open: true, log: slog.New(slog.DiscardHandler)}
	s := httptest.NewServer(f.start())
	t.Cleanup(s.Close)
	return s
}

// gone is an address at which nobody answers.
func gone(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return "http://" + l.Addr().String()
}

func ask(t *testing.T, method, url, body string, header map[string]string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	if v := header["Host"]; v != "" {
		r.Host = v
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp, string(text)
}

func TestARequestIsPassedOnAsItCame(t *testing.T) {
	var got *http.Request
	var body string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		got, body = r, string(all)
		w.Header().Set("Location", "/v1/actions/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "made")
	}))
	t.Cleanup(other.Close)
	s := passing(t, newWorks(other.URL))
	resp, text := ask(t, "POST", s.URL+"/v1/actions?a=%2F;b", `{"x":1}`, map[string]string{
		"Authorization": "Bearer x", "X-Forwarded-For": "10.0.0.9", "Forwarded": "for=10.0.0.9", "X-Forwarded-Proto": "https", "Host": "orrery.example", "If-Match": `"1"`,
	})
	assert.Equal(t, http.StatusCreated, resp.StatusCode)
	assert.Equal(t, "made", text)
	assert.Equal(t, "/v1/actions/1", resp.Header.Get("Location"))
	assert.Equal(t, "/v1/actions?a=%2F;b", got.RequestURI)
	assert.Equal(t, `{"x":1}`, body)
	assert.Equal(t, "orrery.example", got.Host, "by which a daemon without tokens knows who is on its machine")
	for name, want := range map[string]string{
		"Authorization": "Bearer x", "X-Forwarded-For": "10.0.0.9", "Forwarded": "for=10.0.0.9", "X-Forwarded-Proto": "https", "If-Match": `"1"`, "Orrery-Forwarded": "me",
	} {
		assert.Equal(t, []string{want}, got.Header[name], "%s: whoever works decides by it", name)
	}
	assert.Regexp(t, `^forwarded-[0-9a-f-]{36}$`, got.Header.Get("Idempotency-Key"))
	ask(t, "POST", s.URL+"/v1/actions", `{}`, map[string]string{"Idempotency-Key": "mine"})
	assert.Equal(t, "mine", got.Header.Get("Idempotency-Key"))
	for _, unkeyed := range []string{"GET /v1/actions", "POST /v1/webhooks/std", "POST /ui/actions"} {
		method, path, _ := strings.Cut(unkeyed, " ")
		ask(t, method, s.URL+path, "", nil)
		assert.Empty(t, got.Header.Get("Idempotency-Key"), unkeyed)
	}
	ask(t, "GET", s.URL+"/v1/actions", "", nil)
	assert.Empty(t, got.Header.Get("X-Forwarded-For"), "who works would take it for a proxy's")
}

func TestARequestThatWasPassedOnIsNotPassedOnAgain(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { assert.Fail(t, "passed on") }))
	t.Cleanup(other.Close)
	resp, text := ask(t, "GET", passing(t, newWorks(other.URL)).URL+"/v1/actions", "", map[string]string{"Orrery-Forwarded": "third"})
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Contains(t, text, `"error":"this daemon stands by, too`)
}

func TestARequestWaitsForWhoWorksNextAndIsSentAgainWithItsKey(t *testing.T) {
	var mu sync.Mutex
	var keys, bodies []string
	note := func(r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(all))
	}
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		panic(http.ErrAbortHandler) // it dies before it has answered
	}))
	t.Cleanup(first.Close)
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		_, _ = io.WriteString(w, "second")
	}))
	t.Cleanup(second.Close)
	w := newWorks(first.URL)
	s := passing(t, w)
	go func() {
		<-time.After(100 * time.Millisecond)
		w.set("") // nobody
		<-time.After(50 * time.Millisecond)
		w.set(second.URL)
	}()
	resp, text := ask(t, "POST", s.URL+"/v1/actions", `{"x":1}`, nil)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "second", text)
	mu.Lock()
	defer mu.Unlock()
	assert.GreaterOrEqual(t, len(keys), 2)
	for i := range keys {
		assert.Equal(t, keys[0], keys[i], "the key is the same in each attempt")
		assert.Equal(t, `{"x":1}`, bodies[i])
	}
}

func TestWhatCannotBeSentAgainIsAnsweredWithWhatIsKnown(t *testing.T) {
	dies := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(dies.Close)
	resp, text := ask(t, "POST", passing(t, newWorks(dies.URL)).URL+"/v1/webhooks/std", `{}`, nil)
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Contains(t, text, "this may have been carried out")
	resp, text = ask(t, "POST", passing(t, newWorks(gone(t))).URL+"/v1/webhooks/std", `{}`, nil)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Contains(t, text, "nothing was done")
}

func TestAStreamIsPassedOnAsItComes(t *testing.T) {
	more := make(chan struct{})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		<-more
	}))
	t.Cleanup(other.Close)
	resp, err := http.Get(passing(t, newWorks(other.URL)).URL + "/v1/events")
	require.NoError(t, err)
	line := make([]byte, 4)
	_, err = io.ReadFull(resp.Body, line)
	require.NoError(t, err)
	assert.Equal(t, "one\n", string(line))
	close(more)
	require.NoError(t, resp.Body.Close())
}

func TestAConnectionThatNobodyHasAcceptedWaitsForTheNextTurn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := newGate(l)
	first := g.turn()
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second time does nothing")
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = first.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	second := g.turn()
	in, err := second.Accept()
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.NoError(t, c.Close())
	require.NoError(t, g.Close())
	_, err = second.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestWhereARequestCameFromIsTakenFromTrustedProxiesAlone(t *testing.T) {
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(other.Close)
	for _, trusted := range []string{"10.0.0.0/8", "127.0.0.0/8"} {
		f := &forwarder{name: "me", most: 1 << 20, owner: newWorks(other.URL).current, proxies: []netip.Prefix{netip.MustParsePrefix(trusted)}, log: slog.New(slog.DiscardHandler)}
		s := httptest.NewServer(f.start())
		t.Cleanup(s.Close)
		ask(t, "GET", s.URL+"/v1/actions", "", map[string]string{"X-Forwarded-For": "10.9.9.9", "X-Real-Ip": "10.9.9.9", "X-Forwarded-Prefix": "/x", "Forwarded": "for=10.9.9.9"})
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "X-Forwarded-Prefix", "Forwarded"} {
			assert.Equal(t, trusted == "127.0.0.0/8", got.Get(name) != "", "%s, where %s is trusted", name, trusted)
		}
	}
}

func TestWithoutTokensWhatAProxySpeaksIsRefused(t *testing.T) {
	s := passing(t, newWorks(gone(t)))
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(c, "GET /v1/actions HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
	require.NoError(t, err)
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Contains(t, string(text), "403 Forbidden")
	assert.Contains(t, string(text), "configure a token")
	require.NoError(t, c.Close())
}

func TestAnAttemptAtOneThatWorksNoMoreIsGivenUp(t *testing.T) {
	hang := make(chan struct{})
	frozen := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(frozen.Close)
	t.Cleanup(func() { close(hang) })
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "next") }))
	t.Cleanup(next.Close)
	w := newWorks(frozen.URL)
	s := passing(t, w)
	go func() {
		<-time.After(100 * time.Millisecond)
		w.set(next.URL)
	}()
	for _, method := range []string{"GET", "POST"} {
		_, text := ask(t, method, s.URL+"/v1/actions", "", nil)
		assert.Equal(t, "next", text, method)
	}
}
