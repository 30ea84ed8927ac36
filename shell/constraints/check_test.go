package constraints_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobs"
)

// says is a constraint of the tests' own: its config says what it comes to.
type says struct {
	constraints.Lists
	Met     bool   `json:"met"`
	Message string `json:"message"`
	Error   string `json:"error"`
	Panic   bool   `json:"panic"`
}

func (s *says) Check(context.Context, *constraints.Input) (constraints.Outcome, error) {
	if s.Panic {
		panic("ouch")
	}
	if s.Error != "" {
		return constraints.Outcome{}, saidError(s.Error)
	}
	return constraints.Outcome{Met: s.Met, Message: s.Message}, nil
}

type saidError string

func (e saidError) Error() string { return string(e) }

func withSays(o *constraints.Options) {
	newSays := func(s constraints.Spec) (constraints.Constraint, error) {
		c := &says{}
		err := s.Decode(c)
		c.Lists = s.Lists
		return c, err
	}
	o.Constraints = map[string]constraints.Type{"says": {New: newSays}, "hints": {New: newSays, Advisory: true}}
}

func TestWhatViolatedConstraintsAndTheirActionsComeTo(t *testing.T) {
	for _, row := range []struct {
		name, config string
		proceed      bool
		message      string
	}{
		{"all are met", `constraints: [{says: {config: {met: true}}}, {says: {config: {met: true}}}]`, true, "all 2 constraints are met"},
		{"one is met", `constraints: [{says: {config: {met: true}}}]`, true, "its constraint is met"},
		{"one is violated", `constraints: [{says: {config: {met: true}}}, {says: {config: {message: "no"}}}]`, false, "violated: says-2: no"},
		{"several are, in their order", `constraints: [{says: {name: b, config: {message: one}}}, {says: {name: a, config: {message: two}}}]`, false, "violated: b: one; a: two"},
		{"an advisory one is", `constraints: [{hints: {config: {message: slow}}}]`, true, "violated: hints: slow"},
		{"one that is made advisory is", `constraints: [{says: {advisory: true}}]`, true, "violated: says"},
		{"an advisory one that is made to count is", `constraints: [{hints: {advisory: false}}]`, false, "violated: hints"},
		{"its action skips the run", `constraints: [{says: {onViolation: [skip]}}]`, true, "violated: says"},
		{"its action retries the run", `constraints: [{says: {onViolation: [{log: {message: x}}, retry]}}]`, true, "violated: says"},
		{"its action only logs", `constraints: [{says: {onViolation: [{log: {message: x}}]}}]`, false, "violated: says"},
		{"one decides and one does not", `constraints: [{says: {onViolation: [skip]}}, {says: {}}]`, false, "violated: says; says-2"},
		{"there are none", `constraints: []`, true, "there is nothing to check"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, row.config, "")
			w.run(j, noon, nil)
			r := pre(t, w, checker(t, w, withSays), j)
			assert.Equal(t, row.proceed, r.ShouldProceed)
			assert.Equal(t, row.message, r.Message)
		})
	}
}

func TestTheActionsOfWhatAConstraintCameToAreNamedInOrder(t *testing.T) {
	w, j := newWorld(), job(t, `
constraints:
- says:
    config: {message: "too late"}
    onViolation: [{log: {message: "${constraint} of ${run_id}: ${message}"}}, page, {skipNext: {reason: "$${x}"}, continueOnError: true}]
    onMet: [fail]
- says:
    name: fine
    config: {met: true}
    onViolation: [fail]
    onMet: [{enqueue: {queue: q, data: {job: "${job_id}", count: 12345678901234567890}, key: "${tenant}"}}]
`, `actions: {page: {webhook: {url: "https://example.com/"}, continueOnError: true}}`)
	w.run(j, noon, nil)
	r := pre(t, w, checker(t, w, withSays), j)
	require.Len(t, r.Checks, 2)
	first := r.Checks[0]
	assert.Equal(t, core.ConstraintCheck{Name: "says", Phase: effects.CheckPre, Message: "too late", Actions: first.Actions}, first)
	require.Len(t, first.Actions, 3)
	assert.Equal(t, "log", first.Actions[0].Type)
	assert.JSONEq(t, `{"message":"says of report:2026-03-10T12:00:00.000Z: too late"}`, string(first.Actions[0].Config))
	assert.Equal(t, core.ActionRequest{Type: "webhook", Config: json.RawMessage(`{"url":"https://example.com/"}`), ContinueOnError: true}, first.Actions[1])
	assert.Equal(t, core.ActionRequest{Type: "skipNext", Config: json.RawMessage(`{"reason":"${x}"}`), ContinueOnError: true}, first.Actions[2])
	require.Len(t, r.Checks[1].Actions, 1)
	assert.JSONEq(t, `{"queue":"q","data":{"job":"report","count":12345678901234567890},"key":"acme"}`, string(r.Checks[1].Actions[0].Config))
	assert.Contains(t, string(r.Checks[1].Actions[0].Config), "12345678901234567890", "no digit is lost")
}

