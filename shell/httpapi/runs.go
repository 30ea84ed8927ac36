package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

func (s *Server) jobRunRoutes() []route {
	runs := s.runs()
	return []route{
		{"GET", "/v1/runs", anyToken | lists, runs.page(s, "runs")},
		{"GET", "/v1/runs/{id}", anyToken, runs.await(s, s.engine.Runs().Wait)},
		{"GET", "/v1/runs/{id}/logs", anyToken | streams, s.streamLogs},
		{"POST", "/v1/runs/{id}/cancel", writingToken, runs.act(s.cancelRun)},
		{"POST", "/v1/runs/{id}/abandon", writingToken, runs.act(s.abandonRun)},
		{"POST", "/v1/runs/{id}/retry", writingToken, runs.act(s.retryRun)},
	}
}

// runs says how runs of jobs are served.
func (s *Server) runs() machines[core.Orchestrator, wire.RunSummary] {
	return machines[core.Orchestrator, wire.RunSummary]{
		get: s.notedRun, id: runID, missing: noRun,
		shown: func(ctx context.Context, c *call, o core.Orchestrator) any {
			o.Ran = o.PodTimes()
			return wire.Run{Orchestrator: o, Note: s.noteOf(ctx, c, o)}
		},
		listing: listing[core.Orchestrator, wire.RunSummary]{
			params: []string{"job", "status", "in_cluster", "cleanup_failed"}, timed: true, fails: true,
			may:   forJobs,
			find:  s.findRuns,
			scope: func(o core.Orchestrator) (string, string) { return o.Namespace, o.Tenant },
			out:   s.summaryOfRun,
			size: func(o core.Orchestrator) int {
				return 8192 + len(o.Config.PodSpec) + len(o.Config.ConstraintConfig) + len(o.Config.ActionConfig)
			},
		},
	}
}

// notedRun reads a run, which says what it waits for.
func (s *Server) notedRun(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	o, err := s.engine.Runs().Get(ctx, run)
	if err != nil {
		return o, err
	}
	return s.engine.Runs().Noted(ctx, o)
}

func (s *Server) summaryOfRun(ctx context.Context, o core.Orchestrator) (wire.RunSummary, error) {
	o, err := s.engine.Runs().Noted(ctx, o)
	ran := o.PodTimes()
	return wire.RunSummary{
		ID: o.ID, RunID: o.RunID, JobID: o.JobID, Namespace: o.Namespace, Tenant: o.Tenant, ScheduledAt: o.ScheduledAt, Manual: o.Manual,
		State: o.State, RetryAttempt: o.RetryAttempt, MaxRetries: o.Config.RetryConfig.MaxRetries, InCluster: o.InCluster, Cleanup: o.Cleanup, Pod: o.Pod,
		Error: o.Error, Note: s.noteOf(ctx, callOf(ctx), o), CreatedAt: o.CreatedAt, StartedAt: ran.StartedAt, Ran: ran, RetryAt: o.RetryAt, CompletedAt: o.CompletedAt,
	}, err
}

