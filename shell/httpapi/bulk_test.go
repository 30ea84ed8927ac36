package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// bulk sends a bulk act that must be answered with a result for each id, and gives the results.
func (a *api) bulk(path string, asked wire.BulkRequest, opts ...func(*http.Request)) []wire.BulkResult {
	a.t.Helper()
	got := a.do("POST", path, asked, opts...)
	require.Equal(a.t, http.StatusOK, got.status, got.body)
	var out wire.Bulk
	require.NoError(a.t, json.Unmarshal([]byte(got.body), &out), got.body)
	require.Len(a.t, out.Results, len(asked.IDs))
	for i, r := range out.Results {
		assert.Equal(a.t, asked.IDs[i], r.ID)
	}
	return out.Results
}

func statusesOf(list []wire.BulkResult) (out []int) {
	for _, r := range list {
		out = append(out, r.Status)
	}
	return out
}

// made makes an action with an id, of a tool, and waits for its status.
func (a *api) made(id, tool, rest, status string) string {
	a.t.Helper()
	got := a.do("POST", "/v1/actions", `{"id":"`+id+`","tool_name":"`+tool+`"`+rest+`}`)
	require.Equal(a.t, http.StatusCreated, got.status, got.body)
	require.Eventually(a.t, func() bool { return strings.Contains(a.do("GET", "/v1/actions/"+id, nil).body, `"type":"`+status+`"`) }, 20*time.Second, time.Millisecond)
	return id
}

// pending makes so many actions that wait.
func (a *api) pending(n int) (ids []string) {
	a.t.Helper()
	for range n {
		ids = append(ids, a.made(uuid.NewString(), "echo", ","+later, "pending"))
	}
	return ids
}

func TestABulkActAnswersForEachIDWhatTheRequestForOneAnswers(t *testing.T) {
	for _, row := range []struct{ act, body string }{
		{"retry", ""}, {"retry", `{}`}, {"retry", `{"once":true}`}, {"retry", `{"once":true,"id":"` + uuid.NewString() + `"}`}, {"retry", `{"nope":1}`},
		{"cancel", ""}, {"cancel", `{"reason":"the host is down","mode":"await"}`}, {"cancel", `{"mode":"soon"}`}, {"cancel", `7`},
		{"trigger", ""}, {"trigger", `{"x":1}`},
	} {
		t.Run(row.act+" "+row.body, func(t *testing.T) {
			many, single := start(t, setup{}), start(t, setup{})
			ids := []string{"", "x", uuid.NewString(), strings.ToUpper(uuid.NewString()), strings.Repeat("é", 40)}
			for _, s := range []struct{ tool, rest, status string }{
				{"echo", "", "completed"}, {"fail", "", "failed"}, {"hold", "", "running"}, {"echo", "," + later, "pending"}, {"fail", `,"dedup_key":"k"`, "failed"},
			} {
				id := uuid.NewString()
				many.made(id, s.tool, s.rest, s.status)
				ids = append(ids, single.made(id, s.tool, s.rest, s.status))
			}
			asked := wire.BulkRequest{Act: row.act, IDs: ids, Body: json.RawMessage(row.body)}
			for i, got := range many.bulk("/v1/actions/bulk", asked) {
				if ids[i] == "" { // which no path has
					assert.Equal(t, http.StatusBadRequest, got.Status)
					continue
				}
				var body any
				if row.body != "" {
					body = row.body
				}
				want := single.do("POST", "/v1/actions/"+ids[i]+"/"+row.act, body)
				assert.Equal(t, want.status, got.Status, "%s: %s", ids[i], got.Error)
				if want.status >= 400 {
					assert.Equal(t, want.errorText(), got.Error)
					assert.Empty(t, got.Made)
					continue
				}
				assert.Empty(t, got.Error)
				assert.Equal(t, want.status == http.StatusCreated, got.Made != "", "nothing was made before")
				if got.Made != "" {
					assert.Equal(t, http.StatusOK, many.do("GET", "/v1/actions/"+got.Made, nil).status)
				}
			}
		})
	}
}

