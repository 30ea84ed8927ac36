package httpapi

import (
	"fmt"
	"iter"
	"net/http"

	"github.com/orrery-go/orrery/core"
)

// JobReach is what a job's constraints and actions reach: that of package
// constraints, which this package does not link, can be converted to it.
type JobReach struct {
	Tools     []string           // that hooks run
	Queues    []string           // that enqueue pushes into
	Jobs      []string           // that kickOffJob triggers
	Locks     []string           // that lock takes
	Pipelines []core.PipelineDef // that startPipeline starts
	Notify    bool               // a notification is sent
	Webhooks  bool               // a webhook is sent
}

// uses lists what of it takes a permission: jobs and locks of the same tenant are
// open to whoever may apply jobs there.
func (u JobReach) uses() iter.Seq[use] {
	const field = "constraint_config"
	return func(yield func(use) bool) {
		for _, tool := range u.Tools {
			if !yield(use{field: field, tool: tool}) {
				return
			}
		}
		if len(u.Queues) > 0 && !yield(use{field: field, what: fmt.Sprintf("an item of the queue %q, with which its worker may do anything", clip(u.Queues[0]))}) ||
			u.Notify && !yield(use{field: field, what: "a notification"}) ||
			u.Webhooks && !yield(use{field: field, what: "a webhook"}) {
			return
		}
		for _, p := range u.Pipelines {
			if !walkPipeline(field+".startPipeline", p, yield) {
				return
			}
		}
	}
}

// permitJob refuses a token that is bound to tools what a job's constraints and
// actions would do with others. Its pod may do what its cluster allows: that is
// what the tool of jobs stands for.
func (s *Server) permitJob(t *Token, spec core.JobSpec) error {
	if len(t.Tools) == 0 || len(spec.ConstraintConfig) == 0 && len(spec.ActionConfig) == 0 {
		return nil
	}
	if s.o.JobUses == nil {
		return failf(http.StatusForbidden, "constraint_config: the token is bound to tools, and it is not known here which ones constraints would use: leave it out")
	}
	reach, err := s.o.JobUses(spec)
	if err != nil {
		return failf(http.StatusBadRequest, "%s", oneLine(err.Error()))
	}
	return t.mayUse(reach.uses())
}
