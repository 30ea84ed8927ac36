package shell

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
)

func TestTheResultOfWhatIsMadeHereSaysSo(t *testing.T) {
	made := effects.Outer(effects.Spawn{N: 1})
	for _, tt := range []struct {
		of           effects.Outer
		result, want string
	}{
		{made, ``, `{"home":"a\"b"}`},
		{made, `null`, `{"home":"a\"b"}`},
		{made, `{}`, `{"home":"a\"b"}`},
		{made, ` { } `, `{"home":"a\"b"}`},
		{made, `{"pid":7}`, `{"home":"a\"b","pid":7}`},
		{made, `{"home":"c"}`, `{"home":"a\"b","home":"c"}`}, // the last one counts
		{made, `[1]`, `[1]`},
		{made, `7`, `7`},
		{effects.WorktreeAdd{N: 1}, `{"path":"/w"}`, `{"home":"a\"b","path":"/w"}`},
		{effects.WorktreeRemove{N: 1}, `{"path":"/w"}`, `{"path":"/w"}`},
		{effects.Kill{N: 1}, ``, ``},
		{effects.CreateRun{N: 1}, `{"api_calls":1}`, `{"api_calls":1}`},
	} {
		o := Options{Home: `a"b`}
		assert.Equal(t, tt.want, string(o.withHome(tt.of, json.RawMessage(tt.result))), "%T %s", tt.of, tt.result)
		none := Options{}
		assert.Equal(t, tt.result, string(none.withHome(tt.of, json.RawMessage(tt.result))), "without a home")
	}
	shared := Options{Home: "a", SharedWorkspace: true}
	assert.Equal(t, `{}`, string(shared.withHome(effects.WorktreeAdd{N: 1}, json.RawMessage(`{}`))))
	assert.JSONEq(t, `{"home":"a"}`, string(shared.withHome(made, json.RawMessage(`{}`))), "a session is a process, wherever its files are")
}
