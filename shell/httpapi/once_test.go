package httpapi_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func key(k string) func(*http.Request) { return with("Idempotency-Key", k) }

// batches gives the number of the last batch, once all that was begun is done.
func (a *api) batches() (seq uint64) {
	a.t.Helper()
	synctest.Wait()
	require.NoError(a.t, a.engine.Store().View(a.t.Context(), func(tx store.ReadTx) (err error) {
		seq, err = tx.Seq()
		return err
	}))
	return seq
}

// Each operation of openapi.json that changes something does it once, and is answered as the first time, if it is sent again with
// the same key: on something that exists and on something that does not, at once, five minutes later, after all else was done with the
// thing, and after it was deleted.
func TestEveryOperationIsCarriedOutOnceUnderAKey(t *testing.T) {
	ops := sweepOperations(t)
	const now, later, others, deleted = "now", "later", "others", "deleted"
	var unchanged, changed []string
	for _, o := range ops {
		if o.method == http.MethodGet || o.variant != "" && o.variant != "+id" || o.id == "receiveWebhook" { // senders of webhooks give ids
			continue
		}
		for at, of := range map[int]string{0: "", 3: " new"} {
			for _, then := range []string{now, later, others, deleted} {
				t.Run(o.name()+of+" "+then, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newSweepWorld(t, o.kind(), 1)
						defer w.stop()
						th := maps.Clone(w.things[at])
						th["mine"] = "a"
						method, target, body := o.request(th)
						begun := w.batches()
						first := w.do(method, target, body, bearer("admin-secret"), key("k"))
						if first.status == http.StatusNotImplemented { // the world of the sweep has no cluster
							return
						}
						require.Less(t, first.status, 500, first.body)
						assert.Empty(t, first.header.Get("Idempotency-Replayed"))
						if w.batches() == begun {
							if then == now && first.status < 300 {
								unchanged = append(unchanged, o.name()+of)
							}
							return // else it was refused, and would be decided anew
						}
						if then == now {
							changed = append(changed, o.id)
						}
						switch then {
						case later:
							<-time.After(5 * time.Minute)
						case others, deleted:
							for _, other := range ops {
								if other.variant == "" && other.kind() == o.kind() && other.id != o.id && (other.method == http.MethodDelete) == (then == deleted) {
									method, target, body := other.request(th)
									w.do(method, target, body, bearer("admin-secret"))
								}
							}
						}
						done := w.batches()
						second := w.do(method, target, body, bearer("admin-secret"), key("k"))
						assert.Equal(t, done, w.batches(), "the second one changes nothing")
						if then == deleted && slices.Contains([]string{"putCalendar", "silenceJob", "triggerJob", "silenceRecurring", "pauseWorker", "wakeWorker"}, o.id) {
							assert.Equal(t, http.StatusNotFound, second.status, "whose it was is not known any more")
							return
						}
						if strings.HasSuffix(o.id, "Queue") { // has the age of its items
							first.body, second.body = oldestReady.ReplaceAllString(first.body, ""), oldestReady.ReplaceAllString(second.body, "")
						}
						assert.Equal(t, first.status, second.status, second.body)
						assert.Equal(t, first.body, second.body)
						for _, h := range []string{"Location", "Etag", "Content-Type", "Retry-After"} {
							assert.Equal(t, first.header.Get(h), second.header.Get(h), h)
						}
						if !strings.HasPrefix(o.id, "bulk") { // whose results say it, each for itself
							assert.Equal(t, "true", second.header.Get("Idempotency-Replayed"))
						}
					})
				})
			}
		}
	}
	slices.Sort(unchanged)
	assert.Equal(t, []string{
		"applySet", "bulkActions new", "bulkJobs new", "bulkPipelines new", "bulkRecurring new", "bulkRuns new", "bulkStrategies new", "bulkTasks new",
		"redriveQueue", "resumeSystem", "resumeSystem new", "testNotify", "testNotify new",
	}, unchanged, "in the world of the sweep these change nothing")
	slices.Sort(changed)
	assert.GreaterOrEqual(t, len(slices.Compact(changed)), 60, "and the others do; what the sweep is refused is in the stories, all of whose requests are sent twice")
}

