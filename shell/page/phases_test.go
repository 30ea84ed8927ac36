package page_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAPhaseSaysThatItsAttemptsAreLookedForAmongTheNewestAlsoIfNoneIsFound(t *testing.T) {
	k := newKit(t)
	phases := map[string]string{"action": `"run":{"tool":"echo","input":"x"}`, "task": `"task":{"command":["agent"]}`}
	made := make(map[string]string)
	for what, does := range phases {
		made[what] = k.make("/v1/pipelines", `{"definition":{"name":"release","phases":[{"name":"build",`+does+`}]}}`)
	}
	k.until("/v1/pipelines/"+made["action"], "phase.type", "done")
	phase := "/phases/build"
	assert.Contains(t, k.text("/pipelines/"+made["action"]+phase), "Output of action")
	assert.NotContains(t, k.text("/pipelines/"+made["action"]+phase), "Among the newest", "all of them were looked through")
	k.write("POST", "/v1/actions/batch", `{"actions":[`+strings.TrimSuffix(strings.Repeat(`{"tool_name":"echo",`+farAway+`},`, 498), ",")+`]}`)
	assert.NotContains(t, k.text("/pipelines/"+made["action"]+phase), "Among the newest")
	k.make("/v1/actions", `{"tool_name":"hold"}`)
	assert.NotContains(t, k.text("/pipelines/"+made["action"]+phase), "Among the newest", "it has another tool")
	for range 2 {
		k.make("/v1/actions", `{"tool_name":"echo",`+farAway+`}`)
	}
	shown := k.text("/pipelines/" + made["action"] + phase)
	assert.Contains(t, shown, "What it has started Among the newest 500 actions of the tenant with this tool: what is older is not shown. None of them was started by this phase.")
	assert.Contains(t, k.text("/pipelines/"+made["task"]+phase), "Tasks that it has started")
	for range 500 {
		k.make("/v1/tasks", `{}`)
	}
	assert.Contains(t, k.text("/pipelines/"+made["task"]+phase), "Among the newest 500 tasks of the tenant: what is older is not shown. None of them was started by this phase.")
}
