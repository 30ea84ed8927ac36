package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

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
//
// Where it has a method Pods() map[string]jobs.Pods, the metrics show what that gives; and
// where it has Health() map[string]jobs.Health, runs, metrics, /v1/runners and /readyz do.
// Where it has TenantsOf(runner string) []shell.Scope, which gives those whose jobs may use a
// runner, none or a Namespace or Tenant of [jobs.AllTenants] for all, /v1/runners shows it to them alone.
type JobService interface {
	// Check reports what of a job cannot be run here. The error names the field, and
	// is shown to whoever applies the job.
	Check(spec core.JobSpec) error
	// RunnerOf names the runner that would run the job: the job's own, else the default
	// one; empty if there is neither.
	RunnerOf(spec core.JobSpec) string
	// MayRun reports that the runner of a job is not for the job's tenant. The error names
	// the field, and is shown to whoever applies or triggers the job.
	MayRun(spec core.JobSpec) error
	// Logs copies the logs of an attempt of a run to w, as [jobs.Service.Logs] does.
	// An error that wraps [jobs.ErrNoPod], or has a method Permanent() bool that
	// returns true, is shown to whoever asks; another one is only logged.
	Logs(ctx context.Context, run core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error
}

var _ JobService = (*jobs.Service)(nil)

func (s *Server) jobRoutes() []route {
	return []route{
		{"GET", "/v1/jobs", anyToken | lists, s.jobs().page(s, "jobs")},
		{"GET", "/v1/jobs/{id}", anyToken, serveChange(byJob, shownWith(s.jobDetail, s.ownerOfJob), s.getJob)},
		{"PUT", "/v1/jobs/{id}", writingToken | edits, s.putJob},
		{"DELETE", "/v1/jobs/{id}", writingToken | edits, serveBody(s, byJob, true, s.deleteJob)},
		{"POST", "/v1/jobs/{id}/trigger", writingToken, serveBody(s, byJob, true, s.triggerJob)},
		{"POST", "/v1/jobs/{id}/pause", writingToken, s.onJob(s.pauseJob)},
		{"POST", "/v1/jobs/{id}/resume", writingToken, s.onJob(s.resumeJob)},
		{"POST", "/v1/jobs/{id}/skip-next", writingToken, s.onJob(s.tellJob("skipped", func(why string) core.JobEvent { return core.JobSkipNext{Reason: why} }))},
		{"GET", "/v1/jobs/{id}/history", anyToken | lists, s.jobHistory},
		{"GET", "/v1/jobs/{id}/preview", anyToken, s.previewJob},
		{"GET", "/v1/jobs/{id}/runs", anyToken | lists, s.listRunsOfJob},
	}
}

// forJobs refuses a token that is bound to tools, but not to the tool of jobs: a pod
// may do whatever the cluster allows, as no other tool's name says.
func forJobs(c *call) error {
	if in(c.token.Tools, jobs.ToolName) {
		return nil
	}
	return c.token.notBoundToTools(fmt.Sprintf("use jobs and their runs, which need the tool %q", jobs.ToolName))
}

// noRunner refuses what needs a runner if none is configured.
func (s *Server) noRunner() error {
	if s.o.Jobs == nil {
		return failf(http.StatusNotImplemented, "jobs: no runner is configured here: configure a cluster, or local processes")
	}
	return nil
}

// byJob says how requests name jobs.
var byJob = naming{param: "id", bounded: true, may: forJobs, gone: noJob}

// noJob says which job does not exist, and in whose tenant it was looked for.
func noJob(of named, err error) error {
	return notFoundIn(fmt.Sprintf("job %q", clip(of.name)), fmt.Sprintf(" in %s/%s", clip(of.Namespace), clip(of.Tenant)), err)
}

// jobSpec gives the job that was asked for.
func jobSpec(b *wire.JobRequest, of named) core.JobSpec {
	return core.JobSpec{
		ID: of.name, Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Name, Schedule: b.Schedule, Timezone: b.Timezone,
		PodSpec: b.PodSpec, ConstraintConfig: notNull(b.ConstraintConfig), ActionConfig: notNull(b.ActionConfig), RetryConfig: b.RetryConfig,
		Overlap: b.Overlap, StartDeadlineSeconds: b.StartDeadlineSeconds, MaxConcurrentRuns: b.MaxConcurrentRuns,
		OrphanPolicy: b.OrphanPolicy, PodStartTimeoutMS: b.PodStartTimeoutMS, CreateAheadMS: b.CreateAheadMS,
		TTLSecondsAfterFinished: b.TTLSecondsAfterFinished, ConstraintErrors: b.ConstraintErrors, Logs: b.Logs, Labels: b.Labels, Runner: b.Runner,
		EndsAt: b.EndsAt, ScheduleOptions: b.ScheduleOptions,
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
	"next_run_at": "is set by the server", "next_times": "is set by the server", "last_due_at": "is set by the server", "last_verdict_at": "is set by the server",
	"skip_next": "is changed by skip-next", "active": "is set by the server", "last_run": "is set by the server", "counts": "is set by the server",
	"sequence": "is set by the server", "ledger": "is set by the server", "durations": "is set by the server", "last_success_at": "is set by the server", "executions": "is set by the server",
	"paused_by": "is changed by pause and resume", "paused_until": "is changed by pause and resume", "paused_from": "is set by the server", "decided": "is set by the server", "next_times_before": "is set by the server", "last_triggered_at": "is set by the server", "created_at": "is set by the server", "updated_at": "is set by the server",
}

func (s *Server) jobDetail(ctx context.Context, j core.Job) (wire.Job, error) {
	calendars, err := s.engine.Jobs().Calendars(ctx, j.JobSpec)
	return wire.Job{
		Job: j, Active: append([]core.ActiveRun{}, j.Active...), NextTimes: j.NextTimes(s.now(), calendars), Warnings: j.Warnings(),
	}, err
}

func (s *Server) ownerOfJob(ctx context.Context, j *wire.Job) (err error) {
	j.Declared, err = s.declaredBy(ctx, j.Ref(), "")
	return err
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
	if err := s.podSpecOf(&body); err != nil {
		return err
	}
	if err := cmp.Or(fromQuery(q, "namespace", &body.Namespace), fromQuery(q, "tenant", &body.Tenant)); err != nil {
		return err
	}
	of, err := byJob.in(r, c, body.Namespace, body.Tenant)
	if err != nil {
		return err
	}
	spec := jobSpec(&body, of)
	if err := s.checkJob(r.Context(), c.token, spec); err != nil {
		return err
	}
	before, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
	if err != nil && !errors.Is(err, shell.ErrNotFound) {
		return err
	}
	asks := want{asked: spec}
	if before.Key == uuid.Nil {
		asks.schedules = 1
	}
	if before.Schedule != spec.Schedule { // what is stored goes on
		asks.schedule = s.cron(schedule.Spec{Expr: spec.Schedule, Zone: spec.Timezone, DST: spec.DST, DayMatch: spec.DayMatch})
	}
	if err := s.within(r.Context(), c.token, of.Scope, asks); err != nil {
		return err
	}
	if or(dry, false) {
		if r.Header.Get("If-Match")+r.Header.Get("If-None-Match") != "" {
			return failf(http.StatusBadRequest, "If-Match, If-None-Match: a dry run takes no condition")
		}
		if err := s.mayPlan(r, before); err != nil {
			return err
		}
		return s.planJob(w, r, before, spec)
	}
	c.once.Note([]byte(madeOrNot[before.Key == uuid.Nil]))
	j, applied, err := s.engine.Jobs().Configure(r.Context(), spec)
	if err != nil {
		return err
	}
	made := before.Key == uuid.Nil
	if note := c.once.Noted(); note != nil { // the first time
		made = string(note) == madeOrNot[true]
	}
	detail, err := s.jobDetail(r.Context(), j)
	if err != nil {
		return err
	}
	c.tag(w, r, j)
	detail.NextTimes = append([]effects.Time{}, applied.NextTimes...) // as the transition itself has them
	status := http.StatusOK
	if made {
		status = http.StatusCreated
		w.Header().Set("Location", r.URL.EscapedPath()+"?"+url.Values{"namespace": {of.Namespace}, "tenant": {of.Tenant}}.Encode())
	}
	return writeJSON(w, status, wire.JobApplied{Job: detail, NextTimesBefore: append([]effects.Time{}, applied.NextTimesBefore...)})
}

// madeOrNot is what is kept of a request with a key that configures a job: whether that has made it.
var madeOrNot = map[bool]string{true: "made", false: "changed"}

// podSpecOf reads a pod spec that is given as text.
func (s *Server) podSpecOf(b *wire.JobRequest) error {
	var text string
	if s.o.ParsePodSpec == nil || json.Unmarshal(b.PodSpec, &text) != nil || string(b.PodSpec) == "null" {
		return nil // it is a JSON object, or refused as that
	}
	spec, err := s.o.ParsePodSpec([]byte(text))
	if err != nil {
		return failf(http.StatusBadRequest, "pod_spec: %s", oneLine(strings.ReplaceAll(err.Error(), "\n", "\npod_spec: ")))
	}
	b.PodSpec = spec
	return nil
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

// mayPlan refuses to plan the change of a job that a set of files owns, unless that is taken over.
func (s *Server) mayPlan(r *http.Request, before core.Job) error {
	if before.Key == uuid.Nil || r.Header.Get(takeOverHeader) != "" {
		return nil
	}
	owner, err := s.engine.Sets().Owner(r.Context(), before.Ref(), "")
	if errors.Is(err, shell.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return failf(http.StatusConflict, "%s", owner.Refusal(nil))
}

// planJob shows what the job would be: its machine is pure, so that the event can be
// applied to it without being sent.
func (s *Server) planJob(w http.ResponseWriter, r *http.Request, before core.Job, spec core.JobSpec) error {
	if err := s.engine.Jobs().Check(spec); err != nil {
		return err
	}
	named := spec
	named.Calendars = slices.Concat(before.Calendars, spec.Calendars)
	calendars, err := s.engine.Jobs().Calendars(r.Context(), named)
	if err != nil {
		return err
	}
	after, effs := before.ApplyWith(core.JobApply{Spec: spec}, core.Clock{Now: s.now()}, calendars)
	planned := wire.JobPlanned{NextTimesBefore: []effects.Time{}}
	for _, e := range effs {
		if r, ok := e.(effects.Refused); ok {
			return failf(refusalStatus(r.Code), "%s", oneLine(r.Reason))
		}
		if a, ok := e.(effects.Answer); ok {
			if applied, ok := a.Value.(core.JobApplied); ok {
				planned.NextTimesBefore = append(planned.NextTimesBefore, applied.NextTimesBefore...)
			}
		}
	}
	planned.Would = "update"
	switch {
	case before.Key == uuid.Nil:
		planned.Would = "create"
	case sameSpec(before.JobSpec, after.JobSpec):
		planned.Would = "keep"
	}
	planned.Job, err = s.jobDetail(r.Context(), after)
	return reply(w, planned, err)
}

func sameSpec(a, b core.JobSpec) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && slices.Equal(x, y)
}

// onJob serves what is done with the job of the path, and answers with the job.
func (s *Server) onJob(do func(w http.ResponseWriter, r *http.Request, c *call, of named) (core.Job, error)) handler {
	return serveChange(byJob, s.jobDetail, do)
}

func (s *Server) getJob(_ http.ResponseWriter, r *http.Request, _ *call, of named) (core.Job, error) {
	return s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
}

func (s *Server) jobSummary(j core.Job) wire.JobSummary {
	return wire.JobSummary{
		ID: j.ID, Namespace: j.Namespace, Tenant: j.Tenant, Name: j.Name, Schedule: j.Schedule, Timezone: j.Timezone, DayMatch: j.DayMatch,
		Runner: j.Runner, Overlap: string(j.Overlap), Labels: orEmpty(j.Labels), Paused: j.Paused, PausedReason: j.PausedReason, Ended: j.Ended(s.now()),
		NextRunAt: j.NextRunAt, SkipNext: j.SkipNext, ActiveRuns: len(j.Active), LastRun: j.LastRun, Counts: j.Counts,
		CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt,
	}
}

// jobs says how jobs are listed.
func (s *Server) jobs() listing[core.Job, wire.JobSummary] {
	return listing[core.Job, wire.JobSummary]{
		params: []string{"paused", "state", "name", "label*"},
		may:    forJobs,
		find:   s.findJobs,
		scope:  func(j core.Job) (string, string) { return j.Namespace, j.Tenant },
		out:    plain(s.jobSummary),
		size: func(j core.Job) int {
			return 4096 + len(j.PodSpec) + len(j.ConstraintConfig) + len(j.ActionConfig) + 256*len(j.Active)
		},
	}
}

func (s *Server) findJobs(q query, scope *shell.Scope) (source[core.Job], error) {
	paused, err := q.bool("paused")
	if err != nil {
		return source[core.Job]{}, err
	}
	state, on, err := q.state()
	if err != nil {
		return source[core.Job]{}, err
	}
	if paused == nil && on != nil {
		off := !*on
		paused = &off
	}
	labels, err := q.labels()
	from := sourceOf(s.engine.Jobs().List, shell.JobFilter{Scope: scope, Paused: paused, Labels: labels})
	from.keep = s.chooseJob(q, state)
	return from, err
}

func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request, c *call, of named, _ *struct{}) error {
	_, err := s.engine.Jobs().Send(r.Context(), of.Scope, of.name, core.JobDelete{Reason: fmt.Sprintf("deleted by %s", c.actor)})
	return done(w, noJob(of, err))
}

// triggerJob starts a run, whatever the schedule says. A token may trigger the jobs that
// it could have applied.
func (s *Server) triggerJob(w http.ResponseWriter, r *http.Request, c *call, of named, body *wire.JobTriggerRequest) error {
	j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
	if err != nil {
		return noJob(of, err)
	}
	if err := s.noRunner(); err != nil {
		return err
	}
	if err := s.permitJob(r.Context(), c.token, j.JobSpec); err != nil {
		return err
	}
	if err := s.within(r.Context(), c.token, of.Scope, want{runs: 1}); err != nil {
		return err
	}
	made, err := s.engine.Jobs().Trigger(r.Context(), of.Scope, of.name, shell.TriggerOptions{By: c.actor, DedupKey: body.DedupKey, Env: body.Env})
	if err != nil {
		return noJob(of, err)
	}
	status := http.StatusOK
	if !made.Duplicate {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/runs/"+made.Run.String())
	}
	return writeJSON(w, status, made)
}

// pauseJob pauses the job: until it is resumed, or until a time.
func (s *Server) pauseJob(w http.ResponseWriter, r *http.Request, c *call, of named) (j core.Job, err error) {
	var body wire.JobPauseRequest
	if err := s.decode(w, r, &body, true); err != nil {
		return j, err
	}
	why, err := reasonOr(wire.Reason{Reason: body.Reason}, "", c)
	if err != nil {
		return j, err
	}
	return s.engine.Jobs().Send(r.Context(), of.Scope, of.name, core.JobPause{By: c.actor, Reason: why, Until: body.Until})
}

// tellJob sends the job an event that says why.
func (s *Server) tellJob(did string, event func(why string) core.JobEvent) func(http.ResponseWriter, *http.Request, *call, named) (core.Job, error) {
	return func(w http.ResponseWriter, r *http.Request, c *call, of named) (j core.Job, err error) {
		why, err := s.reason(w, r, c, did)
		if err != nil {
			return j, err
		}
		return s.engine.Jobs().Send(r.Context(), of.Scope, of.name, event(why))
	}
}

// resumeJob lets the job run at the times of its schedule, which is as much as to trigger it.
func (s *Server) resumeJob(w http.ResponseWriter, r *http.Request, c *call, of named) (core.Job, error) {
	if err := s.noBody(w, r); err != nil {
		return core.Job{}, err
	}
	j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
	if err != nil {
		return j, err
	}
	if err := s.permitJob(r.Context(), c.token, j.JobSpec); err != nil {
		return j, err
	}
	return s.engine.Jobs().Send(r.Context(), of.Scope, of.name, core.JobResume{})
}

// jobHistory lists what became of the times of a job, newest first.
func (s *Server) jobHistory(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byJob.of(r, c, "order", "limit", "page_token")
	if err != nil {
		return err
	}
	if _, err := q.limit(shell.DefaultPage); err != nil { // before it is known whether there is such a job
		return err
	}
	if _, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name); err != nil {
		return noJob(of, err)
	}
	return s.answerHistory(w, r, c, q, core.JobRef(of.Namespace, of.Tenant, of.name).ID)
}

// previewJob shows the next times of a job; of a paused job the times at which it would run.
func (s *Server) previewJob(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byJob.of(r, c, "n")
	if err != nil {
		return err
	}
	n, err := q.number("n", defaultPreview, maxPreview)
	if err != nil {
		return err
	}
	j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
	if err != nil {
		return noJob(of, err)
	}
	if j.Schedule == "" {
		return writeJSON(w, http.StatusOK, wire.Preview{Timezone: j.Timezone, Description: "When it is triggered by hand", Times: []effects.Time{}})
	}
	calendars, err := s.engine.Jobs().Calendars(r.Context(), j.JobSpec)
	if err != nil {
		return err
	}
	p, err := previewOf(schedule.Spec{Expr: j.Schedule, Zone: j.Timezone, DST: j.DST, DayMatch: j.DayMatch}, func(*schedule.Schedule) []effects.Time {
		return j.Upcoming(s.now(), n, calendars)
	})
	p.Warnings = append(p.Warnings, s.runningOut(j.Calendars, calendars)...)
	return reply(w, p, err)
}
