package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

const onePod = `{"pod_spec":{"containers":[{"name":"main","image":"busybox"}]}}`

func (r *rig) action(input string, change ...func(*core.ActionSpec)) core.Action {
	r.t.Helper()
	spec := core.ActionSpec{
		Namespace: scope.Namespace, Tenant: scope.Tenant, ToolName: jobs.ToolName, ToolInput: json.RawMessage(input),
	}
	for _, c := range change {
		c(&spec)
	}
	a, err := r.e.Actions().Create(r.t.Context(), spec)
	require.NoError(r.t, err)
	synctest.Wait()
	return a
}

func (r *rig) wait(a core.Action) core.Action {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 6*time.Hour) // of the test's own clock
	defer cancel()
	a, err := r.e.Actions().Wait(ctx, a.ID)
	require.NoError(r.t, err)
	return a
}

// result is what the tool says of a run.
type result struct {
	RunID    string                  `json:"run_id"`
	State    core.OrchestratorStatus `json:"state"`
	ExitCode *int32                  `json:"exit_code"`
	Attempts uint32                  `json:"attempts"`
	Error    string                  `json:"error"`
}

func (r *rig) jobsLeft() (names []string) {
	r.t.Helper()
	list, _, err := r.e.Jobs().List(r.t.Context(), shell.JobFilter{}, shell.Page{})
	require.NoError(r.t, err)
	for _, j := range list {
		names = append(names, j.ID)
	}
	return names
}

func (r *rig) allRuns() []core.Orchestrator {
	r.t.Helper()
	list, _, err := r.e.Runs().List(r.t.Context(), shell.JobRunFilter{}, shell.Page{})
	require.NoError(r.t, err)
	return list
}

func TestAnActionRunsAJobAndEndsAsItsRunDoes(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		_, err := r.e.Jobs().Apply(t.Context(), job("nightly"))
		require.NoError(t, err)
		a := r.action(`{"job":"nightly"}`)
		run := r.latest("nightly")
		r.fake.End(r.created(run, 0), 0, "")
		a = r.wait(a)
		assert.Equal(t, core.StatusCompleted, a.Status.Type, a.Status.Reason)
		zero := int32(0)
		assert.Equal(t, result{RunID: run.RunID, State: core.OrchestratorCompleted, ExitCode: &zero, Attempts: 1}, decoded[result](t, a.Status.Result))

		pass(time.Second) // so that it is the latest one
		a = r.action(`{"job":"nightly"}`)
		run = r.latest("nightly")
		r.fake.End(r.created(run, 0), 9, "OOMKilled")
		a = r.wait(a)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Equal(t, "run "+run.RunID+" is failed: exit code 9: OOMKilled", a.Status.Reason)
		assert.EqualValues(t, 9, *decoded[result](t, a.Status.Result).ExitCode)
	})
}

func TestAnActionRunsAPodOfItsOwn(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		a := r.action(onePod)
		require.Equal(t, []string{"action-" + a.ID.String() + "-1"}, r.jobsLeft())
		run := r.allRuns()[0]
		r.fake.End(r.created(run, 0), 0, "")
		a = r.wait(a)
		assert.Equal(t, core.StatusCompleted, a.Status.Type, a.Status.Reason)
		assert.Empty(t, r.jobsLeft())
		assert.Equal(t, core.OrchestratorCompleted, r.run(run.ID).State, "the record of the run stays")
	})
}

func TestCancellingTheActionCancelsTheRun(t *testing.T) {
	for name, input := range map[string]string{"of a job": `{"job":"nightly"}`, "of its own": onePod} {
		t.Run(name, func(t *testing.T) {
			withRig(t, nil, func(t *testing.T, r *rig) {
				_, err := r.e.Jobs().Apply(t.Context(), job("nightly"))
				require.NoError(t, err)
				a := r.action(input)
				run := r.allRuns()[0]
				r.fake.Start(r.created(run, 0))
				_, err = r.e.Actions().Cancel(t.Context(), a.ID, "test")
				require.NoError(t, err)
				assert.Equal(t, core.OrchestratorCancelled, r.ended(run).State)
				assert.Equal(t, "action "+a.ID.String()+": the action was cancelled", r.run(run.ID).Error)
				assert.Empty(t, r.fake.Attempts())
				synctest.Wait()
				assert.Equal(t, []string{"nightly"}, r.jobsLeft())
			})
		})
	}
}

func TestTheTimeLimitOfAnActionCancelsTheRun(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		a := r.action(onePod, func(s *core.ActionSpec) { s.Policy = core.RunPolicy{TimeoutMS: 60_000} })
		run := r.allRuns()[0]
		r.fake.Start(r.created(run, 0))
		a = r.wait(a)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Equal(t, "run "+run.RunID+": the action reached its time limit", a.Status.Reason)
		assert.Equal(t, core.OrchestratorCancelled, r.ended(run).State)
		assert.Equal(t, "action "+a.ID.String()+": the action reached its time limit", r.run(run.ID).Error)
	})
}

