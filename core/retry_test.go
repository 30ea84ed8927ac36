package core_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
)

func TestTheWaitBeforeAnAttemptGrowsByItsFactorUpToItsMaximum(t *testing.T) {
	for name, c := range map[string]struct {
		retry core.Retry
		want  []int64 // after the first attempt, the second, …
	}{
		"none":                            {core.Retry{}, []int64{0, 0, 0}},
		"it doubles":                      {core.Retry{BackoffMS: 100}, []int64{100, 200, 400, 800}},
		"half as long again":              {core.Retry{BackoffMS: 1001, FactorPercent: 150}, []int64{1001, 1501, 2251}},
		"always the same":                 {core.Retry{BackoffMS: 100, FactorPercent: 100}, []int64{100, 100, 100}},
		"up to its maximum":               {core.Retry{BackoffMS: 100, MaxBackoffMS: 250}, []int64{100, 200, 250, 250}},
		"up to an hour":                   {core.Retry{BackoffMS: 30 * 60_000, FactorPercent: 300}, []int64{30 * 60_000, 60 * 60_000, 60 * 60_000}},
		"a maximum below the first wait":  {core.Retry{BackoffMS: 100, MaxBackoffMS: 50}, []int64{50, 50}},
		"it never overflows":              {core.Retry{BackoffMS: core.MaxBackoffMS - 1, FactorPercent: 10_000, MaxBackoffMS: core.MaxBackoffMS}, []int64{core.MaxBackoffMS - 1, core.MaxBackoffMS, core.MaxBackoffMS}},
		"what no validation has let pass": {core.Retry{BackoffMS: math.MaxInt64, FactorPercent: math.MaxUint32, MaxBackoffMS: math.MaxInt64}, []int64{core.MaxBackoffMS, core.MaxBackoffMS}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range c.want {
				assert.Equal(t, want, c.retry.Delay(id(1), uint32(i)+1), "after attempt %d", i+1)
			}
		})
	}
}

func TestJitterIsDerivedFromWhoWaitsAndTheAttemptAndOnlyShortensTheWait(t *testing.T) {
	retry := core.Retry{BackoffMS: 100_000, FactorPercent: 100, JitterPercent: 30}
	waits := map[int64]bool{}
	for n := range 100 {
		for attempt := range uint32(3) {
			wait := retry.Delay(id(n), attempt+1)
			assert.Equal(t, wait, retry.Delay(id(n), attempt+1), "a replay waits as long")
			assert.LessOrEqual(t, wait, int64(100_000))
			assert.GreaterOrEqual(t, wait, int64(70_000))
			waits[wait] = true
		}
	}
	assert.Greater(t, len(waits), 250, "they do not come together")
}

func TestAWaitIsNeverNegativeNorAboveItsMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := core.Retry{
			BackoffMS: rapid.Int64().Draw(t, "backoff_ms"), FactorPercent: rapid.Uint32().Draw(t, "factor_percent"),
			MaxBackoffMS: rapid.Int64().Draw(t, "max_backoff_ms"), JitterPercent: rapid.Uint32().Draw(t, "jitter_percent"),
		}
		wait := r.Delay(drawID(t, "who"), rapid.Uint32().Draw(t, "attempt"))
		require.GreaterOrEqual(t, wait, int64(0))
		require.LessOrEqual(t, wait, int64(core.MaxBackoffMS))
	})
}
