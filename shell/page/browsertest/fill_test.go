package browsertest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// markup is what no string of a database may become on a page: a script that runs, an image that loads, a tag or an attribute that
// ends.
const markup = `<script>window.hacked=1</script>"'><img src=x onerror=window.hacked=1>`

// words makes the strings of a database.
type words func(text string) string

// plain leaves a text as people write it.
func plain(text string) string { return text }

// hostile puts markup behind a text.
func hostile(text string) string { return text + " " + markup }

// filler fills a database by the API.
type filler struct {
	*daemon
	w words
	// names of what has an address by its id
	recurring, paused, failed, printed, pipeline string
}

// body makes JSON: each {{text}} in it is one of the database's strings.
func (f *filler) body(form string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(form, "{{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text, after, _ := strings.Cut(rest, "}}")
		quoted, err := json.Marshal(f.w(text))
		require.NoError(f.t, err)
		b.Write(quoted[1 : len(quoted)-1])
		form = after
	}
}

func (f *filler) post(path, form, field string) string {
	f.t.Helper()
	return f.make("POST", path, f.body(form), field)
}

func (f *filler) put(path, form string) {
	f.t.Helper()
	f.make("PUT", path, f.body(form), "")
}

const inDefault = "?namespace=default&tenant=default"

// fill gives a database some of everything.
func fill(d *daemon, w words) *filler {
	d.t.Helper()
	d.print = w("printed")
	f := &filler{daemon: d, w: w}
	f.actions()
	f.schedules()
	f.jobs()
	f.queues()
	f.leases()
	f.runbooks()
	f.rest()
	return f
}

// action makes an action of a tool, and waits until it has a status.
func (f *filler) action(tool, label, more, status string) string {
	f.t.Helper()
	id := f.post("/v1/actions", `{"namespace":"default","tenant":"default","label":"{{`+label+`}}","tool_name":"`+tool+`","action_type":"{{nightly}}",
		"metadata":{"{{owner}}":"{{billing}}"},"tool_input":{"{{table}}":"{{orders}}"}`+more+`}`, "id")
	f.until("/v1/actions/"+id, `"type":"`+status+`"`)
	return id
}

func (f *filler) actions() {
	f.t.Helper()
	f.action("echo", "Import of orders", "", "completed")
	f.printed = f.action("print", "Rebuild of indexes", "", "completed")
	f.failed = f.action("fail", "Export to the warehouse", "", "failed")
	f.action("hold", "Scan of the archive", "", "running")
	f.action("echo", "Invoices of the month", `,"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`, "pending")
	gone := f.action("echo", "Mail to the customers", `,"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`, "pending")
	f.post("/v1/actions/"+gone+"/cancel", `{"reason":"{{the customers were told by phone}}"}`, "")
	f.action("echo", "Check of the certificates", `,"recurrence":3600,"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`, "pending")
	status, answer := f.ask("POST", "/v1/webhooks/hook", f.body(`{"{{pushed}}":"{{main}}"}`))
	require.Less(f.t, status, 300, "%s", answer)
}

