package constraints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// Bounds of expressions, which any author of a job runs in the daemon.
const (
	maxExpressionBytes = 4 << 10
	maxExpressionDepth = 64
	maxExpressionCost  = 100_000          // in CEL's units: about a step each
	expressionInterval = 64               // iterations between two looks at the context
	expressionLimit    = 10 * time.Second // for a machine that is busy: the cost is what bounds it
)

// Types of the variables of expressions, as docs/constraints.md lists them.
type (
	exprJob struct {
		ID        string            `cel:"id"`
		Name      string            `cel:"name"`
		Namespace string            `cel:"namespace"`
		Tenant    string            `cel:"tenant"`
		Schedule  string            `cel:"schedule"`
		Timezone  string            `cel:"timezone"`
		Labels    map[string]string `cel:"labels"`
	}
	exprRun struct {
		ID          string    `cel:"id"`
		Manual      bool      `cel:"manual"`
		Attempt     int64     `cel:"attempt"`
		ScheduledAt time.Time `cel:"scheduled_at"`
		Reason      string    `cel:"reason"` // of the pod: "OOMKilled", say
		Error       string    `cel:"error"`  // why it failed
	}
	exprPrevious struct {
		Exists      bool          `cel:"exists"`
		ID          string        `cel:"id"`
		State       string        `cel:"state"`
		Succeeded   bool          `cel:"succeeded"`
		Attempt     int64         `cel:"attempt"`
		ExitCode    int64         `cel:"exit_code"`
		ScheduledAt time.Time     `cel:"scheduled_at"`
		CompletedAt time.Time     `cel:"completed_at"`
		Duration    time.Duration `cel:"duration"`
		Error       string        `cel:"error"`
	}
)

// busy has a place for each expression that is compiled or evaluated: half of the processors, so
// that those of one tenant, however dear they are, leave some to whatever else the process does.
var busy = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// newEnv makes what expressions are compiled in: CEL's standard library alone, with
// [matchesFunction]. The
// functions of its extension of strings are not counted by their results' lengths, so
// that a short expression could fill the memory.
func newEnv() (*cel.Env, error) {
	env, err := cel.NewCustomEnv(append(matchesFunction(),
		ext.NativeTypes(ext.ParseStructTags(true),
			reflect.TypeFor[exprJob](), reflect.TypeFor[exprRun](), reflect.TypeFor[exprPrevious]()),
		cel.DefaultUTCTimeZone(true),
		cel.HomogeneousAggregateLiterals(), // see checkCost
		cel.ParserExpressionSizeLimit(maxExpressionBytes),
		cel.ParserRecursionLimit(maxExpressionDepth),
		cel.Variable("job", cel.ObjectType("constraints.exprJob")),
		cel.Variable("run", cel.ObjectType("constraints.exprRun")),
		cel.Variable("previous_run", cel.ObjectType("constraints.exprPrevious")),
		cel.Variable("phase", cel.StringType),
		cel.Variable("attempt", cel.IntType),
		cel.Variable("exit_code", cel.IntType),
		cel.Variable("duration", cel.DurationType),
		cel.Variable("scheduled_at", cel.TimestampType),
		cel.Variable("now", cel.TimestampType),
	)...)
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	return env, nil
}

// expression is a condition in CEL.
type expression struct {
	Lists
	text    string
	message string
	program cel.Program
}

func newExpression(s Spec, env *cel.Env) (Constraint, error) {
	var c struct {
		Expression string `json:"expression"`
		Message    string `json:"message"`
	}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	if c.Expression == "" {
		return nil, s.Errorf("expression", "is missing: give a condition in CEL such as %q", "attempt < 3")
	}
	if n := len(c.Expression); n > maxExpressionBytes {
		return nil, s.Errorf("expression", "%d bytes are more than %d", n, maxExpressionBytes)
	}
	e := &expression{Lists: s.Lists, text: c.Expression, message: c.Message}
	if env == nil {
		return e, nil
	}
	var err, refused error
	if e.program, refused, err = compile(env, c.Expression); err != nil {
		return nil, s.Errorf("expression", "%w", err)
	}
	if refused != nil {
		s.refuse(s.Errorf("expression", "%w", refused))
	}
	return e, nil
}

