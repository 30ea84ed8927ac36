package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// release is a pipeline with an approval, a signal, an answer from outside and a way around a failure.
const release = `{"label":"<b>release</b>","definition":{"name":"release","phases":[
	{"name":"build","run":{"tool":"echo","input":{"made":"<b>it</b>"}}},
	{"name":"try","run":{"tool":"fail","input":{}},"on_failure":"ask"},
	{"name":"skipped","set":{"values":{"x":1}}},
	{"name":"ask","approval":{"message":"Merge it into <b>main</b>?"}},
	{"name":"go","signal":{"name":"go"}},
	{"name":"sign","manual":{"instructions":"Sign the papers"}}]}}`

func TestAPipelineSaysWhatItWaitsForAndTakesTheAnswersInOrder(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/pipelines", release)
	api, at := "/v1/pipelines/"+id, "/pipelines/"+id
	k.until(api, "waiting.for", "approval")

	list := k.text("/pipelines")
	assert.Contains(t, list, "<b>release</b> running waits for an approval ask")
	got := k.text(at)
	assert.Contains(t, got, "Phase ask waits for an approval. Merge it into <b>main</b>?")
	assert.Contains(t, got, "did <b>not</b> work", "why a phase failed")
	for _, act := range []string{"/approve", "/reject", "/signal", "/cancel", "/checkpoint"} {
		assert.Contains(t, k.read(at), `href="/ui`+at+act+`"`)
	}

	assert.Contains(t, k.text(at+"/approve"), "Merge it into <b>main</b>?", "the form shows what is approved")
	to := k.act(at+"/approve", url.Values{"comment": {"fine"}})
	assert.Contains(t, k.text(to), "It was approved.")
	k.until(api, "waiting.for", "signal")
	assert.Contains(t, k.text(at), `Phase go waits for the signal "go".`)
	k.act(at+"/signal", url.Values{"payload": {`{"speed":3}`}})
	k.until(api, "waiting.for", "manual")
	assert.Contains(t, k.text(at), "Sign the papers")
	k.act(at+"/checkpoint", url.Values{"message": {"the papers are here"}})
	assert.Contains(t, k.text(at), "the papers are here")
	to = k.act(at+"/phases/sign/complete", url.Values{"result": {`"signed"`}})
	assert.Contains(t, k.text(to), "The phase is done.")
	k.until(api, "phase.type", "done")
	got = k.text(at)
	for _, value := range []string{`"comment": "fine"`, `"speed": 3`, `"sign": "signed"`} {
		assert.Contains(t, got, value, "the context")
	}
	assert.NotContains(t, k.read(at), `href="/ui`+at+`/cancel"`, "what has ended cannot be cancelled")
}

func TestAPipelineIsDrawnWithItsPhasesInOrderAndTheCurrentOne(t *testing.T) {
	k := newKit(t)
	first := k.make("/v1/pipelines", release)
	k.until("/v1/pipelines/"+first, "waiting.for", "approval")
	page := k.read("/pipelines/" + first)
	_, svg, _ := strings.Cut(page, "<svg")
	svg, _, _ = strings.Cut(svg, "</svg>")
	last := -1
	for _, box := range []string{"build, run: done", "try, run: failed", "skipped, set: not begun", "ask, approval: waiting", "go, signal: not begun", "sign, manual: not begun"} {
		i := strings.Index(svg, "<title>"+box+"</title>")
		assert.Greater(t, i, last, box)
		last = i
	}
	assert.Equal(t, 1, strings.Count(svg, "current"), "one phase is the current one")
	assert.Equal(t, 3, strings.Count(svg, `class="bar`), "three phases have run, or run")
	assert.Contains(t, svg, "edge dashed", "the way around a failure")
	assert.Contains(t, svg, "✓")
	assert.Contains(t, svg, "✗")
	assert.Contains(t, svg, "‖")

	after := k.make("/v1/pipelines", `{"definition":{"name":"after","phases":[{"name":"a","set":{"values":{"x":1}}}]},"depends_on":["`+first+`"]}`)
	page = k.read("/pipelines/" + after)
	assert.Contains(t, page, "It depends on pipeline ")
	assert.Contains(t, words(page), "Pipelines that must be done first")
	k.act("/pipelines/"+after+"/unblock", nil)
	k.until("/v1/pipelines/"+after, "phase.type", "done")
}

