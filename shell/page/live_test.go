package page_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onLoopback serves the page on a loopback address.
func (k *kit) onLoopback() (url string, client *http.Client) {
	k.t.Helper()
	s := httptest.NewServer(k.page)
	k.t.Cleanup(s.Close)
	client = s.Client()
	client.Timeout = 30 * time.Second
	return s.URL, client
}

func (k *kit) request(client *http.Client, method, url string) *http.Response {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), method, url, nil)
	require.NoError(k.t, err)
	got, err := client.Do(r)
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = got.Body.Close() })
	return got
}

// loadedAnew is after how long page.js loads a page anew of which nothing was told.
const loadedAnew = 2 * time.Minute

func TestTheBenchmarkOfOpenPagesLoadsThemAnewAsTheirScriptDoes(t *testing.T) {
	script, err := os.ReadFile("static/page.js")
	require.NoError(t, err)
	assert.Contains(t, string(script), fmt.Sprintf("const loadedAnew = %d,", loadedAnew.Milliseconds()))
}

func TestTheHeadOfTheStreamOfChangesIsThatOfTheStreamAndEndsAtOnce(t *testing.T) {
	k := newKit(t)
	url, client := k.onLoopback()

	for range 3 { // on one connection, which a stream that went on would hold
		head := k.request(client, "HEAD", url+"/ui/live")
		assert.Equal(t, http.StatusOK, head.StatusCode)
		assert.Equal(t, "text/event-stream", head.Header.Get("Content-Type"))
		assert.Equal(t, "no", head.Header.Get("X-Accel-Buffering"))
	}

	stream := k.request(client, "GET", url+"/ui/live")
	assert.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))
	line, err := bufio.NewReader(stream.Body).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "retry: 2000\n", line)
}
