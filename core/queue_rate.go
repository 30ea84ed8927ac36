package core

import "fmt"

// QueueRate bounds takes: Limit in PerMS milliseconds, spread evenly, but that
// after a rest Burst of them may go at once: give it a burst of what may go between
// two looks at the queue. It is kept to the microsecond, and more than 1000 a
// millisecond are no more than that. The zero QueueRate: no bound.
type QueueRate struct {
	Limit uint32 `json:"limit,omitempty"`
	PerMS int64  `json:"per_ms,omitempty"` // default 1 s
	Burst uint32 `json:"burst,omitempty"`  // default 1
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

func (r QueueRate) validate(field string) error {
	switch {
	case r.Limit == 0 && (r.PerMS != 0 || r.Burst != 0):
		return fmt.Errorf("%s.limit: missing: a rate without it says nothing", field)
	case r.Burst > maxRateBurst:
		return fmt.Errorf("%s.burst: %d is more than %d", field, r.Burst, maxRateBurst)
	}
	return checkBetween(field+".per_ms", r.PerMS, 0, maxRatePerMS)
}

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
