package config

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestAWebhookRouteTakesWhatItsFilterNames(t *testing.T) {
	w := webhookConfig{Events: []string{"push"}, Match: []webhookMatch{{Path: "$.ref", Values: []string{"main"}}}}
	c := Config{Webhooks: map[string]webhookConfig{"a": w, "b": {}}}
	assert.Equal(t, map[string]httpapi.WebhookFilter{
		"a": {Events: []string{"push"}, Match: []httpapi.WebhookMatch{{Path: "$.ref", Values: []string{"main"}}}},
		"b": {},
	}, c.WebhookFilters())
}

func TestAWrongFilterOfAWebhookRouteIsRefusedByItsKey(t *testing.T) {
	c := Config{Webhooks: map[string]webhookConfig{"a": {Match: []webhookMatch{{Path: "ref"}}}}}
	assert.ErrorContains(t, c.validateWebhooks(), `webhooks.a.match[0].path: "ref" is no JSONPath, such as $.ref: `)
}
