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

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// rightsKit is an API with the tools kubernetes and pipeline, an open runner "kubernetes"
// and another one "local". The tokens: "n" has no right, "m" is bound to nothing and has
// none, "s", "g" and "l" have the one to sessions, git and the runner local, "x" has all
// three and "b" has them although it is bound to the tools echo, pipeline and kubernetes;
// "adm" is an admin's.
func rightsKit(t *testing.T) *api {
	t.Helper()
	token := func(name string, change func(*httpapi.Token)) httpapi.Token {
		k := httpapi.Token{Name: name, SHA256: httpapi.HashToken(name), Namespaces: []string{"n"}, Tenants: []string{"t"}}
		change(&k)
		return k
	}
	return start(t, setup{
		engine: func(o *shell.Options) {
			withCluster(o)
			o.Tools["kubernetes"] = shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { return c.Input, nil })
			o.Tools["starter"] = shell.PipelineTool{Load: func(context.Context, string, string) (core.PipelineDef, string, error) {
				return core.PipelineDef{}, "", nil
			}}
		},
		api: func(o *httpapi.Options) {
			withJobs(o)
			all := func(k *httpapi.Token) { k.Sessions, k.Git, k.Runners = true, true, []string{"local"} }
			o.Tokens = []httpapi.Token{
				token("n", func(*httpapi.Token) {}),
				token("m", func(k *httpapi.Token) { k.Namespaces, k.Tenants = nil, nil }),
				token("s", func(k *httpapi.Token) { k.Sessions = true }),
				token("g", func(k *httpapi.Token) { k.Git = true }),
				token("l", func(k *httpapi.Token) { k.Runners = []string{"local"} }),
				token("x", all),
				token("b", func(k *httpapi.Token) { all(k); k.Tools = []string{"echo", "starter", "kubernetes"} }),
				{Name: "adm", SHA256: httpapi.HashToken("adm"), Admin: true},
			}
		},
	})
}

// Definitions that take a right, by the right; each is the one phase of a pipeline.
var phasesOfRights = map[string]string{
	"sessions": `{"name":"x","task":{"prompt":"p","command":["sh"]}}`,
	"git":      `{"name":"x","merge":{"repo":"r","branch":"b","into":"main","strategy":"rebase"}}`,
	"local":    `{"name":"x","run":{"tool":"kubernetes","input":{"pod_spec":{"containers":[{}]},"runner":"local"}}}`,
}

