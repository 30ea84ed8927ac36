package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// limited is an API with tokens of two tenants, an admin's and one of the namespace, and
// limits.
func limited(t *testing.T, l httpapi.Limits) *api {
	t.Helper()
	return limitedOn(t, nil, l)
}

func limitedOn(t *testing.T, st store.Store, l httpapi.Limits) *api {
	t.Helper()
	return start(t, setup{
		store:  st,
		engine: func(o *shell.Options) { o.Limits.Count = true },
		api: func(o *httpapi.Options) {
			o.Limits = l
			token := func(name string, tenants ...string) httpapi.Token {
				return httpapi.Token{Name: name, SHA256: httpapi.HashToken(name), Namespaces: []string{"ns"}, Tenants: tenants}
			}
			o.Tokens = []httpapi.Token{
				token("ann", "t1"), token("amy", "t1"), token("ben", "t2"), token("both", "t1", "t2"),
				{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true},
			}
			o.Webhooks = map[string]httpapi.WebhookAuth{"open": {Scheme: "none"}}
		},
	})
}

func TestRequestsOfATenantBeyondItsRateAreRefusedUntilTheyMayCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{
			Default:   httpapi.TenantLimits{RequestsPerSecond: 2, RequestBurst: 4},
			Overrides: map[shell.Scope]httpapi.TenantLimits{{Namespace: "ns", Tenant: "t2"}: {}},
		})
		get := func(token string) answer { return a.do("GET", "/v1/info", nil, bearer(token)) }
		for left := range 4 {
			got := get([]string{"ann", "amy"}[left%2])
			require.Equal(t, http.StatusOK, got.status, "both of t1: %s", got.body)
			assert.Equal(t, `"requests";q=4;w=2`, got.header.Get("RateLimit-Policy"))
			assert.Equal(t, fmt.Sprintf(`"requests";r=%d;t=%d`, 3-left, (left+2)/2), got.header.Get("RateLimit"))
		}
		got := get("ann")
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Equal(t, "1", got.header.Get("Retry-After"))
		assert.Contains(t, got.body, "requests: more than 2 a second: see limits.requests_per_second of the daemon")
		for _, token := range []string{"ben", "root", "both"} {
			assert.Equal(t, http.StatusOK, get(token).status, token)
		}
		assert.Empty(t, get("ben").header.Get("RateLimit"), "its override bounds nothing")
		elapse(time.Second)
		assert.Equal(t, http.StatusOK, get("ann").status)
		assert.Contains(t, a.do("GET", "/metrics", nil, bearer("root")).body, `orrery_rate_limited_total{rate="requests"} 1`)
	})
}

func TestInputsHaveARateOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{Default: httpapi.TenantLimits{InputsPerSecond: 0.5, InputBurst: 2}})
		create := func(token string) answer {
			return a.do("POST", "/v1/actions", map[string]any{"tool_name": "echo", "tenant": "t1", "namespace": "ns"}, bearer(token))
		}
		require.Equal(t, http.StatusCreated, create("ann").status)
		hook := func() answer { return a.do("POST", "/v1/webhooks/open", map[string]any{}) }
		require.Equal(t, http.StatusAccepted, hook().status, "a webhook of the same tenant")
		for _, got := range []answer{create("ann"), hook()} {
			assert.Equal(t, http.StatusTooManyRequests, got.status)
			assert.Equal(t, "2", got.header.Get("Retry-After"))
		}
		assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil, bearer("ann")).status, "reading is no input")
		assert.Equal(t, http.StatusCreated, create("root").status)
	})
}

