package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheFormOfARecurringActionHasEveryOptionThatItsPageShows(t *testing.T) {
	k := newKit(t)
	form := k.read("/schedules/new")
	assert.NotContains(t, form, `<details class="group" open`, "the simple case is simple")
	assert.Contains(t, form, `type="datetime-local"`, "a telephone offers a calendar and a clock")
	to := k.act("/schedules/new", url.Values{
		"cron_expr": {"0 9 1 1 *"}, "provider": {"echo"}, "action_type": {"x"}, "starts_at": {"2026-01-31T09:00"}, "ends_at": {"2126-01-31T09:00"},
		"max_wait_seconds": {"50"}, "start_deadline_seconds": {"1m10s"}, "catch_up_seconds": {"1h"}, "catch_up_limit": {"5"}, "catch_up_spacing_seconds": {"2m"}, "buffer_limit": {"4"},
		"missed": {"all"}, "overlap": {"buffer_all"}, "policy.timeout_ms": {"1.5s"}, "policy.on_failure": {"retry"}, "policy.max_attempts": {"7"},
		"policy.backoff.initial_ms": {"2"}, "policy.backoff.no_retry": {"tool_*\nother"},
	})
	at, _, _ := strings.Cut(to, "?")
	of := func() map[string]any { return k.write("GET", "/v1"+at, "") }
	made := of()
	for name, want := range map[string]any{
		"starts_at": "2026-01-31T09:00:00.000Z", "max_wait_seconds": 50.0, "start_deadline_seconds": 70.0, "catch_up_seconds": 3600.0, "catch_up_limit": 5.0,
		"catch_up_spacing_seconds": 120.0, "buffer_limit": 4.0,
		"policy": map[string]any{
			"timeout_ms": 1500.0, "on_failure": "retry", "on_interrupt": "fail", "max_attempts": 7.0,
			"backoff": map[string]any{"initial_ms": 2000.0, "no_retry": []any{"tool_*", "other"}},
		},
	} {
		assert.Equal(t, want, made[name], name)
	}

	form = k.read(at + "/edit")
	assert.Contains(t, form, `<details class="group" open><summary>Time limit and attempts</summary>`, "what was given is shown")
	assert.Contains(t, form, `name="start_deadline_seconds" value="1m10s"`)
	k.act(at+"/edit", url.Values{"policy.max_attempts": {""}, "policy.on_failure": {"retry"}, "max_wait_seconds": {""}})
	now := of()
	assert.Equal(t, map[string]any{"timeout_ms": 1500.0, "on_failure": "retry", "on_interrupt": "fail", "max_attempts": 3.0, "backoff": made["policy"].(map[string]any)["backoff"]}, now["policy"])
	assert.Nil(t, now["max_wait_seconds"])
	assert.InDelta(t, 70, now["start_deadline_seconds"], 0, "what was not touched stays")

	w := k.try(at+"/edit", url.Values{"start_deadline_seconds": {"soon"}, "policy.timeout_ms": {"1ns"}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, words(w.Body.String()), `Start deadline: "soon" is not a length such as 90s, 5m or 2h`)
	assert.Contains(t, words(w.Body.String()), `Time limit of a run: "1ns" is not a length`)
}

func TestThePreviewOfAFormLooksAtItsEndItsBeginAndItsCalendars(t *testing.T) {
	k := newKit(t)
	k.write("POST", "/v1/calendars", `{"name":"closed","exclude":{"dates":[{"date":"2096-01-02"}]}}`)
	const daily = "/schedules/preview?cron_expr=0+9+*+*+*&namespace=default&tenant=default"
	shown := k.text(daily + "&starts_at=2096-01-01T00:00&ends_at=2096-01-05T09:00&calendars=closed&jitter_seconds=7")
	for _, day := range []string{"01", "03", "04"} {
		assert.Contains(t, shown, "2096-01-"+day+" 09:00:00 UTC")
	}
	for _, day := range []string{"02", "05"} {
		assert.NotContains(t, shown, "2096-01-"+day+" 09:00:00 UTC")
	}
	missing := k.text(daily + "&calendars=closed%0Amissing")
	assert.Contains(t, missing, `calendar "missing" is not in default/default`)
	assert.Contains(t, missing, "No time is to come.")
	assert.Contains(t, shown, "Each is dispatched later by up to 7 s.")
	assert.Equal(t, 2, strings.Count(k.text(daily+"&max_executions=2"), "09:00:00 UTC"))
	assert.Contains(t, k.text(daily+"&ends_at=2020-01-01"), "No time is to come.")
	assert.Contains(t, k.text(daily+"&ends_at=soon"), `Ends: "soon" is not a time`)
	assert.Contains(t, k.text("/schedules/preview?schedule=0+9+*+*+*"), "At 09:00", "of a job")
	assert.Contains(t, k.read("/new-job"), `data-preview="/ui/schedules/preview"`)

	w := k.try("/schedules/new", url.Values{"cron_expr": {"0 9 * * *"}, "provider": {"echo"}, "action_type": {"x"}, "ends_at": {"2020-01-01"}, "try": {"yes"}})
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, words(w.Body.String()), "No time is to come.", "without script")
	assert.Contains(t, words(w.Body.String()), "Nothing was changed so far.")
}
