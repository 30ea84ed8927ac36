package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestWhatComesNextIsToldInItsOrderWhateverItsKind(t *testing.T) {
	a := start(t, setup{api: withJobs})
	recurring := func(tenant, cron, name, more string) {
		r := a.do("POST", "/v1/recurring", `{"namespace":"default","tenant":"`+tenant+`","provider":"echo","action_type":"x","cron_expr":"`+cron+`","description":"`+name+`"`+more+`}`)
		require.Equal(t, http.StatusCreated, r.status, r.body)
	}
	recurring("default", "0 0 0 1 1 * 2090", "last", "")
	recurring("other", "0 0 0 1 1 * 2085", "theirs", "")
	recurring("default", "0 0 0 1 1 * 2080", "first", "")
	recurring("default", "0 0 0 1 1 * 2070", "paused", `,"enabled":false`)
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", `{"schedule":"0 0 0 1 1 * 2082","name":"a job","pod_spec":{"containers":[{}]}}`).status)
	require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", `{"tool_name":"echo","label":"periodic","trigger":{"type":"scheduled","next_tick_at":"2081-01-01T00:00:00Z"},"recurrence":3600}`).status)
	require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", `{"tool_name":"echo","label":"once","trigger":{"type":"scheduled","next_tick_at":"2081-01-01T00:00:00Z"}}`).status)

	names := func(query string) (list []string) {
		r := a.do("GET", "/v1/upcoming?"+query, nil)
		require.Equal(t, http.StatusOK, r.status, r.body)
		for _, u := range r.object()["schedules"].([]any) {
			list = append(list, u.(map[string]any)["name"].(string))
		}
		return list
	}
	assert.Empty(t, names(""), "nothing is due in the next hour")
	assert.Equal(t, []string{"first", "periodic", "a job", "theirs", "last"}, names("until=2099-01-01T00:00:00Z"))
	assert.Equal(t, []string{"first", "periodic"}, names("until=2082-01-01T00:00:00Z"), "until is exclusive")
	assert.Equal(t, []string{"theirs"}, names("until=2099-01-01T00:00:00Z&namespace=default&tenant=other"))
	assert.Equal(t, []string{"a job"}, names("until=2099-01-01T00:00:00Z&kind=job"))
	assert.Equal(t, []string{"first", "theirs", "last"}, names("until=2099-01-01T00:00:00Z&kind=recurring"))
	assert.Equal(t, []string{"first"}, names("until=2099-01-01T00:00:00Z&limit=1"))
	assert.Contains(t, a.do("GET", "/v1/upcoming?until=2099-01-01T00:00:00Z&limit=1", nil).body, `"more":true`)
	assert.Contains(t, a.do("GET", "/v1/upcoming?until=2099-01-01T00:00:00Z&limit=5", nil).body, `"more":false`)

	job := a.do("GET", "/v1/upcoming?until=2082-01-01T00:00:00.001Z&kind=job", nil).object()["schedules"].([]any)[0]
	assert.Equal(t, map[string]any{
		"kind": "job", "id": "j", "name": "a job", "namespace": "default", "tenant": "default", "cron_expr": "0 0 0 1 1 * 2082", "timezone": "UTC",
		"due_at": "2082-01-01T00:00:00.000Z", "times": []any{"2082-01-01T00:00:00.000Z"}, "more_times": false,
	}, job)
	for query, want := range map[string]string{
		"kind=pipeline": `kind: "pipeline" is unknown: use recurring, job or action`,
		"from=2090-01-02T00:00:00Z&until=2090-01-02T00:00:00Z": `until: 2090-01-02T00:00:00.000Z is not after from, 2090-01-02T00:00:00.000Z`,
		"until=soon": `until: time "soon" is not RFC 3339`,
		"from=x":     `from: time "x" is not RFC 3339`,
		"times=1001": "times: ",

		"times=1000&limit=101": "times: 1000 of each of 101 schedules are more than 100000: ask for fewer, or set limit",
		"limit=0":              "limit: ",
	} {
		r := a.do("GET", "/v1/upcoming?"+query, nil)
		assert.Equal(t, http.StatusBadRequest, r.status, query)
		assert.Contains(t, r.str("error"), want, query)
	}
}

