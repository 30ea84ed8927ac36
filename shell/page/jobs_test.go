package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi"
)

const ofDefault = "?namespace=default&tenant=default"

func TestListsOfJobsAndRunsThatAreEmptySayWhatWouldFillThem(t *testing.T) {
	p := newJobsPage(t)
	assert.Contains(t, p.read("/jobs"), "orreryd job apply -f FILE")
	assert.Contains(t, p.read("/runs"), "A job makes one at each time of its schedule")
	assert.Contains(t, p.read("/jobs?state=paused"), "Nothing matches these filters.")
}

func TestTheListOfJobsShowsScheduleStateAndLastRun(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "nightly", Name: "The report", Schedule: "0 2 * * *", Timezone: "Europe/Berlin"})
	p.apply(core.JobSpec{ID: "by-hand"})
	run := p.trigger("by-hand")
	p.pod(run, 3)
	p.reaches(run, core.OrchestratorFailed)
	s := p.read("/jobs")
	for _, want := range []string{
		`<a href="/ui/jobs/nightly?namespace=default&amp;tenant=default">The report</a>`, "<code>0 2 * * *</code>", "Europe/Berlin", "only when triggered",
		`<span class="state bad">failed</span>`, "exit code 3", `data-head="Failed"><span class="bad">1</span>`,
	} {
		assert.Contains(t, s, want)
	}
}

func TestTheListOfJobsIsFiltered(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "one", Labels: map[string]string{"team": "a"}})
	p.apply(core.JobSpec{ID: "two"})
	p.act("/jobs/two/pause"+ofDefault, nil)
	s := p.read("/jobs?label=team%3Da")
	assert.Contains(t, s, ">one</a>")
	assert.NotContains(t, s, ">two</a>")
	s = p.read("/jobs?state=paused")
	assert.Contains(t, s, ">two</a>")
	assert.NotContains(t, s, ">one</a>")
	assert.Equal(t, http.StatusBadRequest, p.send("GET", "/jobs?label=team", nil).Code)
}

func TestThePageOfAJobShowsItsRunsAsAGridAndAsText(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "nightly", Schedule: "0 2 * * *", ConstraintConfig: []byte(`{"window":{"from":"01:00"}}`)})
	done, failed, going := p.trigger("nightly"), p.trigger("nightly"), p.trigger("nightly")
	p.pod(done, 0)
	p.reaches(done, core.OrchestratorCompleted)
	p.pod(failed, 1)
	p.reaches(failed, core.OrchestratorFailed)
	p.reaches(going, core.OrchestratorContainerCreating)
	s := p.read("/jobs/nightly" + ofDefault)
	_, grid, _ := strings.Cut(s, `<svg class="grid"`)
	grid, rest, _ := strings.Cut(grid, "</svg>")
	for id, want := range map[string]string{done.String(): `class="run good"`, failed.String(): `class="run bad"`, going.String(): `class="run busy"`} {
		_, cell, found := strings.Cut(grid, `<a href="/ui/runs/`+id+`"`)
		require.True(t, found, id)
		cell, _, _ = strings.Cut(cell, "</a>")
		assert.Contains(t, cell, want)
		assert.Contains(t, rest, `<a href="/ui/runs/`+id+`">`, "the table has the run too")
	}
	for _, want := range []string{"✓", "✗", "▷"} {
		assert.Contains(t, grid, ">"+want+"</text>")
	}
	for _, want := range []string{"Next times", "History", "&#34;window&#34;", "Pod spec", `href="/ui/jobs/nightly/backfill?namespace=default&amp;tenant=default"`} {
		assert.Contains(t, s, want)
	}
}

func TestAJobAndARunLeadToWhoHasChangedThem(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "nightly"})
	run := p.trigger("nightly")
	for path, event := range map[string]string{"/jobs/nightly?namespace=default&tenant=default": "apply", "/runs/" + run.String(): "due"} {
		_, rest, ok := strings.Cut(p.read(path), `href="/ui/changes/`)
		require.True(t, ok, path)
		to, _, _ := strings.Cut(rest, `"`)
		assert.Contains(t, p.read("/changes/"+to), "<code>"+event+"</code>", path)
	}
}

