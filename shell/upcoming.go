package shell

import (
	"cmp"
	"context"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// UpcomingFilter says which schedules [Engine.Upcoming] gives.
type UpcomingFilter struct {
	Until   effects.Time          // those that are due before
	From    effects.Time          // times before are not told; zero: from now on
	Scope   *Scope                // of one tenant; nil: of all
	Kind    effects.Kind          // [core.KindRecurring], [core.KindJob] or [core.KindAction]; empty: all three
	Visible func(core.State) bool // nil: all
	Limit   int                   // at most [MaxPage]; 0: [DefaultPage]
	Times   int                   // of each at most so many next times; 0: none
}

// UpcomingSchedule is a schedule that is due.
type UpcomingSchedule struct {
	State core.State   // a [core.RecurringAction], a [core.Job], or a [core.Action] that recurs
	DueAt effects.Time // its next time; in the past: it is late
	// Times are when it fires within the filter's times if nothing is changed meanwhile, jitter included.
	Times []effects.Time
	More  bool // it fires more often within them
}

// Bounds of [Engine.Upcoming].
const (
	upcomingEntries = 20_000    // of the due index whose records are looked at
	upcomingPassed  = 1_000_000 // that are passed over, such as those of other tenants
	upcomingChunk   = 256
)

// Upcoming gives the schedules that are due next, in the order of their next times, from the due index: what it costs does not depend on
// how much is stored. more says that there are more of them, or that so much else of the same tenants is due before that the rest was
// not looked at. Of a periodic action the next time alone is known. Safe for concurrent use.
func (e *Engine) Upcoming(ctx context.Context, f UpcomingFilter) (list []UpcomingSchedule, more bool, err error) {
	f.Limit = min(cmp.Or(f.Limit, DefaultPage), MaxPage)
	u := &upcoming{UpcomingFilter: f}
	if f.Scope != nil {
		u.share = engine.DueShare(*f.Scope)
	}
	if err := e.o.Store.View(ctx, u.read); err != nil {
		return nil, false, err
	}
	slices.SortStableFunc(u.found, func(a, b UpcomingSchedule) int { return cmp.Compare(a.DueAt, b.DueAt) })
	if f.Times > 0 {
		err = e.tellTimes(ctx, f, u.found)
	}
	return u.found, u.more, err
}

// upcoming is a look at what is due.
type upcoming struct {
	UpcomingFilter

	share uint32 // of the tenant; 0: of all
	found []UpcomingSchedule
	more  bool
}

func (u *upcoming) read(tx store.ReadTx) error {
	var after *store.DueKey
	var entries []store.DueEntry
	var records []store.Record
	for looked, passed := 0, 0; ; {
		if looked >= upcomingEntries || passed >= upcomingPassed {
			u.more = true
			return nil
		}
		var err error
		if entries, err = tx.Due(entries[:0], after, u.Until-1, upcomingChunk); err != nil || len(entries) == 0 {
			return err
		}
		last := entries[len(entries)-1].Key
		after = &last
		refs := u.wanted(entries)
		looked, passed = looked+len(refs), passed+len(entries)-len(refs)
		if records, err = tx.GetMany(records[:0], refs); err != nil {
			return err
		}
		for _, rec := range records {
			u.take(rec)
			if len(u.found) > u.Limit {
				u.found, u.more = u.found[:u.Limit], true
				return nil
			}
		}
	}
}

// wanted names the records of entries that may be schedules of the filter.
func (u *upcoming) wanted(entries []store.DueEntry) (refs []effects.Ref) {
	for _, entry := range entries {
		switch entry.Kind {
		case core.KindRecurring, core.KindJob, core.KindAction:
		default:
			continue
		}
		if u.Kind != "" && entry.Kind != u.Kind || u.share != 0 && entry.Share != 0 && entry.Share != u.share {
			continue
		}
		refs = append(refs, effects.Ref{Kind: entry.Kind, ID: entry.Key.ID()})
	}
	return refs
}

// take adds the schedule of a record. What is gone or cannot be read is left out: the loop sets it aside.
func (u *upcoming) take(rec store.Record) {
	if rec.Version == 0 {
		return
	}
	s, err := core.DecodeState(rec.Kind, rec.State)
	if err != nil {
		return
	}
	at := nextOf(s)
	if at.IsZero() || !at.Before(u.Until) || u.Visible != nil && !u.Visible(s) {
		return
	}
	if u.Scope != nil && core.ScopeOf(s) != *u.Scope {
		return
	}
	u.found = append(u.found, UpcomingSchedule{State: s, DueAt: at})
}

// nextOf gives the next time of a schedule; zero if it has none, or is no schedule.
func nextOf(s core.State) effects.Time {
	switch v := s.(type) {
	case core.RecurringAction:
		return v.NextExecutionAt
	case core.Job:
		if v.Paused {
			return 0
		}
		next := v.NextRunAt
		for _, run := range v.Active { // one that was made ahead waits for its time
			if run.Stage == core.StageWaiting && !run.Manual && (next.IsZero() || run.ScheduledAt.Before(next)) {
				next = run.ScheduledAt
			}
		}
		return next
	case core.Action:
		if v.Recurrence.IsZero() {
			return 0
		}
		if !v.RetryAt.IsZero() { // its time has come: what is due is the next attempt
			return v.RetryAt
		}
		return v.Trigger.KeyTime()
	}
	return 0
}

// tellTimes adds when the schedules fire.
func (e *Engine) tellTimes(ctx context.Context, f UpcomingFilter, list []UpcomingSchedule) error {
	now := e.now()
	known := make(map[Scope]knownCalendars)
	for i := range list {
		u := &list[i]
		of := core.ScopeOf(u.State)
		if known[of].read == nil {
			known[of] = knownCalendars{of: e.Calendars(), scope: of, read: map[string]core.Calendars{}}
		}
		times, err := f.timesOf(ctx, u, now, known[of])
		if err != nil {
			return err
		}
		u.tell(times, f)
	}
	return nil
}

// timesOf gives when a schedule fires, at least as many times as the filter asks for, and one more.
func (f UpcomingFilter) timesOf(ctx context.Context, u *UpcomingSchedule, now effects.Time, known knownCalendars) ([]effects.Time, error) {
	var options core.ScheduleOptions
	var skipNext uint32
	var upcoming func(effects.Time, int, core.Calendars) []effects.Time
	switch v := u.State.(type) {
	case core.RecurringAction:
		options, skipNext, upcoming = v.ScheduleOptions, v.SkipNext, v.Upcoming
	case core.Job:
		options, skipNext, upcoming = v.ScheduleOptions, v.SkipNext, v.Upcoming
	default:
		return []effects.Time{u.DueAt}, nil
	}
	calendars, err := known.named(ctx, options.Calendars)
	if err != nil {
		return nil, err
	}
	from := now
	if options.MaxExecutions == 0 && skipNext == 0 { // else what comes before decides which they are
		from = max(now, f.From-1)
	}
	return upcoming(from, f.Times+1, calendars), nil
}

// tell keeps those of some times that the filter asks for.
func (u *UpcomingSchedule) tell(times []effects.Time, f UpcomingFilter) {
	for _, at := range times {
		switch {
		case at.Before(f.From):
			continue
		case !at.Before(f.Until):
			return
		case len(u.Times) == f.Times:
			u.More = true
			return
		}
		u.Times = append(u.Times, at)
	}
}
