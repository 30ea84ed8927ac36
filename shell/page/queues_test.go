package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

const (
	waitLong  = 20 * time.Second
	waitShort = 20 * time.Millisecond
)

// failItem takes the next item of a queue, and fails it for good.
func (k *kit) failItem(queue string) {
	k.t.Helper()
	taken, _ := k.write("POST", "/v1/queues/"+queue+"/take", `{"holder":"me"}`)["items"].([]any)
	require.Len(k.t, taken, 1)
	item, _ := taken[0].(map[string]any)["id"].(string)
	k.write("POST", "/v1/queues/"+queue+"/items/"+item+"/fail", `{"holder":"me","attempt":1,"error":"broken <b>part</b>","permanent":true}`)
}

func TestAQueueShowsItsItemsByStateAndTakesActs(t *testing.T) {
	k := newKit(t)
	to := k.act("/new-queue", url.Values{"name": {"orders & <b>co</b>"}, "retry": {`{"max_attempts":2}`}, "namespace": {"shop"}, "tenant": {"eu"}})
	at, params, _ := strings.Cut(to, "?")
	whose := "?namespace=shop&tenant=eu"
	assert.Contains(t, params, "tenant=eu")
	assert.Contains(t, k.text(to), "The queue was made.")
	to = k.act(at+"/push"+whose, url.Values{"data": {`{"n":"<b>1</b>"}`}, "key": {"a"}})
	assert.Contains(t, k.text(to), "The item was pushed")
	k.act(at+"/push"+whose, url.Values{"data": {`2`}, "delay_ms": {"3600000"}})

	list := k.text("/queues")
	assert.Contains(t, list, "orders & <b>co</b> 1 0 1 0 0 0 0")
	got := k.text(at + whose)
	assert.Contains(t, got, "1 ready")
	assert.Contains(t, got, "1 delayed")
	assert.Equal(t, 2, strings.Count(k.read(at+whose), "/items/"))
	assert.Equal(t, 1, strings.Count(k.read(at+whose+"&state=delayed"), "/items/"))
	assert.Contains(t, k.text(at+whose+"&state=dead"), "Nothing matches these filters.")

	assert.Contains(t, k.text(k.act(at+"/pause"+whose, url.Values{"reason": {"stock <b>taking</b>"}})), "Paused by api:loopback. stock <b>taking</b>")
	assert.Contains(t, k.text("/queues?paused=true"), "orders & <b>co</b> paused")
	assert.NotContains(t, k.text(k.act(at+"/resume"+whose, nil)), "Nothing is taken from it.")
	k.act(at+"/configure"+whose, url.Values{"concurrency": {"7"}})
	got = k.text(at + whose)
	assert.Contains(t, got, "At most in hand 7")
	assert.Contains(t, got, "Attempts 2", "what the form had stays")

	w := k.try(at+"/delete"+whose, nil)
	assert.Equal(t, http.StatusConflict, w.Code, "it has items")
	w = k.try(at+"/purge"+whose, nil)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, words(w.Body.String()), "choose the states")
	assert.Contains(t, k.text(at+"/purge"+whose), "Remove the 2 that are pending", "the form says how many")
	k.act(at+"/purge"+whose, url.Values{"state-pending": {"yes"}})
	assert.Contains(t, k.text(at+whose), "The queue has no item.")
	assert.Contains(t, k.text(k.act(at+"/delete"+whose, nil)), "The queue was deleted.")
	assert.Contains(t, k.text("/queues"), "There is no queue.")
}

func TestDeadLettersAreRedrivenOneByOneOrAllAndDeleted(t *testing.T) {
	k := newKit(t)
	for range 3 {
		k.write("POST", "/v1/queues/q/items", `{"data":1}`)
	}
	for range 3 {
		k.failItem("q")
	}
	assert.Contains(t, k.text("/queues/q"), "3 dead")
	page := k.read("/queues/q?state=dead")
	assert.Contains(t, words(page), "broken <b>part</b>")
	_, rest, _ := strings.Cut(page, `href="/ui/queues/q/items/`)
	item, _, _ := strings.Cut(rest, "?")
	at := "/queues/q/items/" + item
	assert.Contains(t, k.text(at), "broken <b>part</b>")
	assert.Contains(t, k.text(k.act(at+"/redrive", nil)), "The item was given another chance.")
	assert.Contains(t, k.text(at), "pending")
	assert.Contains(t, k.text(k.act(at+"/delete", nil)), "The item was removed.")
	assert.Equal(t, http.StatusNotFound, k.send("GET", at, nil).Code)
	assert.Contains(t, k.text("/queues/q/redrive"), "Dead items in this queue: 2.")
	assert.Contains(t, k.text(k.act("/queues/q/redrive", nil)), "2 ready")
}

