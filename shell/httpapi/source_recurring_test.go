package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// What 002 section 4 prints. "uuid-..." stands for an id.
const (
	printedCreate = `{
  "namespace": "notifications",
  "tenant": "tenant-1",
  "cron_expr": "0 9 * * MON-FRI",
  "timezone": "US/Eastern",
  "provider": "email",
  "action_type": "send_digest",
  "payload": {"to": "team@example.com", "subject": "Daily Digest"},
  "metadata": {},
  "dedup_key": null,
  "description": "Weekday morning digest",
  "labels": {"team": "engineering"},
  "ends_at": null,
  "enabled": true
}`
	printedCreated = `{
  "recurring_id": "uuid-...",
  "next_execution": "2026-02-10T14:00:00Z",
  "cron_expr": "0 9 * * MON-FRI",
  "timezone": "US/Eastern",
  "enabled": true
}`
	printedList = `{
  "recurring_actions": [
    {
      "id": "uuid-...",
      "cron_expr": "0 9 * * MON-FRI",
      "timezone": "US/Eastern",
      "enabled": true,
      "description": "Weekday morning digest",
      "provider": "email",
      "action_type": "send_digest",
      "next_execution_at": "2026-02-10T14:00:00Z",
      "last_executed_at": "2026-02-07T14:00:00Z",
      "execution_count": 42,
      "created_at": "2026-01-01T00:00:00Z",
      "labels": {"team": "engineering"}
    }
  ]
}`
	printedNotFound = `{"error": "recurring action not found"}`
	printedPaused   = `{"id": "uuid-...", "enabled": false, "next_execution_at": null}`
	printedResumed  = `{"id": "uuid-...", "enabled": true, "next_execution_at": "2026-02-10T14:00:00Z"}`
)

// The same definition with the fields of 002 section 1, which are "full RecurringAction JSON".
const printedDetail = `{
  "id": "uuid-...",
  "namespace": "notifications",
  "tenant": "tenant-1",
  "cron_expr": "0 9 * * MON-FRI",
  "timezone": "US/Eastern",
  "enabled": true,
  "action_template": {
    "provider": "email",
    "action_type": "send_digest",
    "payload": {"to": "team@example.com", "subject": "Daily Digest"},
    "metadata": {},
    "dedup_key": null
  },
  "created_at": "2026-01-01T00:00:00Z",
  "updated_at": "2026-02-09T15:00:00Z",
  "last_executed_at": "2026-02-07T14:00:00Z",
  "next_execution_at": "2026-02-10T14:00:00Z",
  "ends_at": null,
  "execution_count": 42,
  "description": "Weekday morning digest",
  "labels": {"team": "engineering"}
}`

const printedScope = "?namespace=notifications&tenant=tenant-1"

// Each request of 002 section 4 gets the answer that is printed there, to the dates and counts.
//
// The list that it prints was last executed on a Saturday, by a schedule of weekdays, and so often
// that some were by hand: 27 weekdays from 1 January to 6 February, 15 by hand, the last one on
// Saturday. Its next execution is on Tuesday, the 10th, so that it was paused on Monday morning.
func TestTheRequestsOf002GetTheAnswersThatItPrints(t *testing.T) {
	c := newClock()
	c.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.steady = c.now
	a := start(t, setup{
		engine: func(o *shell.Options) { o.Clock = c },
		api:    func(o *httpapi.Options) { o.Clock = c },
	})
	list := "/v1/recurring" + printedScope
	until := func(at time.Time) {
		c.advance(at.Sub(c.Now()))
		a.wake()
	}
	created := a.do("POST", "/v1/recurring", printedCreate)
	require.Equal(t, http.StatusCreated, created.status)
	one := "/v1/recurring/" + created.str("recurring_id")
	executed := func(n int) { // and ended: else its end would come, and change the answers, while they are compared
		require.Eventually(t, func() bool {
			body := a.do("GET", one+printedScope, nil).body
			return strings.Contains(body, fmt.Sprintf(`"execution_count":%d,`, n)) && !strings.Contains(body, `"running":[`)
		}, time.Minute, time.Millisecond)
	}
	dispatched := 0
	for day := time.Date(2026, 1, 1, 14, 0, 0, 0, time.UTC); day.Before(time.Date(2026, 2, 7, 0, 0, 0, 0, time.UTC)); day = day.AddDate(0, 0, 1) {
		if w := day.Weekday(); w != time.Saturday && w != time.Sunday {
			until(day)
			dispatched++
			executed(dispatched)
		}
	}
	until(time.Date(2026, 2, 7, 14, 0, 0, 0, time.UTC))
	for ; dispatched < 42; dispatched++ {
		require.Equal(t, http.StatusOK, a.do("POST", one+"/trigger"+printedScope, nil).status)
	}
	executed(dispatched)
	holdsPrinted(t, a.do("POST", one+"/pause"+printedScope, nil), http.StatusOK, printedPaused)
	until(time.Date(2026, 2, 9, 15, 0, 0, 0, time.UTC))
	holdsPrinted(t, a.do("POST", one+"/resume"+printedScope, nil), http.StatusOK, printedResumed)
	holdsPrinted(t, a.do("GET", list, nil), http.StatusOK, printedList)
	holdsPrinted(t, a.do("GET", list+"&enabled=true", nil), http.StatusOK, printedList)
	holdsPrinted(t, a.do("GET", list+"&enabled=false", nil), http.StatusOK, `{"recurring_actions": []}`)
	holdsPrinted(t, a.do("GET", one+printedScope, nil), http.StatusOK, printedDetail)
	putsOneFieldEach(t, a, c, one)
	notFound(t, a, one)

	gone := a.do("DELETE", one+printedScope, nil)
	assert.Equal(t, http.StatusNoContent, gone.status)
	assert.Empty(t, gone.body)
	holdsPrinted(t, a.do("GET", one+printedScope, nil), http.StatusNotFound, printedNotFound)
	holdsPrinted(t, a.do("GET", list, nil), http.StatusOK, `{"recurring_actions": []}`)
	c.advance(time.Date(2026, 2, 9, 15, 30, 0, 0, time.UTC).Sub(c.Now()))
	holdsPrinted(t, a.do("POST", "/v1/recurring", printedCreate), http.StatusCreated, printedCreated)
}