var oldestReady = regexp.MustCompile(`,"oldest_ready_at":.*`)

func TestAKeyIsOfOneRequestOfOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{
				{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true},
				{Name: "t1", SHA256: httpapi.HashToken("t1"), Namespaces: []string{"ns"}, Tenants: []string{"t1"}},
			}
		}})
		defer a.stop()
		const one, other = `{"tool_name":"echo","namespace":"ns","tenant":"t1"}`, `{"tool_name":"echo","namespace":"ns","tenant":"t1","label":"x"}`
		first := a.do("POST", "/v1/actions", one, bearer("root"), key("k"))
		require.Equal(t, http.StatusCreated, first.status, first.body)
		again := a.do("POST", "/v1/actions", one, bearer("root"), key(`"k"`))
		assert.Equal(t, first.str("id"), again.str("id"), "the quotation marks of the draft are no part of it")
		assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))

		for _, reused := range []answer{
			a.do("POST", "/v1/actions", other, bearer("root"), key("k")),
			a.do("POST", "/v1/actions?namespace=ns", one, bearer("root"), key("k")),
			a.do("POST", "/v1/actions/"+first.str("id")+"/trigger", nil, bearer("root"), key("k")),
		} {
			assert.Contains(t, []int{http.StatusUnprocessableEntity, http.StatusBadRequest}, reused.status, reused.body)
		}
		reused := a.do("POST", "/v1/actions", other, bearer("root"), key("k"))
		assert.Equal(t, http.StatusUnprocessableEntity, reused.status)
		assert.Equal(t, "Idempotency-Key: it was sent with another request within the last 10 minutes: give each request a key of its own", reused.str("error"))

		assert.NotEqual(t, first.str("id"), a.do("POST", "/v1/actions", one, bearer("t1"), key("k")).str("id"), "another token's key is another one")
		assert.NotEqual(t, first.str("id"), a.do("POST", "/v1/actions", one, bearer("root"), key("l")).str("id"))
		assert.NotEqual(t, first.str("id"), a.do("POST", "/v1/actions", one, bearer("root")).str("id"))
	})
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	a := start(t, setup{})
	for _, bad := range []string{"", "two words", "ä", strings.Repeat("k", 256), `"`} {
		got := a.do("POST", "/v1/actions", `{"tool_name":"echo"}`, key(bad))
		if bad == `"` { // an odd key, and one
			assert.Equal(t, http.StatusCreated, got.status, got.body)
			continue
		}
		assert.Equal(t, http.StatusBadRequest, got.status, "%q", bad)
		assert.Contains(t, got.str("error"), "is not one key of 1 to 255 visible ASCII characters without blanks", "%q", bad)
	}
	assert.Equal(t, http.StatusBadRequest, a.do("POST", "/v1/actions", `{"tool_name":"echo"}`, func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }).status)
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil, key("two words")).status, "of a request that changes nothing it counts for nothing")
}

func TestWhatWasRefusedUnderAKeyIsDecidedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		defer a.stop()
		path, body := "/v1/actions/"+uuid.Nil.String()[:35]+"1", `{"id":"00000000-0000-0000-0000-000000000001","tool_name":"echo",`+later+`}`
		assert.Equal(t, http.StatusNotFound, a.do("POST", path+"/cancel", nil, key("k")).status)
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", body).status)
		assert.Equal(t, http.StatusOK, a.do("POST", path+"/cancel", nil, key("k")).status)
		again := a.do("POST", path+"/cancel", nil, key("k"))
		assert.Equal(t, http.StatusOK, again.status, "and not 409, as of one that is cancelled already")
		assert.Equal(t, http.StatusConflict, a.do("POST", path+"/cancel", nil, key("l")).status)
	})
}