func TestALargeInputCountsOnceMoreForEach64KiBOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{Default: httpapi.TenantLimits{InputsPerSecond: 1, InputBurst: 10}})
		create := func(size int) answer {
			return a.do("POST", "/v1/actions", map[string]any{"tool_name": "echo", "tool_input": strings.Repeat("a", size)}, bearer("ann"))
		}
		got := create(300 << 10)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		assert.Equal(t, `"inputs";r=5;t=5`, got.header.Get("RateLimit"), "one, and four times 64 KiB")
		got = create(400 << 10)
		require.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Equal(t, "2", got.header.Get("Retry-After"), "seven are too many for five")
		require.Equal(t, http.StatusCreated, create(1).status)
		elapse(10 * time.Second)
		assert.Equal(t, http.StatusCreated, create(900<<10).status, "what is more than there ever is takes all")
		chunked := a.do("POST", "/v1/actions", io.MultiReader(strings.NewReader(`{"tool_name":"echo"}`)), bearer("ann"))
		assert.Equal(t, http.StatusTooManyRequests, chunked.status, "the length is not declared: it may be the largest")
	})
}

func TestATenantIsBoundInWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{Default: httpapi.TenantLimits{Schedules: 2, LiveActions: 2, StoredBytes: 10_000}})
		synctest.Wait() // what there was is counted
		post := func(token, path string, body map[string]any) answer {
			body["namespace"], body["tenant"] = "ns", "t1"
			if token == "ben" {
				body["tenant"] = "t2"
			}
			return a.do("POST", path, body, bearer(token))
		}
		action := func(token string) answer { return post(token, "/v1/actions", map[string]any{"tool_name": "hold"}) }
		recurring := func(token string) answer {
			return post(token, "/v1/recurring", map[string]any{"cron_expr": "@hourly", "provider": "echo", "action_type": "x", "payload": map[string]any{}})
		}
		for range 2 {
			require.Equal(t, http.StatusCreated, action("ann").status)
			got := recurring("ann")
			require.Equal(t, http.StatusCreated, got.status, got.body)
		}
		got := action("ann")
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Equal(t, "60", got.header.Get("Retry-After"))
		assert.Contains(t, got.body, `tenant: \"t1\" of namespace \"ns\" has 2 actions that have not ended: limits.max_live_actions of the daemon allows 2`)
		got = recurring("ann")
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Contains(t, got.body, `has 2 recurring actions and jobs: limits.max_schedules of the daemon allows 2`)
		assert.Equal(t, http.StatusTooManyRequests, a.do("POST", "/v1/webhooks/open", map[string]any{}).status, "its action would be one more")
		assert.Equal(t, http.StatusCreated, action("ben").status)
		assert.Equal(t, http.StatusCreated, action("root").status, "an admin is not bound")

		queue := func(size int) answer {
			return a.do("POST", "/v1/queues/work/items?namespace=ns&tenant=t2", map[string]any{"data": strings.Repeat("x", size)}, bearer("ben"))
		}
		got = queue(12_000)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		got = queue(1)
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Contains(t, got.body, "bytes that are stored: limits.max_stored_bytes of the daemon allows 10000")
	})
}

func TestWhatATenantHasIsCountedAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{})
		for range 3 {
			require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", map[string]any{"tool_name": "hold"}, bearer("ann")).status)
		}
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/queues/work/items", map[string]any{"data": 1}, bearer("ann")).status)
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", map[string]any{"tool_name": "echo"}, bearer("ben")).status)
		synctest.Wait()
		before, err := a.engine.Usages(t.Context())
		require.NoError(t, err)
		t1 := shell.Scope{Namespace: "ns", Tenant: "t1"}
		assert.EqualValues(t, 3, before[t1].LiveActions)
		assert.EqualValues(t, 1, before[t1].Queues)
		assert.Zero(t, before[shell.Scope{Namespace: "ns", Tenant: "t2"}].LiveActions)

		again := start(t, setup{store: a.engine.Store(), engine: func(o *shell.Options) { o.Limits.Count = true }})
		synctest.Wait()
		assert.True(t, again.engine.UsageState().Counted)
		after, err := again.engine.Usages(t.Context())
		require.NoError(t, err)
		assert.Equal(t, before, after)
	})
}

// walkStore is a store in which the walk through the records meets what walk gives.
type walkStore struct {
	store.Store
	walk func() error
}

