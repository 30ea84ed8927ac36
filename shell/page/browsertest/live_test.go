package browsertest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// promised is how soon a change appears on a page that is open.
const promised = 5 * time.Second

// named makes an action with a label.
func (d *daemon) named(label string) {
	d.t.Helper()
	d.make("POST", "/v1/actions", fmt.Sprintf(`{"namespace":"default","tenant":"default","label":%q,"tool_name":"echo"}`, label), "id")
}

// openLive opens a page, and waits until it is up to date and hears of changes.
func openLive(t *testing.T, d *daemon, path string) *tab {
	t.Helper()
	b := newTab(t, d)
	b.alwaysSeen()
	streams := d.streams.Load()
	b.open(path)
	require.Eventually(t, func() bool { return d.streams.Load() > streams }, patience, 10*time.Millisecond)
	b.settled()
	return b
}

// settled waits until the page shows what came with its stream.
func (b *tab) settled() {
	b.t.Helper()
	b.eventually(`document.readyState === "complete" && performance.getEntriesByType("resource").some((r) => r.initiatorType === "fetch" && r.responseEnd > 0)`,
		patience, "that the page was loaded anew, as its stream began")
	js[bool](b, `new Promise((then) => setTimeout(() => then(true), 200))`) // it shows what it has loaded
}

// shows is an expression: the page shows a text.
func shows(text string) string { return fmt.Sprintf("document.body.textContent.includes(%q)", text) }

func TestAChangeAppearsInTenTabsThatShareOneStreamAlsoAfterAStart(t *testing.T) {
	d := startDaemon(t)
	d.named("first")
	first := newTab(t, d)
	tabs := []*tab{first}
	for len(tabs) < 10 {
		tabs = append(tabs, first.another())
	}
	for _, b := range tabs {
		b.alwaysSeen()
		b.open("/ui/actions")
	}
	require.Eventually(t, func() bool { return d.streams.Load() > 0 }, patience, 10*time.Millisecond)

	d.named("second")
	made := time.Now()
	for i, b := range tabs {
		b.eventually(shows("second"), promised-time.Since(made), fmt.Sprintf("the change in tab %d", i))
	}

	assert.EqualValues(t, 1, d.streams.Load(), "streams of ten tabs")
	for _, b := range tabs {
		assert.Empty(t, b.complained())
	}

	d.stop()
	d.start()
	d.named("third")
	made = time.Now()
	for i, b := range tabs {
		b.eventually(shows("third"), 2*promised-time.Since(made), fmt.Sprintf("the change behind the start in tab %d", i))
	}
}

func TestPagesGoOnAfterTheServerWasStoppedAndStarted(t *testing.T) {
	d := startDaemon(t)
	d.named("first")
	b := openLive(t, d, "/ui/actions")

	d.stop()
	b.eventually(`document.querySelector("#live-state").textContent !== ""`, 2*promised, "that the server is gone")
	d.start()
	d.named("second")

	b.eventually(shows("second"), 2*promised, "the change behind the start")
	b.eventually(`document.querySelector("#live-state").textContent === ""`, 2*promised, "that the page is up to date")
}

func TestWhatIsTypedOrSelectedIsNotMoved(t *testing.T) {
	d := startDaemon(t)
	d.named("first")
	b := openLive(t, d, "/ui/actions")
	const told = `document.querySelector("#live-state").textContent.startsWith("Changed")`

	b.do(chromedp.Focus(chromedp.CSS("[name=label]")))
	b.typed("half a wo")
	js[bool](b, `(window.field = document.querySelector("[name=label]"), true)`)
	d.named("second")
	b.eventually(told, promised, "that something has changed")
	assert.True(t, js[bool](b, `window.field.isConnected && window.field.value === "half a wo" && document.activeElement === window.field`), "the field that is typed in")
	js[bool](b, `(window.field.blur(), true)`)
	b.eventually(shows("second"), promised, "the change, once the field was left")
	assert.Equal(t, "half a wo", js[string](b, `document.querySelector("[name=label]").value`), "what was typed and not sent yet")

	js[bool](b, `(getSelection().selectAllChildren(document.querySelector("td.room")), window.row = document.querySelector("tbody tr"), true)`)
	d.named("third")
	b.eventually(told, promised, "that something has changed")
	assert.True(t, js[bool](b, `window.row.isConnected && getSelection().toString() !== ""`), "what is selected")
	js[bool](b, `(getSelection().removeAllRanges(), true)`)
	b.eventually(shows("third"), promised, "the change, once nothing was selected")
}

