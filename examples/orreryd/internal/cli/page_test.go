//go:build unix

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pageApart starts a daemon whose page has an address of its own, and gives the addresses of both without their paths.
func pageApart(t *testing.T, toml string) (p *process, api, page string) {
	t.Helper()
	c := write(t, "orrery.toml", "[page]\nlisten = '127.0.0.1:0'\n"+toml)
	p = begin(t, nil, "orchestrate", "--listen", "127.0.0.1:0", "--db", database(t), "--config", c)
	_, api, ok := strings.Cut(await(t, p.out, "is ready"), "is ready at ")
	require.True(t, ok)
	said := regexp.MustCompile(`^The page is at (https?://[0-9.:]+)/ui/$`).FindStringSubmatch(await(t, p.out, "page"))
	require.NotNil(t, said)
	require.NotEqual(t, api, said[1])
	return p, api, said[1]
}

// browse sends a request as a browser does, and follows nothing.
func browse(t *testing.T, client *http.Client, method, url string, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if change != nil {
		change(r)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got, err := client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = got.Body.Close() })
	return got
}

func TestThePageWithAnAddressOfItsOwnIsServedThereAlone(t *testing.T) {
	t.Parallel()
	p, api, page := pageApart(t, "")
	ready := await(t, p.errs, "msg=ready")
	assert.Contains(t, ready, "listen="+api)
	assert.Contains(t, ready, "page="+page+"/ui/")
	client := &http.Client{Timeout: patience}
	for url, status := range map[string]int{
		page + "/ui/": 200, page + "/": 303, page + "/healthz": 200, page + "/readyz": 200, page + "/v1/info": 404, page + "/metrics": 404,
		api + "/v1/info": 200, api + "/healthz": 200, api + "/": 404, api + "/ui/": 404,
	} {
		assert.Equal(t, status, browse(t, client, "GET", url, nil).StatusCode, url)
	}
	assert.Equal(t, "/ui/", browse(t, client, "GET", page+"/", nil).Header.Get("Location"))
	body, err := io.ReadAll(browse(t, client, "GET", page+"/v1/info", nil).Body)
	require.NoError(t, err)
	assert.Contains(t, string(body), "this address has the page alone")
	assert.Contains(t, cli(t, nil, "", "actions", "list", "--server", page).err, "is --server right?")
}

func TestAProxyMayLeaveTheBasePathOrTakeItOff(t *testing.T) {
	t.Parallel()
	c := write(t, "orrery.toml", "[page]\nbase_path = '/orrery'\n")
	p := start(t, "--db", database(t), "--config", c)
	p.ok("lock", "acquire", "deploy/prod", "--holder", "ann")
	client := &http.Client{Timeout: patience}
	for path, status := range map[string]int{
		"/ui/": 200, "/orrery/ui/": 200, "/ui/locks/deploy%2Fprod?namespace=default&tenant=default": 200, "/orrery/ui/locks/deploy%2Fprod?namespace=default&tenant=default": 200,
		"/": 303, "/orrery": 303, "/orrery/": 303, "/orrery/v1/info": 404, "/orrery/uix": 404, "/v1/info": 200,
	} {
		got := browse(t, client, "GET", p.url+path, nil)
		assert.Equal(t, status, got.StatusCode, path)
		if status == 303 {
			assert.Equal(t, "/orrery/ui/", got.Header.Get("Location"), path)
		}
		if strings.HasSuffix(path, "/ui/") {
			body, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			assert.Contains(t, string(body), `href="/orrery/ui/schedules"`)
			assert.NotContains(t, string(body), `href="/ui/`)
		}
	}
}

func TestThePageWithAnAddressOfItsOwnServesWithoutTokensABrowserOfThisMachineAlone(t *testing.T) {
	t.Parallel()
	_, _, page := pageApart(t, "")
	client := &http.Client{Timeout: patience}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, row := range map[string]struct {
		method, path string
		change       func(*http.Request)
	}{
		"another name (rebinding)":          {"GET", "/ui/", func(r *http.Request) { r.Host = "evil.example" }},
		"another name, of the probes":       {"GET", "/readyz", func(r *http.Request) { r.Host = "evil.example" }},
		"through a proxy":                   {"GET", "/ui/", header("X-Forwarded-For", "192.0.2.1")},
		"through a proxy, as RFC 7239":      {"GET", "/ui/", header("Forwarded", "for=192.0.2.1")},
		"a script of another site":          {"GET", "/ui/", header("Sec-Fetch-Site", "cross-site")},
		"a form of another site":            {"POST", "/ui/zone", header("Origin", "https://evil.example")},
		"a form of another server here":     {"POST", "/ui/zone", header("Sec-Fetch-Site", "same-site")},
		"a form that the page did not make": {"POST", "/ui/zone", nil},
		"the stream, for another site":      {"GET", "/ui/live", header("Sec-Fetch-Site", "same-site")},
	} {
		assert.Equal(t, http.StatusForbidden, browse(t, client, row.method, page+row.path, row.change).StatusCode, name)
	}
}

