package browsertest_test

import (
	"bytes"
	"cmp"
	"context"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The path of a new user as docs/page.md tells it, with the pictures that are shown there if ORRERY_PICTURES is a folder for
// them.
func TestANewUserMakesAScheduleRunsItAndSeesWhySomethingFailed(t *testing.T) {
	browser(t)
	d := startOrreryd(t, "")
	b := newTab(t, d.daemon)
	b.look(1280, "light")
	b.open("/ui/")
	b.signIn(adminSecret)
	require.Contains(t, b.text("main"), "Nothing is here yet")
	b.picture("1-empty")

	b.follow("New recurring action")
	b.fill("[name=cron_expr]", "0 9 * * MON-FRI")
	b.fill("[name=timezone]", "Europe/Berlin")
	b.fill("[name=description]", "Close the books")
	b.fill("[name=provider]", "command")
	b.fill("[name=action_type]", "close")
	b.fill("[name=payload]", `{"argv": ["date", "-u"]}`)
	b.eventually(`document.getElementById("preview").textContent.includes("Monday through Friday")`, patience, "the words of the expression")
	b.picture("2-new")

	b.follow("New recurring action")
	require.Contains(t, b.text("h1"), "Close the books")
	id := filepath.Base(js[string](b, "location.pathname"))
	b.follow("Run now")
	b.follow("Run now")
	d.until("/v1/recurring/"+id+"/history", `"completed"`)
	b.open("/ui/recurring/" + id)
	assert.Contains(t, b.text("table"), "09:00:00 CE")
	b.picture("3-schedule")

	d.make("POST", "/v1/actions", `{"namespace":"default","tenant":"default","label":"Backup of the books","tool_name":"command","tool_input":{"argv":["sh","-c","echo 'reading /srv/books'; echo 'tar: no space left on device' >&2; exit 2"]}}`, "id")
	d.until("/v1/actions?status=failed", `"Backup of the books"`)
	b.look(360, "dark")
	b.open("/ui/")
	b.picture("4-overview")
	b.follow("Backup of the books")
	assert.Contains(t, b.text("main"), "no space left on device")
	b.picture("5-failed")
}

// picture writes what the window shows, if ORRERY_PICTURES is a folder for that.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("ORRERY_PICTURES")
	if dir == "" {
		return
	}
	js[bool](b, `(document.activeElement.blur(), true)`)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(dir, 0o750))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), small(b.t, shot), 0o600))
}

// small gives a picture with at most 256 colours: a third of its bytes, and nobody sees it.
func small(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	require.NoError(t, err)
	counts := make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA {
		r, g, b, _ := full.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0xff}
	}
	bounds := full.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			counts[at(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	var palette color.Palette
	like := make(map[color.RGBA]bool) // one of those that nobody can tell apart is enough, so that a rare hue has one, too
	for _, c := range colors {
		if near := (color.RGBA{c.R >> 3, c.G >> 3, c.B >> 3, 0}); len(palette) < 256 && !like[near] {
			like[near] = true
			palette = append(palette, c)
		}
	}
	out := image.NewPaletted(bounds, palette)
	nearest := make(map[color.RGBA]uint8)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			c := at(x, y)
			i, known := nearest[c]
			if !known {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out))
	return b.Bytes()
}
