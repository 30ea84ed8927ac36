package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
)

// sweepToken is a column of the sweep's table: a kind of token.
type sweepToken struct {
	name   string
	token  *httpapi.Token // nil: it is not configured
	bearer string         // "": no token is given
	sees   string         // the owners whose content it may read, by their letters
}

// home is the tenant in which the holder makes things.
func (k sweepToken) home() string {
	if k.token != nil && len(k.token.Tenants) > 0 {
		return k.token.Tenants[0]
	}
	return "a"
}

// sweepTokens are the kinds of tokens: an admin; one that is bound to nothing; one of tenant a with all
// rights; one of tenant b with none; one of a that is bound to the tool "hold"; one of a that may
// only read; one for the metrics; one that nobody has; none at all.
var sweepTokens = func() []sweepToken {
	of := func(name string, sees string, change func(*httpapi.Token)) sweepToken {
		k := httpapi.Token{Name: name, SHA256: httpapi.HashToken(name + "-secret"), Namespaces: []string{"ns"}}
		change(&k)
		return sweepToken{name, &k, name + "-secret", sees}
	}
	return []sweepToken{
		of("admin", "hob", func(k *httpapi.Token) { k.Admin, k.Namespaces = true, nil }),
		of("any", "hob", func(k *httpapi.Token) { k.Namespaces = nil }),
		of("a", "ho", func(k *httpapi.Token) {
			k.Tenants, k.Sessions, k.Git, k.Runners = []string{"a"}, true, true, []string{"kubernetes"}
		}),
		of("b", "b", func(k *httpapi.Token) { k.Tenants = []string{"b"} }),
		of("tool", "h", func(k *httpapi.Token) { k.Tenants, k.Tools = []string{"a"}, []string{"hold"} }),
		of("reader", "ho", func(k *httpapi.Token) { k.Tenants, k.ReadOnly = []string{"a"}, true }),
		of("metrics", "", func(k *httpapi.Token) { k.Namespaces, k.Metrics = nil, true }),
		{"wrong", nil, "nobodys-secret", ""},
		{"none", nil, "", ""},
	}
}()

// sweepOwner is whose the thing is that a request is about.
type sweepOwner struct {
	letter, tenant, tool string
	secret               string // the content that others must not see
}

// sweepOwners are, in the order of a cell: something of tenant a with the tool "hold", something of a
// with another tool, something of tenant b, and something that nobody has.
var sweepOwners = []sweepOwner{
	{"h", "a", "hold", "secretofhold"}, {"o", "a", "keep", "secretofkeep"}, {"b", "b", "hold", "secretofb"}, {"x", "x", "hold", "secretofx"},
}

// thing is what a request is about: the values of its path and its body.
type thing map[string]string

// fill puts the values of a thing into a text: {id}.
func (o thing) fill(text string) string {
	for k, v := range o {
		text = strings.ReplaceAll(text, "{"+k+"}", v)
	}
	return text
}

// sweepWorld is an API with a thing of each owner.
type sweepWorld struct {
	*api
	things []thing
}

