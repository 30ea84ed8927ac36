package page_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
)

// token makes a token of that name; its text is the name with "-secret".
func token(name string, change func(*httpapi.Token)) httpapi.Token {
	t := httpapi.Token{Name: name, SHA256: httpapi.HashToken(name + "-secret")}
	if change != nil {
		change(&t)
	}
	return t
}

func admin(name string) httpapi.Token {
	return token(name, func(t *httpapi.Token) { t.Admin = true })
}

// ask sends a request to a page as it is.
func ask(t *testing.T, p http.Handler, method, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(""))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// signIn signs in with the form, and gives the answer.
func (k *kit) signIn(secret, to string) *httptest.ResponseRecorder {
	form := url.Values{"token": {secret}, "to": {to}}
	return ask(k.t, k.page, "POST", "/ui/sign-in", func(r *http.Request) {
		*r = *httptest.NewRequestWithContext(k.t.Context(), "POST", "/ui/sign-in", strings.NewReader(form.Encode()))
		r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
}

func TestWhoHasNoSessionSignsInAndComesBackToThePageThatWasAskedFor(t *testing.T) {
	k := newKit(t, admin("ops"))
	w := ask(t, k.page, "GET", "/ui/actions?status=failed", nil)
	require.Equal(t, http.StatusSeeOther, w.Code)
	to := w.Header().Get("Location")
	assert.Equal(t, "/ui/sign-in?to=%2Factions%3Fstatus%3Dfailed", to)
	assert.Contains(t, ask(t, k.page, "GET", to, nil).Body.String(), `value="/actions?status=failed"`)

	w = k.signIn("ops-secret", "/actions?status=failed")
	require.Equal(t, http.StatusSeeOther, w.Code)
	assert.Equal(t, "/ui/actions?status=failed", w.Header().Get("Location"))
	c := w.Result().Cookies()[0]
	assert.True(t, c.HttpOnly)
	assert.Equal(t, http.SameSiteLaxMode, c.SameSite)
	assert.Equal(t, "/ui/", c.Path)
	assert.NotContains(t, c.Value, "secret")
	w = ask(t, k.page, "GET", "/ui/", func(r *http.Request) { r.AddCookie(c) })
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "<summary>ops</summary>")
}

func TestAWrongTokenIsRefusedAndSlowedDown(t *testing.T) {
	k := newKit(t, admin("ops"))
	w := k.signIn("guess", "/")
	assert.Equal(t, http.StatusUnauthorized, w.Code)
	assert.Contains(t, w.Body.String(), "This token is unknown, or has expired.")
	assert.Empty(t, w.Result().Cookies())
	for range 40 {
		w = k.signIn("guess", "/")
	}
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Equal(t, http.StatusSeeOther, k.signIn("ops-secret", "/").Code, "a right one is never slowed down")
}

func TestATokenForMetricsAloneSignsNobodyIn(t *testing.T) {
	k := newKit(t, token("prometheus", func(t *httpapi.Token) { t.Metrics = true }))
	w := k.signIn("prometheus-secret", "/")
	assert.Equal(t, http.StatusForbidden, w.Code)
	assert.Contains(t, w.Body.String(), "may read /metrics and nothing else")
}

func TestSigningInLeadsNowhereButToThePage(t *testing.T) {
	k := newKit(t, admin("ops"))
	for _, to := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "javascript:alert(1)", "\t//evil.example", "evil", "", "http:evil", "/\n/evil.example",
		"/../v1/info", "/actions/%2e%2E/../other", "/%2e./other", "/./x", "///evil.example/", "//evil.example@/x"} {
		assert.Equal(t, "/ui/", k.signIn("ops-secret", to).Header().Get("Location"), "%q", to)
	}
}

