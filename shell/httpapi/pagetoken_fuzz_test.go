package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/boundtest"
)

// Whatever is sent as a page token: the list takes the one that it has given out, and
// answers every other one with 400.
func FuzzPageToken(f *testing.F) {
	h := fuzzedAPI(f)
	ask := func(t testing.TB, method, query, body string) *httptest.ResponseRecorder {
		t.Helper()
		req := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:7460/v1/actions?"+query, strings.NewReader(body))
		req.RemoteAddr = "127.0.0.1:50000"
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	for range 2 {
		require.Equal(f, http.StatusCreated, ask(f, http.MethodPost, "", `{"tool_name":"echo"}`).Code)
	}
	var page struct {
		Next string `json:"next_page_token"`
	}
	first := ask(f, http.MethodGet, "limit=1", "")
	require.NoError(f, json.Unmarshal(first.Body.Bytes(), &page), first.Body)
	require.NotEmpty(f, page.Next)
	f.Add("", uint16(0), uint8(0))
	f.Add("p1.AAAA", uint16(0), uint8(0))
	f.Add("p1."+strings.Repeat("A", 70), uint16(5), uint8(1))
	f.Add("p1.", uint16(40), uint8(0x20))
	f.Add("p2.%%\n\x00\xff", uint16(65535), uint8(255))
	f.Fuzz(func(t *testing.T, token string, at uint16, flip uint8) {
		defer boundtest.Within(t, len(token))()
		changed := []byte(page.Next)
		changed[int(at)%len(changed)] ^= flip
		for _, token := range []string{token, string(changed), page.Next + token} {
			want := http.StatusBadRequest
			if token == "" || sealedIn(token) == sealedIn(page.Next) {
				want = http.StatusOK
			}
			w := ask(t, http.MethodGet, "limit=1&page_token="+url.QueryEscape(token), "")
			assert.Equal(t, want, w.Code, "%q: %s", token, w.Body)
		}
		w := ask(t, http.MethodGet, "tenant=t&page_token="+url.QueryEscape(page.Next), "")
		assert.Equal(t, http.StatusBadRequest, w.Code, "with other filters: %s", w.Body)
	})
}

// sealedIn gives what a page token holds, which several texts may write; of what is none, all.
func sealedIn(token string) string {
	text, ok := strings.CutPrefix(token, "p1.")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || strings.ContainsAny(text, "\r\n") { // which the decoder passes over, and no query may have
		return "none: " + token
	}
	return string(b)
}
