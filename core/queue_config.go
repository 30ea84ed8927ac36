package core

import (
	"errors"
	"fmt"
)

// QueueConfig bounds a queue (003 QueueConfig). Times are in milliseconds.
type QueueConfig struct {
	VisibilityTimeoutMS int64     `json:"visibility_timeout_ms"` // default 30 s
	Retry               Retry     `json:"retry"`                 // max_attempts: default 3
	DeadLetterQueue     string    `json:"dead_letter_queue"`     // its name in the same tenant; empty: dead items stay here
	Concurrency         uint32    `json:"concurrency"`           // items in flight at once; 0: any number
	KeyConcurrency      uint32    `json:"key_concurrency"`       // the same for each key
	Rate                QueueRate `json:"rate"`                  // of takes
	KeyRate             QueueRate `json:"key_rate"`
	KeepCompletedMS     int64     `json:"keep_completed_ms"` // how long completed items are kept; 0: not at all
	DedupWindowMS       int64     `json:"dedup_window_ms"`   // how long a dedup key is held after the push; 0: while its item lives
}

// Bounds of a [QueueConfig], and what it says where it says nothing.
const (
	DefaultVisibilityMS = 30_000
	maxRatePerMS        = 30 * 24 * 60 * 60 * 1000
	maxRateBurst        = 1_000_000
)

func (c QueueConfig) withDefaults() QueueConfig {
	if c.VisibilityTimeoutMS == 0 {
		c.VisibilityTimeoutMS = DefaultVisibilityMS
	}
	if c.Retry.MaxAttempts == 0 {
		c.Retry.MaxAttempts = DefaultMaxAttempts
	}
	if len(c.Retry.NoRetry) == 0 {
		c.Retry.NoRetry = nil
	}
	c.Rate, c.KeyRate = c.Rate.withDefaults(), c.KeyRate.withDefaults()
	return c
}

// validate tells what is wrong with the configuration of a queue of that name.
func (c QueueConfig) validate(name string) error {
	errs := []error{
		checkBetween("config.visibility_timeout_ms", c.VisibilityTimeoutMS, 1, MaxVisibilityMS),
		checkBetween("config.keep_completed_ms", c.KeepCompletedMS, 0, MaxDelayMS),
		checkBetween("config.dedup_window_ms", c.DedupWindowMS, 0, MaxDelayMS),
		checkName("config.dead_letter_queue", c.DeadLetterQueue, false),
		c.Retry.validate("config.retry"),
		c.Rate.validate("config.rate"),
		c.KeyRate.validate("config.key_rate"),
	}
	if c.DeadLetterQueue != "" && c.DeadLetterQueue == name {
		errs = append(errs, fmt.Errorf("config.dead_letter_queue: %q is the queue itself: name another one, or none", clip(name)))
	}
	return errors.Join(errs...)
}

func checkBetween(field string, v, least, most int64) error {
	if v < least || v > most {
		return fmt.Errorf("%s: %d is not between %d and %d", field, v, least, most)
	}
	return nil
}

// The rate is kept by one number, the theoretical arrival time (TAT) of the
// generic cell rate algorithm: when the next take would conform without any
// burst. Each take moves it on by one interval; a take conforms while it is no
// more than a burst's intervals ahead of the clock. Microseconds, since rates of
// more than one a millisecond are common.
