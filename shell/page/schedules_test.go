package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// nightly makes a recurring action that fires once a year.
func (k *kit) nightly(name string) string {
	return k.make("/v1/recurring", fmt.Sprintf(`{"namespace":"n","tenant":"t","cron_expr":"30 2 1 1 *","provider":"echo","action_type":"x","description":%q}`, name))
}

// named finds the names of the rows of a list.
var named = regexp.MustCompile(`data-head="Name"><a[^>]*>([^<]*)<`)

func TestSchedulesOfAllKindsStandInOneListThatIsPaged(t *testing.T) {
	k := newKit(t)
	for i := range 60 {
		k.nightly(fmt.Sprintf("number %02d", i))
	}
	k.make("/v1/actions", `{"tool_name":"echo","label":"periodic one","recurrence":{"cron":"0 0 1 1 *"}}`)
	first := k.read("/schedules")
	assert.Equal(t, 50, strings.Count(first, `data-head="Name"`))
	assert.Contains(t, words(first), "At 02:30, on day 1 of the month, in January")
	seen := map[string]bool{}
	for path := "/schedules"; path != ""; {
		body := k.read(path)
		for _, m := range named.FindAllStringSubmatch(body, -1) {
			seen[m[1]] = true
		}
		_, rest, more := strings.Cut(body, `rel="next" href="/ui`)
		path = ""
		if more {
			path, _, _ = strings.Cut(rest, `"`)
			path = strings.ReplaceAll(path, "&amp;", "&")
		}
	}
	assert.Len(t, seen, 61)
	assert.Contains(t, seen, "periodic one")
	only := k.text("/schedules?kind=action")
	assert.Contains(t, only, "periodic one")
	assert.NotContains(t, only, "number")
	assert.Equal(t, http.StatusBadRequest, k.send("GET", "/schedules?kind=moon", nil).Code)
	assert.Contains(t, k.text("/schedules?tenant=nobody"), "Nothing matches these filters.")
}

func TestARecurringActionIsMadeEditedPausedTriggeredAndDeletedOnThePage(t *testing.T) {
	k := newKit(t)
	to := k.act("/schedules/new", url.Values{
		"cron_expr": {"30 2 1 1 *"}, "timezone": {"Europe/Berlin"}, "description": {"yearly <b>report</b>"}, "provider": {"echo"}, "action_type": {"x"}, "payload": {`{"a": 1}`},
		"labels": {"team = data"}, "jitter_seconds": {"5"},
	})
	shown := k.text(to)
	assert.Contains(t, shown, "The recurring action was created.")
	assert.Contains(t, shown, "yearly <b>report</b>")
	assert.Contains(t, shown, "At 02:30, on day 1 of the month, in January (Europe/Berlin)")
	assert.Contains(t, shown, "team = data")
	at, _, _ := strings.Cut(to, "?")

	assert.Contains(t, k.text(k.act(at+"/edit", url.Values{"cron_expr": {"0 4 1 1 *"}, "labels": {""}, "jitter_seconds": {""}})), "At 04:00")
	r := k.write("GET", "/v1"+at, "")
	assert.Equal(t, "yearly <b>report</b>", r["description"], "what was not touched stays")
	assert.Empty(t, r["labels"], "what was emptied is gone")
	assert.Nil(t, r["jitter_seconds"])
	assert.Equal(t, map[string]any{"a": 1.0}, r["action_template"].(map[string]any)["payload"])

	shown = k.text(k.act(at+"/pause", url.Values{"reason": {"for the night"}, "until": {"2126-01-31T07:00"}}))
	assert.Contains(t, shown, "It is paused by api:loopback: for the night")
	assert.Contains(t, shown, "Paused until 2126-01-31 07:00:00 UTC")
	assert.NotContains(t, shown, "Pause ", "what is paused is resumed")
	assert.NotContains(t, k.text(k.act(at+"/resume", nil)), "It is paused")

	k.act(at+"/trigger", url.Values{"payload": {`{"a": 2}`}})
	require.Eventually(t, func() bool { return strings.Contains(k.text(at), "dispatched completed") }, 20*time.Second, 20*time.Millisecond)
	assert.Contains(t, k.text(k.act(at+"/skip-next", nil)), "Next times to skip 1")

	to = k.act(at+"/delete", nil)
	assert.Contains(t, k.text(to), "The recurring action was deleted.")
	assert.Equal(t, http.StatusNotFound, k.send("GET", at, nil).Code)
}

