package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// ScheduleOptions say what a schedule means beyond its expression and its zone, in recurring
// actions and in jobs alike (G5). The zero value is the schedule of the sources.
type ScheduleOptions struct {
	// DST says when fixed times fire that the clocks skip or repeat; empty:
	// [schedule.DSTOnceShifted] (R4).
	DST schedule.DST `json:"dst,omitempty"`
	// DayMatch says which days are meant where both day fields are restricted; empty:
	// [schedule.DayMatchEither].
	DayMatch schedule.DayMatch `json:"day_match,omitempty"`
	// StartsAt is the first instant at which a time may be due; null: no bound. An "@every"
	// begins with it.
	StartsAt Time `json:"starts_at,omitzero"`
	// MaxExecutions is how many times of the schedule are dispatched before it ends; 0: no bound.
	// What is triggered by hand does not count.
	MaxExecutions uint64 `json:"max_executions,omitempty"`
	// JitterSeconds spreads what is due at the same instant: each time is dispatched up to that
	// much later, before the next one, by an amount that follows from the schedule's id and the
	// time alone. The time itself, under which it is listed, stays.
	JitterSeconds int64 `json:"jitter_seconds,omitempty"`
	// Calendars are names of calendars of the tenant: a time that one of them leaves out is
	// skipped.
	Calendars []string `json:"calendars,omitempty"`
	// Missed says which times are dispatched late; empty: MissedSkip.
	Missed MissedPolicy `json:"missed,omitempty"`
	// CatchUpSeconds is the catch-up window: how long ago a time may be that is caught up, with
	// MissedLatest and MissedAll; 0: any length.
	CatchUpSeconds int64 `json:"catch_up_seconds,omitempty"`
	// CatchUpLimit is how many times are caught up after one outage, with MissedAll; 0: 100.
	CatchUpLimit uint32 `json:"catch_up_limit,omitempty"`
	// CatchUpSpacingSeconds is the time between two that are caught up; 0: none.
	CatchUpSpacingSeconds int64 `json:"catch_up_spacing_seconds,omitempty"`
	// BufferLimit is how many times may wait, with OverlapBufferAll; 0: 100.
	BufferLimit uint32 `json:"buffer_limit,omitempty"`
	// MaxWaitSeconds is how long a time may wait for its turn; longer, and it is expired. 0: any
	// length.
	MaxWaitSeconds int64 `json:"max_wait_seconds,omitempty"`
	// Alerts say of what there is an alert; zero: of nothing.
	Alerts AlertRules `json:"alerts,omitzero"`
}

// ScheduleOptionsPatch holds the options to change; nil leaves one as it is. A zero value is the
// default, or none.
type ScheduleOptionsPatch struct {
	DST           *schedule.DST      `json:"dst,omitempty"`
	DayMatch      *schedule.DayMatch `json:"day_match,omitempty"`
	StartsAt      *int64             `json:"starts_at_ms,omitempty"` // milliseconds since 1970; 0 clears
	MaxExecutions *uint64            `json:"max_executions,omitempty"`
	JitterSeconds *int64             `json:"jitter_seconds,omitempty"`

	Calendars             *[]string     `json:"calendars,omitempty"`
	Missed                *MissedPolicy `json:"missed,omitempty"`
	CatchUpSeconds        *int64        `json:"catch_up_seconds,omitempty"`
	CatchUpLimit          *uint32       `json:"catch_up_limit,omitempty"`
	CatchUpSpacingSeconds *int64        `json:"catch_up_spacing_seconds,omitempty"`
	BufferLimit           *uint32       `json:"buffer_limit,omitempty"`
	MaxWaitSeconds        *int64        `json:"max_wait_seconds,omitempty"`
	Alerts                *AlertRules   `json:"alerts,omitempty"` // instead of all rules
}