func TestAPhaseShowsEachAttemptWithItsOutput(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/pipelines", release)
	k.until("/v1/pipelines/"+id, "waiting.for", "approval")
	at := "/pipelines/" + id + "/phases/"
	got := k.text(at + "build")
	assert.Contains(t, got, "Phase build done")
	assert.Contains(t, got, "Output of action")
	assert.Contains(t, got, `"made": "<b>it</b>"`)
	assert.Contains(t, k.text(at+"try"), "did <b>not</b> work")
	assert.Contains(t, k.text(at+"go"), "It has not begun.")
	assert.Equal(t, http.StatusNotFound, k.send("GET", at+"none", nil).Code)
}

func TestAPipelineIsStartedRejectedRetriedFailedAndCancelled(t *testing.T) {
	k := newKit(t)
	to := k.act("/pipelines/new", url.Values{"label": {"held"}, "hold": {"yes"}, "definition": {`{"name":"held","phases":[{"name":"ask","approval":{}},{"name":"sign","manual":{}}]}`}})
	at, _, _ := strings.Cut(to, "?")
	api := "/v1" + at
	assert.Contains(t, k.text(to), "It is held: somebody has to start it.")
	k.act(at+"/start", nil)
	k.until(api, "waiting.for", "approval")
	k.act(at+"/reject", url.Values{"comment": {"not today"}})
	k.until(api, "phase.type", "failed")
	assert.Contains(t, k.text(at), "Phase ask failed: rejected by loopback: not today")
	k.act(at+"/retry", nil)
	k.until(api, "waiting.for", "approval")
	k.act(at+"/approve", nil)
	k.until(api, "waiting.for", "manual")
	k.act(at+"/phases/sign/fail", url.Values{"error": {"no pen"}, "permanent": {"yes"}})
	k.until(api, "phase.type", "failed")
	assert.Contains(t, k.text(at), "Phase sign failed: no pen A retry cannot help, as this failure is final.")

	id := k.make("/v1/pipelines", release)
	k.act("/pipelines/"+id+"/cancel", url.Values{"reason": {"enough"}})
	assert.Contains(t, k.text("/pipelines/"+id), "enough")
}

func TestAnApprovalIsOfThePhaseThatTheFormShowed(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/pipelines", `{"definition":{"name":"two","phases":[{"name":"one","approval":{}},{"name":"two","approval":{}}]}}`)
	k.until("/v1/pipelines/"+id, "waiting.for", "approval")
	at := "/pipelines/" + id
	form := url.Values{}
	for _, m := range inputs.FindAllStringSubmatch(k.read(at+"/approve"), -1) {
		form.Set(m[1], m[2])
	}
	require.Equal(t, "one", form.Get("phase"))
	require.Equal(t, http.StatusSeeOther, k.send("POST", at+"/approve", form).Code)
	k.until("/v1/pipelines/"+id, "phase.name", "two")
	w := k.send("POST", at+"/approve", form)
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, words(w.Body.String()), `no phase "one" waits for an approval`)
}

func TestATaskShowsItsScreenAndTakesInput(t *testing.T) {
	k := newKit(t)
	to := k.act("/tasks/new", url.Values{"label": {"<b>agent</b>"}, "command": {"sh\n-c\ncat"}, "prompt": {"do <b>this</b>"}, "env": {"SECRET=hush"}})
	at, _, _ := strings.Cut(to, "?")
	k.untilSpawned(strings.TrimPrefix(at, "/tasks/"))
	k.write("POST", "/v1"+at+"/heartbeat", `{"status":"active","output":"\u001b[31mred\u001b[0m <b>x</b>","progress":"half"}`)
	page := k.read(at)
	assert.Contains(t, page, `<span class="ansi-fg-1">red</span> &lt;b&gt;x&lt;/b&gt;`)
	got := words(page)
	assert.Contains(t, got, "do <b>this</b>")
	assert.Contains(t, got, "half")
	assert.NotContains(t, got, "hush", "a variable's value may be a secret")
	assert.Contains(t, k.text("/tasks"), "<b>agent</b> running half")
	assert.Contains(t, k.text(k.act(at+"/input", url.Values{"text": {"hello\n"}})), "The text goes to the session.")
	k.act(at+"/recover", url.Values{"action": {"nudge"}})
	assert.Contains(t, k.text(at), "1 of at most 3")
	k.act(at+"/complete", url.Values{"output": {`{"n":1}`}})
	k.until("/v1"+at, "state.type", "done")
	assert.Contains(t, k.text(at), `"n": 1`)

	id := k.make("/v1/tasks", `{"label":"by hand"}`)
	assert.NotContains(t, k.read("/tasks/"+id), `href="/ui/tasks/`+id+`/input"`, "it has no session")
	k.act("/tasks/"+id+"/fail", url.Values{"error": {"no time"}})
	assert.Contains(t, k.text("/tasks/"+id), "no time")
	id = k.make("/v1/tasks", `{"label":"by hand"}`)
	k.act("/tasks/"+id+"/cancel", url.Values{"reason": {"enough"}})
	assert.Contains(t, k.text("/tasks/"+id), "enough")
}