func TestWhatAnActSaysStaysWhileThePageGoesOn(t *testing.T) {
	d := startDaemon(t)
	d.named("first")
	b := openLive(t, d, "/ui/actions?done=actions.new")

	d.named("second")

	b.eventually(shows("second"), promised, "the change")
	assert.Equal(t, "The action was created.", b.text("[data-done]"))
}

func TestAPageThatIsPointedAtIsNotMoved(t *testing.T) {
	d := startDaemon(t)
	d.named("first")
	b := openLive(t, d, "/ui/actions")
	at := js[[]float64](b, `(() => { const r = document.querySelector("tbody tr").getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)

	b.do(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	d.named("second")
	b.eventually(`document.querySelector("#live-state").textContent.startsWith("Changed")`, promised, "that something has changed")
	assert.False(t, js[bool](b, shows("second")), "a row moves away under the pointer")
	b.do(chromedp.MouseEvent("mouseMoved", 2, 2))

	b.eventually(shows("second"), promised, "the change, once the pointer was gone")
}

func TestTimesGrowOldWithoutAskingTheServer(t *testing.T) {
	d := startDaemon(t)
	d.named("first")
	b := openLive(t, d, "/ui/actions")
	js[bool](b, `(() => { window.then = Date.now(); Date.now = () => window.then; return true; })()`) // the rows do not depend on how long the test takes
	const aTime, lasting = "<time datetime='AT'></time> <span class=ago></span>", "<span data-since='AT'></span>"
	fetches := js[int](b, `performance.getEntriesByType("resource").length`)
	for _, row := range []struct {
		seconds int
		html    string
		becomes string // the clocks of the two differ by up to a second
	}{
		{-30, aTime, "(29|30|31) s ago"}, {-150, aTime, "2 min ago"},
		{-118*60 - 30, aTime, "118 min ago"}, {-7230, aTime, "2 h ago"},
		{-200*60 - 30, aTime, "3 h 20 min ago"}, {-680 * 60, aTime, "11 h ago"},
		{-50 * 3600, aTime, "2 days ago"}, {330, aTime, "in 5 min"}, {700 * 86400, aTime, "in (699|700) days"}, {4 * 366 * 86400, aTime, "in 4 years"},
		{-5, lasting, "[456].0 s"}, {-40, lasting, "(39|40|41)s"}, {-80, lasting, "1m(19|20|21)s"},
		{-3630, lasting, "1h[01]m"}, {-5000, lasting, "1h23m"},
	} {
		js[bool](b, fmt.Sprintf(`(() => {
			const p = document.createElement("p");
			p.innerHTML = %q.replace("AT", new Date(Date.now() + 1000 * %d).toISOString());
			p.dataset.becomes = %q;
			document.getElementById("main").append(p);
			return true;
		})()`, row.html, row.seconds, row.becomes))
	}
	b.eventually(`[...document.querySelectorAll("[data-becomes]")].every((p) => p.innerText.trim() !== "")`, 20*time.Second, "that times grow old")

	for _, row := range js[[][]string](b, `[...document.querySelectorAll("[data-becomes]")].map((p) => [p.dataset.becomes, p.innerText.trim()])`) {
		assert.Regexp(t, "^"+row[0]+"$", row[1])
	}
	assert.Equal(t, fetches, js[int](b, `performance.getEntriesByType("resource").length`), "requests meanwhile")
}
