package page_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// namesOn lists the names that the rows of a list have.
func (k *kit) namesOn(path string) string {
	k.t.Helper()
	var names []string
	for _, m := range named.FindAllStringSubmatch(k.read(path), -1) {
		names = append(names, m[1])
	}
	return strings.Join(names, " ")
}

func TestTheListOfSchedulesIsNarrowedByStatusNameAndLabelAndSoAreItsActs(t *testing.T) {
	clock := &setClock{now: time.Now()}
	k := newKitWith(t, func(o *httpapi.Options) { o.Jobs, o.Clock = &jobsService{}, clock })
	recurring := func(name, rest string) string {
		return k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"0 9 * * *","provider":"echo","action_type":"x","description":"`+name+`",`+rest+`}`)
	}
	recurring("fires", `"labels":{"team":"a"}`)
	recurring("rests", `"enabled":false,"labels":{"team":"a"}`)
	over := recurring("over", `"enabled":false,"ends_at":"2090-01-01T00:00:00Z"`)
	const pods = `"schedule":"0 3 * * *","pod_spec":{"containers":[{"name":"c"}]}`
	k.write("PUT", "/v1/jobs/job-fires", `{`+pods+`,"labels":{"team":"b"}}`)
	for job, rest := range map[string]string{"job-rests": "", "job-over": `,"ends_at":"2090-01-01T00:00:00Z"`} {
		k.write("PUT", "/v1/jobs/"+job, `{`+pods+rest+`}`)
		k.write("POST", "/v1/jobs/"+job+"/pause", `{}`)
	}
	k.make("/v1/actions", `{"tool_name":"echo","label":"periodic","recurrence":{"cron":"0 0 1 1 *"}}`)
	clock.now = time.Date(2090, time.June, 1, 0, 0, 0, 0, time.UTC)

	for query, want := range map[string]string{
		"state=on": "fires job-fires periodic", "state=paused": "rests job-rests", "state=ended": "over job-over",
		"name=OVER": "over job-over", "name=job": "job-rests job-over job-fires", "label=team%3Da": "rests fires", "label=team%3Da&state=on": "fires",
		"kind=action&state=paused": "", "kind=recurring&state=ended&name=echo": "",
	} {
		assert.ElementsMatch(t, strings.Fields(want), strings.Fields(k.namesOn("/schedules?"+query)), query)
	}
	assert.ElementsMatch(t, []string{"job-over"}, strings.Fields(k.namesOn("/jobs?state=ended")))
	assert.Contains(t, k.read("/schedules?state=ended"), `<span class="state off">ended</span>`)
	assert.Equal(t, http.StatusBadRequest, k.send("GET", "/schedules?state=moon", nil).Code)
	assert.Equal(t, http.StatusBadRequest, k.send("GET", "/schedules?kind=action&state=moon", nil).Code)

	assert.Contains(t, k.read("/schedules?label=team%3Da&name=f"), `href="/ui/schedules/pause-all?label=team%3Da&amp;name=f"`)
	assert.Contains(t, k.text("/schedules/resume-all"), "2 schedules in all", "what has ended cannot be resumed, and is not counted")
	assert.NotContains(t, k.read("/schedules?state=ended"), "-all")
	assert.Contains(t, k.do("/schedules/pause-all?label=team%3Da", url.Values{"reason": {"night"}}), "It was done to 1 schedule.")
	assert.Equal(t, "job-fires periodic", k.namesOn("/schedules?state=on"))

	for path, actsOn := range map[string]string{"/recurring/" + over: "/recurring/" + over, "/jobs/job-over": "/jobs/job-over"} {
		shown := k.read(path)
		assert.Contains(t, words(shown), "It has ended", path)
		assert.Contains(t, words(shown), "No time of it is to come. To have it go on, edit its schedule, and resume it.", path)
		assert.Contains(t, shown, `<span class="state off">ended</span>`, path)
		for _, act := range []string{"/resume", "/pause", "/skip-next"} {
			assert.NotContains(t, shown, `href="/ui`+actsOn+act, path)
		}
	}
}

func TestAFurtherPageThatIsOfAnotherTokenLeadsToTheFirst(t *testing.T) {
	k := newKit(t, admin("ops"), admin("night"))
	k.as = "ops-secret"
	for range 51 {
		k.nightly("one of many")
	}
	for _, list := range []string{"/schedules?name=many", "/occurrences?page_token=stale", "/schedules?page_token=recurring%3Astale"} {
		k.as = "ops-secret"
		further := list
		if _, rest, ok := strings.Cut(k.send("GET", list, nil).Body.String(), `rel="next" href="/ui`); ok {
			further, _, _ = strings.Cut(rest, `"`)
			further = html.UnescapeString(further)
			assert.Equal(t, http.StatusOK, k.send("GET", further, nil).Code)
		}
		k.as = "night-secret"
		w := k.send("GET", further, nil)
		assert.Equal(t, http.StatusSeeOther, w.Code, list)
		to := strings.TrimPrefix(w.Header().Get("Location"), "/ui")
		assert.NotContains(t, to, "page_token")
		assert.Contains(t, k.text(to), "This is the first page.")
	}
}

func TestTheListOfSchedulesSaysHowOftenAJobRan(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "nightly", Schedule: "0 9 1 1 *"})
	p.pod(p.trigger("nightly"), 0)
	assert.Eventually(t, func() bool {
		shown := p.text("/schedules")
		return strings.Contains(shown, "now ended: completed 1 job") || strings.Contains(shown, "ago ended: completed 1 job")
	}, 20*time.Second, 20*time.Millisecond)
}

func TestTheListOfSchedulesSaysOfTheLastTimeWhetherItWentWell(t *testing.T) {
	k := newKit(t)
	for _, tool := range []string{"echo", "fail", "hold"} { // what each does
		id := k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"0 0 1 1 *","provider":"`+tool+`","action_type":"x","description":"`+tool+`s"}`)
		k.write("POST", "/v1/recurring/"+id+"/trigger", "{}")
	}
	k.make("/v1/actions", `{"tool_name":"fail","label":"periodic","recurrence":{"cron":"0 0 1 1 *"}}`)

	row := func(name string) string {
		_, rest, _ := strings.Cut(k.text("/schedules"), " "+name+" ")
		return rest[:min(len(rest), 260)]
	}
	assert.Eventually(t, func() bool { return strings.Contains(row("fails"), "no success yet") }, 20*time.Second, 20*time.Millisecond)
	assert.Eventually(t, func() bool { return !strings.Contains(row("echos"), "running") }, 20*time.Second, 20*time.Millisecond)
	assert.Contains(t, row("holds"), "running")
	echos, _, _ := strings.Cut(row("echos"), "recurring")
	assert.NotContains(t, echos, "no success")
}
