package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// batchResult is what became of one entry.
type batchResult struct {
	Status    int            `json:"status"`
	Error     string         `json:"error"`
	Duplicate bool           `json:"duplicate"`
	Action    map[string]any `json:"action"`
	Item      map[string]any `json:"item"`
}

func (r answer) results() (list []batchResult) {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, r.body)
	var v struct {
		Results []batchResult `json:"results"`
	}
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v.Results
}

func statuses(list []batchResult) (out []int) {
	for _, r := range list {
		out = append(out, r.Status)
	}
	return out
}

const later = `"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`

// labels lists the labels of a tenant's actions, in order: those of one batch were made at one
// instant.
func (a *api) labels(tenant string) (out []string) {
	a.t.Helper()
	list, ok := a.do("GET", "/v1/actions?limit=1000&tenant="+tenant, nil).object()["actions"].([]any)
	require.True(a.t, ok)
	for i := range list {
		out = append(out, list[i].(map[string]any)["label"].(string))
	}
	slices.Sort(out)
	return out
}

// drawEntry gives the n-th action, which may be right, or wrong in one of the ways there are.
// One that is wrong otherwise has an id of its own: of two faults any may be told.
func drawEntry(t *rapid.T, n int, tenant string, id func(n int) uuid.UUID) string {
	body := rapid.SampledFrom([]string{
		`"tool_name":"echo"}`, `"tool_name":"echo"}`, `"tool_name":"echo"}`,
		`"tool_name":"echo","dedup_key":"k"}`,
		`"tool_name":"nope"}`, `"tool_name":""}`, `"tool_name":"email","tool_input":"bad"}`,
		`"tool_name":"echo","status":"x"}`, `"tool_name":1}`, `"tool_name":"echo","recurrence":0.5}`,
	}).Draw(t, "entry")
	own := id(100 + n)
	if body == `"tool_name":"echo"}` {
		own = id(rapid.IntRange(0, 5).Draw(t, "id"))
	}
	return fmt.Sprintf(`{"id":%q,"tenant":%q,"label":"%d",%s,%s`, own, tenant, n, later, body)
}

// plain is an error without the index of its entry. An id that is taken within one batch is
// told by the action's machine, in a word more.
func plain(i int, field, text string) string {
	at := fmt.Sprintf("%s[%d]", field, i)
	if !strings.HasPrefix(text, at) {
		return text
	}
	text = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(text, at), "."), ": ")
	return strings.Replace(text, "id: action ", "id: ", 1)
}

func TestABatchOfActionsIsAsTheSinglesOneAfterTheOtherOrChangesNothing(t *testing.T) {
	singly, each, all := start(t, setup{}), start(t, setup{}), start(t, setup{})
	var round atomic.Uint32
	rapid.Check(t, func(t *rapid.T) {
		n := round.Add(1)
		tenant := fmt.Sprintf("t%d", n)
		id := func(i int) uuid.UUID {
			return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%06x%06x", n, i))
		}
		var entries []string
		for i := range rapid.IntRange(1, 6).Draw(t, "entries") {
			entries = append(entries, drawEntry(t, i, tenant, id))
		}
		list := `"actions":[` + strings.Join(entries, ",") + "]}"

		got := each.do("POST", "/v1/actions/batch", `{"mode":"each",`+list).results()
		require.Len(t, got, len(entries))
		good := true
		for i, e := range entries {
			want := singly.do("POST", "/v1/actions", e)
			require.Equal(t, want.status, got[i].Status, "%s: %s", e, got[i].Error)
			if want.status == http.StatusCreated {
				require.Empty(t, got[i].Error)
				require.Equal(t, want.object()["id"], got[i].Action["id"])
				continue
			}
			good = false
			require.Nil(t, got[i].Action)
			require.True(t, strings.HasPrefix(got[i].Error, fmt.Sprintf("actions[%d]", i)), got[i].Error)
			require.Equal(t, want.errorText(), plain(i, "actions", got[i].Error))
		}
		require.Equal(t, singly.labels(tenant), each.labels(tenant))

		whole := all.do("POST", "/v1/actions/batch", "{"+list)
		require.Equal(t, good, whole.status == http.StatusOK, whole.body)
		if good {
			require.Equal(t, singly.labels(tenant), all.labels(tenant))
		} else {
			require.Empty(t, all.labels(tenant))
			require.Contains(t, whole.errorText(), "actions[")
		}
	})
}

