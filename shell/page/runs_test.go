package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestTheMapOfARunHasEveryStateAndEveryWay(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j"})
	s := p.read("/runs/" + p.trigger("j").String())
	for _, from := range core.OrchestratorStatuses() {
		assert.Contains(t, s, ">"+stateWords(from)+"<", from)
		for _, to := range core.OrchestratorTransitions(from) {
			assert.Contains(t, s, "<title>"+stateWords(from)+" → "+stateWords(to)+"</title>")
		}
	}
}

func stateWords(s core.OrchestratorStatus) string { return strings.ReplaceAll(string(s), "_", " ") }

// taken gives the ways that the map shows as this run's.
func taken(s string) (out []string) {
	for _, part := range strings.Split(s, `<path class="way taken"`)[1:] {
		_, title, _ := strings.Cut(part, "<title>")
		title, _, _ = strings.Cut(title, "</title>")
		out = append(out, title)
	}
	return out
}

func TestTheMapShowsTheWayOfARunThatCompleted(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j", ConstraintConfig: []byte(`{"window":{}}`)})
	run := p.trigger("j")
	p.pod(run, 0)
	p.reaches(run, core.OrchestratorCompleted)
	s := p.read("/runs/" + run.String())
	assert.ElementsMatch(t, []string{
		"pre run → pending", "pending → condition pending", "condition pending → condition running", "condition running → container creating",
		"container creating → running", "running → terminating", "terminating → completed",
	}, taken(s))
	for _, want := range []string{
		"completed: the run is here", `<span class="state good">met</span>`, "it is open", "before the pod", "Together: proceed, all met", "orrery-pod-0", "node-1",
		"512 bytes are stored", "Run the job again", "<dt>Exit code</dt><dd>0</dd>",
	} {
		assert.Contains(t, s, want)
	}
	assert.NotContains(t, s, "/cancel", "a run that has ended is not cancelled")
}

func TestTheMapShowsTheWayOfARunThatTriesAgainAndItsAttempts(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j", RetryConfig: core.RetryConfig{MaxRetries: 1, InitialDelayMS: 3_600_000}})
	run := p.trigger("j")
	p.pod(run, 7)
	p.reaches(run, core.OrchestratorRetrying)
	s := p.read("/runs/" + run.String())
	assert.Equal(t, "terminating → retrying", taken(s)[len(taken(s))-1])
	assert.Contains(t, s, `<span class="bad">7</span>`)
	to := p.act("/runs/"+run.String()+"/retry", nil)
	p.reaches(run, core.OrchestratorContainerCreating)
	s = p.read(to)
	assert.Contains(t, s, "The next attempt has begun.")
	assert.ElementsMatch(t, []string{"retrying → pending", "pending → container creating"}, taken(s))
	assert.Contains(t, s, "It is that of attempt 1: of earlier attempts the record keeps when their pods ran, and not their ways.")
	assert.Contains(t, s, "/ui/runs/"+run.String()+"/logs?attempt=0")
	assert.Contains(t, s, "The attempt before this one failed")
}

func TestARunIsCancelledAndTheMapSaysSo(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j"})
	run := p.trigger("j")
	p.reaches(run, core.OrchestratorContainerCreating)
	p.act("/runs/"+run.String()+"/cancel", url.Values{"reason": {"not today"}})
	p.reaches(run, core.OrchestratorCancelled)
	s := p.read("/runs/" + run.String())
	assert.Contains(t, taken(s), "container creating → cancelled")
	assert.Contains(t, s, "not today")
	w := p.try("/runs/"+run.String()+"/cancel", url.Values{"reason": {""}})
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, w.Body.String(), "there is nothing to cancel")
}

func TestACleanupThatFailsIsShownAndIsGivenUp(t *testing.T) {
	p := newJobsPage(t)
	p.cluster.stuck = true
	p.apply(core.JobSpec{ID: "j"})
	run := p.trigger("j")
	p.reaches(run, core.OrchestratorContainerCreating)
	path := "/runs/" + run.String()
	assert.NotContains(t, p.read(path), path+"/abandon")
	p.act(path+"/cancel", url.Values{"reason": {"not today"}})
	p.when(run, func(o core.Orchestrator) bool { return o.Cleanup.Failing() })
	s := p.read(path)
	assert.Contains(t, s, "could not be deleted since")
	assert.Contains(t, s, "pods is forbidden: &lt;no right&gt;")
	assert.Contains(t, p.read("/runs?cleanup_failed=true"), `<span class="state bad">cleanup fails</span>`)
	s = p.read(p.act(path+"/abandon", url.Values{"reason": {"the cluster is gone"}}))
	assert.Contains(t, s, "The cleanup was given up: something of it may still be there.")
	assert.NotContains(t, s, path+"/abandon")
}

func TestAConstraintThatIsViolatedIsShownWithItsActions(t *testing.T) {
	p := newJobsPage(t)
	p.cluster.checks = `{"should_proceed":false,"message":"too late","checks":[{"name":"window","phase":"pre","met":false,"message":"it is <closed>","actions":[{"type":"skip"}]}]}`
	p.apply(core.JobSpec{ID: "j", ConstraintConfig: []byte(`{"window":{}}`)})
	run := p.trigger("j")
	p.reaches(run, core.OrchestratorCompleted)
	s := p.read("/runs/" + run.String())
	assert.Contains(t, taken(s), "action pending → action running")
	assert.Contains(t, taken(s), "action running → completed")
	assert.Contains(t, s, `<span class="state bad">violated</span>`)
	assert.Contains(t, s, "it is &lt;closed&gt;")
	assert.Contains(t, s, "Actions taken")
}

func TestARunIsFoundByItsNameWithinATenant(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j"})
	run := p.reaches(p.trigger("j"), core.OrchestratorContainerCreating)
	s := p.read("/runs/" + run.RunID + ofDefault)
	assert.Contains(t, s, "<code>"+run.ID.String()+"</code>")
	assert.Contains(t, s, "/ui/runs/"+run.ID.String()+"/logs")
	assert.Equal(t, http.StatusNotFound, p.send("GET", "/runs/j:2026-01-01T00:00:00.000Z"+ofDefault, nil).Code)
}

func TestTheListOfRunsIsFiltered(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "one"})
	p.apply(core.JobSpec{ID: "two"})
	p.reaches(p.trigger("one"), core.OrchestratorContainerCreating)
	failed := p.trigger("two")
	p.pod(failed, 1)
	p.reaches(failed, core.OrchestratorFailed)
	s := p.read("/runs?status=failed")
	assert.Contains(t, s, ">two</a>")
	assert.NotContains(t, s, ">one</a>")
	assert.Contains(t, p.read("/runs?job=one&in_cluster=true"), ">one</a>")
	assert.Contains(t, p.read("/runs?cleanup_failed=true"), "Nothing matches these filters.")
	assert.Equal(t, http.StatusBadRequest, p.send("GET", "/runs?status=nonsense", nil).Code)
}

func TestThePageOfAJobWithManyRunsIsBounded(t *testing.T) {
	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "j", RetryConfig: core.RetryConfig{MaxRetries: 0}})
	for range 130 {
		run := p.trigger("j")
		p.pod(run, 0)
		p.reaches(run, core.OrchestratorCompleted)
	}
	s := p.read("/jobs/j" + ofDefault)
	assert.Equal(t, 120, strings.Count(s, `<rect class="run good"`))
	assert.Contains(t, s, "The newest 120 runs.")
	assert.Equal(t, 25, strings.Count(s, `data-head="Exit code"`))
	assert.Contains(t, p.read(link(t, s, "Next page")), "First page")
}
