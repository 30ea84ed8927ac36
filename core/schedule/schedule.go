// Package schedule says when something recurs: cron expressions in IANA time
// zones, fixed periods and single instants behind one immutable type (C2, A4).
//
// It reads neither a clock nor the host's time zone database: what a
// [Schedule] answers depends on its expression, its zone, its anchor, the
// arguments and [TZVersion] alone, on every machine (F2).
//
// The dialect, and what happens on the days when clocks change (R4), are
// described in docs/cron.md.
package schedule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// An Error says what is wrong with an expression, a zone or an anchor, and
// what would be right.
type Error struct {
	// Field is what is wrong: "cron_expr", "timezone", "anchor", "day_match", "dst",
	// "starts_at" or "ends_at".
	Field string
	// Problem names the part, the bad value and what is accepted.
	Problem string
}

// Error gives "field: problem".
func (e *Error) Error() string { return e.Field + ": " + e.Problem }

func exprError(format string, args ...any) error {
	return &Error{Field: "cron_expr", Problem: fmt.Sprintf(format, args...)}
}

func zoneError(format string, args ...any) error {
	return &Error{Field: "timezone", Problem: fmt.Sprintf(format, args...)}
}

func fieldError(u *unit, text, format string, args ...any) error {
	return exprError("%s field %s: %s", u.name, quote(text), fmt.Sprintf(format, args...))
}

// A Spec is a schedule as it stands in states and documents: comparable with
// ==, and the same JSON everywhere. [Spec.Compile] makes it answer questions.
type Spec struct {
	// Expr is a cron expression, an alias such as "@daily", "@every" with a Go
	// duration, or "@at" with an RFC 3339 time.
	Expr string `json:"expr"`
	// Zone is the IANA time zone in which Expr is read; empty means "UTC".
	Zone string `json:"timezone,omitempty"`
	// Anchor is the first occurrence of an "@every"; zero means
	// 1970-01-01T00:00:00Z. Other schedules ignore it.
	Anchor effects.Time `json:"anchor,omitzero"`
	// DayMatch says which days a cron expression means that restricts both the day
	// of the month and the day of the week; empty means [DayMatchEither]. Other
	// schedules ignore it.
	DayMatch DayMatch `json:"day_match,omitempty"`
	// DST says when fixed times fire that the clocks skip or repeat; empty means
	// [DSTOnceShifted]. It concerns cron expressions whose hour field has neither a
	// "*" nor a step, and no others.
	DST DST `json:"dst,omitempty"`
	// StartsAt is the first instant at which it may fire, EndsAt the first one at which it
	// does not any more; zero: no bound.
	StartsAt effects.Time `json:"starts_at,omitzero"`
	EndsAt   effects.Time `json:"ends_at,omitzero"`
}

// DayMatch says which days a cron expression means that restricts both the day of
// the month and the day of the week.
type DayMatch string

// The values of a [DayMatch].
const (
	DayMatchEither DayMatch = "either" // the days that match one of them, or both
	DayMatchBoth   DayMatch = "both"   // the days that match both
)

// DST says when the fixed times of a cron expression fire that the clocks skip or
// repeat, when they are set forward or back. See docs/cron.md.
type DST string

// The values of a [DST].
const (
	// DSTOnceShifted: each time fires once; one that is skipped fires at the end of the
	// gap, one that is repeated fires the first time (R4).
	DSTOnceShifted DST = "once_shifted"
	// DSTSkip: one that is skipped does not fire, one that is repeated fires the first time.
	DSTSkip DST = "skip"
	// DSTTwice: one that is skipped fires at the end of the gap, one that is repeated
	// fires each time.
	DSTTwice DST = "twice"
)

func (d DST) check() error {
	if d == "" || d == DSTOnceShifted || d == DSTSkip || d == DSTTwice {
		return nil
	}
	return &Error{Field: "dst", Problem: fmt.Sprintf("%s is unknown: write %q, %q or %q", quote(string(d)), DSTOnceShifted, DSTSkip, DSTTwice)}
}

func (m DayMatch) check() error {
	if m == "" || m == DayMatchEither || m == DayMatchBoth {
		return nil
	}
	return &Error{Field: "day_match", Problem: fmt.Sprintf("%s is unknown: write %q or %q", quote(string(m)), DayMatchEither, DayMatchBoth)}
}