func TestAConstraintThatCannotBeCheckedCountsAsItsPolicySays(t *testing.T) {
	const fails, no = `says: {config: {error: "no idea"}`, `{says: {name: other, config: {message: never}}}`
	for _, row := range []struct {
		name    string
		policy  core.ErrorPolicy
		config  string
		err     string
		proceed bool
		actions []string // of the first check
	}{
		{name: "closed by the job", policy: core.FailClosed, config: fails + `}`, err: "could not be checked: says: no idea"},
		{name: "closed where nothing is said", config: fails + `}`, err: "could not be checked: says: no idea"},
		{name: "open by the job", policy: core.FailOpen, config: fails + `}`, proceed: true},
		{name: "open by itself", policy: core.FailClosed, config: fails + `, onError: open}`, proceed: true},
		{name: "closed by itself", policy: core.FailOpen, config: fails + `, onError: closed}`, proceed: true, actions: []string{"retry"}},
		{name: "closed, but another is violated", policy: core.FailClosed, config: fails + `}}, ` + no[:len(no)-1]},
		{name: "its actions are not taken", policy: core.FailOpen, config: fails + `, onMet: [fail], onViolation: [fail]}`, proceed: true},
		{name: "a panic", policy: core.FailClosed, config: `says: {config: {panic: true}}`, err: "could not be checked: says: it panicked"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, "constraints: [{"+row.config+"}]", "")
			j.ConstraintErrors = row.policy
			w.run(j, noon, nil)
			c := checker(t, w, withSays)
			require.NoError(t, c.Validate(j))
			r, err := c.CheckPreExecution(t.Context(), j, core.RunID(j.ID, noon))
			if row.err != "" {
				require.EqualError(t, err, row.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.proceed, r.ShouldProceed)
			require.NotEmpty(t, r.Checks)
			assert.Equal(t, "no idea", r.Checks[0].Error)
			var types []string
			for _, a := range r.Checks[0].Actions {
				types = append(types, a.Type)
			}
			assert.Equal(t, row.actions, types)
		})
	}
}

func TestAnErrorThatCountsAsMetLeavesTheBoundOfTheRunTimeInPlace(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{says: {config: {error: x}}}, {maxAllowedRunTime: {config: {limit: 10m}}}]`, "")
	j.ConstraintErrors = core.FailOpen
	w.run(j, noon, nil)
	r := pre(t, w, checker(t, w, withSays), j)
	assert.True(t, r.ShouldProceed)
	assert.Equal(t, 10*time.Minute, r.MaxAllowedRunTime)
}

func TestAfterTheRunAnActionThatSkipsLetsItBe(t *testing.T) {
	for _, row := range []struct {
		config  string
		proceed bool
		err     bool
	}{
		{config: `{says: {phase: post, onViolation: [skip]}}`, proceed: true},
		{config: `{says: {phase: post, onViolation: [retry]}}`, proceed: true},
		{config: `{says: {phase: post}}`},
		{config: `{says: {phase: pre}}`, proceed: true},
		{config: `{says: {phase: both}}`},
		// What is let be does not hide a doubt, which fails the run.
		{config: `{says: {phase: post, onViolation: [skip]}}, {says: {phase: post, config: {error: x}}}`, err: true},
		{config: `{says: {phase: post, onViolation: [skip, fail]}}, {says: {phase: post, config: {error: x}}}`, proceed: true},
	} {
		t.Run(row.config, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [`+row.config+`]`, "")
			w.run(j, noon, nil)
			c := checker(t, w, withSays)
			require.NoError(t, c.Validate(j))
			r, err := c.CheckPostExecution(t.Context(), j, core.RunID(j.ID, noon), noon.Std(), noon.Std(), 0)
			require.Equal(t, row.err, err != nil, "%v", err)
			assert.Equal(t, row.proceed, r.ShouldProceed)
		})
	}
}

