package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/jobs"
)

// kubeconfig is a file with a context for each namespace.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: first}}
- {name: two, context: {cluster: c, user: u, namespace: second}}
current-context: one
`, server)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTheContextOfAKubeconfigGivesServerNamespaceAndCredentials(t *testing.T) {
	for _, row := range []struct{ context, namespace, want string }{
		{"", "", "first"}, {"two", "", "second"}, {"two", "other", "other"},
	} {
		var asked atomic.Pointer[http.Request]
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if asked.Store(q); noJobs(w, q) {
				return
			}
			w.WriteHeader(http.StatusForbidden)
		}))
		r, err := New(Options{Kubeconfig: kubeconfig(t, server.URL), Context: row.context, Namespace: row.namespace, Instance: "mine"})
		require.NoError(t, err)
		calls, err := r.Create(t.Context(), run(attempt))
		assert.True(t, shell.IsPermanent(err), "%v", err)
		assert.Equal(t, 2, calls, "what is there already is asked for: no watch tells")
		assert.Equal(t, "/apis/batch/v1/namespaces/"+row.want+"/jobs", asked.Load().URL.Path)
		assert.Equal(t, "Bearer secret", asked.Load().Header.Get("Authorization"))
		assert.True(t, strings.HasPrefix(asked.Load().Header.Get("User-Agent"), "orrery/mine ("))
		assert.Equal(t, "application/vnd.kubernetes.protobuf", asked.Load().Header.Get("Content-Type"))
		assert.Equal(t, "application/vnd.kubernetes.protobuf,application/json", asked.Load().Header.Get("Accept"))
		assert.Nil(t, r.client.(*clients).batch.GetRateLimiter(), "the limit is the runner's alone")
		server.Close()
	}
	_, err := New(Options{Kubeconfig: kubeconfig(t, "http://localhost"), Context: "three"})
	require.ErrorContains(t, err, "three")
}

func TestACertificateThatCannotBeReadIsAnErrorAtOnce(t *testing.T) {
	path := kubeconfig(t, "https://localhost")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte("insecure-skip-tls-verify: true"), []byte("certificate-authority-data: Tm90aGluZw=="), 1), 0o600))
	_, err = New(Options{Kubeconfig: path})
	require.ErrorContains(t, err, "kube: ")
	require.ErrorContains(t, err, "certificates")
}

// noJobs answers what lists Jobs.
func noJobs(w http.ResponseWriter, q *http.Request) bool {
	lists := q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/jobs")
	if lists {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"batch/v1","kind":"JobList","items":[]}`)
	}
	return lists
}

func TestEachCallIsCountedOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if noJobs(w, q) {
			return
		}
		if q.Method == http.MethodPost {
			status(w, 409, "AlreadyExists", "it is there already")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"}}`)
	}))
	defer server.Close()
	r, err := New(Options{Kubeconfig: kubeconfig(t, server.URL)})
	require.NoError(t, err)
	calls, err := r.Create(t.Context(), run(attempt))
	require.ErrorContains(t, err, "not of instance")
	assert.Equal(t, 3, calls)
}

func TestCallsThatTheClientRepeatsByItselfAreCounted(t *testing.T) {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	r, err := New(Options{Kubeconfig: kubeconfig(t, server.URL)})
	require.NoError(t, err)
	calls, err := r.Create(t.Context(), run(attempt))
	require.Error(t, err)
	assert.Equal(t, int(n.Load()), calls)
	assert.GreaterOrEqual(t, calls, 2)
}

// logAPI is an API of which pods and their logs alone can be had.
type logAPI struct {
	client *Runner
	said   *locked.Buffer // by the client

	mu      sync.Mutex
	asks    []string // query strings of logs
	logs    func(w http.ResponseWriter, container string, ask int)
	now     string // the pod's spec and status, in JSON
	version int
	news    chan struct{} // closed when it changed
}

func newLogAPI(t *testing.T, pod string, logs func(w http.ResponseWriter, container string, ask int)) *logAPI {
	t.Helper()
	l := &logAPI{said: &locked.Buffer{}, logs: logs, now: pod, version: 1, news: make(chan struct{})}
	server := httptest.NewServer(l)
	r, err := New(Options{Kubeconfig: kubeconfig(t, server.URL), Namespace: "jobs", Logger: slog.New(slog.NewTextHandler(l.said, nil))})
	require.NoError(t, err)
	l.client = r
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Watch(ctx, &sinkOf{}) }()
	t.Cleanup(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		server.CloseClientConnections()
		server.Close()
	})
	return l
}

func (l *logAPI) podJSON() string {
	name, version := attempt.Name(), fmt.Sprint(l.version)
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s-x","namespace":"jobs","uid":"u","resourceVersion":"%s","labels":{"orrery.dev/instance":"orrery","orrery.dev/run":"%s","orrery.dev/attempt":"0"}},%s}`,
		name, version, runUUID, l.now)
}

