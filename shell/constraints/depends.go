package constraints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// depends is dependsOn: a run of another job has succeeded.
type depends struct {
	Lists
	job    string
	match  string
	within time.Duration // 0: at any time
}

// Which run of the other job counts.
const (
	matchLatest    = "latest"    // the latest one
	matchAny       = "any"       // any one within a time
	matchScheduled = "scheduled" // the one for the same time
	matchSince     = "since"     // one that ended after this job's run before this one began
)

func newDepends(s Spec) (Constraint, error) {
	c := struct {
		Job    string `json:"job"`
		Match  string `json:"match"`
		Within span   `json:"within"`
	}{Match: matchLatest}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	switch {
	case c.Job == "":
		return nil, s.Errorf("job", "is missing: give the id of the job whose run must have succeeded")
	case strings.Contains(c.Job, ":"):
		return nil, s.Errorf("job", "%q is no id of a job: it has a colon", clip.Text(c.Job, maxQuoted))
	case c.Job == s.Job.ID:
		return nil, s.Errorf("job", "%q is the job itself: use previousRun", clip.Text(c.Job, maxQuoted))
	case c.Match != matchLatest && c.Match != matchAny && c.Match != matchScheduled && c.Match != matchSince:
		return nil, s.Errorf("match", "%q is unknown: use latest, any, scheduled or since", clip.Text(c.Match, maxQuoted))
	case c.Match == matchAny && c.Within == 0:
		return nil, s.Errorf("within", "is missing: match %q needs a length of time such as %q", c.Match, "24h")
	case c.Within != 0 && (c.Match == matchScheduled || c.Match == matchSince):
		return nil, s.Errorf("within", "match %q has a time of its own: leave it out", c.Match)
	}
	return depends{s.Lists, c.Job, c.Match, time.Duration(c.Within)}, nil
}

// Check implements [Constraint].
func (d depends) Check(ctx context.Context, in *Input) (Outcome, error) {
	switch d.match {
	case matchScheduled:
		return d.scheduled(ctx, in)
	case matchAny:
		return d.after(ctx, in, effects.TimeOf(in.Now).Add(-d.within), fmt.Sprintf("within %v", d.within))
	case matchSince:
		before, ok, err := previousOf(ctx, in)
		if err != nil {
			return Outcome{}, err
		}
		if !ok {
			return d.after(ctx, in, 0, "yet")
		}
		return d.after(ctx, in, began(before), "since run "+before.RunID)
	}
	run, ok, err := latest(ctx, in, d.job, counts)
	switch {
	case err != nil:
		return Outcome{}, err
	case !ok:
		return Outcome{Message: fmt.Sprintf("job %s has had no run", d.job)}, nil
	case run.State != core.OrchestratorCompleted:
		return Outcome{Message: fmt.Sprintf("run %s is %s", run.RunID, run.State)}, nil
	}
	age := effects.TimeOf(in.Now).Sub(run.CompletedAt)
	if d.within == 0 {
		return Outcome{Met: true, Message: fmt.Sprintf("run %s completed %v ago", run.RunID, age)}, nil
	}
	return Outcome{Met: age <= d.within, Message: fmt.Sprintf("run %s completed %v ago, and within %v is needed", run.RunID, age, d.within)}, nil
}

// began is when a run's pod began, or else the time that the run is for.
func began(run core.Orchestrator) core.Time {
	return cmp.Or(run.PodTimes().StartedAt, run.ScheduledAt)
}

// scheduled looks at the other job's run for the same time.
func (d depends) scheduled(ctx context.Context, in *Input) (Outcome, error) {
	id := core.RunID(d.job, in.Run.ScheduledAt)
	run, err := in.Source.JobRun(ctx, core.RunRef(in.Job.Namespace, in.Job.Tenant, id).ID)
	switch {
	case errors.Is(err, shell.ErrNotFound):
		return Outcome{Message: fmt.Sprintf("there is no run %s", id)}, nil
	case err != nil:
		return Outcome{}, fmt.Errorf("read run %s: %w", clip.Text(id, maxQuoted), err)
	}
	return Outcome{Met: run.State == core.OrchestratorCompleted && counts(run), Message: fmt.Sprintf("run %s is %s", id, run.State)}, nil
}

// after looks for a success at or after a time.
func (d depends) after(ctx context.Context, in *Input, at core.Time, when string) (Outcome, error) {
	run, ok, err := latest(ctx, in, d.job, func(run core.Orchestrator) bool {
		return run.State == core.OrchestratorCompleted && counts(run) && !run.CompletedAt.Before(at)
	})
	switch {
	case err != nil:
		return Outcome{}, err
	case !ok:
		return Outcome{Message: fmt.Sprintf("no run of job %s has succeeded %s", d.job, when)}, nil
	}
	return Outcome{Met: true, Message: fmt.Sprintf("run %s completed at %s", run.RunID, run.CompletedAt)}, nil
}
