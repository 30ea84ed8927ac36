package browsertest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutSharedWorker has the pages of the tab find none, as in many browsers of telephones.
func (b *tab) withoutSharedWorker() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: "delete window.SharedWorker"})
	require.NoError(b.t, err)
}

// hides has the page believe that its tab is hidden, or seen again. That is played: without a screen Chromium tells no tab so.
func (b *tab) hides(hidden bool) {
	b.t.Helper()
	js[bool](b, fmt.Sprintf(`(() => {
		Object.defineProperty(document, "hidden", {configurable: true, get: () => %t});
		return document.dispatchEvent(new Event("visibilitychange"));
	})()`, hidden))
}

// loads is an expression: how often the page was loaded anew.
const loads = `performance.getEntriesByType("resource").filter((r) => r.initiatorType === "fetch").length`

func TestABrowserWithoutSharedWorkersAsksInstead(t *testing.T) {
	d := startDaemon(t)
	d.later("first")
	b := newTab(t, d)
	b.alwaysSeen()
	b.withoutSharedWorker()
	b.open("/ui/actions")
	require.True(t, js[bool](b, `!("SharedWorker" in window)`))

	d.later("second")
	b.eventually(shows("second"), 2*promised, "the change")
	d.later("third")
	b.eventually(shows("third"), 2*promised, "the next change")

	assert.Zero(t, d.streams.Load(), "streams")
	assert.Empty(t, b.text("#live-state"))

	d.stop()
	b.eventually(`document.querySelector("#live-state").textContent.startsWith("Not up to date")`, 2*promised, "that the server is gone")
	d.start()
	d.later("fourth")
	b.eventually(shows("fourth")+` && document.querySelector("#live-state").textContent === ""`, 3*promised, "the change behind the start")
}

func TestATabThatIsHiddenRestsAndCatchesUp(t *testing.T) {
	for _, way := range []struct {
		name string
		open func(t *testing.T, d *daemon) *tab
	}{
		{"with a stream", func(t *testing.T, d *daemon) *tab { return openLive(t, d, "/ui/actions") }},
		{"without shared workers", func(t *testing.T, d *daemon) *tab {
			b := newTab(t, d)
			b.alwaysSeen()
			b.withoutSharedWorker()
			b.open("/ui/actions")
			return b
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			d := startDaemon(t)
			d.later("first")
			b := way.open(t, d)
			d.later("second")
			b.eventually(shows("second"), 2*promised, "the change, while the tab is seen")
			b.hides(true)
			js[bool](b, `new Promise((then) => setTimeout(() => then(true), 1500))`) // what was asked before has come

			before := js[int](b, loads)
			d.later("third")
			<-time.After(promised + time.Second)

			assert.Equal(t, before, js[int](b, loads), "how often a hidden tab was loaded anew")
			assert.False(t, js[bool](b, shows("third")))

			b.hides(false)
			b.eventually(shows("third"), promised, "what changed meanwhile, once the tab was seen again")
			assert.Empty(t, b.text("#live-state"))
		})
	}
}

func TestEventsAppearWhileSomebodyLooks(t *testing.T) {
	d := startDaemon(t)
	b := openLive(t, d, "/ui/events")
	assert.Contains(t, b.text("main"), "Nothing was announced since then")

	d.make("POST", "/v1/events", `{"kind":{"category":"deploys","action":"wanted"},"data":{"of":"the shop"}}`, "")

	b.eventually(`[...document.querySelectorAll("tbody tr")].some((n) => n.textContent.includes("deploys:wanted") && n.textContent.includes("the shop"))`, promised, "the event")
	d.named("of the machine")
	b.eventually(`document.querySelectorAll("tbody tr").length > 1 && document.querySelector("tbody tr").textContent.includes("action")`, promised, "what the machine of an action announces, above it")
	assert.Empty(t, b.complained())
}
