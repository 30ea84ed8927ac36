package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

// JobService is what the API needs of the shell of jobs beside the engine: a
// [jobs.Service] is one. It must be safe for concurrent use.
type JobService interface {
	// Check reports what of a job cannot be run here. The error names the field, and
	// is shown to whoever applies the job.
	Check(spec core.JobSpec) error
	// Logs copies the logs of an attempt of a run to w, as [jobs.Service.Logs] does.
	// An error that wraps [jobs.ErrNoPod], or has a method Permanent() bool that
	// returns true, is shown to whoever asks; another one is only logged.
	Logs(ctx context.Context, run core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error
}

var _ JobService = (*jobs.Service)(nil)

func (s *Server) jobRoutes() []route {
	return []route{
		{"GET", "/v1/jobs", reading, s.listJobs},
		{"GET", "/v1/jobs/{id}", reading, s.getJob},
		{"PUT", "/v1/jobs/{id}", writing, s.putJob},
		{"DELETE", "/v1/jobs/{id}", writing, s.deleteJob},
		{"POST", "/v1/jobs/{id}/trigger", writing, s.triggerJob},
		{"POST", "/v1/jobs/{id}/pause", writing, s.tellJob("paused", func(why string) core.JobEvent { return core.JobPause{Reason: why} })},
		{"POST", "/v1/jobs/{id}/resume", writing, s.resumeJob},
		{"POST", "/v1/jobs/{id}/skip-next", writing, s.tellJob("skipped", func(why string) core.JobEvent { return core.JobSkipNext{Reason: why} })},
		{"GET", "/v1/jobs/{id}/history", reading, s.jobHistory},
		{"GET", "/v1/jobs/{id}/preview", reading, s.previewJob},
		{"GET", "/v1/jobs/{id}/runs", reading, s.listRunsOfJob},
	}
}

// forJobs refuses a token that is bound to tools, but not to that of jobs: a pod
// may do whatever the cluster allows, as no other tool's name says.
func forJobs(c *call) error {
	if !in(c.token.Tools, jobs.ToolName) {
		return failf(http.StatusForbidden, "token: %q is bound to some tools: jobs and their runs take the tool %q", c.token.Name, jobs.ToolName)
	}
	return nil
}

// noRunner refuses what takes a runner where there is none.
func (s *Server) noRunner() error {
	if s.o.Jobs == nil {
		return failf(http.StatusNotImplemented, "jobs: no runner is configured here: configure a cluster, or local processes")
	}
	return nil
}

// jobOf names the job that a request is about: its own namespace and tenant, or
// those that the token is bound to.
type jobOf struct {
	shell.Scope
	id string
}

// notFound says which job is not there, and in whose tenant it was looked for.
func (of jobOf) notFound(err error) error {
	return notFoundIn(fmt.Sprintf("job %q", clip(of.id)), fmt.Sprintf(" in %s/%s", clip(of.Namespace), clip(of.Tenant)), err)
}

// ofJob reads which job the request is about, and refuses parameters that the
// route does not know.
func ofJob(r *http.Request, c *call, params ...string) (jobOf, query, error) {
	q, err := readQuery(r, append([]string{"namespace", "tenant"}, params...)...)
	if err != nil {
		return jobOf{}, q, err
	}
	of, err := ofJobIn(r, c, q.opt("namespace"), q.opt("tenant"))
	return of, q, err
}

func ofJobIn(r *http.Request, c *call, namespace, tenant *string) (of jobOf, err error) {
	if err := forJobs(c); err != nil {
		return of, err
	}
	for name, v := range map[string]*string{"namespace": namespace, "tenant": tenant} {
		if len(or(v, "")) > core.MaxNameBytes {
			return of, failf(http.StatusBadRequest, "%s: %d bytes is longer than %d", name, len(*v), core.MaxNameBytes)
		}
	}
	of.id = r.PathValue("id")
	if len(of.id) > core.MaxNameBytes {
		return of, failf(http.StatusBadRequest, "id: %d bytes is longer than %d", len(of.id), core.MaxNameBytes)
	}
	of.Scope, err = c.token.homeOf(namespace, tenant)
	return of, err
}

// jobSpec gives the job that was asked for.
func jobSpec(b *wire.JobRequest, of jobOf) core.JobSpec {
	return core.JobSpec{
		ID: of.id, Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Name, Schedule: b.Schedule, Timezone: b.Timezone,
		PodSpec: b.PodSpec, ConstraintConfig: notNull(b.ConstraintConfig), ActionConfig: notNull(b.ActionConfig), RetryConfig: b.RetryConfig,
		Overlap: b.Overlap, StartDeadlineSeconds: b.StartDeadlineSeconds, MaxConcurrentRuns: b.MaxConcurrentRuns,
		OrphanPolicy: b.OrphanPolicy, PodStartTimeoutMS: b.PodStartTimeoutMS, CreateAheadMS: b.CreateAheadMS,
		ConstraintErrors: b.ConstraintErrors, Logs: b.Logs, Labels: b.Labels, Runner: b.Runner,
	}
}

// notNull takes a null for what was left out.
func notNull(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

// ofTheJob says why some fields of a stored job cannot be given.
var ofTheJob = map[string]string{
	"id": "stands in the path", "key": "is derived from the tenant and the id",
	"paused": "is changed by pause and resume", "paused_reason": "is changed by pause and resume",
	"next_run_at": "is decided here", "next_times": "is decided here", "last_due_at": "is decided here", "last_verdict_at": "is decided here",
	"skip_next": "is changed by skip-next", "active": "is decided here", "last_run": "is decided here", "counts": "is decided here",
	"sequence": "is decided here", "last_triggered_at": "is decided here", "created_at": "is decided here", "updated_at": "is decided here",
}

const nextTimes = 5

func (s *Server) jobDetail(j core.Job) wire.Job {
	d := wire.Job{Job: j, Active: append([]core.ActiveRun{}, j.Active...), NextTimes: []effects.Time{}}
	if j.Schedule == "" || j.Paused {
		return d
	}
	if sched, err := schedule.Parse(j.Schedule, j.Timezone, j.CreatedAt); err == nil {
		d.NextTimes = append(d.NextTimes, sched.Preview(effects.TimeOf(s.o.Clock.Now()), nextTimes)...)
	}
	return d
}

// putJob makes a job, or gives it a new configuration: what the body leaves out has
// its default afterwards.
func (s *Server) putJob(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant", "dry_run")
	if err != nil {
		return err
	}
	dry, err := q.bool("dry_run")
	if err != nil {
		return err
	}
	var body wire.JobRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, ofTheJob)
	}
	if err := fromQuery(q, "namespace", &body.Namespace); err != nil {
		return err
	}
	if err := fromQuery(q, "tenant", &body.Tenant); err != nil {
		return err
	}
	of, err := ofJobIn(r, c, body.Namespace, body.Tenant)
	if err != nil {
		return err
	}
	spec := jobSpec(&body, of)
	if err := s.checkJob(r.Context(), c.token, spec); err != nil {
		return err
	}
	before, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.id)
	if err != nil && !errors.Is(err, shell.ErrNotFound) {
		return err
	}
	if or(dry, false) {
		return s.planJob(w, before, spec)
	}
	j, err := s.engine.Jobs().Apply(r.Context(), spec)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if before.Key == uuid.Nil {
		status = http.StatusCreated
		w.Header().Set("Location", r.URL.EscapedPath()+"?"+url.Values{"namespace": {of.Namespace}, "tenant": {of.Tenant}}.Encode())
	}
	return writeJSON(w, status, s.jobDetail(j))
}

