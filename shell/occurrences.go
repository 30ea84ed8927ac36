package shell

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Occurrences are the calls for the ledger of occurrences: what was decided about each time of
// each schedule, and how it went (G1).
type Occurrences struct{ e *Engine }

// Occurrences gives the calls for the ledger of occurrences. Entries of builds before core.Version
// 10 stand in the histories of their schedules only.
func (e *Engine) Occurrences() Occurrences { return Occurrences{e} }

// OccurrenceFilter chooses entries of the ledger; zero fields choose all.
type OccurrenceFilter struct {
	Scope *Scope
	// Schedule is a kind of schedule: [core.KindRecurring], [core.KindJob] or [core.KindAction].
	Schedule effects.Kind
	// ScheduleID is the id of a recurring action or a periodic action, or the Key of a job.
	ScheduleID uuid.UUID
	Name       string // of the schedule: a job's id, a recurring action's description, a periodic action's label
	Verdict    core.Verdict
	Outcome    core.StatusType // how what was dispatched has ended
	Manual     *bool           // triggered by hand, or not
	Backfill   uuid.UUID       // the backfill that asked for it
	// From and To choose entries that begin in [From, To): an entry of several times counts by the
	// first of them, unless Spanning is set.
	From, To core.Time
	// Spanning chooses, with From, also those that begin before From, and end then or later.
	Spanning bool
}

// Get reads an entry; the error wraps [ErrNotFound] if it does not exist.
func (o Occurrences) Get(ctx context.Context, id uuid.UUID) (core.Occurrence, error) {
	return readAs[core.Occurrence](ctx, o.e, effects.Ref{Kind: core.KindOccurrence, ID: id})
}

// List lists entries by the first time that they are about, the newest first.
func (o Occurrences) List(ctx context.Context, f OccurrenceFilter, p Page) ([]core.Occurrence, string, error) {
	if err := o.e.loop.Indexed(ctx); err != nil {
		return nil, "", err
	}
	return f.read(ctx, o.e.store, p)
}

// read reads a page of what the filter chooses.
func (f OccurrenceFilter) read(ctx context.Context, st store.Store, p Page) ([]core.Occurrence, string, error) {
	if f.Spanning && !f.From.IsZero() {
		return f.readSpanning(ctx, st, p)
	}
	return page(ctx, st, f.index(p), p, f.keeps)
}

// index is what the filter's pages are read from.
func (f OccurrenceFilter) index(p Page) index {
	of := index{kind: core.KindOccurrence, names: f.names(p), find: func(tx store.ReadTx) ([][]string, error) { return f.groups(tx, p) }}
	of = of.paged(Page{OldestFirst: p.OldestFirst})
	of.from, of.until = f.From, f.To
	return of
}

// keeps reports whether the filter chooses an entry.
func (f OccurrenceFilter) keeps(o core.Occurrence) bool {
	switch {
	case o.Schedule == "", f.Schedule != "" && o.Schedule != f.Schedule, f.ScheduleID != uuid.Nil && o.RecurringID != f.ScheduleID,
		f.Scope != nil && (Scope{Namespace: o.Namespace, Tenant: o.Tenant}) != *f.Scope,
		f.Name != "" && o.Name != f.Name, f.Verdict != "" && o.Verdict != f.Verdict, f.Outcome != "" && o.Outcome != string(f.Outcome),
		f.Manual != nil && o.Manual != *f.Manual, f.Backfill != uuid.Nil && o.Backfill != f.Backfill:
		return false
	}
	begins := f.From.IsZero() || f.From <= o.DueAt || f.Spanning && f.From <= o.LastDueAt
	return begins && (f.To.IsZero() || o.DueAt < f.To)
}

// names gives what a page token is bound to.
func (f OccurrenceFilter) names(p Page) []string {
	names := []string{
		string(f.Schedule), f.ScheduleID.String(), f.Name, string(f.Verdict), string(f.Outcome), f.Backfill.String(), f.From.String(), f.To.String(),
		fmt.Sprint(f.Manual != nil, f.Manual != nil && *f.Manual),
	}
	if f.Spanning {
		names = append(names, "spanning")
	}
	for _, s := range f.scopes(p) {
		names = append(names, s.Namespace, s.Tenant)
	}
	return names
}

