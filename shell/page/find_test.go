package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSearchFindsWhatHasANameOfEachKind(t *testing.T) {
	k := newWorld(t)
	run := ""
	for _, e := range k.everything() {
		if e.kind == "run" {
			run = strings.TrimPrefix(e.page, "/runs/")
		}
	}
	name, _ := k.write("GET", "/v1/runs/"+run, "")["run_id"].(string)
	require.True(t, strings.HasPrefix(name, "report:2"), name)
	for asked, want := range map[string]string{
		"changelog": "/ui/tasks/", "report": "/ui/jobs/report?", "scribe": "/ui/workers/scribe?", "Ledger": "/ui/locks/ledger?", "gpus": "/ui/semaphores/gpus?",
		"holidays": "/ui/calendars/holidays?", "shop": "/ui/pipelines/", "mail": "/ui/queues/mail?", "certificates": "/ui/actions/", "debtors": "/ui/recurring/",
		name: "/ui/runs/" + run, name[:12]: "/ui/runs/" + run,
	} {
		w := k.send("GET", "/find?q="+url.QueryEscape(asked), nil)
		require.Equal(t, http.StatusSeeOther, w.Code, "%s: %s", asked, words(w.Body.String()))
		assert.True(t, strings.HasPrefix(w.Header().Get("Location"), want), "%s: %s", asked, w.Header().Get("Location"))
	}
	assert.Regexp(t, `deploys subscriber .*deploys webhook route default / default`, k.text("/find?q=deploys"))
	assert.Contains(t, k.text("/find?q=close"), "close the books backfill default / default")
	assert.Contains(t, k.text("/find?q=mend"), "mend the build strategy default / default")
	assert.Contains(t, k.text("/find?q=report:1999"), "Nothing that you may see has this id")
	assert.Contains(t, k.text("/find?q=nobody:2026-02-10T14:00:00.000Z"), "Nothing that you may see has this id")
}

func TestTheSearchFindsAWordBehindAnySign(t *testing.T) {
	k := newKit(t)
	for _, name := range []string{"nightly-report", "mail_report", "eu.report", "de/report", "the report"} {
		k.make("/v1/tasks", `{"label":"`+name+`"}`)
	}
	k.make("/v1/tasks", `{"label":"unreported"}`)
	text := k.text("/find?q=Report")
	assert.Equal(t, 5, strings.Count(text, " task default"), text)
	assert.NotContains(t, text, "unreported", "no word of it begins so")
}

func TestTheSearchSaysWhatItHasNotLookedAt(t *testing.T) {
	k := newKit(t)
	for i := range 21 {
		k.write("PUT", fmt.Sprintf("/v1/queues/lot-%d", i), `{}`)
	}
	text := k.text("/find?q=lot")
	assert.Contains(t, text, "The first 20 of each kind; there are more: 21 queues.")
	assert.Equal(t, 20, strings.Count(text, " queue default"))
	assert.NotContains(t, k.text("/find?q=lot-1"), "there are more", "eleven are all shown")
	assert.Contains(t, k.text("/find?q=lot-1"), "Name Kind Tenant lot-1 queue", "what is called exactly so comes first")
	for i := range 501 {
		k.make("/v1/tasks", fmt.Sprintf(`{"label":"many %d"}`, i))
	}
	text = k.text("/find?q=nobody")
	assert.Contains(t, text, "Names are looked for among the newest 500 of each kind: older tasks are not found, they stand in their lists.")
	for i := range 51 {
		k.make("/v1/actions", fmt.Sprintf(`{"id":"0193f2a4-5b6c-4d8e-9f01-0000000001%02d","tool_name":"echo"}`, i))
	}
	assert.Contains(t, k.text("/find?q=0193f2a4"), "The first 50. There are more: type more of the id.")
}
