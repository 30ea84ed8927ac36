package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// limitsConfig is what one tenant may take from the others. 0 bounds nothing.
type limitsConfig struct {
	MaxLaneShare float64 `toml:"max_lane_share"` // 0: see laneShare

	RequestsPerSecond  float64  `toml:"requests_per_second"`
	RequestBurst       int      `toml:"request_burst"`
	InputsPerSecond    *float64 `toml:"inputs_per_second,omitempty"` // nil: see inputRate
	InputBurst         int      `toml:"input_burst"`
	MaxSchedules       int64    `toml:"max_schedules"`
	MaxLiveActions     int64    `toml:"max_live_actions"`
	MaxLiveRuns        int64    `toml:"max_live_runs"`
	MaxLivePipelines   int64    `toml:"max_live_pipelines"`
	MaxLiveTasks       int64    `toml:"max_live_tasks"`
	MaxLiveStrategies  int64    `toml:"max_live_strategies"`
	MaxStoredBytes     int64    `toml:"max_stored_bytes"`
	MinScheduleSeconds float64  `toml:"min_schedule_seconds"`
	MaxTimeoutSeconds  float64  `toml:"max_timeout_seconds"`
	MaxAttempts        int64    `toml:"max_attempts"`
	MaxOutputBytes     int64    `toml:"max_output_bytes"`

	Override []limitsOverride `toml:"override,omitempty"`
}

// limitsOverride is one [[limits.override]]: other limits for one tenant. What is left out
// is as in [limits].
type limitsOverride struct {
	Namespace string `toml:"namespace"`
	Tenant    string `toml:"tenant"`
	Weight    int    `toml:"weight,omitempty"`

	RequestsPerSecond  *float64 `toml:"requests_per_second,omitempty"`
	RequestBurst       *int     `toml:"request_burst,omitempty"`
	InputsPerSecond    *float64 `toml:"inputs_per_second,omitempty"`
	InputBurst         *int     `toml:"input_burst,omitempty"`
	MaxSchedules       *int64   `toml:"max_schedules,omitempty"`
	MaxLiveActions     *int64   `toml:"max_live_actions,omitempty"`
	MaxLiveRuns        *int64   `toml:"max_live_runs,omitempty"`
	MaxLivePipelines   *int64   `toml:"max_live_pipelines,omitempty"`
	MaxLiveTasks       *int64   `toml:"max_live_tasks,omitempty"`
	MaxLiveStrategies  *int64   `toml:"max_live_strategies,omitempty"`
	MaxStoredBytes     *int64   `toml:"max_stored_bytes,omitempty"`
	MinScheduleSeconds *float64 `toml:"min_schedule_seconds,omitempty"`
	MaxTimeoutSeconds  *float64 `toml:"max_timeout_seconds,omitempty"`
	MaxAttempts        *int64   `toml:"max_attempts,omitempty"`
	MaxOutputBytes     *int64   `toml:"max_output_bytes,omitempty"`
}

func defaultLimits() limitsConfig {
	return limitsConfig{
		RequestsPerSecond: 1000,
		MaxSchedules:      1000, MaxLiveActions: 100_000, MaxLiveRuns: 10_000, MaxLivePipelines: 10_000, MaxLiveTasks: 10_000, MaxLiveStrategies: 10_000,
		MaxStoredBytes: 4 << 30, MinScheduleSeconds: 60,
	}
}

// most a limit may be: larger numbers are no bound.
const maxLimit = 1 << 50

