package httpapi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
)

func TestHowTheJSONIsCutChangesNothingAndWhatIsNotHiddenPassesAsItIs(t *testing.T) {
	const text = `{"tool_input": {"a": [1, "x\"y\\", {"token" : [ {"b": "}"} , 1e5 ]}], "token": -1.5e3 ,"c":"d"}, "token": 5}` + "\n"
	const hidden = `{"tool_input": {"a": [1, "x\"y\\", {"token" : "(redacted)"}], "token": "(redacted)" ,"c":"d"}, "token": 5}` + "\n"
	rapid.Check(t, func(t *rapid.T) {
		for rules, want := range map[string]string{"names": hidden, "none": text} {
			r := Redaction{Names: rules == "names"}.redactor()
			var got []byte
			for rest := []byte(text); len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "n")
				got, rest = append(got, r.pass(rest[:n])...), rest[n:]
			}
			if string(got) != want {
				t.Fatalf("%s:\n%s\n%s", rules, got, want)
			}
		}
	})
}

func TestEventsOfAStreamAreLookedAtOneByOne(t *testing.T) {
	r := Redaction{Names: true}.redactor()
	out := ""
	for _, piece := range []string{": events from now on\n\n", "id: 1\ndata: {\"data\":{\"secret\":1}}\n\n", "data: {\"data\":{\"secret\":\"x\",\"b\":2}}\n\n"} {
		out += string(r.pass([]byte(piece)))
	}
	assert.Equal(t, ": events from now on\n\nid: 1\ndata: {\"data\":{\"secret\":\"(redacted)\"}}\n\ndata: {\"data\":{\"secret\":\"(redacted)\",\"b\":2}}\n\n", out)
	assert.True(t, json.Valid([]byte(redactedValue)))
}
