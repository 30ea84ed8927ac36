package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// edited are the things that have a revision: how one is made, two other definitions of it, and what happens to it without an
// edit.
var edited = []struct {
	path, first, second, third string
	create                     string // POSTed to the list; empty: the first PUT makes it
	meanwhile                  [2]string
	noDelete                   bool
}{
	{path: "/v1/queues/q", first: `{}`, second: `{"concurrency":2}`, third: `{"concurrency":3}`, meanwhile: [2]string{"/items", `{"data":1}`}, noDelete: true},
	{path: "/v1/workers/w", first: `{"queue":"q","do":{"run":{"tool":"echo","input":1}}}`, second: `{"queue":"q","do":{"run":{"tool":"echo","input":2}}}`, third: `{"queue":"q","do":{"run":{"tool":"echo","input":3}}}`, meanwhile: [2]string{"/pause", ""}},
	{path: "/v1/semaphores/s", first: `{"slots":1}`, second: `{"slots":2}`, third: `{"slots":3}`, meanwhile: [2]string{"/acquire", `{"holder":"h","ttl_ms":60000}`}, noDelete: true},
	{path: "/v1/jobs/j", first: plainJobEvery("0 9 * * *"), second: plainJobEvery("0 10 * * *"), third: plainJobEvery("0 11 * * *"), meanwhile: [2]string{"/pause", `{}`}},
	{path: "/v1/subscribers/b", first: `{"match":{"category":"a"},"do":{"push":{"name":"q"}}}`, second: `{"match":{"category":"b"},"do":{"push":{"name":"q"}}}`, third: `{"match":{"category":"c"},"do":{"push":{"name":"q"}}}`},
	{path: "/v1/calendars/c", create: `{"name":"c","exclude":{"dates":[{"date":"2030-01-01"}]}}`, first: `{"exclude":{"dates":[{"date":"2030-01-02"}]}}`, second: `{"exclude":{"dates":[{"date":"2030-01-03"}]}}`, third: `{"exclude":{"dates":[{"date":"2030-01-04"}]}}`},
	{path: "/v1/recurring/{id}", create: plainRecurring, first: `{"description":"first"}`, second: `{"description":"second"}`, third: `{"description":"third"}`, meanwhile: [2]string{"/trigger", `{}`}},
}

const plainRecurring = `{"namespace":"default","tenant":"default","provider":"echo","action_type":"x","payload":{},"cron_expr":"0 9 * * *"}`

func plainJobEvery(cron string) string {
	return fmt.Sprintf(`{"schedule":%q,"pod_spec":{"containers":[{}]}}`, cron)
}

func TestAnEditForARevisionIsRefusedOnceSomebodyElseHasEdited(t *testing.T) {
	a := start(t, setup{api: withJobs})
	for _, row := range edited {
		path := row.path
		if row.create != "" {
			list := path[:strings.LastIndexByte(path, '/')]
			made := a.do("POST", list, row.create)
			require.Equal(t, http.StatusCreated, made.status, "%s: %s", path, made.body)
			if id, ok := made.object()["recurring_id"].(string); ok {
				path = strings.Replace(path, "{id}", id, 1)
			}
		}
		require.Less(t, a.do("PUT", path, row.first).status, 300, path)
		shown := a.do("GET", path, nil)
		etag := shown.header.Get("ETag")
		require.Regexp(t, `^"[0-9a-f]{32}"$`, etag, path)
		if row.meanwhile[0] != "" {
			var body any
			if row.meanwhile[1] != "" {
				body = row.meanwhile[1]
			}
			done := a.do("POST", path+row.meanwhile[0], body)
			require.Less(t, done.status, 300, "%s: %s", path, done.body)
		}
		require.Equal(t, etag, a.do("GET", path, nil).header.Get("ETag"), "%s: what happens to it is no edit", path)

		second := a.do("PUT", path, row.second, ifMatch(etag))
		require.Equal(t, http.StatusOK, second.status, "%s: %s", path, second.body)
		now := second.header.Get("ETag")
		assert.NotEqual(t, etag, now, path)
		assert.Equal(t, now, a.do("GET", path, nil).header.Get("ETag"), path)

		third := a.do("PUT", path, row.third, ifMatch(etag))
		assert.Equal(t, http.StatusPreconditionFailed, third.status, path)
		assert.Equal(t, "it was changed since revision "+strings.Trim(etag, `"`)+" was read, and has "+strings.Trim(now, `"`)+" now: read it again", third.str("error"), path)
		assert.Equal(t, now, a.do("GET", path, nil).header.Get("ETag"), "%s: it is as it was", path)
		assert.Equal(t, http.StatusPreconditionFailed, a.do("PUT", path, row.third, onlyNew).status, path)
		assert.Equal(t, http.StatusOK, a.do("PUT", path, row.first, ifMatch("*")).status, path)
		assert.Equal(t, etag, a.do("GET", path, nil).header.Get("ETag"), "%s: what was changed back has the revision that it had", path)
		if row.noDelete {
			continue
		}
		assert.Equal(t, http.StatusPreconditionFailed, a.do("DELETE", path, nil, ifMatch(now)).status, path)
		assert.Less(t, a.do("DELETE", path, nil, ifMatch(etag)).status, 300, path)
	}
}