func TestAnAttemptAfterACrashGoesOnWithTheSameRun(t *testing.T) {
	for name, input := range map[string]string{"of a job": `{"job":"nightly"}`, "of its own": onePod} {
		for when, before := range map[string]bool{"ended meanwhile": true, "ends later": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				withRig(t, nil, func(t *testing.T, r *rig) {
					_, err := r.e.Jobs().Apply(t.Context(), job("nightly"))
					require.NoError(t, err)
					a := r.action(input, func(s *core.ActionSpec) { s.Policy = core.RunPolicy{MaxAttempts: 5, OnInterrupt: core.InterruptRetry} })
					run := r.allRuns()[0]
					pod := r.created(run, 0)
					r.fake.Start(pod)
					r.stop()
					if before {
						r.fake.End(pod, 0, "")
					}
					r.start()
					synctest.Wait()
					if !before {
						pass(time.Minute)
						r.fake.End(pod, 0, "")
					}
					a = r.wait(a)
					assert.Equal(t, core.StatusCompleted, a.Status.Type, a.Status.Reason)
					assert.Len(t, r.allRuns(), 1, "no second run was made")
				})
			})
		}
	}
}

func TestARunThatFailedWhileNobodyWatchedFailsItsActionAndIsNotMadeAgain(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		a := r.action(onePod, func(s *core.ActionSpec) { s.Policy = core.RunPolicy{MaxAttempts: 5, OnInterrupt: core.InterruptRetry} })
		pod := r.created(r.allRuns()[0], 0)
		r.fake.Start(pod)
		r.stop()
		r.fake.End(pod, 1, "")
		r.start()
		a = r.wait(a)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Contains(t, a.Status.Reason, "exit code 1")
		assert.Len(t, r.allRuns(), 1)
		assert.Empty(t, r.jobsLeft())
	})
}

func TestTheJobOfAnActionThatHasEndedIsDeleted(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		id := uuid.Max.String() // no action has it any more
		left := job("action-"+id+"-0", func(s *core.JobSpec) { s.Labels = map[string]string{"action-id": id} })
		mine := job("action-mine")
		for _, spec := range []core.JobSpec{left, mine} {
			_, err := r.e.Jobs().Apply(t.Context(), spec)
			require.NoError(t, err)
		}
		pass(10 * time.Minute)
		assert.Equal(t, []string{"action-mine"}, r.jobsLeft())
	})
}

func TestTheInputOfTheToolIsCheckedBeforeTheActionIsStored(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		for input, want := range map[string]string{
			`{}`:                                     "tool_input: give either job, the id of a job to trigger, or pod_spec, a pod to run",
			`{"job":"a","pod_spec":{}}`:              "tool_input: give either job",
			`{"job":""}`:                             "tool_input.job: missing",
			`{"job":"a","runner":"fake"}`:            "tool_input: beside job nothing else can be given",
			`{"job":"a","what":1}`:                   "tool_input.what",
			`{"pod_spec":[]}`:                        "tool_input.pod_spec",
			`{"pod_spec":{},"runner":"mine"}`:        `tool_input.runner: "mine" is not configured`,
			`{"pod_spec":{},"constraint_config":{}}`: "tool_input.constraint_config: no checker",
			`{"pod_spec":{},"ttl_seconds_after_finished":604801}`:                           "tool_input.ttl_seconds_after_finished: ",
			`{"pod_spec":{},"orphan_policy":"keep"}`:                                        `tool_input.orphan_policy: "keep" is unknown`,
			`{"pod_spec":{},"orphan_policy":"keep","retry_config":{"max_retries":4000000}}`: "\ntool_input.orphan_policy: ",
		} {
			_, err := r.e.Actions().Create(t.Context(), core.ActionSpec{
				Namespace: scope.Namespace, Tenant: scope.Tenant, ToolName: jobs.ToolName, ToolInput: json.RawMessage(input),
			})
			assert.ErrorContains(t, err, want, input)
		}
	})
}

// What it was stored with may be refused later: the daemon was configured anew.
func TestAnActionWhoseInputIsRefusedOnlyAsItBeginsSaysAllThatIsWrong(t *testing.T) {
	withRig(t, func(r *rig) {
		var checks atomic.Int32
		r.fake.OnCheck = func(core.JobSpec) error {
			if checks.Add(1) == 1 {
				return nil
			}
			return errors.New("pod_spec.a: no\npod_spec.b: no")
		}
	}, func(t *testing.T, r *rig) {
		a := r.wait(r.action(`{"pod_spec":{}}`))
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Equal(t, "tool_input.pod_spec.a: no\ntool_input.pod_spec.b: no", a.Status.Reason)
	})
}

func TestAnActionThatNamesAJobThatIsNotThereFails(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		a := r.wait(r.action(`{"job":"nightly"}`))
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Contains(t, a.Status.Reason, `tool_input.job: there is no job "nightly" in `+scope.Namespace+"/"+scope.Tenant+": apply it first")
		assert.NotContains(t, a.Status.Reason, "not found")
	})
}