func TestALongListOfItemsHasPages(t *testing.T) {
	k := newKit(t)
	for range 51 {
		k.write("POST", "/v1/queues/a%20b/items", `{"data":1}`)
	}
	page := k.read("/queues/a%20b")
	assert.Equal(t, 50, strings.Count(page, "/ui/queues/a%20b/items/"))
	_, rest, _ := strings.Cut(page, `<a rel="next" href="/ui`)
	next, _, _ := strings.Cut(rest, `"`)
	page = k.read(strings.ReplaceAll(next, "&amp;", "&"))
	assert.Equal(t, 1, strings.Count(page, "/ui/queues/a%20b/items/"))
	assert.Contains(t, page, "First page")
}

func TestAWorkerShowsWhatItHasInHandAndTakesActs(t *testing.T) {
	k := newKit(t)
	to := k.act("/new-worker", url.Values{"name": {"w"}, "queue": {"q"}, "do": {`{"run":{"tool":"hold","input":{}}}`}})
	assert.Contains(t, k.text(to), "It has no item in hand.")
	k.write("POST", "/v1/queues/q/items", `{"data":1}`)
	assert.Contains(t, k.text(k.act("/workers/w/wake", nil)), "The worker looks for items.")
	require.Eventually(t, func() bool { return strings.Contains(k.text("/workers/w"), "1 of 1") }, waitLong, waitShort)
	page := k.read("/workers/w")
	assert.Contains(t, page, `href="/ui/queues/q/items/`)
	assert.Contains(t, page, `href="/ui/actions/`)
	assert.Contains(t, k.text("/queues/q?state=processing"), "worker:w")
	assert.Contains(t, k.text("/workers"), "w working q 1 of 1")
	assert.Contains(t, k.text(k.act("/workers/w/pause", nil)), "The worker is paused.")
	k.act("/workers/w/resume", nil)
	k.act("/workers/w/configure", url.Values{"concurrency": {"2"}})
	assert.Contains(t, k.text("/workers/w"), "1 of 2")
	assert.Contains(t, k.text("/workers/w/delete"), "Items in hand: 1.")
	w := k.try("/workers/w/delete", nil)
	assert.Equal(t, http.StatusConflict, w.Code, "it has an item in hand, and drain was not chosen")
	assert.Contains(t, k.text(k.act("/workers/w/delete", url.Values{"drain": {"yes"}})), "draining")
}

func TestLocksAndSemaphoresAreOneListWithHoldersAndThoseWhoWait(t *testing.T) {
	k := newKit(t)
	k.write("POST", "/v1/locks/door/acquire", `{"holder":"<b>me</b>","ttl_ms":3600000}`)
	id := k.make("/v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"lock","lock":{"name":"door"}},{"name":"hold","run":{"tool":"hold","input":{}}}]}}`)
	k.until("/v1/pipelines/"+id, "waiting.for", "hold")
	assert.Contains(t, k.text(k.act("/new-semaphore", url.Values{"name": {"seats"}, "slots": {"3"}})), "The semaphore was declared.")
	k.write("POST", "/v1/semaphores/seats/acquire", `{"holder":"<b>you</b>","slots":2}`)

	list := k.text("/locks")
	assert.Contains(t, list, "door lock held <b>me</b> 1")
	assert.Contains(t, list, "seats semaphore 2 of 3 slots held 1 0")
	page := k.read("/locks/door")
	assert.Contains(t, words(page), "<b>me</b> api:loopback")
	assert.Contains(t, words(page), "in 59 min", "the lease's end")
	assert.Contains(t, page, `href="/ui/pipelines/`+id+`"`, "who waits")
	assert.Contains(t, k.text("/pipelines/"+id), "door waiting")
	assert.Contains(t, k.read("/pipelines/"+id+"/phases/lock"), `href="/ui/locks/door?namespace=default&amp;tenant=default"`)
	assert.Contains(t, k.text("/locks/door/break"), "who may still be at work")
	k.act("/locks/door/break", url.Values{"reason": {"gone home"}})
	assert.Contains(t, k.read("/locks/door"), `href="/ui/pipelines/`+id+`"`, "who waited has it")

	k.act("/semaphores/seats/configure", url.Values{"slots": {"5"}})
	assert.Contains(t, k.text("/semaphores/seats"), "2 of 5 slots held")
	w := k.try("/semaphores/seats/break", nil)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, words(w.Body.String()), "choose from whom")
	_, rest, _ := strings.Cut(k.read("/semaphores/seats/break"), `(choose)</option><option value="`)
	token, _, _ := strings.Cut(rest, `"`)
	k.act("/semaphores/seats/break", url.Values{"token": {token}})
	assert.Contains(t, k.text("/semaphores/seats"), "Nobody holds a slot.")
	assert.Contains(t, k.text(k.act("/semaphores/seats/configure", url.Values{"slots": {"0"}})), "The semaphore was configured.")
	assert.Equal(t, http.StatusNotFound, k.send("GET", "/semaphores/seats", nil).Code)
}

