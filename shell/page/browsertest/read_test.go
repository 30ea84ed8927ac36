package browsertest_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// later makes an action that stays as it is, so that nothing else changes meanwhile.
func (d *daemon) later(label string) string {
	d.t.Helper()
	return d.make("POST", "/v1/actions", fmt.Sprintf(`{"namespace":"default","tenant":"default","label":%q,"tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`, label), "id")
}

// place is an expression: how far below the upper edge of the window the row of an action stands.
func place(id string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((n) => n.querySelector("a").href.includes(%q)).getBoundingClientRect().top`, id)
}

func TestWhoeverHasScrolledKeepsTheFirstRowInSight(t *testing.T) {
	for _, window := range []struct {
		name string
		look chromedp.Action[chromedp.Void]
	}{
		{"on a desk", chromedp.EmulateViewport(1280, 800)},
		{"on a telephone", chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch)},
	} {
		t.Run(window.name, func(t *testing.T) {
			d := startDaemon(t)
			ids := make([]string, 40)
			for i := range ids {
				ids[len(ids)-1-i] = d.later(fmt.Sprintf("action %d", i)) // the newest stands first
			}
			b := openLive(t, d, "/ui/actions")
			b.do(window.look)
			js[bool](b, `(document.querySelectorAll("tbody tr")[12].scrollIntoView({block: "start", behavior: "instant"}), scrollBy(0, 5), true)`)
			read := js[float64](b, place(ids[12]))
			require.InDelta(t, -5, read, 1, "the first row in sight")

			d.later("one above")
			b.eventually(shows("one above"), promised, "the change")
			js[bool](b, twoFrames)
			assert.InDelta(t, read, js[float64](b, place(ids[12])), 1, "the row that is read, behind one that came above it")

			d.make("POST", "/v1/actions/"+ids[12]+"/cancel", `{"reason":"nobody wants it"}`, "")
			b.eventually(fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((n) => n.querySelector("a").href.includes(%q)).textContent.includes("cancelled")`, ids[12]), promised, "the change of the row that is read")
			js[bool](b, twoFrames)
			assert.InDelta(t, read, js[float64](b, place(ids[12])), 1, "the row that is read, of which something has changed")

			js[bool](b, `new Promise((then) => {
				let n = 0;
				document.addEventListener("scroll", () => then(true), { once: true });
				window.scrolls = setInterval(() => scrollBy(0, n++ % 2 ? 10 : -10), 50);
			})`) // which is heard
			d.later("while it scrolls")
			b.eventually(`document.querySelector("#live-state").textContent.startsWith("Changed")`, promised, "that something has changed")
			assert.False(t, js[bool](b, shows("while it scrolls")), "a row comes while somebody scrolls")
			js[bool](b, `(clearInterval(window.scrolls), true)`)
			b.eventually(shows("while it scrolls"), promised, "the change, once nobody scrolled")

			js[bool](b, `(scrollTo(0, 0), true)`)
			d.later("at the top")
			b.eventually(shows("at the top"), promised, "the change at the top of the page")
			js[bool](b, twoFrames)
			assert.Zero(t, js[float64](b, "scrollY"), "at the top the new row is to be seen")
			assert.Empty(t, b.complained())
		})
	}
}

// twoFrames waits until what has changed is drawn, and what the browser does by itself about scrolling is done.
const twoFrames = `new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(() => then(true))))`

func TestATapHoldsNothingButAFingerOnTheScreenDoes(t *testing.T) {
	d := startDaemon(t)
	d.later("first")
	b := openLive(t, d, "/ui/actions")
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	js[bool](b, `(document.querySelector("tbody tr").scrollIntoView({block: "center", behavior: "instant"}), true)`)
	at := js[[]float64](b, `(() => { const r = document.querySelector("tbody tr").getBoundingClientRect(); return [r.right - 12, r.bottom - 8]; })()`)
	b.do(chromedp.TapXY(at[0], at[1]))
	b.eventually(`document.querySelector("tr:hover") !== null`, promised, "that :hover stays behind a tap")

	d.later("second")
	b.eventually(shows("second"), promised, "the change, though a row was tapped on")
	assert.Empty(t, b.text("#live-state"), "nothing waits")

	b.fingers(&input.TouchPoint{X: at[0], Y: at[1]})
	d.later("third")
	b.eventually(`document.querySelector("#live-state").textContent.startsWith("Changed")`, promised, "that something has changed")
	assert.False(t, js[bool](b, shows("third")), "a row comes under a finger")
	b.fingers()
	b.eventually(shows("third"), promised, "the change, once the finger was gone")
}

// fingers puts fingers on the screen in place of those that are there.
func (b *tab) fingers(at ...*input.TouchPoint) {
	b.t.Helper()
	kind := input.DispatchTouchEventTypeTouchStart
	if len(at) == 0 {
		kind, at = input.DispatchTouchEventTypeTouchEnd, []*input.TouchPoint{}
	}
	_, err := chromedp.Call(b.ctx, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: at})
	require.NoError(b.t, err)
}

func TestThatSomethingHasChangedIsSaidWithoutMovingWhatIsTappedOn(t *testing.T) {
	d := startDaemon(t)
	d.later("first")
	b := openLive(t, d, "/ui/")
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	tile := `document.querySelector(".tiles li").getBoundingClientRect().top`
	x, y := b.find(".tiles a", "0")
	before := js[float64](b, tile)

	b.fingers(&input.TouchPoint{X: x, Y: y})
	d.later("second")
	b.eventually(`document.querySelector("#live-state").textContent.startsWith("Changed")`, promised, "that something has changed")

	assert.InDelta(t, before, js[float64](b, tile), 0.1, "what is under the finger")
	assert.True(t, js[bool](b, `document.querySelector("#live-state").getBoundingClientRect().bottom <= innerHeight`), "what is said is in sight")
	b.fingers()
}
