package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

// checker is a scripted checker and executor: one constraint with one action.
type checker struct {
	result          jobs.ConstraintCheckResult
	pre, post, take func(context.Context) error // come before
	invalid         error

	mu      sync.Mutex
	actions []jobs.Action
	posts   []postCheck
}

type postCheck struct {
	run        string
	start, end time.Time
	exit       int
}

func newChecker() *checker {
	return &checker{result: jobs.ConstraintCheckResult{ShouldProceed: true, Message: "all well", Checks: []core.ConstraintCheck{{
		Name: "window", Met: true,
		Actions: []core.ActionRequest{{Constraint: "window", Type: "page", Config: json.RawMessage(`{"to":"ann"}`)}},
	}}}}
}

// agrees is a checker that asks for nothing.
func agrees() *checker {
	return &checker{result: jobs.ConstraintCheckResult{ShouldProceed: true}}
}

func (k *checker) Validate(*jobs.Job) error { return k.invalid }

func (k *checker) CheckPreExecution(ctx context.Context, _ *jobs.Job, _ string) (jobs.ConstraintCheckResult, error) {
	if k.pre != nil {
		if err := k.pre(ctx); err != nil {
			return jobs.ConstraintCheckResult{}, err
		}
	}
	return k.result, nil
}

func (k *checker) CheckPostExecution(ctx context.Context, _ *jobs.Job, run string, start, end time.Time, exit int) (jobs.ConstraintCheckResult, error) {
	if k.post != nil {
		if err := k.post(ctx); err != nil {
			return jobs.ConstraintCheckResult{}, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.posts = append(k.posts, postCheck{run, start, end, exit})
	return jobs.ConstraintCheckResult{ShouldProceed: true}, nil
}

func (k *checker) Take(ctx context.Context, _ *jobs.Job, _ string, a jobs.Action) error {
	if k.take != nil {
		if err := k.take(ctx); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.actions = append(k.actions, a)
	return nil
}

func TestConstraintsAreCheckedBeforeAndAfterAndTheirActionsTaken(t *testing.T) {
	k := newChecker()
	k.result.MaxAllowedRunTime = time.Hour + time.Microsecond
	withRig(t, func(r *rig) { r.o.Checker, r.o.Actions = k, k }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", constrained))
		made, err := r.fake.Created(t.Context(), o.RunID, 0)
		require.NoError(t, err)
		assert.EqualValues(t, 3_600_001, made.MaxAllowedRunTimeMS, "rounded up")
		r.fake.Start(made.Attempt)
		pass(time.Minute)
		r.fake.End(made.Attempt, 3, "")
		end := r.ended(o)

		require.Len(t, k.actions, 1)
		assert.Equal(t, jobs.Action{
			Constraint: "window", Type: "page", Config: json.RawMessage(`{"to":"ann"}`), Key: o.ID.String() + "/1",
		}, k.actions[0])
		require.Len(t, end.Checks, 1)
		assert.Equal(t, "window", end.Checks[0].Name)
		require.Len(t, k.posts, 1)
		p := k.posts[0]
		assert.Equal(t, o.RunID, p.run)
		assert.Equal(t, 3, p.exit)
		assert.Equal(t, time.Minute, p.end.Sub(p.start))
	})
}

func TestThePodsOwnTimesGoToTheCheckAfterwards(t *testing.T) {
	k := newChecker()
	withRig(t, func(r *rig) { r.o.Checker, r.o.Actions = k, k }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", constrained))
		a := r.created(o, 0)
		from := effects.TimeOf(time.Now()).Add(2 * time.Second)
		pass(7 * time.Second)
		_, err := r.e.Runs().Send(t.Context(), o.ID, core.PodEnded{Attempt: a.N, Pod: core.Pod{
			Reason: "Evicted", StartedAt: from, FinishedAt: from.Add(time.Second),
		}})
		require.NoError(t, err)
		r.ended(o)
		require.Len(t, k.posts, 1)
		assert.Equal(t, postCheck{o.RunID, from.Std(), from.Add(time.Second).Std(), -1}, k.posts[0])
	})
}

// A cluster that tells half, or what cannot be, is not believed: what we saw counts.
func TestTimesOfAPodThatCannotBeAreNotBelieved(t *testing.T) {
	from := effects.MinTime.Add(time.Hour)
	for name, pod := range map[string]core.Pod{
		"it ended before it began": {StartedAt: from.Add(time.Second), FinishedAt: from},
		"no end":                   {StartedAt: from},
		"no beginning":             {FinishedAt: from},
	} {
		t.Run(name, func(t *testing.T) {
			k := newChecker()
			withRig(t, func(r *rig) { r.o.Checker, r.o.Actions = k, k }, func(t *testing.T, r *rig) {
				o, a := r.started(job("nightly", constrained))
				began := time.Now()
				pass(7 * time.Second)
				_, err := r.e.Runs().Send(t.Context(), o.ID, core.PodEnded{Attempt: a.N, Pod: pod})
				require.NoError(t, err)
				r.ended(o)
				require.Len(t, k.posts, 1)
				assert.True(t, began.Equal(k.posts[0].start), k.posts[0].start)
				assert.Equal(t, 7*time.Second, k.posts[0].end.Sub(k.posts[0].start))
			})
		})
	}
}

func TestAnActionThatIsTakenAgainAfterACrashHasTheSameKey(t *testing.T) {
	k := newChecker()
	var keys []string
	k.take = func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	withRig(t, func(r *rig) { r.o.Checker, r.o.Actions = k, keyed{k, &keys} }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", constrained))
		for r.run(o.ID).State != core.OrchestratorActionRunning {
			pass(time.Second)
		}
		r.stop()
		k.take, r.fake.Script = nil, runnertest.Succeeds
		r.start()
		r.ended(o)
		require.Len(t, keys, 2)
		assert.Equal(t, keys[0], keys[1])
	})
}

