package constraints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/jobs"
)

// CheckPreExecution implements [jobs.ConstraintChecker]. A run proceeds unless a
// constraint is violated that is not advisory, and whose actions do not decide
// themselves. Locks are taken last, all or none, and only for a run that nothing
// stops.
//
// A constraint that cannot be evaluated counts as its onError says, or else the
// job's constraint_errors: open, it is met; closed, the whole check is an error,
// unless another constraint stops the run anyway.
func (c *Checker) CheckPreExecution(ctx context.Context, job *jobs.Job, runID string) (jobs.ConstraintCheckResult, error) {
	return c.check(ctx, job, runID, Input{Phase: effects.CheckPre, ExitCode: -1})
}

// CheckPostExecution is [Checker.CheckPreExecution] after the run.
func (c *Checker) CheckPostExecution(ctx context.Context, job *jobs.Job, runID string, startTime, endTime time.Time, exitCode int) (jobs.ConstraintCheckResult, error) {
	return c.check(ctx, job, runID, Input{Phase: effects.CheckPost, Start: startTime, End: endTime, ExitCode: exitCode})
}

func (c *Checker) check(ctx context.Context, job *jobs.Job, runID string, in Input) (jobs.ConstraintCheckResult, error) {
	p, err := c.plan(job)
	if err != nil {
		return jobs.ConstraintCheckResult{}, shell.Permanent(err)
	}
	source, err := c.engine()
	if err != nil {
		return jobs.ConstraintCheckResult{}, err
	}
	run, err := source.JobRun(ctx, core.RunRef(job.Namespace, job.Tenant, runID).ID)
	if err != nil {
		return jobs.ConstraintCheckResult{}, fmt.Errorf("read run %s: %w", clip.Text(runID, maxQuoted), err)
	}
	in.Job, in.Run, in.Source, in.Now, in.Logger, in.checker = job, run, source, c.o.Now(), c.logger(run), c
	e := evaluation{in: in, plan: p, findings: make([]finding, len(p.constraints))}
	if err := e.checkAll(ctx); err != nil {
		return jobs.ConstraintCheckResult{}, err
	}
	return e.result()
}

// evaluation is one check of all constraints of a job.
type evaluation struct {
	in       Input
	plan     *plan
	findings []finding // by constraint
	locks    []string  // that were taken
}

// finding is what one constraint came to.
type finding struct {
	evaluated bool
	out       Outcome
	err       error
	actions   []core.ActionRequest
}

// checkAll evaluates the constraints of the phase in their order, but the locks last.
func (e *evaluation) checkAll(ctx context.Context) error {
	var locks []int
	for i, c := range e.plan.constraints {
		if !slices.Contains(c.phases, e.in.Phase) {
			continue
		}
		if e.lockOf(i) != nil {
			locks = append(locks, i)
			continue
		}
		if err := e.check(ctx, i); err != nil {
			return err
		}
	}
	if e.stopped() || e.inDoubt() {
		e.releaseHeld(ctx, locks)
		return nil
	}
	return e.takeLocks(ctx, locks)
}

// check evaluates one constraint. An error says that the context has ended.
func (e *evaluation) check(ctx context.Context, i int) error {
	c := e.plan.constraints[i]
	in := e.in
	in.name = c.name
	out, err := evaluate(ctx, c.c, &in)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.record(i, out, err)
	return nil
}

// evaluate keeps a panic of an embedder's constraint, or of a tool, from the others.
func evaluate(ctx context.Context, c Constraint, in *Input) (out Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			in.Logger.ErrorContext(ctx, "constraint panicked", "constraint", in.name, "panic", fmt.Sprint(r))
			out, err = Outcome{}, errors.New("it panicked")
		}
	}()
	return c.Check(ctx, in)
}

// record notes what a constraint came to, with the actions that follow.
func (e *evaluation) record(i int, out Outcome, err error) {
	c, f := e.plan.constraints[i], &e.findings[i]
	out.Message = line(out.Message)
	*f = finding{evaluated: !out.undecided || err != nil, out: out, err: err}
	if err != nil {
		f.out = Outcome{Met: e.policy(c) == core.FailOpen}
		// The engine logs what is violated, as 004 Logging has it; an error that counts as
		// met it does not see.
		e.in.Logger.Error("could not check a constraint", "constraint", c.name, "error", line(err.Error()))
		return
	}
	list := c.c.OnMet()
	if !out.Met {
		list = c.c.OnViolation()
	}
	if out.undecided {
		return
	}
	if f.actions, err = requests(list, variables(&e.in, c.name, out.Message)); err != nil {
		f.err, f.out.Met, f.actions = err, e.policy(c) == core.FailOpen, nil
	}
}

