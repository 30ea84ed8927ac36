package page_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// bodyOfDefault begins the body of what belongs to a tenant.
const bodyOfDefault = `{"namespace":"default","tenant":"default",`

// newWorld is a kit whose engine has all machines.
func newWorld(t *testing.T, tokens ...httpapi.Token) *kit {
	t.Helper()
	withHooks := withWebhooks(t)
	return newJobsPageWith(t, func(o *httpapi.Options) { withHooks(o); withCluster(o) }, tokens...).kit
}

// everything makes some of each kind, and gives where each of them is found.
func (k *kit) everything() (out []entity) {
	k.t.Helper()
	of := func(kind, path string) { out = append(out, entity{kind, "/v1" + path, path}) }
	k.worldActions(of)
	k.worldSchedules(of)
	k.worldQueues(of)
	k.worldRunbooks(of)
	k.worldLeases(of)
	k.worldJobs(of)
	return append(out, entity{"subscriber", "/v1/subscribers", "/subscribers/deploys"}, entity{"system", "/v1/system", "/system"}, entity{"info", "/v1/info", "/system"}, entity{"webhook", "/v1/webhooks", "/webhooks"}, entity{"cluster", "/v1/cluster", "/instances"})
}

func (k *kit) worldActions(of func(kind, path string)) {
	k.t.Helper()
	const due = `"trigger":{"type":"scheduled","next_tick_at":"2091-02-03T04:05:06Z"}`
	action := func(body, status string) string {
		id := k.make("/v1/actions", bodyOfDefault+body+`}`)
		k.until("/v1/actions/"+id, "status.type", status)
		of("action", "/actions/"+id)
		return id
	}
	action(`"label":"import of orders","tool_name":"echo","action_type":"nightly","tool_input":{"table":"orders"},"labels":{"team":"billing"},"metadata":{"owner":"ann"},"dedup_key":"orders-1",`+
		`"policy":{"max_attempts":4,"timeout_ms":61000}`, "completed")
	failed := action(`"label":"export","tool_name":"fail","policy":{"max_attempts":2,"on_failure":"retry","backoff":{"initial_ms":1,"jitter_percent":0}}`, "failed")
	again := k.write("POST", "/v1/actions/"+failed+"/retry", `{}`)["id"].(string)
	k.until("/v1/actions/"+again, "status.type", "failed")
	of("action", "/actions/"+again)
	action(`"label":"scan","tool_name":"hold"`, "running")
	gone := action(`"label":"letters","tool_name":"echo",`+due, "pending")
	k.write("POST", "/v1/actions/"+gone+"/cancel", `{"reason":"told by phone"}`)
	recurs := action(`"label":"certificates","tool_name":"echo","recurrence":3600,`+due, "pending")
	k.write("POST", "/v1/actions/"+recurs+"/trigger", "")
	k.until("/v1/actions/"+recurs, "status.type", "pending")
	require.Equal(k.t, 202, k.deliver("deploys", "push", `{"ref":"next"}`))
	list, _ := k.write("GET", "/v1/actions?route=deploys", "")["actions"].([]any)
	received := list[0].(map[string]any)["id"].(string)
	k.until("/v1/actions/"+received, "status.type", "completed")
	of("action", "/actions/"+received)
}

func (k *kit) worldSchedules(of func(kind, path string)) {
	k.t.Helper()
	k.write("POST", "/v1/calendars", bodyOfDefault+`"name":"holidays","description":"public holidays","timezone":"Europe/Berlin",
		"exclude":{"dates":[{"date":"2090-12-25","name":"Christmas"}],"weekly":[{"days":["SUN"],"from":"08:30","to":"17:45"}]}}`)
	of("calendar", "/calendars/holidays")
	recurring := func(body string) string {
		id := k.make("/v1/recurring", bodyOfDefault+body+`}`)
		of("recurring", "/recurring/"+id)
		return id
	}
	books := recurring(`"cron_expr":"0 9 * * MON-FRI","timezone":"Europe/Berlin","provider":"echo","action_type":"nightly","payload":{"table":"orders"},"description":"close the books",
		"labels":{"team":"billing"},"metadata":{"owner":"ann"},"calendars":["holidays"],"max_executions":77,"jitter_seconds":13,"overlap":"buffer_one","max_wait_seconds":901,
		"alerts":{"late_seconds":667,"failing":3},"missed":"all","catch_up_seconds":7200,"catch_up_limit":9,"catch_up_spacing_seconds":3,"starts_at":"2020-01-01T00:00:00Z","ends_at":"2095-01-01T00:00:00Z","dedup_key":"books-{{execution_time}}"`)
	k.write("POST", "/v1/recurring/"+books+"/trigger", `{}`)
	k.write("POST", "/v1/recurring/"+books+"/skip-next", `{}`)
	paused := recurring(`"cron_expr":"0 6 1 * *","provider":"echo","action_type":"x","description":"letters to debtors"`)
	k.write("POST", "/v1/recurring/"+paused+"/pause", `{"reason":"the printer is away","until":"2090-03-04T05:06:07Z"}`)
	from := time.Now().Add(-72 * time.Hour).UTC().Format(time.RFC3339)
	backfill := k.make("/v1/backfills", bodyOfDefault+`"recurring_id":"`+books+`","from":"`+from+`","reason":"three days without"}`)
	k.until("/v1/backfills/"+backfill, "status", "completed")
	of("backfill", "/backfills/"+backfill)
}

