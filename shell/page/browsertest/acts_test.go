package browsertest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tabTo presses Tab until the focus is on an element of a sort whose text, or whose label, begins with a text. Each stop
// must be one that is seen.
func (b *tab) tabTo(of, text string) {
	b.t.Helper()
	for range 80 {
		b.press(kb.Tab)
		at := js[[]string](b, `(() => {
			const n = document.activeElement, r = n.getBoundingClientRect();
			const s = getComputedStyle(n);
			const seen = r.width > 0 && r.right > 0 && r.left < innerWidth && s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0;
			return [n.localName, (n.labels?.[0]?.textContent ?? n.textContent).trim(), String(seen || n === document.body || n === document.documentElement)];
		})()`)
		assert.Equal(b.t, "true", at[2], "the focus is not seen on %s %q at %s", at[0], at[1], b.path())
		if at[0] == of && strings.HasPrefix(at[1], text) {
			return
		}
	}
	b.t.Fatalf("Tab does not lead to the %s %q at %s", of, text, b.path())
}

// enter presses Enter, and waits for the page that this leads to.
func (b *tab) enter() {
	b.t.Helper()
	b.leads(chromedp.KeyEvent(kb.Enter), "Enter")
}

// typed types into what has the focus.
func (b *tab) typed(text string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(text))
}

// slash presses "/" as a keyboard does: what the key does by itself can be prevented.
func (b *tab) slash() {
	b.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{"keyDown", "keyUp"} {
		_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "/", Code: "Slash", Text: "/"})
		require.NoError(b.t, err)
	}
}

func TestARecurringActionIsCreatedPausedAndDeletedByKeyboard(t *testing.T) {
	d := startDaemon(t)
	fill(d, plain)
	b := newTab(t, d)
	b.open("/ui/")

	b.tabTo("a", "Schedules")
	b.enter()
	b.tabTo("a", "New recurring action")
	b.enter()
	b.tabTo("input", "Cron expression")
	b.typed("0 7 * * SUN")
	b.tabTo("input", "Description")
	b.typed("Water the plants")
	b.tabTo("input", "Tool")
	b.typed("echo")
	b.tabTo("input", "Type")
	b.typed("water")
	b.eventually(`document.getElementById("preview").textContent.includes("Sunday")`, patience, "the words of the expression, as it is typed")
	assert.Less(t, js[float64](b, `document.getElementById("preview").getBoundingClientRect().top - document.querySelector("[name=cron_expr]").getBoundingClientRect().bottom`), 300.0,
		"how far below the expression its words stand")
	b.enter()
	require.Equal(t, "The recurring action was created.", b.text("[role=status].notice"))
	require.Contains(t, b.text("h1"), "Water the plants")
	id := strings.TrimPrefix(js[string](b, "location.pathname"), "/ui/recurring/")

	b.tabTo("a", "Pause")
	b.enter()
	b.tabTo("input", "Reason")
	b.typed("it rains")
	b.enter()
	assert.Contains(t, b.text("main"), "It is paused by api:loopback: it rains")
	d.until("/v1/recurring/"+id, `"enabled":false`)

	b.tabTo("a", "Delete")
	b.enter()
	assert.Contains(t, b.text("main"), "It fires no more, and cannot be brought back.", "it says what it will do")
	b.tabTo("button", "Delete")
	b.enter()
	assert.Equal(t, "The recurring action was deleted.", b.text("[role=status].notice"))
	status, _ := d.ask("GET", "/v1/recurring/"+id, "")
	assert.Equal(t, 404, status)
	assert.Empty(t, b.complained())
}

func TestTheSlashLeadsToTheSearchAndTheFirstTabToTheContent(t *testing.T) {
	d := startDaemon(t)
	f := fill(d, plain)
	b := newTab(t, d)
	b.open("/ui/schedules")

	b.press(kb.Tab)
	assert.Equal(t, "Skip to the content", js[string](b, "document.activeElement.textContent"))
	b.press(kb.Enter)
	assert.Equal(t, "#main", js[string](b, "location.hash"))
	b.slash()
	assert.Equal(t, "find", js[string](b, "document.activeElement.id"))
	b.typed(f.recurring)
	b.enter()

	assert.Equal(t, "/ui/recurring/"+f.recurring, b.path())
}

