package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell"
)

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
