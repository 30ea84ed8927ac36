package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) jobRunRoutes() []route {
	return []route{
		{"GET", "/v1/runs", reading, s.listRuns},
		{"GET", "/v1/runs/{id}", reading, s.getRun},
		{"GET", "/v1/runs/{id}/logs", tailing, s.streamLogs},
		{"POST", "/v1/runs/{id}/cancel", writing, s.cancelRun},
		{"POST", "/v1/runs/{id}/retry", writing, s.retryRun},
	}
}

func summaryOfRun(o core.Orchestrator) wire.RunSummary {
	return wire.RunSummary{
		ID: o.ID, RunID: o.RunID, JobID: o.JobID, Namespace: o.Namespace, Tenant: o.Tenant, ScheduledAt: o.ScheduledAt, Manual: o.Manual,
		State: o.State, RetryAttempt: o.RetryAttempt, MaxRetries: o.Config.RetryConfig.MaxRetries, InCluster: o.InCluster, Pod: o.Pod,
		Error: o.Error, CreatedAt: o.CreatedAt, StartedAt: o.ExecutionStartedAt, RetryAt: o.RetryAt, CompletedAt: o.CompletedAt,
	}
}

func (s *Server) listRuns(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant", "job", "status", "in_cluster", "limit", "page_token")
	if err != nil {
		return err
	}
	namespace, tenant, err := listScope(q, c)
	if err != nil {
		return err
	}
	inCluster, err := q.bool("in_cluster")
	if err != nil {
		return err
	}
	scope, job := c.token.scope(namespace, tenant), q.opt("job")
	f := shell.JobRunFilter{Scope: scope, InCluster: or(inCluster, false)}
	if scope != nil { // else jobs of that id of several tenants may be meant
		f.Job = or(job, "")
	}
	return s.answerRuns(w, r, q, f, func(o core.Orchestrator) bool {
		return c.token.seesScope(o.Namespace, o.Tenant) && or(namespace, o.Namespace) == o.Namespace && or(tenant, o.Tenant) == o.Tenant &&
			or(job, o.JobID) == o.JobID && or(inCluster, o.InCluster) == o.InCluster
	})
}

func (s *Server) listRunsOfJob(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := ofJob(r, c, "status", "limit", "page_token")
	if err != nil {
		return err
	}
	if _, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.id); err != nil {
		return of.notFound(err)
	}
	return s.answerRuns(w, r, q, shell.JobRunFilter{Scope: &of.Scope, Job: of.id}, func(core.Orchestrator) bool { return true })
}

func (s *Server) answerRuns(w http.ResponseWriter, r *http.Request, q query, f shell.JobRunFilter, keep func(core.Orchestrator) bool) error {
	if v := q.opt("status"); v != nil {
		f.Status = core.OrchestratorStatus(*v)
		if !slices.Contains(core.OrchestratorStatuses(), f.Status) {
			return failf(http.StatusBadRequest, "status: %q is unknown: use one of %s", clip(*v), joined(core.OrchestratorStatuses()))
		}
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return err
	}
	list, next, err := gather(p, func(p shell.Page) ([]core.Orchestrator, string, error) {
		return s.engine.Runs().List(r.Context(), f, p)
	}, func(o core.Orchestrator) (bool, int) {
		return keep(o), 8192 + len(o.Config.PodSpec) + len(o.Config.ConstraintConfig) + len(o.Config.ActionConfig)
	})
	if err != nil {
		return err
	}
	out := wire.RunList{Runs: make([]wire.RunSummary, 0, len(list)), NextPageToken: next}
	for _, o := range list {
		out.Runs = append(out.Runs, summaryOfRun(o))
	}
	return writeJSON(w, http.StatusOK, out)
}

func joined[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// visibleRun loads the run of the path: by its UUID, or by its id "job:time" and a
// tenant. One that the token does not see does not exist for it.
func (s *Server) visibleRun(r *http.Request, c *call, params ...string) (o core.Orchestrator, q query, err error) {
	if q, err = readQuery(r, append([]string{"namespace", "tenant"}, params...)...); err != nil {
		return o, q, err
	}
	id, err := runID(r.PathValue("id"), q, c)
	if err != nil {
		return o, q, err
	}
	if o, err = s.engine.Runs().Get(r.Context(), id); err == nil && (!c.token.seesScope(o.Namespace, o.Tenant) || !matches(q, o.Namespace, o.Tenant)) {
		err = shell.ErrNotFound
	}
	if err != nil {
		return core.Orchestrator{}, q, noRun(r, q, c, err)
	}
	return o, q, nil
}

// noRun says which run is not there, as the caller named it, and where it was looked
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

func runID(text string, q query, c *call) (uuid.UUID, error) {
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

// getRun answers with a run, once it has ended where the caller wants to wait for
// that.
func (s *Server) getRun(w http.ResponseWriter, r *http.Request, c *call) error {
	o, q, err := s.visibleRun(r, c, "wait_seconds")
	if err != nil {
		return err
	}
	_, ended := core.EndedAt(o)
	id := o.ID
	o, err = await(r.Context(), s, q, o, ended, func(ctx context.Context) (core.Orchestrator, error) { return s.engine.Runs().Wait(ctx, id) })
	if errors.Is(err, errStillGoing) {
		o, err = s.engine.Runs().Get(r.Context(), id)
	}
	if err != nil {
		return noRun(r, q, c, err)
	}
	return writeJSON(w, http.StatusOK, o)
}

func (s *Server) cancelRun(w http.ResponseWriter, r *http.Request, c *call) error {
	o, q, err := s.visibleRun(r, c)
	if err != nil {
		return err
	}
	why, err := s.reason(w, r, c, "cancelled")
	if err != nil {
		return err
	}
	err = s.tellRun(w, r, q, c, o, core.OrchestratorCancel{Reason: why})
	if refusedRun(err) && o.State.Terminal() {
		return failf(http.StatusConflict, "run %s is %s, and has ended: there is nothing to cancel", o.RunID, o.State)
	}
	return err
}

// retryRun begins the next attempt of a run that waits for it.
func (s *Server) retryRun(w http.ResponseWriter, r *http.Request, c *call) error {
	o, q, err := s.visibleRun(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	if o.State.Terminal() {
		return failf(http.StatusConflict, "run %s is %s, and has ended: trigger its job for another one", o.RunID, o.State)
	}
	err = s.tellRun(w, r, q, c, o, core.OrchestratorRetry{})
	if refusedRun(err) && o.State != core.OrchestratorRetrying {
		return failf(http.StatusConflict, "run %s is %s: only one that is %s, and waits for its next attempt, can be retried", o.RunID, o.State, core.OrchestratorRetrying)
	}
	return err
}

// refusedRun reports whether a run did not take what it was told, as it then was.
func refusedRun(err error) bool {
	refusal, ok := errors.AsType[*shell.Refusal](err)
	return ok && refusal.Code == effects.CodeConflict
}

func (s *Server) tellRun(w http.ResponseWriter, r *http.Request, q query, c *call, o core.Orchestrator, ev core.OrchestratorEvent) error {
	o, err := s.engine.Runs().Send(r.Context(), o.ID, ev)
	if err != nil {
		return noRun(r, q, c, err)
	}
	return writeJSON(w, http.StatusOK, o)
}
