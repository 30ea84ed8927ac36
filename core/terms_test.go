package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// checkTerms checks what lists and retention rely on: a machine stands under one of the
// statuses of its kind, and under its end exactly if it may be forgotten.
func checkTerms(t tb, s core.State) {
	t.Helper()
	kind, terms := s.Ref().Kind, s.Terms()
	o, _ := s.(core.Occurrence)
	if statuses := core.StatusTerms(kind); len(statuses) > 0 && (kind != core.KindOccurrence || o.Schedule != "") {
		of := core.ScopeOf(s)
		listed := slices.DeleteFunc(slices.Clone(statuses), func(status string) bool { return !hasTerm(terms, core.TermWithin(status, of)) })
		require.Len(t, listed, 1, "%s stands under %v", s.Ref(), terms)
		require.True(t, hasTerm(terms, core.TermAll))
	}
	at, ended := core.EndedAt(s)
	want := ended && !core.MustBeKept(s) && core.ExpireEvent(kind) != nil
	require.Equal(t, want, slices.Contains(terms, effects.Term{Name: core.TermEnded, At: at}), "%v", terms)
	failed, has := core.FailedAt(s)
	require.Equal(t, has, slices.Contains(terms, effects.Term{Name: core.TermWithin(core.TermFailed, core.ScopeOf(s)), At: failed}), "%v", terms)
	require.False(t, has && failed.IsZero(), "%s has failed at no time", s.Ref())
	for _, former := range core.FormerTerms(s) {
		require.False(t, hasTerm(terms, former.Name), "%v", former)
	}
}

func hasTerm(terms []effects.Term, name string) bool {
	return slices.ContainsFunc(terms, func(t effects.Term) bool { return t.Name == name })
}

func TestTheFormerTermsOfAMachineAreThoseOfTheVersionBefore(t *testing.T) {
	all := effects.Term{Name: "all", At: start, Counted: true}
	action := core.Action{ActionSpec: core.ActionSpec{ID: id(1), Namespace: "ns", Tenant: "t"}, Status: core.Status{Type: core.StatusFailed}, CreatedAt: start}
	assert.Equal(t, []effects.Term{{Name: "status:failed", At: start, Counted: true}, {Name: "scope:ns\x1ft", At: start}}, core.FormerTerms(action))
	lock := core.Lock{ID: id(1), CreatedAt: start}
	assert.Equal(t, []effects.Term{{Name: "held:false", At: start, Counted: true}, {Name: "scope:\x1f", At: start}}, core.FormerTerms(lock))
	assert.Equal(t, []effects.Term{all}, core.FormerTerms(core.Occurrence{ID: id(1), DecidedAt: start}))
	assert.Empty(t, core.FormerTerms(core.Scheduler{ID: id(1), CreatedAt: start}))
}

func TestAnActionOfAWebhookStandsUnderItsRouteWithinItsTenant(t *testing.T) {
	a := core.Action{ActionSpec: core.ActionSpec{ID: id(1), Namespace: "n", Tenant: "t", Trigger: core.Trigger{Type: core.TriggerWebhook, Route: "deploys"}}, CreatedAt: start}
	assert.Contains(t, a.Terms(), effects.Term{Name: "route:deploys\x1fn\x1ft", At: start})
	assert.Equal(t, core.Scope{Namespace: "n", Tenant: "t"}, core.TermTenant("route:deploys\x1fn\x1ft"))
	a.Trigger = core.Scheduled(start)
	assert.Len(t, a.Terms(), 3)
}

func TestAMachineStandsUnderItsFirstLabels(t *testing.T) {
	a := core.Action{ActionSpec: core.ActionSpec{ID: id(1), Namespace: "n", Labels: map[string]string{"bad": "\n"}}}
	for n := range core.MaxListedLabels {
		a.Labels[fmt.Sprint("k", n)] = "v"
	}
	label := func(n int) bool { return hasTerm(a.Terms(), fmt.Sprintf("label:k%d=v\x1fn\x1f", n)) }
	more := func() bool { return hasTerm(a.Terms(), "labels:more\x1fn\x1f") }
	assert.Equal(t, []bool{true, true, false}, []bool{label(0), label(7), more()}, "a label that cannot be listed does not count")
	a.Labels["k8"] = "v"
	assert.Equal(t, []bool{true, true, false, true}, []bool{label(0), label(7), label(8), more()})
}