type walkTx struct {
	store.ReadTx
	walk func() error
}

func (s walkStore) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return s.Store.View(ctx, func(tx store.ReadTx) error { return fn(walkTx{tx, s.walk}) })
}

func (tx walkTx) RecordPage(after effects.Ref, limit int, fn func(store.Record) error) (effects.Ref, error) {
	if err := tx.walk(); err != nil {
		return effects.Ref{}, err
	}
	return tx.ReadTx.(store.Walker).RecordPage(after, limit, fn)
}

func TestNobodyWaitsForTheCountOfWhatTenantsHaveAndNothingIsRefusedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		a := limitedOn(t, walkStore{memory.New(), func() error { <-ended; return nil }}, httpapi.Limits{Default: httpapi.TenantLimits{LiveActions: 2}})
		t.Cleanup(func() { close(ended) })
		began := time.Now()
		create := func() int {
			return a.do("POST", "/v1/actions", map[string]any{"tool_name": "hold"}, bearer("ann")).status
		}
		for range 3 {
			assert.Equal(t, http.StatusCreated, create())
		}
		assert.Less(t, a.do("POST", "/v1/webhooks/open", map[string]any{}).status, 300)
		got := a.do("GET", "/v1/limits", nil, bearer("root"))
		assert.Equal(t, http.StatusOK, got.status)
		assert.Contains(t, got.body, `"counted":false`)
		assert.Contains(t, a.do("GET", "/metrics", nil, bearer("root")).body, "orrery_usage_counted 0\n")
		assert.Zero(t, time.Since(began), "nobody waited")
	})
}

func TestAPageThatCannotBeWalkedIsAGapOfTheCountThatLimitsAndMetricsTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limitedOn(t, walkStore{memory.New(), func() error { return store.ErrCorrupt }}, httpapi.Limits{Default: httpapi.TenantLimits{LiveActions: 2}})
		synctest.Wait()
		for _, want := range []int{http.StatusCreated, http.StatusCreated, http.StatusTooManyRequests} {
			assert.Equal(t, want, a.do("POST", "/v1/actions", map[string]any{"tool_name": "hold"}, bearer("ann")).status)
		}
		got := a.do("GET", "/v1/limits", nil, bearer("root")).body
		assert.Contains(t, got, `"counted":true`)
		assert.Contains(t, got, `"gaps":1`)
		got = a.do("GET", "/metrics", nil, bearer("root")).body
		assert.Contains(t, got, "orrery_usage_counted 1\n")
		assert.Contains(t, got, "orrery_usage_gaps 1\n")
	})
}

func TestTheTimesOfATenantsScheduleMayNotBeTooNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{Default: httpapi.TenantLimits{MinScheduleInterval: time.Minute}})
		recurring := func(token, cron string) answer {
			return a.do("POST", "/v1/recurring", map[string]any{
				"namespace": "ns", "tenant": "t1", "cron_expr": cron, "provider": "echo", "action_type": "x", "payload": map[string]any{},
			}, bearer(token))
		}
		got := recurring("ann", "@every 1s")
		assert.Equal(t, http.StatusBadRequest, got.status)
		assert.Contains(t, got.body, "limits.min_schedule_seconds of the daemon asks for 1m0s at least")
		assert.Equal(t, http.StatusBadRequest, recurring("ann", "@every 59s").status)
		assert.Equal(t, http.StatusCreated, recurring("ann", "* * * * *").status)
		assert.Equal(t, http.StatusCreated, recurring("root", "@every 1s").status, "none for the operator")
		action := func(every string) answer {
			return a.do("POST", "/v1/actions", map[string]any{"tool_name": "echo", "recurrence": map[string]any{"every": every}}, bearer("ann"))
		}
		got = action("1s")
		assert.Equal(t, http.StatusBadRequest, got.status, got.body)
	})
}

func TestWhatARequestAsksForIsBoundByTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{Default: httpapi.TenantLimits{MaxTimeout: time.Minute, MaxAttempts: 5, MaxOutputBytes: 100}})
		phase := func(fields string) string {
			return `{"definition":{"name":"p","phases":[{"name":"a","run":{"tool":"echo"` + fields + `}}]}}`
		}
		for _, c := range []struct{ path, body, want string }{
			{"/v1/actions", `{"tool_name":"echo","policy":{"timeout_ms":60001}}`, "policy.timeout_ms: 60001 is more than 60000: limits.max_timeout_seconds"},
			{"/v1/actions", `{"tool_name":"echo","policy":{"max_attempts":6}}`, "policy.max_attempts: 6 is more than 5: limits.max_attempts"},
			{"/v1/actions", `{"tool_name":"echo","tool_input":{"timeout_seconds":86400}}`, "tool_input.timeout_seconds: 86400 is more than 60"},
			{"/v1/actions", `{"tool_name":"echo","tool_input":{"total_timeout_seconds":61}}`, "tool_input.total_timeout_seconds"},
			{"/v1/actions", `{"tool_name":"echo","tool_input":{"max_output_bytes":101}}`, "tool_input.max_output_bytes: 101 is more than 100: limits.max_output_bytes"},
			{"/v1/actions", `{"tool_name":"echo","tool_input":{"timeout_seconds":60,"body":{"timeout_seconds":86400}}}`, ""},
			{"/v1/recurring", `{"namespace":"ns","tenant":"t1","cron_expr":"@daily","provider":"echo","action_type":"x","payload":{"timeout_seconds":61}}`, "payload.timeout_seconds"},
			{"/v1/recurring", `{"namespace":"ns","tenant":"t1","cron_expr":"@daily","policy":{"timeout_ms":60001},"provider":"echo","action_type":"x","payload":{}}`, "policy.timeout_ms"},
			{"/v1/pipelines", phase(`,"timeout_ms":60001`), "definition.phases[0].run.timeout_ms: 60001"},
			{"/v1/pipelines", phase(`,"input":{"timeout_seconds":61}`), "input.timeout_seconds: 61"},
			{"/v1/pipelines", phase(`,"input":{"timeout_seconds":"{{minutes}}"}`), ""},
			{"/v1/strategies", `{"approaches":[{"name":"a","timeout_ms":60001,"action":{"command":{"tool":"echo"}}}]}`, "approaches[0].timeout_ms: 60001"},
		} {
			got := a.do("POST", c.path, c.body, bearer("ann"))
			if c.want == "" {
				assert.NotContains(t, got.body, "limits.", c.body)
				continue
			}
			assert.Equal(t, http.StatusBadRequest, got.status, "%s: %s", c.body, got.body)
			assert.Contains(t, got.body, c.want, c.body)
			assert.NotContains(t, a.do("POST", c.path, c.body, bearer("root")).body, "limits.", "an admin is not bound")
		}
	})
}

func TestATokenSeesTheLimitsOfItsOwnTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{
			Default:   httpapi.TenantLimits{Schedules: 7},
			Overrides: map[shell.Scope]httpapi.TenantLimits{{Namespace: "ns", Tenant: "t2"}: {LiveActions: 9}},
		})
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", map[string]any{"tool_name": "hold"}, bearer("ben")).status)
		synctest.Wait()
		list := func(token string) (out wire.LimitsList) {
			got := a.do("GET", "/v1/limits", nil, bearer(token))
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.NoError(t, json.Unmarshal([]byte(got.body), &out))
			return out
		}
		ann := list("ann")
		require.Len(t, ann.Tenants, 1)
		assert.Equal(t, "t1", ann.Tenants[0].Tenant)
		assert.EqualValues(t, 7, ann.Tenants[0].Limits.MaxSchedules)
		root := list("root")
		require.NotEmpty(t, root.Tenants)
		assert.Equal(t, "t2", root.Tenants[0].Tenant)
		assert.EqualValues(t, 1, root.Tenants[0].Usage.LiveActions)
		assert.EqualValues(t, 9, root.Tenants[0].Limits.MaxLiveActions)
	})
}