// checkJob reports what of a job is wrong, what the token may not have done, and
// what cannot be run here, in this order: a token learns of nothing that is not
// its own.
func (s *Server) checkJob(ctx context.Context, t *Token, spec core.JobSpec) error {
	if err := spec.Validate(); err != nil {
		return failf(http.StatusBadRequest, "%s", oneLine(err.Error()))
	}
	if err := s.noRunner(); err != nil {
		return err
	}
	if err := s.permitJob(ctx, t, spec); err != nil {
		return err
	}
	if err := s.o.Jobs.Check(spec); err != nil {
		return failf(http.StatusBadRequest, "%s", oneLine(err.Error()))
	}
	return nil
}

// planJob shows what the job would be: its machine is pure, so that it can be
// asked without being told.
func (s *Server) planJob(w http.ResponseWriter, before core.Job, spec core.JobSpec) error {
	after, effs := before.Apply(core.JobApply{Spec: spec}, core.Clock{Now: effects.TimeOf(s.o.Clock.Now())})
	for _, e := range effs {
		if no, ok := e.(effects.Refused); ok {
			return failf(refusalStatus(no.Code), "%s", oneLine(no.Reason))
		}
	}
	would := "update"
	switch {
	case before.Key == uuid.Nil:
		would = "create"
	case sameSpec(before.JobSpec, after.JobSpec):
		would = "keep"
	}
	return writeJSON(w, http.StatusOK, wire.JobPlanned{Would: would, Job: s.jobDetail(after)})
}

