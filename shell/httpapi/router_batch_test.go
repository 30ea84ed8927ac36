package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// fixedID gives ids that are the same in each run.
func fixedID(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

func eachOf(entries ...string) string {
	return `{"mode":"each","actions":[` + strings.Join(entries, ",") + `]}`
}

// Whoever sends a batch of mode "each" does not see over how many partitions its tenants are divided.
func TestABatchOfTenantsOfSeveralPartitionsIsAnsweredAsByOneServer(t *testing.T) {
	batches := []string{
		eachOf(dueLate(tenantIn(2, 0), fixedID(1)), dueLate(tenantIn(0, 0), fixedID(2)), dueLate(tenantIn(1, 0), fixedID(3)), dueLate(tenantIn(2, 1), fixedID(4))),
		eachOf(
			`5`, `{"tool_name":1}`, dueLate(tenantIn(1, 0), fixedID(3)), `{"namespace":"ns","tenant":"`+tenantIn(0, 0)+`","tool_name":"nope"}`,
			dueLate(tenantIn(1, 2), fixedID(5)), `{"namespace":7,"tool_name":"echo"}`, dueLate(tenantIn(0, 1), fixedID(6)), `{"tool_name":"echo","nope":true}`, dueLate(tenantIn(1, 2), fixedID(5)),
		),
		eachOf(`5`, `{"tool_name":1}`),
		`{"mode":"each","nope":1,"actions":[` + dueLate(tenantIn(0, 0), fixedID(7)) + `,` + dueLate(tenantIn(1, 0), fixedID(8)) + `]}`,
		`{"mode":"each","actions":[]}`,
		`{"mode":"each","actions":7}`,
		`{"mode":"some","actions":[` + dueLate(tenantIn(0, 0), fixedID(7)) + `,` + dueLate(tenantIn(1, 0), fixedID(8)) + `]}`,
	}
	var answers [][]string
	c := newClock()
	for _, partitions := range []int{1, 3} {
		a := start(t, setup{partitions: partitions, engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) { o.Clock = c }})
		var got []string
		for _, body := range batches {
			is := a.do("POST", "/v1/actions/batch", body)
			got = append(got, fmt.Sprint(is.status, " ", is.body))
		}
		answers = append(answers, append(got, a.do("GET", "/v1/actions?namespace=ns&order=oldest", nil).body))
	}
	assert.Contains(t, answers[0][0], `"status":201`)
	assert.Contains(t, answers[0][1], `"actions[8].id: `)
	for i := range batches {
		assert.Equal(t, answers[0][i], answers[1][i], batches[i])
	}
	for n := range 8 {
		assert.Equal(t, strings.Count(answers[0][len(batches)], fixedID(n).String()), strings.Count(answers[1][len(batches)], fixedID(n).String()), n)
	}
}

func TestABatchThatReachedSomePartitionsIsFinishedByTheSameRequest(t *testing.T) {
	a := divided(t, nil)
	whole := a.router
	a.router = a.broken(t, a.routerOptions)
	body := eachOf(dueLate(tenantIn(1, 0), fixedID(1)), dueLate(tenantIn(0, 0), fixedID(2)), dueLate(tenantIn(2, 0), fixedID(3)))
	got := a.do("POST", "/v1/actions/batch", body, key("k"))
	assert.Equal(t, []int{503, 201, 201}, statuses(got.results()))
	assert.Equal(t, "actions[0]: nobody works on the database at the moment", got.results()[0].Error)
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	a.router = whole
	got = a.do("POST", "/v1/actions/batch", body, key("k"))
	assert.Equal(t, []int{201, 201, 201}, statuses(got.results()), "what was made is answered as the first time: %s", got.body)
	assert.Empty(t, got.header.Get("Idempotency-Replayed"))
	again := a.do("POST", "/v1/actions/batch", body, key("k"))
	assert.Equal(t, got.body, again.body)
	assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	other := a.do("POST", "/v1/actions/batch", eachOf(dueLate(tenantIn(1, 0), fixedID(4)), dueLate(tenantIn(2, 0), fixedID(5))), key("k"))
	assert.Equal(t, http.StatusUnprocessableEntity, other.status, "a key that comes with another batch: %s", other.body)
	assert.Len(t, idsOf(t, a.do("GET", "/v1/actions", nil), "actions"), 3)
}

