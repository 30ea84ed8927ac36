package core

import (
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// The list terms of an occurrence. One of a build before core.Version 10, whose Schedule is empty,
// stands in the history of its schedule alone. All others stand in that history, in the list of
// their tenant and under their verdict at the first time that they are about, which never
// changes: no page of a list misses one because another time was added to it.

// RecurringTerm is the list term of the occurrences of one schedule: a recurring action or a
// periodic action by its id, a job by its key.
func RecurringTerm(id uuid.UUID) string { return "recurring:" + id.String() }

// TenantTerm is the list term of all occurrences of one tenant. Its total is that of the tenant.
func TenantTerm(of Scope) string { return tenantTerms + of.Namespace + tenantSep + of.Tenant }

// TermOfAnyTenant is what [TenantTerm] begins with for each tenant.
const TermOfAnyTenant = tenantTerms

const (
	tenantTerms = "tenant:"
	tenantSep   = "\x1e" // stands in no name, and ends no total
)

// TenantOfTerm gives the tenant of a [TenantTerm].
func TenantOfTerm(name string) Scope {
	name = name[min(len(tenantTerms), len(name)):]
	for i := range len(name) {
		if name[i] == tenantSep[0] {
			return Scope{Namespace: name[:i], Tenant: name[i+1:]}
		}
	}
	return Scope{Namespace: name}
}

// ScheduleNameTerm is, within a tenant, the list term of the occurrences of the recurring actions
// and periodic actions that people call so. A job's name is its id: see [RecurringTerm] and
// [JobRef].
func ScheduleNameTerm(name string) string { return "name:" + namedID("schedule", name).String() }

// TermManual is, within a tenant, the list term of the occurrences that were triggered by hand.
const TermManual = "manual"

// BackfillTerm is, within a tenant, the list term of the occurrences of one backfill.
func BackfillTerm(id uuid.UUID) string { return "backfill:" + id.String() }

// OccurrenceSchedules lists the kinds of machines that may have a schedule.
func OccurrenceSchedules() []effects.Kind {
	return []effects.Kind{KindRecurring, KindJob, KindAction}
}

// OccurrenceOutcomes lists the outcomes that a dispatched occurrence of a schedule of that kind
// may have; with an empty kind those of all.
func OccurrenceOutcomes(schedule effects.Kind) []StatusType {
	out := []StatusType{StatusCompleted, StatusFailed, StatusCancelled}
	if schedule == KindJob || schedule == "" {
		out = append(out, StatusType(OrchestratorOrphaned), outcomeSkipped)
	}
	return out
}

// outcomeSkipped is the outcome of a job's run that its constraints have kept from running.
const outcomeSkipped = "skipped"

// OccurrenceTerms lists the statuses, as list terms, of the occurrences of schedules of that kind,
// with that verdict and that outcome; an empty one is any.
func OccurrenceTerms(schedule effects.Kind, v Verdict, outcome StatusType) []string {
	var out []string
	for _, kind := range OccurrenceSchedules() {
		if schedule != "" && kind != schedule {
			continue
		}
		for _, verdict := range Verdicts() {
			if v != "" && verdict != v {
				continue
			}
			if outcome == "" {
				out = append(out, occurrenceStatus(kind, verdict, ""))
			}
			for _, o := range OccurrenceOutcomes(kind) {
				if verdict == VerdictDispatched && (outcome == "" || outcome == o) {
					out = append(out, occurrenceStatus(kind, verdict, o))
				}
			}
		}
	}
	return out
}

func occurrenceStatus(schedule effects.Kind, v Verdict, outcome StatusType) string {
	status := string(schedule) + ":" + string(v)
	if outcome != "" {
		status += ":" + string(outcome)
	}
	return StatusTerm(StatusType(status))
}

// status is the list term of what it is, one of [OccurrenceTerms].
func (o Occurrence) status() string {
	outcome := StatusType(o.Outcome)
	if o.Verdict != VerdictDispatched || !slices.Contains(OccurrenceOutcomes(o.Schedule), outcome) {
		outcome = ""
	}
	return occurrenceStatus(o.Schedule, o.Verdict, outcome)
}

// Terms lists the occurrence under its schedule, its tenant and its verdict, and under what may
// be forgotten.
func (o Occurrence) Terms() []effects.Term {
	ended, has := o.endedAt()
	if o.Schedule == "" {
		terms := append(make([]effects.Term, 0, 2), effects.Term{Name: RecurringTerm(o.RecurringID), At: o.DecidedAt})
		return withEnd(terms, ended, has)
	}
	of := o.scope()
	terms := append(make([]effects.Term, 0, 9),
		effects.Term{Name: TermAll, At: o.DueAt, Counted: true},
		effects.Term{Name: RecurringTerm(o.RecurringID), At: o.DueAt},
		effects.Term{Name: TenantTerm(of), At: o.DueAt, Counted: true},
		effects.Term{Name: TermWithin(o.status(), of), At: o.DueAt, Counted: true},
	)
	if o.Name != "" && o.Schedule != KindJob {
		terms = append(terms, effects.Term{Name: TermWithin(ScheduleNameTerm(o.Name), of), At: o.DueAt})
	}
	if o.Manual {
		terms = append(terms, effects.Term{Name: TermWithin(TermManual, of), At: o.DueAt})
	}
	if o.Backfill != uuid.Nil {
		terms = append(terms, effects.Term{Name: TermWithin(BackfillTerm(o.Backfill), of), At: o.DueAt})
	}
	if terms = o.withSpan(terms); has {
		terms = append(terms, effects.Term{Name: TermWithin(TermEnded, of), At: ended})
	}
	return withEnd(terms, ended, has)
}