func TestSigningOutTakesTheSessionOutOfTheBrowser(t *testing.T) {
	k := newKit(t, admin("ops"))
	k.as = "ops-secret"
	w := k.send("POST", "/sign-out", url.Values{"proof": {k.proof()}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	assert.Equal(t, "/ui/sign-in", w.Header().Get("Location"))
	require.Len(t, w.Result().Cookies(), 1)
	c := w.Result().Cookies()[0]
	assert.Equal(t, k.session().Name, c.Name)
	assert.Empty(t, c.Value)
	assert.Negative(t, c.MaxAge)
	assert.Equal(t, "/ui/", c.Path, "with another path it would be another cookie")
}

func TestAnotherSiteSignsNobodyIn(t *testing.T) {
	k := newKit(t, admin("ops"))
	form := url.Values{"token": {"ops-secret"}}
	w := ask(t, k.page, "POST", "/ui/sign-in", func(r *http.Request) {
		*r = *httptest.NewRequestWithContext(t.Context(), "POST", "/ui/sign-in", strings.NewReader(form.Encode()))
		r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	assert.Equal(t, http.StatusForbidden, w.Code, "who is signed in as somebody else types secrets into that one's account")
	assert.Empty(t, w.Result().Cookies())
}

func TestASessionEndsWithItsTokenAndAfterItsTime(t *testing.T) {
	expires := time.Now().Add(time.Hour)
	clock := &setClock{now: time.Now()}
	k := newKitWith(t, func(o *httpapi.Options) { o.Clock = clock }, token("short", func(t *httpapi.Token) { t.Expires = expires }), admin("ops"))
	short, ops := k.signIn("short-secret", "/").Result().Cookies()[0], k.signIn("ops-secret", "/").Result().Cookies()[0]
	status := func(c *http.Cookie) int {
		return ask(t, k.page, "GET", "/ui/", func(r *http.Request) { r.AddCookie(c) }).Code
	}
	assert.Equal(t, http.StatusOK, status(short))
	clock.now = expires
	assert.Equal(t, http.StatusSeeOther, status(short), "its token has expired")
	assert.Equal(t, http.StatusOK, status(ops))
	clock.now = clock.now.Add(httpapi.SessionTime)
	assert.Equal(t, http.StatusSeeOther, status(ops), "it was seven days old")

	forged := *ops
	forged.Value = "A" + ops.Value[1:]
	assert.Equal(t, http.StatusSeeOther, status(&forged))
}

func TestASessionIsGoodAfterARestartUntilItsTokenIsTakenAway(t *testing.T) {
	k := newKit(t, admin("ops"), admin("other"))
	c := k.signIn("ops-secret", "/").Result().Cookies()[0]
	status := func(tokens ...httpapi.Token) int {
		api, err := httpapi.New(httpapi.Options{Engine: k.engine, Tokens: tokens})
		require.NoError(t, err)
		p, err := page.New(page.Options{API: api})
		require.NoError(t, err)
		return ask(t, p, "GET", "/ui/", func(r *http.Request) { r.AddCookie(c) }).Code
	}
	assert.Equal(t, http.StatusOK, status(admin("ops")))
	assert.Equal(t, http.StatusSeeOther, status(admin("other")))
}

func TestASessionIsForTheServersOfOneDatabaseAlone(t *testing.T) {
	k, other := newKit(t, admin("ops")), newKit(t, admin("ops"))
	mine, theirs := k.signIn("ops-secret", "/").Result().Cookies()[0], other.signIn("ops-secret", "/").Result().Cookies()[0]
	assert.NotEqual(t, mine.Name, theirs.Name, "a browser keeps both, though it sends both to each")
	both := func(r *http.Request) {
		r.AddCookie(mine)
		r.AddCookie(theirs)
	}
	assert.Equal(t, http.StatusOK, ask(t, k.page, "GET", "/ui/", both).Code)
	assert.Equal(t, http.StatusOK, ask(t, other.page, "GET", "/ui/", both).Code)
	moved := *mine
	moved.Name = theirs.Name
	assert.Equal(t, http.StatusSeeOther, ask(t, other.page, "GET", "/ui/", func(r *http.Request) { r.AddCookie(&moved) }).Code, "the same token, and another key")
}

func TestAFormOfAnotherSiteOrSessionChangesNothing(t *testing.T) {
	k := newKit(t, admin("ops"), admin("other"))
	k.as = "ops-secret"
	id := k.make("/v1/actions", `{"tool_name":"hold"}`)
	w := k.send("POST", "/actions/"+id+"/cancel", url.Values{})
	assert.Equal(t, http.StatusForbidden, w.Code)
	assert.Contains(t, w.Body.String(), "the form was not made for this session")
	w = k.send("POST", "/actions/"+id+"/cancel", url.Values{"proof": {"guess"}})
	assert.Equal(t, http.StatusForbidden, w.Code)

	proof := k.proof()
	form := url.Values{"proof": {proof}}
	k.as = "other-secret"
	assert.Equal(t, http.StatusForbidden, k.send("POST", "/actions/"+id+"/cancel", form).Code, "the proof is one of another session")
	k.as = "ops-secret"
	w = ask(t, k.page, "POST", "/ui/actions/"+id+"/cancel", func(r *http.Request) {
		*r = *httptest.NewRequestWithContext(t.Context(), "POST", "/ui/actions/"+id+"/cancel", strings.NewReader(form.Encode()))
		r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.AddCookie(k.session())
	})
	assert.Equal(t, http.StatusForbidden, w.Code, "it has the right proof, and comes from another site")
	assert.Equal(t, "running", k.write("GET", "/v1/actions/"+id, "")["status"].(map[string]any)["type"])
}

func TestNothingChangesByARequestThatReads(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/actions", `{"tool_name":"hold"}`)
	k.read("/actions/" + id + "/cancel")
	assert.Equal(t, http.StatusNotFound, ask(t, k.page, "GET", "/ui/zone?zone=Asia/Tokyo", nil).Code)
	k.until("/v1/actions/"+id, "status.type", "running")
}

func TestWithoutTokensOnlyABrowserOnThisMachineIsServed(t *testing.T) {
	k := newKit(t)
	for name, test := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"as it is":                      {func(*http.Request) {}, http.StatusOK},
		"another machine":               {func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, http.StatusForbidden},
		"another name (rebinding)":      {func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		"through a proxy":               {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, http.StatusForbidden},
		"through a proxy, as RFC 7239":  {func(r *http.Request) { r.Header.Set("Forwarded", "for=192.0.2.1") }, http.StatusForbidden},
		"through nginx as it is":        {func(r *http.Request) { r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0 }, http.StatusForbidden},
		"through a proxy with its way":  {func(r *http.Request) { r.Header.Set("via", "1.1 proxy") }, http.StatusForbidden},
		"through nginx with an address": {func(r *http.Request) { r.Header.Set("X-Real-IP", "192.0.2.1") }, http.StatusForbidden},
		"a link from a chat": {func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
		}, http.StatusOK},
		"a frame of another site": {func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "iframe")
		}, http.StatusForbidden},
		"a script of another port or subdomain": {func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-site")
			r.Header.Set("Sec-Fetch-Mode", "cors")
		}, http.StatusForbidden},
		"a script of another site": {func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "cors")
		}, http.StatusForbidden},
	} {
		assert.Equal(t, test.status, ask(t, k.page, "GET", "/ui/", test.change).Code, name)
	}
}

