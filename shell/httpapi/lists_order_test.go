package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inOrder lists the labels of actions as a query gives them, page by page.
func (a *api) inOrder(query string) (labels []string) {
	a.t.Helper()
	for token := ""; ; {
		got := a.do("GET", "/v1/actions?limit=2"+query+token, nil)
		require.Equal(a.t, http.StatusOK, got.status, got.body)
		list, ok := got.object()["actions"].([]any)
		require.True(a.t, ok)
		for _, v := range list {
			labels = append(labels, v.(map[string]any)["label"].(string))
		}
		next := got.str("next_page_token")
		if next == "" {
			return labels
		}
		token = "&page_token=" + url.QueryEscape(next)
	}
}

// Of what failed today the time of creation says nothing.
func TestWhatHasFailedIsListedInTheOrderInWhichItDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		begin := time.Now().UTC()
		at := func(n int) string { return begin.Add(time.Duration(n) * time.Second).Format(time.RFC3339Nano) }
		for i, label := range []string{"first made, last failed", "second", "third"} {
			body := fmt.Sprintf(`{"tool_name":"fail","label":"%s","tenant":"%s","trigger":{"type":"scheduled","next_tick_at":"%s"}}`, label, []string{"x", "y"}[i%2], at(60-10*i))
			require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", body).status)
		}
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", `{"tool_name":"echo","label":"fine"}`).status)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"first made, last failed", "second", "third"}, a.inOrder("&failed_since="+at(0)))
		assert.Equal(t, []string{"third", "second", "first made, last failed"}, a.inOrder("&order=oldest&failed_since="+at(0)))
		assert.Equal(t, []string{"first made, last failed", "second"}, a.inOrder("&failed_since="+at(45)))
		assert.Equal(t, []string{"second"}, a.inOrder("&tenant=y&tool=fail&failed_since="+at(0)))
		assert.Empty(t, a.inOrder("&tool=echo&failed_since="+at(0)))
		assert.Contains(t, a.do("GET", "/v1/actions?failed_since="+at(0)+"&since="+at(0), nil).errorText(), "failed_since: ")
		for _, path := range []string{"/v1/runs", "/v1/pipelines", "/v1/tasks", "/v1/strategies"} {
			assert.Equal(t, http.StatusOK, a.do("GET", path+"?failed_since="+at(0), nil).status, path)
		}
		assert.Equal(t, http.StatusBadRequest, a.do("GET", "/v1/backfills?failed_since="+at(0), nil).status)
	})
}

func TestThePipelinesThatWaitForSomebodyAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		asked := a.do("POST", "/v1/pipelines", `{"definition":{"name":"asked","phases":[{"name":"a","approval":{"message":"sure?"}}]}}`).str("id")
		a.do("POST", "/v1/pipelines", `{"definition":{"name":"sleeps","phases":[{"name":"a","wait":{"duration_ms":600000}}]}}`)
		synctest.Wait()
		names := func(query string) (out []string) {
			r := a.do("GET", "/v1/pipelines?"+query, nil)
			require.Equal(t, http.StatusOK, r.status, r.body)
			for _, p := range r.object()["pipelines"].([]any) {
				out = append(out, p.(map[string]any)["name"].(string))
			}
			return out
		}
		assert.Equal(t, []string{"asked"}, names("waits_for=approval"))
		assert.Equal(t, []string{"asked"}, names("waits_for=approval&status=running&namespace=default&tenant=default"))
		assert.Empty(t, names("waits_for=approval&status=failed"))
		assert.Empty(t, names("waits_for=signal"))
		assert.Contains(t, a.do("GET", "/v1/pipelines?waits_for=child", nil).errorText(), `waits_for: "child" is unknown: use approval, manual, signal`)
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/pipelines/"+asked+"/approve", `{"phase":"a","approved":true}`).status)
		synctest.Wait()
		assert.Empty(t, names("waits_for=approval"))
	})
}

func TestAListIsReadFromEitherEndAndBetweenTwoTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		begin := time.Now().UTC()
		for i := range 7 {
			body := fmt.Sprintf(`{"tool_name":"echo","label":"%d","tenant":"%s",%s}`, i, []string{"x", "y"}[i%2], later)
			require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", body).status)
			<-time.After(time.Second) // of the bubble's clock
		}
		at := func(n int) string { return begin.Add(time.Duration(n) * time.Second).Format(time.RFC3339Nano) }
		all := []string{"0", "1", "2", "3", "4", "5", "6"}
		reversed := slices.Clone(all)
		slices.Reverse(reversed)
		assert.Equal(t, reversed, a.inOrder(""))
		assert.Equal(t, reversed, a.inOrder("&order=newest"))
		assert.Equal(t, all, a.inOrder("&order=oldest"))
		assert.Equal(t, []string{"1", "3", "5"}, a.inOrder("&order=oldest&tenant=y&status=pending"))
		assert.Equal(t, []string{"4", "3", "2"}, a.inOrder("&since="+at(2)+"&until="+at(5)), "since it, and before that")
		assert.Equal(t, []string{"2", "3", "4"}, a.inOrder("&order=oldest&since="+at(2)+"&until="+at(5)))
		assert.Equal(t, []string{"6"}, a.inOrder("&since="+at(6)))
		assert.Empty(t, a.inOrder("&since="+at(7)))

		token := "&page_token=" + url.QueryEscape(a.do("GET", "/v1/actions?limit=2&order=oldest", nil).str("next_page_token"))
		for _, other := range []string{"", "&order=newest", "&order=oldest&since=" + at(0)} {
			assert.Equal(t, http.StatusBadRequest, a.do("GET", "/v1/actions?limit=2"+other+token, nil).status, "a page token goes on in its list alone: %s", other)
		}
		for query, want := range map[string]string{
			"order=up":                           `order: "up" is unknown: use newest or oldest`,
			"order=":                             `order: "" is unknown: use newest or oldest`,
			"since=yesterday":                    `since: time "yesterday" is not RFC 3339, such as "2026-02-10T14:00:00Z"`,
			"until=1969-07-20T20:17:40Z":         `until: time "1969-07-20T20:17:40Z" is out of range: `,
			"since=" + at(2) + "&until=" + at(2): `until: `,
		} {
			assert.Contains(t, a.do("GET", "/v1/actions?"+query, nil).errorText(), want)
		}
		for _, path := range []string{"/v1/runs", "/v1/pipelines", "/v1/tasks", "/v1/strategies", "/v1/backfills"} {
			assert.Equal(t, http.StatusOK, a.do("GET", path+"?order=oldest&since="+at(0)+"&until="+at(9), nil).status, path)
		}
		for _, path := range []string{"/v1/jobs", "/v1/queues", "/v1/workers", "/v1/locks", "/v1/semaphores", "/v1/calendars", "/v1/occurrences", "/v1/recurring?all=true"} {
			sep := "?"
			if path == "/v1/recurring?all=true" {
				sep = "&"
			}
			assert.Equal(t, http.StatusOK, a.do("GET", path+sep+"order=oldest", nil).status, path)
		}
		a.stop()
	})
}