func TestARecurringActionWithANameIsCalledByItEverywhere(t *testing.T) {
	k := newKit(t)
	form := url.Values{"cron_expr": {"30 2 1 1 *"}, "provider": {"echo"}, "action_type": {"x"}, "name": {"yearly"}, "description": {"the books"}}
	to := k.act("/schedules/new", form)
	shown := k.text(to)
	assert.Contains(t, shown, "Recurring action yearly")
	assert.Contains(t, shown, "Description the books")
	assert.Contains(t, k.text("/schedules"), "yearly")
	at, _, _ := strings.Cut(to, "?")
	for _, word := range []string{"yearly", "books"} {
		assert.True(t, strings.HasSuffix(k.send("GET", "/find?q="+word, nil).Header().Get("Location"), at), word)
	}

	w := k.try("/schedules/new", form)
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, words(w.Body.String()), `Name: "yearly" is that of`)

	shown = k.text(k.act(at+"/edit", url.Values{"name": {""}}))
	assert.Contains(t, shown, "Recurring action the books", "without a name it is called by its description")
	k.act("/schedules/new", form)
}

func TestAFormThatIsRefusedSaysWhyAndKeepsWhatWasTyped(t *testing.T) {
	k := newKit(t)
	w := k.try("/schedules/new", url.Values{"cron_expr": {"61 * * * *"}, "provider": {"echo"}, "action_type": {"x"}, "description": {"kept"}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, words(w.Body.String()), "61")
	assert.Contains(t, w.Body.String(), `value="kept"`)
	w = k.try("/schedules/new", url.Values{"cron_expr": {""}, "provider": {"echo"}, "action_type": {"x"}, "payload": {"{"}, "jitter_seconds": {"many"}, "starts_at": {"soon"}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	shown := words(w.Body.String())
	for _, want := range []string{"Cron expression: is missing", "Payload: is not JSON", `Jitter in seconds: "many" is not a whole number`, `Starts: "soon" is not a time such as`} {
		assert.Contains(t, shown, want)
	}
}

func TestThePreviewSaysInWordsWhatIsTypedAndWarnsOfClockChanges(t *testing.T) {
	k := newKit(t)
	shown := k.text("/schedules/preview?cron_expr=30+2+*+*+*&timezone=Europe%2FBerlin")
	assert.Contains(t, shown, "At 02:30 (Europe/Berlin)")
	shown = k.text("/schedules/preview?cron_expr=30+2+1+*%2F6+*&timezone=Europe%2FBerlin")
	assert.Contains(t, shown, "The clocks of Europe/Berlin go")
	assert.Contains(t, k.text("/schedules/preview?cron_expr=nonsense"), "nonsense")
	assert.NotContains(t, k.text("/schedules/preview"), "cron_expr")
}

func TestTheEveOfAChangeOfTheClocksIsWarnedOf(t *testing.T) {
	clock := &setClock{now: time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)}
	k := newKitWith(t, func(o *httpapi.Options) { o.Clock = clock })
	const nightly = "/schedules/preview?cron_expr=30+2+*+*+*&timezone=Europe%2FBerlin"
	assert.Contains(t, k.text(nightly), "The clocks of Europe/Berlin go forward by 1h0m before Sun 2026-03-29 03:00 CEST", "it lies before the first of the times that are shown")
	clock.now = clock.now.AddDate(0, 0, 1)
	assert.NotContains(t, k.text(nightly), "The clocks of Europe/Berlin go", "it is over")
}

func TestTheWordsOfAScheduleSayIfBothDayFieldsMustMatch(t *testing.T) {
	k := newKit(t)
	const both = `"day_match":"both"}`
	k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"0 9 13 * FRI","provider":"echo","action_type":"x","description":"the thirteenth",`+both)
	k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"* * 1-31 * MON-SUN","provider":"echo","action_type":"x","description":"each minute",`+both)
	list := k.text("/schedules")
	assert.Contains(t, list, "At 09:00, on day 13 of the month, and only on Friday")
	assert.NotContains(t, list, " or ")
	_, next, _ := strings.Cut(k.text("/"), "Due in the next hour")
	assert.Contains(t, next, "each minute")
	assert.NotContains(t, next, " or ")

	p := newJobsPage(t)
	p.apply(core.JobSpec{ID: "thirteenth", Schedule: "0 9 13 * FRI", ScheduleOptions: core.ScheduleOptions{DayMatch: schedule.DayMatchBoth}})
	rest := `{"schedule":"0 9 13 * FRI","day_match":"both","pod_spec":{"containers":[{"name":"main"}]}}`
	tried := p.try("/jobs/thirteenth/apply"+ofDefault, url.Values{"rest": {rest}, "try": {"yes"}}).Body.String()
	for where, shown := range map[string]string{"schedules": p.read("/schedules"), "jobs": p.read("/jobs"), "its page": p.read("/jobs/thirteenth" + ofDefault), "what an edit would do": tried} {
		assert.Contains(t, words(shown), "At 09:00, on day 13 of the month, and only on Friday", where)
	}
}

func TestAReaderSeesWhatItMayNotDo(t *testing.T) {
	k := newKit(t, admin("ops"), token("reader", func(t *httpapi.Token) { t.ReadOnly = true }))
	k.as = "ops-secret"
	id := k.nightly("report")
	k.as = "reader-secret"
	body := k.read("/recurring/" + id)
	assert.Contains(t, words(body), "Pause : Your token is read-only.")
	assert.NotContains(t, body, `href="/ui/recurring/`+id+`/pause"`)
	w := k.try("/recurring/"+id+"/pause", nil)
	assert.Equal(t, http.StatusForbidden, w.Code)
	assert.Contains(t, words(w.Body.String()), "is read-only")
}

func TestATokenOfATenantSeesItsOwnAlone(t *testing.T) {
	k := newKit(t, admin("ops"), token("other", func(t *httpapi.Token) { t.Namespaces, t.Tenants = []string{"n"}, []string{"other"} }))
	k.as = "ops-secret"
	id := k.nightly("secret report")
	action := k.make("/v1/actions", `{"namespace":"n","tenant":"t","tool_name":"echo","label":"secret action"}`)
	k.as = "other-secret"
	for _, path := range []string{"/", "/schedules", "/actions", "/calendar", "/occurrences", "/find?q=secret", "/find?q=" + id, "/system"} {
		assert.NotContains(t, strings.ReplaceAll(k.text(path), "“secret”", ""), "secret", path)
	}
	for _, path := range []string{"/recurring/" + id, "/recurring/" + id + "/edit", "/actions/" + action, "/changes/recurring/" + id, "/changes/action/" + action} {
		assert.Equal(t, http.StatusNotFound, k.send("GET", path, nil).Code, path)
	}
	assert.Contains(t, k.text("/system"), "your token is bound, and does not see them")
}

func TestTheSearchLeadsToWhatHasAnIdOrAName(t *testing.T) {
	k := newKit(t)
	id := k.nightly("weekly digest")
	w := k.send("GET", "/find?q="+id, nil)
	assert.Equal(t, "/ui/recurring/"+id, w.Header().Get("Location"))
	assert.Equal(t, "/ui/recurring/"+id, k.send("GET", "/find?q=dig", nil).Header().Get("Location"), "a word of its name begins with that")
	assert.Equal(t, "/ui/recurring/"+id, k.send("GET", "/find?q="+id[:8], nil).Header().Get("Location"))
	k.nightly("weekly dinner")
	assert.Contains(t, k.text("/find?q=di"), "weekly digest recurring action")
	assert.Contains(t, k.text("/find?q=nothing"), "Nothing that you may see has this id")
	assert.Contains(t, k.text("/find?q=%3Cb%3Ex"), "Found for “<b>x”")
}

func TestTheSearchLeadsToATimeOfASchedule(t *testing.T) {
	k := newKit(t)
	id := k.nightly("weekly digest")
	k.write("POST", "/v1/recurring/"+id+"/trigger", `{}`)
	first := time.Now()
	require.Eventually(t, func() bool { return time.Since(first) > 2*time.Millisecond }, time.Minute, time.Millisecond) // at another time
	k.write("POST", "/v1/recurring/"+id+"/trigger", `{}`)
	list, _ := k.write("GET", "/v1/occurrences", "")["occurrences"].([]any)
	require.NotEmpty(t, list)
	entry, _ := list[0].(map[string]any)["id"].(string)
	to := k.send("GET", "/find?q="+entry, nil).Header().Get("Location")
	require.Contains(t, to, "/ui/occurrences?", "it has no page of its own")
	assert.Equal(t, 1, strings.Count(k.text(strings.TrimPrefix(to, "/ui")), "weekly digest"))
	assert.Equal(t, "/ui/find?q="+entry, k.send("GET", "/find?q="+entry[:35], nil).Header().Get("Location"))
}

func TestAFormThatIsSentAfterTheEndOfTheSessionLeadsToAPageAgain(t *testing.T) {
	k := newKit(t, admin("ops"))
	for _, form := range []string{"/zone", "/sign-out"} {
		assert.Equal(t, "/ui/sign-in?to=%2F", k.send("POST", form, url.Values{"zone": {"UTC"}}).Header().Get("Location"), form)
	}
}

func TestTheJournalSaysWhoChangedSomething(t *testing.T) {
	k := newKit(t, admin("ops"), admin("night"))
	k.as = "ops-secret"
	id := k.nightly("report")
	k.as = "night-secret"
	k.act("/recurring/"+id+"/pause", url.Values{"reason": {"too loud"}})
	assert.Contains(t, k.read("/recurring/"+id), `href="/ui/changes/recurring/`+id+`"`)
	shown := k.text("/changes/recurring/" + id)
	paused, made, ok := strings.Cut(shown, "api:ops")
	require.True(t, ok)
	assert.Contains(t, paused, "api:night")
	assert.Contains(t, paused, "enabled: true → false")
	assert.Contains(t, paused, "too loud")
	assert.Contains(t, made, "description: nothing → report")
}

func TestTheCalendarShowsWhatIsToCome(t *testing.T) {
	k := newKit(t)
	k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"15 * * * *","provider":"echo","action_type":"x","description":"hourly"}`)
	k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"* * * * *","provider":"echo","action_type":"x","description":"often"}`)
	body := k.read("/calendar?day=2096-03-01")
	assert.Contains(t, words(body), "Thursday, 1 March 2096")
	assert.Contains(t, words(body), "hourly to come", "as far ahead as anybody asks")
	_, rest, _ := strings.Cut(k.read("/calendar"), `<li><a href="`)
	assert.Contains(t, rest, "The day after")
	tomorrow := k.text("/calendar?day=" + tomorrowUTC())
	assert.Contains(t, tomorrow, "hourly to come")
	assert.Contains(t, tomorrow, "are not shown")
	assert.Equal(t, 1, strings.Count(tomorrow, "often to come the last of its times that is shown: more follow on this day"))
	assert.Equal(t, http.StatusBadRequest, k.send("GET", "/calendar?day=soon", nil).Code)
}

