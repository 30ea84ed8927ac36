package effects_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
)

func TestTheEffectsOfRunsAreReadAsTheyAreStored(t *testing.T) {
	for want, e := range map[string]effects.Outer{
		`{"type":"check_constraints","n":1,"phase":"pre"}`:                                                  effects.CheckConstraints{N: 1, Phase: effects.CheckPre},
		`{"type":"take_action","n":2,"constraint":"c","action":"webhook","config":{"url":"\u003ca\u003e"}}`: effects.TakeAction{N: 2, Constraint: "c", Type: "webhook", Config: json.RawMessage(`{"url":"\u003ca\u003e"}`)},
		`{"type":"take_action","n":2,"constraint":"c","action":"log"}`:                                      effects.TakeAction{N: 2, Constraint: "c", Type: "log"},
		`{"type":"create_run","n":3,"attempt":1}`:                                                           effects.CreateRun{N: 3, Attempt: 1},
		`{"type":"fetch_logs","n":4,"attempt":1}`:                                                           effects.FetchLogs{N: 4, Attempt: 1},
		`{"type":"delete_run","n":5,"attempt":0}`:                                                           effects.DeleteRun{N: 5},
	} {
		assert.Equal(t, want, string(e.AppendJSON(nil)))
		back, err := effects.DecodeOuter([]byte(want))
		require.NoError(t, err)
		assert.Equal(t, e, back)
	}
	lanes := []string{}
	for _, e := range []effects.Outer{effects.CheckConstraints{}, effects.TakeAction{}, effects.CreateRun{}, effects.FetchLogs{}, effects.DeleteRun{}} {
		lanes = append(lanes, e.Lane())
	}
	assert.Equal(t, []string{"@constraints", "@actions", "@run", "@logs", "@run"}, lanes)
	for _, bad := range []string{`{"type":"create_run","n":-1}`, `{"type":"delete_run","attempt":"a"}`} {
		_, err := effects.DecodeOuter([]byte(bad))
		assert.Error(t, err, bad)
	}
}
