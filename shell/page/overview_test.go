package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/page"
)

// tellTime has the page count from a clock.
func (k *kit) tellTime(c shell.Clock) {
	k.t.Helper()
	p, err := page.New(page.Options{API: k.api, Clock: c})
	require.NoError(k.t, err)
	k.page = p
}

// section gives the words of a page from a heading on to the next one.
func section(page, heading string) string {
	_, rest, _ := strings.Cut(page, ">"+heading+"</h2>")
	rest, _, _ = strings.Cut(rest, "</section>")
	return strings.TrimSpace(strings.TrimPrefix(words("<main>"+rest), ">"))
}

func TestTheOverviewIsNotGreenWhileAPeriodicActionFailsInEachCycle(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/actions", `{"tool_name":"fail","label":"check","recurrence":3600}`)
	k.until("/v1/actions/"+id, "last_run.status.type", "failed")
	k.until("/v1/actions/"+id, "status.type", "pending")
	var shown string
	require.Eventually(t, func() bool {
		shown = k.read("/")
		return strings.Contains(words(shown), "1 times of periodic actions failed in 24 h")
	}, 20*time.Second, 50*time.Millisecond)
	failed := section(shown, "Failed in the last day")
	assert.Contains(t, failed, "check time of a periodic action")
	assert.Contains(t, failed, "did <b>not</b> work", "and why")
	_, href, _ := strings.Cut(shown, `href="/ui/occurrences?`)
	href, _, _ = strings.Cut(href, `"`)
	assert.Contains(t, k.text("/occurrences?"+strings.ReplaceAll(href, "&amp;", "&")), "dispatched failed", "the number leads to what it counts")
}

func TestTheOverviewShowsWhatFailedWhateverItIsAndWhyAndLeadsToWhatItCounts(t *testing.T) {
	k := newKit(t)
	p := k.make("/v1/pipelines", `{"namespace":"n","tenant":"t","definition":{"name":"release","phases":[{"name":"publish","run":{"tool":"fail"}}]}}`)
	k.until("/v1/pipelines/"+p, "phase.type", "failed")
	failedBy := effects.TimeOf(time.Now())
	require.Eventually(t, func() bool { return effects.TimeOf(time.Now()) > failedBy }, 10*time.Second, time.Millisecond, "what is done next is done later")
	task := k.make("/v1/tasks", `{"label":"chore"}`)
	k.write("POST", "/v1/tasks/"+task+"/fail", `{"error":"no idea how"}`)
	k.until("/v1/tasks/"+task, "state.type", "done")
	shown := k.read("/")
	for _, want := range []string{"1 actions failed in 24 h", "1 pipelines failed in 24 h", "1 tasks failed in 24 h"} {
		assert.Contains(t, words(shown), want)
	}
	failed := section(shown, "Failed in the last day")
	assert.Contains(t, failed, "release pipeline")
	assert.Contains(t, failed, "phase publish: ")
	assert.Contains(t, failed, "chore task")
	assert.Contains(t, failed, "no idea how")
	assert.Less(t, strings.Index(failed, "chore task"), strings.Index(failed, "release pipeline"), "what failed last stands first")
	for _, path := range []string{"actions", "pipelines", "tasks"} {
		assert.Contains(t, shown, `href="/ui/`+path+`?failed_since=`)
	}
	assert.Contains(t, k.text("/tasks?failed_since=2026-01-01T00:00:00Z"), "chore")
	assert.NotContains(t, k.text("/tasks?failed_since=2099-01-01T00:00:00Z"), "chore")
}

func TestTheOverviewShowsWhatWaitsForSomebody(t *testing.T) {
	k := newKit(t)
	assert.Contains(t, k.text("/"), "0 wait for somebody")
	k.make("/v1/pipelines", `{"namespace":"n","tenant":"t","definition":{"name":"deploy","phases":[{"name":"ask","approval":{"message":"Sure?"}}]}}`)
	<-time.After(5 * time.Millisecond) // times have milliseconds
	k.make("/v1/pipelines", `{"namespace":"n","tenant":"t","label":"kept back","hold":true,"definition":{"name":"later","phases":[{"name":"ask","approval":{"message":"Sure?"}}]}}`)
	k.make("/v1/tasks", `{"label":"silent","config":{"heartbeat_timeout_ms":100,"max_recovery_attempts":1000}}`)
	var shown string
	require.Eventually(t, func() bool {
		shown = k.read("/")
		return strings.Contains(section(shown, "Waits for somebody"), "waits for an approval")
	}, 20*time.Second, 50*time.Millisecond)
	waits := section(shown, "Waits for somebody")
	assert.Contains(t, waits, "deploy pipeline waits for an approval")
	assert.Contains(t, waits, "kept back pipeline is held: somebody has to start it")
	assert.Less(t, strings.Index(waits, "deploy pipeline"), strings.Index(waits, "kept back pipeline"), "what has waited longest stands first")
	assert.Contains(t, shown, `<a href="#waits">`)
	assert.Contains(t, shown, `id="waits"`)
	assert.Contains(t, k.text("/pipelines?waits_for=approval"), "deploy")
	assert.NotContains(t, k.text("/pipelines?waits_for=approval"), "kept back")
}

