package browsertest_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mainPages are some of each sort: lists, tiles, diagrams, forms, texts and a calendar.
func mainPages(f *filler) []string {
	return []string{
		"/ui/", "/ui/schedules", "/ui/schedules/new", "/ui/recurring/" + f.recurring, "/ui/recurring/" + f.recurring + "/edit", "/ui/calendar",
		"/ui/actions", "/ui/actions/" + f.printed, "/ui/jobs/works-report" + inDefault, "/ui/runs", "/ui/pipelines/" + f.pipeline, "/ui/queues/mail" + inDefault, "/ui/system", "/ui/instances", "/ui/instances/daemon-2",
	}
}

func TestNoPageIsWiderThanAScreenOf2560Pixels(t *testing.T) {
	d := startDaemon(t)
	f := fill(d, plain)
	b := newTab(t, d)
	b.look(2560, "light")
	for _, path := range mainPages(f) {
		b.open(path)
		assert.True(t, js[bool](b, `document.documentElement.scrollWidth <= innerWidth`), "%s is wider than the screen", path)
		assert.Empty(t, js[[]string](b, `[...document.querySelectorAll("main .wide")].filter((n) => n.scrollWidth > n.clientWidth).map((n) => n.ariaLabel)`), "tables of %s that must be scrolled", path)
	}
}

func TestOnPaperThereIsNoMenuAndNothingToScroll(t *testing.T) {
	d := startDaemon(t)
	f := fill(d, plain)
	b := newTab(t, d)
	const a4, across = 718, 1047 // with margins of 1 cm
	for _, width := range []int64{a4, across} {
		b.do(chromedp.EmulateViewport(width, 1000))
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
		})
		require.NoError(t, err)
		for _, path := range mainPages(f) {
			b.open(path)
			assert.Empty(t, js[[]string](b, `[".frame > nav", ".nav a", ".find", ".me", ".acts", ".filter", ".pages", ".skip", "#live-state"].filter((s) => [...document.querySelectorAll(s)].some((n) => n.checkVisibility()))`), "what leads on, on the paper of %s", path)
			assert.True(t, js[bool](b, `document.querySelector("h1").checkVisibility()`), path)
			assert.Empty(t, js[[]string](b, `[...document.querySelectorAll("main *")].filter((n) => /auto|scroll/.test(getComputedStyle(n).overflow) && n.localName !== "textarea" && n.checkVisibility()).map((n) => n.className || n.localName)`), "what can be scrolled on the screen alone, of %s", path)
			assert.True(t, js[bool](b, `document.documentElement.scrollWidth <= innerWidth`), "%s is wider than %d px of paper", path, width)
			assert.Equal(t, []string{"rgb(0, 0, 0)", "rgb(255, 255, 255)"}, js[[]string](b, `[getComputedStyle(document.body).color, getComputedStyle(document.documentElement).backgroundColor]`), path)
			assert.Equal(t, "#0b57b0", js[string](b, `getComputedStyle(document.documentElement).getPropertyValue("--link").trim()`), "the colours of %s, of which a browser in the dark has others", path)
		}
	}
}
