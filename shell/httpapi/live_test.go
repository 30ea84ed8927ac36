package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/internal/locked"
)

// heard is what a browser gets from the stream of changes.
type heard struct {
	locked.Buffer
	header http.Header
}

func (h *heard) Header() http.Header { return h.header }
func (*heard) WriteHeader(int)       {}
func (*heard) Flush()                {}

func (h *heard) count(event string) int {
	return strings.Count(h.String(), "event: "+event+"\ndata: 1\n\n")
}

// listen opens streams of changes, which end with the test.
func listen(t *testing.T, a *api, n int) []*heard {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); all.Wait() })
	streams := make([]*heard, n)
	for i := range streams {
		streams[i] = &heard{header: http.Header{}}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/live", nil)
		v, err := a.server.Visitor(r, "")
		require.NoError(t, err)
		all.Go(func() { assert.NoError(t, a.server.StreamChanges(streams[i], r, v)) })
	}
	synctest.Wait()
	return streams
}

// listenAs opens a stream of changes for the holder of a token; ended is closed when the stream ends.
func listenAs(t *testing.T, a *api, token string) (s *heard, ended chan struct{}) {
	t.Helper()
	s, ended = &heard{header: http.Header{}}, make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	r, v := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/live", nil), a.visitor(token)
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		assert.NoError(t, a.server.StreamChanges(s, r, v))
	}()
	synctest.Wait()
	return s, ended
}

func (a *api) changeSomething() {
	a.t.Helper()
	_, err := a.engine.Actions().Create(a.t.Context(), core.ActionSpec{Namespace: "ns", Tenant: "t1", ToolName: "echo"})
	require.NoError(a.t, err)
	synctest.Wait()
}

func TestAStreamOfChangesSaysThatItLivesAndTellsOfAChangeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		s := listen(t, a, 1)[0]
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Zero(t, s.count("changed"))
		assert.Equal(t, 4, s.count("alive"))

		a.changeSomething()
		assert.Equal(t, 1, s.count("changed"), "at once")
		a.changeSomething()
		assert.Equal(t, 1, s.count("changed"), "not twice within a second")
		<-time.After(time.Second)
		synctest.Wait()
		assert.Equal(t, 2, s.count("changed"))
	})
}

func TestTheMorePagesAreOpenTheLessOftenEachIsToldOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		const pages, seconds = 200, 60
		streams := listen(t, a, pages)
		for range seconds {
			a.changeSomething()
			<-time.After(time.Second)
		}
		told := 0
		for i, s := range streams {
			assert.GreaterOrEqual(t, s.count("changed"), seconds/6-1, "stream %d: at least each 6 seconds", i)
			told += s.count("changed")
		}
		assert.InDelta(t, 50, float64(told)/seconds, 10, "told in a second, in all")
	})
}

func TestAStreamOfChangesTellsTheHolderOfABoundTokenOfWhatTheTokenSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(tenant string) httpapi.Token {
			return httpapi.Token{Name: tenant, SHA256: httpapi.HashToken(tenant + "-secret"), Namespaces: []string{"ns"}, Tenants: []string{tenant}}
		}
		a := start(t, setup{api: func(o *httpapi.Options) { o.Tokens = []httpapi.Token{of("t1"), of("t2")} }})
		own, _ := listenAs(t, a, "t1-secret")
		other, _ := listenAs(t, a, "t2-secret")
		a.changeSomething() // of t1
		<-time.After(5 * time.Second)
		assert.Positive(t, own.count("changed"))
		assert.Zero(t, other.count("changed"), "another tenant's")
	})
}

func TestAStreamOfChangesEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{{Name: "short", SHA256: httpapi.HashToken("short-secret"), Expires: time.Now().Add(20 * time.Second)}}
		}})
		s, ended := listenAs(t, a, "short-secret")
		<-time.After(29 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, s.count("alive"))
		<-time.After(2 * time.Second)
		synctest.Wait()
		select {
		case <-ended:
		default:
			assert.Fail(t, "the stream goes on after its token has ended")
		}
		assert.Equal(t, 1, s.count("alive"))
	})
}

func TestARequestOfAVisitorWhoseTokenHasEndedMeanwhileIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{{Name: "short", SHA256: httpapi.HashToken("short-secret"), Expires: time.Now().Add(20 * time.Second)}}
		}})
		r, v := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/actions", nil), a.visitor("short-secret")
		r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
		status := func() int {
			w := httptest.NewRecorder()
			a.server.Serve(w, r, v)
			return w.Code
		}
		assert.Equal(t, http.StatusOK, status())
		<-time.After(20 * time.Second)
		assert.Equal(t, http.StatusUnauthorized, status())
	})
}
