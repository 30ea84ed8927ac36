package core_test

import (
	"fmt"
	"slices"
	"testing"

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
	if statuses := core.StatusTerms(kind); len(statuses) > 0 {
		of := core.ScopeOf(s)
		listed := slices.DeleteFunc(slices.Clone(statuses), func(status string) bool { return !hasTerm(terms, core.TermWithin(status, of)) })
		require.Len(t, listed, 1, "%s stands under %v", s.Ref(), terms)
		require.True(t, hasTerm(terms, core.TermAll))
	}
	at, ended := core.EndedAt(s)
	want := ended && !core.MustBeKept(s) && core.ExpireEvent(kind) != nil
	require.Equal(t, want, slices.Contains(terms, effects.Term{Name: core.TermEnded, At: at}), "%v", terms)
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
