package page_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

const farAway = `"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`

// failed makes an action that fails.
func (k *kit) failed(label string) string {
	k.t.Helper()
	id := k.make("/v1/actions", `{"tool_name":"fail","label":"`+label+`"}`)
	k.until("/v1/actions/"+id, "status.type", "failed")
	return id
}

// chosen gives what the form of an act on many carries.
func (k *kit) chosen(form string) string {
	k.t.Helper()
	m := regexp.MustCompile(`name="chosen" value="([^"]*)"`).FindStringSubmatch(k.read(form))
	require.NotNil(k.t, m)
	return html.UnescapeString(m[1])
}

// do sends the form of an act on many, and gives the words of the answer.
func (k *kit) do(form string, fields url.Values) string {
	k.t.Helper()
	w := k.try(form, fields)
	require.Equal(k.t, http.StatusOK, w.Code, words(w.Body.String()))
	assertWellFormed(k.t, w.Body.String())
	return words(w.Body.String())
}

// retriesOf counts the actions that were made again.
func (k *kit) retriesOf(id string) (n int) {
	k.t.Helper()
	list, _ := k.write("GET", "/v1/actions?limit=1000", "")["actions"].([]any)
	for _, a := range list {
		if metadata, _ := a.(map[string]any)["metadata"].(map[string]any); metadata["_retry_of"] == id {
			n++
		}
	}
	return n
}

func TestAllThatFailedAreRetriedOnceAsTheyWereCounted(t *testing.T) {
	k := newKit(t)
	a, b := k.failed("one"), k.failed("two <b>")
	k.make("/v1/actions", `{"tool_name":"echo"}`)
	assert.Contains(t, k.read("/actions"), `href="/ui/actions/retry-all?status=failed"`)
	form := k.text("/actions/retry-all?status=failed")
	assert.Contains(t, form, "2 actions in all. Those that come to match later are not taken.")
	assert.Contains(t, form, "Makes a new action of each")
	assert.Contains(t, form, "two <b>")
	counted := k.chosen("/actions/retry-all?status=failed")

	late := k.failed("late")
	said := k.do("/actions/retry-all?status=failed", url.Values{"chosen": {counted}})
	assert.Contains(t, said, "They were retried. It was done to 2 actions.")
	assert.Equal(t, []int{1, 1, 0}, []int{k.retriesOf(a), k.retriesOf(b), k.retriesOf(late)})

	said = k.do("/actions/retry-all?status=failed", url.Values{"chosen": {counted}})
	assert.Contains(t, said, "It was done to 2 actions. Of 2 it had been done before: nothing was made once more.")
	assert.Equal(t, 1, k.retriesOf(a))
}

