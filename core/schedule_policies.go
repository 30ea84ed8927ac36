package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// OverlapPolicy says what becomes of a time of a schedule while what it started earlier has not
// ended, waits between attempts included (G2).
type OverlapPolicy string

// Overlap policies.
const (
	OverlapAllow     OverlapPolicy = "allow"      // both go on
	OverlapSkip      OverlapPolicy = "skip"       // the time is skipped
	OverlapBufferOne OverlapPolicy = "buffer_one" // the time waits, unless another one waits already: then it is skipped
	OverlapBufferAll OverlapPolicy = "buffer_all" // the time waits behind those that wait already, up to a bound
	// OverlapCancelOther: the others are cancelled, and the time begins when they have ended. One
	// that waits for that already is cancelled, too.
	OverlapCancelOther OverlapPolicy = "cancel_other"
	// OverlapTerminateOther: as OverlapCancelOther, without grace.
	OverlapTerminateOther OverlapPolicy = "terminate_other"

	OverlapForbid  OverlapPolicy = "forbid"  // another word for OverlapSkip, as CronJobs have it
	OverlapReplace OverlapPolicy = "replace" // another word for OverlapCancelOther, as CronJobs have it
)

// Plain gives the policy without the words that stand for another one; empty is OverlapAllow.
func (p OverlapPolicy) Plain() OverlapPolicy {
	switch p {
	case OverlapForbid:
		return OverlapSkip
	case OverlapReplace:
		return OverlapCancelOther
	case "":
		return OverlapAllow
	case OverlapAllow, OverlapSkip, OverlapBufferOne, OverlapBufferAll, OverlapCancelOther, OverlapTerminateOther:
	}
	return p
}

func (p OverlapPolicy) validate() error {
	return checkOneOf("overlap", cmp.Or(p, OverlapAllow),
		OverlapAllow, OverlapSkip, OverlapBufferOne, OverlapBufferAll, OverlapCancelOther, OverlapTerminateOther, OverlapForbid, OverlapReplace)
}

// MissedPolicy says which times are dispatched late of those that passed while nobody could
// decide about them (G3).
type MissedPolicy string

// Missed policies.
const (
	MissedSkip   MissedPolicy = "skip"   // the latest, and only within the start deadline (C5)
	MissedLatest MissedPolicy = "latest" // the latest, within the catch-up window
	MissedAll    MissedPolicy = "all"    // all within the catch-up window, oldest first, up to the catch-up limit
)

// Defaults and bounds of what schedules may say about overlap and catch-up.
const (
	DefaultBufferLimit  = 100
	MaxBufferLimit      = 500
	DefaultCatchUpLimit = 100
	MaxCatchUpLimit     = 500
	MaxCatchUpSeconds   = 366 * 24 * 3600
	MaxSpacingSeconds   = 24 * 3600
	MaxWaitSeconds      = 30 * 24 * 3600
	MaxCalendars        = 16 // that one schedule may name
)

func (o ScheduleOptions) validatePolicies() error {
	errs := []error{
		checkOneOf("missed", cmp.Or(o.Missed, MissedSkip), MissedSkip, MissedLatest, MissedAll),
		checkBetween("buffer_limit", int64(o.BufferLimit), 0, MaxBufferLimit),
		checkBetween("max_wait_seconds", o.MaxWaitSeconds, 0, MaxWaitSeconds),
		checkBetween("catch_up_seconds", o.CatchUpSeconds, 0, MaxCatchUpSeconds),
		checkBetween("catch_up_limit", int64(o.CatchUpLimit), 0, MaxCatchUpLimit),
		checkBetween("catch_up_spacing_seconds", o.CatchUpSpacingSeconds, 0, MaxSpacingSeconds),
	}
	if len(o.Calendars) > MaxCalendars {
		errs = append(errs, fmt.Errorf("calendars: %d are more than %d", len(o.Calendars), MaxCalendars))
	}
	for i, name := range o.Calendars {
		errs = append(errs, checkName(fmt.Sprintf("calendars[%d]", i), name, true))
		if slices.Contains(o.Calendars[:i], name) {
			errs = append(errs, fmt.Errorf("calendars[%d]: %q is named twice", i, clip(name)))
		}
	}
	return errors.Join(errs...)
}

func (o ScheduleOptions) bufferLimit() int { return int(cmp.Or(o.BufferLimit, DefaultBufferLimit)) }

func (o ScheduleOptions) catchUpLimit() int { return int(cmp.Or(o.CatchUpLimit, DefaultCatchUpLimit)) }

// inWindow reports whether a time is late by no more than the catch-up window, if there is one.
func (o ScheduleOptions) inWindow(at, now Time) bool {
	return o.CatchUpSeconds == 0 || betweenMS(at, now) <= o.CatchUpSeconds*1000
}

// chosen lists the times in [from, to] that are dispatched, of which all have come and none was
// decided, oldest first; startDeadlineMS is how late one may be that is not caught up.
func (o ScheduleOptions) chosen(s *timetable, from, to, now Time, startDeadlineMS int64) []Time {
	n := 1
	if o.Missed == MissedAll {
		n = o.catchUpLimit()
	}
	if late := o.latestMS(startDeadlineMS); late >= 0 { // what is due earlier is not dispatched
		from = max(from, laterMS(now, -late-s.jitterMS))
	}
	return slices.DeleteFunc(s.last(from, to, n), func(at Time) bool {
		if fires := s.firesAt(at); betweenMS(fires, now) > startDeadlineMS {
			return o.Missed == "" || o.Missed == MissedSkip || !o.inWindow(fires, now)
		}
		return false
	})
}

