package shell

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// MaxRunningBackfills is how many backfills of one tenant may run at a time.
const MaxRunningBackfills = 10

// Backfills are the calls for backfills, which dispatch past times of a schedule that were not
// dispatched when they were due.
type Backfills struct{ e *Engine }

// Backfills gives the calls for backfills.
func (e *Engine) Backfills() Backfills { return Backfills{e} }

// BackfillRequest says which times of which schedule are to be dispatched.
type BackfillRequest struct {
	// Recurring is the recurring action whose times are meant; zero: they are those of Job, which
	// belongs to the Scope.
	Recurring uuid.UUID
	Scope     Scope
	Job       string
	// From and To are the range: the times from From on, before To. What the schedule has not
	// decided about yet is none of the range. A zero To: now.
	From, To effects.Time
	// MaxActive is how many may be under way at once; 0: 1, at most [core.MaxBackfillActive].
	MaxActive uint32
	Spacing   time.Duration // the least time between the starts of two, in whole seconds
	// Limit is how many times may be dispatched in all: if there are more, nothing is. 0, or more
	// than [core.MaxBackfillTimes]: [core.MaxBackfillTimes].
	Limit  int
	Reason string // for people
	// Forgotten has also those times dispatched of which the ledger of occurrences does not know
	// any more whether they were: their entries are older than what is kept.
	Forgotten bool
}

// Plan says which times a backfill would dispatch, and starts nothing: the spec has no ID. The
// error is a [*Refusal] if the request is wrong, and wraps [ErrNotFound] if there is no such
// schedule.
//
// Left out are the times that were dispatched, wait for their turn, or were deduplicated, and those
// that the calendars of the schedule or a change of the clocks leave out.
func (b Backfills) Plan(ctx context.Context, r BackfillRequest) (core.BackfillSpec, error) {
	of, err := b.schedule(ctx, r) // first: what was decided before it was read, the ledger knows
	if err != nil {
		return core.BackfillSpec{}, err
	}
	now := b.e.now()
	spec := core.BackfillSpec{
		Namespace: of.Namespace, Tenant: of.Tenant, Schedule: of.ref, Name: of.name, From: r.From, To: cmp.Or(r.To, now),
		MaxActive: cmp.Or(r.MaxActive, 1), SpacingSeconds: int64(r.Spacing / time.Second), Reason: r.Reason, By: ActorFrom(ctx),
	}
	refuse := func(format string, args ...any) (core.BackfillSpec, error) {
		return spec, invalid(effects.Ref{Kind: core.KindBackfill}, core.BackfillCreate{}.EventType(), format, args...)
	}
	if r.Spacing%time.Second != 0 {
		return refuse("spacing: %s is not a whole number of seconds", r.Spacing)
	}
	if r.To.IsZero() && r.From >= now {
		return refuse("from: %s is not in the past; it is %s", spec.From, now)
	}
	if err := core.CheckBackfillRange(spec.From, spec.To); err != nil {
		return refuse("%s", err)
	}
	if spec.To = min(spec.To, of.decidedBefore(now)); spec.To <= spec.From {
		return refuse("from: %s is not past: the schedule has decided about the times before %s", spec.From, spec.To)
	}
	due, more, err := b.dueTimes(ctx, of, spec.From, spec.To)
	if err != nil {
		return spec, err
	}
	if more {
		return refuse("from, to: the schedule has more than %d times in the range: make it shorter", len(due))
	}
	known, err := b.ledger(ctx, of, spec.From)
	if err != nil {
		return spec, err
	}
	for _, at := range due {
		switch {
		case known.dispatched[at]:
			spec.AlreadyDispatched++
		case known.forgets(at) && !r.Forgotten:
			spec.Forgotten++
		default:
			spec.Times = append(spec.Times, at)
		}
	}
	most := core.MaxBackfillTimes
	if r.Limit > 0 {
		most = min(r.Limit, most)
	}
	if n := len(spec.Times); n > most {
		return refuse("limit: %d times of the range are to be dispatched, more than %d: make the range shorter", n, most)
	}
	check := spec
	check.ID = uuid.Max // what is made has one
	if err := check.Validate(); err != nil {
		return refuse("%s", err)
	}
	return spec, nil
}

