package httpapi_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestAConnectionUnderTLSThatIsAtWorkDoesNotGiveWay(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) { o.MaxConnections = 1 }})
	srv := httptest.NewUnstartedServer(nil)
	srv.Config, srv.Listener = a.server.HTTPServer("ignored"), a.server.Listener(srv.Listener)
	srv.StartTLS()
	defer srv.Close()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}}
	address := srv.Listener.Addr().String()
	working, err := dialer.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer working.Close()
	_, err = io.WriteString(working, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(working)
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	_, err = dialer.DialContext(t.Context(), "tcp", address)
	require.Error(t, err, "there is no place")
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	require.NoError(t, err, "the first one goes on")
	assert.Equal(t, ": events from now on\n", line)
	assert.Contains(t, a.do("GET", "/metrics", nil).body, `orrery_http_connections_closed_total{reason="idle"} 0`)
}
