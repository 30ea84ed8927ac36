// Package config is the configuration of orreryd: it reads, checks and defaults the
// settings, and makes what they configure: tools, runners, channels, tokens.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell"
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

// maxSeconds bounds every duration: ten years.
const maxSeconds = 10 * 365 * 24 * 60 * 60

// validate names each key whose value cannot be right, and what would be.
func (c *Config) validate() error {
	return errors.Join(
		c.validateDaemon(),
		c.validateEngine(),
		c.validateLimits(),
		c.validateTools(),
		c.validateSecrets(),
		c.Redact.validate(),
		c.Watchdog.validate(),
		c.validateWebhooks(),
		c.validateTokens(),
		c.validateAudit(),
		c.validateRunbooks(),
		c.validateJobs(),
	)
}

func (c *Config) checkDB() error {
	switch {
	case c.DB == "":
		return errors.New("must not be empty: name a file")
	case IsDatabaseURL(c.DB): // it is not quoted: it may have a password
		return errors.New("is a URL, and no file: give it as --database (ORRERY_DATABASE, or database in the configuration)")
	}
	return nil
}

func (c *Config) checkTick() error { return inSeconds(c.TickRateSeconds, 0.001) }

func (c *Config) checkLogLevel() error {
	_, err := ParseLogLevel(c.LogLevel)
	return err
}

// LogFormats are the formats of the log.
var LogFormats = []string{"text", "json"}

func (c *Config) checkLogFormat() error {
	if !slices.Contains(LogFormats, c.LogFormat) {
		return fmt.Errorf("%q is unknown: use \"text\" or \"json\"", text.Clip(c.LogFormat, 40))
	}
	return nil
}

// foreignKeys refuses the keys of a table that a tool, runner or channel (kind) of a type cannot
// have: the tag "for" of a field names the types that have it; without the tag all have it.
func foreignKeys(table any, prefix, kind, typ string) (errs []error) {
	var keys []string
	for f, v := range reflect.ValueOf(table).Fields() {
		if types, some := f.Tag.Lookup("for"); some && !v.IsZero() && !slices.Contains(strings.Fields(types), typ) {
			keys = append(keys, tomlKey(f))
		}
	}
	for _, k := range slices.Sorted(slices.Values(keys)) {
		errs = append(errs, fmt.Errorf("%s%s: a %s of type %q has no such key", prefix, k, kind, typ))
	}
	return errs
}

// tomlKey is the key that sets a field.
func tomlKey(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
	return key
}

// countGiven counts the texts that are not empty.
func countGiven(texts ...string) (n int) {
	for _, v := range texts {
		if v != "" {
			n++
		}
	}
	return n
}