// latestMS is how late a time may be dispatched; negative: as late as can be.
func (o ScheduleOptions) latestMS(startDeadlineMS int64) int64 {
	switch {
	case !o.catchesUp():
		return startDeadlineMS
	case o.CatchUpSeconds == 0:
		return -1
	}
	return max(startDeadlineMS, o.CatchUpSeconds*1000)
}

// missReason is why times pass that are decided about now and not chosen.
func (o ScheduleOptions) missReason(c Clock, absences []Absence, chosen []Time, what string, startDeadlineMS int64) missReason {
	m := missReason{absences: absences, until: c.Now}
	deadline := lengthText(startDeadlineMS)
	switch o.Missed {
	case MissedLatest:
		m.policy = fmt.Sprintf("of the times that passed only the latest %s, and only within the catch-up window of %s", what, o.windowText())
		if len(chosen) > 0 {
			m.policy = fmt.Sprintf("of the times that passed only the latest %s, and %s took its place", what, chosen[len(chosen)-1])
		}
	case MissedAll:
		m.policy = fmt.Sprintf("of the times that passed at most the last %d are caught up", o.catchUpLimit())
		if o.CatchUpSeconds > 0 {
			m.beforeWindow = laterMS(c.Now, -o.CatchUpSeconds*1000)
			m.windowPolicy = fmt.Sprintf("it is longer ago than the catch-up window of %s", o.windowText())
		}
	case MissedSkip, "":
		m.policy = fmt.Sprintf("of the times that passed only the latest %s, and only within the start deadline of %s", what, deadline)
	}
	return m
}

func (o ScheduleOptions) windowText() string {
	if o.CatchUpSeconds == 0 {
		return "any length"
	}
	return (time.Duration(o.CatchUpSeconds) * time.Second).String()
}

// samePolicies reports whether two schedules decide alike about the times that they have.
func (o ScheduleOptions) samePolicies(as ScheduleOptions) bool {
	return o.BufferLimit == as.BufferLimit && o.MaxWaitSeconds == as.MaxWaitSeconds && cmp.Or(o.Missed, MissedSkip) == cmp.Or(as.Missed, MissedSkip) &&
		o.CatchUpSeconds == as.CatchUpSeconds && o.CatchUpLimit == as.CatchUpLimit && o.CatchUpSpacingSeconds == as.CatchUpSpacingSeconds
}

// calendarSet has the calendars that a schedule names, as they are at the transition. A name
// without one is that of a calendar that is gone.
type calendarSet []namedCalendar

type namedCalendar struct {
	name string
	Calendar
}

// calendars reads the calendars of those names that exist.
func (t *Batch) calendars(of Scope, names []string) (Calendars, error) {
	if len(names) == 0 {
		return nil, nil
	}
	found := make(Calendars, len(names))
	for _, name := range names {
		s, err := t.State(CalendarRef(of.Namespace, of.Tenant, name))
		if err != nil {
			return nil, err
		}
		if c, ok := s.(Calendar); ok {
			found[name] = c
		}
	}
	return found, nil
}

// calendarUses tells the calendars that a schedule names them from now on, or no longer.
func calendarUses(of Scope, was, is []string, calendars Calendars) []effects.Effect {
	var effs []effects.Effect
	use := func(names, except []string, n int64) {
		for _, name := range names {
			if _, exists := calendars[name]; exists && !slices.Contains(except, name) {
				effs = append(effs, effects.Send{To: CalendarRef(of.Namespace, of.Tenant, name), Event: CalendarUse{N: n}})
			}
		}
	}
	use(was, is, -1)
	use(is, was, 1)
	return effs
}

// CalendarTerm is, within a tenant, the list term of the schedules that name a calendar.
func CalendarTerm(name string) string { return "calendar:" + name }

// calendarTerms gives the list terms of a schedule that names calendars.
func calendarTerms(names []string, at Time, of Scope) []effects.Term {
	var terms []effects.Term
	for _, name := range names {
		terms = append(terms, effects.Term{Name: TermWithin(CalendarTerm(name), of), At: at})
	}
	return terms
}

// CalendarSet makes what [RecurringAction.Upcoming] and [Job.Upcoming] ask of the calendars that
// a schedule names.
func CalendarSet(calendars ...Calendar) Calendars {
	set := make(Calendars, len(calendars))
	for _, c := range calendars {
		set[c.Name] = c
	}
	return set
}

// Calendars are the calendars of a tenant by their names.
type Calendars map[string]Calendar

// of gives those of the names, in their order.
func (c Calendars) of(names []string) calendarSet {
	var set calendarSet
	for _, name := range names {
		set = append(set, namedCalendar{name, c[name]})
	}
	return set
}

// leavesOut says why nothing is dispatched at an instant; empty: the calendars let it.
func (s calendarSet) leavesOut(at Time) string {
	for _, c := range s {
		if c.Name == "" {
			return fmt.Sprintf("calendar %s does not exist any more: nobody can say which times it leaves out", c.name)
		}
		if why := c.LeavesOut(at); why != "" {
			return why
		}
	}
	return ""
}

// leftOutUntil gives an instant before which, from the given one on, one of the calendars leaves out
// all instants; zero: none leaves out the given one.
func (s calendarSet) leftOutUntil(at Time) Time {
	for _, c := range s {
		if c.Name == "" {
			return effects.MaxTime + 1
		}
		if until := c.leftOutUntil(at); until != 0 {
			return until
		}
	}
	return 0
}

// missing names a calendar that does not exist.
func (s calendarSet) missing() error {
	for i, c := range s {
		if c.Name == "" {
			return fmt.Errorf("calendars[%d]: the tenant has no calendar %q: create it first", i, clip(c.name))
		}
	}
	return nil
}
