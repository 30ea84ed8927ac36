package forward_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/fleet/forward"
	"github.com/orrery-go/orrery/store"
)

// works is who works, as a process that stands by knows it.
type works struct {
	mu      sync.Mutex
	s       fleet.State
	changed chan struct{}
}

func newWorks(address string) *works {
	return &works{s: fleet.State{Owner: "other", Address: address, Token: 1}, changed: make(chan struct{})}
}

func (w *works) State() fleet.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.s
}

func (w *works) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *works) change(how func(*fleet.State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how(&w.s)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *works) set(address string) {
	w.change(func(s *fleet.State) {
		s.Address = address
		s.Token++
	})
}

// forwarder is one without tokens, unless it is changed.
func forwarder(t *testing.T, w forward.Member, change func(*forward.Options)) *forward.Forwarder {
	t.Helper()
	transport := forward.Transport(nil)
	t.Cleanup(transport.CloseIdleConnections)
	o := forward.Options{Member: w, Name: "me", Open: true, Transport: transport}
	if change != nil {
		change(&o)
	}
	f, err := forward.New(o)
	require.NoError(t, err)
	return f
}

// passing is a process that stands by, before those that work.
func passing(t *testing.T, w forward.Member) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(forwarder(t, w, nil))
	t.Cleanup(s.Close)
	return s
}

// gone is an address at which nobody answers, nor can: a connection has its port.
func gone(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return "http://" + c.LocalAddr().String()
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
	assert.Equal(t, "orrery.example", got.Host, "by which a process without tokens knows who is on its machine")
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
	assert.Empty(t, got.Header.Get("X-Forwarded-For"), "the one that works would take it for a proxy's")
}

func TestARequestThatWasPassedOnIsNotPassedOnAgain(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { assert.Fail(t, "passed on") }))
	t.Cleanup(other.Close)
	resp, text := ask(t, "GET", passing(t, newWorks(other.URL)).URL+"/v1/actions", "", map[string]string{"Orrery-Forwarded": "third"})
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Contains(t, text, `"error":"this one stands by, too`)
}

func TestOneThatDoesNotKnowYetThatItWorksIsAskedAgain(t *testing.T) {
	mine := newWorks("")
	front := forward.NewFront(forwarder(t, mine, nil)) // it stands by, too
	var refused sync.Once
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		front.ServeHTTP(w, r)
		refused.Do(func() {
			front.Own(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "works") }))
		})
	}))
	t.Cleanup(next.Close)
	s := passing(t, newWorks(next.URL))
	resp, text := ask(t, "POST", s.URL+"/v1/actions", "{}", nil)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "works", text)
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
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		_, _ = io.WriteString(w, "second")
	}))
	t.Cleanup(second.Close)
	w := newWorks("")
	var died sync.Once
	first := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		note(r)
		died.Do(func() {
			w.set("") // nobody
			go w.set(second.URL)
		})
		panic(http.ErrAbortHandler) // it dies before it has answered
	}))
	t.Cleanup(first.Close)
	w.set(first.URL)
	s := passing(t, w)
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

func TestWhereARequestCameFromIsTakenFromTrustedProxiesAlone(t *testing.T) {
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(other.Close)
	for _, trusted := range []string{"10.0.0.0/8", "127.0.0.0/8"} {
		s := httptest.NewServer(forwarder(t, newWorks(other.URL), func(o *forward.Options) {
			o.Open, o.TrustedProxies = false, []netip.Prefix{netip.MustParsePrefix(trusted)}
		}))
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
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "next") }))
	t.Cleanup(next.Close)
	for _, method := range []string{"GET", "POST"} {
		hang, asked := make(chan struct{}), make(chan struct{})
		frozen := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(asked)
			<-hang
		}))
		w := newWorks(frozen.URL)
		s := passing(t, w)
		go func() {
			<-asked
			w.set(next.URL)
		}()
		_, text := ask(t, method, s.URL+"/v1/actions", "", nil)
		assert.Equal(t, "next", text, method)
		close(hang)
		frozen.Close()
	}
}

func TestAnAttemptGoesOnWhileTheSameOneWorks(t *testing.T) {
	w := newWorks("")
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		for range 100 {
			w.change(func(s *fleet.State) { s.Err = errors.New("the database is away") })
			w.change(func(s *fleet.State) { s.Err = nil })
		}
		_, _ = io.WriteString(rw, "done")
	}))
	t.Cleanup(other.Close)
	w.set(other.URL)
	_, text := ask(t, "POST", passing(t, w).URL+"/v1/actions", "{}", nil)
	assert.Equal(t, "done", text)
	assert.EqualValues(t, 1, asked.Load())
}