// become changes the pod.
func (l *logAPI) become(pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = pod
	l.version++
	close(l.news)
	l.news = make(chan struct{})
}

func (l *logAPI) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	watching := q.URL.Query().Get("watch") != ""
	initial := q.URL.Query().Get("sendInitialEvents") == "true"
	pods := strings.HasSuffix(q.URL.Path, "/pods")
	switch {
	case strings.HasSuffix(q.URL.Path, "/log"):
		l.mu.Lock()
		l.asks = append(l.asks, q.URL.RawQuery)
		n := len(l.asks)
		l.mu.Unlock()
		l.logs(w, q.URL.Query().Get("container"), n)
	case watching && initial: // as a server of old
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`)
	case watching:
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		for seen := q.URL.Query().Get("resourceVersion"); ; {
			l.mu.Lock()
			news, version, pod := l.news, fmt.Sprint(l.version), l.podJSON()
			l.mu.Unlock()
			if pods && seen != version {
				seen = version
				fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", pod)
				w.(http.Flusher).Flush()
			}
			select {
			case <-news:
			case <-q.Context().Done():
				return
			}
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		kind, items := "JobList", ""
		version, seen := "batch/v1", 1
		if pods {
			l.mu.Lock()
			kind, version, items = "PodList", "v1", l.podJSON()
			seen = l.version
			l.mu.Unlock()
		}
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[%s]}`, kind, version, seen, items)
	}
}

func (l *logAPI) read(t *testing.T, o jobs.LogOptions) (string, int, error) {
	t.Helper()
	var out strings.Builder
	calls, err := l.client.Logs(t.Context(), attempt, o, &out)
	return out.String(), calls, err
}

const (
	onePodEnded = `"spec":{"containers":[{"name":"main"}]},"status":{"phase":"Failed","containerStatuses":[{"name":"main","state":{"terminated":{"exitCode":3}}}]}`
	onePodRuns  = `"spec":{"containers":[{"name":"main"}]},"status":{"phase":"Running","containerStatuses":[{"name":"main","state":{"running":{}}}]}`
	onePodWaits = `"spec":{"containers":[{"name":"main"}]},"status":{"phase":"Pending","containerStatuses":[{"name":"main","state":{"waiting":{"reason":"ContainerCreating"}}}]}`
	threeEnded  = `"spec":{"initContainers":[{"name":"setup"}],"containers":[{"name":"b"},{"name":"a"},{"name":"never"}]},"status":{"phase":"Failed",
		"initContainerStatuses":[{"name":"setup","state":{"terminated":{"exitCode":0}}}],
		"containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0}}},{"name":"b","state":{"terminated":{"exitCode":1}}},{"name":"never","state":{"waiting":{"reason":"ContainerCreating"}}}]}`
)

func status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, message)
}

func TestTheLogsOfAPodThatHasEndedCostOneCall(t *testing.T) {
	l := newLogAPI(t, onePodEnded, func(w http.ResponseWriter, _ string, _ int) { fmt.Fprint(w, "one\ntwo") })
	text, calls, err := l.read(t, jobs.LogOptions{})
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo", text, "as it was written")
	assert.Equal(t, 1, calls)
	assert.Equal(t, []string{"container=main"}, l.asks)
	assert.NotContains(t, l.said.String(), "cannot watch", "an older server is asked for a list")
}

func TestTheLogsOfAllContainersComeInTheOrderOfTheSpec(t *testing.T) {
	l := newLogAPI(t, threeEnded, func(w http.ResponseWriter, c string, _ int) { fmt.Fprintf(w, "of %s\n", c) })
	text, calls, err := l.read(t, jobs.LogOptions{})
	require.NoError(t, err)
	assert.Equal(t, "==> setup <==\nof setup\n==> b <==\nof b\n==> a <==\nof a\n", text, "one that never started has none")
	assert.Equal(t, 3, calls)
	text, calls, err = l.read(t, jobs.LogOptions{Container: "a"})
	require.NoError(t, err)
	assert.Equal(t, "of a\n", text)
	assert.Equal(t, 1, calls)
	_, _, err = l.read(t, jobs.LogOptions{Container: "nope"})
	require.ErrorContains(t, err, `no container "nope"`)
	assert.True(t, shell.IsPermanent(err))
}

// readsAtThird checks that a log is read whole by three calls, of which the first two
// are answered as given.
func readsAtThird(t *testing.T, text string, first, second func(w http.ResponseWriter)) {
	t.Helper()
	l := newLogAPI(t, onePodEnded, func(w http.ResponseWriter, _ string, ask int) {
		switch ask {
		case 1:
			first(w)
		case 2:
			second(w)
		default:
			fmt.Fprint(w, text)
		}
	})
	got, calls, err := l.read(t, jobs.LogOptions{})
	require.NoError(t, err)
	assert.Equal(t, text, got)
	assert.Equal(t, 3, calls)
}

