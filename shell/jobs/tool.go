package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/pages"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// ToolName is the name of the tool kubernetes (B7).
const ToolName = "kubernetes"

// Tool is the tool kubernetes (B7): an action that triggers a job, or runs a pod of
// its own, and ends as the run does. Its input is one of:
//
//	{"job": "nightly"}
//	{"pod_spec": {…}, "runner": "", "retry_config": {…}, "constraint_config": {…}, "action_config": {…},
//	 "orphan_policy": "delete", "pod_start_timeout_ms": 0, "ttl_seconds_after_finished": 0,
//	 "constraint_errors": "closed", "logs": {…}, "labels": {…}}
//
// The second makes a job without a schedule, named "action-ID-CYCLE" after the action,
// and deletes it afterwards; the record of its run stays, and its pod as long as a job's
// does. It has all members of a [core.JobSpec] but those that say whose the job is and
// when its runs begin: these are the action's. The result names the run, and says how it
// ended; a run that did not complete fails the action. An attempt after a crash goes on
// with the run that the one before has made. Where the action is cancelled or reaches its
// time limit, so is the run.
//
// Its name must be [ToolName]: by that the HTTP API knows what it does for a token.
func (s *Service) Tool() shell.Tool { return tool{s} }

type tool struct{ s *Service }

// toolInput is the tool's input.
type toolInput struct {
	Job                     string            `json:"job"`
	PodSpec                 json.RawMessage   `json:"pod_spec"`
	ConstraintConfig        json.RawMessage   `json:"constraint_config"`
	ActionConfig            json.RawMessage   `json:"action_config"`
	RetryConfig             core.RetryConfig  `json:"retry_config"`
	OrphanPolicy            core.OrphanPolicy `json:"orphan_policy"`
	PodStartTimeoutMS       int64             `json:"pod_start_timeout_ms"`
	TTLSecondsAfterFinished int64             `json:"ttl_seconds_after_finished"`
	ConstraintErrors        core.ErrorPolicy  `json:"constraint_errors"`
	Logs                    core.LogPolicy    `json:"logs"`
	Labels                  map[string]string `json:"labels"`
	Runner                  string            `json:"runner"`
}

// toolResult says how the run went.
type toolResult struct {
	RunID    string                  `json:"run_id"`
	State    core.OrchestratorStatus `json:"state"`
	ExitCode *int32                  `json:"exit_code"`
	Attempts uint32                  `json:"attempts"`
	Error    string                  `json:"error"`
}

// inputField is what errors call the input.
const inputField = "tool_input"

func parseToolInput(b json.RawMessage) (in toolInput, err error) {
	if err := strictjson.DecodeAt(inputField, b, &in); err != nil {
		return in, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return in, fmt.Errorf("%s: %w", inputField, err)
	}
	_, job := members["job"]
	_, pod := members["pod_spec"]
	switch {
	case job == pod:
		return in, fmt.Errorf("%s: give either job, the id of a job to trigger, or pod_spec, a pod to run", inputField)
	case job && in.Job == "":
		return in, fmt.Errorf("%s.job: missing: give the id of the job to trigger", inputField)
	case job && len(members) > 1:
		return in, fmt.Errorf("%s: beside job nothing else can be given: all else is the job's own", inputField)
	}
	return in, nil
}

// ReadToolInput gives what an input of the tool kubernetes asks for: the id of a job
// to trigger, or else the job of a pod of its own, which has no id, namespace and
// tenant yet.
func ReadToolInput(b json.RawMessage) (job string, own core.JobSpec, err error) {
	in, err := parseToolInput(b)
	if err != nil || in.Job != "" {
		return in.Job, own, err
	}
	return "", in.spec(shell.Scope{}, "", ""), nil
}

// spec is the job of an action's own pod.
func (in toolInput) spec(scope shell.Scope, id, action string) core.JobSpec {
	labels := make(map[string]string, len(in.Labels)+1)
	maps.Copy(labels, in.Labels)
	labels[actionLabel] = action // by which it is found
	return core.JobSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Name: id, PodSpec: in.PodSpec,
		ConstraintConfig: in.ConstraintConfig, ActionConfig: in.ActionConfig, RetryConfig: in.RetryConfig,
		OrphanPolicy: in.OrphanPolicy, PodStartTimeoutMS: in.PodStartTimeoutMS, TTLSecondsAfterFinished: in.TTLSecondsAfterFinished,
		ConstraintErrors: in.ConstraintErrors, Logs: in.Logs, Labels: labels, Runner: in.Runner,
	}
}