func (c *Config) validateLimits() error {
	errs := []error{c.Limits.check("limits")}
	if v := c.Limits.MaxLaneShare; !(v >= 0 && v <= 1) {
		errs = append(errs, fmt.Errorf("limits.max_lane_share: %v is not between 0 and 1", v))
	}
	seen := map[shell.Scope]int{}
	for i, o := range c.Limits.Override {
		key := fmt.Sprintf("limits.override[%d]", i)
		if o.Namespace == "" || o.Tenant == "" {
			errs = append(errs, fmt.Errorf("%s: namespace and tenant must both be given", key))
		}
		if o.Weight < 0 || o.Weight > 1000 {
			errs = append(errs, fmt.Errorf("%s.weight: %d is not between 1 and 1000", key, o.Weight))
		}
		scope := shell.Scope{Namespace: o.Namespace, Tenant: o.Tenant}
		if other, ok := seen[scope]; ok {
			errs = append(errs, fmt.Errorf("%s: namespace %q and tenant %q stand in limits.override[%d], too", key, o.Namespace, o.Tenant, other))
		}
		seen[scope] = i
		l := c.Limits.with(o)
		errs = append(errs, l.check(key))
	}
	return errors.Join(errs...)
}

func (l *limitsConfig) check(key string) error {
	errs := []error{
		checkSeconds(key+".min_schedule_seconds", l.MinScheduleSeconds, 0),
		checkSeconds(key+".max_timeout_seconds", l.MaxTimeoutSeconds, 0),
	}
	for _, v := range []struct {
		name string
		v    float64
	}{
		{"requests_per_second", l.RequestsPerSecond}, {"request_burst", float64(l.RequestBurst)},
		{"inputs_per_second", *cmp.Or(l.InputsPerSecond, new(float64))}, {"input_burst", float64(l.InputBurst)},
		{"max_schedules", float64(l.MaxSchedules)}, {"max_live_actions", float64(l.MaxLiveActions)},
		{"max_live_runs", float64(l.MaxLiveRuns)},
		{"max_live_pipelines", float64(l.MaxLivePipelines)},
		{"max_live_tasks", float64(l.MaxLiveTasks)},
		{"max_live_strategies", float64(l.MaxLiveStrategies)},
		{"max_stored_bytes", float64(l.MaxStoredBytes)}, {"max_attempts", float64(l.MaxAttempts)}, {"max_output_bytes", float64(l.MaxOutputBytes)},
	} {
		if !(v.v >= 0 && v.v <= maxLimit) {
			errs = append(errs, fmt.Errorf("%s.%s: %v is not between 0 (no limit) and %d", key, v.name, v.v, int64(maxLimit)))
		}
	}
	return errors.Join(errs...)
}

// with gives the limits of a tenant that has some of its own.
func (l limitsConfig) with(o limitsOverride) limitsConfig {
	l.RequestsPerSecond, l.RequestBurst = *cmp.Or(o.RequestsPerSecond, &l.RequestsPerSecond), *cmp.Or(o.RequestBurst, &l.RequestBurst)
	l.InputsPerSecond, l.InputBurst = cmp.Or(o.InputsPerSecond, l.InputsPerSecond), *cmp.Or(o.InputBurst, &l.InputBurst)
	l.MaxSchedules, l.MaxLiveActions = *cmp.Or(o.MaxSchedules, &l.MaxSchedules), *cmp.Or(o.MaxLiveActions, &l.MaxLiveActions)
	l.MaxLiveRuns, l.MaxLivePipelines = *cmp.Or(o.MaxLiveRuns, &l.MaxLiveRuns), *cmp.Or(o.MaxLivePipelines, &l.MaxLivePipelines)
	l.MaxLiveTasks, l.MaxLiveStrategies = *cmp.Or(o.MaxLiveTasks, &l.MaxLiveTasks), *cmp.Or(o.MaxLiveStrategies, &l.MaxLiveStrategies)
	l.MaxStoredBytes, l.MinScheduleSeconds = *cmp.Or(o.MaxStoredBytes, &l.MaxStoredBytes), *cmp.Or(o.MinScheduleSeconds, &l.MinScheduleSeconds)
	l.MaxTimeoutSeconds, l.MaxAttempts = *cmp.Or(o.MaxTimeoutSeconds, &l.MaxTimeoutSeconds), *cmp.Or(o.MaxAttempts, &l.MaxAttempts)
	l.MaxOutputBytes = *cmp.Or(o.MaxOutputBytes, &l.MaxOutputBytes)
	return l
}

