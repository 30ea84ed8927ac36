// Package config is the configuration of orreryd: it reads, checks and defaults the
// settings, and makes what they configure: tools, runners, channels, tokens.
package config

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// Config is everything that the daemon can be told (C9). Its zero value means
// nothing: start from [defaultConfig]. Durations are in the unit that the key
// names; -1 in [retention] means for ever.
type Config struct {
	DB              string  `toml:"db"`
	Database        string  `toml:"database"`
	Listen          string  `toml:"listen"`
	TickRateSeconds float64 `toml:"tick_rate_seconds"`
	StrictTick      bool    `toml:"strict_tick"`
	LogLevel        string  `toml:"log_level"`
	LogFormat       string  `toml:"log_format"`
	// Workspace is the directory of repositories, worktrees and sessions; empty:
	// runbooks can have none of these.
	Workspace string `toml:"workspace"`
	// WorkspaceShared: it is one for all tenants. Left out: unless tenants have tokens.
	WorkspaceShared *bool `toml:"workspace_shared,omitempty"`

	Background backgroundConfig         `toml:"background"`
	Cluster    clusterConfig            `toml:"cluster"`
	Engine     engineConfig             `toml:"engine"`
	Retention  retentionConfig          `toml:"retention"`
	Redact     redactConfig             `toml:"redact"`
	HTTP       httpConfig               `toml:"http"`
	Page       pageConfig               `toml:"page"`
	Apply      applyConfig              `toml:"apply"`
	Audit      auditConfig              `toml:"audit"`
	Limits     limitsConfig             `toml:"limits"`
	Sessions   sessionsConfig           `toml:"sessions"`
	Git        gitConfig                `toml:"git"`
	Notify     notifyConfig             `toml:"notify"`
	Watchdog   watchdogConfig           `toml:"watchdog"`
	Jobs       jobsConfig               `toml:"jobs"`
	Runners    map[string]runnerConfig  `toml:"runners"`
	Cgroup     cgroupConfig             `toml:"cgroup"`
	Tools      map[string]toolConfig    `toml:"tools"`
	Webhooks   map[string]webhookConfig `toml:"webhooks,omitempty"`
	Tokens     []tokenConfig            `toml:"tokens,omitempty"`

	databaseFrom string // the flag or variable that gave Database; empty: its key did
	// Secrets are what inputs of tools may refer to as {{secret "NAME"}}.
	Secrets map[string]namedSecretConfig `toml:"secrets,omitempty"`
}

// backgroundConfig is 002 section 5. Recurring actions are on unless they are
// switched off: 002 adds them to a gateway that has another purpose, here they
// are the purpose.
type backgroundConfig struct {
	EnableRecurringActions        bool    `toml:"enable_recurring_actions"`
	RecurringCheckIntervalSeconds float64 `toml:"recurring_check_interval_seconds"`
}

type engineConfig struct {
	LeaseTTLSeconds       float64 `toml:"lease_ttl_seconds"`
	RecoverAfterSeconds   float64 `toml:"recover_after_seconds"` // 0: twice the tick (A9)
	StopTimeoutSeconds    float64 `toml:"stop_timeout_seconds"`
	DefaultTimeoutSeconds float64 `toml:"default_timeout_seconds"` // 0: none but the tool's
	DefaultConcurrency    int     `toml:"default_concurrency"`
	MaxBatch              int     `toml:"max_batch"`
	ScrubRecordsPerSecond int     `toml:"scrub_records_per_second"` // 0: none
	HeartbeatSeconds      float64 `toml:"heartbeat_seconds"`        // 0: never
	OutputBytes           int     `toml:"output_bytes"`             // 0: none
	StartPaused           bool    `toml:"start_paused"`             // nothing happens by itself before orreryd system resume
}

// redactConfig is what read-only tokens do not see.
type redactConfig struct {
	Names bool     `toml:"names"`
	Paths []string `toml:"paths"`
}

// Redaction gives it for the HTTP API.
func (r redactConfig) Redaction() httpapi.Redaction {
	return httpapi.Redaction{Names: r.Names, Paths: r.Paths}
}

func (r redactConfig) validate() error {
	if err := r.Redaction().Validate(); err != nil {
		return fmt.Errorf("redact.%w", err)
	}
	return nil
}

type retentionConfig struct {
	ActionsDays float64 `toml:"actions_days"`
	HistoryDays float64 `toml:"history_days"`
	Occurrences int64   `toml:"occurrences_per_tenant"`
	JournalDays float64 `toml:"journal_days"`
	JournalSize int64   `toml:"journal_bytes"`
	RedoDays    float64 `toml:"redo_days"`
	RedoSize    int64   `toml:"redo_bytes"`
	RedoFolder  string  `toml:"redo_folder"`
}