// keyed says of which key an error speaks.
func keyed(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

func (c *Config) validateDaemon() error {
	return errors.Join(
		keyed("db", c.checkDB()),
		c.validateCluster(),
		keyed("listen", c.checkListen()),
		keyed("log_level", c.checkLogLevel()),
		keyed("log_format", c.checkLogFormat()),
		c.validateHTTP(),
		c.Page.validate(),
		c.Apply.validate(),
		keyed("page.listen", c.checkPageListen()),
	)
}

// maxInFlight bounds what requests may hold in memory together.
const maxInFlight = 1 << 30

func (c *Config) validateHTTP() error {
	h := c.HTTP
	return errors.Join(
		checkBetween("http.max_body_bytes", &h.MaxBodyBytes, 1<<10, 64<<20),
		checkBetween("http.max_webhook_bytes", &h.MaxWebhookBytes, 1, core.MaxWebhookBytes),
		checkAtLeast("http.max_webhook_bytes_in_flight", h.MaxWebhookBytesInFlight, "max_webhook_bytes and 4096", h.MaxWebhookBytes+4096),
		checkAtLeast("http.max_body_bytes_in_flight", h.MaxBodyBytesInFlight, "max_body_bytes", h.MaxBodyBytes),
		checkBetween("http.max_requests_per_token", &h.MaxRequestsPerToken, 1, 1<<16),
		checkBetween("http.max_lists_per_token", &h.MaxListsPerToken, 1, 1<<10),
		checkBetween("http.max_streams_per_token", &h.MaxStreamsPerToken, 1, 64),
		h.TLS.validate(),
		checkBetween("http.max_connections", &h.MaxConnections, 0, 1<<20),
	)
}

// checkAtLeast refuses a bound of all that is below that of one.
func checkAtLeast(key string, v int64, of string, least int64) error {
	if v != 0 && (v < least || v > maxInFlight) {
		return fmt.Errorf("%s: %d is neither 0 nor between %d, which is %s, and %d", key, v, least, of, maxInFlight)
	}
	return nil
}

func (c *Config) validateEngine() error {
	e := c.Engine
	errs := []error{
		keyed("tick_rate_seconds", c.checkTick()),
		checkSeconds("background.recurring_check_interval_seconds", c.Background.RecurringCheckIntervalSeconds, 0.001),
		checkSeconds("engine.lease_ttl_seconds", e.LeaseTTLSeconds, 1),
		checkSeconds("engine.recover_after_seconds", e.RecoverAfterSeconds, 0),
		checkSeconds("engine.stop_timeout_seconds", e.StopTimeoutSeconds, 0.001),
		checkSeconds("engine.default_timeout_seconds", e.DefaultTimeoutSeconds, 0),
		checkDays("retention.actions_days", c.Retention.ActionsDays),
		checkDays("retention.history_days", c.Retention.HistoryDays),
		checkDays("retention.journal_days", c.Retention.JournalDays),
		checkOccurrences(c.Retention.Occurrences),
		checkJournalBytes(c.Retention.JournalSize),
		c.Retention.checkRedo(),
	}
	if e.DefaultConcurrency < 1 {
		errs = append(errs, fmt.Errorf("engine.default_concurrency: %d is not at least 1", e.DefaultConcurrency))
	}
	errs = append(errs, checkBetween("engine.max_batch", &e.MaxBatch, 1, 1<<16))
	errs = append(errs, checkBetween("engine.output_bytes", &e.OutputBytes, 0, shell.MaxOutput))
	errs = append(errs, checkBetween("engine.scrub_records_per_second", &e.ScrubRecordsPerSecond, 0, 100_000))
	if s := e.HeartbeatSeconds; s != 0 && !(s >= 1 && s <= 86_400) {
		errs = append(errs, fmt.Errorf("engine.heartbeat_seconds: %v is neither 0, for never, nor between 1 and 86400", s))
	}
	return errors.Join(errs...)
}

func checkOccurrences(n int64) error {
	if n == -1 || n >= 1000 {
		return nil
	}
	return fmt.Errorf("retention.occurrences_per_tenant: %d is neither -1 (any number) nor at least 1000", n)
}

func checkSeconds(key string, v, least float64) error { return keyed(key, inSeconds(v, least)) }

func inSeconds(v, least float64) error {
	if !(v >= least && v <= maxSeconds) { // catches NaN too
		return fmt.Errorf("%v is not between %v and %d seconds", v, least, maxSeconds)
	}
	return nil
}

// checkJournalBytes refuses a bound of 0, which would leave nothing.
func checkJournalBytes(n int64) error {
	if n == -1 || n >= 1<<20 {
		return nil
	}
	return fmt.Errorf("retention.journal_bytes: %d is neither -1 nor at least 1048576", n)
}

// checkRedo refuses what is kept without an end: it is as much as was ever committed.
func (c *retentionConfig) checkRedo() error {
	switch {
	case !(c.RedoDays >= 0 && c.RedoDays <= maxSeconds/86400): // catches NaN too
		return fmt.Errorf("retention.redo_days: %v is not between 0 (none is kept) and %d days", c.RedoDays, maxSeconds/86400)
	case c.RedoSize < 1<<20:
		return fmt.Errorf("retention.redo_bytes: %d is less than 1048576", c.RedoSize)
	case c.RedoFolder != "" && c.RedoDays == 0:
		return errors.New("retention.redo_folder: no redo is kept: set retention.redo_days too")
	}
	return nil
}

func checkDays(key string, v float64) error {
	if v == -1 || v > 0 && v <= maxSeconds/86400 {
		return nil
	}
	return fmt.Errorf("%s: %v is neither -1 (for ever) nor more than 0 and at most %d days", key, v, maxSeconds/86400)
}

// Seconds turns a checked number into a duration.
func Seconds(v float64) time.Duration {
	return time.Duration(math.Round(v * float64(time.Second)))
}

// Days turns a checked number into a retention, negative for ever.
func Days(v float64) time.Duration {
	if v < 0 {
		return -1
	}
	return Seconds(v * 86400)
}

// LogLevels are the levels of the log.
var LogLevels = []string{"debug", "info", "warn", "error"}

// ParseLogLevel gives the level of that name.
func ParseLogLevel(name string) (slog.Level, error) {
	var l slog.Level
	if !slices.Contains(LogLevels, name) {
		return l, fmt.Errorf("%q is unknown: use one of %s", text.Clip(name, 40), strings.Join(LogLevels, ", "))
	}
	return l, l.UnmarshalText([]byte(name))
}