func TestAKeyOfABatchIsRefusedIfWhatAnotherPartitionIsAskedForIsAnother(t *testing.T) {
	a := divided(t, nil)
	entry := func(partition int, label string) string {
		return fmt.Sprintf(`{"namespace":"ns","tenant":%q,"tool_name":"echo","label":%q,%s}`, tenantIn(partition, 0), label, later)
	}
	got := a.do("POST", "/v1/actions/batch", eachOf(entry(0, "a"), entry(1, "b")), key("k"))
	require.Equal(t, []int{201, 201}, statuses(got.results()), got.body)
	got = a.do("POST", "/v1/actions/batch", eachOf(entry(0, "other"), entry(1, "b")), key("k"))
	assert.Equal(t, http.StatusUnprocessableEntity, got.status, "as one server would: %s", got.body)
	got = a.do("POST", "/v1/actions/batch", eachOf(entry(0, "a"), entry(1, "b"), entry(2, "c")), key("k"))
	assert.Equal(t, []int{422, 422, 201}, statuses(got.results()), "the partition that has not seen the key makes what it is asked for: %s", got.body)
	got = a.do("POST", "/v1/actions/batch", eachOf(entry(0, "a"), entry(1, "b")), key("k"))
	assert.Equal(t, "true", got.header.Get("Idempotency-Replayed"), got.body)
	assert.Len(t, idsOf(t, a.do("GET", "/v1/actions", nil), "actions"), 3)
}

func TestABatchThatNoPartitionTakesIsRefusedWhole(t *testing.T) {
	a := divided(t, nil)
	o := a.routerOptions
	o.Local = func(int) (*httpapi.Server, bool) { return nil, false }
	a.router = a.broken(t, o)
	got := a.do("POST", "/v1/actions/batch", eachOf(dueLate(tenantIn(1, 0), fixedID(1)), dueLate(tenantIn(0, 0), fixedID(2))))
	assert.Equal(t, http.StatusServiceUnavailable, got.status)
	assert.Equal(t, "nobody works on the database at the moment", got.errorText())
	assert.Equal(t, "1", got.header.Get("Retry-After"))
}

// answering gives a handler that answers everything with a status and an error.
func answering(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q}`, text)
	}
}

// A refusal of the whole batch must be true of each entry, or a client sends again, without a key, what was carried out.
func TestABatchIsNotRefusedWholeWhileAPartOfItMayHaveBeenCarriedOut(t *testing.T) {
	const perhaps = "the one that works did not answer: this may have been carried out, and can be sent again with the same Idempotency-Key if it had one"
	sure := map[int]http.HandlerFunc{
		429: answering(429, "token: 5 requests are under way"), 503: answering(503, "nobody works on the database at the moment: nothing was done"),
	}
	unsure := map[string]http.HandlerFunc{
		"502: actions[%d]: " + perhaps:                      answering(502, perhaps),
		"503: actions[%d]: the database did not confirm it": answering(503, "the database did not confirm it"),
		"500: actions[%d]: internal error":                  answering(500, "internal error"),
		"502: actions[%d]: partitions: the answer of partition %d has broken off: this may have been carried out; it had no Idempotency-Key, so that what is sent again may be carried out twice": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"results":[`))
		},
	}
	a := divided(t, nil)
	for status, refusing := range sure { // order-free: each is a case by itself
		for want, doubtful := range unsure { // order-free: likewise
			for _, in := range []int{0, 2} { // the part that may have been carried out is the first one, or the last one
				o := a.routerOptions
				o.Local = func(int) (*httpapi.Server, bool) { return nil, false }
				o.Remote = func(p int) http.Handler {
					if p == in {
						return doubtful
					}
					return refusing
				}
				var err error
				a.router, err = httpapi.NewRouter(o)
				require.NoError(t, err)
				got := a.do("POST", "/v1/actions/batch", eachOf(dueLate(tenantIn(0, 0), fixedID(1)), dueLate(tenantIn(1, 0), fixedID(2)), dueLate(tenantIn(2, 0), fixedID(3))))
				require.Equal(t, 200, got.status, got.body)
				results := got.results()
				want := strings.ReplaceAll(want, "%d", fmt.Sprint(in)) // its only entry has the number of the partition
				assert.Equal(t, want, fmt.Sprintf("%d: %s", results[in].Status, results[in].Error))
				assert.Equal(t, []int{status, status}, []int{results[1].Status, results[2-in].Status})
			}
		}
	}
}