func (k *kit) worldQueues(of func(kind, path string)) {
	k.t.Helper()
	k.write("PUT", "/v1/queues/mail"+ofDefault, `{"retry":{"max_attempts":1},"visibility_timeout_ms":42000}`)
	item := k.write("POST", "/v1/queues/mail/items"+ofDefault, `{"data":{"subject":"a letter"},"priority":7,"key":"customer-9"}`)["item"].(map[string]any)["id"].(string)
	k.write("POST", "/v1/queues/mail/items"+ofDefault, `{"data":{"subject":"a reminder"}}`)
	taken := k.write("POST", "/v1/queues/mail/take"+ofDefault, `{"holder":"mailer","visibility_ms":86400000}`)["items"].([]any)[0].(map[string]any)
	k.write("POST", fmt.Sprintf("/v1/queues/mail/items/%s/fail%s", taken["id"], ofDefault), fmt.Sprintf(`{"holder":"mailer","attempt":%v,"error":"no such mailbox"}`, taken["attempts"]))
	k.write("POST", "/v1/sets/postal", `{"entries":[{"file":"letters.toml","queue":{"name":"mail","config":{"retry":{"max_attempts":1},"visibility_timeout_ms":42000}}}]}`)
	of("queue", "/queues/mail"+ofDefault)
	of("item", "/queues/mail/items/"+item+ofDefault)
	k.write("PUT", "/v1/queues/letters"+ofDefault, `{}`)
	k.write("PUT", "/v1/workers/scribe"+ofDefault, `{"queue":"letters","concurrency":3,"poll_ms":60000,"do":{"run":{"tool":"echo","input":{"v":"letter"}}}}`)
	of("worker", "/workers/scribe"+ofDefault)
}

func (k *kit) worldRunbooks(of func(kind, path string)) {
	k.t.Helper()
	pipeline := func(label, phases, status string) {
		id := k.make("/v1/pipelines", bodyOfDefault+`"label":"`+label+`","context":{"v":"green"},"definition":{"name":"release","inputs":[{"name":"v"}],"phases":[`+phases+`]}}`)
		k.until("/v1/pipelines/"+id, "phase.type", status)
		of("pipeline", "/pipelines/"+id)
	}
	pipeline("shop", `{"name":"build","run":{"tool":"echo","input":"${v}"}},{"name":"publish","run":{"tool":"echo","input":"${v}"}}`, "done")
	pipeline("site", `{"name":"build","run":{"tool":"fail","input":"${v}"}}`, "failed")
	pipeline("app", `{"name":"ask","approval":{"message":"Publish the app?"}}`, "running")
	strategy := k.make("/v1/strategies", bodyOfDefault+`"label":"mend the build","approaches":[{"name":"first","action":{"command":{"tool":"fail","input":{"v":"a"}}},"fallback_on":[{"any_error":true}]},{"name":"second","action":{"command":{"tool":"echo","input":{"v":"b"}}}}]}`)
	k.until("/v1/strategies/"+strategy, "status", "succeeded")
	of("strategy", "/strategies/"+strategy)
	task := k.make("/v1/tasks", bodyOfDefault+`"label":"agent","command":["agent","--fast"],"prompt":"begin here","env":{"MODE":"full"},"config":{"idle_timeout_ms":181000}}`)
	k.untilSpawned(task)
	k.write("POST", "/v1/tasks/"+task+"/heartbeat", `{"progress":"page 3 of 9","output":"the tail"}`)
	of("task", "/tasks/"+task)
	done := k.make("/v1/tasks", bodyOfDefault+`"label":"changelog"}`)
	k.write("POST", "/v1/tasks/"+done+"/fail", `{"error":"it cannot be done"}`)
	of("task", "/tasks/"+done)
	k.write("PUT", "/v1/subscribers/deploys", `{"match":{"category":"deploys"},"do":{"push":{"namespace":"default","tenant":"default","name":"mail"}}}`)
}

func (k *kit) worldLeases(of func(kind, path string)) {
	k.t.Helper()
	k.write("POST", "/v1/locks/ledger/acquire"+ofDefault, `{"holder":"ann","ttl_ms":3600000}`)
	of("lock", "/locks/ledger"+ofDefault)
	k.write("PUT", "/v1/semaphores/gpus"+ofDefault, `{"slots":5}`)
	k.write("POST", "/v1/semaphores/gpus/acquire"+ofDefault, `{"holder":"trainer"}`)
	of("semaphore", "/semaphores/gpus"+ofDefault)
}

func (k *kit) worldJobs(of func(kind, path string)) {
	k.t.Helper()
	k.write("PUT", "/v1/jobs/report"+ofDefault, `{"name":"report of the night","schedule":"0 3 * * *","timezone":"Europe/Berlin","pod_spec":{"containers":[{"name":"main","command":["run"]}]},
		"start_deadline_seconds":1234,"retry_config":{"max_retries":2,"initial_delay_ms":4000,"max_delay_ms":17000},"max_concurrent_runs":6,"labels":{"team":"billing"},"pod_start_timeout_ms":67000}`)
	run := k.write("POST", "/v1/jobs/report/trigger"+ofDefault, `{}`)["run"].(string)
	k.pod(uuidOf(k.t, run), 0)
	k.until("/v1/runs/"+run, "state", "completed")
	of("run", "/runs/"+run)
	of("job", "/jobs/report"+ofDefault)
}

func uuidOf(t *testing.T, s string) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(s)
	require.NoError(t, err)
	return id
}