func TestAPausedJobSaysWhyAndIsResumedAndNotPaused(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "nightly", Schedule: "0 2 * * *"})
	to := p.act("/jobs/nightly/pause"+ofDefault, url.Values{"reason": {"the printer is out"}, "until": {"2999-01-31T07:00"}})
	s := p.read(to)
	assert.Contains(t, s, "The job is paused.")
	assert.Contains(t, s, "It is paused by api:loopback: the printer is out (until 2999-01-31 07:00:00 UTC)")
	assert.Contains(t, s, "/ui/jobs/nightly/resume?")
	assert.NotContains(t, s, "/ui/jobs/nightly/pause?")
	s = p.read(p.act("/jobs/nightly/resume"+ofDefault, nil))
	assert.Contains(t, s, "/ui/jobs/nightly/pause?")
}

func TestAJobIsTriggeredWithVariablesAndTheActLeadsToItsRun(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j"})
	to := p.act("/jobs/j/trigger"+ofDefault, url.Values{"env": {"OF=yesterday\nWITH=a=b"}, "dedup_key": {"k"}})
	s := p.read(to)
	assert.Contains(t, s, "A run was made by hand.")
	assert.Contains(t, s, "<li>OF = yesterday</li><li>WITH = a=b</li>")
	assert.Equal(t, to, p.act("/jobs/j/trigger"+ofDefault, url.Values{"dedup_key": {"k"}}), "a second trigger with the key leads to the first run")
}

func TestAJobIsMadeTriedChangedAndDeleted(t *testing.T) {
	p := newJobsPage(t)
	to := p.act("/new-job", url.Values{"id": {"a b?"}, "schedule": {"@daily"}, "pod_spec": {`{"containers":[{"name":"x"}]}`}, "rest": {`{"overlap":"skip"}`}, "namespace": {"default"}, "tenant": {"default"}})
	s := p.read(to)
	assert.Contains(t, s, "The job was created.")
	assert.Contains(t, s, "<dt>Overlap</dt><dd>skip</dd>")
	assert.Contains(t, p.read("/jobs/a%20b%3F"+ofDefault+"&status=failed"), "Nothing matches these filters.")
	edit := "/jobs/a%20b%3F/apply" + ofDefault
	assert.Contains(t, p.read(edit), "&#34;overlap&#34;: &#34;skip&#34;")

	w := p.try(edit, url.Values{"rest": {`{"schedule":"0 5 * * *","pod_spec":{"containers":[{"name":"y"}]}}`}, "try": {"yes"}})
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "It would change the job.\nWhen: At 05:00")
	assert.Contains(t, w.Body.String(), "Nothing was changed so far.")
	assert.Contains(t, w.Body.String(), "0 5 * * *", "what was typed stays")
	assert.Contains(t, p.read("/jobs/a%20b%3F"+ofDefault), "@daily")

	p.act(edit, url.Values{"rest": {`{"schedule":"0 5 * * *","pod_spec":{"containers":[{"name":"y"}]}}`}})
	s = p.read("/jobs/a%20b%3F" + ofDefault)
	assert.Contains(t, s, "0 5 * * *")
	assert.NotContains(t, s, "<dt>Overlap</dt><dd>skip</dd>", "what is left out has its default")
	p.act("/jobs/a%20b%3F/skip-next"+ofDefault, url.Values{"reason": {"a holiday"}})
	assert.Contains(t, p.read("/jobs"), "skips the next 1 time")

	assert.Equal(t, "/jobs?done=jobs.delete", p.act("/jobs/a%20b%3F/delete"+ofDefault, nil))
	assert.Equal(t, http.StatusNotFound, p.send("GET", "/jobs/a%20b%3F"+ofDefault, nil).Code)
}

