package constraints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/pages"
)

// concurrent is maxConcurrentRuns: it bounds the runs of some jobs or labels in a tenant.
type concurrent struct {
	Lists
	most   int
	jobs   []string
	labels map[string]string
}

const maxListedJobs = 64

func newConcurrent(s Spec) (Constraint, error) {
	var c struct {
		Max    int               `json:"max"`
		Jobs   []string          `json:"jobs"`
		Labels map[string]string `json:"labels"`
	}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	switch {
	case c.Max < 1 || c.Max > 100_000:
		return nil, s.Errorf("max", "%d is not between 1 and 100000", c.Max)
	case len(c.Jobs) > 0 && len(c.Labels) > 0:
		return nil, s.Errorf("labels", "stands beside jobs: use one of the two")
	case len(c.Jobs) > maxListedJobs:
		return nil, s.Errorf("jobs", "%d are more than %d", len(c.Jobs), maxListedJobs)
	case len(c.Labels) > maxListedJobs:
		return nil, s.Errorf("labels", "%d are more than %d", len(c.Labels), maxListedJobs)
	}
	for i, id := range c.Jobs {
		if id == "" || strings.Contains(id, ":") {
			return nil, s.Errorf(fmt.Sprintf("jobs[%d]", i), "%q is no id of a job", clip.Text(id, maxQuoted))
		}
	}
	return &concurrent{s.Lists, c.Max, c.Jobs, c.Labels}, nil
}

// Check implements [Constraint].
func (c *concurrent) Check(ctx context.Context, in *Input) (Outcome, error) {
	count := c.ofJobs
	if len(c.labels) > 0 {
		count = c.withLabels
	}
	n, err := count(ctx, in)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Met: n < c.most, Message: fmt.Sprintf("%d other runs are under way, and %d may be at a time", n, c.most)}, nil
}

// holdsSlot reports whether another run holds one of the slots: a run that has pods, or
// is about to, does. Of two runs whose constraints are being checked, the one whose
// check began first does, so that they do not both proceed, nor both give way.
func holdsSlot(other, own core.Orchestrator) bool {
	if other.ID == own.ID {
		return false
	}
	switch other.State {
	case core.OrchestratorContainerCreating, core.OrchestratorRunning, core.OrchestratorTerminating:
		return true
	case core.OrchestratorConditionPending, core.OrchestratorConditionRunning, core.OrchestratorActionPending, core.OrchestratorActionRunning:
		if other.ConstraintCheckStarted != own.ConstraintCheckStarted {
			return other.ConstraintCheckStarted.Before(own.ConstraintCheckStarted)
		}
		return bytes.Compare(other.ID[:], own.ID[:]) < 0
	default: // an orphan, whose pod may go on, has no slot either: docs/decisions/0012-runs.md
		return false
	}
}

// ofJobs counts the runs of the jobs, up to the limit.
func (c *concurrent) ofJobs(ctx context.Context, in *Input) (n int, err error) {
	for _, id := range jobsOr(c.jobs, in.Job) {
		job, err := in.Source.Job(ctx, in.Scope(), id)
		if errors.Is(err, shell.ErrNotFound) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("read job %s: %w", clip.Text(id, maxQuoted), err)
		}
		for _, active := range job.Active {
			if active.Stage != core.StageAdmitted || active.Run == in.Run.ID {
				continue
			}
			run, err := in.Source.JobRun(ctx, active.Run)
			if err != nil && !errors.Is(err, shell.ErrNotFound) {
				return n, fmt.Errorf("read run %s: %w", clip.Text(active.RunID, maxQuoted), err)
			}
			if err == nil && holdsSlot(run, in.Run) {
				n++
			}
			if n >= c.most {
				return n, nil
			}
		}
	}
	return n, nil
}

// busyStates are those of runs that may hold a slot, in the order in which a run
// passes them: one that goes on between two lists is found in the later one too.
var busyStates = []core.OrchestratorStatus{
	core.OrchestratorConditionRunning, core.OrchestratorActionRunning,
	core.OrchestratorContainerCreating, core.OrchestratorRunning, core.OrchestratorTerminating,
}

// withLabels counts the runs with the labels, each once in whatever state, up to the limit.
func (c *concurrent) withLabels(ctx context.Context, in *Input) (int, error) {
	seen := map[[16]byte]bool{}
	for _, state := range busyStates {
		for runs, err := range pages.Each(ctx, 100, in.Source.JobRuns, shell.JobRunFilter{Status: state}) {
			if err != nil {
				return 0, fmt.Errorf("list the runs that are %s: %w", state, err)
			}
			for _, run := range runs {
				if run.Namespace == in.Job.Namespace && run.Tenant == in.Job.Tenant && hasAll(run.Config.Labels, c.labels) && holdsSlot(run, in.Run) {
					seen[run.ID] = true
				}
			}
			if len(seen) >= c.most {
				return len(seen), nil
			}
		}
	}
	return len(seen), nil
}

func hasAll(labels, want map[string]string) bool {
	for k, v := range want {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
