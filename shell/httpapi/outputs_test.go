package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// speaker is a tool that writes what is sent to it, and returns once that is closed.
type speaker chan string

func (s speaker) Run(ctx context.Context, call shell.Call) (json.RawMessage, error) {
	out := call.Output()
	for {
		select {
		case text, more := <-s:
			if !more {
				return nil, nil
			}
			if _, err := io.WriteString(out, text); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// withSpeaker starts an API with an action whose tool writes what is sent to it. It gives the path
// of its output.
func withSpeaker(t *testing.T, s speaker, change ...func(*httpapi.Options)) (a *api, path string) {
	t.Helper()
	a = start(t, setup{engine: func(o *shell.Options) {
		o.Tools["speak"] = s
		o.OutputBytes = 64
	}, api: func(o *httpapi.Options) {
		for _, c := range change {
			c(o)
		}
	}})
	made := a.do("POST", "/v1/actions", `{"tool_name":"speak"}`, bearer("a"))
	require.Equal(t, http.StatusCreated, made.status, made.body)
	synctest.Wait()
	return a, "/v1/actions/" + made.str("id") + "/logs"
}

func TestTheOutputOfAnActionThatIsFollowedComesAsItIsWrittenAndEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(speaker)
		a, path := withSpeaker(t, s)
		begin := time.Now()
		_, r := ask(t, serve(t, a), path+"?follow=true", "")
		go func() {
			for range 3 { // for longer than any time limit of the server
				<-time.After(10 * time.Minute)
				s <- "line \x1b[31m\xff\n"
			}
			close(s)
		}()
		res := answered(t, r)
		assert.Equal(t, 15*time.Second, time.Since(begin), "the reader is told that it is heard")
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Equal(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"))
		body := bufio.NewReader(res.Body)
		for i := range 3 {
			text, err := body.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, "line \x1b[31m\xff\n", text)
			assert.Equal(t, time.Duration(i+1)*10*time.Minute, time.Since(begin))
		}
		rest, err := io.ReadAll(body)
		require.NoError(t, err, "a regular end")
		assert.Empty(t, rest)
	})
}

func TestTheOutputOfAnActionSaysWhatIsMissingAndWhereItIsReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(speaker)
		a, path := withSpeaker(t, s)
		assert.Equal(t, `{"error":"logs: action `+strings.Split(path, "/")[3]+`, which is running, has no output: it has written nothing yet"}`, strings.TrimSpace(a.do("GET", path, nil).body))
		s <- strings.Repeat("0123456\n", 20)
		synctest.Wait()
		got := a.do("GET", path, nil)
		assert.Equal(t, http.StatusOK, got.status)
		assert.Equal(t, strings.Repeat("0123456\n", 4)+"… 104 bytes dropped …\n"+strings.Repeat("0123456\n", 3), got.body)
		assert.Equal(t, []string{"1", "160", "96"}, []string{got.header.Get("X-Orrery-Attempt"), got.header.Get("X-Orrery-Logs-Bytes"), got.header.Get("X-Orrery-Logs-Dropped-Bytes")})
		s <- "the end\n"
		close(s)
		synctest.Wait()
		assert.Equal(t, "the end\n", a.do("GET", path+"?attempt=1&offset=160", nil).body)
		for query, want := range map[string]string{
			"?attempt=0":            `400 attempt: "0" is not the number of an attempt: the first is 1`,
			"?attempt=x":            `400 attempt: "x" is not the number of an attempt: the first is 1`,
			"?attempt=2":            `404 logs: action ID, which is completed, has no output of attempt 2: there is no attempt 2: the latest is 1`,
			"?attempt=1&offset=-1":  `400 offset: "-1" is no number of bytes from 0 to 9223372036854775807`,
			"?offset=5":             `400 offset: 5 is in the output of one attempt: give attempt too`,
			"?follow=perhaps":       `400 follow: "perhaps" is neither true nor false`,
			"?container=main":       `400 query: "container" is unknown: use namespace, tenant, attempt, offset, follow`,
			"?attempt=1&offset=999": `200 `,
			"?offset=0":             `200 `,
		} {
			got := a.do("GET", path+query, nil)
			text := ""
			if got.status != http.StatusOK {
				text = strings.ReplaceAll(got.object()["error"].(string), strings.Split(path, "/")[3], "ID")
			}
			assert.Equal(t, want, fmt.Sprintf("%d %s", got.status, text), query)
		}
	})
}

func TestLogsThatWereReadMakeRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(speaker)
		a, path := withSpeaker(t, s)
		s <- "said\n"
		close(s)
		synctest.Wait()
		made := a.do("POST", "/v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"one","run":{"tool":"speak"}}]}}`)
		require.Equal(t, http.StatusCreated, made.status, made.body)
		synctest.Wait()
		for range 300 { // more than may be read at once
			require.Equal(t, http.StatusOK, a.do("GET", path, nil).status)
			require.Equal(t, http.StatusNotFound, a.do("GET", "/v1/pipelines/"+made.str("id")+"/logs", nil).status)
		}
		for _, of := range []string{path, "/v1/pipelines/" + made.str("id") + "/logs"} {
			got := a.do("HEAD", of, nil)
			assert.Equal(t, http.StatusOK, got.status)
			assert.Equal(t, "text/plain; charset=utf-8", got.header.Get("Content-Type"))
			assert.Empty(t, got.body)
			assert.Empty(t, got.header.Get("X-Orrery-Attempt"), "nothing is read")
		}
	})
}

