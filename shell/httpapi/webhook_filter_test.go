package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

func filtered(f httpapi.WebhookFilter) setup {
	return setup{api: func(o *httpapi.Options) {
		o.WebhookFilters = map[string]httpapi.WebhookFilter{"open": f, "gh": f}
	}}
}

func TestAFilterTakesTheEventsAndBodiesThatItNames(t *testing.T) {
	github := func(event string) func(*http.Request) { return with("X-GitHub-Event", event) }
	none := func(*http.Request) {}
	events := httpapi.WebhookFilter{Events: []string{"push", "release"}}
	main := httpapi.WebhookFilter{Match: []httpapi.WebhookMatch{{Path: "$.ref", Values: []string{"refs/heads/main"}}}}
	for name, test := range map[string]struct {
		filter httpapi.WebhookFilter
		header func(*http.Request)
		body   string
		why    string
	}{
		"none":                     {httpapi.WebhookFilter{}, none, "not JSON", ""},
		"event":                    {events, github("push"), "not JSON", ""},
		"another event":            {events, github("ping"), `{"type":"push"}`, `the route does not take the event "ping"`},
		"event of GitLab":          {events, with("X-Gitlab-Event", "release"), "", ""},
		"event of CloudEvents":     {events, with("Ce-Type", "other"), "", `the route does not take the event "other"`},
		"event in the body":        {events, none, `{"type":"release"}`, ""},
		"another one in the body":  {events, none, `{"type":"x"}`, `the route does not take the event "x"`},
		"no event":                 {events, none, `["type"]`, `the request says no type of event, neither in a header nor as the member "type" of its body`},
		"no JSON":                  {events, none, "type=push", "the route looks into the body, which is not JSON"},
		"match":                    {main, none, `{"ref":"refs/heads/main"}`, ""},
		"no match":                 {main, none, `{"ref":"refs/heads/x"}`, `the body has not what the route wants at $["ref"]`},
		"match, no JSON":           {main, github("push"), "", "the route looks into the body, which is not JSON"},
		"nothing there":            {main, none, `{}`, `the body has not what the route wants at $["ref"]`},
		"anything there":           {httpapi.WebhookFilter{Match: []httpapi.WebhookMatch{{Path: "$.ref"}}}, none, `{"ref":null}`, ""},
		"a number, true and null":  {httpapi.WebhookFilter{Match: []httpapi.WebhookMatch{{Path: "$.a", Values: []string{"7"}}, {Path: "$.b", Values: []string{"true"}}, {Path: "$.c", Values: []string{"null"}}}}, none, `{"a":7,"b":true,"c":null}`, ""},
		"one of many":              {httpapi.WebhookFilter{Match: []httpapi.WebhookMatch{{Path: "$.labels[*].name", Values: []string{"bug", "deploy"}}}}, none, `{"labels":[{"name":"x"},{"name":"deploy"}]}`, ""},
		"all of the conditions":    {httpapi.WebhookFilter{Match: []httpapi.WebhookMatch{{Path: "$.a"}, {Path: "$.b"}}}, none, `{"a":1}`, `the body has not what the route wants at $["b"]`},
		"event and then the match": {httpapi.WebhookFilter{Events: []string{"push"}, Match: main.Match}, github("push"), `{"ref":"x"}`, `the body has not what the route wants at $["ref"]`},
	} {
		t.Run(name, func(t *testing.T) {
			a := webhookAPI(t, filtered(test.filter))
			r := a.do("POST", "/v1/webhooks/open", test.body, test.header)
			if test.why == "" {
				require.Equal(t, http.StatusAccepted, r.status, r.body)
				a.ended(r.str("action_id"))
				return
			}
			require.Equal(t, http.StatusOK, r.status, r.body)
			assert.Equal(t, test.why, r.str("ignored"))
			list, _, err := a.engine.Actions().List(t.Context(), shell.ActionFilter{}, shell.Page{})
			require.NoError(t, err)
			assert.Empty(t, list, "nothing is stored")
			assert.Contains(t, a.do("GET", "/metrics", nil).body, `orrery_webhooks_ignored_total{route="open"} 1`)
		})
	}
}