func TestEveryBulkActIsOneOfARequestForOne(t *testing.T) {
	a := start(t, setup{api: withJobs})
	b, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc struct {
		Paths map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	found := 0
	for path := range doc.Paths {
		if !strings.HasSuffix(path, "/bulk") {
			continue
		}
		found++
		_, acts, ok := strings.Cut(a.do("POST", path, `{"act":"x","ids":["y"]}`).errorText(), "use ")
		require.True(t, ok)
		for act := range strings.SplitSeq(acts, ", ") {
			assert.Contains(t, doc.Paths, strings.TrimSuffix(path, "/bulk")+"/{id}/"+act)
			got := a.bulk(path, wire.BulkRequest{Act: act, IDs: []string{uuid.NewString()}})
			assert.Equal(t, http.StatusNotFound, got[0].Status, "%s %s: %s", path, act, got[0].Error)
		}
	}
	assert.Equal(t, 7, found)
}

func TestABulkActThatIsMalformedDoesNothing(t *testing.T) {
	a := start(t, setup{})
	id := a.pending(1)[0]
	ids := strings.Repeat(`"`+uuid.NewString()+`",`, 10_000) // the same one, but there are too many before that counts
	for _, row := range []struct {
		body, want string
		status     int
	}{
		{`{"act":"delete","ids":["` + id + `"]}`, `act: "delete" is unknown: use cancel, trigger, retry`, 400},
		{`{"ids":["` + id + `"]}`, `act: `, 400},
		{`{"act":"cancel","ids":[]}`, `ids: must have 1 to 10000 elements`, 400},
		{`{"act":"cancel"}`, `ids: `, 400},
		{`{"act":"cancel","ids":[7]}`, `ids[0]: want a string, got number 7`, 400},
		{`{"act":"cancel","ids":[` + ids + `"` + id + `"]}`, `ids: `, 400},
		{`{"act":"cancel","ids":["` + id + `","x","` + id + `"]}`, `ids[2]: "` + id + `" is ids[0], too: name each once`, 400},
		{`{"act":"cancel","ids":["` + id + `","` + strings.ToUpper(id) + `"]}`, ` is ids[0], too: name each once`, 400},
		{`{"act":"cancel","ids":["` + id + `"],"status":"gone"}`, `status: "gone" is unknown: use one of pending, running, completed, failed, cancelled`, 400},
		{`{"act":"cancel","ids":["` + id + `"],"reason":"x"}`, `reason: unknown field: use one of act, ids, status, body`, 400},
	} {
		got := a.do("POST", "/v1/actions/bulk", row.body)
		assert.Equal(t, row.status, got.status, got.body)
		assert.Contains(t, got.errorText(), row.want)
	}
	assert.Equal(t, `query: "limit" is unknown: use namespace, tenant`, a.do("POST", "/v1/actions/bulk?limit=3", `{"act":"cancel","ids":["`+id+`"]}`).errorText())
	assert.Contains(t, a.do("GET", "/v1/actions/"+id, nil).body, `"pending"`)
	assert.Equal(t, `status: is not taken here`, a.do("POST", "/v1/recurring/bulk", `{"act":"pause","ids":["`+id+`"],"status":"pending"}`).errorText())
}

func TestABulkActTakesTenThousandIDsAndAnswersInTheirOrder(t *testing.T) {
	a := start(t, setup{})
	asked := wire.BulkRequest{Act: "cancel"}
	own := a.pending(3)
	for i := range 10_000 {
		asked.IDs = append(asked.IDs, uuid.NewString())
		if i%4000 == 0 {
			asked.IDs[i] = own[i/4000]
		}
	}
	for i, r := range a.bulk("/v1/actions/bulk", asked) {
		want := http.StatusNotFound
		if i%4000 == 0 {
			want = http.StatusOK
		}
		require.Equal(t, want, r.Status)
	}
	metrics := a.do("GET", "/metrics", nil).body
	assert.Contains(t, metrics, `orrery_http_batch_entries_total{route="POST /v1/actions/bulk",status="404"} 9997`)
	assert.Contains(t, metrics, `orrery_http_batch_entries_total{route="POST /v1/actions/bulk",status="200"} 3`)
}

func TestABulkActReachesNoOtherTenantsThings(t *testing.T) {
	a := start(t, tenantOf(httpapi.TenantLimits{}))
	a.header.Set("Authorization", "Bearer b-secret")
	theirs := a.pending(2)
	a.header.Set("Authorization", "Bearer a-secret")
	own := a.pending(1)
	got := a.bulk("/v1/actions/bulk", wire.BulkRequest{Act: "cancel", IDs: append(slices.Clone(theirs), own...)})
	assert.Equal(t, []int{404, 404, 200}, statusesOf(got))
	assert.Equal(t, "action not found", got[0].Error, "as of what does not exist")
	got = a.bulk("/v1/actions/bulk?tenant=b", wire.BulkRequest{Act: "cancel", IDs: append(slices.Clone(theirs), own...)})
	assert.Equal(t, []int{404, 404, 404}, statusesOf(got))
	a.header.Set("Authorization", "Bearer b-secret")
	for _, id := range theirs {
		assert.Contains(t, a.do("GET", "/v1/actions/"+id, nil).body, `"pending"`)
	}
}

func TestARetryThatIsToBeDoneOnceIsDoneOnceByWhoeverAsks(t *testing.T) {
	a := start(t, setup{})
	ids := []string{a.made(uuid.NewString(), "fail", "", "failed"), a.made(uuid.NewString(), "fail", "", "failed")}
	asked := wire.BulkRequest{Act: "retry", IDs: ids, Body: json.RawMessage(`{"once":true}`)}
	first := a.bulk("/v1/actions/bulk", asked)
	assert.Equal(t, []int{201, 201}, statusesOf(first))
	again := a.bulk("/v1/actions/bulk", asked)
	assert.Equal(t, []int{200, 200}, statusesOf(again), "which says that it was made before")
	assert.Equal(t, []string{first[0].Made, first[1].Made}, []string{again[0].Made, again[1].Made})
	one := a.do("POST", "/v1/actions/"+ids[1]+"/retry", `{"once":true}`)
	assert.Equal(t, http.StatusOK, one.status)
	assert.Equal(t, first[1].Made, one.str("id"))
	old, err := uuid.Parse(ids[0])
	require.NoError(t, err)
	made, fresh, err := a.engine.Actions().RetryOnce(t.Context(), old)
	require.NoError(t, err)
	assert.Equal(t, []any{first[0].Made, false}, []any{made.ID.String(), fresh})

	assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions/"+ids[1]+"/retry", nil).status, "without once as often as one likes")
	require.Eventually(t, func() bool { return strings.Contains(a.do("GET", "/v1/actions/"+first[0].Made, nil).body, `"failed"`) }, 20*time.Second, time.Millisecond)
	assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions/"+first[0].Made+"/retry", `{"once":true}`).status, "what was made is another action")
	assert.Equal(t, "once: the id of the new action follows from that of the old one: leave id out",
		a.do("POST", "/v1/actions/"+ids[1]+"/retry", `{"once":true,"id":"`+uuid.NewString()+`"}`).errorText())
}

func TestABulkActLeavesAloneWhatIsNotInTheStatusAnyMore(t *testing.T) {
	a := start(t, setup{})
	ids := []string{a.pending(1)[0], a.made(uuid.NewString(), "hold", "", "running"), uuid.NewString()}
	status := "pending"
	got := a.bulk("/v1/actions/bulk", wire.BulkRequest{Act: "cancel", IDs: ids, Status: &status})
	assert.Equal(t, []int{200, 409, 404}, statusesOf(got))
	assert.Equal(t, `"`+ids[1]+`" is running, and not pending any more`, got[1].Error)
	assert.Contains(t, a.do("GET", "/v1/actions/"+ids[1], nil).body, `"running"`)
}

func TestEachIDOfABulkActIsAnInputOfItsTenantsRate(t *testing.T) {
	a := start(t, tenantOf(httpapi.TenantLimits{InputsPerSecond: 0.001, InputBurst: 10}))
	a.header.Set("Authorization", "Bearer a-secret")
	ids := a.pending(4)
	for range 4 {
		ids = append(ids, uuid.NewString())
	}
	got := a.do("POST", "/v1/actions/bulk", wire.BulkRequest{Act: "cancel", IDs: ids})
	var out wire.Bulk
	require.NoError(t, json.Unmarshal([]byte(got.body), &out))
	assert.Equal(t, []int{200, 200, 200, 200, 404, 404, 429, 429}, statusesOf(out.Results))
	assert.Equal(t, "1000", got.header.Get("Retry-After"))
	assert.Equal(t, "inputs: more than 0.001 a second: see limits.inputs_per_second of the daemon", out.Results[7].Error)
}

// leaving is a client that goes away once it has read so many results.
type leaving struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (l leaving) Write(b []byte) (int, error) {
	defer l.leave()
	return l.ResponseRecorder.Write(b)
}

func TestABulkActWhoseClientGoesAwayLeavesTheRestAsItIs(t *testing.T) {
	a := start(t, setup{})
	ids := a.pending(100)
	ctx, leave := context.WithCancel(t.Context())
	body, err := json.Marshal(wire.BulkRequest{Act: "cancel", IDs: ids})
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(ctx, "POST", "/v1/actions/bulk", strings.NewReader(string(body)))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/x-ndjson")
	w := leaving{httptest.NewRecorder(), leave}
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { a.server.Handler().ServeHTTP(w, r) }, "so that nobody takes half of it for the whole")
	told := strings.Count(w.Body.String(), "\n")
	assert.Equal(t, 32, told, "what is under way is brought to its end")
	pending := 0
	for _, id := range ids {
		if strings.Contains(a.do("GET", "/v1/actions/"+id, nil).body, `"type":"pending"`) {
			pending++
		}
	}
	assert.Equal(t, 100-told, pending)
	assert.Equal(t, http.StatusOK, a.do("POST", "/v1/actions/bulk", wire.BulkRequest{Act: "cancel", IDs: ids}).status, "its place is free again")
}

