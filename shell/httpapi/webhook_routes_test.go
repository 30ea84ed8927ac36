package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestTheWebhookRoutesAreListedWithWhatBecameOfTheirRequestsAndWithoutSecrets(t *testing.T) {
	s := filtered(httpapi.WebhookFilter{Events: []string{"push"}, Match: []httpapi.WebhookMatch{{Path: "$.ref", Values: []string{"main"}}, {Path: "$.n"}}})
	a := webhookAPI(t, s)
	const good, left = `{"ref":"main","n":1}`, `{"ref":"other"}`
	for _, r := range []answer{
		a.do("POST", "/v1/webhooks/gh", good, gitHub(gitHubSecret, "d1", good), with("X-GitHub-Event", "push")),
		a.do("POST", "/v1/webhooks/gh", good, gitHub(gitHubSecret, "d1", good), with("X-GitHub-Event", "push")),
		a.do("POST", "/v1/webhooks/gh", left, gitHub(gitHubSecret, "d2", left), with("X-GitHub-Event", "push")),
	} {
		require.Less(t, r.status, 300, r.body)
	}
	require.Equal(t, http.StatusUnauthorized, a.do("POST", "/v1/webhooks/gh", good, gitHub("wrong", "d3", good)).status)
	r := a.do("GET", "/v1/webhooks", nil)
	require.Equal(t, http.StatusOK, r.status, r.body)
	const gh = `{"name":"gh","namespace":"ns","tenant":"t1","tool":"echo","action_type":"","label":"","signature":"github",
		"events":["push"],"match":[{"path":"$.ref","values":["main"]},{"path":"$.n","values":[]}],"accepted":1,"rejected":1,"replayed":1,"ignored":1}`
	const open = `{"name":"open","namespace":"ns","tenant":"t1","tool":"echo","action_type":"","label":"","signature":"none",
		"events":["push"],"match":[{"path":"$.ref","values":["main"]},{"path":"$.n","values":[]}],"accepted":0,"rejected":0,"replayed":0,"ignored":0}`
	const std = `{"name":"std","namespace":"ns","tenant":"t1","tool":"echo","action_type":"","label":"","signature":"standard",
		"events":[],"match":[],"accepted":0,"rejected":0,"replayed":0,"ignored":0}`
	assert.JSONEq(t, `{"routes":[`+gh+`,`+open+`,`+std+`]}`, r.body)
	assert.JSONEq(t, `{"routes":[]}`, a.do("GET", "/v1/webhooks?tenant=t2", nil).body)
	metrics := a.do("GET", "/metrics", nil).body
	for _, line := range []string{
		`orrery_webhooks_accepted_total{route="gh"} 1`, `orrery_webhooks_rejected_total{route="gh"} 1`, `orrery_webhooks_replayed_total{route="gh"} 1`, `orrery_webhooks_ignored_total{route="gh"} 1`,
	} {
		assert.Contains(t, metrics, line)
	}
}

func TestAWebhookRouteIsShownToWhoSeesItsActions(t *testing.T) {
	of := func(name string, change func(*httpapi.Token)) httpapi.Token {
		k := httpapi.Token{Name: name, SHA256: httpapi.HashToken(name + "-secret"), Namespaces: []string{"ns"}}
		change(&k)
		return k
	}
	a := webhookAPI(t, setup{
		engine: func(o *shell.Options) {
			o.Webhooks["std"] = shell.WebhookRoute{Tool: "fail", Namespace: "ns", Tenant: "t1"}
			o.Webhooks["open"] = shell.WebhookRoute{Tool: "echo", Namespace: "ns", Tenant: "t2"}
		},
		api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{
				of("one", func(k *httpapi.Token) { k.Tenants = []string{"t1"} }),
				of("tool", func(k *httpapi.Token) { k.Tenants, k.Tools = []string{"t1"}, []string{"fail"} }),
				of("all", func(*httpapi.Token) {}),
			}
		},
	})
	names := func(token string) (out []string) {
		r := a.do("GET", "/v1/webhooks", nil, bearer(token+"-secret"))
		for _, route := range r.object()["routes"].([]any) {
			out = append(out, route.(map[string]any)["name"].(string))
		}
		return out
	}
	assert.Equal(t, []string{"gh", "std"}, names("one"))
	assert.Equal(t, []string{"std"}, names("tool"))
	assert.Equal(t, []string{"gh", "open", "std"}, names("all"))
}

func TestActionsAreListedByTheWebhookRouteThatMadeThem(t *testing.T) {
	a := webhookAPI(t, setup{})
	const body = `{"ref":"main"}`
	one := a.do("POST", "/v1/webhooks/open", body).str("action_id")
	two := a.do("POST", "/v1/webhooks/gh", body, gitHub(gitHubSecret, "d1", body)).str("action_id")
	a.do("POST", "/v1/actions", `{"namespace":"ns","tenant":"t1","tool_name":"echo"}`)
	a.ended(one)
	a.ended(two)
	for query, want := range map[string][]string{
		"webhook=true": {two, one}, "route=open": {one}, "route=gh&tenant=t1": {two}, "route=gh&tenant=t2": nil, "webhook=true&route=open": {one},
		"route=ope": nil, "webhook=true&tenant=t1&namespace=ns&tool=fail": nil, "webhook=true&status=completed&tenant=t1": {two, one},
	} {
		var got []string
		for _, action := range a.do("GET", "/v1/actions?"+query, nil).actionPage().Actions {
			got = append(got, action.ID.String())
		}
		assert.ElementsMatch(t, want, got, query)
	}
	assert.Equal(t, "webhook: only true is a filter: leave it out for all actions", a.do("GET", "/v1/actions?webhook=false", nil).errorText())
}