func sameSpec(a, b core.JobSpec) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && slices.Equal(x, y)
}

func (s *Server) getJob(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofJob(r, c)
	if err != nil {
		return err
	}
	j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.id)
	return s.answerJob(w, of, j, err)
}

func (s *Server) answerJob(w http.ResponseWriter, of jobOf, j core.Job, err error) error {
	if err != nil {
		return of.notFound(err)
	}
	return writeJSON(w, http.StatusOK, s.jobDetail(j))
}

func summaryOfJob(j core.Job) wire.JobSummary {
	return wire.JobSummary{
		ID: j.ID, Namespace: j.Namespace, Tenant: j.Tenant, Name: j.Name, Schedule: j.Schedule, Timezone: j.Timezone,
		Runner: j.Runner, Overlap: string(j.Overlap), Labels: orEmpty(j.Labels), Paused: j.Paused, PausedReason: j.PausedReason,
		NextRunAt: j.NextRunAt, SkipNext: j.SkipNext, ActiveRuns: len(j.Active), LastRun: j.LastRun, Counts: j.Counts,
		CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt,
	}
}

func (s *Server) listJobs(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant", "paused", "label*", "limit", "page_token")
	if err != nil {
		return err
	}
	namespace, tenant, err := listScope(q, c)
	if err != nil {
		return err
	}
	f := shell.JobFilter{Scope: c.token.scope(namespace, tenant)}
	if f.Paused, err = q.bool("paused"); err != nil {
		return err
	}
	if f.Labels, err = q.labels(); err != nil {
		return err
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return err
	}
	list, next, err := gather(p, func(p shell.Page) ([]core.Job, string, error) {
		return s.engine.Jobs().List(r.Context(), f, p)
	}, func(j core.Job) (bool, int) {
		return c.token.seesScope(j.Namespace, j.Tenant) && or(namespace, j.Namespace) == j.Namespace && or(tenant, j.Tenant) == j.Tenant,
			4096 + len(j.PodSpec) + len(j.ConstraintConfig) + len(j.ActionConfig) + 256*len(j.Active)
	})
	if err != nil {
		return err
	}
	out := wire.JobList{Jobs: make([]wire.JobSummary, 0, len(list)), NextPageToken: next}
	for _, j := range list {
		out.Jobs = append(out.Jobs, summaryOfJob(j))
	}
	return writeJSON(w, http.StatusOK, out)
}

// listScope reads whose jobs or runs a list is about.
func listScope(q query, c *call) (namespace, tenant *string, err error) {
	if err := forJobs(c); err != nil {
		return nil, nil, err
	}
	if namespace, tenant, err = q.scope(); err != nil {
		return nil, nil, err
	}
	return namespace, tenant, c.token.permit(namespace, tenant, "")
}

func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofJob(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	if _, err := s.engine.Jobs().Send(r.Context(), of.Scope, of.id, core.JobDelete{Reason: fmt.Sprintf("deleted by %s", c.actor)}); err != nil {
		return of.notFound(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
