package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// builtIn gives the tools that lead on into the engine. Its one file is "f.toml".
func builtIn() map[string]shell.Tool {
	load := func(_ context.Context, file, pipeline string) (core.PipelineDef, string, error) {
		if file != "f.toml" {
			return core.PipelineDef{}, "", fmt.Errorf("no file %q", file)
		}
		return manual(pipeline), "book", nil
	}
	return map[string]shell.Tool{shell.QueueToolName: shell.QueueTool{}, shell.PipelineToolName: shell.PipelineTool{Load: load}}
}

// manual is a pipeline that waits for somebody.
func manual(name string) core.PipelineDef {
	return core.PipelineDef{Name: name, Inputs: []core.InputDef{{Name: "by"}}, Phases: []core.PhaseDef{{Name: "a", Manual: &core.ManualPhase{}}}}
}

// doing runs an action to its end, or until a minute has passed.
func doing(t *testing.T, e *shell.Engine, spec core.ActionSpec) core.Action {
	t.Helper()
	a, err := e.Actions().Create(bg(), spec)
	require.NoError(t, err)
	elapse(time.Minute)
	a = actionOf(t, e, a.ID)
	return a
}

func started(t *testing.T, e *shell.Engine, a core.Action) core.Pipeline {
	t.Helper()
	var r struct{ Pipeline uuid.UUID }
	require.NoError(t, json.Unmarshal(a.Status.Result, &r), "%+v", a.Status)
	p, err := e.Pipelines().Get(bg(), r.Pipeline)
	require.NoError(t, err)
	return p
}

func TestAnActionPushesAnItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: builtIn()})
		a := doing(t, e, core.ActionSpec{Namespace: "n", Tenant: "t", ToolName: "queue", ToolInput: json.RawMessage(`{"queue":"q","data":{"a":1},"priority":7}`)})
		items, err := e.Queues().Take(bg(), core.QueueRef("n", "t", "q"), shell.TakeOptions{Holder: "ann", Max: 2})
		require.NoError(t, err)
		require.Len(t, items, 1)
		assert.JSONEq(t, `{"a":1}`, string(items[0].Data))
		assert.EqualValues(t, 7, items[0].Priority)
		assert.JSONEq(t, fmt.Sprintf(`{"item":%q,"duplicate":false}`, items[0].ID), string(a.Status.Result))
	})
}

func TestTheBodyOfAWebhookIsWhatIsPushed(t *testing.T) {
	for body, want := range map[string]string{`{"x": [1]}`: `{"x":[1]}`, "plain text": `"plain text"`, "\xff": `"/w=="`, "": "null"} {
		synctest.Test(t, func(t *testing.T) {
			e := running(t, shell.Options{Store: inMemory(t), Tools: builtIn(), Webhooks: map[string]shell.WebhookRoute{
				"r": {Tool: "queue", ToolInput: []byte(`{"queue":"q"}`)},
			}})
			_, err := e.Webhooks().Receive(bg(), "r", nil, []byte(body))
			require.NoError(t, err)
			elapse(time.Minute)
			items, err := e.Queues().Take(bg(), core.QueueRef("", "", "q"), shell.TakeOptions{Holder: "ann"})
			require.NoError(t, err, body)
			assert.JSONEq(t, want, string(items[0].Data))
		})
	}
}

// Who runs once more, since nobody knows how far it came, pushes and starts
// nothing twice.
func TestARepeatedRunOfAnOccurrencePushesAndStartsNothingTwice(t *testing.T) {
	for name, input := range map[string]string{"queue": `{"queue":"q"}`, "pipeline": `{"file":"f.toml","pipeline":"p"}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tools := builtIn()
				tool := tools[name]
				tools[name] = shell.ToolFunc(func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
					if _, err := tool.Run(ctx, c); err != nil {
						return nil, err
					}
					return tool.Run(ctx, c)
				})
				e := running(t, shell.Options{Store: inMemory(t), Tools: tools})
				a := doing(t, e, core.ActionSpec{ToolName: name, ToolInput: json.RawMessage(input)})
				require.Equal(t, core.StatusCompleted, a.Status.Type, "%+v", a.Status)
				if name == "queue" {
					assert.Contains(t, string(a.Status.Result), `"duplicate":true`)
					items, err := e.Queues().Take(bg(), core.QueueRef("", "", "q"), shell.TakeOptions{Holder: "ann", Max: 2})
					require.NoError(t, err)
					assert.Len(t, items, 1)
					return
				}
				all, _, err := e.Pipelines().List(bg(), shell.MachineFilter{}, shell.Page{})
				require.NoError(t, err)
				require.Len(t, all, 1)
				assert.Contains(t, string(a.Status.Result), all[0].ID.String())
			})
		})
	}
}

func TestAnActionStartsAPipeline(t *testing.T) {
	def, err := json.Marshal(manual("p"))
	require.NoError(t, err)
	for name, input := range map[string]string{
		"of a definition": `{"definition":` + string(def) + `,"inputs":{"by":"ann"},"label":"l"}`,
		"of a file":       `{"file":"f.toml","pipeline":"p","inputs":{"by":"ann"},"label":"l"}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := running(t, shell.Options{Store: inMemory(t), Tools: builtIn()})
				a := doing(t, e, core.ActionSpec{Namespace: "n", Tenant: "t", ToolName: "pipeline", ToolInput: json.RawMessage(input)})
				require.Equal(t, core.StatusCompleted, a.Status.Type, "it does not wait: %+v", a.Status)
				p := started(t, e, a)
				assert.Equal(t, core.PhaseRunning, p.Phase.Type)
				assert.Equal(t, "p", p.Definition.Name)
				assert.Equal(t, "l", p.Label)
				assert.Equal(t, "n", p.Namespace)
				assert.Equal(t, "t", p.Tenant)
				assert.JSONEq(t, `"ann"`, string(p.Context["by"]))
			})
		})
	}
}

