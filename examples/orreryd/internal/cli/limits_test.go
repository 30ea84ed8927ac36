package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestLimitsShowsWhatTenantsHaveAndMayHave(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t), "--config", write(t, "orrery.toml", auditTokens+"\n[limits]\nmax_live_actions = 1\n"))
	as := func(token string, args ...string) result {
		return cli(t, []string{"ORRERY_SERVER=" + p.url, "ORRERY_TOKEN=" + token}, "", args...)
	}
	add := func() result {
		return as("web-web-web-web-web", "actions", "add", "--namespace", "web", "--tenant", "t", "--in", "1h", "--", "echo", "hush")
	}
	require.Zero(t, add().code)
	r := as("ops-ops-ops-ops-ops", "limits")
	require.Zero(t, r.code, r.err)
	assert.Regexp(t, `NAMESPACE +TENANT +SCHEDULES +LIVE ACTIONS`, r.out)
	assert.Regexp(t, `web +t +0 of 1000 +1 of 1 +0 of 10000 +0 of 10000 +0 of 10000 +0 of 10000 +\d+ of 4294967296 +0 +1000 +1000`, r.out)
	var list wire.LimitsList
	require.NoError(t, json.Unmarshal([]byte(as("web-web-web-web-web", "limits", "--json").out), &list))
	require.Len(t, list.Tenants, 1)

	refused := add()
	assert.NotZero(t, refused.code)
	assert.Contains(t, refused.err, "limits.max_live_actions of the daemon allows 1")
}