type httpConfig struct {
	MaxBodyBytes            int64 `toml:"max_body_bytes"`
	MaxWebhookBytes         int64 `toml:"max_webhook_bytes"`
	MaxWebhookBytesInFlight int64 `toml:"max_webhook_bytes_in_flight"` // 0: 32 MiB
	MaxBodyBytesInFlight    int64 `toml:"max_body_bytes_in_flight"`    // 0: 16 MiB, or what one body may have
	MaxRequestsPerToken     int   `toml:"max_requests_per_token"`
	MaxListsPerToken        int   `toml:"max_lists_per_token"`
	MaxStreamsPerToken      int   `toml:"max_streams_per_token"`
	MaxConnections          int   `toml:"max_connections"` // 0: half of the descriptors

	TLS tlsConfig `toml:"tls"`
}

// tlsConfig names the files of a certificate and its key; both empty: connections are not encrypted.
type tlsConfig struct {
	Cert string `toml:"cert"`
	Key  string `toml:"key"`
}

func (t tlsConfig) validate() error {
	if (t.Cert == "") != (t.Key == "") {
		return errors.New("http.tls: cert and key belong together: name the files of both, or of neither")
	}
	return nil
}

func defaultHTTP() httpConfig {
	return httpConfig{
		MaxBodyBytes: httpapi.DefaultMaxBodyBytes, MaxWebhookBytes: httpapi.DefaultMaxWebhookBytes,
		MaxRequestsPerToken: httpapi.DefaultMaxRequestsPerToken, MaxListsPerToken: httpapi.DefaultMaxListsPerToken,
		MaxStreamsPerToken: httpapi.DefaultMaxStreamsPerToken,
	}
}

// DefaultServer is where a daemon answers that was not told to listen elsewhere.
const DefaultServer = "http://127.0.0.1:7460"

func defaultConfig() Config {
	return Config{
		DB:              "orrery.db",
		Listen:          "127.0.0.1:7460",
		TickRateSeconds: 60,
		LogLevel:        "info",
		LogFormat:       "text",
		Background:      backgroundConfig{EnableRecurringActions: true, RecurringCheckIntervalSeconds: 5},
		Cluster:         clusterConfig{LeaseSeconds: 10},
		Engine:          engineConfig{LeaseTTLSeconds: 60, StopTimeoutSeconds: 30, DefaultConcurrency: 64, MaxBatch: 1024, ScrubRecordsPerSecond: 100, HeartbeatSeconds: 60, OutputBytes: 64 << 10},
		Retention:       retentionConfig{ActionsDays: 7, HistoryDays: 7, Occurrences: 100_000, JournalDays: 7, JournalSize: 16 << 30, RedoSize: 16 << 30},
		Redact:          redactConfig{Names: true, Paths: []string{}},
		HTTP:            defaultHTTP(),
		Page:            pageConfig{Enabled: true, TrustedProxies: []string{}},
		Apply:           applyConfig{Set: "daemon", Prune: true},
		Watchdog:        watchdogConfig{EverySeconds: 60},
		Audit:           defaultAudit(),
		Sessions:        sessionsConfig{Columns: 200, Rows: 50, KillGraceSeconds: 5, WatchSeconds: 2},
		Git:             gitConfig{LockWaitSeconds: 10},
		Jobs:            defaultJobs(),
		Limits:          defaultLimits(),
	}
}

// override is a setting that a flag and an environment variable can change. An error names
// the one that gave the value.
type override struct {
	flag, env, usage string
	boolean          bool
	set              func(c *Config, v string) error
	check            func(c *Config) error        // nil: every value is right
	came             func(c *Config, from string) // notes what gave the value; nil: nobody asks
}

// apply sets a value that came from there.
func (o override) apply(c *Config, from, v string) error {
	err := o.set(c, v)
	if err == nil && o.check != nil {
		err = o.check(c)
	}
	if err != nil {
		return wrongf("%s: %w", from, err)
	}
	if o.came != nil {
		o.came(c, from)
	}
	return nil
}

