package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Terms lists the run under all, its state within its tenant and its job, under
// [TermInCluster] and [TermCleanupFailed], and under what may be forgotten.
func (o Orchestrator) Terms() []effects.Term {
	terms := append(listed(o.CreatedAt, StatusTerm(o.State), o.scope()), effects.Term{Name: JobTerm(o.job().ID), At: o.CreatedAt})
	if o.InCluster {
		terms = append(terms, effects.Term{Name: TermInCluster, At: o.CreatedAt, Counted: true})
	}
	if o.Cleanup.Failing() {
		terms = append(terms, effects.Term{Name: TermCleanupFailed, At: o.CreatedAt, Counted: true})
	}
	failed, has := o.failedAt()
	terms = withFailure(terms, failed, has, o.scope())
	at, ended := o.endedAt()
	return withEnd(terms, at, ended && !o.mustBeKept())
}

// TermCleanupFailed is the list term of the runs whose [Orchestrator.Cleanup] is failing.
const TermCleanupFailed = "cleanup_failed"

// TermInCluster is the list term of the runs that may have something in a cluster:
// nobody needs what is there of any other run.
const TermInCluster = "in_cluster"

// JobTerm is the list term of the runs of one job.
func JobTerm(job uuid.UUID) string { return "job:" + job.String() }