func TestAFilterIsAskedAfterTheSignature(t *testing.T) {
	a := webhookAPI(t, filtered(httpapi.WebhookFilter{Events: []string{"push"}}))
	r := a.do("POST", "/v1/webhooks/gh", "{}", with("X-GitHub-Event", "ping"))
	assert.Equal(t, http.StatusUnauthorized, r.status, r.body)
}

func TestAFilterThatCannotWorkIsRefused(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for want, f := range map[string]httpapi.WebhookFilter{
		"events[1]: is empty: name a type of event":                                                              {Events: []string{"push", ""}},
		"events[0]: has 1025 bytes: want at most 1024":                                                           {Events: []string{long}},
		"events: has 101 entries: want at most 100":                                                              {Events: make([]string, 101)},
		"match: has 101 entries: want at most 100":                                                               {Match: make([]httpapi.WebhookMatch, 101)},
		`match[0].path: "ref" is no JSONPath, such as $.ref: `:                                                   {Match: []httpapi.WebhookMatch{{Path: "ref"}}},
		`match[0].path: "$..a..b" has 2 descendant segments (..): want at most 1, name the members between them`: {Match: []httpapi.WebhookMatch{{Path: "$..a..b"}}},
		"match[0].path: has 1025 bytes: want at most 1024":                                                       {Match: []httpapi.WebhookMatch{{Path: long}}},
		"match[0].values[0]: has 1025 bytes: want at most 1024":                                                  {Match: []httpapi.WebhookMatch{{Path: "$.a", Values: []string{long}}}},
		"match[0].values: has 101 entries: want at most 100":                                                     {Match: []httpapi.WebhookMatch{{Path: "$.a", Values: make([]string, 101)}}},
	} {
		assert.ErrorContains(t, f.Validate(), want)
	}
	_, err := httpapi.New(httpapi.Options{Engine: start(t, setup{}).engine, WebhookFilters: map[string]httpapi.WebhookFilter{"x": {}}})
	assert.ErrorContains(t, err, `httpapi: Options.WebhookFilters["x"]: Options.Webhooks has no such route`)
}

func TestAFilterLooksIntoNoBodyThatTakesLong(t *testing.T) {
	a := webhookAPI(t, filtered(httpapi.WebhookFilter{Match: []httpapi.WebhookMatch{{Path: "$..ref", Values: []string{"main", `{"ref":"x"}`}}}}))
	nested := func(levels int, inner string) string {
		return strings.Repeat(`{"ref":`, levels) + inner + strings.Repeat("}", levels)
	}
	brackets := strings.Repeat(`[{,\\\"`, 100_000)
	for name, test := range map[string]struct{ body, why string }{
		"as deep as may be":       {nested(64, `"main"`), ""},
		"deeper":                  {nested(65, `"main"`), "the route looks into the body, which has more than 64 levels"},
		"as many as may be":       {"[" + strings.Repeat("1,", 499_998) + `{"ref":"main"}]`, ""},
		"more":                    {"[" + strings.Repeat("1,", 500_000) + `{"ref":"main"}]`, "the route looks into the body, which has more than 500000 values"},
		"brackets in a text":      {`{"text":"` + brackets + `","ref":"main"}`, ""},
		"an object is no value":   {nested(2, `"x"`), `the body has not what the route wants at $..["ref"]`},
		"a text that is that one": {`{"ref":"{\"ref\":\"x\"}"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := a.do("POST", "/v1/webhooks/open", test.body)
			if test.why == "" {
				assert.Equal(t, http.StatusAccepted, r.status, r.body)
				return
			}
			assert.Equal(t, http.StatusOK, r.status, r.body)
			assert.Equal(t, test.why, r.str("ignored"))
		})
	}
}
