package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestListsOfSchedulesAreNarrowedByStateAndName(t *testing.T) {
	clock := newClock()
	a := start(t, setup{api: func(o *httpapi.Options) { withJobs(o); o.Clock = clock }})
	for name, rest := range map[string]string{"on": "", "resting": `,"enabled":false`, "over": `,"enabled":false,"ends_at":"2090-01-01T00:00:00Z"`} {
		r := a.do("POST", "/v1/recurring", `{"namespace":"default","tenant":"default","provider":"echo","action_type":"x","cron_expr":"0 9 * * *","description":"Recurring `+name+`"`+rest+`}`)
		require.Equal(t, http.StatusCreated, r.status, r.body)
		r = a.do("PUT", "/v1/jobs/"+name, `{"schedule":"0 9 * * *","name":"Job `+name+`","pod_spec":{"containers":[{}]}`+strings.ReplaceAll(rest, `,"enabled":false`, "")+`}`)
		require.Equal(t, http.StatusCreated, r.status, r.body)
		if rest != "" {
			require.Equal(t, http.StatusOK, a.do("POST", "/v1/jobs/"+name+"/pause", `{}`).status)
		}
	}
	for _, label := range []string{"Some label", ""} {
		r := a.do("POST", "/v1/actions", `{"tool_name":"echo","action_type":"thing","label":"`+label+`"}`)
		require.Equal(t, http.StatusCreated, r.status, r.body)
	}
	clock.advance(70 * 365 * 24 * 3600e9)
	count := func(path, field string) int {
		r := a.do("GET", path, nil)
		require.Equal(t, http.StatusOK, r.status, r.body)
		return len(r.object()[field].([]any))
	}
	for query, want := range map[string]int{"state=on": 1, "state=paused": 1, "state=ended": 1, "name=OVER": 1, "name=over&state=on": 0, "name=r": 3, "": 3} {
		assert.Equal(t, want, count("/v1/recurring?all=true&"+query, "recurring_actions"), query)
		if query != "name=r" {
			assert.Equal(t, want, count("/v1/jobs?"+query, "jobs"), query)
		}
	}
	assert.Equal(t, 1, strings.Count(a.do("GET", "/v1/recurring?all=true", nil).body, `"ended":true`))
	assert.Equal(t, 1, strings.Count(a.do("GET", "/v1/jobs", nil).body, `"ended":true`))
	assert.Equal(t, 0, count("/v1/recurring?all=true&enabled=true&state=paused", "recurring_actions"), "both must hold")
	assert.Equal(t, 1, count("/v1/actions?name=some", "actions"))
	assert.Equal(t, 1, count("/v1/actions?name=echo%20th", "actions"), "what has no label is called by its tool and type")
	for _, path := range []string{"/v1/recurring?all=true&state=moon", "/v1/jobs?state=moon"} {
		r := a.do("GET", path, nil)
		assert.Equal(t, http.StatusBadRequest, r.status, path)
		assert.Contains(t, r.body, `state: \"moon\" is unknown: use on, paused or ended`)
	}
}