func TestEachAnswerHasAStrictPolicy(t *testing.T) {
	k := newKit(t)
	for _, path := range []string{"/ui/", "/ui/no-such-page", "/ui/sign-in"} {
		h := ask(t, k.page, "GET", path, nil).Header()
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} { // default-src is for none of the others
			assert.Contains(t, policy, part, path)
		}
		assert.NotContains(t, policy, "unsafe", path)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			assert.Equal(t, want, h.Get(name), "%s of %s", name, path)
		}
	}
}

func TestTheLinksStandBelowTheMountAndTheBasePath(t *testing.T) {
	k := newKit(t)
	p, err := page.New(page.Options{API: k.api, Mount: "/console", BasePath: "/orrery"})
	require.NoError(t, err)
	body := ask(t, p, "GET", "/console/schedules", nil).Body.String()
	assert.Contains(t, body, `href="/orrery/console/actions"`)
	for _, link := range hrefs(body) {
		assert.True(t, strings.HasPrefix(link, "/orrery/console/") || strings.HasPrefix(link, "#"), link)
	}
	w := ask(t, p, "GET", "/console", nil)
	assert.Equal(t, "/orrery/console/", w.Header().Get("Location"))

	root, err := page.New(page.Options{API: k.api, Mount: "/"})
	require.NoError(t, err)
	assert.Contains(t, ask(t, root, "GET", "/schedules", nil).Body.String(), `href="/actions"`)
}