func TestMetricsGiveEachTenantItsPartOfTheQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{})
		put := func(token, name string) {
			require.Equal(t, http.StatusOK, a.do("PUT", "/v1/queues/"+name, map[string]any{}, bearer(token)).status)
		}
		put("ann", "mine")
		for i := range 1010 {
			put("ben", fmt.Sprintf("q%d", i))
		}
		got := a.do("GET", "/metrics", nil, bearer("root")).body
		assert.Contains(t, got, `orrery_queue_items{namespace="ns",queue="mine",state="ready",tenant="t1"} 0`, "the oldest of all")
		assert.Equal(t, 1000, strings.Count(got, "\norrery_queue_oldest_ready_seconds{"))
		assert.Contains(t, got, "orrery_queues_left_out 11\n")
		assert.Contains(t, got, `orrery_tenant_stored_bytes{namespace="ns",tenant="t1"}`)
		assert.Contains(t, got, "orrery_tenants_left_out 0\n")
	})
}

func TestLimitsThatMeanNothingAreRefused(t *testing.T) {
	_, err := httpapi.New(httpapi.Options{
		Engine: &shell.Engine{},
		Limits: httpapi.Limits{
			Default:   httpapi.TenantLimits{RequestsPerSecond: -1},
			Overrides: map[shell.Scope]httpapi.TenantLimits{{Namespace: "ns", Tenant: "t"}: {MaxAttempts: -2}},
		},
	})
	require.ErrorContains(t, err, "httpapi: Options.Limits.Default.RequestsPerSecond is -1: it must not be negative")
	require.ErrorContains(t, err, `httpapi: Options.Limits.Overrides["ns", "t"].MaxAttempts is -2`)
}

