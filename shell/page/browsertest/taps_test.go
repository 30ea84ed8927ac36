package browsertest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostTaps bounds what a task takes on a telephone, from the overview on. Each field that is typed into counts as one.
const mostTaps = 4

// telephone opens the overview on one.
func telephone(t *testing.T, d *daemon) *tab {
	t.Helper()
	b := newTab(t, d)
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	b.open("/ui/")
	return b
}

// took checks how many taps a task has taken, and that nothing had to be scrolled to the side.
func (b *tab) took() {
	b.t.Helper()
	assert.LessOrEqual(b.t, b.taps, mostTaps, "taps")
	assert.True(b.t, js[bool](b, `document.documentElement.scrollWidth <= innerWidth`), "%s is wider than the telephone", b.path())
}

func TestOnATelephoneOneFindsOutWhyItFailed(t *testing.T) {
	d := startDaemon(t)
	fill(d, plain)
	b := telephone(t, d)

	b.tap("#failed a", "Export to the warehouse")

	assert.Contains(t, b.text(".notice.bad"), "exit code 3: disk full")
	b.took()
}

func TestOnATelephoneOneRunsItAgain(t *testing.T) {
	d := startDaemon(t)
	f := fill(d, plain)
	b := telephone(t, d)

	b.tap("#failed a", "Export to the warehouse")
	b.tap("main a", "Run again")
	b.tap("main button", "Run again")

	assert.Contains(t, b.text("[data-done]"), "A new action was made")
	assert.NotEqual(t, "/ui/actions/"+f.failed, js[string](b, "location.pathname"))
	b.took()
}

func TestOnATelephoneOneSeesWhatWasMissed(t *testing.T) {
	d := startDaemon(t)
	d.make("POST", "/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"@every 1s","provider":"echo","action_type":"x","description":"Heartbeat of the shop","start_deadline_seconds":1}`, "recurring_id")
	d.until("/v1/actions", "completed")
	d.stop()
	<-time.After(4 * time.Second) // of its times, none of which may begin later than a second
	d.start()
	d.until("/v1/occurrences?verdict=missed", "missed")
	b := telephone(t, d)
	require.Contains(t, b.text(".tiles .bad"), "times missed in 24 h")

	b.tap(".tiles .bad a", b.text(".tiles .bad .value"))

	assert.Contains(t, b.text("table"), "Heartbeat of the shop")
	assert.Contains(t, b.text("table"), "missed")
	b.took()
}

func TestOnATelephoneOneStopsItForTheNight(t *testing.T) {
	d := startDaemon(t)
	fill(d, plain)
	b := telephone(t, d)
	morning := time.Now().UTC().AddDate(0, 0, 1).Format("2006-01-02") + "T07:00"

	b.tap("main a", "Sync of the price list")
	id := strings.TrimPrefix(js[string](b, "location.pathname"), "/ui/recurring/")
	b.tap("main a", "Pause")
	b.taps++
	b.do(chromedp.SetValue(chromedp.CSS("[name=until]"), morning)) // as the picker of the telephone does
	b.tap("main button", "Pause")

	assert.Contains(t, b.text("[data-done]"), "is paused")
	assert.Contains(t, b.text(".facts"), "Paused until")
	d.until("/v1/recurring/"+id, `"paused_until":"`+morning+`:00`)
	b.took()
}

func TestOnATelephoneOneSeesWhoChangedIt(t *testing.T) {
	d := startDaemon(t)
	fill(d, plain)
	b := telephone(t, d)

	b.tap("main a", "Sync of the price list")
	b.tap("main a", "Who changed it")

	assert.Contains(t, b.text("table"), "api:loopback")
	b.took()
}