func TestAStrategyShowsItsApproachesInOrderWithTheirResults(t *testing.T) {
	k := newKit(t)
	to := k.act("/strategies/new", url.Values{"label": {"merge"}, "approaches": {`[
		{"name":"<b>fast</b>","action":{"command":{"tool":"fail","input":{}}},"fallback_on":[{"any_error":true}]},
		{"name":"slow","action":{"command":{"tool":"hold","input":{}}}},
		{"name":"never","action":{"command":{"tool":"echo","input":{}}}}]`}})
	at, _, _ := strings.Cut(to, "?")
	k.until("/v1"+at, "error", "")
	require.Eventually(t, func() bool { return strings.Contains(k.text(at), "slow tool hold running") }, waitLong, waitShort)
	got := k.text(at)
	assert.Contains(t, got, "1 <b>fast</b> tool fail failed")
	assert.Contains(t, got, "did <b>not</b> work the next on any failure")
	assert.Contains(t, got, "3 never tool echo not begun")
	k.act(at+"/evaluate", url.Values{"success": {"yes"}, "output": {`"good"`}})
	k.until("/v1"+at, "status", "succeeded")
	assert.Contains(t, k.text("/strategies"), "merge succeeded")

	id := k.make("/v1/strategies", `{"approaches":[{"name":"a","action":{"command":{"tool":"hold","input":{}}}}]}`)
	k.act("/strategies/"+id+"/cancel", url.Values{"reason": {"enough"}})
	assert.Contains(t, k.text("/strategies/"+id), "enough")
}

func TestEmptyListsSayWhatWouldFillThem(t *testing.T) {
	k := newKit(t)
	for path, want := range map[string]string{
		"/pipelines": "There is no pipeline.", "/tasks": "There is no task.", "/strategies": "There is no strategy.", "/queues": "There is no queue.",
		"/workers": "There is no worker.", "/locks": "Nothing is locked", "/subscribers": "There is no subscriber.", "/backfills": "There is no backfill.",
		"/calendars": "There is no calendar.", "/events": "orreryd events follow",
	} {
		assert.Contains(t, k.text(path), want, path)
	}
	for _, path := range []string{
		"/pipelines/00000000-0000-4000-8000-000000000000", "/tasks/00000000-0000-4000-8000-000000000000", "/strategies/00000000-0000-4000-8000-000000000000",
		"/backfills/00000000-0000-4000-8000-000000000000", "/queues/none", "/workers/none", "/locks/none", "/semaphores/none", "/calendars/none", "/subscribers/none",
		"/queues/none/items/00000000-0000-4000-8000-000000000000",
	} {
		assert.Equal(t, http.StatusNotFound, k.send("GET", path, nil).Code, path)
	}
}

func TestAReadOnlyTokenIsShownWhatItMayNotDoAndIsRefused(t *testing.T) {
	k := newKit(t, httpapi.Token{Name: "ann", SHA256: httpapi.HashToken("ann-token"), ReadOnly: true}, httpapi.Token{Name: "root", SHA256: httpapi.HashToken("root-token"), Admin: true})
	k.as = "root-token"
	id := k.make("/v1/pipelines", release)
	k.until("/v1/pipelines/"+id, "waiting.for", "approval")
	k.write("PUT", "/v1/queues/q", `{}`)
	k.write("PUT", "/v1/semaphores/s", `{"slots":1}`)
	k.write("POST", "/v1/locks/l/acquire", `{"holder":"h"}`)

	k.as = "ann-token"
	for _, path := range []string{"/pipelines/" + id, "/queues/q", "/semaphores/s", "/locks/l", "/workers", "/calendars", "/subscribers"} {
		page := k.read(path)
		assert.Contains(t, page, `<span class="button off" title="Your token is read-only.">`, path)
		assert.NotContains(t, page, `<a class="button`, path)
	}
	for _, form := range []string{"/pipelines/" + id + "/approve", "/queues/q/pause", "/semaphores/s/configure", "/locks/l/break", "/new-worker", "/new-calendar", "/new-subscriber"} {
		assert.Contains(t, k.text(form), "Your token is read-only.", form)
	}
	w := k.try("/pipelines/"+id+"/approve", nil)
	assert.Equal(t, http.StatusForbidden, w.Code)
	assert.Contains(t, words(w.Body.String()), `token: "ann" is read-only`)
}