// An action's own job is named after it, and has its id as a label.
const (
	actionJob   = "action-"
	actionLabel = "action-id"
)

// actionJobID names the job of an action: one for each of its cycles.
func actionJobID(key string) string { return actionJob + strings.ReplaceAll(key, "/", "-") }

// StoresInput implements [shell.InputStorer]: a job of the input's own is stored.
func (tool) StoresInput() {}

// ValidateInput implements [shell.InputValidator].
func (t tool) ValidateInput(b json.RawMessage) error {
	in, err := parseToolInput(b)
	if err != nil || in.Job != "" {
		return err
	}
	spec := in.spec(shell.Scope{Namespace: "n", Tenant: "t"}, actionJobID(uuid.Max.String()+"/0"), uuid.Max.String())
	if err := errors.Join(spec.Validate(), t.s.checkUnscoped(spec)); err != nil {
		return inputError{err}
	}
	return nil
}

// inputError is about fields of the input: a line for each.
type inputError struct{ err error }

func (e inputError) Error() string {
	return inputField + "." + strings.ReplaceAll(e.err.Error(), "\n", "\n"+inputField+".")
}

func (e inputError) Unwrap() error { return e.err }

// Run implements [shell.Tool].
func (t tool) Run(ctx context.Context, c shell.Call) (json.RawMessage, error) {
	in, err := parseToolInput(c.Input)
	if err != nil {
		return nil, err
	}
	if _, err := t.s.engine(ctx); err != nil {
		return nil, err
	}
	// What the action wants is done in its name, and also while its context ends.
	lasting := shell.WithActor(context.WithoutCancel(ctx), "action:"+c.ActionID.String())
	scope := shell.Scope{Namespace: c.Namespace, Tenant: c.Tenant}
	o, err := t.begin(lasting, c, in, scope)
	if err != nil {
		return nil, err
	}
	end, err := t.s.e.Runs().Wait(ctx, o.ID)
	switch {
	case err == nil:
		o = end
	case errors.Is(context.Cause(ctx), shell.ErrCancelled), errors.Is(context.Cause(ctx), shell.ErrTimeLimit):
		o = t.cancel(lasting, c, o, context.Cause(ctx))
		err = context.Cause(ctx)
	case ctx.Err() != nil: // the next start goes on with it
		return nil, context.Cause(ctx)
	default:
		return nil, fmt.Errorf("wait for run %s: %w", o.RunID, err)
	}
	if in.Job == "" {
		t.s.deleteJob(lasting, scope, o.JobID, "its action has ended")
	}
	return t.result(o, err)
}

// result is the run's end as the action's.
func (t tool) result(o core.Orchestrator, err error) (json.RawMessage, error) {
	b, encoding := json.Marshal(toolResult{
		RunID: o.RunID, State: o.State, ExitCode: o.Pod.ExitCode, Attempts: o.RetryAttempt + 1, Error: o.Error,
	})
	switch {
	case encoding != nil:
		return nil, fmt.Errorf("encode the result: %w", encoding)
	case err != nil:
		return b, fmt.Errorf("run %s: %w", o.RunID, err)
	case o.State != core.OrchestratorCompleted:
		return b, fmt.Errorf("run %s is %s: %s", o.RunID, o.State, o.Error)
	}
	return b, nil
}

// cancel cancels the run of an action that is to end. It may have ended by itself.
func (t tool) cancel(ctx context.Context, c shell.Call, o core.Orchestrator, why error) core.Orchestrator {
	n, err := t.s.e.Runs().Send(ctx, o.ID, core.OrchestratorCancel{Reason: fmt.Sprintf("action %s: %s", c.ActionID, why)})
	var refused *shell.Refusal
	if err != nil && !errors.As(err, &refused) {
		c.Logger().Error("could not cancel the run of the action", "run_id", o.RunID, "error", err)
	}
	if n.ID == o.ID {
		return n
	}
	return o
}