// putsOneFieldEach sends a partial update of each field that 002 names as updatable. Only that
// field changes, and updated_at, and by the schedule's fields the next execution.
func putsOneFieldEach(t *testing.T, a *api, c *clock, one string) {
	t.Helper()
	for _, row := range []struct{ field, value, next string }{
		{"cron_expr", `"30 18 * * *"`, "2026-02-09T23:30:00Z"},
		{"timezone", `"Europe/Berlin"`, "2026-02-09T17:30:00Z"},
		{"enabled", `false`, ""},
		{"enabled", `true`, "2026-02-09T17:30:00Z"},
		{"payload", `{"to": "all@example.com"}`, ""},
		{"metadata", `{"source": "digest"}`, ""},
		{"dedup_key", `"digest-{{recurring_id}}-{{execution_time}}"`, ""},
		{"description", `"Evening digest"`, ""},
		{"labels", `{"team": "sales"}`, ""},
		{"ends_at", `"2026-12-31T00:00:00Z"`, ""},
		{"provider", `"echo"`, ""},
		{"action_type", `"send_report"`, ""},
	} {
		c.advance(time.Second)
		want := a.do("GET", one+printedScope, nil).object()
		target := want
		if template := want["action_template"].(map[string]any); has(template, row.field) {
			target = template
		}
		require.True(t, has(target, row.field), row.field)
		var value any
		require.NoError(t, json.Unmarshal([]byte(row.value), &value))
		target[row.field] = value
		want["updated_at"] = c.Now().Format(time.RFC3339)
		switch {
		case row.next != "":
			want["next_execution_at"] = row.next
		case row.field == "enabled":
			want["next_execution_at"] = nil
		}
		for _, ours := range []string{"disabled_reason", "paused_at", "last_due_at", "sequence", "skipped_count", "ledger"} { // told beside enabled
			delete(want, ours)
		}
		printed, err := json.Marshal(want)
		require.NoError(t, err)
		holdsPrinted(t, a.do("PUT", one+printedScope, `{"`+row.field+`": `+row.value+`}`), http.StatusOK, string(printed))
		holdsPrinted(t, a.do("GET", one+printedScope, nil), http.StatusOK, string(printed))
	}
}

// notFound asks for what is not there, each way.
func notFound(t *testing.T, a *api, one string) {
	t.Helper()
	for _, path := range []string{
		one + "%s?namespace=notifications&tenant=tenant-2", one + "%s?namespace=other&tenant=tenant-1",
		"/v1/recurring/0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10%s" + printedScope, "/v1/recurring/uuid-...%s" + printedScope,
	} {
		for _, ask := range []struct {
			method, sub string
			body        any
		}{{"GET", "", nil}, {"PUT", "", `{"enabled": false}`}, {"DELETE", "", nil}, {"POST", "/pause", nil}, {"POST", "/resume", nil}, {"GET", "/history", nil}} {
			target := fmt.Sprintf(path, ask.sub)
			holdsPrinted(t, a.do(ask.method, target, ask.body), http.StatusNotFound, printedNotFound)
		}
	}
}

func has(object map[string]any, field string) bool {
	_, ok := object[field]
	return ok
}

// holdsPrinted holds that an answer has each field that is printed, with its value; it may have
// others, but for an error. Times are compared as instants.
func holdsPrinted(t *testing.T, got answer, status int, printed string) {
	t.Helper()
	require.Equal(t, status, got.status, got.body)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	var want any
	require.NoError(t, json.Unmarshal([]byte(printed), &want))
	for _, problem := range missingIn("", want, any(got.object())) {
		t.Errorf("%s in %s", problem, got.body)
	}
	if status >= http.StatusBadRequest {
		assert.Len(t, got.object(), len(want.(map[string]any)), got.body)
	}
}

// missingIn lists what of a printed value is missing or different in an answer.
func missingIn(at string, want, got any) (problems []string) {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []string{at + ": no object"}
		}
		for field, value := range want {
			if !has(object, field) {
				problems = append(problems, at+"."+field+": missing")
				continue
			}
			problems = append(problems, missingIn(at+"."+field, value, object[field])...)
		}
		return problems
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return []string{fmt.Sprintf("%s: want %d elements, got %v", at, len(want), got)}
		}
		for i, value := range want {
			problems = append(problems, missingIn(fmt.Sprint(at, ".", i), value, list[i])...)
		}
		return problems
	case string:
		text, ok := got.(string)
		if want == "uuid-..." && ok && uuidForm.FindString(text) == text {
			return nil
		}
		instant, err := time.Parse(time.RFC3339, want)
		if is, gotErr := time.Parse(time.RFC3339, text); err == nil && gotErr == nil && is.Equal(instant) {
			return nil
		}
	}
	if want != got {
		return []string{fmt.Sprintf("%s: want %v, got %v", at, want, got)}
	}
	return nil
}
