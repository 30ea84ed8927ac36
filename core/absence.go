package core

import (
	"fmt"
)

// Absence is a span in which no daemon could decide about the times that came. The engine
// finds it, and gives it to the machines that it has held up, with the event by which they
// decide ([Informed]): the reason in a history rests on what is journaled (R20).
type Absence struct {
	From  Time         `json:"from"` // the last sign of life before it
	To    Time         `json:"to"`   // the clock reading of the first batch after it
	Cause AbsenceCause `json:"cause"`
}

// AbsenceCause is why no daemon was there.
type AbsenceCause string

// Causes of an [Absence]. A daemon that was there and had too much to do was not absent: what
// it decides late says so by itself.
const (
	AbsentStopped   AbsenceCause = "stopped"      // cleanly
	AbsentKilled    AbsenceCause = "killed"       // no clean stop is known: killed, crashed, or the machine failed
	AbsentSuspended AbsenceCause = "suspended"    // the process, or its machine, did not run
	AbsentClockSet  AbsenceCause = "clock_set"    // forward, while the daemon ran: there were no such times
	AbsentJump      AbsenceCause = "clock_jumped" // one of the last two: this system cannot tell which
	AbsentOff       AbsenceCause = "switched_off" // the daemon ran, and left machines that are [Paced] where they were
	AbsentPaused    AbsenceCause = "paused"       // the daemon ran, and was not to let anything happen by itself yet
)

// String says it in a reason.
func (a Absence) String() string {
	span := fmt.Sprintf("from %s to %s", a.From, a.To)
	switch a.Cause {
	case AbsentStopped:
		return "the daemon was stopped " + span
	case AbsentKilled:
		return "the daemon was away " + span + " (killed, or its machine failed)"
	case AbsentSuspended:
		return "the daemon did not run " + span + " (suspended, or without a processor)"
	case AbsentClockSet:
		return "the clock was set forward " + span
	case AbsentOff:
		return "recurring actions were switched off " + span
	case AbsentPaused:
		return "the daemon was paused " + span
	case AbsentJump:
		return "the clock went " + span + " (set forward, or the machine was suspended)"
	}
	return "the daemon was away " + span
}

// hearsAbsences is an event by which a machine decides about times that have passed.
type hearsAbsences interface {
	Event
	// informed gives the event with the absences that it is to know of.
	informed(absences []Absence) Event
}

// Informs reports whether [Informed] may add to the event.
func Informs(e Event) bool {
	_, ok := e.(hearsAbsences)
	return ok
}

// Informed gives an event for a machine in that state with those of the absences that have
// held up what the machine now decides about. known is in the order of time.
func Informed(s State, e Event, known []Absence, now Time) Event {
	own, takes := e.(hearsAbsences)
	late, ok := s.(interface{ overdueSince(now Time) Time })
	if !takes || !ok {
		return e
	}
	since := late.overdueSince(now)
	if since.IsZero() {
		return e
	}
	var of []Absence
	for _, a := range known {
		concerns := a.Cause != AbsentOff || Paced(s.Ref().Kind)
		if concerns && a.To.After(since) && !a.From.After(now) {
			of = append(of, a)
		}
	}
	if of == nil {
		return e
	}
	return own.informed(of)
}

// overdueIf gives a time that has come.
func overdueIf(at, now Time) Time {
	if at.IsZero() || at.After(now) {
		return 0
	}
	return at
}

// behindMS is how long a daemon that is there may take to decide about a time before it counts
// as behind. Within it the time is one of the absence that follows.
const behindMS = 1000

// absenceRules are those since which machines are told of absences.
const absenceRules = 8

// missReason is why times pass without a dispatch.
type missReason struct {
	fixed    string    // the whole reason, whenever the time came; empty: it is made of the rest
	absences []Absence // in the order of time
	policy   string    // by which a time that nobody decided about in time is not dispatched
	until    Time      // when it is decided about
	// windowPolicy stands for policy for times before beforeWindow.
	beforeWindow Time
	windowPolicy string
}