// What a file declares is known once it is read.
func TestAnActionWithAMisspeltInputStartsNoPipelineOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := manual("p")
		def.Inputs = []core.InputDef{{Name: "branch"}}
		load := func(context.Context, string, string) (core.PipelineDef, string, error) { return def, "", nil }
		e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"pipeline": shell.PipelineTool{Load: load}}})
		a := doing(t, e, core.ActionSpec{Namespace: "n", Tenant: "t", ToolName: "pipeline", ToolInput: json.RawMessage(`{"file":"f.toml","inputs":{"brnch":"main"}}`)})
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Equal(t, `tool_input.inputs.brnch: pipeline "p" declares no input "brnch": did you mean "branch"?`, a.Status.Reason)
	})
}

func TestTheBodyOfAWebhookIsAnInputOfThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: builtIn(), Webhooks: map[string]shell.WebhookRoute{
			"r": {Tool: "pipeline", ToolInput: []byte(`{"file":"f.toml","pipeline":"p","payload_as":"by"}`)},
		}})
		_, err := e.Webhooks().Receive(bg(), "r", nil, []byte(`{"x":1}`))
		require.NoError(t, err)
		elapse(time.Minute)
		all, _, err := e.Pipelines().List(bg(), shell.MachineFilter{}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.JSONEq(t, `{"x":1}`, string(all[0].Context["by"]))
	})
}

func TestAnActionThatWaitsEndsAsItsPipelineDoes(t *testing.T) {
	for name, row := range map[string]struct {
		event core.PipelineEvent
		want  core.StatusType
	}{
		"done":      {core.PhaseComplete{Phase: "a"}, core.StatusCompleted},
		"failed":    {core.PhaseFailed{Phase: "a", Error: "no luck"}, core.StatusFailed},
		"cancelled": {core.PipelineCancel{Reason: "no luck"}, core.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := running(t, shell.Options{Store: inMemory(t), Tools: builtIn()})
				a := doing(t, e, core.ActionSpec{ToolName: "pipeline", ToolInput: json.RawMessage(`{"file":"f.toml","pipeline":"p","wait":true}`)})
				require.Equal(t, core.StatusRunning, a.Status.Type)
				all, _, err := e.Pipelines().List(bg(), shell.MachineFilter{}, shell.Page{})
				require.NoError(t, err)
				require.Len(t, all, 1)
				_, err = e.Pipelines().Send(bg(), all[0].ID, row.event)
				require.NoError(t, err)
				elapse(time.Minute)
				a = actionOf(t, e, a.ID)
				assert.Equal(t, row.want, a.Status.Type)
				if row.want == core.StatusFailed {
					assert.Contains(t, a.Status.Reason, all[0].ID.String()+" is "+name)
					assert.Contains(t, a.Status.Reason, "no luck")
				}
			})
		})
	}
}

func TestACancelledActionCancelsThePipelineForWhichItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: builtIn()})
		a := doing(t, e, core.ActionSpec{ToolName: "pipeline", ToolInput: json.RawMessage(`{"file":"f.toml","pipeline":"p","wait":true}`)})
		_, err := e.Actions().Cancel(bg(), a.ID, "enough")
		require.NoError(t, err)
		elapse(time.Minute)
		all, _, err := e.Pipelines().List(bg(), shell.MachineFilter{}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.Equal(t, core.PhaseCancelled, all[0].Phase.Type)
	})
}

func TestInputsOfTheBuiltInToolsAreCheckedBeforeTheActionIsStored(t *testing.T) {
	for _, row := range []struct{ tool, input, want string }{
		{"queue", `{}`, "tool_input.queue: missing: give the name of the queue"},
		{"queue", `{"queue":"q","prio":1}`, "prio"},
		{"queue", `{"queue":"q","delay_ms":-1}`, "tool_input.delay_ms: -1"},
		{"pipeline", `{}`, "tool_input: give either definition or file"},
		{"pipeline", `{"definition":{"name":"p","phases":[]},"file":"f.toml"}`, "tool_input: give either definition or file"},
		{"pipeline", `{"definition":{"name":"p","phases":[]}}`, "tool_input.definition: phases: 0 phases"},
		{"pipeline", `{"definition":{"name":"p","phases":[{"name":"a","manual":{}}]},"pipeline":"p"}`, "tool_input.pipeline: names a pipeline of a file"},
	} {
		tool, ok := builtIn()[row.tool].(shell.InputValidator)
		require.True(t, ok)
		assert.ErrorContains(t, tool.ValidateInput(json.RawMessage(row.input)), row.want, row.input)
	}
	err := shell.PipelineTool{}.ValidateInput(json.RawMessage(`{"file":"f.toml"}`))
	require.ErrorContains(t, err, "no runbook files can be read here")
	def := `{"name":"p","inputs":[{"name":"by","required":true}],"phases":[{"name":"a","manual":{}}]}`
	require.Error(t, shell.PipelineTool{}.ValidateInput(json.RawMessage(`{"definition":`+def+`}`)))
	require.NoError(t, shell.PipelineTool{}.ValidateInput(json.RawMessage(`{"definition":`+def+`,"payload_as":"by"}`)), "the webhook will give it")
	for _, given := range []string{`"inputs":{"bye":"ann"}`, `"payload_as":"bye"`} {
		err = shell.PipelineTool{}.ValidateInput(json.RawMessage(`{"definition":` + def + `,` + given + `}`))
		require.EqualError(t, err, `tool_input.inputs.bye: pipeline "p" declares no input "bye": did you mean "by"?`)
	}
}
