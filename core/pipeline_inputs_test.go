package core_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

func TestAnInputThatADefinitionNeitherDeclaresNorReadsIsMisspelt(t *testing.T) {
	def := core.PipelineDef{
		Name:   "build",
		Inputs: []core.InputDef{{Name: "branch", Required: true}, {Name: "version"}},
		Phases: []core.PhaseDef{
			{Name: "a", When: &core.When{Ref: "dry.run", Equals: json.RawMessage("true")}, Run: &core.ToolRun{Tool: "command", Input: json.RawMessage(`{"argv":["make","${flags.0} ${target}"]}`)}},
			{Name: "b", Pipelines: &core.PipelinesPhase{Start: []core.PipelineStartDef{{Context: map[string]json.RawMessage{"x": json.RawMessage(`"${env}"`)}}}}},
		},
		Result: "report",
	}
	for _, given := range [][]string{
		nil, {"branch", "version"}, {"branch", "dry", "flags", "target", "env", "report"}, {"branch", "item", "event"},
	} {
		require.NoError(t, def.CheckInputs("context", given), "%v", given)
	}
	for name, want := range map[string]string{
		"brnch":   `context.brnch: pipeline "build" declares no input "brnch": did you mean "branch"?`,
		"Version": `context.Version: pipeline "build" declares no input "Version": did you mean "version"?`,
		"x":       `context.x: pipeline "build" declares no input "x": it declares branch, version`,
		"run":     `context.run: pipeline "build" declares no input "run": it declares branch, version`,
	} {
		assert.EqualError(t, def.CheckInputs("context", []string{"target", name, "branch"}), want)
	}
	def.Inputs = nil
	assert.NoError(t, def.CheckInputs("context", []string{"brnch"}), "one that declares nothing takes what it is given")
}
