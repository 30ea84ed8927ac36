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

func TestWhatMachinesMakeIsBoundOnceATenantMayChangeSomething(t *testing.T) {
	c, eu := defaultConfig(), shell.Scope{Namespace: "shop", Tenant: "eu"}
	runs := int64(3)
	c.Limits.Override = []limitsOverride{{Namespace: "shop", Tenant: "eu", MaxLiveRuns: &runs}}
	c.Tokens = []tokenConfig{{Admin: true}}
	assert.Zero(t, c.EngineLimits().Live, "all is the operator's")
	assert.Empty(t, c.EngineLimits().Lives)
	c.Tokens = append(c.Tokens, tokenConfig{Tenants: []string{"eu"}})
	got := c.EngineLimits()
	want := shell.LiveLimits{Actions: 100_000, Runs: 10_000, Pipelines: 10_000, Tasks: 10_000, Strategies: 10_000, StoredBytes: 4 << 30}
	assert.Equal(t, want, got.Live)
	want.Runs = 3
	assert.Equal(t, map[shell.Scope]shell.LiveLimits{eu: want}, got.Lives)
	assert.EqualValues(t, 3, c.APILimits().Overrides[eu].LiveRuns)
	c.Limits.MaxLiveTasks = -1
	assert.ErrorContains(t, c.validateLimits(), "limits.max_live_tasks: -1 is not between 0 (no limit) and")
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

func TestWebhooksHaveARateOnlyWithTokensOfTenantsOrIfTheConfigurationSaysSo(t *testing.T) {
	const admin = "[[tokens]]\nname = 'ops'\nadmin = true\ntoken = '0123456789abcdef'\n"
	const reader = "[[tokens]]\nname = 'eyes'\nread_only = true\ntoken = '0123456789abcdeg'\n"
	const tenant = "[[tokens]]\nname = 'shop'\nnamespaces = ['shop']\ntenants = ['eu']\ntoken = '0123456789abcdeh'\n"
	for name, c := range map[string]struct {
		text     string
		want, eu float64
	}{
		"no tokens":          {"", 0, 0},
		"nobody's but ours":  {admin + reader, 0, 0},
		"a tenant's":         {admin + tenant, 1000, 1000},
		"as given":           {"[limits]\ninputs_per_second = 7\n" + admin, 7, 7},
		"none as given":      {"[limits]\ninputs_per_second = 0\n" + tenant, 0, 0},
		"other limits":       {"[limits]\nrequests_per_second = 7\n" + admin, 0, 0},
		"of one tenant":      {"[[limits.override]]\nnamespace = 'shop'\ntenant = 'eu'\ninputs_per_second = 7\n" + admin, 0, 7},
		"others of a tenant": {"[[limits.override]]\nnamespace = 'shop'\ntenant = 'eu'\nmax_schedules = 7\n" + tenant, 1000, 1000},
	} {
		loaded, err := load(t, c.text, nil)
		require.NoError(t, err, name)
		limits := loaded.APILimits()
		assert.InDelta(t, c.want, limits.Default.InputsPerSecond, 0, name)
		if of, ok := limits.Overrides[shell.Scope{Namespace: "shop", Tenant: "eu"}]; ok {
			assert.InDelta(t, c.eu, of.InputsPerSecond, 0, name)
		}
	}
}