func TestABatchOfItemsIsAsTheSinglesOneAfterTheOtherOrChangesNothing(t *testing.T) {
	singly, each, all := start(t, setup{}), start(t, setup{}), start(t, setup{})
	entry := rapid.SampledFrom([]string{
		`{"data":1}`, `{"data":{"a":[]},"priority":3}`, `{"data":2,"dedup_key":"a"}`, `{"data":3,"dedup_key":"a"}`, `{"dedup_key":"b","key":"k"}`,
		`{"data":4,"delay_ms":-1}`, `{"priority":"high"}`, `{"nope":1}`,
	})
	var round atomic.Uint32
	data := func(a *api, queue string) any {
		if got := a.do("GET", "/v1/queues/"+queue+"/items?include=data&limit=1000", nil); got.status != http.StatusNotFound {
			var out []any
			for _, i := range got.object()["items"].([]any) {
				out = append(out, i.(map[string]any)["data"])
			}
			return out
		}
		return nil
	}
	rapid.Check(t, func(t *rapid.T) {
		queue := fmt.Sprintf("q%d", round.Add(1))
		path := "/v1/queues/" + queue + "/items"
		entries := rapid.SliceOfN(entry, 1, 6).Draw(t, "entries")
		list := `"items":[` + strings.Join(entries, ",") + "]}"

		got := each.do("POST", path+"/batch", `{"mode":"each",`+list).results()
		require.Len(t, got, len(entries))
		good := true
		for i, e := range entries {
			want := singly.do("POST", path, e)
			require.Equal(t, want.status, got[i].Status, "%s: %s", e, got[i].Error)
			if want.status >= 300 {
				good = false
				require.Nil(t, got[i].Item)
				require.Equal(t, want.errorText(), plain(i, "items", got[i].Error))
				continue
			}
			require.Equal(t, want.object()["duplicate"], got[i].Duplicate)
			require.Equal(t, want.object()["item"].(map[string]any)["dedup_key"], got[i].Item["dedup_key"])
		}
		require.Equal(t, data(singly, queue), data(each, queue))

		whole := all.do("POST", path+"/batch", "{"+list)
		require.Equal(t, good, whole.status == http.StatusOK, whole.body)
		if good {
			require.Equal(t, data(singly, queue), data(all, queue))
			require.Equal(t, statuses(got), statuses(whole.results()))
		} else {
			require.Nil(t, data(all, queue), "not even the queue is made")
		}
	})
}

func TestABatchThatIsMalformedIsRefusedWholeAndSaysWhere(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) { o.MaxBodyBytes = 1 << 20 }})
	many := func(n int, entry string) string { return strings.TrimSuffix(strings.Repeat(entry+",", n), ",") }
	const entry = `{"tool_name":"echo",` + later + `}`
	for _, row := range []struct {
		name, body, want string
		status           int
	}{
		{"no body", ``, `body: is empty: want a JSON object`, 400},
		{"no entries", `{}`, `actions: must have 1 to 1000 elements`, 400},
		{"null", `{"actions":null}`, `actions: must have 1 to 1000 elements`, 400},
		{"an empty list", `{"mode":"each","actions":[]}`, `actions: must have 1 to 1000 elements`, 400},
		{"too many", `{"actions":[` + many(1001, "{}") + `]}`, `actions: has more than 1000 elements`, 400},
		{"too many, each", `{"mode":"each","actions":[` + many(1001, "{}") + `]}`, `actions: has more than 1000 elements`, 400},
		{"too many after a bad one", `{"mode":"each","actions":[{"x":1},` + many(1000, "{}") + `]}`, `actions[0].x: unknown field: use one of`, 400},
		{"too many bytes", `{"actions":["` + strings.Repeat("x", 1<<20) + `"]}`, `body: is larger than the limit of 1048576 bytes`, 413},
		{"a mode that is none", `{"mode":"some","actions":[` + entry + `]}`, `mode: "some" is unknown: use "all" or "each"`, 400},
		{"an unknown field", `{"action":[` + entry + `]}`, `action: unknown field: use one of mode, actions`, 400},
		{"items of queues", `{"mode":"each","items":[` + entry + `]}`, `items: unknown field: use one of mode, actions`, 400},
		{"items beside a bad action", `{"mode":"each","actions":[1],"items":[` + entry + `]}`, `actions[0]: want an object, got number 1`, 400},
		{"no JSON", `{"mode":"each","actions":[` + entry + `,{]}`, `actions[1]: is not JSON: want a field name in double quotes at offset `, 400},
		{"a field of an entry", `{"actions":[` + entry + `,{"tool_name":7}]}`, `actions[1].tool_name: want a string, got number 7`, 400},
		{"what others set", `{"actions":[` + entry + `,{"status":7}]}`, `actions[1].status: is set by the server`, 400},
		{"a bad id", `{"actions":[{"id":"x","tool_name":"echo"}]}`, `actions[0].id: `, 400},
		{"two tenants", `{"actions":[` + entry + `,{"tenant":"b","tool_name":"echo"}]}`, `actions[1].tenant: "b" of namespace "default" is not that of actions[0], "default" of "default": with the mode "all" all are of one tenant`, 400},
		{"no tool", `{"actions":[` + entry + `,{}]}`, `actions[1].tool_name: must not be empty`, 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := a.do("POST", "/v1/actions/batch", row.body)
			require.Equal(t, row.status, got.status, got.body)
			assert.Contains(t, got.errorText(), row.want)
		})
	}
	assert.Empty(t, a.labels("default"))
	assert.Equal(t, 405, a.do("GET", "/v1/actions/batch", nil).status)
	require.Len(t, a.do("POST", "/v1/actions/batch", `{"actions":[`+many(1000, entry)+`]}`).results(), 1000)
	assert.Len(t, a.labels("default"), 1000)
}