func TestTheTimesOfWhatComesNextBeginWhereTheyAreAskedFor(t *testing.T) {
	a := start(t, setup{})
	for _, more := range []string{"", `,"max_executions":3`} {
		r := a.do("POST", "/v1/recurring", `{"namespace":"default","tenant":"default","provider":"echo","action_type":"x","cron_expr":"0 0 */6 1-3 1 * 2090","description":"four a day"`+more+`}`)
		require.Equal(t, http.StatusCreated, r.status, r.body)
	}
	list := a.do("GET", "/v1/upcoming?from=2090-01-02T00:00:00Z&until=2090-01-03T00:00:00Z&times=3", nil).object()["schedules"].([]any)
	require.Len(t, list, 2)
	for _, v := range list {
		u := v.(map[string]any)
		assert.Equal(t, "2090-01-01T00:00:00.000Z", u["due_at"])
		if u["more_times"] == true {
			assert.Equal(t, []any{"2090-01-02T00:00:00.000Z", "2090-01-02T06:00:00.000Z", "2090-01-02T12:00:00.000Z"}, u["times"])
			continue
		}
		assert.Empty(t, u["times"], "it has fired three times by then")
	}
}

func TestATokenIsToldWhatComesNextOfWhatItSeesAlone(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		withJobs(o)
		o.Tokens = []httpapi.Token{
			{Name: "all", SHA256: httpapi.HashToken("all"), Admin: true},
			{Name: "ours", SHA256: httpapi.HashToken("ours"), Namespaces: []string{"n"}, Tenants: []string{"a", "b"}},
			{Name: "hold", SHA256: httpapi.HashToken("hold"), Namespaces: []string{"n"}, Tenants: []string{"a"}, Tools: []string{"hold"}},
		}
	}})
	for _, of := range [][2]string{{"a", "echo"}, {"a", "hold"}, {"b", "echo"}, {"c", "echo"}} {
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/recurring", `{"namespace":"n","tenant":"`+of[0]+`","provider":"`+of[1]+`","action_type":"x","cron_expr":"0 0 1 1 *","description":"`+of[0]+" "+of[1]+`"}`, bearer("all")).status)
	}
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j?namespace=n&tenant=a", `{"schedule":"0 0 1 1 *","pod_spec":{"containers":[{}]}}`, bearer("all")).status)
	names := func(token string) (list []any) {
		for _, u := range a.do("GET", "/v1/upcoming?until=2099-01-01T00:00:00Z", nil, bearer(token)).object()["schedules"].([]any) {
			list = append(list, u.(map[string]any)["name"])
		}
		return list
	}
	assert.ElementsMatch(t, []any{"a echo", "a hold", "b echo", "c echo", "j"}, names("all"))
	assert.ElementsMatch(t, []any{"a echo", "a hold", "b echo", "j"}, names("ours"))
	assert.ElementsMatch(t, []any{"a hold"}, names("hold"))
}

func TestWhatIsDueOfOthersHidesNothingOfWhatComesNext(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "all", SHA256: httpapi.HashToken("all"), Admin: true}, {Name: "ours", SHA256: httpapi.HashToken("ours"), Namespaces: []string{"n"}, Tenants: []string{"a"}}}
	}})
	require.Equal(t, http.StatusCreated, a.do("POST", "/v1/recurring", `{"namespace":"n","tenant":"a","provider":"echo","action_type":"x","cron_expr":"0 0 0 1 1 * 2090"}`, bearer("all")).status)
	entry := `{"namespace":"n","tenant":"many","tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2089-01-01T00:00:00Z"}}`
	for range 21 {
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/actions/batch", `{"actions":[`+strings.Repeat(entry+",", 999)+entry+`]}`, bearer("all")).status)
	}
	got := a.do("GET", "/v1/upcoming?until=2099-01-01T00:00:00Z", nil, bearer("ours")).object()
	assert.Len(t, got["schedules"], 1)
	assert.Equal(t, false, got["more"])
}
