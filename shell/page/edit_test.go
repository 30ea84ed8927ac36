package page_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fullRecurring has every option of a recurring action, with values that a line of a form has no place for.
const fullRecurring = `{"namespace":"default","tenant":"default","cron_expr":"30 2 1 1 *","timezone":"Europe/Berlin","description":"two\nlines ","provider":"echo","action_type":"x",
	"payload":{"large":12345678901234567890123,"exact":1.10,"text":"<&>"},"metadata":{"note":"a=b\nc = d"," e ":" f "},"dedup_key":"key","labels":{"team":"data"},
	"starts_at":"2026-01-31T09:00:00.250Z","ends_at":"2126-10-25T01:30:00.5Z","start_deadline_seconds":70,"dst":"twice","day_match":"both","max_executions":9,"jitter_seconds":7,
	"missed":"all","catch_up_seconds":3600,"catch_up_limit":5,"catch_up_spacing_seconds":60,"overlap":"buffer_all","buffer_limit":4,"max_wait_seconds":50,
	"policy":{"timeout_ms":5000}}`

func TestAnEditOfOneFieldChangesNoOther(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", strings.Replace(fullRecurring, `"team":"data"`, `"team":"data","long":"`+strings.Repeat("v", 400)+`"`, 1))
	of := func() map[string]any {
		r := k.write("GET", "/v1/recurring/"+id, "")
		for _, moving := range []string{"updated_at", "sequence"} {
			delete(r, moving)
		}
		return r
	}
	before := of()
	raw := k.send("GET", "/recurring/"+id+"/edit", nil).Body.String()
	assert.Contains(t, html.UnescapeString(raw), `"large": 12345678901234567890123`)
	require.Equal(t, http.StatusSeeOther, k.send("POST", "/zone", url.Values{"zone": {"America/New_York"}, "to": {"/"}, "proof": {k.proof()}}).Code)

	k.act("/recurring/"+id+"/edit", url.Values{"jitter_seconds": {"8"}})
	after := of()
	assert.InDelta(t, 8.0, after["jitter_seconds"], 0)
	after["jitter_seconds"] = before["jitter_seconds"]
	assert.Equal(t, before, after)

	k.act("/recurring/"+id+"/edit", url.Values{"labels": {"team=ops"}, "metadata": {`{"note":"x\ny"}`}, "description": {"one\r\ntwo"}})
	after = of()
	assert.Equal(t, map[string]any{"team": "ops"}, after["labels"])
	assert.Equal(t, map[string]any{"note": "x\ny"}, after["action_template"].(map[string]any)["metadata"])
	assert.Equal(t, "one\ntwo", after["description"])
	assert.Equal(t, before["starts_at"], after["starts_at"])

	w := k.try("/recurring/"+id+"/edit", nil)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "nothing was changed in the form")
}

func TestAnEditHasJSONWholeWithItsNumbers(t *testing.T) {
	k := newKit(t)
	long := strings.Repeat("x", 70<<10)
	id := k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"30 2 1 1 *","provider":"echo","action_type":"x","payload":{"n":12345678901234567890123,"t":"`+long+`"}}`)
	k.act("/recurring/"+id+"/edit", url.Values{"payload": {`{"n":12345678901234567890124,"t":"` + long + `"}`}})
	raw := k.send("GET", "/recurring/"+id+"/edit", nil).Body.String()
	assert.Contains(t, html.UnescapeString(raw), `"n": 12345678901234567890124`)
	assert.Contains(t, raw, long, "what is edited is there whole")
}

func TestJSONThatIsDeepSaysHowMuchIsNotShownAndIsEditedWithoutAnIndent(t *testing.T) {
	k := newKit(t)
	deep := `{"a":` + strings.Repeat("[", 190) + strings.Repeat("0,", 20_000) + "0" + strings.Repeat("]", 190) + `}`
	id := k.make("/v1/actions", `{"tool_name":"echo","label":"deep","tool_input":`+deep+`}`)
	assert.Contains(t, k.text("/actions/"+id), "… 1 more value with 40,341 bytes")
	id = k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"30 2 1 1 *","provider":"echo","action_type":"x","payload":`+deep+`}`)
	assert.Contains(t, html.UnescapeString(k.read("/recurring/"+id+"/edit")), deep)
}

