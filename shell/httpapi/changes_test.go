package httpapi_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// changes reads changes of a machine.
func (a *api) changes(path string) (out wire.ChangeList) {
	a.t.Helper()
	got := a.do("GET", "/v1/changes/"+path, nil)
	require.Equal(a.t, http.StatusOK, got.status, got.body)
	require.NoError(a.t, json.Unmarshal([]byte(got.body), &out))
	return out
}

func TestChangesTellWhichEffectsWereRequestedAndAnsweredRedacted(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Redact = httpapi.Redaction{Paths: []string{"tool"}}
		o.Tokens = []httpapi.Token{{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true}, {Name: "eyes", SHA256: httpapi.HashToken("eyes"), ReadOnly: true}}
	}})
	made, err := a.engine.Actions().Execute(t.Context(), core.ActionSpec{ToolName: "echo"})
	require.NoError(t, err)
	for token, data := range map[string]string{"root": `{"type":"run_tool","run":1,"tool":"echo"}`, "eyes": `{"type":"run_tool","run":1,"tool":"(redacted)"}`} {
		a.header.Set("Authorization", "Bearer "+token)
		var told []wire.ChangeEffect
		for _, c := range a.changes("action/" + made.ID.String()).Changes {
			told = append(told, c.Effects...)
		}
		require.Len(t, told, 2)
		for i, what := range []string{"answered", "requested"} {
			assert.Equal(t, what, told[i].What)
			assert.Equal(t, "run_tool", told[i].Effect)
			assert.EqualValues(t, 1, told[i].Number)
			assert.JSONEq(t, data, string(told[i].Data))
		}
	}
}
