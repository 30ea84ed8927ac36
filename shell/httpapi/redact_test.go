package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestReadOnlyTokensDoNotSeeWhatIsNamedAsSecret(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Redact = httpapi.Redaction{Names: true, Paths: []string{"result.body", "env.*.value"}}
		o.Tokens = []httpapi.Token{
			{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true},
			{Name: "eyes", SHA256: httpapi.HashToken("eyes"), ReadOnly: true},
		}
	}})
	input := `{"headers":{"Authorization":"Bearer xyzzy","Accept":"text/plain"},"body":"seen \"Authorization\": 1","n":[{"api_key":["xyzzy",{"a":1}],"x":2},{"password":null,"private":7}],` +
		`"env":[{"A":{"value":"xyzzy","name":"seen"}}],"\u0074oken":"xyzzy","deep":{"cookie":{"a":"xyzzy"},"b":true}}`
	made, err := a.engine.Actions().Execute(t.Context(), core.ActionSpec{ToolName: "echo", ToolInput: json.RawMessage(input)})
	require.NoError(t, err)
	for token, sees := range map[string]bool{"root": true, "eyes": false} {
		a.header.Set("Authorization", "Bearer "+token)
		for _, path := range []string{"/v1/actions/" + made.ID.String(), "/v1/changes/action/" + made.ID.String(), "/v1/actions?include=tool_input,result"} {
			got := a.do("GET", path, nil)
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.True(t, json.Valid([]byte(got.body)), got.body)
			assert.Equal(t, sees, strings.Contains(got.body, "xyzzy"), "%s %s: %s", token, path, got.body)
			assert.Contains(t, got.body, made.ID.String())
			if !sees && strings.HasPrefix(path, "/v1/actions/") {
				assert.JSONEq(t, `{"headers":{"Authorization":"(redacted)","Accept":"text/plain"},"body":"seen \"Authorization\": 1","n":[{"api_key":"(redacted)","x":2},{"password":null,"private":"(redacted)"}],`+
					`"env":[{"A":{"value":"(redacted)","name":"seen"}}],"token":"(redacted)","deep":{"cookie":"(redacted)","b":true}}`, string(got.raw(t, "tool_input")))
				assert.Contains(t, string(got.raw(t, "status")), `"body":"(redacted)"`)
			}
		}
	}
	list := a.do("GET", "/v1/actions?limit=1", nil)
	assert.Contains(t, list.body, `"next_page_token":`, "what the API itself says stays")
	assert.NotContains(t, list.body, `"next_page_token":"(redacted)"`)
}

// raw gives a member of the answer.
func (r answer) raw(t *testing.T, field string) json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(r.body), &members))
	return members[field]
}

func TestAPathOfRedactionThatIsNoneIsRefused(t *testing.T) {
	for _, path := range []string{"", "a..b", "result.*", "." + strings.Repeat("a", 300)} {
		require.ErrorContains(t, httpapi.Redaction{Paths: []string{path}}.Validate(), "paths[0]")
	}
	require.ErrorContains(t, httpapi.Redaction{Paths: make([]string, 65)}.Validate(), "65 are more than 64")
	require.NoError(t, httpapi.Redaction{Paths: []string{"result.body", "a.*.b"}}.Validate())
}
