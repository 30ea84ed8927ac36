package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/boundtest"
)

// Whatever passes, in whatever pieces: without rules it passes as it is, JSON stays JSON,
// and no member that is to be hidden is seen.
func FuzzRedactor(f *testing.F) {
	for _, s := range []string{
		`{"tool_input": {"a": [1, "x\"y\\", {"token" : [ {"b": "}"} , 1e5 ]}], "token": -1.5e3 ,"c":"d"}, "token": 5}`,
		`{"result":{"body":{"x":1},"passw\u006frd":"p","secret":null,"api-key":true},"context":[{"cookie":[]}]}`,
		"id: 1\ndata: {\"data\":{\"secret\":1}}\n\n", `{"data":{"secret":`, `]}":,{`, `"secret"`, `{"data":{"secret":1,"secret":{}}}`,
	} {
		f.Add([]byte(s), uint16(7))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		defer boundtest.Within(t, len(in))()
		at := int(cut) % (len(in) + 1)
		pass := func(rules Redaction) []byte {
			r := rules.redactor()
			return append(r.pass(in[:at]), r.pass(in[at:])...)
		}
		assert.True(t, bytes.Equal(in, pass(Redaction{})))
		rules := Redaction{Names: true, Paths: []string{"result.body"}}
		out := pass(rules)
		assert.True(t, bytes.Equal(rules.redactor().pass(in), out), "the cut changes nothing")
		if !json.Valid(in) {
			return
		}
		var v any
		read := json.NewDecoder(bytes.NewReader(out))
		read.UseNumber() // 2e2222 is a number too
		if err := read.Decode(&v); !assert.NoError(t, err, "%s", out) {
			return
		}
		requireHidden(t, v, "", false)
	})
}

// requireHidden finds the members that rules by name, and result.body, ought to have hidden.
func requireHidden(t *testing.T, v any, below string, given bool) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			requireHidden(t, e, below, given)
		}
	case map[string]any:
		for name, e := range v {
			if given && secretName.MatchString(name) || below == "result" && name == "body" {
				require.Contains(t, []any{nil, "(redacted)"}, e, name)
				continue
			}
			requireHidden(t, e, name, given || givenMembers[name])
		}
	}
}