// Each way to have a pipeline of one phase, which stands in the place of %s.
var waysToAPhase = map[string]struct{ request, body, field string }{
	"a pipeline":             {"POST /v1/pipelines", `{"namespace":"n","tenant":"t","hold":true,"definition":{"name":"p","phases":[%s]}}`, "definition.phases[0]"},
	"a pipeline of one":      {"POST /v1/pipelines", `{"namespace":"n","tenant":"t","hold":true,"definition":{"name":"o","phases":[{"name":"y","pipelines":{"start":[{"definition":{"name":"p","phases":[%s]}}]}}]}}`, "definition.phases[0].pipelines.start[0].definition.phases[0]"},
	"a pipeline of a tool":   {"POST /v1/pipelines", `{"namespace":"n","tenant":"t","hold":true,"definition":{"name":"o","phases":[{"name":"y","run":{"tool":"starter","input":{"definition":{"name":"p","phases":[%s]}}}}]}}`, "definition.phases[0].run.input.definition.phases[0]"},
	"an action":              {"POST /v1/actions", `{"namespace":"n","tenant":"t","tool_name":"starter","tool_input":{"definition":{"name":"p","phases":[%s]}},"trigger":{"type":"scheduled","next_tick_at":"2099-01-01T00:00:00Z"}}`, "tool_input.definition.phases[0]"},
	"a recurring action":     {"POST /v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"0 9 * * *","provider":"starter","action_type":"x","payload":{"definition":{"name":"p","phases":[%s]}}}`, "payload.definition.phases[0]"},
	"a strategy":             {"POST /v1/strategies", `{"namespace":"n","tenant":"t","approaches":[{"name":"x","action":{"command":{"tool":"starter","input":{"definition":{"name":"p","phases":[%s]}}}}}]}`, "approaches[0].action.command.input.definition.phases[0]"},
	"a job's startPipeline":  {"PUT /v1/jobs/new?namespace=n&tenant=t", `{"pod_spec":{"containers":[{}]},"constraint_config":{"Pipelines":[{"name":"p","phases":[%s]}]}}`, "constraint_config.startPipeline.phases[0]"},
	"a pod's constraints":    {"POST /v1/actions", `{"namespace":"n","tenant":"t","tool_name":"kubernetes","tool_input":{"pod_spec":{"containers":[{}]},"constraint_config":{"Pipelines":[{"name":"p","phases":[%s]}]}},"trigger":{"type":"scheduled","next_tick_at":"2099-01-01T00:00:00Z"}}`, "tool_input.constraint_config.startPipeline.phases[0]"},
	"a worker":               {"PUT /v1/workers/w?namespace=n&tenant=t", `{"queue":"q","do":{"pipeline":{"name":"p","phases":[%s]}}}`, "do.pipeline.phases[0]"},
	"a worker of a strategy": {"PUT /v1/workers/v?namespace=n&tenant=t", `{"queue":"q","do":{"strategy":{"approaches":[{"name":"x","action":{"command":{"tool":"starter","input":{"definition":{"name":"p","phases":[%s]}}}}}]}}}`, "do.strategy.approaches[0].action.command.input.definition.phases[0]"},
	"a subscriber":           {"PUT /v1/subscribers/s?namespace=n&tenant=t", `{"match":{"category":"x"},"do":{"start_pipeline":{"definition":{"name":"p","phases":[%s]}}}}`, "do.start_pipeline.definition.phases[0]"},
}

func TestEachWayToSessionsGitAndRunnersTakesTheRightOfTheToken(t *testing.T) {
	a := rightsKit(t)
	lines := map[string]string{"sessions": "sessions = true", "git": "git = true", "local": `runners = ["local"]`}
	holders := map[string][]string{"sessions": {"s", "x", "adm"}, "git": {"g", "x", "adm"}, "local": {"l", "x", "adm"}}
	without := map[string][]string{"sessions": {"n", "m", "g", "l"}, "git": {"n", "m", "s", "l"}, "local": {"n", "m", "s", "g"}}
	for way, w := range waysToAPhase {
		method, path, _ := strings.Cut(w.request, " ")
		for right, phase := range phasesOfRights {
			body := fmt.Sprintf(w.body, phase)
			for _, holder := range without[right] {
				r := a.do(method, path, body, bearer(holder))
				assert.Equal(t, http.StatusForbidden, r.status, "%s: %s by %s: %s", way, right, holder, r.body)
				assert.Contains(t, r.errorText(), w.field, "%s: %s by %s", way, right, holder)
				assert.Contains(t, r.errorText(), "that takes "+lines[right]+" for the token", "%s: %s by %s", way, right, holder)
			}
			for _, holder := range holders[right] {
				r := a.do(method, path, body, bearer(holder))
				assert.Contains(t, []int{http.StatusOK, http.StatusCreated}, r.status, "%s: %s by %s: %s", way, right, holder, r.body)
			}
		}
	}
}

func TestWhatTakesSessionsOrGitOutsideOfPhasesTakesTheRightToo(t *testing.T) {
	a := rightsKit(t)
	prompt, merge := `{"agent_prompt":{"prompt":"p","command":["sh"]}}`, `{"merge":{"repo":"r","branch":"b","into":"main","strategy":"rebase"}}`
	for _, row := range []struct{ request, body, line, holder string }{
		{"POST /v1/tasks", `{"namespace":"n","tenant":"t"}`, "sessions = true", "s"},
		{"POST /v1/strategies", `{"namespace":"n","tenant":"t","approaches":[{"name":"x","action":` + prompt + `}]}`, "sessions = true", "s"},
		{"POST /v1/strategies", `{"namespace":"n","tenant":"t","approaches":[{"name":"x","action":` + merge + `}]}`, "git = true", "g"},
		{"POST /v1/strategies", `{"namespace":"n","tenant":"t","approaches":[{"name":"x","action":{"merge":{"repo":"r","branch":"b","into":"main","strategy":"agent","agent":{"prompt":"p","command":["sh"]}}}}]}`, "git = true", "x"},
		{"PUT /v1/workers/w?namespace=n&tenant=t", `{"queue":"q","do":{"task":{"prompt":"p","command":["sh"]}}}`, "sessions = true", "s"},
		{"PUT /v1/workers/w?namespace=n&tenant=t", `{"queue":"q","do":{"strategy":{"approaches":[{"name":"x","action":` + merge + `}]}}}`, "git = true", "g"},
		{"POST /v1/pipelines", `{"namespace":"n","tenant":"t","hold":true,"definition":{"name":"p","phases":[{"name":"x","worktree":{"op":"add","repo":"r","branch":"b","path":"w"}}]}}`, "git = true", "g"},
		{"PUT /v1/jobs/j?namespace=n&tenant=t", `{"pod_spec":{"containers":[{}]},"runner":"local"}`, `runners = ["local"]`, "l"},
	} {
		method, path, _ := strings.Cut(row.request, " ")
		for _, holder := range []string{"n", "m"} {
			r := a.do(method, path, row.body, bearer(holder))
			assert.Equal(t, http.StatusForbidden, r.status, "%s by %s: %s", row.request, holder, r.body)
			assert.Contains(t, r.errorText(), "that takes "+row.line+" for the token", row.request)
		}
		r := a.do(method, path, row.body, bearer(row.holder))
		assert.Contains(t, []int{http.StatusOK, http.StatusCreated}, r.status, "%s: %s", row.request, r.body)
	}
}

func TestAMergeByAnAgentTakesBothRights(t *testing.T) {
	a := rightsKit(t)
	body := `{"approaches":[{"name":"x","action":{"merge":{"repo":"r","branch":"b","into":"main","strategy":"agent","agent":{"prompt":"p","command":["sh"]}}}}]}`
	r := a.do("POST", "/v1/strategies", body, bearer("g"))
	assert.Equal(t, http.StatusForbidden, r.status)
	assert.Contains(t, r.errorText(), `approaches[0].action.merge.agent: the token "g" may not start a terminal session: that takes sessions = true for the token`)
	assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/strategies", body, bearer("x")).status)
}

func TestTheSessionOfATaskIsTypedIntoWithTheRightToSessionsOnly(t *testing.T) {
	a := rightsKit(t)
	made := a.do("POST", "/v1/tasks", `{}`, bearer("s"))
	require.Equal(t, http.StatusCreated, made.status, made.body)
	at := made.header.Get("Location")
	for _, path := range []string{at + "/input", at + "/recover"} {
		for _, holder := range []string{"n", "m", "g", "l"} {
			r := a.do("POST", path, `{}`, bearer(holder))
			assert.Equal(t, http.StatusForbidden, r.status, "%s by %s: %s", path, holder, r.body)
			assert.Contains(t, r.errorText(), "that takes sessions = true for the token", path)
		}
		assert.NotEqual(t, http.StatusForbidden, a.do("POST", path, `{}`, bearer("s")).status, path)
	}
	assert.Equal(t, http.StatusOK, a.do("GET", at, nil, bearer("n")).status, "it may be looked at")
	assert.Equal(t, http.StatusOK, a.do("POST", at+"/cancel", nil, bearer("n")).status, "it may be ended")
}

func TestAJobOnARunnerThatTheTokenMayNotUseIsNotSetGoing(t *testing.T) {
	a := rightsKit(t)
	kicks := `{"pod_spec":{"containers":[{}]},"constraint_config":{"Jobs":["far"]}}`
	for _, made := range [][2]string{{"far", `{"pod_spec":{"containers":[{}]},"runner":"local"}`}, {"near", `{"pod_spec":{"containers":[{}]}}`}, {"onwards", kicks}} {
		r := a.do("PUT", "/v1/jobs/"+made[0]+"?namespace=n&tenant=t", made[1], bearer("adm"))
		require.Equal(t, http.StatusCreated, r.status, r.body)
	}
	require.Equal(t, http.StatusOK, a.do("POST", "/v1/jobs/far/pause", nil, bearer("n")).status, "it may be stopped")
	for _, request := range []string{"POST /v1/jobs/far/trigger", "POST /v1/jobs/far/resume", "POST /v1/jobs/onwards/trigger", "PUT /v1/jobs/again " + kicks} {
		parts := strings.SplitN(request, " ", 3)
		var body any
		if len(parts) > 2 {
			body = parts[2]
		}
		r := a.do(parts[0], parts[1], body, bearer("n"))
		assert.Equal(t, http.StatusForbidden, r.status, "%s: %s", request, r.body)
		assert.Contains(t, r.errorText(), `runner: the token "n" may not use the runner "local": that takes runners = ["local"] for the token`, request)
		assert.Less(t, a.do(parts[0], parts[1], body, bearer("l")).status, 300, request)
	}
	assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/jobs/near/trigger", nil, bearer("n")).status, "an open runner takes no right")
}

func TestWhatOnlyTheContextKnowsTakesNoRunnerAndNoTool(t *testing.T) {
	a := rightsKit(t)
	pipeline := func(run string) string {
		return `{"hold":true,"context":{"c":"x"},"definition":{"name":"p","inputs":[{"name":"c"}],"phases":[{"name":"x","run":` + run + `}]}}`
	}
	for run, says := range map[string]string{
		`{"tool":"${c}"}`: "run.tool: the token \"x\" is not an admin's, and the server cannot tell which tool the reference stands for",
		`{"tool":"kubernetes","input":{"pod_spec":{"containers":[{}]},"runner":"${c}"}}`: "run.input.runner: the token \"x\" is not an admin's, and the server cannot tell what the reference stands for",
		`{"tool":"kubernetes","input":{"job":"${c}"}}`:                                   "run.input.job: the token",
		`{"tool":"kubernetes","input":"${c}"}`:                                           "run.input: the token \"x\" is not an admin's, and the server cannot tell what kubernetes would do",
		`{"tool":"starter","input":"${c}"}`:                                              "run.input: the token \"x\" is not an admin's, and the server cannot tell what starter would start",
		`{"tool":"starter","input":{"definition":"${c}"}}`:                               "run.input: the token \"x\" is not an admin's, and the server cannot tell what starter would start",
	} {
		r := a.do("POST", "/v1/pipelines", pipeline(run), bearer("x"))
		assert.Equal(t, http.StatusForbidden, r.status, "%s: %s", run, r.body)
		assert.Contains(t, r.errorText(), says, run)
	}
	for _, run := range []string{`{"tool":"echo","input":"${c}"}`, `{"tool":"kubernetes","input":{"pod_spec":{"containers":[{"name":"${c}"}]}}}`} {
		r := a.do("POST", "/v1/pipelines", pipeline(run), bearer("n"))
		assert.Equal(t, http.StatusCreated, r.status, "%s: %s", run, r.body)
	}
}

func TestAPipelineOfAFileTakesAllThatItMightDo(t *testing.T) {
	a := rightsKit(t)
	action := `{"namespace":"n","tenant":"t","tool_name":"starter","tool_input":{"file":"release.toml"},"trigger":{"type":"scheduled","next_tick_at":"2099-01-01T00:00:00Z"}}`
	for _, holder := range []string{"n", "m", "s", "g"} {
		r := a.do("POST", "/v1/actions", action, bearer(holder))
		assert.Equal(t, http.StatusForbidden, r.status, r.body)
		assert.Contains(t, r.errorText(), "tool_input.file: the token \""+holder+"\" may not start pipelines of files, which may do anything: that takes sessions = true and git = true for the token; or give definition")
	}
	for _, holder := range []string{"x", "b", "adm"} {
		r := a.do("POST", "/v1/actions", action, bearer(holder))
		assert.Equal(t, http.StatusCreated, r.status, r.body)
	}
}

func TestATokenOfToolsWithARightMayUseAndSeesWhatTakesIt(t *testing.T) {
	a := rightsKit(t)
	for _, phase := range phasesOfRights {
		made := a.do("POST", "/v1/pipelines", fmt.Sprintf(waysToAPhase["a pipeline"].body, phase), bearer("b"))
		require.Equal(t, http.StatusCreated, made.status, made.body)
		assert.Equal(t, http.StatusOK, a.do("GET", made.header.Get("Location"), nil, bearer("b")).status)
	}
	made := a.do("POST", "/v1/tasks", `{}`, bearer("b"))
	require.Equal(t, http.StatusCreated, made.status, made.body)
	assert.Equal(t, http.StatusOK, a.do("GET", made.header.Get("Location"), nil, bearer("b")).status)
	r := a.do("POST", "/v1/pipelines", fmt.Sprintf(waysToAPhase["a pipeline"].body, `{"name":"x","run":{"tool":"hold"}}`), bearer("b"))
	assert.Equal(t, http.StatusForbidden, r.status)
	assert.Contains(t, r.errorText(), `"hold" is not one of the token's tools`)
}

func TestATokenWithoutARightStillSeesWhatOthersOfItsTenantMadeWithIt(t *testing.T) {
	a := rightsKit(t)
	for right, phase := range phasesOfRights {
		made := a.do("POST", "/v1/pipelines", fmt.Sprintf(waysToAPhase["a pipeline"].body, phase), bearer("x"))
		require.Equal(t, http.StatusCreated, made.status, made.body)
		assert.Equal(t, http.StatusOK, a.do("GET", made.header.Get("Location"), nil, bearer("n")).status, right)
	}
}

func TestARunnerThatIsNotForAJobsTenantIsRefusedToEveryToken(t *testing.T) {
	a := rightsKit(t)
	const pod = `"pod_spec":{"containers":[{}]}`
	says := `runner: "theirs" is not for jobs of n/t`
	r := a.do("PUT", "/v1/jobs/j?namespace=n&tenant=t", `{`+pod+`,"runner":"theirs"}`, bearer("adm"))
	assert.Equal(t, http.StatusForbidden, r.status, r.body)
	assert.Equal(t, says, r.errorText())
	assert.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j?namespace=n&tenant=they", `{`+pod+`,"runner":"theirs"}`, bearer("adm")).status)

	_, err := a.engine.Jobs().Apply(t.Context(), core.JobSpec{ID: "older", Namespace: "n", Tenant: "t", Runner: "theirs", PodSpec: json.RawMessage(`{"containers":[{}]}`)})
	require.NoError(t, err)
	for request, field := range map[string]string{
		`POST /v1/jobs/older/trigger?namespace=n&tenant=t`:                                                                      "",
		`POST /v1/jobs/older/resume?namespace=n&tenant=t`:                                                                       "",
		`POST /v1/actions {"namespace":"n","tenant":"t","tool_name":"kubernetes","tool_input":{` + pod + `,"runner":"theirs"}}`: "tool_input.",
		`POST /v1/actions {"namespace":"n","tenant":"t","tool_name":"kubernetes","tool_input":{"job":"older"}}`:                 `tool_input.job: job "older": `,
	} {
		parts := strings.SplitN(request, " ", 3)
		var body any
		if len(parts) > 2 {
			body = parts[2]
		}
		r := a.do(parts[0], parts[1], body, bearer("adm"))
		assert.Equal(t, http.StatusForbidden, r.status, "%s: %s", request, r.body)
		assert.Equal(t, field+says, r.errorText(), request)
	}
}
