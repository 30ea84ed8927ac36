package browsertest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tab is one tab of the browser. It collects what the browser complains of: scripts that fail, files that are missing, and
// what the Content-Security-Policy forbids.
type tab struct {
	t      *testing.T
	ctx    context.Context // chromedp keeps the tab in it
	base   string          // of the addresses
	closes func()

	mu         sync.Mutex
	complaints []string
	taps       int
}

// newTab opens a tab with cookies of its own.
func newTab(t *testing.T, d *daemon) *tab {
	t.Helper()
	return openTab(browser(t), t, d, chromedp.WithNewBrowserContext())
}

// another opens one more tab beside a tab: it has the same cookies, and shares its worker.
func (b *tab) another() *tab {
	b.t.Helper()
	return openTab(b.ctx, b.t, &daemon{url: b.base})
}

func openTab(parent context.Context, t *testing.T, d *daemon, options ...chromedp.ContextOption) *tab {
	t.Helper()
	b := &tab{t: t, base: d.url}
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(b.hear))...)
	b.ctx = ctx
	b.closes = sync.OnceFunc(func() { _ = chromedp.Cancel(ctx); cancel() })
	t.Cleanup(b.closes)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)))
	return b
}

func (b *tab) hear(event any) {
	complaint := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			complaint += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			complaint = fmt.Sprintf("console.%s at %v", e.Type, e.Args)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			complaint = string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if complaint != "" {
		b.mu.Lock()
		b.complaints = append(b.complaints, complaint)
		b.mu.Unlock()
	}
}

// complained gives what the browser has complained of since it was asked last.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.complaints
	b.complaints = nil
	return all
}

// within bounds what a tab is to do.
func (b *tab) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, patience)
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.within()
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...), "at %s", b.base)
}

// open leads the tab to an address of the server, and gives the status of the answer.
func (b *tab) open(path string) int {
	b.t.Helper()
	ctx, cancel := b.within()
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.NavigateResponse(b.base+path))
	require.NoError(b.t, err, path)
	require.NotNil(b.t, got, path)
	return int(got.Status)
}

// click clicks on the first element that a selector names, and waits for the page that this leads to.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.leads(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible), selector)
}

// follow clicks on the link or button with a text.
func (b *tab) follow(text string) {
	b.t.Helper()
	x, y := b.find("main a, main button, .menu button, .nav a", text)
	b.leads(chromedp.MouseClickXY(x, y), text)
}

// tap is follow with a finger, and counts.
func (b *tab) tap(where, text string) {
	b.t.Helper()
	b.taps++
	x, y := b.find(where, text)
	b.leads(chromedp.TapXY(x, y), text)
}

// leads does what leads to another page, and waits for that.
func (b *tab) leads(act chromedp.Action[chromedp.Void], about string) {
	b.t.Helper()
	ctx, cancel := b.within()
	defer cancel()
	_, err := chromedp.RunResponse(ctx, act)
	require.NoError(b.t, err, "%s at %s", about, b.path())
}

// find gives where the first visible element of a sort stands whose text begins with another. Nothing may cover it.
func (b *tab) find(of, text string) (x, y float64) {
	b.t.Helper()
	at := js[[]float64](b, fmt.Sprintf(`(() => {
		const n = [...document.querySelectorAll(%q)].find((n) => n.checkVisibility() && n.textContent.trim().startsWith(%q));
		if (!n) return [];
		n.scrollIntoView({block: "center", behavior: "instant"});
		const r = n.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2;
		const top = document.elementFromPoint(x, y);
		return n.contains(top) ? [x, y] : [x, y, 1];
	})()`, of, text))
	require.NotEmpty(b.t, at, "no %s with the text %q at %s:\n%s", of, text, b.path(), b.text("body"))
	require.Len(b.t, at, 2, "something covers %q at %s", text, b.path())
	return at[0], at[1]
}

// text gives the text of the first element that a selector names; nothing if there is none.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return js[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector))
}

// path gives the address that the tab shows, without its server.
func (b *tab) path() string {
	b.t.Helper()
	return js[string](b, "location.pathname + location.search")
}

// eventually waits until an expression is true, at most for a time.
func (b *tab) eventually(expression string, most time.Duration, about string) {
	b.t.Helper()
	var last bool
	ok := assert.Eventually(b.t, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		got, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		last = err == nil && got
		return last
	}, most, 50*time.Millisecond)
	require.True(b.t, ok, "%s: not within %s: %s", about, most, expression)
}

// fill types a text into a field, in place of what it has.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	js[bool](b, fmt.Sprintf(`(document.querySelector(%q).select(), true)`, selector))
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// press presses keys, one after the other.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// look sets how wide the window is and which colours the system prefers.
func (b *tab) look(width int64, theme string) {
	b.t.Helper()
	height := int64(800)
	if width < 600 {
		height = 740
	}
	b.do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	require.NoError(b.t, err)
}

// withoutScript has the pages of the tab run no script.
func (b *tab) withoutScript() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(b.t, err)
}

// js evaluates an expression in the page.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := b.within()
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, "%s", strings.TrimSpace(expression[:min(len(expression), 300)]))
	return v
}

// alwaysSeen has the tab behave as if it were in front: of ten tabs only one is.
func (b *tab) alwaysSeen() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	require.NoError(b.t, err)
}