func TestWhoEditsSecondIsToldAndMayInsist(t *testing.T) {
	k := newJobsPage(t).kit
	recurring := k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"30 2 1 1 *","provider":"echo","action_type":"x"}`)
	k.make("/v1/calendars", `{"name":"c"}`)
	const pod = `"pod_spec":{"containers":[{"name":"main"}]}}`
	for _, row := range []struct{ form, api, first, theirs, field, mine string }{
		{"/queues/q/configure", "/v1/queues/q", `{}`, `{"concurrency":2}`, "concurrency", "3"},
		{"/workers/w/configure", "/v1/workers/w", `{"queue":"q","do":{"run":{"tool":"echo","input":{}}}}`, `{"queue":"q","concurrency":2,"do":{"run":{"tool":"echo","input":{}}}}`, "concurrency", "3"},
		{"/semaphores/s/configure", "/v1/semaphores/s", `{"slots":1}`, `{"slots":2}`, "slots", "3"},
		{"/subscribers/b/edit", "/v1/subscribers/b", `{"match":{"category":"a"},"do":{"push":{"name":"q"}}}`, `{"match":{"category":"b"},"do":{"push":{"name":"q"}}}`, "match", `{"category":"c"}`},
		{"/calendars/c/edit", "/v1/calendars/c", `{"description":"first"}`, `{"description":"theirs"}`, "description", "mine"},
		{"/jobs/j/apply", "/v1/jobs/j", `{"name":"first",` + pod, `{"name":"theirs",` + pod, "rest", `{"name":"mine",` + pod},
		{"/recurring/" + recurring + "/edit", "/v1/recurring/" + recurring, `{"description":"first"}`, `{"description":"theirs"}`, "description", "mine"},
	} {
		k.write("PUT", row.api, row.first)
		sent := k.filled(row.form, url.Values{row.field: {row.mine}})
		require.NotEmpty(t, sent.Get("if_match"), row.form)
		theirs := k.write("PUT", row.api, row.theirs)
		w := k.send("POST", row.form, sent)
		require.Equal(t, http.StatusPreconditionFailed, w.Code, "%s: %s", row.form, words(w.Body.String()))
		shown := html.UnescapeString(w.Body.String())
		assert.Contains(t, shown, "Somebody else has changed it since you opened this form, and your change was not made.", row.form)
		assert.Contains(t, strings.Join(strings.Fields(shown), ""), strings.Join(strings.Fields(row.mine), ""), "%s: what was typed stands there still", row.form)
		now := k.write("GET", row.api, "")
		for _, moving := range []string{"next_times_before", "next_times", "moved", "more"} {
			delete(theirs, moving)
		}
		assert.Subset(t, now, theirs, "%s: theirs is kept", row.form)

		renewed := ""
		for _, m := range inputs.FindAllStringSubmatch(w.Body.String(), -1) {
			if m[1] == "if_match" {
				renewed = html.UnescapeString(m[2])
			}
		}
		assert.Regexp(t, `^"[0-9a-f]{32}"$`, renewed, row.form)
		require.NotEqual(t, sent.Get("if_match"), renewed, row.form)
		sent.Set("if_match", renewed)
		assert.Equal(t, http.StatusSeeOther, k.send("POST", row.form, sent).Code, row.form)
	}
}

func TestANewThingDoesNotReplaceOneOfItsName(t *testing.T) {
	k := newKit(t)
	k.write("PUT", "/v1/queues/q", `{"concurrency":2}`)
	k.write("PUT", "/v1/semaphores/s", `{"slots":2}`)
	k.write("PUT", "/v1/subscribers/b", `{"match":{"category":"a"},"do":{"push":{"name":"q"}}}`)
	for form, fields := range map[string]url.Values{
		"/new-queue":      {"name": {"q"}},
		"/new-semaphore":  {"name": {"s"}, "slots": {"9"}},
		"/new-subscriber": {"name": {"b"}, "match": {`{"category":"z"}`}, "do": {`{"push":{"name":"other"}}`}},
	} {
		w := k.try(form, fields)
		assert.Equal(t, http.StatusPreconditionFailed, w.Code, form)
		assert.Contains(t, words(w.Body.String()), "There is one of this name already: choose another name, or edit that one.", form)
	}
	assert.InDelta(t, 2, k.write("GET", "/v1/queues/q", "")["config"].(map[string]any)["concurrency"], 0)
	assert.InDelta(t, 2, k.write("GET", "/v1/semaphores/s", "")["total"], 0)
}

func TestAFormWhoseFieldsCannotBeReadChangesNothing(t *testing.T) {
	k := newKit(t)
	w := k.send("POST", "/queues/gone/configure", url.Values{"proof": {k.proof()}, "concurrency": {"7"}})
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.Contains(t, k.text("/queues"), "There is no queue.")
}
