package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheResultOfARetryOfAllLeadsToWhatWasMade(t *testing.T) {
	k := newKit(t)
	old := k.failed("one")
	form := k.filled("/actions/retry-all?status=failed", nil)
	shown := k.send("POST", "/actions/retry-all?status=failed", form).Body.String()
	_, shown, ok := strings.Cut(shown, "What was made</h2>")
	require.True(t, ok)
	list, _ := k.write("GET", "/v1/actions", "")["actions"].([]any)
	made, _ := list[0].(map[string]any)["id"].(string)
	require.NotEqual(t, old, made)
	assert.Contains(t, shown, `href="/ui/actions/`+old+`"`)
	assert.Contains(t, shown, `href="/ui/actions/`+made+`"`)
	assert.NotContains(t, shown, "made before")
	again := k.send("POST", "/actions/retry-all?status=failed", form)
	require.Equal(t, http.StatusOK, again.Code)
	assert.Contains(t, again.Body.String(), `href="/ui/actions/`+made+`"`)
	assert.Contains(t, again.Body.String(), "made before")

	k.make("/v1/actions", `{"tool_name":"hold",`+farAway+`}`)
	assert.NotContains(t, k.do("/actions/cancel-all", nil), "What was made", "nothing was")
}