func TestAJobThatIsRefusedStaysInTheForm(t *testing.T) {
	p := newJobsPage(t)
	for _, c := range []struct{ rest, want string }{
		{`{"schedule":`, "is not JSON"}, {`[1]`, "the configuration is not a JSON object"}, {`{"shedule":"x"}`, "shedule"},
	} {
		p.apply(core.JobSpec{ID: "j"})
		w := p.try("/jobs/j/apply"+ofDefault, url.Values{"rest": {c.rest}})
		assert.Equal(t, http.StatusBadRequest, w.Code, c.rest)
		assert.Contains(t, w.Body.String(), c.want)
	}
	w := p.try("/new-job", url.Values{"id": {"k"}, "schedule": {"@daily"}, "pod_spec": {"{}"}, "rest": {`{"schedule":"@hourly"}`}, "namespace": {"default"}, "tenant": {"default"}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "Schedule: stands in a field of its own")
}

func TestAJobIsBackfilled(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j", Schedule: "@daily"})
	to := p.act("/jobs/j/backfill"+ofDefault, url.Values{"job": {"j"}, "from": {"2026-01-01T00:00"}, "to": {"2026-01-03T00:00"}})
	assert.True(t, strings.HasPrefix(to, "/backfills/"), to)
}

func TestAReadOnlyTokenSeesJobsAndIsRefusedEveryAct(t *testing.T) {
	p := newJobsPage(t, httpapi.Token{Name: "reader", SHA256: httpapi.HashToken("r"), ReadOnly: true})
	p.apply(core.JobSpec{ID: "j", Schedule: "@daily"})
	run := p.trigger("j")
	p.as = "r"
	s := p.read("/jobs/j" + ofDefault)
	for _, act := range []string{"Run now", "Pause", "Skip the next time", "Edit", "Backfill", "Delete"} {
		assert.Contains(t, s, `title="Your token is read-only.">`+act)
	}
	assert.NotContains(t, s, `href="/ui/jobs/j/delete`)
	for _, path := range []string{"/jobs/j/trigger", "/jobs/j/delete", "/jobs/j/apply", "/runs/" + run.String() + "/cancel"} {
		w := p.try(path+ofDefault, nil)
		assert.Equal(t, http.StatusForbidden, w.Code, path)
	}
}

func TestATokenOfAnotherTenantSeesNoJobAndNoRun(t *testing.T) {
	p := newJobsPage(t, httpapi.Token{Name: "other", SHA256: httpapi.HashToken("o"), Namespaces: []string{"default"}, Tenants: []string{"other"}})
	p.apply(core.JobSpec{ID: "secret-job", Schedule: "@daily"})
	run := p.trigger("secret-job").String()
	p.as = "o"
	for _, path := range []string{"/jobs", "/runs"} {
		assert.NotContains(t, p.read(path), "secret-job")
	}
	for _, path := range []string{"/jobs/secret-job", "/runs/" + run, "/runs/" + run + "/logs", "/runs/" + run + "/logs/download"} {
		assert.Equal(t, http.StatusNotFound, p.send("GET", path, nil).Code, path)
	}
	assert.NotEqual(t, http.StatusOK, p.send("GET", "/jobs/secret-job"+ofDefault, nil).Code)
}

func TestMarkupInAJobStaysText(t *testing.T) {
	p := newJobsPage(t)
	const evil = `"><script>alert(1)</script>`
	p.apply(core.JobSpec{ID: evil, Name: evil, Labels: map[string]string{"a": "b"}, PodSpec: []byte(`{"containers":[{"name":"<script>alert(1)</script>"},{"name":"two"}]}`)})
	run := p.trigger(evil)
	p.cluster.checks = `{}`
	for _, path := range []string{"/jobs", "/runs", "/jobs/" + url.PathEscape(evil) + ofDefault, "/runs/" + run.String(), "/runs/" + run.String() + "/logs?find=" + url.QueryEscape(evil), "/jobs/" + url.PathEscape(evil) + "/apply" + ofDefault} {
		s := p.read(path)
		assert.NotContains(t, s, "<script>alert", path)
		assert.NotContains(t, s, `"">`, path)
	}
}

func TestANewJobDoesNotTakeThePlaceOfAnother(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j", Schedule: "@daily"})
	for _, form := range []url.Values{{"id": {"j"}}, {"id": {"j"}, "try": {"yes"}}} {
		w := p.try("/new-job", form)
		assert.Equal(t, http.StatusPreconditionFailed, w.Code)
		assert.Contains(t, w.Body.String(), "There is one of this name already: choose another name, or edit that one.")
	}
	assert.Contains(t, p.read("/jobs/j"+ofDefault), "@daily")
}

func TestAJobMayBeCalledNew(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "new"})
	assert.Contains(t, p.read("/jobs"), `<a class="button main" href="/ui/new-job">New job</a>`)
	assert.Contains(t, p.read("/jobs/new"+ofDefault), `<span class="kind">Job</span> new`)
}