func newSweepWorld(t *testing.T, kind string, partitions int) *sweepWorld {
	t.Helper()
	log, err := audit.Open(audit.Options{Dir: filepath.Join(t.TempDir(), "log")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	w := &sweepWorld{}
	hang := shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	w.api = start(t, setup{
		partitions: partitions,
		engine: func(o *shell.Options) {
			withCluster(o)
			o.Tools = map[string]shell.Tool{"hold": hang, "keep": hang}
			o.Webhooks = map[string]shell.WebhookRoute{}
			for _, of := range sweepOwners[:3] {
				o.Webhooks["route-"+of.letter] = shell.WebhookRoute{Tool: of.tool, Namespace: "ns", Tenant: of.tenant, Label: of.secret}
			}
		},
		api: func(o *httpapi.Options) {
			withJobs(o)
			o.Audit, o.Notify = log, &notifier{}
			o.Jobs = jobService{logs: func(_ context.Context, run core.Orchestrator, _ uint32, _ jobs.LogOptions, w io.Writer) error {
				_, err := w.Write(run.Config.PodSpec)
				return err
			}}
			o.Webhooks = map[string]httpapi.WebhookAuth{}
			for _, of := range sweepOwners[:3] {
				o.Webhooks["route-"+of.letter] = httpapi.WebhookAuth{Scheme: httpapi.SchemeNone}
			}
			for _, k := range sweepTokens {
				if k.token != nil {
					o.Tokens = append(o.Tokens, *k.token)
				}
			}
		},
	})
	for _, of := range sweepOwners {
		th := thing{
			"tenant": of.tenant, "tool": of.tool, "secret": of.secret, "name": "thing-" + of.letter, "route": "route-" + of.letter,
			"id": uuid.NewString(), "phase": "x", "token": "1", "item": uuid.NewString(), "occurrence": uuid.NewString(), "job": "thing-" + of.letter, "recurring": uuid.NewString(), "kind": "action",
		}
		if make, ok := sweepMakers[kind]; ok && of.letter != "x" {
			make(w, th)
		}
		w.things = append(w.things, th)
	}
	synctest.Wait() // until what the things do by themselves is done
	return w
}

// must sends a request as the admin, which must succeed, and gives the answer's field.
func (w *sweepWorld) must(th thing, request, body, field string) string {
	w.t.Helper()
	method, path, _ := strings.Cut(th.fill(request), " ")
	var b any
	if body != "" {
		b = th.fill(body)
	}
	got := w.do(method, path, b, bearer("admin-secret"))
	require.Less(w.t, got.status, 300, "%s: %s", th.fill(request), got.body)
	if field == "" {
		return ""
	}
	v, ok := got.object()[field]
	require.True(w.t, ok, got.body)
	return strings.TrimSuffix(fmt.Sprintf("%v", v), ".0")
}

// inTenant names the tenant of a thing that is known by its name.
const inTenant = "?namespace=ns&tenant={tenant}"

// sweepMakers make a thing of each kind, by the first part of its path.
var sweepMakers = map[string]func(*sweepWorld, thing){
	"actions": func(w *sweepWorld, th thing) {
		th["id"] = w.must(th, "POST /v1/actions", sweepBodies["createAction"], "id")
	},
	"changes": func(w *sweepWorld, th thing) {
		th["id"] = w.must(th, "POST /v1/actions", sweepBodies["createAction"], "id")
	},
	"find": func(w *sweepWorld, th thing) {
		th["id"] = w.must(th, "POST /v1/actions", sweepBodies["createAction"], "id")
	},
	"webhooks": func(w *sweepWorld, th thing) { // what redeliver is about
		th["id"] = w.must(th, "POST /v1/actions", sweepBodies["createAction"], "id")
	},
	"recurring": func(w *sweepWorld, th thing) {
		th["id"] = w.must(th, "POST /v1/recurring", sweepBodies["createRecurring"], "recurring_id")
	},
	"queues": func(w *sweepWorld, th thing) {
		w.must(th, "PUT /v1/queues/{name}"+inTenant, "{}", "")
		w.must(th, "POST /v1/queues/{name}/items"+inTenant, sweepBodies["pushItem"], "")
		taken := w.do("POST", th.fill("/v1/queues/{name}/take"+inTenant), `{"holder":"h","visibility_ms":86400000}`, bearer("admin-secret"))
		require.Equal(w.t, http.StatusOK, taken.status, taken.body)
		th["item"] = uuidForm.FindString(strings.SplitAfter(taken.body, `"items":`)[1])
		w.must(th, "POST /v1/queues/{name}/items"+inTenant, sweepBodies["pushItem"], "")
	},
	"pipelines": func(w *sweepWorld, th thing) {
		th["id"] = w.must(th, "POST /v1/pipelines", sweepBodies["createPipeline"], "id")
	},
	"tasks": func(w *sweepWorld, th thing) {
		th["id"] = w.must(th, "POST /v1/tasks", sweepBodies["createTask"], "id")
	},
	"strategies": func(w *sweepWorld, th thing) {
		th["id"] = w.must(th, "POST /v1/strategies", sweepBodies["createStrategy"], "id")
	},
	"workers": func(w *sweepWorld, th thing) {
		w.must(th, "PUT /v1/workers/{name}"+inTenant, sweepBodies["putWorker"], "")
	},
	"locks": func(w *sweepWorld, th thing) {
		th["token"] = w.token(th, "POST /v1/locks/{name}/acquire"+inTenant, `{"holder":"{secret}"}`)
	},
	"semaphores": func(w *sweepWorld, th thing) {
		w.must(th, "PUT /v1/semaphores/{name}"+inTenant, `{"slots":2}`, "")
		th["token"] = w.token(th, "POST /v1/semaphores/{name}/acquire"+inTenant, `{"holder":"{secret}"}`)
	},
	"calendars": func(w *sweepWorld, th thing) {
		w.must(th, "POST /v1/calendars"+inTenant, `{"name":"{name}","exclude":{"dates":[{"date":"2026-12-25","name":"{secret}"}]}}`, "")
	},
	"sets": func(w *sweepWorld, th thing) {
		w.must(th, "POST /v1/sets/{name}", sweepBodies["applySet"], "")
	},
	"occurrences": func(w *sweepWorld, th thing) { // of an action that recurs: it stays visible as the action does
		recurring := strings.Replace(sweepBodies["createAction"], `"trigger"`, `"recurrence":3600,"trigger"`, 1)
		th["id"] = w.must(th, "POST /v1/actions", recurring, "id")
		w.must(th, "POST /v1/actions/{id}/trigger", "", "")
		list, _, err := w.engines[core.Partition(shell.Scope{Namespace: "ns", Tenant: th["tenant"]}, len(w.engines))].Occurrences().List(w.t.Context(), shell.OccurrenceFilter{Scope: &shell.Scope{Namespace: "ns", Tenant: th["tenant"]}}, shell.Page{})
		require.NoError(w.t, err)
		for _, o := range list {
			if o.RecurringID.String() == th["id"] {
				th["id"] = o.ID.String()
			}
		}
	},
	"backfills": func(w *sweepWorld, th thing) {
		th["recurring"] = w.must(th, "POST /v1/recurring", sweepBodies["createRecurring"], "recurring_id")
		th["id"] = w.must(th, "POST /v1/backfills", sweepBodies["createBackfill"], "id")
	},
	"subscribers": func(w *sweepWorld, th thing) {
		w.must(th, "PUT /v1/subscribers/{name}"+inTenant, sweepBodies["putSubscriber"], "")
	},
	"jobs": (*sweepWorld).makeJob,
	"runs": func(w *sweepWorld, th thing) {
		w.makeJob(th)
		th["id"] = w.must(th, "POST /v1/jobs/{job}/trigger"+inTenant, "{}", "run")
		id, err := uuid.Parse(uuidForm.FindString(th["id"]))
		require.NoError(w.t, err, th["id"])
		th["id"] = id.String()
		engine := w.engineOf(effects.Ref{Kind: core.KindOrchestrator, ID: id})
		run, err := engine.Runs().Get(w.t.Context(), id)
		require.NoError(w.t, err)
		_, err = engine.Runs().Send(w.t.Context(), id, core.PodRunning{Attempt: run.RetryAttempt, Pod: core.Pod{Name: "p", Node: "n", StartedAt: effects.TimeOf(run.CreatedAt.Std())}})
		require.NoError(w.t, err)
	},
}

func (w *sweepWorld) makeJob(th thing) {
	w.must(th, "PUT /v1/jobs/{job}"+inTenant, sweepBodies["putJob"], "")
}

// token gives the fencing token of a lease that the token of the thing's tenant acquires.
func (w *sweepWorld) token(th thing, request, body string) string {
	w.t.Helper()
	method, path, _ := strings.Cut(th.fill(request), " ")
	got := w.do(method, path, th.fill(body), bearer(th["tenant"]+"-secret"))
	require.Less(w.t, got.status, 300, got.body)
	_, after, ok := strings.Cut(got.body, `"token":`)
	require.True(w.t, ok, got.body)
	return after[:strings.IndexAny(after, ",}")]
}

// sweepBodies are the bodies of operations, valid for the thing that they are about. An operation
// that is not here is asked for without a body.
var sweepBodies = map[string]string{
	"createAction":       `{"namespace":"ns","tenant":"{tenant}","label":"{secret}","tool_name":"{tool}","tool_input":{"v":"{secret}"},"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`,
	"createActions":      `{"actions":[{"namespace":"ns","tenant":"{tenant}","label":"{secret}","tool_name":"{tool}","tool_input":{"v":"{secret}"},"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}]}`,
	"bulkActions":        `{"act":"trigger","ids":["{id}"]}`,
	"bulkRecurring":      `{"act":"pause","ids":["{id}"]}`,
	"bulkPipelines":      `{"act":"cancel","ids":["{id}"]}`,
	"bulkTasks":          `{"act":"cancel","ids":["{id}"]}`,
	"bulkStrategies":     `{"act":"cancel","ids":["{id}"]}`,
	"bulkJobs":           `{"act":"pause","ids":["{job}"]}`,
	"bulkRuns":           `{"act":"cancel","ids":["{id}"]}`,
	"createRecurring":    `{"namespace":"ns","tenant":"{tenant}","cron_expr":"0 9 * * *","provider":"{tool}","action_type":"x","payload":{"v":"{secret}"},"description":"{secret}","alerts":{"failing":3}}`,
	"updateRecurring":    `{"timezone":"Europe/Berlin"}`,
	"silenceRecurring":   `{"until":"2090-01-01T00:00:00Z"}`,
	"silenceJob":         `{"until":"2090-01-01T00:00:00Z"}`,
	"putQueue":           `{}`,
	"takeItems":          `{"holder":"h"}`,
	"pushItem":           `{"data":"{secret}"}`,
	"pushItems":          `{"items":[{"data":"{secret}"}]}`,
	"completeItem":       `{"holder":"h","attempt":1}`,
	"failItem":           `{"holder":"h","attempt":1,"error":"e"}`,
	"extendItem":         `{"holder":"h","attempt":1,"visibility_ms":1000}`,
	"heartbeatItem":      `{"holder":"h","attempt":1}`,
	"releaseItem":        `{"holder":"h","attempt":1}`,
	"receiveWebhook":     `{}`,
	"createPipeline":     `{"namespace":"ns","tenant":"{tenant}","label":"{secret}","context":{"v":"{secret}"},"definition":{"name":"p","inputs":[{"name":"v"}],"phases":[{"name":"x","run":{"tool":"{tool}","input":"${v}"}}]}}`,
	"signalPipeline":     `{"name":"go"}`,
	"approvePipeline":    `{"phase":"x","approved":true}`,
	"checkpointPipeline": `{"message":"m"}`,
	"createTask":         `{"namespace":"ns","tenant":"{tenant}","label":"{secret}"}`,
	"recoverTask":        `{"action":"nudge"}`,
	"inputTask":          `{"text":"t"}`,
	"createStrategy":     `{"namespace":"ns","tenant":"{tenant}","label":"{secret}","approaches":[{"name":"x","action":{"command":{"tool":"{tool}","input":{"v":"{secret}"}}}}]}`,
	"evaluateStrategy":   `{"n":1,"success":true}`,
	"putWorker":          `{"queue":"q","do":{"run":{"tool":"{tool}","input":{"v":"{secret}"}}}}`,
	"acquireLock":        `{"holder":"me"}`,
	"renewLock":          `{"holder":"{secret}","token":{token}}`,
	"releaseLock":        `{"holder":"{secret}","token":{token}}`,
	"createBackfill":     `{"namespace":"ns","tenant":"{tenant}","recurring_id":"{recurring}","from":"1999-12-30T00:00:00Z","reason":"{secret}"}`,
	"createCalendar":     `{"namespace":"ns","tenant":"{tenant}","name":"new-{tenant}","description":"{secret}"}`,
	"applySet":           `{"entries":[{"file":"{secret}.toml","recurring":{"namespace":"ns","tenant":"{tenant}","name":"{name}","cron_expr":"0 9 * * *","provider":"{tool}","payload":{"v":"{secret}"}}}]}`,
	"putCalendar":        `{"description":"{secret}"}`,
	"putSemaphore":       `{"slots":3}`,
	"acquireSemaphore":   `{"holder":"me"}`,
	"renewSemaphore":     `{"holder":"{secret}","token":{token}}`,
	"releaseSemaphore":   `{"holder":"{secret}","token":{token}}`,
	"breakSemaphore":     `{"token":{token}}`,
	"putSubscriber":      `{"match":{"category":"x"},"do":{"push":{"name":"{secret}"}}}`,
	"publishEvent":       `{"kind":{"category":"deploys","action":"wanted"},"data":1}`,
	"putJob":             `{"name":"{secret}","schedule":"0 3 * * *","alerts":{"failing":3,"channel":"{secret}"},"pod_spec":{"containers":[{"name":"{secret}"}]}}`,
}