func (p ScheduleOptionsPatch) setOptions(o *ScheduleOptions) {
	set(&o.DST, p.DST)
	set(&o.DayMatch, p.DayMatch)
	set(&o.MaxExecutions, p.MaxExecutions)
	set(&o.JitterSeconds, p.JitterSeconds)
	set(&o.Calendars, p.Calendars)
	set(&o.Missed, p.Missed)
	set(&o.CatchUpSeconds, p.CatchUpSeconds)
	set(&o.CatchUpLimit, p.CatchUpLimit)
	set(&o.CatchUpSpacingSeconds, p.CatchUpSpacingSeconds)
	set(&o.BufferLimit, p.BufferLimit)
	set(&o.MaxWaitSeconds, p.MaxWaitSeconds)
	set(&o.Alerts, p.Alerts)
	if p.StartsAt != nil {
		o.StartsAt = Time(*p.StartsAt)
	}
}

// Bounds of a schedule's options.
const (
	MaxJitterSeconds = 24 * 3600         // one day
	MaxMaxExecutions = 1_000_000_000_000 // which every JSON decoder reads exactly
)

func (o ScheduleOptions) validate(ends Time) error {
	var starts error
	if !o.StartsAt.IsZero() {
		starts = checkTime("starts_at", o.StartsAt)
		if starts == nil && !ends.IsZero() && !ends.After(o.StartsAt) {
			starts = fmt.Errorf("ends_at: %s is not after starts_at, %s", ends, o.StartsAt)
		}
	}
	var most error
	if o.MaxExecutions > MaxMaxExecutions {
		most = fmt.Errorf("max_executions: %d is not between 0 and %d", o.MaxExecutions, uint64(MaxMaxExecutions))
	}
	return errors.Join(starts, most, checkBetween("jitter_seconds", o.JitterSeconds, 0, MaxJitterSeconds), o.validatePolicies(), o.Alerts.validate())
}

// NextTimesShown is how many of the next times of a schedule a change of it, or of one of its
// calendars, answers with.
const NextTimesShown = 5

// exhaustedBy reports whether the schedule ends with that many executions.
func (o ScheduleOptions) exhaustedBy(executions uint64) bool {
	return o.MaxExecutions > 0 && executions >= o.MaxExecutions
}

// sameTimes reports whether a schedule with these options is due and dispatched at the times of one
// with the others, as long as it may.
func (o ScheduleOptions) sameTimes(as ScheduleOptions) bool {
	return o.DST == as.DST && o.DayMatch == as.DayMatch && o.StartsAt == as.StartsAt && o.JitterSeconds == as.JitterSeconds
}

// leavesOut reports whether there may be due instants at which nothing is dispatched.
func (o ScheduleOptions) leavesOut() bool { return o.DST == schedule.DSTSkip || len(o.Calendars) > 0 }

// timetable is a schedule with its options: the one value that live runs, catch-up and previews
// ask (G3).
type timetable struct {
	due *schedule.Schedule // every instant that gets a verdict
	// fires has those of them that the change of the clocks does not skip; nil: all.
	fires    *schedule.Schedule
	id       uuid.UUID // of what it belongs to
	jitterMS int64
	ends     Time // before which the last time is dispatched; zero: no bound
	// calendars are those of the transition; a timetable that is kept with a state has none.
	calendars calendarSet
}

// with gives the timetable with the calendars of a transition.
func (t *timetable) with(calendars calendarSet) *timetable {
	if t == nil || len(calendars) == 0 {
		return t
	}
	n := *t
	n.calendars = calendars
	return &n
}

