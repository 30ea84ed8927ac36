package httpapi_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestWhatAnswersInTheAPIsPlaceHasItsBounds(t *testing.T) {
	b := httpapi.NewBounds(1, slog.New(slog.DiscardHandler))
	s := b.HTTPServer("", http.NotFoundHandler())
	api := start(t, setup{}).server.HTTPServer("")
	assert.Equal(t, []any{api.ReadHeaderTimeout, api.ReadTimeout, api.WriteTimeout, api.IdleTimeout, api.MaxHeaderBytes},
		[]any{s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.MaxHeaderBytes})

	asked, answer := make(chan struct{}), make(chan struct{})
	s = b.HTTPServer("", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, "done")
	}))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(b.Listener(l)) }()
	dial := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	closed := func(c net.Conn) {
		t.Helper()
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
	}
	idle := dial()
	works := dial()
	_, err = io.WriteString(works, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	closed(idle) // it makes room for the second one
	<-asked
	closed(dial()) // while the second one is worked on there is none
	close(answer)
	resp, err := http.ReadResponse(bufio.NewReader(works), nil)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "done", string(text))
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
}
