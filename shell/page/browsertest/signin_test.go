package browsertest_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// withTokens starts a daemon whose tokens are an administrator's and one that may only read.
func withTokens(t *testing.T) *daemon {
	t.Helper()
	return startDaemon(t, token("admin-secret", func(k *httpapi.Token) { k.Admin = true }), token("reader-secret", func(k *httpapi.Token) { k.ReadOnly = true }))
}

// signIn gives a token to the form that is open.
func (b *tab) signIn(secret string) {
	b.t.Helper()
	b.fill("#token", secret)
	b.follow("Sign in")
}

func TestWhoSignsInComesBackToThePageThatWasAskedFor(t *testing.T) {
	b := newTab(t, withTokens(t))

	b.open("/ui/actions?status=failed&tool=echo")
	require.Equal(t, "Sign in", b.text("h1"))
	b.signIn("admin-secret")

	assert.Equal(t, "/ui/actions?status=failed&tool=echo", b.path())
	assert.Equal(t, "Actions", b.text("h1"))
	assert.Contains(t, js[string](b, `document.querySelector(".me summary").textContent`), "admin-secret")
}

func TestAWrongTokenIsRefusedAndTheRightOneStillWorks(t *testing.T) {
	b := newTab(t, withTokens(t))
	b.open("/ui/schedules")

	b.signIn("nobodys-secret")
	assert.Equal(t, "This token is unknown, or has expired.", b.text("[role=alert]"))
	assert.Empty(t, js[string](b, `document.querySelector("#token").value`), "the token is not sent back")
	b.signIn("admin-secret")

	assert.Equal(t, "/ui/schedules", b.path())
}

func TestWhoSignsOutSeesNothingAnyMore(t *testing.T) {
	b := newTab(t, withTokens(t))
	b.open("/ui/")
	b.signIn("admin-secret")

	b.do(chromedp.Click(chromedp.CSS(".me summary")))
	b.follow("Sign out")
	assert.Equal(t, "Sign in", b.text("h1"))

	b.open("/ui/actions")
	assert.Equal(t, "Sign in", b.text("h1"))
	assert.Empty(t, cookies(b), "cookies")
}

func TestSigningInLeadsToNoOtherServer(t *testing.T) {
	d := withTokens(t)
	for _, to := range []string{"https://example.com/", "//example.com/", `/\example.com`, `\\example.com`, "/\t/example.com", "javascript:alert(1)", "///example.com", "https:example.com", "/%2f/example.com"} {
		t.Run(to, func(t *testing.T) {
			b := newTab(t, d)
			b.open("/ui/sign-in?to=" + url.QueryEscape(to))

			b.signIn("admin-secret")

			assert.Equal(t, d.url, js[string](b, "location.origin"))
			assert.Regexp(t, "^/ui/", b.path())
		})
	}
}

func TestATokenThatMayOnlyReadSeesTheActsAsRefused(t *testing.T) {
	d := withTokens(t)
	f := fill(d, plain)
	b := newTab(t, d)
	b.open("/ui/recurring/" + f.recurring)

	b.signIn("reader-secret")

	require.Equal(t, "/ui/recurring/"+f.recurring, b.path())
	assert.Equal(t, 0, js[int](b, `document.querySelectorAll(".acts a").length`), "acts that lead somewhere")
	assert.Contains(t, js[string](b, `document.querySelector(".acts").textContent`), "Pause: Your token is read-only.")
	b.open("/ui/recurring/" + f.recurring + "/pause")
	assert.Equal(t, "Your token is read-only.", b.text("form.act ~ .notice, main > .notice"))
	assert.True(t, js[bool](b, `document.querySelector("form.act button").disabled`), "the button of the form")
	b.complained()

	// Who sends the form all the same is refused by the API.
	js[bool](b, `document.querySelector("form.act button").disabled = false, true`)
	b.click("form.act button")
	assert.Contains(t, b.text("[role=alert]"), "read-only")
	d.until("/v1/recurring/"+f.recurring, `"enabled":true`)
}

// cookies gives what a tab has.
func cookies(b *tab) []*network.Cookie {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Call(ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{b.base + "/ui/"}})
	require.NoError(b.t, err)
	return got.Cookies
}

func TestTheCookieOfASessionIsForThePageAlone(t *testing.T) {
	b := newTab(t, withTokens(t))
	b.open("/ui/")
	b.signIn("admin-secret")

	all := cookies(b)

	require.Len(t, all, 1)
	c := all[0]
	assert.Regexp(t, "^orrery_session_[0-9a-f]{8}$", c.Name)
	assert.True(t, c.HTTPOnly, "scripts cannot read it")
	assert.Equal(t, network.CookieSameSiteLax, c.SameSite)
	assert.Equal(t, "/ui/", c.Path)
	assert.NotContains(t, c.Value, "admin-secret")
	assert.False(t, c.Secure, "over plain HTTP a browser would not send it back")
	assert.Empty(t, js[string](b, "document.cookie"))
}