// keyed notes the keys of all actions.
type keyed struct {
	*checker
	keys *[]string
}

func (k keyed) Take(ctx context.Context, job *jobs.Job, run string, a jobs.Action) error {
	*k.keys = append(*k.keys, a.Key)
	return k.checker.Take(ctx, job, run, a)
}

func TestAnActionThatFailsFailsTheRun(t *testing.T) {
	k := newChecker()
	k.take = func(context.Context) error { return permanent{errors.New("nobody answers")} }
	withRig(t, func(r *rig) { r.o.Checker, r.o.Actions = k, k }, func(t *testing.T, r *rig) {
		o := r.ended(r.trigger(job("nightly", constrained)))
		assert.Equal(t, core.OrchestratorFailed, o.State)
		assert.Equal(t, "action page of constraint window: nobody answers", o.Error)
	})
}

func TestAJobWithConstraintsIsRefusedWhereNobodyChecksThem(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		require.EqualError(t, r.s.Check(job("nightly", constrained)),
			"constraint_config: no checker of constraints is configured: leave it out")
		// One that was applied before.
		_, err := r.e.Jobs().Apply(t.Context(), job("nightly", constrained))
		require.NoError(t, err)
		made, err := r.e.Jobs().Trigger(t.Context(), scope, "nightly", shell.TriggerOptions{By: "test"})
		require.NoError(t, err)
		o, err := r.e.Runs().Wait(t.Context(), made.Run)
		require.NoError(t, err)
		assert.Equal(t, core.OrchestratorFailed, o.State)
		assert.Contains(t, o.Error, "no checker of constraints is configured")
	})
}

func TestCheckNamesTheFieldThatIsWrong(t *testing.T) {
	k := newChecker()
	k.invalid = errors.New("constraint_config.constraints[0]: \"made-up\" is unknown")
	withRig(t, func(r *rig) {
		r.o.Runners["other"] = &runnertest.Fake{OnCheck: func(core.JobSpec) error { return errors.New("pod_spec.volumes: not here") }}
		r.o.Checker = k
	}, func(t *testing.T, r *rig) {
		runner := func(name string) func(*core.JobSpec) { return func(s *core.JobSpec) { s.Runner = name } }
		require.EqualError(t, r.s.Check(job("j")), "runner: missing, and there is no default one: use one of fake, other")
		require.EqualError(t, r.s.Check(job("j", runner("mine"))), `runner: "mine" is not configured: use one of fake, other`)
		require.EqualError(t, r.s.Check(job("j", runner("other"))), "pod_spec.volumes: not here")
		require.EqualError(t, r.s.Check(job("j", runner("fake"), constrained)), k.invalid.Error())
	})
}