func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestEveryRouteThatMakesALiveMachineIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := httpapi.TenantLimits{LiveActions: 1, LiveRuns: 1, LivePipelines: 1, LiveTasks: 1, LiveStrategies: 1}
		a := start(t, setup{
			engine: func(o *shell.Options) {
				withCluster(o)
				o.Limits.Count = true
			},
			api: func(o *httpapi.Options) {
				withJobs(o)
				o.Limits.Default = most
				o.Tokens = []httpapi.Token{
					{Name: "ann", SHA256: httpapi.HashToken("ann"), Namespaces: []string{"ns"}, Tenants: []string{"t1"}, Sessions: true},
					{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true},
				}
			},
		})
		as := func(token, path string, body any) answer {
			got := a.do("POST", path, body, bearer(token))
			synctest.Wait() // it is counted
			return got
		}
		pipeline := `{"namespace":"ns","tenant":"t1","definition":{"name":"p","phases":[{"name":"a","manual":{}}]}}`
		failed := as("root", "/v1/pipelines", pipeline)
		require.Equal(t, http.StatusCreated, failed.status, failed.body)
		<-time.After(time.Second)
		at := "/v1/pipelines/" + failed.str("id")
		got := as("root", at+"/phases/a/fail", `{"error":"no"}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		got = as("root", "/v1/recurring", `{"namespace":"ns","tenant":"t1","cron_expr":"@yearly","provider":"hold","action_type":"x"}`)
		recurring := "/v1/recurring/" + got.str("recurring_id")
		got = a.do("PUT", "/v1/jobs/j?namespace=ns&tenant=t1", `{"pod_spec":{"containers":[{"name":"c","image":"i"}]}}`, bearer("root"))
		require.Less(t, got.status, 300, got.body)

		for _, c := range []struct{ path, body, key string }{
			{"/v1/actions", `{"namespace":"ns","tenant":"t1","tool_name":"hold"}`, "max_live_actions"},
			{recurring + "/trigger", "", "max_live_actions"},
			{"/v1/jobs/j/trigger?namespace=ns&tenant=t1", "", "max_live_runs"},
			{"/v1/pipelines", pipeline, "max_live_pipelines"},
			{at + "/retry", "", "max_live_pipelines"},
			{"/v1/tasks", `{"namespace":"ns","tenant":"t1"}`, "max_live_tasks"},
			{"/v1/strategies", `{"namespace":"ns","tenant":"t1","approaches":[{"name":"y","action":{"command":{"tool":"hold"}}}]}`, "max_live_strategies"},
		} {
			var body any
			if c.body != "" {
				body = c.body
			}
			if !strings.Contains(c.path, recurring) && !strings.HasSuffix(c.path, "/retry") {
				got := as("ann", c.path, body)
				require.Equal(t, http.StatusCreated, got.status, "%s: %s", c.path, got.body)
			}
			got := as("ann", c.path, body)
			assert.Equal(t, http.StatusTooManyRequests, got.status, "%s: %s", c.path, got.body)
			assert.Equal(t, "60", got.header.Get("Retry-After"), c.path)
			assert.Contains(t, got.body, "limits."+c.key+" of the daemon allows 1", c.path)
		}
		var limits wire.LimitsList
		require.NoError(t, json.Unmarshal([]byte(a.do("GET", "/v1/limits", nil, bearer("ann")).body), &limits))
		require.Len(t, limits.Tenants, 1)
		u, l := limits.Tenants[0].Usage, limits.Tenants[0].Limits
		assert.Equal(t, [...]int64{1, 1, 1, 1}, [...]int64{u.LiveRuns, u.LivePipelines, u.LiveTasks, u.LiveStrategies})
		assert.Equal(t, [...]int64{1, 1, 1, 1}, [...]int64{l.MaxLiveRuns, l.MaxLivePipelines, l.MaxLiveTasks, l.MaxLiveStrategies})
		metrics := a.do("GET", "/metrics", nil, bearer("root")).body
		for _, of := range []string{"runs", "pipelines", "tasks", "strategies"} {
			assert.Contains(t, metrics, "orrery_tenant_live_"+of+`{namespace="ns",tenant="t1"} 1`)
		}
	})
}

func TestWhatALimitOfMachinesRefusesIsAnsweredAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: func(o *shell.Options) { o.Limits.Live.Actions = 1 }})
		synctest.Wait() // what there was is counted
		made := a.do("POST", "/v1/recurring", `{"namespace":"ns","tenant":"t1","cron_expr":"@yearly","provider":"hold","action_type":"x"}`)
		at := "/v1/recurring/" + made.str("recurring_id") + "/trigger"
		require.Equal(t, http.StatusOK, a.do("POST", at, nil).status)
		got := a.do("POST", at, nil)
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Equal(t, "60", got.header.Get("Retry-After"))
		assert.Contains(t, got.body, "the tenant has as many as its limit allows: 1 actions that have not ended (max_live_actions)")
		assert.Contains(t, a.do("GET", "/metrics", nil).body, `orrery_tenant_limited_total{namespace="ns",tenant="t1"} 1`)
	})
}

func TestTheTimesOfATenantsScheduleAreThoseOfItsOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(t, httpapi.Limits{Default: httpapi.TenantLimits{MinScheduleInterval: 12 * time.Hour}})
		recurring := func(cron string, options map[string]any) int {
			body := map[string]any{
				"namespace": "ns", "tenant": "t1", "cron_expr": cron, "timezone": "America/New_York", "provider": "echo", "action_type": "x", "payload": map[string]any{},
			}
			maps.Copy(body, options)
			return a.do("POST", "/v1/recurring", body, bearer("ann")).status
		}
		assert.Equal(t, http.StatusCreated, recurring("30 1 * * *", nil))
		assert.Equal(t, http.StatusBadRequest, recurring("30 1 * * *", map[string]any{"dst": "twice"}), "in autumn an hour lies between two of them")
		assert.Equal(t, http.StatusCreated, recurring("0 0 13 * FRI", map[string]any{"day_match": "both"}))
	})
}