func TestACheckWhoseContextEndsHasNoVerdict(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{says: {config: {message: bad}}}]`, "")
	w.run(j, noon, nil)
	c := checker(t, w, withSays)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.CheckPreExecution(ctx, j, core.RunID(j.ID, noon))
	require.ErrorIs(t, err, context.Canceled)
}

func TestACheckOfARunThatNobodyKnowsIsAnError(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: []`, "")
	_, err := checker(t, w, nil).CheckPreExecution(t.Context(), j, "report:never")
	require.ErrorContains(t, err, "read run report:never: not found")
	_, err = checker(t, nil, nil).CheckPreExecution(t.Context(), j, "report:never")
	require.ErrorContains(t, err, "call Use first")
}

func TestTheBoundOfTheRunTimeIsTheLeastOne(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{maxAllowedRunTime: {config: {limit: 2h}}}, {maxAllowedRunTime: {config: {limit: 90m}}}]`, "")
	w.run(j, noon, nil)
	r := pre(t, w, checker(t, w, nil), j)
	assert.Equal(t, 90*time.Minute, r.MaxAllowedRunTime)
	assert.Empty(t, r.Checks, "nothing is known of it before the run")
}

func TestRunTimesAreThoseOfThePodWhereTheClusterKnowsThem(t *testing.T) {
	start := noon.Std()
	for _, row := range []struct {
		name             string
		told, seen       time.Duration // 0: not known
		allowed, expects bool          // are met, both with ten minutes
	}{
		{"shorter", 9 * time.Minute, 9 * time.Minute, true, true},
		{"longer, as the cluster says", 11 * time.Minute, 0, false, false},
		{"in time, but nobody watched", 9 * time.Minute, time.Hour, true, true},
		{"killed at the limit, as the machine saw", 0, 10 * time.Minute, false, true},
		{"killed at the limit, which the cluster rounds", 10 * time.Minute, 10 * time.Minute, false, true},
		{"killed at the limit, a second short by the cluster", 10*time.Minute - 900*time.Millisecond, 10*time.Minute + 100*time.Millisecond, false, true},
		{"as long as it may, and nobody watched", 10 * time.Minute, 0, true, true},
		{"it never ran", 0, 0, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [{maxAllowedRunTime: {config: {limit: 10m}}}, {maxExpectedRunTime: {config: {limit: 10m}}}]`, "")
			w.run(j, noon, func(o *core.Orchestrator) {
				o.State = core.OrchestratorTerminating
				if row.seen > 0 {
					o.ExecutionStartedAt, o.ExecutionEndedAt = noon, noon.Add(row.seen)
				}
			})
			var from, to time.Time
			if row.told > 0 {
				from, to = start, start.Add(row.told)
			}
			c := checker(t, w, nil)
			r, err := c.CheckPostExecution(t.Context(), j, core.RunID(j.ID, noon), from, to, 137)
			require.NoError(t, err)
			require.Len(t, r.Checks, 2)
			assert.Equal(t, row.allowed, r.Checks[0].Met, r.Checks[0].Message)
			assert.Equal(t, row.expects, r.Checks[1].Met, r.Checks[1].Message)
			assert.Equal(t, row.allowed, r.ShouldProceed)
		})
	}
}

var _ jobs.ConstraintChecker = (*constraints.Checker)(nil)