var overrides = []override{
	{flag: "db", env: "ORRERY_DB", usage: "database `file`; created if it does not exist (default orrery.db)",
		set: func(c *Config, v string) error { c.DB = v; return nil }, check: (*Config).checkDB},
	{flag: "database", env: "ORRERY_DATABASE", usage: "`URL` of a PostgreSQL database, instead of a file (default none)",
		set: func(c *Config, v string) error { c.Database = v; return nil }, check: (*Config).checkDatabase, came: func(c *Config, from string) { c.databaseFrom = from }},
	{flag: "cluster-name", env: "ORRERY_CLUSTER_NAME", usage: "`name` of this daemon among those on the database (default the host's)",
		set: func(c *Config, v string) error { c.Cluster.Name = v; return nil }, check: func(c *Config) error { return c.Cluster.checkName() }},
	{flag: "cluster-address", env: "ORRERY_CLUSTER_ADDRESS", usage: "`URL` at which other daemons on the database reach this one (default where it listens)",
		set: func(c *Config, v string) error { c.Cluster.Address = v; return nil }, check: func(c *Config) error { return c.Cluster.checkAddress() }},
	{flag: "listen", env: "ORRERY_LISTEN", usage: "`address` of the HTTP API (default 127.0.0.1:7460)",
		set: func(c *Config, v string) error { c.Listen = v; return nil }, check: (*Config).checkListen},
	{flag: "tick-rate", env: "ORRERY_TICK_RATE", usage: "`seconds` between sweeps at most (default 60)",
		set:   func(c *Config, v string) (err error) { c.TickRateSeconds, err = parseSeconds(v); return err },
		check: (*Config).checkTick},
	{flag: "strict-tick", env: "ORRERY_STRICT_TICK", boolean: true, usage: "fire at ticks only, not between them",
		set: func(c *Config, v string) (err error) {
			c.StrictTick, err = parseBool(v)
			return err
		}},
	{flag: "start-paused", env: "ORRERY_START_PAUSED", boolean: true, usage: "take every request, and fire and begin nothing before: orreryd system resume",
		set: func(c *Config, v string) (err error) {
			c.Engine.StartPaused, err = parseBool(v)
			return err
		}},
	{flag: "log-level", env: "ORRERY_LOG_LEVEL", usage: "`level`: debug, info, warn or error (default info; warn with --demo)",
		set: func(c *Config, v string) error { c.LogLevel = v; return nil }, check: (*Config).checkLogLevel},
	{flag: "log-format", env: "ORRERY_LOG_FORMAT", usage: "`format`: text or json (default text)",
		set: func(c *Config, v string) error { c.LogFormat = v; return nil }, check: (*Config).checkLogFormat},
	{flag: "workspace", env: "ORRERY_WORKSPACE", usage: "`directory` of repositories, worktrees and sessions; created if it does not exist (default none)",
		set: func(c *Config, v string) error { c.Workspace = v; return nil }},
	{flag: "apply", env: "ORRERY_APPLY", usage: "`folder` of a set of files, which is applied at the start and on SIGHUP (default none)",
		set: func(c *Config, v string) error { c.Apply.Dir = v; return nil }},
}

// AddFlags adds what [Load] reads.
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "TOML configuration `file`")
	for _, o := range overrides {
		if o.boolean {
			flags.Bool(o.flag, false, o.usage)
		} else {
			flags.String(o.flag, "", o.usage)
		}
	}
}

// parseBool takes what strconv does, such as true and 1.
func parseBool(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", v)
	}
	return b, nil
}

// parseSeconds takes a number of seconds, as 001 has it, or a duration of Go.
func parseSeconds(v string) (float64, error) {
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		return n, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of seconds, such as 60 or 0.5", v)
	}
	return d.Seconds(), nil
}

// Load reads the settings: flags over environment over file over
// defaults. The result is valid.
func Load(flags *pflag.FlagSet, env func(string) string) (Config, error) {
	c := defaultConfig()
	path := env("ORRERY_CONFIG")
	if f := flags.Lookup("config"); f != nil && f.Changed {
		path = f.Value.String()
	}
	if path != "" {
		if err := c.readFile(path); err != nil {
			return c, wrongf("%w", err)
		}
	}
	for _, o := range overrides {
		if v := env(o.env); v != "" {
			if err := o.apply(&c, o.env, v); err != nil {
				return c, err
			}
		}
	}
	for _, o := range overrides {
		if f := flags.Lookup(o.flag); f != nil && f.Changed {
			if err := o.apply(&c, "--"+o.flag, f.Value.String()); err != nil {
				return c, err
			}
		}
	}
	c.addDefaultTools()
	c.addDefaultRunners()
	if err := c.validate(); err != nil {
		return c, wrongf("%w", err)
	}
	return c, nil
}

// Error is something that is wrong with the settings, rather than with the machine
// that the daemon starts on.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// wrongf is an error in the settings.
func wrongf(format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...)}
}
