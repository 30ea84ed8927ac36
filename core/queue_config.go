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

// QueueRate bounds takes: Limit in PerMS milliseconds, spread evenly, but that
// after a rest Burst of them may go at once: give it a burst of what may go between
// two looks at the queue. It is kept to the microsecond, and more than 1000 a
// millisecond are no more than that. The zero QueueRate: no bound.
type QueueRate struct {
	Limit uint32 `json:"limit,omitempty"`
	PerMS int64  `json:"per_ms,omitempty"` // default 1 s
	Burst uint32 `json:"burst,omitempty"`  // default 1
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

func (r QueueRate) withDefaults() QueueRate {
	if r.Limit == 0 {
		return r
	}
	if r.PerMS == 0 {
		r.PerMS = 1000
	}
	if r.Burst == 0 {
		r.Burst = 1
	}
	return r
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

func (r QueueRate) validate(field string) error {
	switch {
	case r.Limit == 0 && (r.PerMS != 0 || r.Burst != 0):
		return fmt.Errorf("%s.limit: missing: a rate without it says nothing", field)
	case r.Burst > maxRateBurst:
		return fmt.Errorf("%s.burst: %d is more than %d", field, r.Burst, maxRateBurst)
	}
	return checkBetween(field+".per_ms", r.PerMS, 0, maxRatePerMS)
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

// interval is the time between two takes, and that by which one may be early: a
// burst's intervals, and at least what the clock does not tell apart.
func (r QueueRate) interval() (each, early int64) {
	per := min(max(r.PerMS, 1), maxRatePerMS) * 1000
	each = (per + int64(r.Limit) - 1) / int64(max(r.Limit, 1)) // rounded up: never more than Limit
	return each, max(each*int64(min(max(r.Burst, 1), maxRateBurst)-1), 999)
}

// sane gives the time of a take again where the clock cannot have led to it: it
// went back by more than a minute, or the rate was slower. Else that would stop
// the queue until then.
func (r QueueRate) sane(tat int64, now Time) int64 {
	const minute = 60_000_000
	each, early := r.interval()
	if us := micros(now); tat > us+early+each+minute {
		return us
	}
	return tat
}

// next is when the next take conforms: not after now where it may go at once.
func (r QueueRate) next(tat int64, now Time) Time {
	if r.Limit == 0 {
		return 0
	}
	_, early := r.interval()
	return min(Time(max(r.sane(max(tat, 0), now)-early+999, 0)/1000), maxTime)
}

// took gives the time after a take.
func (r QueueRate) took(tat int64, now Time) int64 {
	if r.Limit == 0 {
		return 0
	}
	each, _ := r.interval()
	return max(r.sane(tat, now), micros(now)) + each
}

func micros(t Time) int64 { return int64(min(max(t, 0), maxTime)) * 1000 }