func TestAPathThatIsNotPlainLeadsToThatOfThePage(t *testing.T) {
	k := newKit(t)
	root, err := page.New(page.Options{API: k.api, Mount: "/"})
	require.NoError(t, err)
	for path, want := range map[string]string{"/ui//actions?tool=x": "/ui/actions?tool=x", "/ui//evil.example/": "/ui/evil.example/", "/ui/../v1/info": "/ui/v1/info", "/ui/a/./b": "/ui/a/b"} {
		assert.Equal(t, want, ask(t, k.page, "GET", path, nil).Header().Get("Location"), path)
		assert.Equal(t, strings.TrimPrefix(want, "/ui"), ask(t, root, "GET", strings.TrimPrefix(path, "/ui"), nil).Header().Get("Location"), path)
	}
	assert.Equal(t, http.StatusNotFound, ask(t, k.page, "GET", "/ui/queues/a%2F%2Fb", nil).Code, "a name may have any character")
}

func hrefs(body string) (out []string) {
	for _, part := range strings.Split(body, `href="`)[1:] {
		link, _, _ := strings.Cut(part, `"`)
		out = append(out, link)
	}
	return out
}

func TestPathsThatAreNoneAreRefused(t *testing.T) {
	k := newKit(t)
	for _, path := range []string{"ui", "/ui/", "//", "/a/../b", "/a?b", "/a b", `/a"b`} {
		_, err := page.New(page.Options{API: k.api, Mount: path})
		require.ErrorContains(t, err, "page: Options.Mount is", path)
	}
	_, err := page.New(page.Options{})
	require.ErrorContains(t, err, "Options.API is nil")
}

