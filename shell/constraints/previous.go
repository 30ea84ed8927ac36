package constraints

import (
	"context"
	"fmt"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/pages"
)

// maxLookBack bounds how many runs are looked at for the one that counts.
const maxLookBack = 1000

// latest gives the latest run of a job, by the time that it is for, which satisfies
// ok; false where there is none among those that are kept. Runs are listed by their
// creation, which is some time ahead of theirs but for one by hand: the search goes on
// for as long as a later one may follow.
func latest(ctx context.Context, in *Input, job string, ok func(core.Orchestrator) bool) (best core.Orchestrator, found bool, err error) {
	scope := in.Scope()
	seen := 0
	for run, err := range pages.All(ctx, 50, in.Source.JobRuns, shell.JobRunFilter{Scope: &scope, Job: job}) {
		if err != nil {
			return best, false, fmt.Errorf("list the runs of job %s: %w", clip.Text(job, maxQuoted), err)
		}
		if found && run.CreatedAt.Before(best.ScheduledAt.Add(-createAhead(run))) {
			break
		}
		if ok(run) && (!found || run.ScheduledAt.After(best.ScheduledAt)) {
			best, found = run, true
		}
		if seen++; seen == maxLookBack {
			break
		}
	}
	return best, found, nil
}

// createAhead is how long before its time a run is made.
func createAhead(run core.Orchestrator) time.Duration {
	if ms := run.Config.CreateAheadMS; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return core.DefaultCreateAheadMS * time.Millisecond
}

// counts reports whether a run had a slot and was not skipped.
func counts(run core.Orchestrator) bool {
	skipped := run.State == core.OrchestratorCompleted && run.ExecutionStartedAt.IsZero()
	return run.Admitted && !skipped
}

// previousOf gives the run of the same job before this one.
func previousOf(ctx context.Context, in *Input) (core.Orchestrator, bool, error) {
	return latest(ctx, in, in.Run.JobID, func(run core.Orchestrator) bool {
		return run.ID != in.Run.ID && run.ScheduledAt.Before(in.Run.ScheduledAt) && counts(run)
	})
}

// previous is previousRun: the job's run before this one has ended, or succeeded.
type previous struct {
	Lists
	succeeded bool
	required  bool
}

func newPrevious(s Spec) (Constraint, error) {
	c := struct {
		Must     string `json:"must"`
		Required bool   `json:"required"`
	}{Must: "succeeded"}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	if c.Must != "succeeded" && c.Must != "finished" {
		return nil, s.Errorf("must", "%q is unknown: use \"succeeded\" or \"finished\"", clip.Text(c.Must, maxQuoted))
	}
	return previous{s.Lists, c.Must == "succeeded", c.Required}, nil
}

// Check implements [Constraint].
func (p previous) Check(ctx context.Context, in *Input) (Outcome, error) {
	run, ok, err := previousOf(ctx, in)
	switch {
	case err != nil:
		return Outcome{}, err
	case !ok:
		return Outcome{Met: !p.required, Message: "there is no run before this one"}, nil
	}
	met := run.State.Terminal()
	if p.succeeded {
		met = run.State == core.OrchestratorCompleted
	}
	return Outcome{Met: met, Message: fmt.Sprintf("run %s is %s", run.RunID, run.State)}, nil
}