func (s *Server) findRuns(q query, scope *shell.Scope) (source[core.Orchestrator], error) {
	inCluster, err := q.bool("in_cluster")
	if err != nil {
		return source[core.Orchestrator]{}, err
	}
	cleanupFailed, err := q.bool("cleanup_failed")
	if err != nil {
		return source[core.Orchestrator]{}, err
	}
	job := q.opt("job")
	f := shell.JobRunFilter{Scope: scope, InCluster: or(inCluster, false), CleanupFailed: or(cleanupFailed, false)}
	if scope != nil { // else jobs of that id of several tenants may be meant
		f.Job = or(job, "")
	}
	found, err := s.runsOf(q, f)
	found.keep = func(o core.Orchestrator) bool {
		return or(job, o.JobID) == o.JobID && or(inCluster, o.InCluster) == o.InCluster && or(cleanupFailed, o.Cleanup.Failing()) == o.Cleanup.Failing()
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
	return sourceOf(s.engine.Runs().List, f), err
}

func (s *Server) listRunsOfJob(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byJob.of(r, c, "status", "since", "until", "order", "limit", "page_token")
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
	return s.runs().answer(s, w, r, c, q, from, "runs", shell.Page{})
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
	if err := forJobs(c); err != nil {
		return uuid.Nil, err
	}
	namespace, tenant, err := q.scope()
	if err != nil {
		return uuid.Nil, err
	}
	job, at, named := strings.Cut(r.PathValue("id"), ":")
	if !named {
		id, err := parseID(job)
		if err != nil {
			return id, failf(http.StatusBadRequest, "id: %s, nor the id of a run such as nightly:2026-02-10T14:00:00.000Z", err)
		}
		return id, nil
	}
	t, err := effects.ParseTime(at)
	if err != nil {
		return uuid.Nil, failf(http.StatusBadRequest, "id: %q is not the id of a run: want the job's id and a time, such as nightly:2026-02-10T14:00:00.000Z", clip(job+":"+at))
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

// abandonRun ends the cleanup of a run whose deletions fail.
func (s *Server) abandonRun(w http.ResponseWriter, r *http.Request, c *call, o core.Orchestrator) (any, error) {
	why, err := s.reason(w, r, c, "abandoned")
	if err != nil {
		return nil, err
	}
	return s.engine.Runs().Send(r.Context(), o.ID, core.OrchestratorAbandon{Reason: why})
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

const (
	maxTails  = 64       // logs that are followed at a time
	maxReads  = 64       // and that are read at a time: a slow reader holds all of them in memory
	tailChunk = 64 << 10 // what a slow reader may take eventWrite for
)

// Headers of logs.
const (
	headerAttempt   = "X-Orrery-Attempt"
	headerTruncated = "X-Orrery-Logs-Truncated"
	headerDropped   = "X-Orrery-Logs-Dropped-Bytes"
	headerKept      = "X-Orrery-Logs-Stored-Only" // why they are those that were stored before
)

var (
	errSilent  = errors.New("the runner sent no logs in time")
	errExpired = errors.New("the token has expired")
)

// streamLogs sends what an attempt of a run has written, as it was written. What
// breaks off has no regular end: the reader can tell.
func (s *Server) streamLogs(w http.ResponseWriter, r *http.Request, c *call) error {
	o, q, err := s.runs().visible(r, c, "attempt", "container", "follow")
	if err != nil {
		return err
	}
	attempt, err := attemptOf(q, o)
	if err != nil {
		return err
	}
	follow, err := q.bool("follow")
	if err != nil {
		return err
	}
	lo := jobs.LogOptions{Follow: or(follow, false), Container: q.get("container")}
	if len(lo.Container) > core.MaxNameBytes {
		return failf(http.StatusBadRequest, "container: %d bytes is longer than %d", len(lo.Container), core.MaxNameBytes)
	}
	if err := s.noRunner(); err != nil {
		return err
	}
	out := newTail(w, logHeader(o, attempt))
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	leave, err := s.enterLogs(c, lo.Follow)
	if err != nil {
		return err
	}
	defer leave()
	if !lo.Follow {
		lo.Kept = func(down *jobs.DownError) { out.say(headerKept, inASCII(downAsTold(c.token, down).Error())) }
	}
	if err := s.copyLogs(r.Context(), c, o, attempt, lo, out); err != nil {
		return logFailure(c.token, err, o, attempt, s.noteOf(r.Context(), c, o))
	}
	out.begin()
	return nil
}

// enterLogs takes one of the slots for readers of logs.
func (s *Server) enterLogs(c *call, follow bool) (leave func(), err error) {
	if follow {
		return s.takeStream(&s.tails, func(f *inFlight) *slots { return &f.tails }, c, "logs are being followed", "close one", 60)
	}
	return s.takeStream(&s.reads, func(f *inFlight) *slots { return &f.reads }, c, "logs are being read", "try again later", 5)
}

// attemptOf reads which attempt is meant; the latest if none is given.
func attemptOf(q query, o core.Orchestrator) (uint32, error) {
	v := q.opt("attempt")
	if v == nil {
		return o.RetryAttempt, nil
	}
	n, err := strconv.ParseUint(*v, 10, 32)
	switch {
	case err != nil:
		return 0, failf(http.StatusBadRequest, "attempt: %q is not the number of an attempt: the first is 0", clip(*v))
	case n > uint64(o.RetryAttempt):
		return 0, failf(http.StatusNotFound, "attempt: there is no attempt %d: the latest is %d", n, o.RetryAttempt)
	}
	return uint32(n), nil
}

// logHeader says what is known of the logs beforehand. Whether those of an earlier
// attempt are whole, only a line in them tells.
func logHeader(o core.Orchestrator, attempt uint32) map[string]string {
	h := map[string]string{headerAttempt: strconv.FormatUint(uint64(attempt), 10)}
	if attempt == o.RetryAttempt && o.Logs.Stored {
		h[headerTruncated] = strconv.FormatBool(o.Logs.Truncated)
		h[headerDropped] = strconv.FormatInt(o.Logs.Dropped, 10)
	}
	return h
}

// copyLogs has the logs written to out, until they end, the reader disconnects,
// the token expires, the engine stops or, if they are not followed, nothing comes for as
// long as a request, or a slow reader, may take.
func (s *Server) copyLogs(ctx context.Context, c *call, o core.Orchestrator, attempt uint32, lo jobs.LogOptions, out *tail) error {
	return s.copyWatched(ctx, c, lo.Follow, out, func(ctx context.Context) error { return s.o.Jobs.Logs(ctx, o, attempt, lo, out) })
}

// copyWatched calls what writes to out, with a context that ends once it has to end: see watchLogs.
func (s *Server) copyWatched(ctx context.Context, c *call, follow bool, out *tail, write func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(s.watchLogs(ctx, c, follow, out))
	}()
	err := write(ctx)
	ended := ctx.Err() != nil
	cancel(nil)
	<-done
	if ended { // even without an error: some of the logs may be missing
		return context.Cause(ctx)
	}
	return err
}

// watchLogs returns why the copying of logs has to end, once it has to; it ends
// with ctx at the latest.
func (s *Server) watchLogs(ctx context.Context, c *call, follow bool, out *tail) error {
	every := eventPulse
	if !follow {
		every = min(every, s.o.RequestTimeout)
	}
	pulse := time.NewTicker(every)
	defer pulse.Stop()
	for {
		select {
		case <-pulse.C:
			switch {
			case c.token.expired(s.o.Clock.Now()):
				return errExpired
			case follow:
				out.begin() // so that the reader knows that the request was taken
			case out.silent() >= max(s.o.RequestTimeout, eventWrite):
				return errSilent
			}
		case <-s.engine.Stopped():
			return shell.ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// logFailure words why there are no logs, as the token may know; note is what there is to say
// of the runner.
func logFailure(t *Token, err error, o core.Orchestrator, attempt uint32, note string) error {
	var down *jobs.DownError
	var noContainer *jobs.NoContainerError
	switch {
	case errors.As(err, &noContainer):
		return &failure{status: http.StatusBadRequest, cause: err, text: "container: " + oneLine(noContainer.Error())}
	case errors.As(err, &down):
		return (&failure{status: http.StatusServiceUnavailable, cause: err, text: "logs: " + oneLine(downAsTold(t, down).Error())}).with("Retry-After", "5")
	case errors.Is(err, jobs.ErrNoPod), errors.Is(err, shell.ErrNotFound):
		hint := ""
		if attempt > 0 && attempt == o.RetryAttempt {
			hint = fmt.Sprintf("; attempt=%d gives those of the attempt before", attempt-1)
		}
		return &failure{status: http.StatusNotFound, cause: err,
			text: fmt.Sprintf("logs: run %s, which is %s, has no logs of attempt %d: %s%s", o.RunID, o.State, attempt, oneLine(err.Error()), hint)}
	case errors.Is(err, errSilent):
		return (&failure{status: http.StatusServiceUnavailable, cause: err, text: "logs: " + strings.TrimSuffix(err.Error()+"; "+note, "; ")}).with("Retry-After", "5")
	case errors.Is(err, errExpired):
		return unauthorized(`Bearer realm="orrery", error="invalid_token"`, "token: has expired")
	case errors.Is(err, shell.ErrStopped), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case shell.IsPermanent(err):
		return &failure{status: http.StatusBadRequest, cause: err, text: "logs: " + oneLine(err.Error())}
	}
	return &failure{status: http.StatusBadGateway, cause: err, text: "logs: the runner could not give them: the daemon's log says why"}
}

// downAsTold is the error as the token may be told it.
func downAsTold(t *Token, down *jobs.DownError) *jobs.DownError {
	return &jobs.DownError{Runner: down.Runner, Health: toldTo(t, down.Health)}
}

// inASCII is a text as a header may have it: one line, with a question mark for each character
// that is none of ASCII's.
func inASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, oneLine(text))
}

// tail writes logs as they come. Its methods may be called concurrently.
type tail struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	header map[string]string

	begun atomic.Bool
	wrote atomic.Int64 // when something was written: nanoseconds since start
	start time.Time
	mu    sync.Mutex // guards w; held for as long as a slow reader takes
}

func newTail(w http.ResponseWriter, header map[string]string) *tail {
	return &tail{w: w, rc: http.NewResponseController(w), header: header, start: time.Now()}
}

// say adds a header, unless they are sent.
func (t *tail) say(name, value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.header[name] = value
}

// begin sends the header, unless it is sent.
func (t *tail) begin() {
	if t.begun.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked()
	_ = t.rc.Flush()
}

func (t *tail) beginLocked() {
	if t.begun.Swap(true) {
		return
	}
	h := t.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	for k, v := range t.header {
		h.Set(k, v)
	}
	_ = t.rc.SetWriteDeadline(time.Now().Add(eventWrite))
	t.w.WriteHeader(http.StatusOK)
}

// silent gives how long nothing has been written.
func (t *tail) silent() time.Duration { return time.Since(t.start) - time.Duration(t.wrote.Load()) }

// Write sends b at once, in pieces that also a slow reader takes in time.
func (t *tail) Write(b []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked()
	for n < len(b) && err == nil {
		// A deadline for each piece instead of one for the whole answer; a recorder of
		// tests has none.
		_ = t.rc.SetWriteDeadline(time.Now().Add(eventWrite))
		var k int
		k, err = t.w.Write(b[n:min(n+tailChunk, len(b))])
		n += k
		if err == nil {
			err = t.rc.Flush()
		}
		t.wrote.Store(int64(time.Since(t.start)))
	}
	return n, err
}
