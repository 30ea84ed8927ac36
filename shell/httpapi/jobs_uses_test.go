package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// withKate is an API with the tool kubernetes and two tokens: "a" may do all in its
// tenant, "k" is bound to the tools kubernetes and echo there.
func withKate(t *testing.T) *api {
	t.Helper()
	a := start(t, setup{
		engine: func(o *shell.Options) {
			withCluster(o)
			o.Tools["kubernetes"] = shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { return c.Input, nil })
		},
		api: func(o *httpapi.Options) {
			withJobs(o)
			o.Tokens = []httpapi.Token{
				{Name: "kate", SHA256: httpapi.HashToken("k"), Namespaces: []string{"n"}, Tenants: []string{"t"}, Tools: []string{"kubernetes", "echo"}},
				{Name: "all", SHA256: httpapi.HashToken("a"), Namespaces: []string{"n"}, Tenants: []string{"t"}},
			}
		},
	})
	for id, constraints := range map[string]string{"plain": `{}`, "echoes": `{"Tools":["echo"],"Cancels":["held"]}`, "held": `{"Tools":["hold"]}`, "onwards": `{"Jobs":["held"]}`} {
		r := a.do("PUT", "/v1/jobs/"+id, `{"pod_spec":{"containers":[{}]},"constraint_config":`+constraints+`}`, bearer("a"))
		require.Equal(t, http.StatusCreated, r.status, r.body)
	}
	return a
}

// pod is an input of the tool kubernetes whose constraints reach something.
func podWith(reach string) string {
	return `{"pod_spec":{"containers":[{}]},"constraint_config":` + reach + `}`
}

func pipelineOf(input string) string {
	return fmt.Sprintf(`{"name":"p","phases":[{"name":"x","run":{"tool":"kubernetes","input":%s}}]}`, input)
}

