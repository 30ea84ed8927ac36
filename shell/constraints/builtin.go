package constraints

import (
	"context"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/jobs"
)

// builtinTypes are Orrery's own constraints; if env is nil, expressions are not compiled.
func builtinTypes(env *cel.Env) map[string]Type {
	pre, post := []effects.CheckPhase{effects.CheckPre}, []effects.CheckPhase{effects.CheckPost}
	either := []effects.CheckPhase{effects.CheckPre, effects.CheckPost}
	return map[string]Type{
		"maxExpectedRunTime": {New: newRunTime(false), Phases: post, Advisory: true},
		"maxAllowedRunTime":  {New: newRunTime(true), Phases: either, Always: true},
		"maxConcurrentRuns":  {New: newConcurrent, Phases: pre},
		"preRunHook":         {New: newHook, Phases: pre},
		"postRunHook":        {New: newHook, Phases: post},
		"timeWindow":         {New: newWindow, Phases: either},
		"previousRun":        {New: newPrevious, Phases: pre},
		"dependsOn":          {New: newDepends, Phases: pre},
		"lock":               {New: newLock, Phases: pre},
		"expression":         {New: func(s Spec) (Constraint, error) { return newExpression(s, env) }, Phases: either},
	}
}

// maxRunTime is maxExpectedRunTime, by which the pod should not have run for longer
// (004 Phase 5), or maxAllowedRunTime: then the machine kills the pod that runs for
// longer (R15), and afterwards the constraint is violated.
type maxRunTime struct {
	Lists
	limit time.Duration
	kills bool // maxAllowedRunTime
}

// newRunTime makes maxAllowedRunTime if kills, and else maxExpectedRunTime.
func newRunTime(kills bool) func(Spec) (Constraint, error) {
	return func(s Spec) (Constraint, error) {
		var c struct {
			Limit span `json:"limit"`
		}
		if err := s.Decode(&c); err != nil {
			return nil, err
		}
		if c.Limit == 0 {
			return nil, s.Errorf("limit", "is missing: give a length of time such as %q", "30m")
		}
		return maxRunTime{s.Lists, time.Duration(c.Limit), kills}, nil
	}
}

// Check implements [Constraint].
func (m maxRunTime) Check(_ context.Context, in *Input) (Outcome, error) {
	if m.kills && in.Phase == effects.CheckPre {
		return Outcome{Met: true, MaxAllowedRunTime: m.limit, undecided: true}, nil
	}
	ran, ok := in.ran()
	switch {
	case !ok:
		return Outcome{Met: true, Message: "the pod did not run"}, nil
	case m.kills:
		return Outcome{Met: !in.reached(m.limit), Message: fmt.Sprintf("it ran for %v, and %v is allowed", ran, m.limit)}, nil
	}
	return Outcome{Met: ran <= m.limit, Message: fmt.Sprintf("it ran for %v, and %v is expected", ran, m.limit)}, nil
}

// seen is how long the machine saw the pod running.
func (in *Input) seen() (time.Duration, bool) {
	run := in.Run
	if run.ExecutionStartedAt.IsZero() || run.ExecutionEndedAt.IsZero() {
		return 0, false
	}
	return max(run.ExecutionEndedAt.Sub(run.ExecutionStartedAt), 0), true
}

// told is how long the cluster says that the pod ran.
func (in *Input) told() (time.Duration, bool) {
	if in.Start.IsZero() || in.End.IsZero() || in.End.Before(in.Start) {
		return 0, false
	}
	return in.End.Sub(in.Start), true
}

// ran is how long the pod ran: as the cluster says, or else as the machine saw it.
func (in *Input) ran() (time.Duration, bool) {
	if d, ok := in.told(); ok {
		return d, true
	}
	return in.seen()
}

// clusterPrecision is that of the times of a pod.
const clusterPrecision = time.Second

// reached reports whether the pod ran for as long as a limit, at which the machine kills
// it. If the cluster's times are too coarse to tell, what the machine saw counts.
func (in *Input) reached(limit time.Duration) bool {
	told, known := in.told()
	seen, ok := in.seen()
	switch {
	case !known:
		return ok && seen >= limit
	case told > limit:
		return true
	}
	return told+clusterPrecision > limit && ok && seen >= limit
}

// jobsOr gives a list of jobs, by default the run's own.
func jobsOr(list []string, job *jobs.Job) []string {
	if len(list) == 0 {
		return []string{job.ID}
	}
	return list
}