// begin makes the action's run, or finds the one that an attempt before has made.
func (t tool) begin(ctx context.Context, c shell.Call, in toolInput, scope shell.Scope) (core.Orchestrator, error) {
	job, by := cmp.Or(in.Job, actionJobID(c.IdempotencyKey)), "action:"+c.IdempotencyKey
	if o, found, err := t.find(ctx, c, scope, job, by); found || err != nil {
		return o, err
	}
	if in.Job == "" {
		spec := in.spec(scope, job, c.ActionID.String())
		if err := t.s.checkStored(spec); err != nil {
			return core.Orchestrator{}, inputError{err}
		}
		if _, err := t.s.e.Jobs().Apply(ctx, spec); err != nil {
			return core.Orchestrator{}, fmt.Errorf("%s: %w", inputField, err)
		}
	}
	if j, err := t.s.e.Jobs().Get(ctx, scope, job); in.Job != "" && err == nil {
		if err := t.s.MayRun(j.JobSpec); err != nil {
			return core.Orchestrator{}, fmt.Errorf("%s.job: job %q: %w", inputField, job, err)
		}
	}
	made, err := t.s.e.Jobs().Trigger(ctx, scope, job, shell.TriggerOptions{By: by})
	switch {
	case errors.Is(err, shell.ErrNotFound) && in.Job != "":
		return core.Orchestrator{}, fmt.Errorf("%s.job: there is no job %q in %s/%s: apply it first", inputField, job, scope.Namespace, scope.Tenant)
	case err != nil:
		return core.Orchestrator{}, fmt.Errorf("trigger job %q: %w", job, err)
	}
	return t.s.e.Runs().Get(ctx, made.Run)
}

// clockSlack is how much earlier than its action, by a clock that was set since, a
// run may have been made.
const clockSlack = time.Hour

// find looks for the run that an attempt before has made. Another attempt follows
// after a crash alone: so how that run ends is how the action ends.
func (t tool) find(ctx context.Context, c shell.Call, scope shell.Scope, job, by string) (core.Orchestrator, bool, error) {
	for o, err := range pages.All(ctx, 100, t.s.e.Runs().List, shell.JobRunFilter{Scope: &scope, Job: job}) {
		switch {
		case err != nil || o.CreatedAt.Before(c.DueAt.Add(-clockSlack)):
			return core.Orchestrator{}, false, err
		case o.By == by:
			return o, true, nil
		}
	}
	return core.Orchestrator{}, false, nil
}

// deleteJob deletes the job of an action; its runs, if any, are cancelled.
func (s *Service) deleteJob(ctx context.Context, scope shell.Scope, id, reason string) {
	_, err := s.e.Jobs().Send(ctx, scope, id, core.JobDelete{Reason: reason})
	if err != nil && !errors.Is(err, shell.ErrNotFound) && !errors.Is(err, shell.ErrStopped) {
		s.log.Error("could not delete the job of an action; trying again later", "job_id", id, "error", err)
	}
}

// deleteActionJobs deletes the jobs of actions that have ended without doing so: a
// crash may come between.
func (s *Service) deleteActionJobs(ctx context.Context) error {
	for j, err := range pages.All(ctx, s.pageSize, s.e.Jobs().List, shell.JobFilter{}) {
		if err != nil {
			return err
		}
		if s.actionHasEnded(ctx, j) {
			s.deleteJob(ctx, shell.Scope{Namespace: j.Namespace, Tenant: j.Tenant}, j.ID, "its action has ended")
		}
	}
	return nil
}

// actionHasEnded reports whether the job is that of an action that has ended.
func (s *Service) actionHasEnded(ctx context.Context, j core.Job) bool {
	id, err := uuid.Parse(j.Labels[actionLabel])
	cycle, own := strings.CutPrefix(j.ID, actionJob+id.String()+"-")
	if err != nil || !own || j.Schedule != "" {
		return false
	}
	a, err := s.e.Actions().Get(ctx, id)
	if errors.Is(err, shell.ErrNotFound) {
		return true
	}
	_, ended := core.EndedAt(a)
	return err == nil && (ended || cycle != strconv.FormatUint(uint64(a.Cycle), 10))
}