func TestWhoFollowsAnActionThatEndsWithoutAWordIsAnsweredRegularly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(speaker)
		a, path := withSpeaker(t, s)
		_, r := ask(t, serve(t, a), path+"?follow=true", "")
		res := answered(t, r)
		close(s)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		assert.Empty(t, text)
	})
}

func TestTheOutputOfAnActionIsForWhoSeesTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(speaker)
		a, path := withSpeaker(t, s, func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{
				{Name: "a", SHA256: httpapi.HashToken("a"), Tenants: []string{"a"}},
				{Name: "b", SHA256: httpapi.HashToken("b"), Tenants: []string{"b"}},
				{Name: "other", SHA256: httpapi.HashToken("other"), Tenants: []string{"a"}, Tools: []string{"http"}},
			}
		})
		s <- "said\n"
		synctest.Wait()
		assert.Equal(t, "said\n", a.do("GET", path, nil, bearer("a")).body)
		for _, token := range []string{"b", "other"} {
			got := a.do("GET", path, nil, bearer(token))
			assert.Equal(t, http.StatusNotFound, got.status)
			assert.NotContains(t, got.body, "said")
		}
		assert.Equal(t, http.StatusUnauthorized, a.do("GET", path, nil, bearer("nobody")).status)
	})
}

func TestTheOutputOfAPipelineIsFollowedOverItsPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(speaker)
		a, _ := withSpeaker(t, s)
		close(s)
		synctest.Wait()
		made := a.do("POST", "/v1/pipelines", `{"definition":{"name":"p","phases":[
			{"name":"one","run":{"tool":"echo","input":1}},{"name":"two","run":{"tool":"hold","input":2}}]}}`)
		require.Equal(t, http.StatusCreated, made.status, made.body)
		path := "/v1/pipelines/" + made.str("id") + "/logs"
		got := a.do("GET", path, nil)
		assert.Equal(t, http.StatusNotFound, got.status)
		assert.Equal(t, "logs: pipeline "+made.str("id")+", which is running, has no output: none of its actions has written anything", got.object()["error"])
		got = a.do("GET", path+"?phase=three", nil)
		assert.Equal(t, http.StatusBadRequest, got.status)
		assert.Equal(t, `phase "three" does not exist: use one of one, two`, got.object()["error"])
		_, r := ask(t, serve(t, a), path+"?follow=true", "")
		res := answered(t, r)
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/pipelines/"+made.str("id")+"/cancel", nil).status)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err, "a regular end, with the pipeline")
		assert.Empty(t, text)
	})
}

func TestTheOutputOfAPipelineLeavesOutActionsThatTheTokenDoesNotSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(speaker)
		a := start(t, setup{engine: func(o *shell.Options) { o.Tools["speak"] = s }, api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{
				{Name: "a", SHA256: httpapi.HashToken("a"), Tenants: []string{"a"}},
				{Name: "other", SHA256: httpapi.HashToken("other"), Tenants: []string{"a"}, Tools: []string{"echo"}},
			}
		}})
		made := a.do("POST", "/v1/pipelines", `{"tenant":"a","definition":{"name":"p","phases":[{"name":"one","run":{"tool":"speak"}}]}}`, bearer("a"))
		require.Equal(t, http.StatusCreated, made.status, made.body)
		s <- "said\n"
		synctest.Wait()
		path := "/v1/pipelines/" + made.str("id") + "/logs"
		assert.Equal(t, "==> one <==\nsaid\n", a.do("GET", path, nil, bearer("a")).body)
		got := a.do("GET", path, nil, bearer("other"))
		assert.Equal(t, http.StatusNotFound, got.status)
		assert.NotContains(t, got.body, "said")
	})
}

func TestAReadOnlyTokenFromWhichResultsAreHiddenDoesNotReadWhatActionsWrite(t *testing.T) {
	for path, want := range map[string]int{"result.stdout": http.StatusForbidden, "status.result": http.StatusForbidden, "tool_input.key": http.StatusOK} {
		synctest.Test(t, func(t *testing.T) {
			s := make(speaker)
			a, logs := withSpeaker(t, s, func(o *httpapi.Options) {
				o.Redact.Paths = []string{path}
				o.Tokens = []httpapi.Token{{Name: "a", SHA256: httpapi.HashToken("a")}, {Name: "viewer", SHA256: httpapi.HashToken("v"), ReadOnly: true}}
			})
			s <- "said\n"
			synctest.Wait()
			got := a.do("GET", logs, nil, bearer("v"))
			assert.Equal(t, want, got.status, path)
			if want != http.StatusOK {
				assert.Equal(t, "logs: what actions write is hidden from read-only tokens here, as their results are ("+path+")", got.object()["error"])
			}
			assert.Equal(t, http.StatusOK, a.do("GET", logs, nil, bearer("a")).status)

			made := a.do("POST", "/v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"one","run":{"tool":"speak"}}]}}`, bearer("a"))
			require.Equal(t, http.StatusCreated, made.status, made.body)
			refused := a.do("GET", "/v1/pipelines/"+made.str("id")+"/logs", nil, bearer("v")).status == http.StatusForbidden
			assert.Equal(t, want == http.StatusForbidden, refused, "of a pipeline, %s", path)
		})
	}
}