// stuck is a client that does not read on.
type stuck struct {
	*httptest.ResponseRecorder
	reads, goOn chan struct{}
}

func (s stuck) Write(b []byte) (int, error) {
	s.reads <- struct{}{}
	<-s.goOn
	return s.ResponseRecorder.Write(b)
}

func TestATokenHasTwoBulkActsUnderWayAtATime(t *testing.T) {
	a := start(t, setup{})
	ids := a.pending(1)
	body := `{"act":"cancel","ids":["` + ids[0] + `"]}`
	w := stuck{nil, make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/actions/bulk", strings.NewReader(body))
			r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
			r.Header.Set("Content-Type", "application/json")
			own := w
			own.ResponseRecorder = httptest.NewRecorder()
			a.server.Handler().ServeHTTP(own, r)
		}()
		<-w.reads
	}
	got := a.do("POST", "/v1/actions/bulk", body)
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	assert.Contains(t, got.errorText(), "2 bulk acts of ")
	close(w.goOn)
	<-done
	<-done
	assert.Equal(t, http.StatusOK, a.do("POST", "/v1/actions/bulk", body).status)
}

func TestTheLogOfRequestsHasALineForEachIDOfABulkAct(t *testing.T) {
	log, err := audit.Open(audit.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	a := start(t, setup{api: func(o *httpapi.Options) { o.Audit = log }})
	ids := append(a.pending(2), uuid.NewString())
	a.bulk("/v1/actions/bulk", wire.BulkRequest{Act: "cancel", IDs: ids}, with("X-Request-Id", "mine"))
	var entries []audit.Entry
	require.Eventually(t, func() bool {
		page, err := log.Read(t.Context(), audit.Query{Limit: 100, Keep: func(e *audit.Entry) bool { return e.RequestID == "mine" }})
		require.NoError(t, err)
		entries = page.Entries
		return len(entries) >= 3
	}, 20*time.Second, time.Millisecond)
	var lines []string
	for _, e := range entries {
		lines = append(lines, fmt.Sprint(e.Operation, " ", e.Path, " ", e.Status, " ", e.Tenant))
	}
	for _, id := range ids[:2] {
		assert.Contains(t, lines, "cancelAction /v1/actions/"+id+"/cancel 200 default")
	}
	assert.Contains(t, lines, "bulkActions /v1/actions/bulk 200 ")
}

func TestAJobMayBeCalledBulk(t *testing.T) {
	a := start(t, setup{api: withJobs, engine: withCluster})
	made := a.do("PUT", "/v1/jobs/bulk", `{"pod_spec":{"containers":[{"name":"x"}]}}`)
	require.Equal(t, http.StatusCreated, made.status, made.body)
	assert.Equal(t, "bulk", a.do("GET", "/v1/jobs/bulk", nil).str("id"))
	assert.Equal(t, []int{200}, statusesOf(a.bulk("/v1/jobs/bulk", wire.BulkRequest{Act: "pause", IDs: []string{"bulk"}})))
	assert.Equal(t, true, a.do("GET", "/v1/jobs/bulk", nil).object()["paused"])
	assert.Equal(t, http.StatusNoContent, a.do("DELETE", "/v1/jobs/bulk", nil).status)
}