// The clock of the API is ahead: what the engine has not dispatched by then is late.
func TestWhatIsLateIsCountedAndListed(t *testing.T) {
	clock := &setClock{now: time.Now()}
	k := newKit(t)
	k.tellTime(clock)
	at := time.Now().Add(30 * time.Minute).UTC()
	k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"`+at.Format("4 15")+` * * *","provider":"echo","action_type":"x","description":"the half hour"}`)
	shown := k.read("/")
	assert.Empty(t, section(shown, "Late"))
	assert.Contains(t, section(shown, "Due in the next hour"), "the half hour")
	clock.now = at.Truncate(time.Minute).Add(9 * time.Second)
	assert.NotContains(t, k.read("/"), `href="#late"`, "it has ten seconds")
	clock.now = at.Truncate(time.Minute).Add(11 * time.Second)
	shown = k.read("/")
	assert.Contains(t, words(shown), "1 late due, and not dispatched for 10 s")
	assert.Contains(t, shown, `<a href="#late">`)
	assert.Contains(t, section(shown, "Late"), "the half hour")
	assert.NotContains(t, section(shown, "Due in the next hour"), "the half hour")
}

func TestOfMoreLateSchedulesThanAreCountedTheOverviewSaysThatThereAreMore(t *testing.T) {
	clock := &setClock{now: time.Now()}
	k := newKit(t)
	k.tellTime(clock)
	at := time.Now().Add(30 * time.Minute).UTC()
	for range 101 {
		k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"`+at.Format("4 15")+` * * *","provider":"echo","action_type":"x"}`)
	}
	clock.now = at.Truncate(time.Minute).Add(11 * time.Second)
	shown := k.read("/")
	assert.Contains(t, words(shown), "100+ late due, and not dispatched for 10 s")
	assert.Contains(t, section(shown, "Late"), "There are more than these.")
}

// A periodic action that waits for its next attempt is not late.
func TestWhatWaitsForItsNextAttemptIsNotLate(t *testing.T) {
	clock := &setClock{now: time.Now()}
	k := newKit(t)
	k.tellTime(clock)
	id := k.make("/v1/actions", `{"tool_name":"fail","recurrence":3600,"policy":{"on_failure":"retry","max_attempts":3,"backoff":{"initial_ms":600000}}}`)
	k.until("/v1/actions/"+id, "status.type", "pending")
	require.Eventually(t, func() bool { return k.write("GET", "/v1/actions/"+id, "")["retry_at"] != nil }, 20*time.Second, 20*time.Millisecond)
	clock.now = clock.now.Add(time.Minute)
	assert.NotContains(t, k.read("/"), `href="#late"`)
}

func TestADatabaseWithAJobAloneIsNotNew(t *testing.T) {
	p := newJobsPage(t)
	assert.Contains(t, p.read("/"), "Nothing is here yet")
	p.apply(core.JobSpec{ID: "yearly", Schedule: "0 0 1 1 *"})
	assert.NotContains(t, p.read("/"), "Nothing is here yet")
}

func TestTheOverviewShowsTheQueuesThatHaveSomethingAndSaysIfThereAreMore(t *testing.T) {
	k := newKit(t)
	for n := range 12 {
		k.write("POST", fmt.Sprintf("/v1/queues/q%02d/items", n), `{"data":1}`)
		if n == 9 {
			assert.NotContains(t, section(k.read("/"), "Queues that have something"), "The list of queues has all.")
		}
	}
	assert.Contains(t, section(k.read("/"), "Queues that have something"), "Those whose oldest item waits longest, 10 of 12. The list of queues has all.")
}
