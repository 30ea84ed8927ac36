package core

import (
	"math"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// laterMS gives an instant some milliseconds later, or earlier, clamped to what
// a Time can be.
func laterMS(t Time, ms int64) Time {
	const most = int64(maxTime)
	return min(max(min(max(t, 0), maxTime)+Time(min(max(ms, -most), most)), effects.MinTime), maxTime)
}

// limitAt is the end of a time limit of ms milliseconds; zero, which is never, if there is
// no limit.
func limitAt(began Time, ms int64) Time {
	if ms <= 0 {
		return 0
	}
	return laterMS(began, ms)
}

// betweenMS gives the milliseconds from one instant to a later one, at least 0.
func betweenMS(from, to Time) int64 { return max(to.Sub(from).Milliseconds(), 0) }

// durationMS gives a duration of that many milliseconds, clamped to the longest.
func durationMS(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// lengthText prints milliseconds as a length of time.
func lengthText(ms int64) string { return durationMS(ms).String() }

// earliest gives the earlier of two times, of which either may be none.
func earliest(a, b Time) Time {
	switch {
	case a.IsZero():
		return b
	case b.IsZero():
		return a
	}
	return min(a, b)
}

// saturatingAdd gives a sum that stays at the highest number.
func saturatingAdd(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