func (f OccurrenceFilter) scopes(p Page) []Scope {
	if f.Scope != nil {
		return []Scope{*f.Scope}
	}
	return p.Scopes
}

// groups chooses the lists for a filter.
func (f OccurrenceFilter) groups(tx store.ReadTx, p Page) (groups [][]string, err error) {
	if f.ScheduleID != uuid.Nil {
		groups = append(groups, []string{core.RecurringTerm(f.ScheduleID)})
	}
	within := f.within()
	scopes, complete := f.scopes(p), true
	if len(scopes) == 0 && (len(within) > 0 || f.Name != "" || p.Among != nil) {
		if scopes, complete, err = tenantsOfOccurrences(tx, p.Among); err != nil {
			return nil, err
		}
	}
	switch {
	case !complete:
		// There are too many tenants to read their lists as one: what is read of all is asked
		// whether it is to be kept.
	case f.Name != "":
		groups = append(groups, f.named(scopes))
	case len(within) == 0 && (len(scopes) > 0 || p.Among != nil):
		group := []string{}
		for _, s := range scopes {
			group = append(group, core.TenantTerm(s))
		}
		groups = append(groups, group)
	}
	for _, terms := range within {
		if !complete {
			break
		}
		group := []string{}
		for _, term := range terms {
			for _, s := range scopes {
				group = append(group, core.TermWithin(term, s))
			}
		}
		groups = append(groups, group)
	}
	if len(groups) == 0 {
		groups = [][]string{{core.TermAll}}
	}
	return groups, nil
}

// within gives the list terms within a tenant that the filter asks for: one of each group.
func (f OccurrenceFilter) within() (groups [][]string) {
	if f.Schedule != "" || f.Verdict != "" || f.Outcome != "" {
		groups = append(groups, core.OccurrenceTerms(f.Schedule, f.Verdict, f.Outcome))
	}
	if f.Manual != nil && *f.Manual {
		groups = append(groups, []string{core.TermManual})
	}
	if f.Backfill != uuid.Nil {
		groups = append(groups, []string{core.BackfillTerm(f.Backfill)})
	}
	return groups
}

// named gives the lists of the schedules of that name.
func (f OccurrenceFilter) named(scopes []Scope) []string {
	group := []string{}
	for _, s := range scopes {
		if f.Schedule != core.KindJob {
			group = append(group, core.TermWithin(core.ScheduleNameTerm(f.Name), s))
		}
		if f.Schedule == "" || f.Schedule == core.KindJob {
			group = append(group, core.RecurringTerm(core.JobRef(s.Namespace, s.Tenant, f.Name).ID))
		}
	}
	return group
}

// tenantsOfOccurrences gives the tenants that have entries, or those among them; complete is false
// if there are too many.
func tenantsOfOccurrences(tx store.ReadTx, among func(Scope) bool) (scopes []Scope, complete bool, err error) {
	names, err := tx.TermNames(core.KindOccurrence, core.TermOfAnyTenant, maxTenants+1)
	for _, name := range names {
		if s := core.TenantOfTerm(name); among == nil || among(s) {
			scopes = append(scopes, s)
		}
	}
	return scopes, len(names) <= maxTenants, err
}

// ScheduleTotal counts the recurring actions and jobs that there are, and the actions that
// [ActionFilter.Recurs] chooses. It costs a short read
// transaction.
func (e *Engine) ScheduleTotal(ctx context.Context) (n uint64, err error) {
	err = e.store.View(ctx, func(tx store.ReadTx) error {
		t := totals{tx: tx}
		n = t.of(core.KindRecurring, core.TermAll) + t.of(core.KindJob, core.TermAll) + t.of(core.KindAction, core.TermRecurs)
		return t.err
	})
	return n, err
}
