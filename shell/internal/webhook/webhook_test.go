package webhook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/webhook"
)

// server answers requests without a network.
type server func(*http.Request) (*http.Response, error)

func (s server) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// post is a request whose URL holds a secret.
func post(t *testing.T, s server) webhook.Post {
	u, err := url.Parse("https://hooks.example.com:8443/T0P?token=s3cret")
	require.NoError(t, err)
	return webhook.Post{
		Client: &http.Client{Transport: s}, URL: u, Header: webhook.NewHeader(map[string]string{"x-team": "ops", "Host": "inside"}),
		Body: []byte(`{"n":1}`), Timeout: time.Minute, MaxAnswer: 5,
	}
}

func TestAPostIsMadeWithItsHeadersAndCanBeMadeAgain(t *testing.T) {
	p := post(t, func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		assert.JSONEq(t, `{"n":1}`, string(body))
		assert.Equal(t, "POST https://hooks.example.com:8443/T0P?token=s3cret", req.Method+" "+req.URL.String())
		assert.Equal(t, "inside", req.Host)
		assert.Equal(t, "ops", req.Header.Get("X-Team"))
		assert.Equal(t, "application/json", req.Header.Get("Content-Type"))
		assert.Equal(t, "orrery", req.Header.Get("User-Agent"))
		req.Header.Set("X-Team", "changed by a transport")
		return &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{"A": {"b"}}, Body: io.NopCloser(strings.NewReader("thanks a lot"))}, nil
	})
	for range 2 {
		a, err := p.Do(t.Context())
		require.NoError(t, err)
		assert.Equal(t, webhook.Answer{Status: http.StatusAccepted, Header: http.Header{"A": {"b"}}, Body: []byte("thank")}, a)
	}
}

func TestAnErrorOfAPostNamesTheServerAlone(t *testing.T) {
	stop := errors.New("the run has ended")
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	reset := errors.New("connection reset")
	for _, row := range []struct {
		ctx  context.Context
		says string
		is   error
	}{
		{t.Context(), "post to https://hooks.example.com:8443: connection reset", reset},
		{stopped, "post to https://hooks.example.com:8443: the run has ended", stop},
	} {
		_, err := post(t, func(*http.Request) (*http.Response, error) { return nil, reset }).Do(row.ctx)
		require.EqualError(t, err, row.says)
		require.ErrorIs(t, err, row.is)
		a, err := post(t, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(reset))}, nil
		}).Do(row.ctx)
		require.NoError(t, err, "it has answered")
		assert.True(t, a.OK())
		require.EqualError(t, a.Broken, row.says)
	}
}

func TestAPostWaitsForItsAnswerNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := post(t, func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}).Do(t.Context())
		require.EqualError(t, err, "post to https://hooks.example.com:8443: no answer within 1m0s")
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

func TestWhetherAnAnswerIsFinal(t *testing.T) {
	for status, final := range map[int]bool{
		301: true, 302: true, 400: true, 401: true, 404: true, 410: true, 499: true,
		100: false, 408: false, 425: false, 429: false, 500: false, 503: false, 599: false, 600: false,
	} {
		for _, keyed := range []bool{true, false} {
			assert.Equal(t, final, webhook.Answer{Status: status}.Final(keyed), "%d", status)
		}
	}
	assert.True(t, webhook.Answer{Status: http.StatusConflict}.Final(true), "the server knows the key")
	assert.False(t, webhook.Answer{Status: http.StatusConflict}.Final(false))
	for status, ok := range map[int]bool{199: false, 200: true, 204: true, 299: true, 300: false} {
		assert.Equal(t, ok, webhook.Answer{Status: status}.OK(), "%d", status)
	}
}

func TestTheNamesAndValuesThatHeadersCanHave(t *testing.T) {
	require.NoError(t, webhook.CheckHeader("X-Team", "Bearer x\ty"))
	for _, name := range []string{"", "a b", "a:", "ä", "a\n"} {
		require.ErrorContains(t, webhook.CheckHeader(name, ""), "is not the name of a header", "%q", name)
	}
	for _, value := range []string{"a\n", "a\r", "\x00", "\x7f"} {
		require.ErrorContains(t, webhook.CheckHeader("X-Team", value), "a character that no header can have", "%q", value)
	}
}

func TestTheErrorsAboutAURLAndAHeaderShowNoSecret(t *testing.T) {
	for _, bad := range []string{"", "ftp://secret.example", "https://", "http://:80", "secret", "http://a b/secret"} {
		_, err := webhook.ParseURL(bad)
		require.Error(t, err, bad)
		assert.NotContains(t, err.Error(), "secret", bad)
	}
	u, err := webhook.ParseURL("https://example.com/hook?secret")
	require.NoError(t, err)
	assert.Equal(t, "example.com", u.Host)
	assert.NotContains(t, webhook.CheckHeader("X-Team", "secret\n").Error(), "secret")
}
