package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
)

// asked is a request that a command has sent.
type asked struct{ line, body string }

// requestOf gives the first request of a command against a server that answers all with {}.
func requestOf(t *testing.T, stdin string, args ...string) asked {
	t.Helper()
	all := make(chan asked, 8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		all <- asked{r.Method + " " + r.URL.RequestURI(), string(body)}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"occurrences":[],"backfills":[],"history":[],"jobs":[],"recurring_actions":[]}`))
	}))
	t.Cleanup(s.Close)
	r := cli(t, []string{"ORRERY_SERVER=" + s.URL}, stdin, args...)
	require.Zero(t, r.code, "%v: %s", args, r.err)
	return <-all
}

const (
	someID  = "0193f2a4-5b6c-7d8e-9f01-23456789abcd"
	inScope = "?namespace=default&tenant=default"
)

func TestEachFlagAboutASchedulesTimesReachesTheDaemon(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ line, request, want string }{
		{
			"recurring add --cron @daily --tz Europe/Berlin --tool x --input {\"a\":1} --type y --description d --label-kv k=v --meta m=w --dedup-key e " +
				"--dst skip --day-match both --starts-at 2030-01-01T00:00:00Z --ends-at 2031-01-01T00:00:00Z --max-executions 3 --jitter 4s --start-deadline 5s " +
				"--calendar a --calendar b --overlap buffer_all --buffer-limit 6 --max-wait 7s --missed all --catch-up 8s --catch-up-limit 9 --catch-up-spacing 10s",
			"POST /v1/recurring" + inScope,
			`{"namespace":"default","tenant":"default","enabled":true,"cron_expr":"@daily","timezone":"Europe/Berlin","provider":"x","payload":{"a":1},"action_type":"y",
			"description":"d","labels":{"k":"v"},"metadata":{"m":"w"},"dedup_key":"e","dst":"skip","day_match":"both","starts_at":"2030-01-01T00:00:00Z",
			"ends_at":"2031-01-01T00:00:00Z","max_executions":3,"jitter_seconds":4,"start_deadline_seconds":5,"calendars":["a","b"],"overlap":"buffer_all",
			"buffer_limit":6,"max_wait_seconds":7,"missed":"all","catch_up_seconds":8,"catch_up_limit":9,"catch_up_spacing_seconds":10}`,
		},
		{
			"recurring update " + someID + " --dst= --day-match= --starts-at= --max-executions 0 --jitter 0 --calendar= --overlap= --buffer-limit 0 --max-wait 0 " +
				"--missed= --catch-up 0 --catch-up-limit 0 --catch-up-spacing 0",
			"PUT /v1/recurring/" + someID + inScope,
			`{"dst":"","day_match":"","starts_at":null,"max_executions":0,"jitter_seconds":0,"calendars":[],"overlap":"","buffer_limit":0,"max_wait_seconds":0,
			"missed":"","catch_up_seconds":0,"catch_up_limit":0,"catch_up_spacing_seconds":0}`,
		},
		{"recurring pause " + someID + " --reason why --until 2030-01-01T00:00:00Z", "POST /v1/recurring/" + someID + "/pause" + inScope, `{"reason":"why","until":"2030-01-01T00:00:00Z"}`},
		{"recurring pause " + someID, "POST /v1/recurring/" + someID + "/pause" + inScope, `{}`},
		{"recurring trigger " + someID + " --payload -", "POST /v1/recurring/" + someID + "/trigger" + inScope, `{"payload":{"a":1}}`},
		{"recurring cancel-waiting " + someID + " --occurrence " + someID + " --reason why", "POST /v1/recurring/" + someID + "/waiting/" + someID + "/cancel" + inScope, `{"reason":"why"}`},
		{"recurring preview " + someID + " -n 7", "GET /v1/recurring/" + someID + "/preview?n=7&namespace=default&tenant=default", ""},
		{"recurring list --enabled=false --limit 2 --page-token p", "GET /v1/recurring?enabled=false&limit=2&namespace=default&page_token=p&tenant=default", ""},
		{"recurring history " + someID + " --limit 2 --page-token p", "GET /v1/recurring/" + someID + "/history?limit=2&namespace=default&page_token=p&tenant=default", ""},
		{"job pause nightly --reason why --until 2030-01-01T00:00:00Z", "POST /v1/jobs/nightly/pause" + inScope, `{"reason":"why","until":"2030-01-01T00:00:00Z"}`},
		{"job skip-next nightly --reason why", "POST /v1/jobs/nightly/skip-next" + inScope, `{"reason":"why"}`},
		{"job trigger nightly --dedup-key e --env A=b --env C=d", "POST /v1/jobs/nightly/trigger" + inScope, `{"dedup_key":"e","env":{"A":"b","C":"d"}}`},
		{"job preview nightly -n 7", "GET /v1/jobs/nightly/preview?n=7&namespace=default&tenant=default", ""},
		{"job history nightly --limit 2 --namespace n --tenant u", "GET /v1/jobs/nightly/history?limit=2&namespace=n&tenant=u", ""},
		{
			"backfill " + someID + " --from 2026-02-01T00:00:00Z --to 2026-02-08T00:00:00Z --max-active 2 --spacing 3s --limit 4 --include-forgotten --reason why --namespace n --tenant u",
			"POST /v1/backfills?namespace=n&tenant=u",
			`{"recurring_id":"` + someID + `","namespace":"n","tenant":"u","from":"2026-02-01T00:00:00Z","to":"2026-02-08T00:00:00Z","max_active":2,"spacing_seconds":3,"limit":4,
			"include_forgotten":true,"reason":"why"}`,
		},
		{
			"backfill --job nightly --from 2026-02-01T00:00:00Z --dry-run", "POST /v1/backfills" + inScope,
			`{"job":"nightly","namespace":"default","tenant":"default","from":"2026-02-01T00:00:00Z","max_active":1,"limit":1000,"dry_run":true}`,
		},
		{
			"backfill nightly --from 2026-02-01T00:00:00Z", "GET /v1/recurring/nightly" + inScope, "",
		},
		{"backfill list --schedule-id " + someID + " --status running --namespace n --tenant u", "GET /v1/backfills?limit=50&namespace=n&schedule=" + someID + "&status=running&tenant=u", ""},
		{"backfill cancel " + someID + " --reason why", "POST /v1/backfills/" + someID + "/cancel" + inScope, `{"reason":"why"}`},
		{
			"occurrences list --schedule job --schedule-id " + someID + " --name x --verdict missed --outcome failed --manual=false --backfill " + someID +
				" --from 2026-02-01T00:00:00Z --to 2026-02-08T00:00:00Z --limit 2 --page-token p --namespace n --tenant u",
			"GET /v1/occurrences?backfill=" + someID + "&from=2026-02-01T00%3A00%3A00Z&limit=2&manual=false&name=x&namespace=n&outcome=failed&page_token=p&schedule=job&schedule_id=" +
				someID + "&tenant=u&to=2026-02-08T00%3A00%3A00Z&verdict=missed", "",
		},
		{"calendars update office --tz Europe/Berlin --exclude 2026-12-25 --exclude-weekly sat --include= --description d", "PUT /v1/calendars/office" + inScope,
			`{"timezone":"Europe/Berlin","description":"d","exclude":{"dates":[{"date":"2026-12-25"}],"weekly":[{"days":["sat"]}]},"include":{"dates":[]}}`},
	} {
		got := requestOf(t, `{"a":1}`, strings.Fields(row.line)...)
		assert.Equal(t, row.request, got.line, row.line)
		if row.want == "" {
			assert.Empty(t, got.body, row.line)
			continue
		}
		assert.JSONEq(t, row.want, got.body, row.line)
	}
}

func TestWhatIsWrongWithAScheduleIsSaidWithItsFlag(t *testing.T) {
	t.Parallel()
	const add, backfill, from = "recurring add --cron @daily --tool x ", "backfill nightly --from 2026-02-01T00:00:00Z ", "2026-02-01"
	for _, row := range []struct{ line, want string }{
		{add + "--overlap skp", `--overlap: "skp" is unknown: use allow, skip, buffer_one, buffer_all, cancel_other, terminate_other, forbid or replace`},
		{add + "--missed al", `--missed: "al" is unknown: use skip, latest or all`},
		{add + "--dst x", `--dst: "x" is unknown: use once_shifted, skip or twice`},
		{add + "--day-match x", `--day-match: "x" is unknown: use either or both`},
		{"recurring update " + someID + " --overlap x", `--overlap: "x" is unknown`},
		{add + "--jitter -25s", "--jitter: -25s is not a whole number of seconds, at least 0s"},
		{add + "--max-wait 10ms", "--max-wait: 10ms is not a whole number of seconds, at least 0s"},
		{add + "--start-deadline 0", "--start-deadline: 0s is not a whole number of seconds, at least 1s"},
		{add + "--catch-up -1s", "--catch-up: -1s is not a whole number of seconds, at least 0s"},
		{add + "--catch-up-spacing -1s", "--catch-up-spacing: -1s is not a whole number of seconds, at least 0s"},
		{add + "--buffer-limit 5", "--buffer-limit has an effect with --overlap buffer_all only"},
		{add + "--max-wait 5s --overlap forbid", "--max-wait has an effect with --overlap buffer_one, buffer_all, cancel_other or terminate_other only"},
		{add + "--catch-up 5s", "--catch-up has an effect with --missed latest or all only"},
		{add + "--catch-up-limit 5 --missed latest", "--catch-up-limit has an effect with --missed all only"},
		{add + "--catch-up-spacing 5s --missed skip", "--catch-up-spacing has an effect with --missed all only"},
		{add + "--starts-at soon", `--starts-at: time "soon" is not RFC 3339`},
		{add + "--ends-at soon", `--ends-at: time "soon" is not RFC 3339`},
		{"recurring add --tool x", "--cron is missing: say when"},
		{"recurring pause " + someID + " --until soon", `--until: time "soon" is not RFC 3339`},
		{"job pause nightly --until soon", `--until: time "soon" is not RFC 3339`},
		{"recurring cancel-waiting " + someID, "--occurrence is missing: give an id that orreryd occurrences list --verdict waiting shows"},
		{"recurring cancel-waiting " + someID + " --occurrence 5", `--occurrence: "5" is not an id`},
		{"recurring trigger " + someID + " --payload {", `--payload: "{" is not valid JSON`},
		{"job preview nightly -n 0", "--number: 0 is not between 1 and 1000"},
		{"job preview", "JOB is missing"},
		{backfill + "--max-active 0", "--max-active: 0 is not between 1 and 50"},
		{backfill + "--max-active 51", "--max-active: 51 is not between 1 and 50"},
		{backfill + "--limit 0", "--limit: 0 is not between 1 and 1000"},
		{backfill + "--limit 1001", "--limit: 1001 is not between 1 and 1000"},
		{backfill + "--spacing -3s", "--spacing: -3s is not a whole number of seconds, at least 0s"},
		{backfill + "--to " + from, `--to: time "2026-02-01" is not RFC 3339`},
		{"backfill --job= --from " + from, "--job is empty"},
		{"backfill list --schedule-id nightly", `--schedule-id: "nightly" is not an id`},
		{"occurrences list --schedule-id x", `--schedule-id: "x" is not an id`},
		{"occurrences list --backfill x", `--backfill: "x" is not an id`},
		{"occurrences list --from soon", `--from: time "soon" is not RFC 3339`},
		{"occurrences list --to soon", `--to: time "soon" is not RFC 3339`},
		{"calendars add office --tz Mars", `--tz: "Mars" is not an IANA time zone`},
		{"calendars update office", "say what to change"},
		{"calendars import office", "want NAME and FILE.ics, got 1 arguments"},
		{"calendars import office x.ics --years 0", "--years: 0 is not between 1 and 100"},
		{"calendars import office x.ics --tz Mars", `--tz: "Mars" is not an IANA time zone`},
	} {
		r := cli(t, []string{"ORRERY_SERVER=http://127.0.0.1:1"}, "", strings.Fields(row.line)...)
		assert.Equal(t, exitUsage, r.code, "%s: %s", row.line, r.out)
		assert.Contains(t, r.err, "orreryd: "+row.want, row.line)
	}
}

func TestWhatAScheduleMeansInWordsHasTheDaysThatItsOptionsMean(t *testing.T) {
	of := core.JobSpec{Schedule: "0 9 13 * FRI", ScheduleOptions: core.ScheduleOptions{DayMatch: schedule.DayMatchBoth}}
	r := core.RecurringAction{RecurringSpec: core.RecurringSpec{CronExpr: of.Schedule, ScheduleOptions: of.ScheduleOptions}}
	const want = "At 09:00, on day 13 of the month, and only on Friday"
	assert.Contains(t, recurringView(r).fields, [2]string{"in words", want})
	assert.Equal(t, want, inWords(of.Schedule, of.Timezone, of.DayMatch))
}
