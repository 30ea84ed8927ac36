package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// Interpreters are for [shell.Options.Interpreters]: one for each lane of runs. An
// effect waits until Run knows the engine. Each may be carried out again after a
// crash.
func (s *Service) Interpreters() map[string]shell.Interpreter {
	i := interpreter{s}
	return map[string]shell.Interpreter{
		effects.LaneConstraints: i,
		effects.LaneActions:     i,
		effects.LaneRun:         i,
		effects.LaneLogs:        i,
	}
}

type interpreter struct{ s *Service }

// Looked implements [shell.RunWatcher]. While the runner is down nobody sees what becomes of a
// pod that is there: that it is looked at once the runner works again decides.
func (i interpreter) Looked(run core.Orchestrator) bool {
	a := Attempt{Run: run.ID, N: run.RetryAttempt}
	if !i.s.looks.looked(a) {
		return false
	}
	waits := run.State == core.OrchestratorRunning || run.State == core.OrchestratorContainerCreating && run.CreateBy.IsZero()
	name, _, err := i.s.runner(run.Config)
	if err != nil || !waits || !i.s.isDown(name) {
		return true
	}
	i.s.looks.lost(a, name)
	return false
}

// Watching implements [shell.RunWatcher].
func (i interpreter) Watching() bool { return i.s.reported.Load() }

// Patience implements [shell.Patient]: a deletion waits for as long as the pod may take to end.
func (interpreter) Patience(s core.State, e effects.Outer) time.Duration {
	o, _ := s.(core.Orchestrator)
	return patience(o, e)
}

// patience is by how much the effect of a run may take longer than others.
func patience(o core.Orchestrator, e effects.Outer) time.Duration {
	const most = 7 * 24 * time.Hour // no one waits longer for what holds a slot of the lane
	if _, deletes := e.(effects.DeleteRun); !deletes {
		return 0
	}
	var pod struct {
		Grace int64 `json:"terminationGracePeriodSeconds"`
	}
	if err := json.Unmarshal(o.Config.PodSpec, &pod); err != nil {
		return 0
	}
	return time.Duration(min(max(pod.Grace, 0), int64(most/time.Second))) * time.Second
}

// Carry implements [shell.Interpreter]: for a run whose state the caller has not got.
func (i interpreter) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	eng, err := i.s.engine(ctx)
	if err != nil {
		return nil, err
	}
	o, err := eng.Runs().Get(ctx, ref.ID)
	if errors.Is(err, shell.ErrNotFound) {
		return nil, shell.Permanent(err)
	}
	if err != nil {
		return nil, err
	}
	return i.CarryFor(ctx, o, e)
}

// CarryFor implements [shell.StateInterpreter].
func (i interpreter) CarryFor(ctx context.Context, run core.State, e effects.Outer) (json.RawMessage, error) {
	if _, err := i.s.engine(ctx); err != nil {
		return nil, err
	}
	o, ok := run.(core.Orchestrator)
	if !ok {
		return nil, shell.Permanent(fmt.Errorf("%s is no run of a job", run.Ref()))
	}
	switch e := e.(type) {
	case effects.CheckConstraints:
		return i.s.checkConstraints(ctx, o, e)
	case effects.TakeAction:
		return i.s.takeAction(ctx, o, e)
	case effects.CreateRun:
		return i.s.createRun(ctx, o, e)
	case effects.FetchLogs:
		return i.s.fetchLogs(ctx, o, e)
	case effects.DeleteRun:
		return i.s.deleteRun(ctx, o, e)
	default:
		return nil, shell.Permanent(fmt.Errorf("an effect %T is none of a run", e))
	}
}

// clusterAnswer answers what reaches a cluster.
type clusterAnswer struct {
	APICalls   int           `json:"api_calls"`
	Logs       *core.RunLogs `json:"logs,omitempty"`
	NotCreated bool          `json:"not_created,omitempty"` // no runner was asked
}