func TestAnActOnManyTakesTheFiltersOfItsList(t *testing.T) {
	k := newKit(t)
	k.make("/v1/actions", `{"tool_name":"echo","tenant":"x",`+farAway+`}`)
	middle := time.Now().Add(time.Millisecond)
	require.Eventually(t, func() bool { return time.Now().After(middle.Add(time.Millisecond)) }, time.Minute, time.Millisecond)
	k.make("/v1/actions", `{"tool_name":"echo","tenant":"y",`+farAway+`}`)
	k.make("/v1/actions", `{"tool_name":"hold","tenant":"x"}`)
	at := url.QueryEscape(middle.UTC().Format(time.RFC3339Nano))
	for query, want := range map[string]string{
		"": "2 actions in all", "?tenant=y": "1 action in all", "?status=running": "1 action in all", "?tool=hold": "Nothing matches these filters.",
		"?since=" + at: "1 action in all", "?until=" + at: "1 action in all", "?tenant=y&until=" + at: "Nothing matches these filters.",
	} {
		assert.Contains(t, k.text("/actions/cancel-all"+query), want, query)
	}
	list := k.read("/actions?tenant=x&since=" + at)
	assert.Contains(t, list, `href="/ui/actions/cancel-all?since=`+strings.ReplaceAll(at, "&", "&amp;")+`&amp;status=pending&amp;tenant=x"`, "the link has the filters of the list")
	assert.NotContains(t, k.read("/actions?status=completed"), "cancel-all", "nothing of these can be cancelled")
	assert.Equal(t, http.StatusBadRequest, k.send("GET", "/actions/cancel-all?status=completed", nil).Code)
	said := k.do("/actions/cancel-all?tenant=y", url.Values{"reason": {"the <b>host</b> is down"}})
	assert.Contains(t, said, "It was done to 1 action.")
	assert.NotContains(t, said, "it had been done before")
	assert.Contains(t, k.text("/actions?status=cancelled"), "the <b>host</b> is down")
	assert.Contains(t, k.text("/actions/cancel-all"), "1 action in all", "the others are as they were")

	counted := k.chosen("/actions/cancel-all")
	k.do("/actions/cancel-all", nil)
	said = k.do("/actions/cancel-all", url.Values{"chosen": {counted}})
	assert.Contains(t, said, "It was done to 0 of 1 action; 1 could not be done.")
	assert.Contains(t, said, "Reason How many … is cancelled, and not pending any more 1", "counted by reason")
	assert.Contains(t, said, "Which Answer Why", "and each by itself")

	w := k.send("POST", "/actions/cancel-all?status=completed", url.Values{"proof": {k.proof()}, "chosen": {counted}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, words(w.Body.String()), "the filters choose nothing that this can be done to")
}

// chosenIDs writes what a form carries of actions.
func chosenIDs(t *testing.T, ids ...uuid.UUID) string {
	t.Helper()
	var raw []byte
	for _, id := range ids {
		raw = append(raw, id[:]...)
	}
	b, err := json.Marshal([]map[string]any{{"path": "actions", "ids": raw}})
	require.NoError(t, err)
	return string(b)
}

func TestTheMostFrequentReasonWhyThingsCouldNotBeDoneStandsFirst(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/actions", `{"tool_name":"hold",`+farAway+`}`)
	k.write("POST", "/v1/actions/"+id+"/cancel", "")
	form := url.Values{"proof": {k.proof()}, "chosen": {chosenIDs(t, uuid.MustParse(id), uuid.New(), uuid.New())}}
	w := k.send("POST", "/actions/cancel-all", form)
	require.Equal(t, http.StatusOK, w.Code)
	assert.Regexp(t, "Reason How many .*not found.* 2 … is cancelled, and not pending any more 1", words(w.Body.String()))
}

// The second request of the form names a job twice, which the API refuses as a whole.
func TestAnActOnManyThatBreaksOffSaysOfHowManyItIsNotKnown(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.Jobs = &jobsService{} })
	for _, tenant := range []string{"x", "y"} {
		k.write("PUT", "/v1/jobs/nightly?tenant="+tenant, `{"schedule":"0 3 * * *","pod_spec":{"containers":[{"name":"c"}]}}`)
	}
	w := k.send("POST", "/jobs/pause-all", url.Values{"proof": {k.proof()}, "chosen": {
		`[{"path":"jobs","namespace":"default","tenant":"x","names":["nightly","gone"]},{"path":"jobs","namespace":"default","tenant":"y","names":["nightly","nightly"]}]`,
	}})
	said := words(w.Body.String())
	require.Equal(t, http.StatusOK, w.Code, said)
	assert.Contains(t, said, "It was broken off: ")
	assert.Contains(t, said, "It was done to 1 of 4 jobs; of 2 it is not known whether it was done.")
	assert.NotContains(t, said, "They are paused.")
	assert.Equal(t, true, k.write("GET", "/v1/jobs/nightly?tenant=x", "")["paused"])
	assert.Equal(t, false, k.write("GET", "/v1/jobs/nightly?tenant=y", "")["paused"])
}

func TestATokenThatMayNotUseJobsIsToldSoAndNotThatThereAreNone(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.Jobs = &jobsService{} }, admin("ops"), token("tool", func(k *httpapi.Token) { k.Tools = []string{"echo"} }))
	k.as = "ops-secret"
	k.write("PUT", "/v1/jobs/nightly", `{"schedule":"0 3 * * *","pod_spec":{"containers":[{"name":"c"}]}}`)
	k.make("/v1/recurring", `{"namespace":"default","tenant":"x","cron_expr":"0 9 * * *","provider":"echo","action_type":"x","payload":{}}`)
	k.as = "tool-secret"
	assert.Equal(t, http.StatusForbidden, k.send("GET", "/jobs/pause-all", nil).Code)
	assert.Contains(t, k.text("/schedules/pause-all"), "1 schedule in all", "the others are counted")
}

func TestWhatHasLeftTheStatusInWhichItWasCountedIsLeftAlone(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/actions", `{"tool_name":"hold",`+farAway+`}`)
	counted := k.chosen("/actions/cancel-all")
	k.write("POST", "/v1/actions/"+id+"/trigger", "")
	k.until("/v1/actions/"+id, "status.type", "running")
	said := k.do("/actions/cancel-all", url.Values{"chosen": {counted}})
	assert.Contains(t, said, `"`+id+`" is running, and not pending any more`)
	k.until("/v1/actions/"+id, "status.type", "running")
}