func TestTheOverviewSaysWhatFailedRunsAndComesNext(t *testing.T) {
	k := newKit(t)
	assert.Contains(t, k.text("/"), "Nothing is here yet")
	failed := k.make("/v1/actions", `{"tool_name":"fail","label":"broken thing"}`)
	k.until("/v1/actions/"+failed, "status.type", "failed")
	k.make("/v1/actions", `{"tool_name":"hold","label":"long thing"}`)
	k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"* * * * *","provider":"echo","action_type":"x","description":"minutely"}`)
	shown := k.text("/")
	assert.NotContains(t, shown, "Nothing is here yet")
	assert.Contains(t, shown, "1 actions failed in 24 h")
	assert.Contains(t, shown, "did <b>not</b> work")
	_, running, _ := strings.Cut(shown, "Running now")
	assert.Contains(t, running, "long thing")
	_, next, _ := strings.Cut(shown, "Due in the next hour")
	assert.Contains(t, next, "minutely")
}

func TestAnActionShowsWhyItFailedAndIsRunAgain(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/actions", `{"tool_name":"fail","label":"broken","tool_input":{"n":1}}`)
	k.until("/v1/actions/"+id, "status.type", "failed")
	body := k.read("/actions/" + id)
	assert.Contains(t, body, `class="notice bad" role="alert"`)
	assert.Contains(t, words(body), "did <b>not</b> work")
	require.Contains(t, body, `href="/ui/actions/`+id+`/retry"`)
	to := k.act("/actions/"+id+"/retry", nil)
	assert.NotContains(t, to, id)
	assert.Contains(t, k.text(to), "A new action was made of the one that had ended.")
}

func TestAnActionThatTheAPIWouldNotMakeAgainOffersNoSuchAct(t *testing.T) {
	k := newKit(t)
	done := k.make("/v1/actions", `{"tool_name":"echo"}`)
	k.until("/v1/actions/"+done, "status.type", "completed")
	assert.NotContains(t, k.text("/actions/"+done), "Run again")
	assert.NotContains(t, k.text("/actions/"+done), "Deliver again")

	release := k.make("/v1/pipelines", `{"namespace":"n","tenant":"t","definition":{"name":"release","phases":[{"name":"publish","run":{"tool":"fail"}}]}}`)
	k.until("/v1/pipelines/"+release, "phase.type", "failed")
	list, _ := k.write("GET", "/v1/actions?status=failed", "")["actions"].([]any)
	require.Len(t, list, 1)
	part, _ := list[0].(map[string]any)["id"].(string)
	assert.NotContains(t, k.text("/actions/"+part), "Run again", "the pipeline waits for its end")
}

func tomorrowUTC() string { return time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly) }

func TestATimeThatWaitsForItsTurnIsCancelledOnThePage(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"* * * * * *","provider":"hold","action_type":"x","overlap":"buffer_one"}`)
	mark := `href="/ui/recurring/` + id + `/waiting/`
	require.Eventually(t, func() bool { return strings.Contains(k.read("/recurring/"+id), mark) }, 20*time.Second, 50*time.Millisecond)
	_, rest, _ := strings.Cut(k.read("/recurring/"+id), mark)
	occurrence, _, _ := strings.Cut(rest, `/cancel"`)
	shown := k.text(k.act("/recurring/"+id+"/waiting/"+occurrence+"/cancel", url.Values{"reason": {"not needed"}}))
	assert.Contains(t, shown, "The time that waited was cancelled.")
	assert.Contains(t, shown, "not needed")
}

func TestATokenOfOneToolSeesWhatItMayOnThePagesOfSeveralLists(t *testing.T) {
	k := newKit(t, admin("ops"), token("tool", func(t *httpapi.Token) { t.Tools = []string{"echo"} }))
	k.as = "ops-secret"
	seen := k.make("/v1/actions", `{"tool_name":"echo","label":"seen"}`)
	unseen := k.make("/v1/actions", `{"tool_name":"fail","label":"unseen"}`)
	k.as = "tool-secret"
	for _, path := range []string{"/", "/schedules", "/schedules?page_token=job:", "/calendar", "/find?q=unseen", "/find?q=" + unseen} {
		shown := k.text(path)
		assert.NotContains(t, shown, "Forbidden", path)
		assert.NotContains(t, shown, "runs failed", path)
	}
	assert.Contains(t, k.text("/find?q=unseen"), "Nothing that you may see")
	assert.Equal(t, "/ui/actions/"+seen, k.send("GET", "/find?q=seen", nil).Header().Get("Location"))
	assert.Equal(t, http.StatusForbidden, k.send("GET", "/schedules?kind=job", nil).Code)
}