// answered gives the answer beside the error: the calls count also where they
// failed.
func answered(a clusterAnswer, err error) (json.RawMessage, error) {
	a.APICalls = max(a.APICalls, 0)
	b, encoding := json.Marshal(a) // numbers and texts always encode
	return b, cmp.Or(err, encoding)
}

// wanted reports whether an attempt is what the run is to have in its cluster.
func wanted(o core.Orchestrator, attempt uint32) bool {
	return o.InCluster && o.RetryAttempt == attempt && o.Exit.To == "" &&
		(o.State == core.OrchestratorContainerCreating || o.State == core.OrchestratorRunning)
}

// createRun creates the attempt (004 createKubernetesJob).
func (s *Service) createRun(ctx context.Context, o core.Orchestrator, e effects.CreateRun) (json.RawMessage, error) {
	unlock, err := s.runLocks.Lock(ctx, o.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Whoever held the lock before may have held it for long.
	if o, err = s.e.Runs().Get(ctx, o.ID); err != nil {
		return nil, err
	}
	if !wanted(o, e.Attempt) {
		return nil, shell.Permanent(fmt.Errorf("attempt %d of run %s, which is %s, is not wanted any more", e.Attempt, o.RunID, o.State))
	}
	if o.State == core.OrchestratorRunning { // its pod was seen: where it is gone by now, this would make another
		return answered(clusterAnswer{}, nil)
	}
	name, r, err := s.runner(o.Config)
	if err != nil {
		return answered(clusterAnswer{NotCreated: true}, shell.Permanent(err))
	}
	if err := s.MayRun(o.Config); err != nil { // the job may be older than the runner's tenants, and the pod, too
		return nil, shell.Permanent(err)
	}
	a := Attempt{Run: o.ID, N: e.Attempt}
	placed := s.places[name].take(a, scopeOf(o))
	if !placed {
		if waits, err := s.queue(ctx, name, o); waits || err != nil {
			return answered(clusterAnswer{}, err)
		}
	}
	if err := s.e.Confirm(); err != nil { // it may have waited for the lock
		return nil, err
	}
	calls, err := r.Create(ctx, s.runOf(o))
	if err == nil && (!placed || o.Pod.Queued) { // it was told that it waits, be it by a process that was killed before it had answered
		s.tellThere(ctx, name, a)
	}
	return answered(clusterAnswer{APICalls: calls}, err)
}

// runOf is the run's present attempt as a Runner creates it.
func (s *Service) runOf(o core.Orchestrator) Run {
	return Run{
		Attempt: Attempt{Run: o.ID, N: o.RetryAttempt}, RunID: o.RunID, JobID: o.JobID,
		Namespace: o.Namespace, Tenant: o.Tenant, ScheduledAt: o.ScheduledAt, Occurrence: o.Occurrence,
		Spec: withEnv(o.Config, o.Env), MaxAllowedRunTimeMS: o.MaxAllowedRunTimeMS, Confirm: s.e.Confirm,
	}
}

// deleteRun deletes the attempt. It waits for a creation that goes on.
func (s *Service) deleteRun(ctx context.Context, o core.Orchestrator, e effects.DeleteRun) (json.RawMessage, error) {
	name, r, err := s.runner(o.Config)
	if err != nil {
		// Once it is configured again, what is left there is deleted.
		return nil, shell.Permanent(err)
	}
	a := Attempt{Run: o.ID, N: e.Attempt}
	s.places[name].withdraw(a)
	if e.NoGrace {
		r = killing{r}
	}
	answer := clusterAnswer{}
	if e.Logs {
		answer, err = s.removeAndRead(ctx, name, r, o, a)
	} else {
		answer.APICalls, err = s.remove(ctx, name, r, a, nil)
	}
	if err != nil && ctx.Err() == nil {
		s.logFailedDeletion(o, a, name, err)
	}
	return answered(answer, err)
}

// logFailedDeletion logs that a deletion has failed once more, ever more rarely: the first,
// the second, the fourth and so on. The event of the first one has a line of its own.
func (s *Service) logFailedDeletion(o core.Orchestrator, a Attempt, runner string, err error) {
	if n := o.Cleanup.Failures; n > 0 && bits.OnesCount32(n+1) == 1 {
		s.log.Warn("a pod still cannot be deleted; trying again", "run", o.RunID, "runner", runner, "pod", s.nameOf(runner, o.JobID, a),
			"failures", n+1, "since", o.Cleanup.FailedSince, "error", err)
	}
}

// remove deletes an attempt once no other call changes its run's pods, unless keep
// then says not to.
func (s *Service) remove(ctx context.Context, name string, r Runner, a Attempt, keep func() bool) (int, error) {
	unlock, err := s.runLocks.Lock(ctx, a.Run)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if keep != nil && keep() {
		return 0, nil
	}
	calls, err := r.Delete(ctx, a)
	if err == nil {
		s.places[name].free(a)
	}
	return calls, err
}

// checkConstraints evaluates the constraints (004 CheckPreExecution,
// CheckPostExecution).
func (s *Service) checkConstraints(ctx context.Context, o core.Orchestrator, e effects.CheckConstraints) (json.RawMessage, error) {
	if s.o.Checker == nil {
		return nil, shell.Permanent(errors.New("constraint_config: no checker of constraints is configured"))
	}
	job := o.Config
	var r ConstraintCheckResult
	var err error
	if e.Phase == effects.CheckPost {
		start, end, exit := executed(o)
		r, err = s.o.Checker.CheckPostExecution(ctx, &job, o.RunID, start, end, exit)
	} else {
		r, err = s.o.Checker.CheckPreExecution(ctx, &job, o.RunID)
	}
	if err != nil {
		return nil, err
	}
	return reportOf(r)
}

// reportOf is the answer to an evaluation: a [core.ConstraintReport].
func reportOf(r ConstraintCheckResult) (json.RawMessage, error) {
	b, err := json.Marshal(struct {
		core.ConstraintReport
		Locks []string `json:"locks,omitempty"`
	}{core.ConstraintReport{
		ShouldProceed: r.ShouldProceed, Message: r.Message, Checks: r.Checks, MaxAllowedRunTimeMS: limitMS(r.MaxAllowedRunTime),
	}, r.Locks})
	if err != nil {
		return nil, shell.Permanent(fmt.Errorf("the checker's report cannot be encoded: %w", err))
	}
	return b, nil
}

// limitMS rounds up: a limit below a millisecond is no absence of one.
func limitMS(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// executed says when the pod ran, and its exit code; zero times where it never did,
// and -1: as [core.Orchestrator.PodTimes] has it.
func executed(o core.Orchestrator) (start, end time.Time, exit int) {
	exit = -1
	if o.Pod.ExitCode != nil {
		exit = int(*o.Pod.ExitCode)
	}
	ran := o.PodTimes()
	return ran.StartedAt.Std(), ran.EndedAt.Std(), exit
}

// takeAction takes one action of a constraint (004 Action.Take).
func (s *Service) takeAction(ctx context.Context, o core.Orchestrator, e effects.TakeAction) (json.RawMessage, error) {
	if s.o.Actions == nil {
		return nil, shell.Permanent(fmt.Errorf("action %s of constraint %s: no executor of actions is configured", e.Type, e.Constraint))
	}
	job := o.Config
	return nil, s.o.Actions.Take(ctx, &job, o.RunID, Action{
		Constraint: e.Constraint, Type: e.Type, Config: e.Config,
		// The number of the effect changes when it is asked for again; that of the
		// action does not.
		Key: fmt.Sprintf("%s/%d", o.ID, o.Metrics.ActionsExecuted+1),
	})
}
