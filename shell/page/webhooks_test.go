package page_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// withWebhooks has the API take requests of webhooks, and log who asked for what.
func withWebhooks(t *testing.T) func(*httpapi.Options) {
	t.Helper()
	log, err := audit.Open(audit.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return func(o *httpapi.Options) {
		o.Audit = log
		o.Webhooks = map[string]httpapi.WebhookAuth{
			"deploys": {Scheme: httpapi.SchemeNone}, "other": {Scheme: httpapi.SchemeGitHub, Secrets: []string{"a-secret-of-other"}},
		}
		o.WebhookFilters = map[string]httpapi.WebhookFilter{"deploys": {Events: []string{"push", "release"}, Match: []httpapi.WebhookMatch{{Path: "$.ref", Values: []string{"<b>main</b>", "next"}}}}}
	}
}

// deliver sends a webhook with an event, and gives the status of the answer.
func (k *kit) deliver(route, event, body string) int {
	k.t.Helper()
	r := httptest.NewRequestWithContext(k.t.Context(), "POST", "/v1/webhooks/"+route, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("Authorization", "Basic secret-of-the-sender")
	r.Header.Set("X-Hub-Signature-256", "sha256=signature-of-the-sender")
	w := httptest.NewRecorder()
	k.api.Handler().ServeHTTP(w, r)
	return w.Code
}

func TestThePageOfWebhooksShowsTheRoutesAndWhatWasReceivedOnThem(t *testing.T) {
	k := newKitWith(t, withWebhooks(t))
	assert.Contains(t, k.text("/webhooks"), "No webhook was received that is still stored")
	require.Equal(t, 202, k.deliver("deploys", "push", `{"ref":"<b>main</b>","n":1}`))
	require.Equal(t, 202, k.deliver("deploys", "release", `{"ref":"next"}`))
	require.Equal(t, 200, k.deliver("deploys", "push", `{"ref":"elsewhere"}`))
	require.Equal(t, 401, k.deliver("other", "push", `{}`))
	require.Eventually(t, func() bool {
		return strings.Count(k.text("/webhooks"), "Deliver again") == 2
	}, 20*time.Second, 20*time.Millisecond)

	text, html := k.text("/webhooks"), k.read("/webhooks")
	assert.Contains(t, text, `deploys Deploy none whoever reaches the daemon may send echo event push, release $.ref is <b>main</b> or next 2 0 1 0 default / default`)
	assert.Contains(t, text, "other github echo all 0 1 0 0 default / b")
	assert.Contains(t, text, `deploys push completed {"ref":"<b>main</b>","n":1} 27 bytes default / default`)
	assert.Contains(t, text, `deploys release completed {"ref":"next"} 14 bytes default / default`)
	for _, secret := range []string{"a-secret-of-other", "secret-of-the-sender"} {
		assert.NotContains(t, html, secret)
	}
	assert.Contains(t, html, `aria-current="page">Webhooks</a>`)
	assert.Contains(t, k.text("/webhooks?route=other"), "Nothing matches these filters.")
	assert.Contains(t, k.text("/webhooks?route=deploys&status=completed"), "27 bytes")
}

func TestAWebhookThatWasReceivedIsDeliveredAgainFromThePage(t *testing.T) {
	k := newKitWith(t, withWebhooks(t))
	require.Equal(t, 202, k.deliver("deploys", "push", `{"ref":"next"}`))
	require.Eventually(t, func() bool { return strings.Contains(k.text("/webhooks"), "Deliver again") }, 20*time.Second, 20*time.Millisecond)
	_, rest, _ := strings.Cut(k.read("/webhooks"), `href="/ui/actions/`)
	id, _, _ := strings.Cut(rest, `"`)
	text := k.text("/actions/" + id)
	assert.Contains(t, text, "Webhook route deploys push")
	assert.Contains(t, text, "x-github-event = push")
	assert.Contains(t, text, `Webhook body {"ref":"next"}`)
	assert.NotContains(t, text, "signature-of-the-sender")
	again := k.act("/actions/"+id+"/redeliver", nil)
	assert.Contains(t, k.text(again), "The webhook was delivered once more, as a new action.")
	assert.Contains(t, k.text("/webhooks"), "made again of "+id[:8])
}

func TestWhatBecameNoActionOfAWebhookIsReadInTheLogOfRequests(t *testing.T) {
	k := newKitWith(t, withWebhooks(t))
	require.Equal(t, 401, k.deliver("other", "push", `{"body":"not kept"}`))
	require.Equal(t, 200, k.deliver("deploys", "ping", `{}`))
	text := k.text("/webhooks/refused")
	assert.Contains(t, text, "1 other 401")
	assert.Contains(t, text, "signature: X-Hub-Signature-256 is not hexadecimal")
	assert.NotContains(t, text, "not kept")
	assert.Contains(t, k.text("/webhooks/refused?status=200"), "deploys 200")
	assert.Contains(t, k.text("/webhooks/refused?status=200&actor=webhook:other"), "Nothing matches these filters.")
}

func TestWithoutALogOfRequestsThePageSaysThatOnlyCountsTellOfRefusedWebhooks(t *testing.T) {
	k := newKit(t)
	assert.Contains(t, k.text("/webhooks"), "There is no webhook route that your token sees.")
	assert.Contains(t, k.text("/webhooks/refused"), "The log of requests is not kept, or your token may not read it: only the counts of the routes tell of them.")
}
