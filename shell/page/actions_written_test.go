package page_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
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

func speaking(t *testing.T) (*kit, speaker) {
	t.Helper()
	s := make(speaker)
	return newKitOn(t, func(o *shell.Options) { o.Tools["speak"] = s }, func(*httpapi.Options) {}), s
}

// source gives a page as it is sent.
func (k *kit) source(path string) string {
	k.t.Helper()
	w := k.send("GET", path, nil)
	require.Equal(k.t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

var reloads = regexp.MustCompile(`data-every="(\d+)"`)

func TestThePageOfAnActionShowsWhatItWritesWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := speaking(t)
		id := k.make("/v1/actions", `{"tool_name":"speak"}`)
		synctest.Wait()
		assert.NotContains(t, k.source("/actions/"+id), "Written")
		s <- "first <b>line</b>\n\x1b[31mred\x1b[0m\n"
		synctest.Wait()
		shown := k.source("/actions/" + id)
		assert.Contains(t, shown, "Written")
		assert.Contains(t, shown, "first &lt;b&gt;line&lt;/b&gt;")
		assert.NotContains(t, shown, "\x1b")
		assert.NotNil(t, reloads.FindStringSubmatch(shown), "it is read again while it runs")
		for range 250 {
			s <- "more\n"
		}
		close(s)
		k.until("/v1/actions/"+id, "status.type", "completed")
		shown = k.source("/actions/" + id)
		assert.Contains(t, shown, "From line 53 on.")
		assert.NotContains(t, shown, "first &lt;b&gt;")
		assert.Nil(t, reloads.FindStringSubmatch(shown), "nothing more comes")
		file := k.send("GET", link(t, shown, "Download all"), nil)
		assert.Equal(t, http.StatusOK, file.Code)
		assert.Equal(t, `attachment; filename=action-`+id+`.log`, file.Header().Get("Content-Disposition"))
		assert.Contains(t, file.Body.String(), "first <b>line</b>\n")
		assert.Equal(t, http.StatusNotFound, k.send("GET", "/actions/"+uuid.NewString()+"/logs/download", nil).Code)
	})
}

func TestThePageOfAnActionLeadsToTheOutputOfItsOtherAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKitOn(t, func(o *shell.Options) {
			o.Tools["tries"] = shell.ToolFunc(func(_ context.Context, call shell.Call) (json.RawMessage, error) {
				_, _ = io.WriteString(call.Output(), map[uint32]string{1: "said once\n", 2: "said twice\n"}[call.Attempt])
				return nil, map[uint32]error{1: io.ErrUnexpectedEOF}[call.Attempt]
			})
		}, func(*httpapi.Options) {})
		id := k.make("/v1/actions", `{"tool_name":"tries","policy":{"on_failure":"retry","max_attempts":3}}`)
		k.until("/v1/actions/"+id, "status.type", "completed")
		shown := k.source("/actions/" + id)
		assert.Contains(t, shown, "Written in attempt 2")
		assert.Contains(t, shown, "said twice")
		first := k.source(link(t, shown, "Attempt 1"))
		assert.Contains(t, first, "said once")
		assert.Contains(t, first, "Attempt 2")
		assert.Contains(t, first, "attempt=1")
		third := k.source("/actions/" + id + "?attempt=3")
		assert.Contains(t, third, "there is no attempt 3: the latest is 2")
	})
}

func TestThePageOfThePipelineLeadsToWhatItsPhasesWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := speaking(t)
		id := k.make("/v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"one","run":{"tool":"speak"}},{"name":"two","manual":{}}]}}`)
		synctest.Wait()
		path := link(t, k.source("/pipelines/"+id), "Output")
		assert.Contains(t, k.source(path), "none of its actions has written anything")
		s <- "said\n"
		synctest.Wait()
		shown := k.source(path)
		assert.Contains(t, shown, "==&gt; one &lt;==\nsaid")
		require.NotNil(t, reloads.FindStringSubmatch(shown))
		assert.Contains(t, k.source(path+"?phase=two"), "none of its actions has written anything")
		assert.Contains(t, k.source(path+"?phase=three"), "does not exist: use one of one, two")
		close(s)
	})
}