// timetable compiles a schedule with the options, which has an end. An "@every" begins with
// StartsAt, else with the anchor.
func (o ScheduleOptions) timetable(spec schedule.Spec, id uuid.UUID, ends Time) (*timetable, error) {
	spec.DayMatch, spec.DST, spec.StartsAt = o.DayMatch, o.DST, o.StartsAt
	if !o.StartsAt.IsZero() {
		spec.Anchor = o.StartsAt
	}
	due, err := spec.Compile()
	if err != nil {
		return nil, err
	}
	t := &timetable{due: due, id: id, jitterMS: o.JitterSeconds * 1000, ends: ends}
	if o.DST == schedule.DSTSkip {
		t.fires = due
		spec.DST = schedule.DSTOnceShifted // which fires at the end of the gap
		if t.due, err = spec.Compile(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Next gives the first due instant after the given time; ok is false where there is none.
func (t *timetable) Next(after Time) (next Time, ok bool) { return t.due.Next(after) }

// Due gives the due instants in (from, to], oldest first; see [schedule.Schedule.Due].
func (t *timetable) Due(from, to Time) iter.Seq[Time] { return t.due.Due(from, to) }

// isDue reports whether it is a due instant.
func (t *timetable) isDue(at Time) bool {
	for range t.due.Due(at-1, at) {
		return true
	}
	return false
}

// leftOut says why nothing is dispatched at a due instant, whatever happens; empty: something is.
func (t *timetable) leftOut(at Time) string {
	if why := t.calendars.leavesOut(at); why != "" {
		return "calendar: " + why
	}
	if t.fires == nil {
		return ""
	}
	for range t.fires.Due(at-1, at) {
		return ""
	}
	return fmt.Sprintf("clock change: in %s the clocks skipped its time, and dst is %q", t.due.Zone(), schedule.DSTSkip)
}

// leavesOut reports whether leftOut may say something.
func (t *timetable) leavesOut() bool { return t.fires != nil || len(t.calendars) > 0 }

// maxWalked bounds how many due instants one question tells apart, so that it ends soon
// whatever the schedule and the span.
const maxWalked = 20_000

// maxPassed bounds the entries that one question makes, each of which is a record of the ledger.
const maxPassed = 1000

// passedKind is what the instants of one entry have in common.
type passedKind struct {
	leftOut string // why the schedule leaves them out; empty: they are missed
	cause   int    // see [missReason.cause]
	policy  string
}

// passed lists the due instants in [from, to] but those that are excepted, oldest first, by their
// verdicts and reasons: what the schedule leaves out is skipped, all others are missed. Beyond
// [maxWalked] instants or [maxPassed] entries those with one cause are one entry, whose count is capped, and what is left
// out is not told apart.
func (t *timetable) passed(from, to Time, why missReason, excepted func(Time) bool) []passedTimes {
	var out []passedTimes
	walked := 0
	var kind passedKind // of the last entry
	joined := false     // the instant before belongs to the last entry
	for after, more := from-1, true; more; {
		more = false
		for at := range t.due.Due(after, to) {
			walked++
			far := walked > maxWalked || len(out) >= maxPassed
			if excepted(at) {
				joined = false
				continue
			}
			is := passedKind{leftOut: t.leftOut(at)}
			if is.leftOut == "" || far {
				fires := t.firesAt(at)
				is = passedKind{cause: why.cause(fires), policy: why.policyAt(fires)}
			}
			if !joined || kind != is {
				p := passedTimes{Verdict: VerdictSkipped, First: at, Reason: is.leftOut}
				if is.leftOut == "" {
					p.Verdict, p.Reason = VerdictMissed, why.text(t.firesAt(at))
				}
				out, kind, joined = append(out, p), is, true
			}
			last := &out[len(out)-1]
			last.Last, last.Count = at, last.Count+1
			if far {
				last.Capped, last.Last = true, why.last(at, to)
				after, more = last.Last, true
				break
			}
		}
	}
	return out
}

// allLeftOut lists the due instants in [from, to] that are left out, by their reasons. It counts
// up to [MaxMissedCounted] of one reason in a row.
func (t *timetable) allLeftOut(from, to Time) []passedTimes {
	if !t.leavesOut() {
		return nil
	}
	var out []passedTimes
	follows := false // what was looked at last is the end of out
	for at := range t.due.Due(from-1, to) {
		reason := t.leftOut(at)
		if reason == "" {
			follows = false
			continue
		}
		if !follows || out[len(out)-1].Reason != reason {
			out, follows = append(out, passedTimes{First: at, Reason: reason}), true
		}
		last := &out[len(out)-1]
		if last.Last = at; last.Count < MaxMissedCounted {
			last.Count++
		} else {
			last.Capped = true
		}
	}
	return out
}

// firesAt gives the instant at which what is due is dispatched: itself, or later by the jitter,
// and then before the next due instant and the end.
func (t *timetable) firesAt(due Time) Time {
	if t.jitterMS == 0 {
		return due
	}
	room := t.jitterMS + 1
	if next, ok := t.due.Next(due); ok {
		room = min(room, int64(next-due))
	}
	if t.ends > due {
		room = min(room, int64(t.ends-due))
	}
	hash := uuid.NewSHA1(idSpace, binary.BigEndian.AppendUint64(append([]byte("schedule jitter"), t.id[:]...), uint64(due)))
	return laterMS(due, int64(binary.BigEndian.Uint64(hash[:8])>>1)%room)
}

// comeBy gives the latest instant until which all due instants have come to be dispatched.
func (t *timetable) comeBy(from, now Time) Time {
	if t.jitterMS == 0 {
		return now
	}
	if last := t.last(from, now, 1); len(last) == 1 && t.firesAt(last[0]).After(now) {
		return last[0] - 1
	}
	return now
}

// firing gives the due instants in [from, to] that are not left out, oldest first. It goes over what
// the calendars leave out span by span, and looks at no more than most instants: whole tells, once the
// sequence has ended, whether that was all of them.
func (t *timetable) firing(from, to Time, most int) (times iter.Seq[Time], whole *bool) {
	whole = new(bool)
	return func(yield func(Time) bool) {
		after := max(from, effects.MinTime) - 1 // before which nothing is due
		for range most {
			at, ok := t.due.Next(after)
			if !ok || at.After(to) {
				*whole = true
				return
			}
			after = at
			switch until := t.leftOutUntil(at); {
			case until != 0:
				after = until - 1
			case !yield(at):
				return
			}
		}
	}, whole
}

// leftOutUntil gives an instant before which, from the given due one on, nothing is dispatched; zero:
// leftOut says nothing of the given one.
func (t *timetable) leftOutUntil(at Time) Time {
	if until := t.calendars.leftOutUntil(at); until != 0 {
		return until
	}
	if t.fires != nil && t.leftOut(at) != "" {
		return at + 1
	}
	return 0
}

// last lists the last n due instants in [from, to] that are not left out, oldest first. It looks
// at about as many as it finds, however long the span is: at those of the last minute, of four, of
// sixteen and so on, and at no more than four times [maxLookedAt] at once: fewer than n are found then.
func (t *timetable) last(from, to Time, n int) []Time {
	from = max(from, effects.MinTime) // before which nothing is due
	var last []Time
	for span := int64(60_000); ; span *= 4 {
		begin := max(from, laterMS(to, -span))
		var found []Time
		times, whole := t.firing(begin, to, 4*maxLookedAt)
		for at := range times {
			found = append(found, at)
		}
		if !*whole {
			return last
		}
		if last = found[max(0, len(found)-n):]; len(last) >= n || begin == from {
			return last
		}
	}
}

// maxAhead bounds how many due instants a preview looks at, which is made for each edit and for each
// schedule that a calendar's edit may move.
const maxAhead = 5000

// upcoming lists the next n due instants after one, before the end, at which something is
// dispatched after now. It looks at no more than [maxAhead].
func (t *timetable) upcoming(after, now, end Time, n int) []Time {
	var list []Time
	if n <= 0 {
		return nil
	}
	times, _ := t.firing(max(after, laterMS(now, -t.jitterMS)-1)+1, end-1, maxAhead)
	for at := range times {
		if !t.firesAt(at).After(now) {
			continue
		}
		if list = append(list, at); len(list) == n {
			break
		}
	}
	return list
}
