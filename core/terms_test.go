package core_test

import (
	"fmt"
	"slices"
	"testing"

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