// Create makes a backfill of what [Backfills.Plan] says. One that has nothing to dispatch is
// completed at once. The error is a [*Refusal] if the request is wrong, or the tenant has
// [MaxRunningBackfills] that run; requests that come together may pass that by as many as they
// are.
func (b Backfills) Create(ctx context.Context, r BackfillRequest) (core.Backfill, error) {
	spec, err := b.Plan(ctx, r)
	if err != nil {
		return core.Backfill{}, err
	}
	if err := b.hasRoom(ctx, Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}); err != nil {
		return core.Backfill{}, err
	}
	if err := fillID(&spec.ID); err != nil {
		return core.Backfill{}, err
	}
	return sendTo[core.Backfill](ctx, b.e, backfillRef(spec.ID), core.BackfillCreate{Spec: spec})
}

// hasRoom refuses one more backfill of a tenant that has as many as may run.
func (b Backfills) hasRoom(ctx context.Context, of Scope) error {
	running := uint64(0)
	err := b.e.store.View(ctx, func(tx store.ReadTx) (err error) {
		running, err = tx.Count(core.KindBackfill, core.TermWithin(core.StatusTerm(core.BackfillRunning), of))
		return err
	})
	if err == nil && running >= MaxRunningBackfills {
		return &Refusal{
			To: effects.Ref{Kind: core.KindBackfill}, Event: core.BackfillCreate{}.EventType(), Code: effects.CodeLimited,
			Reason: fmt.Sprintf("%d backfills of the tenant run: wait for the end of one, or cancel one", running),
		}
	}
	return err
}

// Get reads a backfill; [ErrNotFound] if there is none with that id.
func (b Backfills) Get(ctx context.Context, id uuid.UUID) (core.Backfill, error) {
	return readAs[core.Backfill](ctx, b.e, backfillRef(id))
}

// Cancel ends a backfill: it dispatches no more times. What is under way goes on. The error is a
// [*Refusal] if it has ended.
func (b Backfills) Cancel(ctx context.Context, id uuid.UUID, reason string) (core.Backfill, error) {
	return sendTo[core.Backfill](ctx, b.e, backfillRef(id), core.BackfillCancel{Reason: reason})
}

// Wait returns the backfill once it has ended: at once if it has already.
func (b Backfills) Wait(ctx context.Context, id uuid.UUID) (core.Backfill, error) {
	return waitForAs[core.Backfill](ctx, b.e, backfillRef(id))
}

// BackfillFilter chooses backfills; zero fields choose all.
type BackfillFilter struct {
	Scope  *Scope
	Status core.BackfillStatus
	// Schedule is the id of a recurring action, or the key of a job ([core.JobRef]).
	Schedule uuid.UUID
}

// List lists backfills, newest first.
func (b Backfills) List(ctx context.Context, f BackfillFilter, p Page) ([]core.Backfill, string, error) {
	of := filter{kind: core.KindBackfill, scope: f.Scope, status: statusTerm(f.Status)}
	if f.Schedule != uuid.Nil {
		of.token = core.BackfillScheduleTerm(f.Schedule)
		of.more = append(of.more, of.token)
	}
	return list(ctx, b.e, of, p, func(m core.Backfill) bool {
		return (f.Status == "" || m.Status == f.Status) && (f.Schedule == uuid.Nil || m.Schedule.ID == f.Schedule) &&
			(f.Scope == nil || *f.Scope == Scope{Namespace: m.Namespace, Tenant: m.Tenant})
	})
}

func backfillRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: core.KindBackfill, ID: id} }

// backfilled is a schedule of which past times are dispatched, as it was when it was read.
type backfilled struct {
	Scope
	ref           effects.Ref
	name          string
	calendars     []string
	sequence      uint64 // how many entries it has written to the ledger
	createdAt     effects.Time
	decidedBefore func(now effects.Time) effects.Time
	dueTimes      func(from, to effects.Time, calendars core.Calendars, limit int) ([]effects.Time, bool)
}