func TestAnOwnerThatAnswersNoRequestsIsNobody(t *testing.T) {
	f := forwarder(t, newWorks("copy"), func(o *forward.Options) { o.Wait = time.Nanosecond })
	_, ready := f.Ready()
	assert.False(t, ready)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	resp, text := ask(t, "POST", s.URL+"/v1/actions", "{}", nil)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Contains(t, text, "nothing was done")
}

// Waiting would not help: a person has to look at it.
func TestWhoAsksForWhatIsStoppedIsToldWhyAtOnce(t *testing.T) {
	w := newWorks("")
	w.change(func(s *fleet.State) {
		s.Partition, s.Owner, s.Unusable = 3, "", fmt.Errorf("partition 3: %w: commits 7 to 9 are not there", store.ErrLost)
	})
	f := forwarder(t, w, func(o *forward.Options) { o.Wait = time.Hour })
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	for _, method := range []string{"GET", "POST"} {
		resp, text := ask(t, method, s.URL+"/v1/actions", "{}", nil)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "10", resp.Header.Get("Retry-After"))
		assert.JSONEq(t, `{"error":"nobody can work on the partition until an administrator has looked at why: partition 3 is stopped since its database has lost commits, until somebody accepts that: nothing was done"}`, text)
	}

	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "next") }))
	t.Cleanup(next.Close)
	w.change(func(s *fleet.State) { s.Owner, s.Address = "next", next.URL })
	_, text := ask(t, "POST", s.URL+"/v1/actions", "{}", nil)
	assert.Equal(t, "next", text, "somebody has taken it over before this process has looked")
}

// Whoever asks need not be one that may know why.
func TestOfWhatCannotBeOpenedForAnotherReasonNoneIsTold(t *testing.T) {
	w := newWorks("")
	w.change(func(s *fleet.State) {
		s.Partition, s.Owner, s.Unusable = 3, "", fmt.Errorf("partition 3: %w: record 7 of tenant t", store.ErrCorrupt)
	})
	resp, text := ask(t, "GET", passing(t, w).URL+"/v1/actions", "", nil)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.JSONEq(t, `{"error":"nobody can work on the partition until an administrator has looked at why: partition 3 cannot be opened: nothing was done"}`, text)
}

// The attempt before the partition was stopped may be in the database, though the loss was noted since.
func TestWhatMayHaveBeenCarriedOutBeforeAPartitionWasStoppedIsNotSaidToBeUndone(t *testing.T) {
	for _, row := range []struct {
		method, body string
		status       int
		says         string
	}{
		{"POST", "{}", http.StatusBadGateway, "this may have been carried out"},
		{"GET", "", http.StatusServiceUnavailable, "partition 3 is stopped since its database has lost commits"},
	} {
		w := newWorks("")
		dies := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			w.change(func(s *fleet.State) {
				s.Partition, s.Owner, s.Address, s.Unusable = 3, "", "", fmt.Errorf("partition 3: %w", store.ErrLost)
			})
			panic(http.ErrAbortHandler)
		}))
		t.Cleanup(dies.Close)
		w.set(dies.URL)
		resp, text := ask(t, row.method, passing(t, w).URL+"/v1/actions", row.body, nil)
		assert.Equal(t, row.status, resp.StatusCode, row.method)
		assert.Contains(t, text, row.says, row.method)
	}
}

// A form of the page, say, which is sent once: it has not been sent yet.
func TestWhatCannotBeSentAgainWaitsForWhoWorksNext(t *testing.T) {
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		_, _ = w.Write(all)
	}))
	t.Cleanup(next.Close)
	w := newWorks("")
	s := passing(t, &asked{works: w, first: func() { go w.set(next.URL) }})
	resp, text := ask(t, "POST", s.URL+"/ui/act", "x=1", nil)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "x=1", text)
}

// asked does something once it was asked who works.
type asked struct {
	*works
	once  sync.Once
	first func()
}

func (a *asked) State() fleet.State {
	defer a.once.Do(a.first)
	return a.works.State()
}

func TestTheOneThatWorksIsReachedOverHTTPSWithACertificateThatIsTrusted(t *testing.T) {
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	other.EnableHTTP2 = true // as a server of net/http does by itself
	other.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	other.StartTLS()
	t.Cleanup(other.Close)
	resp, text := ask(t, "GET", passingFor(t, newWorks(other.URL), time.Nanosecond, nil).URL+"/v1/actions", "", nil)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "the system does not know the authority")
	assert.Contains(t, text, "nothing was done")
	pool := x509.NewCertPool()
	pool.AddCert(other.Certificate())
	_, text = ask(t, "GET", passingFor(t, newWorks(other.URL), 0, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}).URL+"/v1/actions", "", nil)
	assert.Equal(t, "HTTP/2.0", text, "many requests go over one connection")
}