// policy says what an error of a constraint means.
func (e *evaluation) policy(c planned) core.ErrorPolicy {
	return cmp.Or(c.onError, e.in.Job.ConstraintErrors, core.FailClosed)
}

// stops reports whether a violated constraint stops the run, and whether its actions decide.
func (e *evaluation) stops(i int) (stops, decided bool) {
	f := e.findings[i]
	if !f.evaluated || f.err != nil || f.out.Met {
		return false, false
	}
	for _, a := range f.actions {
		switch {
		case !decides(a.Type):
		case a.Type == core.ActionSkip && e.in.Phase == effects.CheckPost:
			decided = true // to skip a run that has run is to let it be
		default:
			return true, true
		}
	}
	if decided {
		return false, true
	}
	return !e.plan.constraints[i].advisory, false
}

func (e *evaluation) stopped() bool {
	for i := range e.findings {
		if stops, _ := e.stops(i); stops {
			return true
		}
	}
	return false
}

// inDoubt reports whether a constraint could not be evaluated that must be.
func (e *evaluation) inDoubt() bool {
	return slices.ContainsFunc(e.findings, func(f finding) bool { return f.err != nil && !f.out.Met })
}

// result sums up. Where the job fails closed and doubt alone holds the run up, the
// machine decides about the error; where it fails open but a constraint does not,
// the actions say what the machine would.
func (e *evaluation) result() (jobs.ConstraintCheckResult, error) {
	r := jobs.ConstraintCheckResult{ShouldProceed: true, Locks: e.locks}
	stopped, doubt := e.stopped(), e.inDoubt()
	if doubt && !stopped && e.in.Job.ConstraintErrors != core.FailOpen {
		return jobs.ConstraintCheckResult{}, errors.New(e.message())
	}
	for i, f := range e.findings {
		c := e.plan.constraints[i]
		if bound := f.out.MaxAllowedRunTime; bound > 0 && (r.MaxAllowedRunTime == 0 || bound < r.MaxAllowedRunTime) {
			r.MaxAllowedRunTime = bound
		}
		if !f.evaluated {
			continue
		}
		if stops, decided := e.stops(i); stops && !decided {
			r.ShouldProceed = false
		}
		check := core.ConstraintCheck{Name: c.name, Phase: e.in.Phase, Attempt: e.in.Run.RetryAttempt, Met: f.out.Met, Message: f.out.Message, Actions: f.actions}
		if f.err != nil {
			check.Error = line(f.err.Error())
			if !f.out.Met && !stopped {
				check.Actions = []core.ActionRequest{{Type: e.onDoubt(), Config: nil}}
			}
		}
		r.Checks = append(r.Checks, check)
	}
	r.Message = e.message()
	return r, nil
}

// onDoubt is the machine's own action for an error of a check: docs/orchestrator.md.
func (e *evaluation) onDoubt() string {
	if e.in.Phase == effects.CheckPost {
		return core.ActionFailRun
	}
	return core.ActionRetryRun
}

// maxSummary bounds the message of all.
const maxSummary = 2 << 10

// message sums up in the order of the configuration.
func (e *evaluation) message() string {
	var violated, unknown []string
	n := 0
	for i, f := range e.findings {
		name := e.plan.constraints[i].name
		switch {
		case !f.evaluated:
			continue
		case f.err != nil:
			unknown = append(unknown, name+": "+line(f.err.Error()))
		case !f.out.Met:
			violated = append(violated, strings.TrimSuffix(name+": "+f.out.Message, ": "))
		}
		n++
	}
	var parts []string
	if len(violated) > 0 {
		parts = append(parts, "violated: "+strings.Join(violated, "; "))
	}
	if len(unknown) > 0 {
		parts = append(parts, "could not be checked: "+strings.Join(unknown, "; "))
	}
	switch {
	case len(parts) > 0:
		return clip.Text(strings.Join(parts, "; "), maxSummary)
	case n == 0:
		return "there is nothing to check"
	case n == 1:
		return "its constraint is met"
	}
	return fmt.Sprintf("all %d constraints are met", n)
}
