//go:build unix

package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// B7: what is due leads on to pipelines and queues.
func TestAScheduleStartsARunbookAndAWebhookFeedsAQueue(t *testing.T) {
	t.Parallel()
	workspace := t.TempDir()
	file := `[pipelines.greet]
inputs = [{ name = "who", required = true }]
[[pipelines.greet.phases]]
name = "hello"
run = { tool = "command", input = { argv = ["echo", "hello ${who}"] } }
`
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "greet.toml"), []byte(file), 0o600))
	c := write(t, "orrery.toml", "[webhooks.orders]\ntool = 'queue'\nsignature = 'none'\ntool_input = { queue = 'orders' }\n")
	p := start(t, "--db", database(t), "--config", c, "--workspace", workspace)

	p.ok("recurring", "add", "--cron", "0 9 * * *", "--tool", "pipeline", "--input", `{"file":"greet.toml","inputs":{"who":"ann"},"wait":true}`)
	id := anID.FindString(p.ok("recurring", "list", "--json"))
	p.ok("recurring", "trigger", id)
	require.Eventually(t, func() bool {
		return strings.Contains(p.ok("pipeline", "list", "--json"), `"done"`)
	}, patience, 20*time.Millisecond)
	assert.Contains(t, p.ok("pipeline", "show", anID.FindString(p.ok("pipeline", "list", "--json")), "--json"), "hello ann")

	for file, want := range map[string]string{"missing.toml": "missing.toml", "../greet.toml": "escapes"} {
		a := p.add("--tool", "pipeline", "--input", `{"file":"`+file+`"}`)
		require.Eventually(t, func() bool { return p.action(a).Status.Type == core.StatusFailed }, patience, 20*time.Millisecond)
		assert.Contains(t, p.action(a).Status.Reason, want)
	}

	p.ok("queue", "declare", "orders")
	resp, err := http.Post(p.url+"/v1/webhooks/orders", "application/json", strings.NewReader(`{"order":7}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusAccepted, resp.StatusCode)
	v := p.until("orders", "the order is there", func(v wire.Queue) bool { return v.Items.Ready == 1 })
	assert.EqualValues(t, 1, v.Totals.Pushed)
	var items struct{ Items []core.QueueItem }
	require.NoError(t, json.Unmarshal([]byte(p.ok("queue", "items", "orders", "--json")), &items))
	require.Len(t, items.Items, 1)
	assert.JSONEq(t, `{"order":7}`, string(items.Items[0].Data))
}