func passingFor(t *testing.T, w *works, wait time.Duration, c *tls.Config) *httptest.Server {
	t.Helper()
	transport := forward.Transport(c)
	t.Cleanup(transport.CloseIdleConnections)
	s := httptest.NewServer(forwarder(t, w, func(o *forward.Options) { o.Wait, o.Transport = wait, transport }))
	t.Cleanup(s.Close)
	return s
}

func TestAFrontAnswersItselfWhileItsProcessWorks(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "other") }))
	t.Cleanup(other.Close)
	w := newWorks(other.URL)
	front := forward.NewFront(forwarder(t, w, nil))
	s := httptest.NewServer(front)
	t.Cleanup(s.Close)
	says := func() string {
		_, text := ask(t, "POST", s.URL+"/v1/actions", "{}", nil)
		return text
	}
	assert.Equal(t, "other", says())
	w.change(func(s *fleet.State) { s.Owner, s.Address, s.Token, s.Works = "me", "", 2, true })
	go front.Own(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mine") }))
	assert.Equal(t, "mine", says(), "it waits until the handler is there")
	stop := front.Own(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "again for "+r.Header.Get(forward.Header))
	}))
	_, text := ask(t, "GET", s.URL+"/v1/actions", "", map[string]string{forward.Header: "third"})
	assert.Equal(t, "again for third", text)
	stop()
	go w.set(other.URL)
	go w.change(func(s *fleet.State) { s.Works = false })
	assert.Equal(t, "other", says(), "it waits until the partition is given back")
	stop()
	assert.Equal(t, "other", says())
}

func TestAFrontDoesNotWaitForEver(t *testing.T) {
	w := newWorks("")
	w.change(func(s *fleet.State) { s.Works = true })
	s := httptest.NewServer(forward.NewFront(forwarder(t, w, func(o *forward.Options) { o.Wait = time.Nanosecond })))
	t.Cleanup(s.Close)
	resp, text := ask(t, "POST", s.URL+"/v1/actions", "{}", nil)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Contains(t, text, "begins to work, or ends: nothing was done")
}

// timed is an answer that notes its deadlines.
type timed struct {
	*httptest.ResponseRecorder
	reads, writes []time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error {
	w.reads = append(w.reads, t)
	return nil
}

func (w *timed) SetWriteDeadline(t time.Time) error {
	w.writes = append(w.writes, t)
	return nil
}

func TestAnAnswerMayTakeLongerThanAServerAllows(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "one") }))
	t.Cleanup(other.Close)
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	began := time.Now()
	forwarder(t, newWorks(other.URL), nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/bus/follow", http.NoBody))
	assert.Equal(t, "one", w.Body.String())
	assert.Equal(t, []time.Time{{}}, w.reads, "a request without a body has arrived")
	require.GreaterOrEqual(t, len(w.writes), 2)
	assert.Greater(t, w.writes[0].Sub(began), 20*time.Second, "a reader has time for what is written")
	assert.Greater(t, w.writes[len(w.writes)-1].Sub(began), 5*time.Minute, "what comes after a pause is written, too")
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	w := newWorks("")
	for want, o := range map[string]forward.Options{
		"forward: Member is nil: want the one that tells who works": {Name: "a"},
		"forward: Name is empty: want this process's":               {Member: w},
		"forward: MaxBody is -1: want 0 (1 MiB) or more":            {Member: w, Name: "a", MaxBody: -1},
		"forward: Wait is -1s: want 0 (15 seconds) or more":         {Member: w, Name: "a", Wait: -time.Second},
	} {
		_, err := forward.New(o)
		require.EqualError(t, err, want)
	}
}

// changing is a transport after whose answer another one works.
type changing struct {
	http.RoundTripper
	change func()
}

func (c changing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	c.change()
	return resp, err
}

// What has begun to answer is not broken off: whoever asked would have half of an answer.
func TestAnAnswerIsWholeAlthoughAnotherOneWorksAsItBegins(t *testing.T) {
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "next") }))
	t.Cleanup(next.Close)
	long := strings.Repeat("first ", 100_000)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, long)
	}))
	t.Cleanup(first.Close)
	w := newWorks(first.URL)
	s := httptest.NewServer(forwarder(t, w, func(o *forward.Options) {
		o.Transport = changing{o.Transport, func() { w.set(next.URL) }}
	}))
	t.Cleanup(s.Close)
	for range 100 {
		w.set(first.URL)
		_, text := ask(t, "GET", s.URL+"/v1/actions", "", nil)
		if text != "next" {
			assert.Equal(t, "first "+long, text)
		}
	}
}
