package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
)

func TestATenantHasItsOwnLimitsAndElseThoseOfAll(t *testing.T) {
	c := defaultConfig()
	schedules, timeout := int64(7), 3600.0
	c.Limits.MaxTimeoutSeconds = 60
	c.Limits.Override = []limitsOverride{{Namespace: "shop", Tenant: "eu", Weight: 3, MaxSchedules: &schedules, MaxTimeoutSeconds: &timeout}}
	require.NoError(t, c.validateLimits())
	api, eu := c.APILimits(), shell.Scope{Namespace: "shop", Tenant: "eu"}
	assert.EqualValues(t, 1000, api.Default.Schedules)
	assert.Equal(t, time.Minute, api.Default.MinScheduleInterval)
	assert.EqualValues(t, 7, api.Overrides[eu].Schedules)
	assert.Equal(t, api.Default.LiveActions, api.Overrides[eu].LiveActions, "left out")
	assert.Equal(t, time.Hour, api.Overrides[eu].MaxTimeout)
	engine := c.EngineLimits()
	assert.Equal(t, map[shell.Scope]int{eu: 3}, engine.Weights)
	assert.Equal(t, time.Minute, engine.MaxTimeout)
	assert.Equal(t, time.Hour, engine.MaxTimeouts[eu])
}

func TestATenantMayHoldAllSlotsUntilAnotherMayWantSome(t *testing.T) {
	for _, c := range []struct {
		name   string
		given  float64
		tokens []tokenConfig
		want   float64
	}{
		{"no tokens", 0, nil, 1},
		{"an admin alone", 0, []tokenConfig{{Admin: true}}, 1},
		{"one that reads", 0, []tokenConfig{{Admin: true}, {ReadOnly: true}, {Metrics: true}}, 1},
		{"a tenant", 0, []tokenConfig{{Admin: true}, {Tenants: []string{"a"}}}, 0.75},
		{"as given", 1, []tokenConfig{{Tenants: []string{"a"}}}, 1},
		{"as given without tokens", 0.5, nil, 0.5},
	} {
		config := defaultConfig()
		config.Limits.MaxLaneShare, config.Tokens = c.given, c.tokens
		assert.InDelta(t, c.want, config.laneShare(), 0, c.name)
	}
}
