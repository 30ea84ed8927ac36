package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) jobRunRoutes() []route {
	runs := s.runs()
	return []route{
		{"GET", "/v1/runs", anyToken, runs.page(runList)},
		{"GET", "/v1/runs/{id}", anyToken, runs.await(s, s.engine.Runs().Wait)},
		{"GET", "/v1/runs/{id}/logs", anyToken | streams, s.streamLogs},
		{"POST", "/v1/runs/{id}/cancel", writingToken, runs.act(s.cancelRun)},
		{"POST", "/v1/runs/{id}/retry", writingToken, runs.act(s.retryRun)},
	}
}

func runList(l []wire.RunSummary, next string) any { return wire.RunList{Runs: l, NextPageToken: next} }

// runs says how runs of jobs are served.
func (s *Server) runs() machines[core.Orchestrator, wire.RunSummary] {
	return machines[core.Orchestrator, wire.RunSummary]{
		get: s.engine.Runs().Get, id: runID, missing: noRun,
		listing: listing[core.Orchestrator, wire.RunSummary]{
			params: []string{"job", "status", "in_cluster"},
			may:    forJobs,
			find:   s.findRuns,
			scope:  func(o core.Orchestrator) (string, string) { return o.Namespace, o.Tenant },
			out:    plain(summaryOfRun),
			size: func(o core.Orchestrator) int {
				return 8192 + len(o.Config.PodSpec) + len(o.Config.ConstraintConfig) + len(o.Config.ActionConfig)
			},
		},
	}
}

func summaryOfRun(o core.Orchestrator) wire.RunSummary {
	return wire.RunSummary{
		ID: o.ID, RunID: o.RunID, JobID: o.JobID, Namespace: o.Namespace, Tenant: o.Tenant, ScheduledAt: o.ScheduledAt, Manual: o.Manual,
		State: o.State, RetryAttempt: o.RetryAttempt, MaxRetries: o.Config.RetryConfig.MaxRetries, InCluster: o.InCluster, Pod: o.Pod,
		Error: o.Error, CreatedAt: o.CreatedAt, StartedAt: o.ExecutionStartedAt, RetryAt: o.RetryAt, CompletedAt: o.CompletedAt,
	}
}

func (s *Server) findRuns(q query, scope *shell.Scope) (source[core.Orchestrator], error) {
	inCluster, err := q.bool("in_cluster")
	if err != nil {
		return source[core.Orchestrator]{}, err
	}
	job := q.opt("job")
	f := shell.JobRunFilter{Scope: scope, InCluster: or(inCluster, false)}
	if scope != nil { // else jobs of that id of several tenants may be meant
		f.Job = or(job, "")
	}
	found, err := s.runsOf(q, f)
	found.keep = func(o core.Orchestrator) bool {
		return or(job, o.JobID) == o.JobID && or(inCluster, o.InCluster) == o.InCluster
	}
	return found, err
}

// runsOf reads the status that the query asks for, and gives the runs that a filter chooses.
func (s *Server) runsOf(q query, f shell.JobRunFilter) (source[core.Orchestrator], error) {
	known := make([]string, 0, len(core.OrchestratorStatuses()))
	for _, status := range core.OrchestratorStatuses() {
		known = append(known, string(status))
	}
	status, err := q.status(known)
	f.Status = core.OrchestratorStatus(status)
	return from(s.engine.Runs().List, f), err
}

func (s *Server) listRunsOfJob(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byJob.of(r, c, "status", "limit", "page_token")
	if err != nil {
		return err
	}
	if _, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name); err != nil {
		return noJob(of, err)
	}
	from, err := s.runsOf(q, shell.JobRunFilter{Scope: &of.Scope, Job: of.name})
	if err != nil {
		return err
	}
	return s.runs().answer(w, r, q, from, runList, func(core.Orchestrator) bool { return true })
}

// noRun says which run does not exist, as the caller named it, and where it was looked
// for if that counts.
func noRun(r *http.Request, q query, c *call, err error) error {
	where, text := "", r.PathValue("id")
	if strings.Contains(text, ":") {
		if scope, err := c.token.homeOf(q.opt("namespace"), q.opt("tenant")); err == nil {
			where = fmt.Sprintf(" in %s/%s", clip(scope.Namespace), clip(scope.Tenant))
		}
	}
	return notFoundIn(fmt.Sprintf("run %q", clip(text)), where, err)
}

// runID reads the id of the path: a UUID, or the run's id "job:time" within a tenant.
func runID(r *http.Request, q query, c *call) (uuid.UUID, error) {
	text := r.PathValue("id")
	if err := forJobs(c); err != nil {
		return uuid.Nil, err
	}
	namespace, tenant, err := q.scope()
	if err != nil {
		return uuid.Nil, err
	}
	job, at, named := strings.Cut(text, ":")
	if !named {
		id, err := parseID(text)
		if err != nil {
			return id, failf(http.StatusBadRequest, "id: %s, nor the id of a run such as nightly:2026-02-10T14:00:00.000Z", err)
		}
		return id, nil
	}
	t, err := effects.ParseTime(at)
	if err != nil {
		return uuid.Nil, failf(http.StatusBadRequest, "id: %q is not the id of a run: want the job's id and a time, such as nightly:2026-02-10T14:00:00.000Z", clip(text))
	}
	scope, err := c.token.homeOf(namespace, tenant)
	if err != nil {
		return uuid.Nil, err
	}
	return core.RunRef(scope.Namespace, scope.Tenant, core.RunID(job, t)).ID, nil
}

func (s *Server) cancelRun(w http.ResponseWriter, r *http.Request, c *call, o core.Orchestrator) (any, error) {
	why, err := s.reason(w, r, c, "cancelled")
	if err != nil {
		return nil, err
	}
	after, err := s.engine.Runs().Send(r.Context(), o.ID, core.OrchestratorCancel{Reason: why})
	if refusedRun(err) && o.State.Terminal() {
		return nil, failf(http.StatusConflict, "run %s is %s, and has ended: there is nothing to cancel", o.RunID, o.State)
	}
	return after, err
}

// retryRun begins the next attempt of a run that waits for it.
func (s *Server) retryRun(w http.ResponseWriter, r *http.Request, _ *call, o core.Orchestrator) (any, error) {
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	if o.State.Terminal() {
		return nil, failf(http.StatusConflict, "run %s is %s, and has ended: trigger its job for a new run", o.RunID, o.State)
	}
	after, err := s.engine.Runs().Send(r.Context(), o.ID, core.OrchestratorRetry{})
	if refusedRun(err) && o.State != core.OrchestratorRetrying {
		return nil, failf(http.StatusConflict, "run %s is %s: only a run that is %s, and waits for its next attempt, can be retried", o.RunID, o.State, core.OrchestratorRetrying)
	}
	return after, err
}

// refusedRun reports whether a run refused an event in the state that it then had.
func refusedRun(err error) bool {
	refusal, ok := errors.AsType[*shell.Refusal](err)
	return ok && refusal.Code == effects.CodeConflict
}
