package core

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// Retry says how often something is tried and how long is waited between. The
// zero Retry: once.
type Retry struct {
	MaxAttempts uint32 `json:"max_attempts,omitempty"` // the first included; 0: 1
	// BackoffMS is the wait before the second attempt, in milliseconds; it grows by
	// FactorPercent with each further one (default 200: it doubles), up to
	// MaxBackoffMS (0: 1 hour).
	BackoffMS     int64  `json:"backoff_ms,omitempty"`
	FactorPercent uint32 `json:"factor_percent,omitempty"`
	MaxBackoffMS  int64  `json:"max_backoff_ms,omitempty"`
	// JitterPercent spreads the wait: it is shortened by up to that part, by an
	// amount that is derived from who waits and the attempt, never drawn.
	JitterPercent uint32 `json:"jitter_percent,omitempty"`
	// NoRetry are patterns of errors after which no attempt follows, see
	// [MatchPattern].
	NoRetry []string `json:"no_retry,omitempty"`
}

// Limits of a [Retry].
const (
	MaxBackoffMS     = 30 * 24 * 60 * 60 * 1000 // 30 days
	defaultBackoffMS = 60 * 60 * 1000
	maxFactorPercent = 10_000
	maxPatterns      = 32
)

// Attempts is how often it is tried at most.
func (r Retry) Attempts() uint32 { return max(r.MaxAttempts, 1) }

// Permanent reports whether an error is one after which no attempt follows.
func (r Retry) Permanent(reason string) bool { return matchesAny(r.NoRetry, reason) }

// Delay is the wait after the given attempt, from 1, in milliseconds. It never
// overflows: it is at least 0 and at most the maximum. The seed is who waits.
func (r Retry) Delay(seed uuid.UUID, attempt uint32) int64 {
	most := r.longest()
	factor := int64(r.FactorPercent)
	if factor == 0 {
		factor = 200
	}
	factor = min(max(factor, 100), maxFactorPercent)
	d := min(max(r.BackoffMS, 0), most)
	for i := uint32(1); i < attempt && d > 0 && d < most; i++ {
		next := min(d/100*factor+d%100*factor/100, most)
		if next == d {
			break // a factor that no longer moves it
		}
		d = next
	}
	if spread := d / 100 * int64(min(r.JitterPercent, 100)); spread > 0 {
		b := binary.BigEndian.AppendUint32(append([]byte("jitter"), seed[:]...), attempt)
		hash := uuid.NewSHA1(idSpace, b)
		d -= int64(binary.BigEndian.Uint64(hash[:8])>>1) % (spread + 1)
	}
	return d
}

// longest is the longest wait.
func (r Retry) longest() int64 {
	if r.MaxBackoffMS <= 0 {
		return defaultBackoffMS
	}
	return min(r.MaxBackoffMS, MaxBackoffMS)
}

func (r Retry) validate(field string) error {
	switch {
	case r.MaxAttempts > MaxAttemptsEver:
		return fmt.Errorf("%s.max_attempts: %d is more than %d", field, r.MaxAttempts, MaxAttemptsEver)
	case r.BackoffMS < 0 || r.BackoffMS > MaxBackoffMS:
		return fmt.Errorf("%s.backoff_ms: %d is not between 0 and %d", field, r.BackoffMS, int64(MaxBackoffMS))
	case r.MaxBackoffMS < 0 || r.MaxBackoffMS > MaxBackoffMS:
		return fmt.Errorf("%s.max_backoff_ms: %d is not between 0 and %d", field, r.MaxBackoffMS, int64(MaxBackoffMS))
	case r.FactorPercent != 0 && (r.FactorPercent < 100 || r.FactorPercent > maxFactorPercent):
		return fmt.Errorf("%s.factor_percent: %d is not between 100 and %d", field, r.FactorPercent, maxFactorPercent)
	case r.JitterPercent > 100:
		return fmt.Errorf("%s.jitter_percent: %d is more than 100", field, r.JitterPercent)
	}
	return checkPatterns(field+".no_retry", r.NoRetry)
}