func (s Spec) checkBounds() error {
	for _, b := range []struct {
		field string
		at    effects.Time
	}{{"starts_at", s.StartsAt}, {"ends_at", s.EndsAt}} {
		if b.at < 0 || b.at > effects.MaxTime {
			return &Error{Field: b.field, Problem: fmt.Sprintf("%d ms is out of range: it must be after 1970-01-01T00:00:00Z and before the year 10000", int64(b.at))}
		}
	}
	if !s.EndsAt.IsZero() && s.EndsAt <= s.StartsAt {
		return &Error{Field: "ends_at", Problem: fmt.Sprintf("%s is not after starts_at, %s", s.EndsAt, s.StartsAt)}
	}
	return nil
}

// Compile checks the schedule and prepares it. All errors are of type [*Error].
//
// A schedule that can never fire is accepted; ask [Schedule.Impossible].
func (s Spec) Compile() (*Schedule, error) {
	if s.Zone == "" {
		s.Zone = "UTC"
	}
	zone, err := LoadZone(s.Zone)
	if err != nil {
		return nil, err
	}
	return s.CompileIn(zone)
}

// A Schedule is a compiled schedule. It is immutable and safe for concurrent
// use. Make one with [Spec.Compile], [Parse], [Every] or [Once].
//
// Its JSON form is that of its [Spec].
type Schedule struct {
	spec Spec
	zone *Zone

	// One of these says when it fires.
	cron   *cron
	fields *cronFields   // with cron, for Describe
	period time.Duration // "@every"
	at     effects.Time  // "@at"
}

// Parse compiles a [Spec] without options: an expression, to be read in the wall
// clock time of an IANA time zone, and the first occurrence of an "@every".
func Parse(expr, zone string, anchor effects.Time) (*Schedule, error) {
	z, err := LoadZone(zone)
	if err != nil {
		return nil, err
	}
	return ParseIn(expr, z, anchor)
}

// ParseIn is [Parse] with a zone that is already loaded.
func ParseIn(expr string, zone *Zone, anchor effects.Time) (*Schedule, error) {
	return Spec{Expr: expr, Anchor: anchor}.CompileIn(zone)
}

// CompileIn is [Spec.Compile] with a zone that is already loaded, which counts
// instead of the spec's own: schedules that share a [Zone] share the memory that
// its rules take.
func (s Spec) CompileIn(zone *Zone) (*Schedule, error) {
	expr, anchor := s.Expr, s.Anchor
	if err := checkText(expr); err != nil {
		return nil, err
	}
	if anchor < 0 || anchor > effects.MaxTime {
		return nil, &Error{Field: "anchor", Problem: fmt.Sprintf("%d ms is out of range: it must be after 1970-01-01T00:00:00Z and before the year 10000", int64(anchor))}
	}
	if err := cmp.Or(s.DayMatch.check(), s.DST.check(), s.checkBounds()); err != nil {
		return nil, err
	}
	s.Zone = zone.name
	return compile(s, zone)
}

