//go:build unix

package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAlertsReachPeopleAndTheWatchdogHearsOfADaemonThatWorks has schedules that fail: the channel
// of their rule gets one message of both, with the command that shows them, and somebody outside
// hears at regular times that the daemon works.
func TestAlertsReachPeopleAndTheWatchdogHearsOfADaemonThatWorks(t *testing.T) {
	t.Parallel()
	const token = "7f3a-hush"
	var heard atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/"+token, r.URL.Path)
		heard.Add(1)
	}))
	t.Cleanup(web.Close)
	told := filepath.Join(t.TempDir(), "told")
	p := start(t, "--db", database(t), "--config", write(t, "orrery.toml", fmt.Sprintf(`
[watchdog]
url = "%s/%s"
every_seconds = 1
[notify.channels.night]
type = "command"
command = ["sh", "-c", 'echo "== $ORRERY_TITLE" >>"$0"; echo "$ORRERY_MESSAGE" >>"$0"', %q]
`, web.URL, token, told)))
	for _, name := range []string{"copy", "sweep"} {
		p.ok("recurring", "add", "--name", name, "--cron", "*/5 * * * * *", "--alert", "failing=1", "--alert", "channel=night", "--", "sh", "-c", "exit 3")
	}
	require.Eventually(t, func() bool {
		return strings.Count(p.ok("alerts", "list", "--status", "open"), "failing=1") == 2
	}, patience, 50*time.Millisecond)
	shown := p.ok("recurring", "show", "copy")
	assert.Regexp(t, `(?m)^OPEN ALERT +SINCE \(UTC\) +WHY$\n^failing +20\S+ \S+ +action \S+ failed at .* exited with code 3`, shown)
	assert.NotContains(t, p.ok("recurring", "show", "copy", "--json"), "OPEN ALERT")
	read := func() string {
		b, _ := os.ReadFile(told)
		return string(b)
	}
	require.Eventually(t, func() bool { return strings.Contains(read(), "alerts list --status=open") }, patience, 100*time.Millisecond, "the whole message, which the program writes bit by bit")
	assert.Equal(t, 1, strings.Count(read(), "=="), read())
	assert.Contains(t, read(), "2 schedules keep failing")
	assert.Regexp(t, `failing: copy: .*exited with code 3`, read())
	assert.Regexp(t, `failing: sweep: .*exited with code 3`, read())
	assert.Positive(t, heard.Load())
	var metrics string
	require.Eventually(t, func() bool { // the channel has it before the daemon has stored that
		metrics = p.metrics()
		return strings.Contains(metrics, `orrery_alert_messages_total{outcome="sent"} 1`)
	}, patience, 50*time.Millisecond)
	assert.Contains(t, metrics, `orrery_alerts_open 2`)
	assert.NotContains(t, metrics, `orrery_watchdog_requests_total{outcome="taken"} 0`)
	assert.Contains(t, metrics, `orrery_watchdog_requests_total{outcome="failed"} 0`)
	assert.NotContains(t, metrics, token)
}
