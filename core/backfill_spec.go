package core

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Bounds of a backfill.
const (
	MaxBackfillTimes    = 1000 // that one backfill dispatches
	MaxBackfillActive   = 50   // that are under way at a time
	MaxBackfillProblems = 20   // that it keeps
	maxProblemBytes     = 500  // of the reason of one problem
)

// BackfillSpec is what a creator says of a backfill.
type BackfillSpec struct {
	ID        uuid.UUID `json:"id"`
	Namespace string    `json:"namespace"`
	Tenant    string    `json:"tenant"`
	// Schedule is the recurring action or job whose times are dispatched.
	Schedule effects.Ref `json:"schedule"`
	Name     string      `json:"name"` // of the schedule, for people
	// From and To are the range that was asked for: the times from From on, before To.
	From Time `json:"from"`
	To   Time `json:"to"`
	// Times are those of the range that are dispatched, oldest first: at most
	// [MaxBackfillTimes].
	Times []Time `json:"times"`
	// AlreadyDispatched counts the times of the range that were left out, since they had been
	// dispatched before or waited for their turn.
	AlreadyDispatched uint64 `json:"already_dispatched"`
	// Forgotten counts the times of the range that were left out, since the ledger of
	// occurrences does not know any more whether they were dispatched.
	Forgotten uint64 `json:"forgotten"`
	// MaxActive is how many times may be under way at once; 0: 1.
	MaxActive uint32 `json:"max_active"`
	// SpacingSeconds is the least time between the starts of two times; 0: none.
	SpacingSeconds int64  `json:"spacing_seconds"`
	Reason         string `json:"reason"` // for people
	By             string `json:"by"`     // who asked for it
}

// withDefaults fills in the defaults.
func (s BackfillSpec) withDefaults() BackfillSpec {
	s.MaxActive = cmp.Or(s.MaxActive, 1)
	if s.Times == nil {
		s.Times = []Time{}
	}
	return s
}

func (s BackfillSpec) scope() Scope { return Scope{s.Namespace, s.Tenant} }

// Validate tells what is wrong with the spec: the field, its value, and what would be right.
func (s BackfillSpec) Validate() error {
	var id, schedule, times error
	if s.ID == uuid.Nil {
		id = errors.New("id: must be a UUID that is not all zeros")
	}
	if s.Schedule.ID == uuid.Nil || s.Schedule.Kind != KindRecurring && s.Schedule.Kind != KindJob {
		schedule = fmt.Errorf("schedule: %q with id %s is no recurring action and no job", clip(string(s.Schedule.Kind)), s.Schedule.ID)
	}
	if len(s.Times) > MaxBackfillTimes {
		times = fmt.Errorf("times: %d are more than %d", len(s.Times), MaxBackfillTimes)
	}
	err := errors.Join(
		id, checkTenant("", s.Namespace, s.Tenant), schedule, CheckBackfillRange(s.From, s.To), times,
		checkText("name", s.Name), checkBetween("max_active", int64(s.MaxActive), 1, MaxBackfillActive),
		checkBetween("spacing_seconds", s.SpacingSeconds, 0, MaxSpacingSeconds), checkText("reason", s.Reason), checkText("by", s.By),
	)
	if err != nil {
		return err
	}
	for i, at := range s.Times {
		switch {
		case at < s.From || at >= s.To:
			return fmt.Errorf("times[%d]: %s is not from %s on and before %s", i, at, s.From, s.To)
		case i > 0 && at <= s.Times[i-1]:
			return fmt.Errorf("times[%d]: %s is not after %s", i, at, s.Times[i-1])
		}
	}
	return nil
}

// CheckBackfillRange tells what is wrong with the range of a backfill.
func CheckBackfillRange(from, to Time) error {
	if err := errors.Join(checkTime("from", from), checkTime("to", to)); err != nil {
		return err
	}
	if to <= from {
		return fmt.Errorf("to: %s is not after from, %s", to, from)
	}
	return nil
}

// headText is the head of a reason, as problems have it.
func headText(reason string) string { return texts.Head(reason, maxProblemBytes) }

// DueTimes lists the due instants in [from, to) that the schedule does not leave out, oldest first,
// at most limit; more reports that there are others. calendars are those that the schedule names.
// It is empty for a schedule that this build refuses.
func (r RecurringAction) DueTimes(from, to Time, calendars Calendars, limit int) (times []Time, more bool) {
	s, err := r.schedule()
	if err != nil {
		return nil, false
	}
	if !r.EndsAt.IsZero() {
		to = min(to, r.EndsAt)
	}
	return s.with(calendars.of(r.Calendars)).dispatchable(from, to, limit)
}

// DecidedBefore is the instant before which the schedule decides about no more times: those are
// past, and a backfill may dispatch them.
func (r RecurringAction) DecidedBefore(now Time) Time {
	if from := r.undecidedFrom(); !from.IsZero() {
		return min(now, from)
	}
	return now
}

// undecidedFrom is the first time about which the schedule is to decide, or when its pause ends;
// zero: there is neither.
func (r RecurringAction) undecidedFrom() Time {
	if !r.Enabled {
		return r.PausedUntil
	}
	return r.NextExecutionAt
}

// DueTimes lists the due instants in [from, to) that the schedule does not leave out, oldest first,
// at most limit; more reports that there are others. calendars are those that the schedule names.
// It is empty for a job without a schedule, and for one whose schedule this build refuses.
func (j Job) DueTimes(from, to Time, calendars Calendars, limit int) (times []Time, more bool) {
	s, err := j.schedule()
	if err != nil || s == nil {
		return nil, false
	}
	if !j.EndsAt.IsZero() {
		to = min(to, j.EndsAt)
	}
	return s.with(calendars.of(j.Calendars)).dispatchable(from, to, limit)
}

// DecidedBefore is the instant before which the schedule decides about no more times: for those
// before it no run is made any more, and none of its own runs waits for its time or for a slot. A
// run of another backfill may: its time has an entry, or is refused while that run has not ended.
func (j Job) DecidedBefore(now Time) Time {
	if from := j.undecidedFrom(); !from.IsZero() {
		now = min(now, from)
	}
	for _, a := range j.Active {
		if a.scheduled() && (a.Stage == StageWaiting || a.Stage == StageAsked) {
			now = min(now, a.ScheduledAt)
		}
	}
	return now
}

// undecidedFrom is the first time for which the schedule is to make a run, or when its pause ends;
// zero: there is neither.
func (j Job) undecidedFrom() Time {
	if j.Paused {
		return j.PausedUntil
	}
	return j.NextRunAt
}

// maxLookedAt bounds how many due instants one question looks at where many are left out.
const maxLookedAt = 100_000

// dispatchable lists the due instants in [from, to) that are not left out, oldest first, at most limit.
// It looks at no more than [maxLookedAt].
func (t *timetable) dispatchable(from, to Time, limit int) (times []Time, more bool) {
	all, whole := t.firing(from, to-1, maxLookedAt)
	for at := range all {
		if len(times) >= limit {
			return times, true
		}
		times = append(times, at)
	}
	return times, !*whole
}