func compile(spec Spec, zone *Zone) (*Schedule, error) {
	s := &Schedule{spec: spec, zone: zone}
	word, rest, _ := strings.Cut(strings.Trim(spec.Expr, " \t"), " ")
	rest = strings.Trim(rest, " \t")
	var err error
	switch strings.ToLower(word) {
	case "@every":
		s.period, err = parsePeriod(rest)
	case "@at":
		if s.at, err = effects.ParseTime(rest); err != nil {
			err = exprError("@at: %v", err)
		}
	default:
		if s.fields, err = parseCron(spec.Expr); err == nil {
			s.cron = newCron(s.fields, zone, spec)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Every makes a schedule that fires at the anchor and at every whole period
// after it, in elapsed time. The period is a whole number of seconds, at least
// one. A zero anchor means 1970-01-01T00:00:00Z.
func Every(period time.Duration, anchor effects.Time) (*Schedule, error) {
	return ParseIn("@every "+period.String(), utc, anchor)
}

// Once makes a schedule that fires at one instant.
func Once(at effects.Time) (*Schedule, error) {
	return ParseIn("@at "+at.String(), utc, 0)
}

func parsePeriod(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, exprError(`@every: %s is not a duration: write one such as "90s", "1h30m" or, for a day, "24h"`, quote(s))
	case d < time.Second:
		return 0, exprError("@every: %s is too short: write at least 1s", quote(s))
	case d%time.Second != 0:
		return 0, exprError("@every: %s is not a whole number of seconds", quote(s))
	}
	return d, nil
}

// Spec gives what the schedule was made of.
func (s *Schedule) Spec() Spec { return s.spec }

// Expr gives the expression as it was written.
func (s *Schedule) Expr() string { return s.spec.Expr }

// Zone gives the name of the schedule's time zone.
func (s *Schedule) Zone() string { return s.spec.Zone }

// Anchor gives the anchor as it was given.
func (s *Schedule) Anchor() effects.Time { return s.spec.Anchor }

// maxWarnings bounds what an expression of many odd items has to say.
const maxWarnings = 10

// Warnings says which parts of the expression mean something else than they seem
// to, in the order of its fields: each names the field, its text, and what it stands
// for. None of them keeps the schedule from being used.
func (s *Schedule) Warnings() []string {
	if s.cron == nil {
		return nil
	}
	var all []string
	for i := range s.fields {
		all = append(all, s.fields[i].warnings...)
	}
	if w := s.fields.dayWarning(s.spec.DayMatch); w != "" {
		all = append(all, w)
	}
	if n := len(all) - maxWarnings; n > 0 {
		all = append(all[:maxWarnings:maxWarnings], fmt.Sprintf("%s more like these", plural(n, "warning")))
	}
	return all
}

// MarshalJSON encodes the schedule's [Spec].
func (s *Schedule) MarshalJSON() ([]byte, error) { return json.Marshal(s.spec) }

// UnmarshalJSON decodes a [Spec] and compiles it. Unknown fields are refused.
func (s *Schedule) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var spec Spec
	if err := dec.Decode(&spec); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	compiled, err := spec.Compile()
	if err != nil {
		return err
	}
	*s = *compiled
	return nil
}

// Next gives the first occurrence strictly after the given time; ok is false
// where there is none. It always ends: a cron expression fires from 1970 to
// 2099 in the zone's wall clock time, the others until [effects.MaxTime].
func (s *Schedule) Next(after effects.Time) (next effects.Time, ok bool) {
	after = max(after, s.spec.StartsAt-1, 0) // the zero Time is no instant, so none before it counts
	next, ok = s.unbounded(after)
	if end := s.spec.EndsAt; ok && !end.IsZero() && next >= end {
		return 0, false
	}
	return next, ok
}

// unbounded gives the next occurrence of the expression.
func (s *Schedule) unbounded(after effects.Time) (next effects.Time, ok bool) {
	switch {
	case s.cron != nil:
		t, ok := s.cron.next(floorSeconds(after))
		return effects.Time(t * 1000), ok
	case s.period > 0:
		return s.nextPeriod(after)
	case after < s.at:
		return s.at, true
	}
	return 0, false
}

func (s *Schedule) nextPeriod(after effects.Time) (effects.Time, bool) {
	anchor, period := s.spec.Anchor, effects.Time(s.period.Milliseconds())
	if after < anchor {
		return anchor, true
	}
	next := anchor + ((after-anchor)/period+1)*period
	return next, next <= effects.MaxTime
}

// Impossible reports whether nothing occurs after the given time: a schedule
// for 30 February, for years that are over, or for an instant that has passed.
func (s *Schedule) Impossible(after effects.Time) bool {
	_, ok := s.Next(after)
	return !ok
}

// Due gives the occurrences in (from, to], oldest first. It is the one function that
// live runs, catch-up and previews share, and whatever else asks what is due (G3): what
// is due in a span is what is due in its parts. A caller bounds how many it takes, since
// a span may have one for each second.
func (s *Schedule) Due(from, to effects.Time) iter.Seq[effects.Time] {
	return func(yield func(effects.Time) bool) {
		for t, ok := s.Next(from); ok && t <= to && yield(t); {
			t, ok = s.Next(t)
		}
	}
}

// Between lists the occurrences of [Schedule.Due], at most limit; more reports whether
// others follow in that range.
func (s *Schedule) Between(from, to effects.Time, limit int) (times []effects.Time, more bool) {
	for t := range s.Due(from, to) {
		if len(times) >= limit {
			return times, true
		}
		times = append(times, t)
	}
	return times, false
}

// Count counts the occurrences in (from, to] up to limit; capped reports
// whether there are more.
func (s *Schedule) Count(from, to effects.Time, limit int) (n int, capped bool) {
	for range s.Due(from, to) {
		if n >= limit {
			return n, true
		}
		n++
	}
	return n, false
}

// Preview gives the next n occurrences after the given time, or as many as
// there are.
func (s *Schedule) Preview(after effects.Time, n int) []effects.Time {
	times, _ := s.Between(after, effects.MaxTime, n)
	return times
}

// floorSeconds cuts t to the second that it lies in.
func floorSeconds(t effects.Time) int64 {
	if t < 0 {
		return (int64(t) - 999) / 1000
	}
	return int64(t) / 1000
}