// Each way to have the tool kubernetes run, with its input in the place of %s.
var waysToAPod = map[string]struct{ request, body, field string }{
	"an action":           {"POST /v1/actions", `{"namespace":"n","tenant":"t","tool_name":"kubernetes","tool_input":%s,"trigger":{"type":"scheduled","next_tick_at":"2099-01-01T00:00:00Z"}}`, "tool_input"},
	"a recurring action":  {"POST /v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"0 9 * * *","provider":"kubernetes","action_type":"x","payload":%s}`, "payload"},
	"a pipeline":          {"POST /v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"x","run":{"tool":"kubernetes","input":%s}}]},"hold":true,"context":{"c":{}}}`, "definition.phases[0].run.input"},
	"a pipeline of one":   {"POST /v1/pipelines", `{"definition":{"name":"o","phases":[{"name":"y","pipelines":{"start":[{"definition":{"name":"p","phases":[{"name":"x","run":{"tool":"kubernetes","input":%s}}]}}]}}]},"hold":true,"context":{"c":{}}}`, "definition.phases[0].pipelines.start[0].definition.phases[0].run.input"},
	"a strategy":          {"POST /v1/strategies", `{"approaches":[{"name":"x","action":{"command":{"tool":"kubernetes","input":%s}}}]}`, "approaches[0].action.command.input"},
	"a job's constraints": {"PUT /v1/jobs/new", `{"pod_spec":{"containers":[{}]},"constraint_config":{"Pipelines":[{"name":"p","phases":[{"name":"x","run":{"tool":"kubernetes","input":%s}}]}]}}`, "constraint_config.startPipeline.phases[0].run.input"},
}

func TestATokenOfToolsHasNothingElseDoneByWayOfAPod(t *testing.T) {
	a := withKate(t)
	for way, w := range waysToAPod {
		method, path, _ := strings.Cut(w.request, " ")
		for input, says := range map[string]string{
			podWith(`{"Tools":["hold"]}`):       `.constraint_config: "hold" is not one of the token's tools`,
			podWith(`{"Queues":["mail"]}`):      `.constraint_config: the token may only use the tools kubernetes, echo; it cannot push to the queue "mail", whose worker may do anything`,
			podWith(`{"Webhooks":true}`):        `.constraint_config: the token may only use the tools kubernetes, echo; it cannot send a webhook`,
			podWith(`{"Notify":true}`):          `.constraint_config: the token may only use the tools kubernetes, echo; it cannot send a notification`,
			podWith(`{"Tools":["kubernetes"]}`): `.constraint_config: the token is bound to tools, and the server cannot tell what kubernetes would do: `,
			podWith(`{"Pipelines":[` + pipelineOf(podWith(`{"Tools":["hold"]}`)) + `]}`):       `.constraint_config.startPipeline.phases[0].run.input.constraint_config: "hold" is not one of the token's tools`,
			podWith(`{"Pipelines":[` + pipelineOf(`{"job":"held"}`) + `]}`):                    `.constraint_config.startPipeline.phases[0].run.input.job: job "held": constraint_config: "hold" is not one of the token's tools`,
			podWith(`{"Pipelines":[` + pipelineOf(`"${c}"`) + `]}`):                            `.constraint_config`,
			podWith(`{"Jobs":["held"]}`):                                                       `.constraint_config.kickOffJob: job "held": constraint_config: "hold" is not one of the token's tools`,
			podWith(`{"Jobs":["onwards"]}`):                                                    `.constraint_config.kickOffJob: job "onwards": constraint_config.kickOffJob: job "held": constraint_config: "hold" is not`,
			podWith(`{"Jobs":["nobody"]}`):                                                     `.constraint_config.kickOffJob: the token is bound to tools, and the server cannot tell what job "nobody" would do: apply it first`,
			`{"job":"held"}`:                                                                   `.job: job "held": constraint_config: "hold" is not one of the token's tools`,
			`{"pod_spec":{"containers":[{}]},"action_config":{"a":1},"constraint_config":"x"}`: `constraint_config`,
		} {
			r := a.do(method, path, fmt.Sprintf(w.body, input), bearer("k"))
			if strings.HasSuffix(input, `"x"}`) {
				assert.Equal(t, http.StatusBadRequest, r.status, "%s %s: %s", way, input, r.body)
				continue
			}
			assert.Equal(t, http.StatusForbidden, r.status, "%s %s: %s", way, input, r.body)
			assert.Contains(t, r.errorText(), w.field+says, "%s %s", way, input)
		}
		for _, input := range []string{`{"pod_spec":{"containers":[{}]}}`, podWith(`{"Tools":["echo"],"Locks":["l"],"Jobs":["echoes","plain"],"Cancels":["held"]}`), `{"job":"echoes"}`} {
			r := a.do(method, path, fmt.Sprintf(w.body, input), bearer("k"))
			assert.Contains(t, []int{http.StatusCreated, http.StatusOK}, r.status, "%s %s: %s", way, input, r.body)
		}
		r := a.do(method, path, fmt.Sprintf(w.body, podWith(`{"Tools":["hold"],"Queues":["mail"],"Jobs":["nobody"]}`)), bearer("a"))
		assert.Contains(t, []int{http.StatusCreated, http.StatusOK}, r.status, "%s of a token that is bound to no tools: %s", way, r.body)
	}
}

func TestWhatOnlyTheContextKnowsIsNoInputOfATokenOfTools(t *testing.T) {
	a := withKate(t)
	for _, way := range []string{"a pipeline", "a pipeline of one", "a strategy", "a job's constraints"} {
		w := waysToAPod[way]
		method, path, _ := strings.Cut(w.request, " ")
		for input, says := range map[string]string{
			`"${c}"`:          `the token is bound to tools, and the server cannot tell what kubernetes would do`,
			`{"job":"${c}"}`:  `.job: the token is bound to tools, and the server cannot tell what the reference stands for`,
			`{"job":"$${c}"}`: `.job: the token is bound to tools, and the server cannot tell what the reference stands for`,
			`{"pod_spec":{"containers":[{}]},"constraint_config":{"Tools":["\u0024{c}"]}}`:    `.constraint_config: the token is bound to tools, and the server cannot tell what the reference stands for`,
			`{"pod_spec":{"containers":[{}]},"constraint_config":{"Tools":["echo","a${c}"]}}`: `.constraint_config: the token is bound to tools, and the server cannot tell what the reference stands for`,
			`{"pod_spec":{"containers":[{}]},"action_config":{"a":"${c}"}}`:                   `.action_config: the token is bound to tools, and the server cannot tell what the reference stands for`,
		} {
			r := a.do(method, path, fmt.Sprintf(w.body, input), bearer("k"))
			assert.Equal(t, http.StatusForbidden, r.status, "%s %s: %s", way, input, r.body)
			assert.Contains(t, r.errorText(), says, "%s %s", way, input)
		}
	}
	in := `{"pod_spec":{"containers":[{"name":"${c}"}]},"labels":{"a":"${c}"}}`
	w := waysToAPod["a pipeline"]
	r := a.do("POST", "/v1/pipelines", fmt.Sprintf(w.body, in), bearer("k"))
	assert.Equal(t, http.StatusCreated, r.status, "a pod may be anything: %s", r.body)
}

func TestATokenOfToolsSetsNothingGoingThatItCouldNotHaveMade(t *testing.T) {
	a := withKate(t)
	held := podWith(`{"Tools":["hold"]}`)
	made := func(way, input string) string {
		w := waysToAPod[way]
		method, path, _ := strings.Cut(w.request, " ")
		r := a.do(method, path, fmt.Sprintf(w.body, input), bearer("a"))
		require.Equal(t, http.StatusCreated, r.status, r.body)
		if way == "a recurring action" {
			return path + "/" + r.str("recurring_id")
		}
		return path + "/" + r.str("id")
	}
	recurring, action, pipeline := made("a recurring action", held), made("an action", held), made("a pipeline", held)
	other := made("a pipeline", `{"job":"held"}`)
	for _, id := range []string{"held", "onwards"} {
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/jobs/"+id+"/pause", nil, bearer("k")).status)
	}
	for _, request := range []string{
		"POST " + action + "/trigger", "POST " + recurring + "/trigger", "POST " + recurring + "/resume",
		"POST " + recurring + `/pause {"until":"2999-01-01T00:00:00Z"}`, `PUT ` + recurring + ` {"cron_expr":"* * * * *"}`,
		"POST /v1/jobs/held/trigger", "POST /v1/jobs/held/resume", "POST /v1/jobs/onwards/trigger", "POST /v1/jobs/onwards/resume",
	} {
		parts := strings.SplitN(request, " ", 3)
		var body any
		if len(parts) > 2 {
			body = parts[2]
		}
		r := a.do(parts[0], parts[1], body, bearer("k"))
		assert.Equal(t, http.StatusForbidden, r.status, "%s: %s", request, r.body)
		assert.Contains(t, r.errorText(), `"hold" is not one of the token's tools`, request)
		assert.Less(t, a.do(parts[0], parts[1], body, bearer("a")).status, 300, request)
	}
	for _, p := range []string{pipeline, other} {
		assert.Equal(t, http.StatusNotFound, a.do("GET", p, nil, bearer("k")).status)
		assert.Equal(t, http.StatusNotFound, a.do("POST", p+"/start", nil, bearer("k")).status)
	}
	list := a.do("GET", "/v1/pipelines", nil, bearer("k"))
	assert.NotContains(t, list.body, `"id"`)
	mine := made("a recurring action", `{"pod_spec":{"containers":[{}]}}`)
	r := a.do("PUT", mine, `{"payload":`+held+`}`, bearer("k"))
	assert.Equal(t, http.StatusForbidden, r.status, r.body)
	assert.Equal(t, http.StatusOK, a.do("PUT", mine, `{"payload":`+podWith(`{"Tools":["echo"]}`)+`}`, bearer("k")).status)
}

func TestJobsOfATokenOfToolsMayTriggerEachOther(t *testing.T) {
	a := withKate(t)
	apply := func(id, kicks string) answer {
		return a.do("PUT", "/v1/jobs/"+id, podWith(`{"Jobs":["`+kicks+`"]}`), bearer("k"))
	}
	assert.Equal(t, http.StatusCreated, apply("one", "one").status, "itself")
	assert.Equal(t, http.StatusCreated, apply("two", "one").status)
	assert.Equal(t, http.StatusOK, apply("one", "two").status)
	assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/jobs/two/trigger", nil, bearer("k")).status)
}

func TestAPipelineIsStillSeenOnceTheJobThatItTriggersIsGone(t *testing.T) {
	a := withKate(t)
	made := a.do("POST", "/v1/pipelines", fmt.Sprintf(waysToAPod["a pipeline"].body, `{"job":"plain"}`), bearer("k"))
	require.Equal(t, http.StatusCreated, made.status, made.body)
	require.Equal(t, http.StatusNoContent, a.do("DELETE", "/v1/jobs/plain", nil, bearer("k")).status)
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/pipelines/"+made.str("id"), nil, bearer("k")).status)
}