func TestABatchThatAllPartitionsAnswerAlikeIsAnsweredSo(t *testing.T) {
	a := divided(t, nil)
	o := a.routerOptions
	o.Local = func(int) (*httpapi.Server, bool) { return nil, false }
	o.Remote = func(int) http.Handler { return answering(502, "this may have been carried out") }
	var err error
	a.router, err = httpapi.NewRouter(o)
	require.NoError(t, err)
	got := a.do("POST", "/v1/actions/batch", eachOf(dueLate(tenantIn(1, 0), fixedID(1)), dueLate(tenantIn(0, 0), fixedID(2))))
	assert.Equal(t, 502, got.status)
	assert.Equal(t, "this may have been carried out", got.errorText())
}

func TestTheEntriesOfABatchOverSeveralPartitionsCountAsThoseOfOneServer(t *testing.T) {
	c := newClock()
	var left [][]string
	for _, partitions := range []int{1, 3} {
		a := start(t, setup{partitions: partitions, engine: func(o *shell.Options) { o.Clock = c }, api: anyOfFew(func(o *httpapi.Options) {
			o.Clock, o.Limits.Default = c, httpapi.TenantLimits{InputsPerSecond: 0.001, InputBurst: 8}
		})})
		var got []string
		for round := range 2 { // of partitions that one process has
			body := eachOf(dueLate(tenantIn(0, 0), fixedID(5*round+1)), dueLate(tenantIn(2, 0), fixedID(5*round+2)), dueLate(tenantIn(2, 0), fixedID(5*round+3)),
				dueLate(tenantIn(0, 0), fixedID(5*round+4)), dueLate(tenantIn(2, 0), fixedID(5*round+5)))
			is := a.do("POST", "/v1/actions/batch", body, bearer("any-secret"))
			counted := map[int]int{}
			for _, s := range statuses(is.results()) {
				counted[s]++
			}
			got = append(got, fmt.Sprint(counted, is.header["Ratelimit"], is.header.Get("Retry-After")))
		}
		left = append(left, got)
	}
	require.Contains(t, left[0][0], "map[201:5]")
	require.Contains(t, left[0][1], "map[201:3 429:2]")
	assert.Equal(t, left[0], left[1])
}

func TestAPartOfABatchIsForOnePartition(t *testing.T) {
	a := divided(t, nil)
	got := a.do("POST", "/v1/actions/batch", eachOf(dueLate(tenantIn(0, 0), fixedID(1)), dueLate(tenantIn(2, 0), fixedID(2))), with(httpapi.HeaderPartition, "0"))
	assert.Equal(t, http.StatusMisdirectedRequest, got.status)
	assert.Equal(t, "Orrery-Partition: actions[0] and actions[1] live in different partitions, 0 and 2: nothing was done", got.errorText())
	got = a.do("POST", "/v1/actions/batch", eachOf(dueLate(tenantIn(2, 0), fixedID(2))), with(httpapi.HeaderPartition, "0"))
	assert.Equal(t, http.StatusMisdirectedRequest, got.status, got.body)
	assert.Empty(t, idsOf(t, a.do("GET", "/v1/actions", nil), "actions"))
}