// The job of an action's own pod has all that the input says, and the action as a
// label, by which it is cleaned up.
func TestTheJobOfAnActionsOwnPodIsAsItsInputSays(t *testing.T) {
	withRig(t, func(r *rig) { r.o.Checker = agrees() }, func(t *testing.T, r *rig) {
		a := r.action(`{"pod_spec":{"containers":[{"name":"main","image":"busybox"}]},"constraint_config":{"a":1},"action_config":{"b":2},
			"retry_config":{"max_retries":2},"orphan_policy":"adopt","pod_start_timeout_ms":9000,"constraint_errors":"open",
			"ttl_seconds_after_finished":60,"logs":{"head_bytes":7,"tail_bytes":8},"labels":{"team":"ops"},"runner":"fake"}`)
		spec := r.allRuns()[0].Config
		id := "action-" + a.ID.String() + "-1"
		assert.Equal(t, core.JobSpec{
			ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Name: id,
			PodSpec: json.RawMessage(`{"containers":[{"name":"main","image":"busybox"}]}`), ConstraintConfig: json.RawMessage(`{"a":1}`), ActionConfig: json.RawMessage(`{"b":2}`),
			RetryConfig:  core.RetryConfig{MaxRetries: 2, BackoffMultiplier: spec.RetryConfig.BackoffMultiplier, MaxDelayMS: spec.RetryConfig.MaxDelayMS},
			OrphanPolicy: core.OrphanAdopt, PodStartTimeoutMS: 9000, TTLSecondsAfterFinished: 60, ConstraintErrors: core.FailOpen, Logs: core.LogPolicy{HeadBytes: 7, TailBytes: 8},
			Labels: map[string]string{"team": "ops", "action-id": a.ID.String()}, Runner: "fake",
			Timezone: "UTC", Overlap: core.OverlapAllow, CreateAheadMS: spec.CreateAheadMS,
		}, spec)
	})
}

func TestTheInputOfTheToolHasAllMembersOfAJobButThoseThatTheActionDecides(t *testing.T) {
	actions := []string{
		"id", "namespace", "tenant", "name", // whose the job is
		"schedule", "timezone", "overlap", "start_deadline_seconds", "max_concurrent_runs", "create_ahead_ms", // when its runs begin
		"ends_at", "dst", "day_match", "starts_at", "max_executions", "jitter_seconds", "calendars", "missed",
		"catch_up_seconds", "catch_up_limit", "catch_up_spacing_seconds", "buffer_limit", "max_wait_seconds", "alerts",
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[core.JobSpec]()) {
		if field.Anonymous {
			continue // its fields are members
		}
		member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		value, err := json.Marshal(reflect.Zero(field.Type).Interface())
		require.NoError(t, err)
		_, _, err = jobs.ReadToolInput(json.RawMessage(`{"pod_spec":{},"` + member + `":` + string(value) + `}`))
		switch {
		case slices.Contains(actions, member):
			assert.ErrorContains(t, err, "tool_input."+member)
		case member != "pod_spec": // a second one
			assert.NoError(t, err, member)
		}
	}
}

// Whose action it is, is known only as it begins.
func TestTheConstraintsOfAnActionsOwnPodAreCheckedForItsTenantAsItBegins(t *testing.T) {
	const input = `{"pod_spec":{"containers":[{"name":"main","image":"busybox"}]},"constraint_config":{}}`
	withRig(t, func(r *rig) {
		r.o.Checker = scoped{agrees()}
		r.fake.Script = runnertest.Succeeds
	}, func(t *testing.T, r *rig) {
		mine := r.wait(r.action(input))
		assert.Equal(t, core.StatusCompleted, mine.Status.Type, mine.Status.Reason)
		other := r.wait(r.action(input, func(s *core.ActionSpec) { s.Tenant = "other" }))
		assert.Equal(t, core.StatusFailed, other.Status.Type)
		assert.Equal(t, "tool_input.constraint_config: not for other", other.Status.Reason)
		_, err := r.e.Actions().Create(t.Context(), core.ActionSpec{
			Namespace: scope.Namespace, Tenant: scope.Tenant, ToolName: jobs.ToolName, ToolInput: json.RawMessage(strings.Replace(input, "{}", `{"a":1}`, 1)),
		})
		require.ErrorContains(t, err, "tool_input.constraint_config: for nobody")
	})
}

// scoped is a checker of constraints that one tenant may have.
type scoped struct{ *checker }

func (scoped) Validate(job *jobs.Job) error {
	if job.Tenant != scope.Tenant {
		return errors.New("constraint_config: not for " + job.Tenant)
	}
	return nil
}

func (scoped) ValidateUnscoped(job *jobs.Job) error {
	if string(job.ConstraintConfig) != "{}" {
		return errors.New("constraint_config: for nobody")
	}
	return nil
}