func (f *filler) schedules() {
	f.t.Helper()
	recurring := func(name, tool, cron, more string) string {
		return f.post("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"`+cron+`","provider":"`+tool+`",
			"action_type":"{{nightly}}","payload":{"{{table}}":"{{orders}}"},"description":"{{`+name+`}}","labels":{"team":"{{billing}}"},"metadata":{"{{owner}}":"{{ann}}"}`+more+`}`, "recurring_id")
	}
	f.recurring = recurring("Close the books", "echo", "0 9 * * MON-FRI", `,"timezone":"Europe/Berlin"`)
	f.post("/v1/recurring/"+f.recurring+"/trigger", `{}`, "")
	f.post("/v1/recurring/"+f.recurring+"/skip-next", `{}`, "")
	f.until("/v1/recurring/"+f.recurring+"/history", "completed")
	soon := time.Now().UTC().Add(20 * time.Minute)
	recurring("Sync of the price list", "print", fmt.Sprintf("%d %d * * *", soon.Minute(), soon.Hour()), "")
	recurring("Reindex of the search", "hold", "*/30 * * * *", `,"overlap":"skip"`)
	f.paused = recurring("Letters to debtors", "echo", "0 6 1 * *", "")
	f.post("/v1/recurring/"+f.paused+"/pause", `{"reason":"{{the printer is away}}"}`, "")
	f.post("/v1/backfills", `{"namespace":"default","tenant":"default","recurring_id":"`+f.recurring+`","from":"`+time.Now().Add(-72*time.Hour).UTC().Format(time.RFC3339)+`","reason":"{{three days without}}"}`, "id")
	f.post("/v1/calendars"+inDefault, `{"name":"holidays","description":"{{Public holidays}}","exclude":{"dates":[{"date":"2026-12-25","name":"{{Christmas}}"}]}}`, "")
}

func (f *filler) jobs() {
	f.t.Helper()
	for _, job := range []struct{ id, name, status string }{
		{"works-report", "Report of the night", "completed"}, {"fails-backup", "Backup of the ledger", "failed"}, {"stays-crawl", "Crawl of the shops", "running"},
	} {
		f.put("/v1/jobs/"+job.id+inDefault, `{"name":"{{`+job.name+`}}","schedule":"0 3 * * *","pod_spec":{"containers":[{"name":"main","command":["{{run}}"],"env":[{"name":"MODE","value":"{{full}}"}]}]}}`)
		f.make("POST", "/v1/jobs/"+job.id+"/trigger"+inDefault, "{}", "")
		f.until("/v1/runs?job="+job.id, job.status)
	}
}

func (f *filler) queues() {
	f.t.Helper()
	f.put("/v1/queues/mail"+inDefault, `{"retry":{"max_attempts":1}}`)
	for _, data := range []string{"a letter", "a reminder", "an invoice"} {
		f.post("/v1/queues/mail/items"+inDefault, `{"data":{"{{subject}}":"{{`+data+`}}"}}`, "")
	}
	_, taken := f.ask("POST", "/v1/queues/mail/take"+inDefault, f.body(`{"holder":"{{mailer}}","visibility_ms":86400000}`))
	var got struct {
		Items []struct {
			ID      string `json:"id"`
			Attempt int    `json:"attempts"`
		} `json:"items"`
	}
	require.NoError(f.t, json.Unmarshal(taken, &got), "%s", taken)
	require.NotEmpty(f.t, got.Items, "%s", taken)
	f.post("/v1/queues/mail/items/"+got.Items[0].ID+"/fail"+inDefault, fmt.Sprintf(`{"holder":"{{mailer}}","attempt":%d,"error":"{{no such mailbox}}"}`, got.Items[0].Attempt), "")
	f.put("/v1/queues/letters"+inDefault, `{}`)
	f.put("/v1/workers/mailer"+inDefault, `{"queue":"letters","do":{"run":{"tool":"echo","input":{"v":"{{letter}}"}}}}`)
}

func (f *filler) leases() {
	f.t.Helper()
	f.post("/v1/locks/ledger/acquire"+inDefault, `{"holder":"{{ann}}"}`, "")
	f.put("/v1/semaphores/gpus"+inDefault, `{"slots":2}`)
	f.post("/v1/semaphores/gpus/acquire"+inDefault, `{"holder":"{{trainer}}"}`, "")
}

func (f *filler) runbooks() {
	f.t.Helper()
	pipeline := func(label, phases, status string) string {
		id := f.post("/v1/pipelines", `{"namespace":"default","tenant":"default","label":"{{`+label+`}}","context":{"v":"{{green}}"},
			"definition":{"name":"release","inputs":[{"name":"v"}],"phases":[`+phases+`]}}`, "id")
		f.until("/v1/pipelines/"+id, status)
		return id
	}
	const build = `{"name":"build","run":{"tool":"print","input":"${v}"}}`
	pipeline("Release of the shop", build+`,{"name":"publish","run":{"tool":"echo","input":"${v}"}}`, `"done"`)
	f.pipeline = pipeline("Release of the site", build+`,{"name":"publish","run":{"tool":"fail","input":"${v}"}}`, `"failed"`)
	pipeline("Release of the app", build+`,{"name":"ask","approval":{"message":"{{Publish the app?}}"}}`, `"approval"`)
	f.post("/v1/strategies", `{"namespace":"default","tenant":"default","label":"{{Mend the build}}","approaches":[{"name":"x","action":{"command":{"tool":"echo","input":{"v":"{{green}}"}}}}]}`, "id")
	f.post("/v1/tasks", `{"namespace":"default","tenant":"default","label":"{{Tidy the changelog}}"}`, "id")
}

func (f *filler) rest() {
	f.t.Helper()
	f.put("/v1/subscribers/deploys", `{"match":{"category":"deploys"},"do":{"push":{"namespace":"default","tenant":"default","name":"mail"}}}`)
	f.post("/v1/events", `{"kind":{"category":"deploys","action":"wanted"},"data":{"v":"{{of the shop}}"}}`, "")
}