func TestThePageWithAnAddressOfItsOwnIsEncryptedAsTheAPIIs(t *testing.T) {
	t.Parallel()
	known := httptest.NewTLSServer(nil)
	t.Cleanup(known.Close)
	pair := known.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}

	_, api, page := pageApart(t, "[http.tls]\ncert = '"+dir+"/cert.pem'\nkey = '"+dir+"/key.pem'\n[[tokens]]\nname = 'ops'\nadmin = true\ntoken = 'a-token-of-the-tests'\n")

	require.True(t, strings.HasPrefix(api, "https://"), api)
	require.True(t, strings.HasPrefix(page, "https://"), page)
	client := known.Client()
	assert.Equal(t, 200, browse(t, client, "GET", api+"/healthz", nil).StatusCode)
	r := browse(t, client, "GET", page+"/ui/sign-in", nil)
	assert.Equal(t, 200, r.StatusCode)
	assert.GreaterOrEqual(t, r.TLS.Version, uint16(tls.VersionTLS12))
	signed := browse(t, client, "POST", page+"/ui/sign-in", func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader("token=a-token-of-the-tests"))
	})
	require.Len(t, signed.Cookies(), 1)
	assert.True(t, signed.Cookies()[0].Secure)
}

func TestAStopEndsThePagesThatAreOpenAndBothAddresses(t *testing.T) {
	t.Parallel()
	p, api, page := pageApart(t, "")
	live := browse(t, &http.Client{}, "GET", page+"/ui/live", nil)
	require.Equal(t, 200, live.StatusCode)
	require.Equal(t, "text/event-stream", live.Header.Get("Content-Type"))

	p.signal(syscall.SIGTERM)

	assert.Zero(t, p.code())
	_, err := io.ReadAll(live.Body)
	require.NoError(t, err, "the stream ends as an answer does")
	for _, url := range []string{api + "/healthz", page + "/healthz"} {
		r, err := http.NewRequestWithContext(context.Background(), "GET", url, nil)
		require.NoError(t, err)
		got, err := http.DefaultClient.Do(r)
		if assert.Error(t, err, url) {
			continue
		}
		_ = got.Body.Close()
	}
}

func TestAnAddressOfThePageThatCannotBeServedIsRefusedByName(t *testing.T) {
	t.Parallel()
	first := start(t, "--db", database(t))
	taken := strings.TrimPrefix(first.url, "http://")
	for name, row := range map[string]struct {
		toml, want string
		code       int
	}{
		"the address is taken":  {"[page]\nlisten = '" + taken + "'", "page.listen: listen on " + taken + ": the address is in use: choose another one for the page", exitFailed},
		"others could reach it": {"[page]\nlisten = '0.0.0.0:0'", `page.listen: listen address "0.0.0.0:0" is 0.0.0.0, not loopback: without a token`, exitUsage},
		"it is no address":      {"[page]\nlisten = '7461'", `page.listen: "7461" is not an address`, exitUsage},
		"it is that of the API": {"listen = '127.0.0.1:7499'\n[page]\nlisten = '127.0.0.1:7499'", `page.listen: "127.0.0.1:7499" is the address of the HTTP API`, exitUsage},
		"its port is none":      {"listen = '127.0.0.1:0'\n[page]\nlisten = 'localhost:99999'", `page.listen: "localhost:99999": the port "99999"`, exitUsage},
		"it is no text":         {"[page]\nlisten = 5", "page.listen: got a TOML integer, want a TOML string", exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t)
			args := []string{"orchestrate", "--db", db, "--config", write(t, "orrery.toml", row.toml)}
			if !strings.HasPrefix(row.toml, "listen") {
				args = append(args, "--listen", "127.0.0.1:0")
			}
			r := cli(t, nil, "", args...)
			assert.Equal(t, row.code, r.code)
			assert.Contains(t, r.err, row.want)
			assert.NoFileExists(t, db, "nothing is begun")
		})
	}
	c := write(t, "orrery.toml", "[page]\nenabled = false\nlisten = '0.0.0.0:0'\n")
	p := start(t, "--db", database(t), "--config", c)
	ready := await(t, p.errs, "msg=ready")
	assert.Contains(t, ready, `page=""`, "a page that is not served has no address")
}