// policyAt is the policy by which a time is not dispatched that came at an instant.
func (m missReason) policyAt(at Time) string {
	if at.Before(m.beforeWindow) {
		return m.windowPolicy
	}
	return m.policy
}

// lateReason is why times pass that are decided about now: by which policy; old is what builds
// before [absenceRules] said.
func lateReason(c Clock, policy, old string, absences []Absence) missReason {
	if c.Rules.before(absenceRules) {
		return missReason{fixed: old}
	}
	return missReason{policy: policy, absences: absences, until: c.Now}
}

// cause is the index of the absence in which a time came. If it came in none it is below 0, and
// the same for all times between the same two absences.
func (m missReason) cause(at Time) int {
	ahead := 0
	for i, a := range m.absences {
		switch {
		case betweenMS(at, a.From) > behindMS:
			ahead++
		case at < a.To:
			return i
		}
	}
	return -1 - ahead
}

// next is when the first absence behind a time began; zero: none did.
func (m missReason) next(at Time) (from Time) {
	for _, a := range m.absences {
		if betweenMS(at, a.From) > behindMS {
			from = earliest(from, a.From)
		}
	}
	return from
}

// last bounds the times that have the same cause as the given one.
func (m missReason) last(at, to Time) Time {
	if at.Before(m.beforeWindow) {
		to = min(to, m.beforeWindow-1)
	}
	if i := m.cause(at); i >= 0 {
		return min(to, m.absences[i].To-1)
	}
	if from := m.next(at); !from.IsZero() {
		return min(to, laterMS(from, -behindMS)-1)
	}
	return to
}

// text is the reason of the times from one on that have the same cause.
func (m missReason) text(at Time) string {
	if m.fixed != "" {
		return m.fixed
	}
	if i := m.cause(at); i >= 0 {
		return m.absences[i].String() + "; " + m.policyAt(at)
	}
	until := m.until
	if from := m.next(at); !from.IsZero() {
		until = from
	}
	if by := betweenMS(at, until); by >= behindMS {
		return fmt.Sprintf("the daemon was behind by %s; %s", lengthText(by), m.policyAt(at))
	}
	return m.policyAt(at)
}

// passedTimes are times that follow one another in a schedule and pass without a dispatch for
// one reason.
type passedTimes struct {
	Verdict     Verdict // empty in what [missReason.missed] gives
	First, Last Time    // Last is a bound if Capped
	Count       uint64
	Capped      bool // there are more than Count
	Reason      string
}

// missed lists the times of a schedule in [from, to] but those that are excepted, by their
// reasons. It counts up to [MaxMissedCounted], and at least one for each reason.
func (m missReason) missed(s *timetable, from, to Time, excepted func(Time) bool) []passedTimes {
	var out []passedTimes
	cause, counted := 0, 0
	for after, more := from-1, true; more; {
		more = false
		for at := range s.Due(after, to) {
			is := m.cause(s.firesAt(at))
			same := len(out) > 0 && is == cause
			if same && counted >= MaxMissedCounted {
				last := &out[len(out)-1]
				last.Capped, last.Last = true, m.last(at, to) // perhaps no time of the schedule, but none after it belongs here
				after, more = last.Last, true
				break
			}
			if excepted(at) {
				continue
			}
			if !same {
				out, cause = append(out, passedTimes{First: at, Reason: m.text(s.firesAt(at))}), is
			}
			last := &out[len(out)-1]
			last.Last, last.Count = at, last.Count+1
			counted++
		}
	}
	return out
}

// absences appends absences, if there are any.
func (o *object) absences(list []Absence) {
	if len(list) == 0 {
		return
	}
	o.key("absences")
	o.b = append(o.b, '[')
	for i, a := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		of := begin(o.b)
		of.time("from", a.From)
		of.time("to", a.To)
		of.str("cause", string(a.Cause))
		o.b = of.end()
	}
	o.b = append(o.b, ']')
}