func TestAFormWithAMistakeKeepsWhatWasTyped(t *testing.T) {
	b := newTab(t, startDaemon(t))
	b.open("/ui/schedules/new")
	b.fill("[name=cron_expr]", "61 * * * *")
	b.fill("[name=provider]", "echo")
	b.fill("[name=action_type]", "x")
	b.fill("[name=description]", "Never at this minute")

	b.follow("New recurring action")

	assert.Contains(t, b.text("[role=alert]"), `Cron expression: minute field "61"`)
	assert.Equal(t, "Never at this minute", js[string](b, `document.querySelector("[name=description]").value`))
	assert.Equal(t, "61 * * * *", js[string](b, `document.querySelector("[name=cron_expr]").value`))
}

func TestListsAndActsWorkWithoutScript(t *testing.T) {
	d := startDaemon(t)
	f := fill(d, plain)
	b := newTab(t, d)
	b.withoutScript()
	b.open("/ui/")
	require.False(t, js[bool](b, `document.querySelector("#live-state").textContent !== "" || "data" in window`), "no script has run")

	b.follow("Actions")
	b.do(chromedp.SetValue(chromedp.CSS("[name=status]"), "failed"))
	b.follow("Show")
	assert.Equal(t, "failed", js[string](b, `new URLSearchParams(location.search).get("status")`))
	assert.Contains(t, b.text("table"), "Export to the warehouse")
	assert.NotContains(t, b.text("table"), "Import of orders")
	b.follow("Export to the warehouse")
	require.Equal(t, "/ui/actions/"+f.failed, b.path())
	b.follow("Run again")
	b.follow("Run again")
	assert.Contains(t, b.text("[role=status].notice"), "A new action was made")

	b.open("/ui/schedules")
	b.follow("New recurring action")
	b.fill("[name=cron_expr]", "0 7 * * SUN")
	b.fill("[name=description]", "Water the plants")
	b.fill("[name=provider]", "echo")
	b.fill("[name=action_type]", "water")
	b.follow("New recurring action")
	id := strings.TrimPrefix(js[string](b, "location.pathname"), "/ui/recurring/")
	b.follow("Pause")
	b.fill("[name=reason]", "it rains")
	b.follow("Pause")
	assert.Contains(t, b.text("main"), "It is paused by api:loopback: it rains")
	b.follow("Resume")
	b.follow("Resume")
	var got struct{ Enabled bool }
	_, answer := d.ask("GET", "/v1/recurring/"+id, "")
	require.NoError(t, json.Unmarshal(answer, &got))
	assert.True(t, got.Enabled)
	b.follow("Delete")
	b.follow("Delete")
	assert.NotContains(t, b.text("table"), "Water the plants")
}

func TestAllThatAListShowsIsActedOnWithScriptAndWithout(t *testing.T) {
	d := startDaemon(t)
	f := &filler{daemon: d, w: plain}
	for _, label := range []string{"one", "two", "three"} {
		f.action("fail", label, "", "failed")
	}
	f.action("echo", "later", `,"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`, "pending")
	b := newTab(t, d)
	for _, list := range []struct {
		status, act, button, counted, done string
	}{
		{"failed", "Retry all that match", "Retry 3 actions", "3 actions in all", "They were retried. It was done to 3 actions."},
		{"pending", "Cancel all that match", "Cancel 1 action", "1 action in all", "They were cancelled. It was done to 1 action."},
	} {
		b.open("/ui/actions?status=" + list.status)
		b.follow(list.act)
		assert.Contains(t, b.text("main"), list.counted, "it says what it will be done to, and asks")
		b.follow(list.button)
		assert.Contains(t, b.text("main"), list.done)
		assert.Empty(t, b.complained())
		b.follow("Back to the list")
		assert.Equal(t, "/ui/actions?status="+list.status, b.path())
		b.withoutScript()
	}
}