func TestAnEntryOfABatchIsRefusedByItselfWithItsIndex(t *testing.T) {
	a := start(t, setup{})
	taken := a.do("POST", "/v1/actions", `{"tool_name":"echo","tenant":"other",`+later+`}`).str("id")
	body := `[{"tool_name":"echo","label":"a",` + later + `},{"tool_name":7},{"tool_name":"nope"},{"id":"` + taken + `","tool_name":"echo"},{"tenant":"b","tool_name":"echo","label":"b",` + later + `}]`
	got := a.do("POST", "/v1/actions/batch", `{"mode":"each","actions":`+body+`}`).results()
	assert.Equal(t, []int{201, 400, 400, 409, 201}, statuses(got))
	assert.Equal(t, "actions[1].tool_name: want a string, got number 7", got[1].Error)
	assert.Contains(t, got[2].Error, `actions[2].tool_name: "nope" is unknown: use one of `)
	assert.Equal(t, "actions[3].id: "+taken+" exists already", got[3].Error, "and not whose it is")
	assert.Equal(t, []string{"a"}, a.labels("default"))
	assert.Equal(t, []string{"b"}, a.labels("b"))
	assert.NotContains(t, got[0].Action, "tool_input", "as lists show it")

	metrics := a.do("GET", "/metrics", nil).body
	for status, n := range map[int]int{201: 2, 400: 2, 409: 1} {
		assert.Contains(t, metrics, fmt.Sprintf("orrery_http_batch_entries_total{route=\"POST /v1/actions/batch\",status=\"%d\"} %d\n", status, n))
	}
}

// tenantOf has a token of the tenant "a" with those limits, and one of the tenant "b".
func tenantOf(l httpapi.TenantLimits) setup {
	return setup{
		engine: func(o *shell.Options) { o.Limits.Count = true },
		api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{
				{Name: "a", SHA256: httpapi.HashToken("a-secret"), Namespaces: []string{"default"}, Tenants: []string{"a"}},
				{Name: "b", SHA256: httpapi.HashToken("b-secret"), Namespaces: []string{"default"}, Tenants: []string{"b"}},
			}
			o.Limits.Default = l
		},
	}
}