func TestAFormThatNamesOtherThingsReachesNoMoreThanItsTokenMay(t *testing.T) {
	k := newKit(t,
		httpapi.Token{Name: "a", SHA256: httpapi.HashToken("a-token"), Namespaces: []string{"default"}, Tenants: []string{"a"}},
		httpapi.Token{Name: "b", SHA256: httpapi.HashToken("b-token"), Namespaces: []string{"default"}, Tenants: []string{"b"}})
	k.as = "a-token"
	id := k.make("/v1/actions", `{"tool_name":"hold",`+farAway+`}`)
	theirs := k.chosen("/actions/cancel-all")
	k.as = "b-token"
	own := k.make("/v1/actions", `{"tool_name":"hold",`+farAway+`}`)
	assert.Contains(t, k.text("/actions/cancel-all"), "1 action in all", "another tenant's are not counted")
	assert.Contains(t, k.do("/actions/cancel-all", url.Values{"chosen": {theirs}}), "action not found")
	k.until("/v1/actions/"+own, "status.type", "pending")
	k.as = "a-token"
	k.until("/v1/actions/"+id, "status.type", "pending")
}

func TestAnActOnManyRefusesAFormThatItDidNotMake(t *testing.T) {
	k := newKit(t)
	k.make("/v1/actions", `{"tool_name":"hold",`+farAway+`}`)
	proof := k.proof()
	for _, chosen := range []string{"", "{}", "[]", `[{"path":"locks","ids":"AAAAAAAAAAAAAAAAAAAAAA=="}]`, `[{"path":"actions","ids":"AAAA"}]`, `[{"path":"actions","names":["x"]}]`} {
		w := k.send("POST", "/actions/cancel-all", url.Values{"proof": {proof}, "chosen": {chosen}})
		assert.Equal(t, http.StatusBadRequest, w.Code, chosen)
		assert.Contains(t, words(w.Body.String()), "the form does not say what it is about: load it again")
	}
	tooMany := k.send("POST", "/actions/cancel-all", url.Values{"proof": {proof}, "chosen": {chosenIDs(t, make([]uuid.UUID, 10_001)...)}})
	assert.Equal(t, http.StatusBadRequest, tooMany.Code)
	assert.Contains(t, words(tooMany.Body.String()), "the form does not say what it is about", "more things than a form counts")
	w := k.send("POST", "/actions/cancel-all", url.Values{"chosen": {k.chosen("/actions/cancel-all")}})
	assert.Equal(t, http.StatusForbidden, w.Code, "the proof is missing")
	assert.Contains(t, k.text("/actions/cancel-all"), "1 action in all")
}

func TestMoreThanTenThousandAreTakenInParts(t *testing.T) {
	k := newKit(t)
	for range 11 {
		k.write("POST", "/v1/actions/batch", `{"actions":[`+strings.TrimSuffix(strings.Repeat(`{"tool_name":"echo",`+farAway+`},`, 1000), ",")+`]}`)
	}
	form := k.text("/actions/cancel-all?tool=echo")
	assert.Contains(t, form, "More than 10,000 match: the first 10,000 of the list are taken. To go on with the others afterwards, choose those that were created before ")
	assert.Contains(t, form, "10,000 actions match. These are the first 10 of them.")
	assert.Contains(t, k.text("/actions/cancel-all?tool=echo&order=oldest"), "the first 10,000 of the list are taken. Do it again afterwards for the others.")
	assert.Contains(t, k.do("/actions/cancel-all?tool=echo", nil), "It was done to 10,000 actions.")
	assert.Contains(t, k.text("/actions/cancel-all?tool=echo"), "1,000 actions match.")
}

