package browsertest_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestThePagesAreDrawn writes a picture of each main page into the folder ORRERY_SCREENSHOTS, at the width of a telephone and of
// a desk, in both themes: NAME-WIDTH-THEME.png.
func TestThePagesAreDrawn(t *testing.T) {
	dir := os.Getenv("ORRERY_SCREENSHOTS")
	if dir == "" {
		t.Skip("ORRERY_SCREENSHOTS is not set: give it the folder for the pictures")
	}
	require.NoError(t, os.MkdirAll(dir, 0o750))
	empty := newTab(t, startDaemon(t))
	empty.draw(dir, "empty", "/ui/")
	empty.draw(dir, "empty-schedules", "/ui/schedules")
	d := startDaemon(t)
	f := fill(d, plain)
	b := newTab(t, d)
	for _, p := range []struct{ name, path string }{
		{"overview", "/ui/"}, {"schedules", "/ui/schedules"}, {"schedule", "/ui/recurring/" + f.recurring}, {"schedule-paused", "/ui/recurring/" + f.paused},
		{"schedule-new", "/ui/schedules/new"}, {"schedule-edit", "/ui/recurring/" + f.recurring + "/edit"}, {"schedule-delete", "/ui/recurring/" + f.recurring + "/delete"},
		{"actions", "/ui/actions"}, {"action-failed", "/ui/actions/" + f.failed}, {"action-printed", "/ui/actions/" + f.printed}, {"occurrences", "/ui/occurrences"},
		{"calendar", "/ui/calendar"}, {"jobs", "/ui/jobs"}, {"job", "/ui/jobs/fails-backup" + inDefault}, {"runs", "/ui/runs"},
		{"pipelines", "/ui/pipelines"}, {"pipeline", "/ui/pipelines/" + f.pipeline}, {"queues", "/ui/queues"}, {"queue", "/ui/queues/mail" + inDefault},
		{"locks", "/ui/locks"}, {"system", "/ui/system"}, {"instances", "/ui/instances"}, {"instance", "/ui/instances/daemon-2"}, {"accept-loss", "/ui/partitions/2/accept-loss"}, {"found", "/ui/find?q=re"}, {"not-found", "/ui/nowhere"},
	} {
		b.draw(dir, p.name, p.path)
	}
	newTab(t, withTokens(t)).draw(dir, "sign-in", "/ui/sign-in")
}

// draw writes the pictures of a page.
func (b *tab) draw(dir, name, path string) {
	b.t.Helper()
	for _, width := range []int64{360, 1280} {
		for _, theme := range []string{"light", "dark"} {
			b.look(width, theme)
			b.open(path)
			ctx, cancel := context.WithTimeout(b.ctx, patience)
			picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			cancel()
			require.NoError(b.t, err, path)
			require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+"-"+strconv.FormatInt(width, 10)+"-"+theme+".png"), picture, 0o600))
		}
	}
}