func entriesOf(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"tool_name":"echo","label":"%d",%s}`, i, later))
	}
	return `"actions":[` + strings.Join(list, ",") + "]}"
}

func TestEachEntryOfABatchCountsAgainstTheLimitsOfItsTenant(t *testing.T) {
	a := start(t, tenantOf(httpapi.TenantLimits{LiveActions: 3}))
	a.header.Set("Authorization", "Bearer a-secret")
	require.Eventually(t, func() bool { return a.engine.UsageState().Counted }, time.Minute, time.Millisecond)
	got := a.do("POST", "/v1/actions/batch", "{"+entriesOf(4))
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	assert.Equal(t, "60", got.header.Get("Retry-After"))
	assert.Equal(t, `actions[3].tenant: "a" of namespace "default" has 0 actions that have not ended: limits.max_live_actions of the daemon allows 3`, got.errorText())
	assert.Empty(t, a.labels("a"))

	got = a.do("POST", "/v1/actions/batch", `{"mode":"each",`+entriesOf(4))
	assert.Equal(t, []int{201, 201, 201, 429}, statuses(got.results()))
	assert.Equal(t, "60", got.header.Get("Retry-After"))
	assert.Equal(t, []string{"0", "1", "2"}, a.labels("a"))
	assert.Equal(t, []int{429, 429}, statuses(a.do("POST", "/v1/actions/batch", `{"mode":"each",`+entriesOf(2)).results()))
}

func TestEachEntryOfABatchIsAnInputOfItsTenantsRate(t *testing.T) {
	a := start(t, tenantOf(httpapi.TenantLimits{InputsPerSecond: 0.001, InputBurst: 5}))
	a.header.Set("Authorization", "Bearer a-secret")
	got := a.do("POST", "/v1/actions/batch", "{"+entriesOf(6))
	assert.Equal(t, http.StatusBadRequest, got.status, "it can never be taken")
	assert.Equal(t, "inputs: 6 entries are more than the 5 inputs at once that the tenant may send: send fewer in one request (limits.input_burst of the daemon)", got.errorText())

	got = a.do("POST", "/v1/actions/batch", "{"+entriesOf(2))
	assert.Equal(t, []int{201, 201}, statuses(got.results()))
	assert.Equal(t, []string{`"inputs";r=2;t=3000`}, got.header.Values("RateLimit"))
	got = a.do("POST", "/v1/actions/batch", "{"+entriesOf(3))
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	assert.Equal(t, "1000", got.header.Get("Retry-After"))
	assert.Len(t, a.labels("a"), 2)

	b := start(t, tenantOf(httpapi.TenantLimits{InputsPerSecond: 0.001, InputBurst: 5}))
	b.header.Set("Authorization", "Bearer a-secret")
	got = b.do("POST", "/v1/actions/batch", `{"mode":"each",`+entriesOf(7))
	list := got.results()
	assert.Equal(t, []int{201, 201, 201, 201, 201, 429, 429}, statuses(list))
	assert.Equal(t, "actions[6]: inputs: more than 0.001 a second: see limits.inputs_per_second of the daemon", list[6].Error)
	assert.Equal(t, "1000", got.header.Get("Retry-After"))
	got = b.do("POST", "/v1/actions/batch", `{"mode":"each",`+entriesOf(1))
	assert.Equal(t, http.StatusTooManyRequests, got.status, "not even one, so the request itself")
	b.header.Set("Authorization", "Bearer b-secret")
	assert.Equal(t, []int{201}, statuses(b.do("POST", "/v1/actions/batch", "{"+entriesOf(1)).results()), "another tenant has a rate of its own")
}

func TestABatchReachesNoOtherTenant(t *testing.T) {
	a := start(t, tenantOf(httpapi.TenantLimits{}))
	a.header.Set("Authorization", "Bearer b-secret")
	other := a.do("POST", "/v1/actions", `{"tool_name":"echo",`+later+`,"dedup_key":"k"}`).str("id")
	a.header.Set("Authorization", "Bearer a-secret")
	entries := `"actions":[{"tool_name":"echo",` + later + `,"dedup_key":"k"},{"tenant":"b","tool_name":"echo"},{"id":"` + other + `","tool_name":"echo"}]}`
	list := a.do("POST", "/v1/actions/batch", `{"mode":"each",`+entries).results()
	assert.Equal(t, []int{201, 403, 409}, statuses(list))
	assert.Equal(t, `actions[1].tenant: "b" is not one of the token's: use a`, list[1].Error)
	got := a.do("POST", "/v1/actions/batch", "{"+entries)
	assert.Equal(t, http.StatusForbidden, got.status)
	assert.Equal(t, `actions[1].tenant: "b" is not one of the token's: use a`, got.errorText())
	assert.Equal(t, http.StatusForbidden, a.do("POST", "/v1/queues/q/items/batch?tenant=b", `{"items":[{}]}`).status)
}