func TestAllSchedulesOfAListArePausedForTheNightAndGoOn(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.Jobs = &jobsService{} })
	k.make("/v1/recurring", `{"namespace":"default","tenant":"x","cron_expr":"0 9 * * *","provider":"echo","action_type":"x","payload":{}}`)
	for _, tenant := range []string{"x", "y"} {
		k.write("PUT", "/v1/jobs/nightly?tenant="+tenant, `{"schedule":"0 3 * * *","pod_spec":{"containers":[{"name":"c"}]}}`)
	}
	assert.Contains(t, k.text("/schedules/pause-all"), "3 schedules in all")
	assert.Contains(t, k.text("/schedules/pause-all?kind=job&tenant=y"), "1 schedule in all")
	assert.NotContains(t, k.read("/schedules?kind=action"), "pause-all", "periodic actions are not paused")
	assert.NotContains(t, k.read("/jobs?state=paused"), "pause-all", "the list shows none that could be paused")
	said := k.do("/schedules/pause-all?tenant=x", url.Values{"reason": {"night"}, "until": {"2090-01-01T06:00"}})
	assert.Contains(t, said, "They are paused. It was done to 2 schedules.")
	job := k.write("GET", "/v1/jobs/nightly?tenant=x", "")
	assert.Equal(t, []any{"night", "2090-01-01T06:00:00.000Z"}, []any{job["paused_reason"], job["paused_until"]})
	assert.Equal(t, false, k.write("GET", "/v1/jobs/nightly?tenant=y", "")["paused"])
	assert.Contains(t, k.text("/jobs/resume-all"), "1 job in all")
	assert.Contains(t, k.do("/schedules/resume-all", nil), "It was done to 2 schedules.")
	assert.Equal(t, false, k.write("GET", "/v1/jobs/nightly?tenant=x", "")["paused"])
}

func TestJobsOfTenantsOfOneNameInTwoNamespacesAreAllPaused(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.Jobs = &jobsService{} })
	paths := []string{"/v1/jobs/nightly?namespace=one&tenant=x", "/v1/jobs/nightly?namespace=two&tenant=x"}
	for _, path := range paths {
		k.write("PUT", path, `{"schedule":"0 3 * * *","pod_spec":{"containers":[{"name":"c"}]}}`)
	}
	assert.Contains(t, k.do("/jobs/pause-all", nil), "It was done to 2 jobs.")
	for _, path := range paths {
		assert.Equal(t, true, k.write("GET", path, "")["paused"], path)
	}
}

func TestEveryActOnManyCountsItsList(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.Jobs = &jobsService{} })
	for _, form := range []string{
		"/actions/retry-all", "/actions/cancel-all", "/actions/trigger-all", "/runs/cancel-all", "/runs/retry-all", "/pipelines/retry-all", "/pipelines/cancel-all",
		"/tasks/cancel-all", "/strategies/cancel-all", "/schedules/pause-all", "/schedules/resume-all", "/jobs/pause-all", "/jobs/resume-all",
	} {
		list := strings.TrimSuffix(form, form[strings.LastIndexByte(form, '/'):])
		assert.Contains(t, k.read(list), `href="/ui`+form, "its list leads to it")
		assert.Contains(t, k.text(form), "Nothing matches these filters.")
		assert.Contains(t, k.read(form), " disabled", "there is nothing to send")
	}
}

func TestAListIsTurnedAround(t *testing.T) {
	k := newKit(t)
	for i := range 60 {
		k.make("/v1/actions", fmt.Sprintf(`{"id":"%s","tool_name":"echo","label":"number %02d.",%s}`, uuid.Must(uuid.NewV7()), i, farAway))
	}
	first := k.read("/actions?tool=echo")
	assert.Contains(t, first, "number 59.")
	assert.NotContains(t, first, "number 00.")
	assert.Contains(t, first, `<a href="/ui/actions?order=oldest&amp;tool=echo">Oldest first</a>`)
	turned := k.read("/actions?tool=echo&order=oldest")
	assert.Contains(t, turned, "number 00.")
	assert.NotContains(t, turned, "number 59.")
	assert.Contains(t, turned, `<a href="/ui/actions?tool=echo">Newest first</a>`)
	assert.Contains(t, turned, `<caption class="hidden">Actions, oldest first</caption>`)
	assert.Contains(t, turned, `<input type="hidden" name="order" value="oldest">`, "the filters keep the order")
	next := regexp.MustCompile(`rel="next" href="/ui([^"]*)"`).FindStringSubmatch(turned)
	require.NotNil(t, next)
	last := k.read(html.UnescapeString(next[1]))
	assert.Contains(t, last, "number 59.")
	assert.NotContains(t, last, "number 49.")
	for _, list := range []string{"/runs", "/jobs", "/pipelines", "/tasks", "/strategies", "/backfills", "/occurrences"} {
		assert.Equal(t, http.StatusOK, k.send("GET", list+"?order=oldest", nil).Code, list)
	}
	assert.Equal(t, http.StatusBadRequest, k.send("GET", "/actions?order=sideways", nil).Code)
}