func TestATrustedProxySaysWhoAsksAndWhetherThatIsEncrypted(t *testing.T) {
	k := newKit(t, admin("ops"))
	p, err := page.New(page.Options{API: k.api, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	require.NoError(t, err)
	sign := func(from, forwarded, secret string) *httptest.ResponseRecorder {
		form := url.Values{"token": {secret}}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/ui/sign-in", strings.NewReader(form.Encode()))
		r.RemoteAddr = from
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", forwarded)
		r.Header.Set("X-Forwarded-Proto", "https")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w
	}
	assert.True(t, sign("10.0.0.1:1", "192.0.2.1", "ops-secret").Result().Cookies()[0].Secure)
	assert.True(t, sign("[::ffff:10.0.0.1]:1", "192.0.2.1", "ops-secret").Result().Cookies()[0].Secure, "a listener for both families names it so")
	assert.False(t, sign("192.0.2.9:1", "192.0.2.1", "ops-secret").Result().Cookies()[0].Secure, "this proxy is not trusted")
	for range 40 {
		sign("10.0.0.1:1", "203.0.113.7, 192.0.2.1", "guess")
	}
	assert.Equal(t, http.StatusTooManyRequests, sign("10.0.0.1:1", "192.0.2.1", "guess").Code)
	assert.Equal(t, http.StatusUnauthorized, sign("10.0.0.1:1", "192.0.2.2", "guess").Code, "others behind the proxy are not slowed down")
}

func TestAPageThatHasNotChangedIsNotSentAgain(t *testing.T) {
	k := newKit(t)
	w := ask(t, k.page, "GET", "/ui/queues", nil)
	tag := w.Header().Get("ETag")
	require.NotEmpty(t, tag)
	again := func(r *http.Request) { r.Header.Set("If-None-Match", tag) }
	w = ask(t, k.page, "GET", "/ui/queues", again)
	assert.Equal(t, http.StatusNotModified, w.Code)
	assert.Empty(t, w.Body.String())
	k.write("PUT", "/v1/queues/new", `{}`)
	assert.Equal(t, http.StatusOK, ask(t, k.page, "GET", "/ui/queues", again).Code)
}

func TestTimesAreInTheZoneThatWasChosen(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"0 12 1 1 *","timezone":"America/New_York","provider":"echo","action_type":"x"}`)
	assert.Contains(t, k.text("/recurring/"+id), "-01-01 17:00:00 UTC")
	w := k.send("POST", "/zone", url.Values{"zone": {"Asia/Tokyo"}, "to": {"/recurring/" + id}, "proof": {k.proof()}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	assert.Equal(t, "/ui/recurring/"+id, w.Header().Get("Location"))
	c := w.Result().Cookies()[0]
	assert.True(t, c.HttpOnly)
	body := ask(t, k.page, "GET", "/ui/recurring/"+id, func(r *http.Request) { r.AddCookie(c) }).Body.String()
	assert.Contains(t, words(body), "-01-02 02:00:00 JST")
	assert.Contains(t, words(body), "-01-01 12:00:00 EST", "the zone of the schedule is there, too")
	w = k.send("POST", "/zone", url.Values{"zone": {"Moon/Base"}, "proof": {k.proof()}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "Moon/Base")
}

func TestTheOverviewTellsWhetherTheLoopKeepsUpAndWhichInstanceAnswers(t *testing.T) {
	k := newKit(t, admin("ops"), token("team", func(t *httpapi.Token) { t.Tenants = []string{"a"} }))
	k.as = "ops-secret"
	text := k.text("/")
	assert.Regexp(t, `\d+ ms loop lag the most in the last minute`, text)
	assert.Regexp(t, `[\d.]+ commits a second mean of the last minute`, text)
	assert.Contains(t, text, "Version v1.2.3 Instance "+k.engine.Instance())
	assert.Regexp(t, `Loop lag, the most in the last minute \d+ ms it keeps up to 1.0 s Commits a second [\d.]+ Inputs a second [\d.]+`, k.text("/system"))
	k.as = "team-secret"
	assert.NotContains(t, k.text("/"), "loop lag")
	assert.Contains(t, k.text("/"), "Instance "+k.engine.Instance())
}

func TestTheBeginningOfAnIDLeadsToWhatHasItHoweverOldItIs(t *testing.T) {
	k := newKit(t)
	const due = `,"tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`
	one := k.make("/v1/actions", `{"id":"0193f2a4-5b6c-4d8e-9f01-000000000001","label":"<b>one</b>"`+due)
	w := k.send("GET", "/find?q=0193f2a4", nil)
	require.Equal(t, http.StatusSeeOther, w.Code)
	assert.Equal(t, "/ui/actions/"+one, w.Header().Get("Location"))
	k.make("/v1/tasks", `{"id":"0193f2a4-5b6c-4d8e-9f01-000000000002"}`)
	text := k.text("/find?q=0193F2A4-5b6c")
	assert.Contains(t, text, "<b>one</b> "+one+" action default / default")
	assert.Contains(t, text, "0193f2a4 0193f2a4-5b6c-4d8e-9f01-000000000002 task default / default")
	assert.Contains(t, k.text("/find?q=0193f2a5"), "Nothing that you may see has this id")
}