func TestAnAnswerIsKeptForTenMinutesAndOverANewEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		const body = `{"data":{"a":  "<b>"}}`
		a := start(t, setup{store: st})
		first := a.do("POST", "/v1/queues/q/items", body, key("k"))
		require.Equal(t, http.StatusCreated, first.status, first.body)
		a.stop()

		b := start(t, setup{store: st})
		<-time.After(9 * time.Minute)
		again := b.do("POST", "/v1/queues/q/items", body, key("k"))
		assert.Equal(t, first.body, again.body)
		assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))

		<-time.After(5 * time.Minute)
		later := b.do("POST", "/v1/queues/q/items", body, key("k"))
		require.Equal(t, http.StatusCreated, later.status)
		assert.NotEqual(t, first.body, later.body)
		<-time.After(15 * time.Minute)
		b.stop()
		require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
			dropped, err := tx.DropAnswers(effects.MaxTime, 99)
			assert.Zero(t, dropped, "all are forgotten")
			return err
		}))
	})
}

func TestOfManyWhoSendTheSameRequestAtOnceOneChangesSomething(t *testing.T) {
	a := start(t, setup{})
	ids := make([]string, 20)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			ids[i] = a.do("POST", "/v1/actions", `{"tool_name":"echo",`+later+`}`, key("k")).str("id")
		})
	}
	all.Wait()
	assert.Len(t, slices.Compact(ids), 1)
	assert.Len(t, a.do("GET", "/v1/actions", nil).object()["actions"], 1)
}

func TestABulkActUnderAKeyIsCarriedOutOnceForEachOfIts(t *testing.T) {
	a := start(t, setup{})
	ids := a.pending(3)
	asked := wire.BulkRequest{Act: "cancel", IDs: append(ids, uuid.NewString()), Status: new("pending")}
	first := a.bulk("/v1/actions/bulk", asked, key("k"))
	again := a.bulk("/v1/actions/bulk", asked, key("k"))
	assert.Equal(t, first, again)
	assert.Equal(t, http.StatusOK, again[0].Status, "although it is not pending any more")
	assert.Equal(t, http.StatusNotFound, again[3].Status)
	assert.Equal(t, http.StatusConflict, a.bulk("/v1/actions/bulk", asked, key("l"))[0].Status)
}

func TestWhatIsDeletedUnderAKeyIsDeletedOnce(t *testing.T) {
	a := start(t, setup{api: withJobs})
	require.Less(t, a.do("PUT", "/v1/jobs/j", plainJobEvery("@daily")).status, 300)
	for _, replayed := range []string{"", "true"} {
		got := a.do("DELETE", "/v1/jobs/j", nil, key("k"))
		assert.Equal(t, http.StatusNoContent, got.status)
		assert.Equal(t, replayed, got.header.Get("Idempotency-Replayed"))
	}
	assert.Contains(t, a.do("GET", "/metrics", nil).body, "orrery_requests_repeated_total 1\n")
	assert.Equal(t, http.StatusNotFound, a.do("DELETE", "/v1/jobs/j", nil, key("l")).status)
	assert.Equal(t, http.StatusUnprocessableEntity, a.do("DELETE", "/v1/jobs/i", nil, key("k")).status, "the key is that of another request")
}

func TestARedriveUnderAKeyMovesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		defer a.stop()
		require.Less(t, a.do("PUT", "/v1/queues/q", `{"retry":{"max_attempts":1},"dead_letter_queue":"dead"}`).status, 300)
		for range 2 {
			require.Equal(t, http.StatusCreated, a.do("POST", "/v1/queues/q/items", `{"data":1}`).status)
			taken := a.do("POST", "/v1/queues/q/take", `{"holder":"h"}`, key(uuid.NewString()))
			item := taken.object()["items"].([]any)[0].(map[string]any)["id"].(string)
			failed := a.do("POST", "/v1/queues/q/items/"+item+"/fail", `{"holder":"h","attempt":1,"error":"x"}`)
			require.Less(t, failed.status, 300, failed.body)
		}
		first := a.do("POST", "/v1/queues/dead/redrive", `{"limit":1}`, key("k"))
		require.Equal(t, http.StatusOK, first.status, first.body)
		again := a.do("POST", "/v1/queues/dead/redrive", `{"limit":1}`, key("k"))
		assert.Equal(t, first.body, again.body)
		assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		assert.Len(t, a.do("GET", "/v1/queues/dead/items", nil).object()["items"], 1)
	})
}