func TestTheListOfLocksGoesOnToSemaphoresByPages(t *testing.T) {
	k := newKit(t)
	for i := range 50 {
		k.write("POST", "/v1/locks/l"+string(rune('a'+i%26))+string(rune('a'+i/26))+"/acquire", `{"holder":"h"}`)
	}
	k.write("PUT", "/v1/semaphores/s", `{"slots":1}`)
	seen, next := "", "/locks"
	for pages := 0; next != ""; pages++ {
		require.Less(t, pages, 4)
		page := k.read(next)
		seen += page
		_, rest, _ := strings.Cut(page, `<a rel="next" href="/ui`)
		next, _, _ = strings.Cut(rest, `"`)
		next = strings.ReplaceAll(next, "&amp;", "&")
	}
	assert.Equal(t, 50, strings.Count(seen, "/ui/locks/l"))
	assert.Equal(t, 1, strings.Count(seen, "/ui/semaphores/s?"))
}

func TestSubscribersAreMadeChangedAndDeleted(t *testing.T) {
	k := newKit(t)
	to := k.act("/new-subscriber", url.Values{"name": {"s"}, "match": {`{"category":"<b>c</b>"}`}, "do": {`{"push":{"namespace":"default","tenant":"default","name":"q"}}`}})
	assert.Contains(t, k.text(to), "<b>c</b>:* Does pushes the event into the queue q")
	k.act("/subscribers/s/edit", url.Values{"match": {`{"category":"builds","action":"done"}`}})
	assert.Contains(t, k.text("/subscribers"), "s builds:done pushes the event into the queue q")
	k.act("/events/publish", url.Values{"kind.category": {"builds"}, "kind.action": {"done"}, "data": {`{"a":1}`}})
	require.Eventually(t, func() bool { return strings.Contains(k.text("/queues"), "q 1 ") }, waitLong, waitShort)
	assert.Contains(t, k.text(k.act("/subscribers/s/delete", nil)), "There is no subscriber.")
}

func TestATokenThatIsBoundHasTheSubscribersOfItsTenant(t *testing.T) {
	k := newKit(t,
		httpapi.Token{Name: "ann", SHA256: httpapi.HashToken("ann-token"), Namespaces: []string{"n"}, Tenants: []string{"t"}},
		httpapi.Token{Name: "ops", SHA256: httpapi.HashToken("ops-token"), Admin: true})
	other := url.Values{"name": {"s"}, "match": {`{"category":"others"}`}, "do": {`{"push":{"name":"q"}}`}, "namespace": {"n"}, "tenant": {"other"}}
	k.as = "ops-token"
	assert.Contains(t, k.text(k.act("/new-subscriber", other)), "Whose n / other")
	k.as = "ann-token"
	assert.Contains(t, k.text("/subscribers"), "There is no subscriber.")
	to := k.act("/new-subscriber", url.Values{"name": {"s"}, "match": {`{"category":"mine"}`}, "do": {`{"push":{"name":"q"}}`}})
	assert.Contains(t, k.text(to), "Whose n / t")
	shown := k.text("/subscribers")
	assert.Contains(t, shown, "s mine:* pushes the event into the queue q n / t")
	assert.NotContains(t, shown, "others")
	assert.Equal(t, http.StatusForbidden, k.send("GET", "/subscribers/s?namespace=n&tenant=other", nil).Code)
	k.as = "ops-token"
	assert.Regexp(t, `s mine:\* .* n / t s others:\* .* n / other`, k.text("/subscribers"))
	assert.Contains(t, k.text("/subscribers?tenant=other"), "s others:*")
}

