package httpapi_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

func TestAJobIsPausedUntilATimeAndResumesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: withJobs})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", `{"schedule":"* * * * *","pod_spec":{"containers":[{"name":"main"}]}}`).status)
		r := a.do("POST", "/v1/jobs/j/pause", map[string]any{"until": effects.TimeOf(time.Now().Add(-time.Minute))})
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Contains(t, r.errorText(), "is not in the future; it is ")

		until := effects.TimeOf(time.Now().Truncate(time.Minute).Add(5 * time.Minute))
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/jobs/j/pause", map[string]any{"reason": "holidays", "until": until}).status)
		scope := shell.Scope{Namespace: "default", Tenant: "default"}
		j, err := a.engine.Jobs().Get(t.Context(), scope, "j")
		require.NoError(t, err)
		assert.Equal(t, until, j.PausedUntil)
		assert.Equal(t, until, j.Upcoming(effects.TimeOf(time.Now()), 1, nil)[0])

		<-time.After(6 * time.Minute)
		synctest.Wait()
		j, err = a.engine.Jobs().Get(t.Context(), scope, "j")
		require.NoError(t, err)
		assert.False(t, j.Paused)
		list, _, err := a.engine.Jobs().History(t.Context(), scope, "j", shell.Page{})
		require.NoError(t, err)
		paused := uint64(0)
		for _, o := range list {
			if o.Verdict == core.VerdictSkipped {
				paused += o.Count
				assert.Equal(t, "paused by api:loopback: holidays", o.Reason)
				assert.Less(t, o.LastDueAt, until)
			}
		}
		assert.GreaterOrEqual(t, paused, uint64(4))
		assert.Positive(t, j.Counts.Dispatched, "the time at the end of the pause runs")
	})
}

func TestAnEditAnswersWithTheNextTimesBeforeAndAfterIt(t *testing.T) {
	a := start(t, setup{engine: withCluster, api: withJobs})
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", `{"schedule":"0 0 3 1 1 ? 2090","pod_spec":{"containers":[{"name":"main"}]}}`).status)
	for _, query := range []string{"?dry_run=true", ""} {
		r := a.do("PUT", "/v1/jobs/j"+query, `{"schedule":"0 0 4 1 1 ? 2090","pod_spec":{"containers":[{"name":"main"}]}}`)
		require.Equal(t, http.StatusOK, r.status)
		assert.Contains(t, r.body, `"next_times_before":["2090-01-01T03:00:00.000Z"]`)
		assert.Contains(t, r.body, `"next_times":["2090-01-01T04:00:00.000Z"]`)
	}
}

func TestAJobRunsAtNoTimeThatItsCalendarsLeaveOut(t *testing.T) {
	a := start(t, setup{engine: withCluster, api: withJobs})
	const job = `{"schedule":"0 0 3 1,2 1 ? 2090","calendars":["holidays"],"pod_spec":{"containers":[{"name":"main"}]}}`
	for _, query := range []string{"?dry_run=true", ""} {
		r := a.do("PUT", "/v1/jobs/j"+query, job)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Equal(t, `calendars[0]: the tenant has no calendar "holidays": create it first`, r.errorText())
	}
	_, err := a.engine.Calendars().Create(t.Context(), core.CalendarSpec{
		Namespace: "default", Tenant: "default", Name: "holidays", Exclude: core.CalendarDays{Dates: []core.CalendarDate{{Date: "2090-01-01"}}},
	})
	require.NoError(t, err)
	r := a.do("PUT", "/v1/jobs/j", job)
	require.Equal(t, http.StatusCreated, r.status)
	assert.Contains(t, r.body, `"next_times":["2090-01-02T03:00:00.000Z"]`)
	assert.Contains(t, a.do("GET", "/v1/jobs/j", nil).body, `"next_times":["2090-01-02T03:00:00.000Z"]`)
}

func TestATriggerGivesItsRunVariablesOfItsOwn(t *testing.T) {
	a := start(t, setup{engine: withCluster, api: withJobs})
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
	r := a.do("POST", "/v1/jobs/j/trigger", `{"env":{"ORRERY_RUN_ID":"mine"}}`)
	assert.Equal(t, http.StatusBadRequest, r.status)
	assert.Equal(t, "env.ORRERY_RUN_ID: names that begin with ORRERY_ are the runner's: take another name", r.errorText())
	require.Equal(t, http.StatusCreated, a.do("POST", "/v1/jobs/j/trigger", `{"env":{"DAY":"monday"}}`).status)
	list, _, err := a.engine.Runs().List(t.Context(), shell.JobRunFilter{}, shell.Page{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"DAY": "monday"}, list[0].Env)
}

func TestWhatIsWrongWithABackfillIsSaidWithTheValueThatWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: withJobs})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", `{"schedule":"* * * * *","pod_spec":{"containers":[{"name":"main"}]}}`).status)
		for body, want := range map[string]string{
			`{"job":"j","from":"1999-01-01T00:00:00Z","spacing_seconds":-4}`:                  "spacing_seconds: -4 is not between 0 and 86400",
			`{"job":"j","from":"1999-01-01T00:00:00Z","spacing_seconds":9223372036854775807}`: "spacing_seconds: 9223372036854775807 is not between 0 and 86400",
			`{"job":"j","from":"2999-01-01T00:00:00Z"}`:                                       "from: 2999-01-01T00:00:00.000Z is not in the past; it is ",
		} {
			r := a.do("POST", "/v1/backfills", body)
			assert.Equal(t, http.StatusBadRequest, r.status)
			assert.Contains(t, r.errorText(), want)
		}
	})
}

func TestTheIdOfATimeThatWaitsIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: withJobs})
		made := a.do("POST", "/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"@yearly","provider":"echo","action_type":"x","payload":{}}`)
		require.Equal(t, http.StatusCreated, made.status)
		r := a.do("POST", "/v1/recurring/"+made.object()["recurring_id"].(string)+"/waiting/5/cancel?namespace=default&tenant=default", `{}`)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Contains(t, r.errorText(), `occurrence: "5" is not a UUID`)
	})
}

func TestAPreviewIsThatOfTheOptionsAndWarnsOfACalendarThatRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01
		a := start(t, setup{engine: withCluster, api: withJobs})
		for name, date := range map[string]string{"short": "2000-01-20", "long": "2000-12-26"} {
			require.Equal(t, http.StatusCreated, a.do("POST", "/v1/calendars", `{"name":"`+name+`","exclude":{"dates":[{"date":"`+date+`"}]}}`).status)
		}
		const both = `,"day_match":"both","calendars":["long","short"]`
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", `{"schedule":"0 9 */2 * MON"`+both+`,"pod_spec":{"containers":[{"name":"main"}]}}`).status)
		made := a.do("POST", "/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"0 9 */2 * MON"`+both+`,"provider":"echo","action_type":"x","payload":{}}`)
		require.Equal(t, http.StatusCreated, made.status, made.body)
		for _, path := range []string{"/v1/jobs/j/preview", "/v1/recurring/" + made.str("recurring_id") + "/preview?namespace=default&tenant=default"} {
			p := a.do("GET", path, nil)
			require.Equal(t, http.StatusOK, p.status, p.body)
			assert.Equal(t, []any{"calendar short runs out: its last date is 2000-01-20: add the dates that follow"}, p.object()["warnings"], path)
			assert.Contains(t, p.str("description"), "and", path)
			assert.Equal(t, "2000-01-03T09:00:00.000Z", p.object()["times"].([]any)[0], "a Monday with an odd date")
			assert.Equal(t, "2000-01-17T09:00:00.000Z", p.object()["times"].([]any)[1])
		}
	})
}
