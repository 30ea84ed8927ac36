package browsertest_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// guide gives the only block of code in a language that docs/page.md shows: what it tells its readers to do is what is tested.
func guide(t *testing.T, lang string) string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(repository, "docs", "page.md"))
	require.NoError(t, err)
	blocks := strings.Split(string(doc), "\n```"+lang+"\n")
	require.Len(t, blocks, 2, "blocks of %s in docs/page.md", lang)
	block, _, ended := strings.Cut(blocks[1], "\n```\n")
	require.True(t, ended)
	return block
}

// proxy is nginx before a daemon, as docs/page.md shows it, and once more without TLS.
type proxy struct {
	*orreryd
	plain, encrypted string // its addresses
}

// startProxy starts a daemon and nginx.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	browser(t)
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx" // not on the PATH of most users
	}
	if _, err := os.Stat(nginx); err != nil {
		missing(t, "no nginx: install Debian's package nginx-light")
	}
	p := &proxy{orreryd: startOrreryd(t, guide(t, "toml"))}
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	at := [2]string{freeAddress(t), freeAddress(t)}
	p.plain, p.encrypted = "http://"+at[0], "https://"+at[1]

	change := func(old, new string) func(string) string {
		return func(s string) string {
			require.Contains(t, s, old, "docs/page.md")
			return strings.Replace(s, old, new, 1)
		}
	}
	server := change("http://127.0.0.1:7460", p.url)(guide(t, "nginx"))
	without := change("listen 443 ssl;", "listen "+at[0]+";")(server)
	for _, line := range []string{"    ssl_certificate     /etc/ssl/example.com.pem;\n", "    ssl_certificate_key /etc/ssl/example.com.key;\n"} {
		without = change(line, "")(without)
	}
	with := change("listen 443 ssl;", "listen "+at[1]+" ssl;")(server)
	with = change("/etc/ssl/example.com.pem", cert)(change("/etc/ssl/example.com.key", key)(with))
	p.run(nginx, dir, without+"\n"+with)
	return p
}

// run starts nginx with some servers and with what it has by itself: it buffers answers, and speaks HTTP/1.0 to what is behind it.
func (p *proxy) run(nginx, dir, servers string) {
	t := p.t
	t.Helper()
	conf := "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log error.log;\nevents {}\nhttp {\naccess_log access.log;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += kind + "_temp_path " + kind + ";\n"
	}
	file := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(conf+servers+"}\n"), 0o600))
	cmd := exec.CommandContext(context.Background(), nginx, "-p", dir, "-c", file, "-e", filepath.Join(dir, "error.log"))
	says := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = says, says
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx: %s%s", says, log)
		}
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.encrypted, "https://"))
		if err != nil {
			return false
		}
		return c.Close() == nil
	}, patience, 10*time.Millisecond, "nginx does not listen")
}

// freeAddress gives one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// certificate writes one for 127.0.0.1 that nobody has signed, and its key.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return cert, key
}

// signedIn opens a tab at an address of the proxy, and signs in.
func (p *proxy) signedIn(at, path string) *tab {
	p.t.Helper()
	b := newTab(p.t, &daemon{url: at})
	b.open(path)
	require.Equal(p.t, "Sign in", b.text("h1"))
	b.signIn(adminSecret)
	return b
}

func TestBehindNginxAChangeAppearsInTenTabsAlsoAfterTheDaemonWasKilled(t *testing.T) {
	p := startProxy(t)
	p.named("first")
	first := p.signedIn(p.plain, "/orrery/")
	require.Equal(t, "/orrery/ui/", first.path())
	tabs := []*tab{first}
	for len(tabs) < 10 {
		tabs = append(tabs, first.another())
	}
	for _, b := range tabs {
		b.alwaysSeen()
		b.open("/orrery/ui/actions")
	}
	first.settled()

	p.named("second")
	made := time.Now()
	for i, b := range tabs {
		b.eventually(shows("second"), promised-time.Since(made), fmt.Sprintf("the change in tab %d", i))
		assert.Empty(t, b.complained())
	}

	p.kill()
	for i, b := range tabs {
		b.eventually(`document.querySelector("#live-state").textContent !== ""`, 2*promised, fmt.Sprintf("that the server is gone, in tab %d", i))
	}
	p.start()
	p.named("third")
	made = time.Now()
	for i, b := range tabs {
		b.eventually(shows("third"), 2*promised-time.Since(made), fmt.Sprintf("the change behind the start in tab %d", i))
		b.eventually(`document.querySelector("#live-state").textContent === ""`, 2*promised, "that the page is up to date")
	}
}

