package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestARequestLeavesOutWhatIsNotGiven(t *testing.T) {
	label := ""
	for want, body := range map[string]any{
		`{}`:                   wire.Reason{},
		`{"tool_name":"echo"}`: wire.ActionRequest{ToolName: "echo"},
		`{"description":null}`: wire.RecurringPatch{Description: wire.Optional[string]{Set: true, Null: true}},
		`{"enabled":false}`:    wire.RecurringPatch{Enabled: wire.Optional[bool]{Set: true}},
		`{"approaches":null}`:  wire.StrategyRequest{},
		`{"label":"","tool_name":"x","recurrence":{"cron":"@daily","timezone":"UTC"}}`: wire.ActionRequest{
			Label: &label, ToolName: "x", Recurrence: &wire.Recurrence{Recurrence: core.CronRecurrence("@daily", "UTC")}},
	} {
		b, err := json.Marshal(body)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(b))
	}
}

func TestAPatchTellsLeftOutFromNull(t *testing.T) {
	var p wire.RecurringPatch
	require.NoError(t, json.Unmarshal([]byte(`{"description": null, "timezone": "UTC"}`), &p))
	assert.Equal(t, wire.Optional[string]{Set: true, Null: true}, p.Description)
	assert.Equal(t, wire.Optional[string]{Set: true, Value: "UTC"}, p.Timezone)
	assert.True(t, p.Enabled.IsZero())
}