// laneShare is max_lane_share, or what holds where it is not given: three quarters if there
// are tokens of tenants, else all.
func (c *Config) laneShare() float64 {
	if c.Limits.MaxLaneShare > 0 {
		return c.Limits.MaxLaneShare
	}
	if c.tenantsWrite() {
		return 0.75
	}
	return 1
}

// tenantsWrite reports whether a token that is not an admin's may change something.
func (c *Config) tenantsWrite() bool {
	return slices.ContainsFunc(c.Tokens, func(t tokenConfig) bool { return !t.Admin && !t.Metrics && !t.ReadOnly })
}

// inputRate is inputs_per_second where it is not given: without tokens of tenants only
// webhooks are bound by it, whose senders may not repeat what is refused.
func (c *Config) inputRate() float64 {
	if c.tenantsWrite() {
		return 1000
	}
	return 0
}

// EngineLimits are the limits that the engine holds.
func (c *Config) EngineLimits() shell.Limits {
	out := shell.Limits{
		MaxLaneShare: c.laneShare(), Count: true, Weights: map[shell.Scope]int{},
		MaxTimeout: Seconds(c.Limits.MaxTimeoutSeconds), MaxTimeouts: map[shell.Scope]time.Duration{},
	}
	if c.tenantsWrite() { // else all is the operator's
		out.Live, out.Lives = c.Limits.live(), map[shell.Scope]shell.LiveLimits{}
	}
	for _, o := range c.Limits.Override {
		scope := shell.Scope{Namespace: o.Namespace, Tenant: o.Tenant}
		if out.Lives != nil {
			of := c.Limits.with(o)
			out.Lives[scope] = of.live()
		}
		if o.Weight > 0 {
			out.Weights[scope] = o.Weight
		}
		if o.MaxTimeoutSeconds != nil {
			out.MaxTimeouts[scope] = Seconds(*o.MaxTimeoutSeconds)
		}
	}
	return out
}

// live are the limits of what machines make.
func (l *limitsConfig) live() shell.LiveLimits {
	return shell.LiveLimits{
		Actions: l.MaxLiveActions, Runs: l.MaxLiveRuns, Pipelines: l.MaxLivePipelines, Tasks: l.MaxLiveTasks,
		Strategies: l.MaxLiveStrategies, StoredBytes: l.MaxStoredBytes,
	}
}

// APILimits are the limits of what tokens may ask for.
func (c *Config) APILimits() httpapi.Limits {
	usual := c.Limits
	usual.InputsPerSecond = cmp.Or(usual.InputsPerSecond, new(c.inputRate()))
	out := httpapi.Limits{Default: usual.api(), Overrides: map[shell.Scope]httpapi.TenantLimits{}}
	for _, o := range c.Limits.Override {
		of := usual.with(o)
		out.Overrides[shell.Scope{Namespace: o.Namespace, Tenant: o.Tenant}] = of.api()
	}
	return out
}

// api gives the limits, of which all are given.
func (l *limitsConfig) api() httpapi.TenantLimits {
	return httpapi.TenantLimits{
		RequestsPerSecond: l.RequestsPerSecond, RequestBurst: l.RequestBurst,
		InputsPerSecond: *l.InputsPerSecond, InputBurst: l.InputBurst,
		Schedules: l.MaxSchedules, LiveActions: l.MaxLiveActions, LiveRuns: l.MaxLiveRuns,
		LivePipelines: l.MaxLivePipelines, LiveTasks: l.MaxLiveTasks, LiveStrategies: l.MaxLiveStrategies, StoredBytes: l.MaxStoredBytes,
		MinScheduleInterval: Seconds(l.MinScheduleSeconds), MaxTimeout: Seconds(l.MaxTimeoutSeconds),
		MaxAttempts: l.MaxAttempts, MaxOutputBytes: l.MaxOutputBytes,
	}
}