func TestBehindNginxEachLinkStandsBelowThePrefix(t *testing.T) {
	p := startProxy(t)
	p.make("POST", "/v1/locks/deploy%2Fprod/acquire"+inDefault, `{"holder":"ann"}`, "")
	p.make("PUT", "/v1/jobs/report"+inDefault, `{"name":"Report","pod_spec":{"containers":[{"name":"main","command":["echo","all done"]}]}}`, "")
	run := p.make("POST", "/v1/jobs/report/trigger"+inDefault, "{}", "run")
	p.until("/v1/runs/"+run, `"completed"`)
	b := p.signedIn(p.plain, "/orrery/ui/")

	const links = `[...document.querySelectorAll("a[href], link[href], script[src], form[action]")].map((n) => n.getAttribute("href") ?? n.getAttribute("src") ?? n.getAttribute("action"))`
	paths := js[[]string](b, `[...document.querySelectorAll(".nav a")].map((a) => a.getAttribute("href"))`)
	require.Greater(t, len(paths), 10)
	for _, path := range append(paths, "/orrery/ui/schedules/new", "/orrery/ui/runs/"+run) {
		require.Equal(t, http.StatusOK, b.open(path), path)
		for _, link := range js[[]string](b, links) {
			assert.True(t, strings.HasPrefix(link, "/orrery/ui/") || strings.HasPrefix(link, "#") || strings.HasPrefix(link, "?"), "%s on %s", link, path)
		}
		assert.Empty(t, b.complained(), path)
	}

	b.open("/orrery/ui/locks")
	b.follow("deploy/prod")
	assert.Contains(t, b.text("h1"), "deploy/prod")
	b.follow("Break")
	b.follow("Break")
	assert.Contains(t, b.path(), "/orrery/ui/locks", "where an act leads to")
	b.open("/orrery/ui/runs/" + run + "/logs")
	got := js[[]string](b, `fetch(document.querySelector("a[href*=download]").href).then(async (r) => [String(r.status), r.headers.get("Content-Disposition"), await r.text()])`)
	require.Len(t, got, 3)
	assert.Equal(t, "200", got[0])
	assert.Contains(t, got[1], "attachment; filename=run-"+run)
	assert.Contains(t, got[2], "all done")

	all := cookiesAt(b, "/orrery/ui/")
	require.Len(t, all, 1)
	assert.Equal(t, "/orrery/ui/", all[0].Path)
	assert.False(t, all[0].Secure, "between the browser and the proxy nothing is encrypted")
	b.open("/orrery/ui/")
	b.do(chromedp.Click(chromedp.CSS(".me summary")))
	b.follow("Sign out")
	assert.Equal(t, "/orrery/ui/sign-in", b.path())
	assert.Empty(t, cookiesAt(b, "/orrery/ui/"))
}

// cookiesAt gives what a tab sends to an address.
func cookiesAt(b *tab, path string) []*network.Cookie {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Call(ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{b.base + path}})
	require.NoError(b.t, err)
	return got.Cookies
}

func TestBehindNginxThatEncryptsASessionIsSecureAndThePageIsLive(t *testing.T) {
	p := startProxy(t)
	p.named("first")
	b := p.signedIn(p.encrypted, "/orrery/ui/actions?tool=command")
	b.alwaysSeen()
	require.Equal(t, "/orrery/ui/actions?tool=command", b.path())

	all := cookiesAt(b, "/orrery/ui/")
	require.Len(t, all, 1)
	assert.True(t, all[0].Secure)
	assert.True(t, all[0].HTTPOnly)
	assert.Equal(t, "/orrery/ui/", all[0].Path)
	b.settled()
	p.named("second")
	b.eventually(shows("second"), promised, "the change")
	b.follow("New action")
	b.fill("[name=tool_name]", "command")
	b.fill("[name=label]", "third")
	b.fill("[name=tool_input]", `{"argv":["true"]}`)
	b.follow("New action")
	assert.Contains(t, b.text("[data-done]"), "The action was created.")
	assert.Empty(t, b.complained())
}

func TestBehindNginxAFormIsOfThisSiteByTheAddressOfTheBrowser(t *testing.T) {
	p := startProxy(t)
	send := func(origin string) int {
		form := url.Values{"token": {adminSecret}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.plain+"/orrery/ui/sign-in", strings.NewReader(form.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin) // which tells alone where a browser has no Sec-Fetch-Site: without TLS, away from loopback
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		got, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		return got.StatusCode
	}
	assert.Equal(t, http.StatusSeeOther, send(p.plain))
	assert.Equal(t, http.StatusForbidden, send("http://evil.example"))
	assert.Equal(t, http.StatusForbidden, send(p.url), "the address behind the proxy is another one")
}
