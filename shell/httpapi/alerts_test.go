package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// alerting is an API with a recurring action and a job that have alerts, both of tenant a; paths are theirs.
func alerting(t *testing.T, change ...func(*httpapi.Options)) (a *api, paths []string) {
	t.Helper()
	a = start(t, setup{api: func(o *httpapi.Options) {
		withJobs(o)
		for _, c := range change {
			c(o)
		}
	}})
	recurring, err := a.engine.Recurring().Create(t.Context(), core.RecurringSpec{
		Namespace: "default", Tenant: "a", Name: "nightly", CronExpr: "0 2 1 1 *", Enabled: true, ActionTemplate: core.RecurringActionTemplate{Provider: "echo", ActionType: "x"},
		ScheduleOptions: core.ScheduleOptions{Alerts: core.AlertRules{Failing: 1}},
	})
	require.NoError(t, err)
	_, err = a.engine.Jobs().Apply(t.Context(), core.JobSpec{
		ID: "report", Namespace: "default", Tenant: "a", PodSpec: []byte(`{"containers":[{"name":"main"}]}`), ScheduleOptions: core.ScheduleOptions{Alerts: core.AlertRules{Failing: 1}},
	})
	require.NoError(t, err)
	return a, []string{"/v1/recurring/" + recurring.ID.String(), "/v1/jobs/report"}
}

const ofTenantA = "?tenant=a"

// listedAlerts gives the names of the alerts that a list has, each with its status.
func (a *api) listedAlerts(query string, opts ...func(*http.Request)) (names []string) {
	a.t.Helper()
	r := a.do("GET", "/v1/alerts"+query, nil, opts...)
	require.Equal(a.t, http.StatusOK, r.status, r.body)
	for _, v := range r.object()["alerts"].([]any) {
		one := v.(map[string]any)
		names = append(names, fmt.Sprint(one["name"], " ", one["status"]))
	}
	return names
}

func TestTheAlertsOfAScheduleAreShownSilencedAndToldAgain(t *testing.T) {
	a, paths := alerting(t)
	for _, path := range paths {
		of := path + "/alerts" + ofTenantA
		if strings.HasPrefix(path, "/v1/recurring/") {
			of = path + "/alerts"
		}
		silence, unsilence := strings.Replace(of, "/alerts", "/silence", 1), strings.Replace(of, "/alerts", "/unsilence", 1)
		r := a.do("GET", of, nil)
		require.Equal(t, http.StatusOK, r.status, r.body)
		assert.Equal(t, core.AlertQuiet, r.str("status"))

		r = a.do("POST", silence, `{"reason":"no end"}`)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Contains(t, r.errorText(), `until: missing: say until when nobody is told, such as "20`)
		r = a.do("POST", silence, `{"until":"2001-01-01T00:00:00Z"}`)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Contains(t, r.errorText(), "until: 2001-01-01T00:00:00.000Z is not in the future")
		r = a.do("POST", silence, `{"until":"2090-01-01T00:00:00Z","reason":"the database moves"}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
		silenced := r.object()["silenced"].(map[string]any)
		assert.Equal(t, "2090-01-01T00:00:00.000Z", silenced["until"])
		assert.Equal(t, "api:loopback", silenced["by"])
		assert.Equal(t, "the database moves", silenced["reason"])
		assert.Equal(t, silenced, a.do("GET", of, nil).object()["silenced"])

		r = a.do("POST", unsilence, `{"until":"2090-01-01T00:00:00Z"}`)
		assert.Equal(t, http.StatusBadRequest, r.status, "it takes no body: %s", r.body)
		r = a.do("POST", unsilence, nil)
		require.Equal(t, http.StatusOK, r.status, r.body)
		assert.Nil(t, r.object()["silenced"])
		r = a.do("POST", unsilence, nil)
		assert.Equal(t, http.StatusConflict, r.status)
		assert.Contains(t, r.errorText(), "are not silenced")
	}
}

func TestAScheduleWithoutRulesHasNoAlerts(t *testing.T) {
	a := start(t, setup{api: withJobs})
	id := a.do("POST", "/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"0 2 1 1 *","provider":"echo","action_type":"x"}`).str("recurring_id")
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/plain", plainJob).status)
	for _, path := range []string{"/v1/recurring/" + id, "/v1/jobs/plain"} {
		r := a.do("GET", path+"/alerts", nil)
		assert.Equal(t, http.StatusNotFound, r.status)
		assert.Equal(t, `alerts: the schedule has none: give it rules first, such as "alerts": {"failing": 3}`, r.errorText())
		r = a.do("POST", path+"/silence", `{"until":"2090-01-01T00:00:00Z"}`)
		assert.Equal(t, http.StatusNotFound, r.status, r.body)
	}
	assert.Equal(t, http.StatusNotFound, a.do("GET", "/v1/jobs/none/alerts", nil).status)
	assert.Empty(t, a.listedAlerts(""))
}

func TestWhoSeesAScheduleSeesItsAlerts(t *testing.T) {
	a, paths := alerting(t, func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{
			{Name: "all", SHA256: httpapi.HashToken("all")}, {Name: "a", SHA256: httpapi.HashToken("a"), Tenants: []string{"a"}}, {Name: "b", SHA256: httpapi.HashToken("b"), Tenants: []string{"b"}},
			{Name: "echo", SHA256: httpapi.HashToken("echo"), Tools: []string{"echo"}}, {Name: "jobs", SHA256: httpapi.HashToken("jobs"), Tools: []string{"kubernetes"}},
			{Name: "other", SHA256: httpapi.HashToken("other"), Tools: []string{"hold"}}, {Name: "viewer", SHA256: httpapi.HashToken("viewer"), ReadOnly: true},
		}
	})
	for token, want := range map[string][]string{
		"all": {"report quiet", "nightly quiet"}, "a": {"report quiet", "nightly quiet"}, "viewer": {"report quiet", "nightly quiet"}, "b": nil, "echo": {"nightly quiet"}, "jobs": {"report quiet"}, "other": nil,
	} {
		assert.ElementsMatch(t, want, a.listedAlerts("", bearer(token)), token)
	}
	for _, path := range []string{paths[0] + "/silence", paths[0] + "/unsilence", paths[1] + "/silence" + ofTenantA, paths[1] + "/unsilence" + ofTenantA} {
		var body any
		if strings.Contains(path, "/silence") {
			body = `{"until":"2090-01-01T00:00:00Z"}`
		}
		assert.Equal(t, http.StatusForbidden, a.do("POST", path, body, bearer("viewer")).status, path)
		assert.Equal(t, http.StatusOK, a.do("POST", path, body, bearer("a")).status, path)
	}
}

func TestAlertsAreListedByTheirStatusAndTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := alerting(t)
		id := a.do("POST", "/v1/recurring", `{"namespace":"default","tenant":"b","cron_expr":"0 2 1 1 *","provider":"fail","action_type":"x","name":"books","alerts":{"failing":1}}`).str("recurring_id")
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/recurring/"+id+"/trigger", nil).status)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"books open"}, a.listedAlerts("?namespace=default&tenant=b&status=open"))
		assert.Empty(t, a.listedAlerts("?namespace=default&tenant=b&status=quiet"))
		assert.ElementsMatch(t, []string{"report quiet", "nightly quiet"}, a.listedAlerts("?namespace=default&tenant=a&status=quiet"))
		assert.ElementsMatch(t, []string{"report quiet", "nightly quiet", "books open"}, a.listedAlerts(""))
		r := a.do("GET", "/v1/alerts?status=loud", nil)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Contains(t, r.errorText(), `status: "loud" is unknown`)
	})
}
