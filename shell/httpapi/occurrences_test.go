package httpapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// triggered makes an action that recurs and triggers it so many times, each of which is an entry.
func triggered(t *testing.T, a *api, label string, times int) (id string) {
	t.Helper()
	id = a.do("POST", "/v1/actions", `{"label":"`+label+`","tool_name":"echo","recurrence":3600,"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`).str("id")
	for range times {
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/actions/"+id+"/trigger", nil).status)
		synctest.Wait()
	}
	return id
}

func TestTheLedgerIsListedInPagesOrAsLinesAndOneEntryIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		id := triggered(t, a, "nightly", 3)
		triggered(t, a, "other", 1)

		first := a.do("GET", "/v1/occurrences?name=nightly&limit=2", nil)
		require.Equal(t, http.StatusOK, first.status, first.body)
		require.Len(t, first.object()["occurrences"], 2)
		token := first.str("next_page_token")
		rest := a.do("GET", "/v1/occurrences?name=nightly&limit=2&page_token="+url.QueryEscape(token), nil)
		require.Len(t, rest.object()["occurrences"], 1)
		assert.Empty(t, rest.str("next_page_token"))

		lines := a.do("GET", "/v1/occurrences?schedule_id="+id, nil, with("Accept", "application/json, application/x-ndjson;q=0.5"))
		assert.Equal(t, "application/x-ndjson", lines.header.Get("Content-Type"))
		var entries []core.Occurrence
		for line := range bytes.Lines([]byte(lines.body)) {
			var o core.Occurrence
			require.NoError(t, json.Unmarshal(line, &o), "%s", line)
			entries = append(entries, o)
		}
		require.Len(t, entries, 3)
		assert.Empty(t, lines.header.Get("Orrery-Next-Page-Token"))
		some := a.do("GET", "/v1/occurrences?limit=1", nil, with("Accept", "application/x-ndjson"))
		assert.Equal(t, 1, strings.Count(some.body, "\n"))
		assert.NotEmpty(t, some.header.Get("Orrery-Next-Page-Token"))

		one := a.do("GET", "/v1/occurrences/"+entries[0].ID.String(), nil)
		require.Equal(t, http.StatusOK, one.status, one.body)
		assert.Equal(t, []any{"dispatched", "nightly", "action", true}, []any{one.object()["verdict"], one.object()["name"], one.object()["schedule"], one.object()["manual"]})

		history := a.do("GET", "/v1/actions/"+id+"/history", nil)
		require.Len(t, history.object()["history"], 3)
		metrics := a.do("GET", "/metrics", nil).body
		assert.Contains(t, metrics, `orrery_occurrences_total{schedule="action",verdict="dispatched"} 4`)
		assert.Contains(t, metrics, `orrery_occurrences_total{schedule="job",verdict="missed"} 0`)
		assert.Contains(t, metrics, "orrery_schedules_unlisted 0")
		assert.Regexp(t, `orrery_schedule_last_success_timestamp_seconds\{id="`+id+`",name="nightly",namespace="\w+",schedule="action",tenant="\w+"\} 9\.\d+e\+08`, metrics)
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/actions/"+id+"/cancel", nil).status)
		metrics = a.do("GET", "/metrics", nil).body
		assert.NotContains(t, metrics, `{id="`+id, "it has ended")
		assert.Equal(t, 1, strings.Count(metrics, `orrery_schedule_last_success_timestamp_seconds{`), "the other one")
		assert.Contains(t, metrics, "orrery_schedules_unlisted 0")
	})
}

func TestAWrongFilterOfTheLedgerIsNamedWithWhatWouldBeRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		for query, want := range map[string]string{
			"schedule=cron":  `schedule: "cron" is unknown: use recurring, job, action`,
			"verdict=late":   `verdict: "late" is unknown: use dispatched, missed, deduplicated, skipped, cancelled, expired, waiting`,
			"outcome=good":   `outcome: "good" is unknown: use completed, failed, cancelled, orphaned, skipped`,
			"schedule_id=x":  `schedule_id: "x" is not a UUID`,
			"backfill=x":     `backfill: "x" is not a UUID`,
			"manual=perhaps": `manual: "perhaps" is neither true nor false`,
			"from=yesterday": `from: time "yesterday" is not RFC 3339, such as "2026-02-10T14:00:00Z"`,
			"to=2026-01-01T00:00:00Z&from=2026-01-01T00:00:00Z": "to: 2026-01-01T00:00:00.000Z is not after from, 2026-01-01T00:00:00.000Z",
			"spanning=true":                    "spanning: it needs from",
			"sort=up":                          `query: "sort" is unknown`,
			"name=" + strings.Repeat("n", 256): "name: 256 bytes is longer than 255",
		} {
			got := a.do("GET", "/v1/occurrences?"+query, nil)
			assert.Equal(t, http.StatusBadRequest, got.status, query)
			assert.Contains(t, got.errorText(), want, query)
		}
	})
}