func TestLogsThatBreakOffAreTakenUpWhereTheyWere(t *testing.T) {
	readsAtThird(t, "one\ntwo\nthree\n", func(w http.ResponseWriter) {
		status(w, 500, "InternalError", "dial tcp 10.0.0.1:10250: i/o timeout")
	}, func(w http.ResponseWriter) {
		fmt.Fprint(w, "one\ntw")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
}

func TestThereIsNoLogWithoutAPod(t *testing.T) {
	l := newLogAPI(t, onePodEnded, func(w http.ResponseWriter, _ string, _ int) { status(w, 404, "NotFound", `pods "x" not found`) })
	_, _, err := l.read(t, jobs.LogOptions{})
	require.ErrorIs(t, err, jobs.ErrNoPod)
	_, err = l.client.Logs(t.Context(), jobs.Attempt{Run: runUUID, N: 7}, jobs.LogOptions{Follow: true}, io.Discard)
	require.ErrorIs(t, err, jobs.ErrNoPod)
}

func TestAContainerThatHasNotStartedHasNoLog(t *testing.T) {
	l := newLogAPI(t, onePodRuns, func(w http.ResponseWriter, _ string, _ int) {
		status(w, 400, "BadRequest", `container "main" in pod "x" is waiting to start: ContainerCreating`)
	})
	text, _, err := l.read(t, jobs.LogOptions{})
	require.NoError(t, err)
	assert.Empty(t, text)
}

func TestARefusedLogIsAPermanentError(t *testing.T) {
	l := newLogAPI(t, onePodEnded, func(w http.ResponseWriter, _ string, _ int) { status(w, 403, "Forbidden", "pods/log is forbidden") })
	_, calls, err := l.read(t, jobs.LogOptions{})
	require.ErrorContains(t, err, "forbidden")
	assert.True(t, shell.IsPermanent(err))
	assert.Equal(t, 1, calls)
}

func TestFollowingWaitsForTheStartAndEndsWithTheContainer(t *testing.T) {
	wrote, goOn := make(chan struct{}), make(chan struct{})
	l := newLogAPI(t, onePodWaits, func(w http.ResponseWriter, _ string, ask int) {
		fmt.Fprint(w, "one\n")
		w.(http.Flusher).Flush()
		if ask == 1 {
			close(wrote)
			<-goOn // and the stream ends before the last line
			return
		}
		fmt.Fprint(w, "two\n")
	})
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, _, err := l.read(t, jobs.LogOptions{Follow: true})
		done <- answer{text, err}
	}()
	held := func() bool { h, err := l.client.Held(t.Context()); return err == nil && len(h) == 1 }
	require.Eventually(t, held, time.Minute, 10*time.Millisecond)
	l.become(onePodRuns)
	<-wrote
	l.become(onePodEnded)
	close(goOn)
	got := <-done
	require.NoError(t, got.err)
	assert.Equal(t, "one\ntwo\n", got.text)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.asks {
		assert.Contains(t, q, "follow=true")
	}
}

func TestSeveralContainersAreFollowedAtOnceByLines(t *testing.T) {
	met := make(chan struct{})
	l := newLogAPI(t, threeEnded, func(w http.ResponseWriter, c string, _ int) {
		if c == "b" {
			<-met // another is read meanwhile
		}
		for range 100 {
			fmt.Fprintf(w, "%s %s\n", c, strings.Repeat("x", 50))
		}
		fmt.Fprint(w, c) // not a whole line
		if c == "a" {
			close(met)
		}
	})
	text, calls, err := l.read(t, jobs.LogOptions{Follow: true})
	require.NoError(t, err)
	assert.Equal(t, 3, calls)
	counts := map[string]int{}
	of := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "==> "); ok {
			of = strings.TrimSuffix(name, " <==\n")
			continue
		}
		assert.True(t, strings.HasPrefix(line, of), "%q is not of %s", line, of)
		counts[strings.TrimRight(line, "\n")]++
	}
	want := map[string]int{}
	for _, c := range []string{"setup", "a", "b"} {
		want[c+" "+strings.Repeat("x", 50)], want[c] = 100, 1
	}
	assert.Equal(t, want, counts)
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAnErrorOfTheReaderEndsIt(t *testing.T) {
	for _, pod := range []string{onePodEnded, threeEnded} {
		l := newLogAPI(t, pod, func(w http.ResponseWriter, _ string, _ int) { fmt.Fprint(w, "one\n") })
		_, err := l.client.Logs(t.Context(), attempt, jobs.LogOptions{Follow: true}, brokenPipe{})
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
}