// schedule reads the schedule of a request.
func (b Backfills) schedule(ctx context.Context, r BackfillRequest) (backfilled, error) {
	if r.Recurring != uuid.Nil {
		a, err := b.e.Recurring().Get(ctx, r.Recurring)
		return backfilled{
			Scope: Scope{Namespace: a.Namespace, Tenant: a.Tenant}, ref: a.Ref(), name: a.Title(),
			calendars: a.Calendars, sequence: a.Sequence, createdAt: a.CreatedAt, decidedBefore: a.DecidedBefore, dueTimes: a.DueTimes,
		}, err
	}
	j, err := b.e.Jobs().Get(ctx, r.Scope, r.Job)
	if err == nil && j.Schedule == "" {
		err = invalid(j.Ref(), core.BackfillCreate{}.EventType(), "job %q has no schedule, and so no past times", r.Job)
	}
	return backfilled{
		Scope: r.Scope, ref: j.Ref(), name: j.ID,
		calendars: j.Calendars, sequence: j.Sequence, createdAt: j.CreatedAt, decidedBefore: j.DecidedBefore, dueTimes: j.DueTimes,
	}, err
}

// maxBackfillLooked is how many times of a schedule one range may have, those that were dispatched
// included.
const maxBackfillLooked = 50_000

// dueTimes lists the times in [from, to) that the schedule does not leave out; more reports that
// there are others.
func (b Backfills) dueTimes(ctx context.Context, of backfilled, from, to effects.Time) ([]effects.Time, bool, error) {
	calendars, err := b.e.Calendars().Named(ctx, of.Scope, of.calendars) // one that is gone leaves everything out
	if err != nil {
		return nil, false, err
	}
	times, more := of.dueTimes(from, to, calendars, maxBackfillLooked)
	return times, more, nil
}

// ledgerView is what the ledger of occurrences knows of a schedule's times.
type ledgerView struct {
	dispatched map[effects.Time]bool
	// Of times in [forgottenFrom, forgottenTo] entries may be gone.
	forgottenFrom, forgottenTo effects.Time
}

// forgets reports whether the ledger does not know any more what became of a time.
func (v ledgerView) forgets(at effects.Time) bool {
	return at >= v.forgottenFrom && at <= v.forgottenTo
}

// ledger reads what became of the times of a schedule from an instant on. No time is decided
// before it is due, so what was decided before that instant need not be read, unless numbers are
// missing: the entries of a backfill stand further down, at their times.
func (b Backfills) ledger(ctx context.Context, of backfilled, from effects.Time) (ledgerView, error) {
	v := ledgerView{dispatched: make(map[effects.Time]bool), forgottenFrom: of.createdAt, forgottenTo: -1}
	var entries []ledgerEntry
	reached := false // an entry that was decided before from
	for p := (Page{Limit: MaxPage}); !reached || gapIn(entries) >= 0; {
		list, next, err := b.e.Recurring().History(ctx, of.ref.ID, p)
		if err != nil {
			return v, err
		}
		for _, o := range list {
			entries = append(entries, ledgerEntry{o.Number, o.DecidedAt})
			reached = reached || o.DecidedAt < from
			switch o.Verdict {
			case core.VerdictDispatched, core.VerdictWaiting, core.VerdictDeduplicated:
				if !o.Manual {
					v.dispatched[o.DueAt] = true
				}
			case core.VerdictMissed, core.VerdictSkipped, core.VerdictCancelled, core.VerdictExpired:
			}
		}
		if p.Token = next; next == "" {
			break
		}
	}
	switch gap := gapIn(entries); {
	case gap >= 0:
		v.forgottenTo = entries[gap].decidedAt
	case reached || uint64(len(entries)) >= of.sequence:
	case len(entries) == 0:
		v.forgottenTo = effects.MaxTime
	default:
		v.forgottenTo = entries[len(entries)-1].decidedAt
	}
	return v, nil
}

// ledgerEntry is the number of an entry of the ledger, 0 in those of older builds, and when it was
// decided.
type ledgerEntry struct {
	number    uint64
	decidedAt effects.Time
}

// gapIn sorts entries, the latest first, and gives the index of the one that stands before the
// first that is missing among them; -1: none is.
func gapIn(entries []ledgerEntry) int {
	slices.SortStableFunc(entries, func(a, b ledgerEntry) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(b.decidedAt, a.decidedAt))
	})
	for i, e := range entries[min(1, len(entries)):] {
		if e.number != 0 && e.number+1 != entries[i].number {
			return i
		}
	}
	return -1
}