// compile makes a program. An error has line and column, and so has refused: what a new
// expression may not have, and a stored one has for as long as its job stays.
func compile(env *cel.Env, text string) (_ cel.Program, refused, err error) {
	busy <- struct{}{}
	defer func() { <-busy }()
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		found := issues.Errors()
		if len(found) == 0 {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("line %d, column %d: %s", found[0].Location.Line(), found[0].Location.Column()+1, clip.Text(found[0].Message, 512))
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, nil, fmt.Errorf("it gives %s: want a condition, which gives bool", ast.OutputType())
	}
	if err := checkCost(ast); err != nil {
		return nil, nil, err
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), constantPatterns(), cel.CostTracking(callCosts{}),
		cel.CostLimit(maxExpressionCost), cel.InterruptCheckFrequency(expressionInterval))
	if err != nil {
		return nil, nil, fmt.Errorf("%s", clip.Text(err.Error(), 512))
	}
	return program, checkPatterns(ast), nil
}

// Check implements [Constraint].
func (e *expression) Check(ctx context.Context, in *Input) (Outcome, error) {
	select {
	case busy <- struct{}{}:
		defer func() { <-busy }()
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
	within, cancel := context.WithTimeoutCause(ctx, expressionLimit, fmt.Errorf("it took more than %v", expressionLimit))
	defer cancel()
	vars := newExprVars(ctx, in)
	v, _, err := e.program.ContextEval(within, vars)
	switch {
	case vars.err != nil:
		return Outcome{}, vars.err
	case err != nil && within.Err() != nil:
		return Outcome{}, fmt.Errorf("evaluate %q: %w", clip.Text(e.text, maxQuoted), context.Cause(within))
	case err != nil:
		return Outcome{}, fmt.Errorf("evaluate %q: %s", clip.Text(e.text, maxQuoted), clip.Text(err.Error(), 256))
	}
	met, ok := v.Value().(bool)
	if !ok {
		return Outcome{}, fmt.Errorf("evaluate %q: it gave %T, not bool", clip.Text(e.text, maxQuoted), v.Value())
	}
	return Outcome{Met: met, Message: cmp.Or(e.message, fmt.Sprintf("%s is %t", clip.Text(e.text, maxQuoted), met))}, nil
}

// exprVars gives the values of variables, and reads the run before this one only
// for an expression that asks for it.
type exprVars struct {
	ctx    context.Context //nolint:containedctx // cel.Activation has no place for one; it lives as long as one evaluation
	in     *Input
	err    error
	values map[string]any // of all variables but previous_run
}

func newExprVars(ctx context.Context, in *Input) *exprVars {
	run := in.Run
	ran, _ := in.ran()
	return &exprVars{ctx: ctx, in: in, values: map[string]any{
		"job":          exprJob{in.Job.ID, in.Job.Name, in.Job.Namespace, in.Job.Tenant, in.Job.Schedule, in.Job.Timezone, in.Job.Labels},
		"run":          exprRun{run.RunID, run.Manual, int64(run.RetryAttempt), run.ScheduledAt.Std(), run.Pod.Reason, run.Error},
		"phase":        string(in.Phase),
		"attempt":      int64(run.RetryAttempt),
		"exit_code":    int64(in.ExitCode),
		"duration":     ran,
		"scheduled_at": run.ScheduledAt.Std(),
		"now":          effects.TimeOf(in.Now).Std(),
	}}
}

// ResolveName implements [cel.Activation].
func (v *exprVars) ResolveName(name string) (any, bool) {
	if name == "previous_run" {
		return v.previous()
	}
	value, ok := v.values[name]
	return value, ok
}

// Parent implements [cel.Activation].
func (v *exprVars) Parent() cel.Activation { return nil }

func (v *exprVars) previous() (any, bool) {
	run, ok, err := previousOf(v.ctx, v.in)
	if err != nil {
		v.err = errors.Join(v.err, err)
		return nil, false
	}
	if !ok {
		return exprPrevious{ExitCode: -1}, true
	}
	p := exprPrevious{
		Exists: true, ID: run.RunID, State: string(run.State), Succeeded: run.State == core.OrchestratorCompleted, Attempt: int64(run.RetryAttempt),
		ExitCode: -1, ScheduledAt: run.ScheduledAt.Std(), CompletedAt: run.CompletedAt.Std(), Error: run.Error,
	}
	if run.Pod.ExitCode != nil {
		p.ExitCode = int64(*run.Pod.ExitCode)
	}
	if ran := run.PodTimes(); !ran.EndedAt.IsZero() {
		p.Duration = ran.EndedAt.Sub(ran.StartedAt)
	}
	return p, true
}
