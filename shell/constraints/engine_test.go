package constraints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/store/memory"
)

// carrier carries out what runs ask of a Checker, as package jobs does.
type carrier struct {
	c      *constraints.Checker
	engine func() *shell.Engine
}

func (k carrier) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	run, err := k.engine().Runs().Get(ctx, ref.ID)
	if err != nil {
		return nil, err
	}
	switch e := e.(type) {
	case effects.CheckConstraints:
		r, err := k.c.CheckPreExecution(ctx, &run.Config, run.RunID)
		if err != nil {
			return nil, err
		}
		return json.Marshal(core.ConstraintReport{ShouldProceed: r.ShouldProceed, Message: r.Message, Checks: r.Checks, MaxAllowedRunTimeMS: r.MaxAllowedRunTime.Milliseconds()})
	case effects.TakeAction:
		return nil, k.c.Take(ctx, &run.Config, run.RunID, jobs.Action{Constraint: e.Constraint, Type: e.Type, Config: e.Config, Key: fmt.Sprint(ref, e.N)})
	}
	return nil, fmt.Errorf("%T is nothing that constraints ask for", e)
}

func TestOnTheEngineRunsAreCheckedAndTheirActionsTaken(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out locked.Buffer
	c, err := constraints.New(constraints.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	require.NoError(t, err)
	st := memory.New()
	var e *shell.Engine
	k := carrier{c, func() *shell.Engine { return e }}
	e, err = shell.New(shell.Options{Store: st, Logger: slog.New(slog.DiscardHandler), Interpreters: map[string]shell.Interpreter{effects.LaneConstraints: k, effects.LaneActions: k}})
	require.NoError(t, err)
	c.Use(constraints.EngineSource(e))
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(running) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, st.Close())
	}()

	end := func(name, config string) core.Orchestrator {
		spec := core.JobSpec{ID: name, Tenant: "acme", PodSpec: json.RawMessage(`{}`), ConstraintConfig: toJSON(t, config)}
		require.NoError(t, c.Validate(&spec))
		_, err := e.Jobs().Apply(ctx, spec)
		require.NoError(t, err)
		made, err := e.Jobs().Trigger(ctx, shell.Scope{Tenant: "acme"}, name, shell.TriggerOptions{By: "test"})
		require.NoError(t, err)
		run, err := e.Runs().Wait(ctx, made.Run)
		require.NoError(t, err)
		return run
	}

	skipped := end("skipped", `
constraints:
- lock: {config: {name: warehouse}}
- previousRun: {config: {required: true}, onViolation: [{log: {message: "${run_id}: ${message}"}}, {kickOffJob: {job: unheard-of}, continueOnError: true}, skip]}
`)
	assert.Equal(t, core.OrchestratorCompleted, skipped.State, skipped.Error)
	assert.Equal(t, "there is no run before this one", skipped.Checks[0].Message)
	assert.Contains(t, out.String(), skipped.RunID+": there is no run before this one")
	_, err = e.Locks().Get(ctx, shell.Scope{Tenant: "acme"}, "warehouse")
	require.ErrorIs(t, err, shell.ErrNotFound, "a run that is stopped takes no lock")

	failed := end("failed", `constraints: [{dependsOn: {config: {job: skipped}}}]`)
	assert.Equal(t, core.OrchestratorFailed, failed.State)
	assert.Equal(t, "violated: dependsOn: job skipped has had no run", failed.Error)

	// Nothing here creates pods: the run fails, but it has its lock by then.
	locked := end("locked", `constraints: [{lock: {config: {name: warehouse, ttl: 1h}}}, {maxConcurrentRuns: {config: {max: 1}}}, {maxAllowedRunTime: {config: {limit: 1h}}}]`)
	assert.Equal(t, core.OrchestratorFailed, locked.State)
	assert.Equal(t, int64(3_600_000), locked.MaxAllowedRunTimeMS)
	assert.Len(t, locked.Checks, 2)

	// That run has ended: what it may have left behind, the next one takes.
	again := end("again", `constraints: [{lock: {config: {name: warehouse, ttl: 1h}}}]`)
	assert.True(t, again.Checks[0].Met, again.Checks[0].Message)
	held, err := e.Locks().Get(ctx, shell.Scope{Tenant: "acme"}, "warehouse")
	if err == nil {
		assert.Equal(t, "run:"+again.ID.String(), held.Holder)
	}
}