func TestACalendarIsMadeOfLinesChangedAndDeleted(t *testing.T) {
	k := newKit(t)
	to := k.act("/new-calendar", url.Values{
		"name": {"hols"}, "timezone": {"Europe/Berlin"}, "exclude.dates": {"2020-12-25 <b>Christmas</b>\n2020-12-31..2021-01-01 New Year"}, "exclude.weekly": {"sat,sun 00:00-24:00\n12:00-13:00 Lunch"},
	})
	got := k.text(to)
	assert.Contains(t, got, "2020-12-25 – <b>Christmas</b>")
	assert.Contains(t, got, "2020-12-31 2021-01-01 New Year")
	assert.Contains(t, got, "sat, sun 00:00 24:00")
	assert.Contains(t, got, "each 12:00 13:00 Lunch")
	assert.Contains(t, got, "Last date 2021-01-01")
	k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"@daily","calendars":["hols"],"provider":"echo","action_type":"x"}`)

	form := k.read("/calendars/hols/edit")
	assert.Contains(t, form, "2020-12-31..2021-01-01 New Year")
	w := k.try("/calendars/hols/edit", url.Values{"exclude.weekly": {"whenever"}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, words(w.Body.String()), `"whenever" is not a span of the week`)
	k.act("/calendars/hols/edit", url.Values{"exclude.dates": {"2030-01-01"}, "exclude.weekly": {""}, "timezone": {""}})
	got = k.text("/calendars/hols")
	assert.Contains(t, got, "Last date 2030-01-01")
	assert.NotContains(t, got, "Lunch", "what was emptied is gone")
	assert.Contains(t, got, "Zone UTC")

	assert.Contains(t, k.text("/calendars/hols/delete"), "1 schedules name it.")
	assert.Equal(t, http.StatusConflict, k.try("/calendars/hols/delete", nil).Code)
	assert.Contains(t, k.text(k.act("/calendars/hols/delete", url.Values{"force": {"yes"}})), "There is no calendar.")
}

func TestABackfillShowsItsCountsAndIsCancelled(t *testing.T) {
	k := newKit(t)
	of := k.make("/v1/recurring", `{"namespace":"default","tenant":"default","cron_expr":"@hourly","description":"<b>hourly</b>","provider":"hold","action_type":"x"}`)
	id := k.make("/v1/backfills", `{"recurring_id":"`+of+`","from":"2026-01-01T00:00:00Z","to":"2026-01-01T05:00:00Z","include_forgotten":true,"reason":"<b>lost</b>"}`)
	require.Eventually(t, func() bool { return strings.Contains(k.text("/backfills/"+id), "1 run") }, waitLong, waitShort)
	got := k.text("/backfills/" + id)
	assert.Contains(t, got, "5 times 4 wait 1 run 0 succeeded 0 failed")
	assert.Contains(t, got, "<b>lost</b>")
	assert.Contains(t, k.text("/backfills"), "<b>hourly</b> running 0 of 5")
	assert.Contains(t, k.text(k.act("/backfills/"+id+"/cancel", url.Values{"reason": {"enough"}})), "enough")
	assert.Contains(t, k.text("/backfills?status=cancelled"), "<b>hourly</b> cancelled")
}

func TestEachMachineLeadsToWhoHasChangedIt(t *testing.T) {
	k := newKit(t)
	k.write("PUT", "/v1/queues/q", `{}`)
	k.write("PUT", "/v1/semaphores/s", `{"slots":1}`)
	k.write("PUT", "/v1/workers/w", `{"queue":"q","do":{"run":{"tool":"echo","input":{}}}}`)
	k.write("POST", "/v1/locks/l/acquire", `{"holder":"h"}`)
	k.write("POST", "/v1/calendars", `{"name":"c"}`)
	task := k.make("/v1/tasks", `{"label":"t","command":["sh"]}`)
	k.untilSpawned(task)
	k.act("/tasks/"+task+"/input", url.Values{"text": {"hello <b>there</b>"}})
	for _, path := range []string{
		"/queues/q", "/semaphores/s", "/workers/w", "/locks/l", "/calendars/c", "/tasks/" + task,
		"/pipelines/" + k.make("/v1/pipelines", release), "/strategies/" + k.make("/v1/strategies", `{"approaches":[{"name":"a","action":{"command":{"tool":"echo","input":{}}}}]}`),
	} {
		_, rest, ok := strings.Cut(k.read(path), `href="/ui/changes/`)
		require.True(t, ok, path)
		to, _, _ := strings.Cut(rest, `"`)
		assert.Contains(t, k.text("/changes/"+to), "api:loopback", path)
	}
	assert.Contains(t, k.text("/changes/task/"+task), "hello", "what was sent to the session")
}
