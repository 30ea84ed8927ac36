package jobs_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

// notForUs has the runner serve other tenants alone.
func notForUs(r *rig) {
	r.o.Tenants = map[string][]shell.Scope{"fake": {{Namespace: "team", Tenant: "a"}, {Namespace: "open", Tenant: "*"}}}
}

const notOurs = `runner: "fake" is not for jobs of default/default: name another runner, or have "default/default" written into the tenants of the runner`

func TestARunnerIsForTheTenantsThatItNames(t *testing.T) {
	s, err := jobs.New(jobs.Options{
		Runners: map[string]jobs.Runner{"fake": &runnertest.Fake{}, "other": &runnertest.Fake{}}, DefaultRunner: "fake",
		Tenants: map[string][]shell.Scope{"fake": {{Namespace: "team", Tenant: "a"}, {Namespace: "open", Tenant: "*"}}, "other": {}},
	})
	require.NoError(t, err)
	for scope, may := range map[shell.Scope]bool{
		{Namespace: "team", Tenant: "a"}: true, {Namespace: "open", Tenant: "x/y"}: true,
		{Namespace: "team", Tenant: "b"}: false, {Namespace: "team/a"}: false, {Tenant: "team/a"}: false, {Namespace: "*", Tenant: "*"}: false, {}: false,
	} {
		spec := job("j")
		spec.Namespace, spec.Tenant = scope.Namespace, scope.Tenant
		assert.Equal(t, may, s.Check(spec) == nil, "%v", scope)
		spec.Runner = "other"
		require.NoError(t, s.Check(spec), "an empty list is for all")
	}
	require.EqualError(t, s.Check(job("j")), notOurs)
	_, err = jobs.New(jobs.Options{Runners: map[string]jobs.Runner{"fake": &runnertest.Fake{}}, Tenants: map[string][]shell.Scope{"x": nil}})
	require.EqualError(t, err, `jobs: Options.Tenants["x"]: it must name one of the runners fake`)
}

func TestARunOfATenantThatTheRunnerIsNotForHasNoPod(t *testing.T) {
	withRig(t, notForUs, func(t *testing.T, r *rig) {
		_, err := r.e.Jobs().Apply(t.Context(), job("older", retries(2)))
		require.NoError(t, err)
		made, err := r.e.Jobs().Trigger(t.Context(), scope, "older", shell.TriggerOptions{})
		require.NoError(t, err)
		o := r.ended(r.run(made.Run))
		assert.Equal(t, core.OrchestratorFailed, o.State)
		assert.Equal(t, "creating the pod: "+notOurs, o.Error)
		assert.Zero(t, o.RetryAttempt, "another attempt would be refused, too")
		assert.Empty(t, r.fake.Attempts())
	})
}

func TestWhatRunsGoesOnWhenItsRunnerIsForOthers(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		r.stop()
		notForUs(r)
		r.start()
		synctest.Wait()
		r.fake.End(a, 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
		assert.Empty(t, r.fake.Attempts(), "and it is deleted")
	})
}

func TestAPodThatWaitedForRoomIsNotCreatedOnARunnerThatIsForOthersByThen(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		first, a := r.started(job("first"))
		second := r.trigger(job("second", retries(2)))
		synctest.Wait()
		r.stop()
		notForUs(r)
		r.start()
		synctest.Wait()
		r.fake.End(a, 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(first).State)
		end := r.ended(second)
		assert.Equal(t, "creating the pod: "+notOurs, end.Error)
		assert.Zero(t, end.RetryAttempt, "the next attempt would fare no better")
		assert.Empty(t, r.fake.Attempts())
	})
}

func TestTheToolOfJobsRefusesARunnerThatIsNotForItsTenant(t *testing.T) {
	withRig(t, notForUs, func(t *testing.T, r *rig) {
		_, err := r.e.Jobs().Apply(t.Context(), job("nightly"))
		require.NoError(t, err)
		own := r.wait(r.action(onePod))
		assert.Equal(t, core.StatusFailed, own.Status.Type)
		assert.Contains(t, own.Status.Reason, "tool_input."+notOurs)
		stored := r.wait(r.action(`{"job":"nightly"}`))
		assert.Equal(t, core.StatusFailed, stored.Status.Type)
		assert.Contains(t, stored.Status.Reason, `tool_input.job: job "nightly": `+notOurs)
		assert.Empty(t, r.allRuns(), "nothing was triggered")
	})
}