// docs/performance.md says so.
func TestTheListsCostSixWritesInTheLifeOfAnActionThatBeginsAtOnce(t *testing.T) {
	var a core.Action
	puts, deletes := 0, 0
	apply := func(events ...core.ActionEvent) { // one batch
		before := a.Terms()
		if a.ID == uuid.Nil {
			before = nil
		}
		for _, e := range events {
			var effs []effects.Effect
			a, effs = a.Apply(e, core.Clock{Now: start})
			require.Nil(t, refusal(effs))
		}
		after := a.Terms()
		if a.ID == uuid.Nil {
			after = nil
		}
		for _, term := range after {
			if !slices.Contains(before, term) {
				puts++
			}
		}
		for _, term := range before {
			if !slices.Contains(after, term) {
				deletes++
			}
		}
	}
	apply(core.ActionCreate{Spec: core.ActionSpec{ID: id(1), ToolName: "http", Trigger: core.Scheduled(start)}}, core.ActionDue{})
	apply(core.ActionComplete{Run: a.Run})
	assert.Equal(t, []int{5, 1}, []int{puts, deletes})
	puts, deletes = 0, 0
	apply(core.ActionExpire{})
	assert.Equal(t, []int{0, 4}, []int{puts, deletes}, "retention")
}

// Lists by tenant, schedule, verdict, outcome, name, hand and backfill read no entry in vain, and
// an entry of a build before those lists stays where it was.
func TestAnEntryOfTheLedgerStandsInTheListsThatItIsLookedForIn(t *testing.T) {
	due, decided, of := start, start.Add(time.Minute), core.Scope{Namespace: "ns", Tenant: "t"}
	o := core.Occurrence{
		ID: id(1), RecurringID: id(2), DueAt: due, LastDueAt: due, DecidedAt: decided, Verdict: core.VerdictDispatched, Count: 1,
		Outcome: "failed", FinishedAt: decided,
	}
	assert.Equal(t, []effects.Term{{Name: "recurring:" + id(2).String(), At: decided}, {Name: core.TermEnded, At: decided}}, o.Terms(), "of an earlier build")
	o.Schedule, o.Namespace, o.Tenant, o.Name, o.Latest = core.KindRecurring, "ns", "t", "nightly", true
	in := func(o core.Occurrence, name string) bool {
		return slices.ContainsFunc(o.Terms(), func(term effects.Term) bool { return term.Name == name && term.At == due })
	}
	tenant := core.TenantTerm(of)
	assert.Equal(t, of, core.TenantOfTerm(tenant))
	assert.Equal(t, tenant, effects.CountName(tenant), "each tenant has a total of its own")
	for _, name := range []string{
		core.TermAll, tenant, core.RecurringTerm(id(2)), core.TermWithin("status:recurring:dispatched:failed", of), core.TermWithin(core.ScheduleNameTerm("nightly"), of),
	} {
		assert.True(t, in(o, name), name)
	}
	assert.Len(t, o.Terms(), 5, "one of the latest is not among what may be forgotten")
	byHand := o
	byHand.Manual, byHand.Backfill = true, id(3)
	assert.True(t, in(byHand, core.TermWithin(core.TermManual, of)))
	assert.True(t, in(byHand, core.TermWithin(core.BackfillTerm(id(3)), of)))
	job := o
	job.Schedule, job.Outcome = core.KindJob, "unheard of"
	assert.True(t, in(job, core.TermWithin("status:job:dispatched", of)), "an outcome that has no list")
	assert.Len(t, job.Terms(), 4, "a job is found by its key")
	o.Latest = false
	assert.Contains(t, o.Terms(), effects.Term{Name: core.TermEnded, At: decided})
	assert.Contains(t, o.Terms(), effects.Term{Name: core.TermWithin(core.TermEnded, of), At: decided})
	assert.Empty(t, core.FormerTerms(o))

	assert.Equal(t, []string{"status:job:dispatched:failed"}, core.OccurrenceTerms(core.KindJob, "", core.StatusFailed))
	assert.Equal(t, []string{"status:action:missed"}, core.OccurrenceTerms(core.KindAction, core.VerdictMissed, ""))
	assert.Len(t, core.OccurrenceTerms("", core.VerdictDispatched, ""), 3+3+3+5)
	assert.Len(t, core.OccurrenceTerms("", "", ""), 3*7+3+3+5)
}
