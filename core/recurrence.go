package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core/schedule"
)

// Recurrence says when an action runs again after it ended (A4): a fixed period
// or a cron expression. The zero Recurrence: never. In JSON a period is a
// number of seconds (000), a cron expression {"cron":"…","timezone":"…"}, and
// none is null.
type Recurrence struct {
	Period   time.Duration // whole seconds
	Cron     string
	Timezone string

	compiled *schedule.Schedule // of Cron: derived, never stored
}

// Every is the recurrence with a fixed period, which must be whole seconds.
func Every(period time.Duration) Recurrence { return Recurrence{Period: period} }

// CronRecurrence is the recurrence at the times of a cron expression.
func CronRecurrence(expr, timezone string) Recurrence {
	return Recurrence{Cron: expr, Timezone: timezone}
}

// IsZero reports whether the action does not recur.
func (r Recurrence) IsZero() bool { return r.Period == 0 && r.Cron == "" }

const maxPeriod = 100 * 365 * 24 * time.Hour

func (r Recurrence) validate(anchor Time) error {
	switch {
	case r.IsZero():
		return nil
	case r.Period != 0 && r.Cron != "":
		return fmt.Errorf("recurrence: has both a period of %s and the cron expression %q: give one", r.Period, clip(r.Cron))
	case r.Period != 0:
		if r.Period < time.Second || r.Period > maxPeriod || r.Period%time.Second != 0 {
			return fmt.Errorf("recurrence: a period of %s is not a whole number of seconds from 1 to %d", r.Period, int64(maxPeriod/time.Second))
		}
		return nil
	}
	s, err := r.compile(anchor)
	if err != nil {
		return recurrenceError(err)
	}
	if _, ok := s.Next(anchor); !ok {
		return fmt.Errorf("recurrence.cron: %q never fires after %s", clip(r.Cron), anchor)
	}
	return nil
}

// recurrenceError names the field of the recurrence that is wrong; the schedule
// calls it by the name that it has in a recurring action.
func recurrenceError(err error) error {
	var e *schedule.Error
	switch {
	case !errors.As(err, &e):
		return fmt.Errorf("recurrence: %w", err)
	case e.Field == "cron_expr":
		return errors.New("recurrence.cron: " + e.Problem)
	default:
		return fmt.Errorf("recurrence.%w", e)
	}
}

func (r Recurrence) compile(anchor Time) (*schedule.Schedule, error) {
	if r.compiled != nil {
		return r.compiled, nil
	}
	return schedule.Parse(r.Cron, zoneOr(r.Timezone), anchor)
}

// next gives the first time after the given one; a period counts from anchor.
func (r Recurrence) next(anchor, after Time) (Time, bool) {
	if p := r.Period.Milliseconds(); p > 0 {
		n := (int64(after)-int64(anchor))/p + 1 // after >= anchor
		t := int64(anchor) + n*p
		return Time(t), t <= int64(maxTime)
	}
	s, err := r.compile(anchor)
	if err != nil {
		return 0, false // validated at creation; a stored expression that a later build refuses ends here
	}
	return s.Next(after)
}

func zoneOr(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

// MarshalJSON encodes the three forms.
func (r Recurrence) MarshalJSON() ([]byte, error) { return r.appendJSON(nil), nil }

// UnmarshalJSON decodes the three forms.
func (r *Recurrence) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	switch {
	case string(b) == "null":
		*r = Recurrence{}
		return nil
	case len(b) > 0 && b[0] == '{':
		var v struct {
			Cron     string `json:"cron"`
			Timezone string `json:"timezone"`
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("recurrence: %w", err)
		}
		if v.Cron == "" {
			return errors.New(`recurrence.cron: must not be empty: give one such as {"cron":"0 9 * * MON-FRI","timezone":"UTC"}`)
		}
		*r = Recurrence{Cron: v.Cron, Timezone: zoneOr(v.Timezone)}
		return nil
	}
	var seconds int64
	if err := json.Unmarshal(b, &seconds); err != nil || seconds < 1 || seconds > int64(maxPeriod/time.Second) {
		return fmt.Errorf("recurrence: %s is neither a whole number of seconds from 1 to %d nor {\"cron\":…}", clip(string(b)), int64(maxPeriod/time.Second))
	}
	*r = Recurrence{Period: time.Duration(seconds) * time.Second}
	return nil
}

func (r Recurrence) appendJSON(b []byte) []byte {
	switch {
	case r.Period > 0:
		return strconv.AppendInt(b, int64(r.Period/time.Second), 10)
	case r.Cron != "":
		o := begin(b)
		o.str("cron", r.Cron)
		o.str("timezone", zoneOr(r.Timezone))
		return o.end()
	default:
		return append(b, "null"...)
	}
}