func ifMatch(etag string) func(*http.Request) { return with("If-Match", etag) }

// onlyNew is the condition that something does not exist yet.
func onlyNew(r *http.Request) { r.Header.Set("If-None-Match", "*") }

func TestAThingIsMadeOnlyOnceUnderIfNoneMatch(t *testing.T) {
	a := start(t, setup{api: withJobs})
	for _, row := range edited {
		if row.create != "" {
			continue
		}
		gone := a.do("PUT", row.path, row.first, ifMatch("*"))
		assert.Equal(t, http.StatusPreconditionFailed, gone.status, row.path)
		assert.Equal(t, "it does not exist", gone.str("error"), row.path)
		gone = a.do("PUT", row.path, row.first, ifMatch(`"00000000000000000000000000000000"`))
		assert.Equal(t, http.StatusPreconditionFailed, gone.status, row.path)
		assert.Equal(t, "it does not exist any more, revision 00000000000000000000000000000000 was asked for", gone.str("error"), row.path)
		first := a.do("PUT", row.path, row.first, onlyNew)
		require.Less(t, first.status, 300, "%s: %s", row.path, first.body)
		again := a.do("PUT", row.path, row.second, onlyNew)
		assert.Equal(t, http.StatusPreconditionFailed, again.status, row.path)
		assert.Equal(t, "it exists already", again.str("error"), row.path)
	}
}

func TestAConditionThatCannotBeMetIsRefusedAndNotLeftOut(t *testing.T) {
	a := start(t, setup{api: withJobs})
	require.Equal(t, http.StatusOK, a.do("PUT", "/v1/queues/q", `{}`).status)
	one := `"00000000000000000000000000000000"`
	for _, row := range []struct {
		method, path string
		body         any
		header       http.Header
		want         string
	}{
		{"POST", "/v1/queues/q/pause", nil, http.Header{"If-Match": {one}}, "If-Match, If-None-Match: POST /v1/queues/{name}/pause takes no condition: only PUT and DELETE of what has an ETag do"},
		{"PUT", "/v1/queues/q", `{}`, http.Header{"If-Match": {one}, "If-None-Match": {"*"}}, "If-Match: stands beside If-None-Match: send one of them"},
		{"PUT", "/v1/queues/q", `{}`, http.Header{"If-None-Match": {one}}, "If-None-Match: " + one + " is not *, which stands for what does not exist yet"},
		{"PUT", "/v1/queues/q", `{}`, http.Header{"If-None-Match": {"*", "*"}}, "If-None-Match: *, * is not *, which stands for what does not exist yet"},
		{"PUT", "/v1/queues/q", `{}`, http.Header{"If-Match": {"W/" + one}}, "If-Match: W/" + one + " is not one ETag as GET gives it: 32 hexadecimal digits in quotation marks, or *"},
		{"PUT", "/v1/queues/q", `{}`, http.Header{"If-Match": {`"x"`}}, `If-Match: "x" is not one ETag as GET gives it: 32 hexadecimal digits in quotation marks, or *`},
		{"PUT", "/v1/queues/q", `{}`, http.Header{"If-Match": {one, one}}, "If-Match: " + (one + ", " + one)[:64] + "… is not one ETag as GET gives it: 32 hexadecimal digits in quotation marks, or *"},
		{"PUT", "/v1/jobs/j?dry_run=true", plainJobEvery("0 9 * * *"), http.Header{"If-Match": {one}}, "If-Match, If-None-Match: a dry run takes no condition"},
	} {
		got := a.do(row.method, row.path, row.body, func(r *http.Request) { maps.Copy(r.Header, row.header) })
		assert.Equal(t, http.StatusBadRequest, got.status, "%s %v", row.path, row.header)
		assert.Equal(t, row.want, got.str("error"))
	}
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/queues/q", nil, ifMatch(one)).status, "a read is not conditional")
}

func TestTheRevisionOfAQueueTellsNothingThatCouldBeGuessed(t *testing.T) {
	tags := map[string]bool{}
	for range 2 { // two stores have two keys
		a := start(t, setup{})
		tags[a.do("PUT", "/v1/queues/q", `{}`).header.Get("ETag")] = true
	}
	assert.Len(t, tags, 2)
}
