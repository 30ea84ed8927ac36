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

func TestJSONThatIsDeepIsShownWithoutAnIndent(t *testing.T) {
	k := newKit(t)
	deep := strings.Repeat("[", 190) + strings.Repeat("0,", 20_000) + "0" + strings.Repeat("]", 190)
	id := k.make("/v1/actions", `{"tool_name":"echo","label":"deep","tool_input":{"a":`+deep+`}}`)
	assert.Contains(t, k.text("/actions/"+id), "0,0,0,0,0")
}
