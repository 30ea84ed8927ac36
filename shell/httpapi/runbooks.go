package httpapi

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) pipelineRoutes() []route {
	pipelines, send := s.pipelines(), s.engine.Pipelines().Send
	return []route{
		{"POST", "/v1/pipelines", writingToken, create(s, "/v1/pipelines/", madeHere, s.createPipeline)},
		{"GET", "/v1/pipelines", anyToken | lists, pipelines.page(s, "pipelines")},
		{"GET", "/v1/pipelines/{id}", anyToken, pipelines.await(s, s.engine.Pipelines().Wait)},
		{"GET", "/v1/pipelines/{id}/logs", anyToken | streams, s.streamPipelineOutput},
		{"POST", "/v1/pipelines/{id}/start", writingToken, tell(pipelines, send, bare[core.PipelineEvent](s, core.PipelineStart{}))},
		{"POST", "/v1/pipelines/{id}/retry", writingToken, pipelines.act(s.retryPipeline)},
		{"POST", "/v1/pipelines/{id}/unblock", writingToken, tell(pipelines, send, bare[core.PipelineEvent](s, core.PipelineUnblock{}))},
		{"POST", "/v1/pipelines/{id}/cancel", writingToken, tell(pipelines, send, bodied(s, true, cancelPipeline))},
		{"POST", "/v1/pipelines/{id}/signal", writingToken, tell(pipelines, send, bodied(s, false, signalPipeline))},
		{"POST", "/v1/pipelines/{id}/approve", writingToken, tell(pipelines, send, bodied(s, false, approvePipeline))},
		{"POST", "/v1/pipelines/{id}/checkpoint", writingToken, tell(pipelines, send, bodied(s, false, checkpointPipeline))},
		{"POST", "/v1/pipelines/{id}/phases/{phase}/complete", writingToken, tell(pipelines, send, bodied(s, true, completePhase))},
		{"POST", "/v1/pipelines/{id}/phases/{phase}/fail", writingToken, tell(pipelines, send, bodied(s, true, failPhase))},
	}
}

// madeHere says why some fields of a stored machine cannot be given.
var madeHere = map[string]string{
	"owner": "can only be set by machines", "pipeline_id": "can only be set by a pipeline",
	"phase": "is set by the server", "state": "is set by the server", "status": "is set by the server",
	"created_at": "is set by the server", "updated_at": "is set by the server", "attempt": "is set by the server",
	"session_id": "is set by the server", "current": "is set by the server",
}

func (s *Server) createPipeline(r *http.Request, c *call, b *wire.PipelineRequest) (pipeline core.Pipeline, err error) {
	if b.Definition == nil {
		return pipeline, failf(http.StatusBadRequest, "definition: missing: give a name and phases")
	}
	var dependsOn []uuid.UUID
	id, scope, err := s.idAndScope(r, c, b.ID, b.Namespace, b.Tenant, func(scope shell.Scope) (err error) {
		if err := s.permitUses(r.Context(), c.token, scope, usesOf("definition", *b.Definition, contextOf(b.Context))); err != nil {
			return err
		}
		if err := b.Definition.CheckGiven(); err != nil { // before what is large is compiled
			return failf(http.StatusBadRequest, "definition.%s", oneLine(err.Error()))
		}
		given := slices.Sorted(maps.Keys(b.Context))
		if err := b.Definition.ValidateWith(given...); err != nil {
			return failf(http.StatusBadRequest, "definition: %s", oneLine(err.Error())) // the machine reports the same fault, but not the field
		}
		if err := b.Definition.CheckInputs("context", given); err != nil {
			return failf(http.StatusBadRequest, "%s", oneLine(err.Error()))
		}
		dependsOn, err = s.dependencies(r.Context(), c, b.DependsOn)
		return err
	})
	if err != nil {
		return pipeline, err
	}
	if err := s.within(r.Context(), c.token, scope, want{pipelines: 1, asked: map[string]any{"definition": b.Definition}}); err != nil {
		return pipeline, err
	}
	return s.engine.Pipelines().Create(r.Context(), core.PipelineSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(b.Label, ""), Runbook: or(b.Runbook, ""),
		Definition: *b.Definition, Context: b.Context, DependsOn: dependsOn, Hold: or(b.Hold, false),
	})
}

// retryPipeline makes a pipeline that has failed a live one again.
func (s *Server) retryPipeline(w http.ResponseWriter, r *http.Request, c *call, p core.Pipeline) (any, error) {
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	if err := s.within(r.Context(), c.token, shell.Scope{Namespace: p.Namespace, Tenant: p.Tenant}, want{pipelines: 1}); err != nil {
		return nil, err
	}
	return s.engine.Pipelines().Send(r.Context(), p.ID, core.PipelineRetry{})
}

// dependencies reads the ids of pipelines that must be done first. The result of
// each goes to the pipeline that waits for it, so the caller must be able to see each.
func (s *Server) dependencies(ctx context.Context, c *call, ids []string) ([]uuid.UUID, error) {
	if len(ids) > core.MaxDependencies {
		return nil, failf(http.StatusBadRequest, "depends_on: %d pipelines are more than %d", len(ids), core.MaxDependencies)
	}
	out := make([]uuid.UUID, 0, len(ids))
	for i, v := range ids {
		id, err := parseID(v)
		if err != nil {
			return nil, failf(http.StatusBadRequest, "depends_on[%d]: %s", i, err)
		}
		p, err := s.engine.Pipelines().Get(ctx, id)
		switch {
		case errors.Is(err, shell.ErrNotFound) || err == nil && !s.seesPipeline(ctx, c.token, p):
			return nil, failf(http.StatusBadRequest, "depends_on[%d]: pipeline %s not found", i, id)
		case err != nil:
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

// seesPipeline reports whether a pipeline exists for the holder: one that they
// could have started.
func (s *Server) seesPipeline(ctx context.Context, t *Token, p core.Pipeline) bool {
	if !t.seesScope(p.Namespace, p.Tenant) {
		return false
	}
	a := s.asking(t, shell.Scope{Namespace: p.Namespace, Tenant: p.Tenant})
	a.seeing = true // what was there when it was made may be gone
	return a.maySeePipeline(ctx, p) == nil
}

func summaryOfPipeline(p core.Pipeline) wire.PipelineSummary {
	return wire.PipelineSummary{
		ID: p.ID, Namespace: p.Namespace, Tenant: p.Tenant, Label: p.Label, Runbook: p.Runbook, Name: p.Definition.Name,
		Phase: p.Phase, PhaseStartedAt: p.PhaseStartedAt, Attempt: p.Attempt, WaitsFor: p.Waiting.For,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, StartedAt: p.StartedAt, FinishedAt: p.FinishedAt,
	}
}

// pipelines says how pipelines are served.
func (s *Server) pipelines() machines[core.Pipeline, wire.PipelineSummary] {
	return machines[core.Pipeline, wire.PipelineSummary]{
		what: "pipeline", get: s.engine.Pipelines().Get, id: idOfPath,
		listing: listing[core.Pipeline, wire.PipelineSummary]{
			params: []string{"status", "waits_for"}, timed: true, fails: true,
			find:  s.findPipelines,
			scope: func(p core.Pipeline) (string, string) { return p.Namespace, p.Tenant },
			sees:  s.seesPipeline,
			out:   plain(summaryOfPipeline),
			size:  func(p core.Pipeline) int { return 4096 + 512*len(p.Definition.Phases) },
		},
	}
}

// findPipelines reads which pipelines are asked for.
func (s *Server) findPipelines(q query, scope *shell.Scope) (source[core.Pipeline], error) {
	f := shell.MachineFilter{Scope: scope}
	var err error
	if f.Status, err = q.status(core.Statuses(core.KindPipeline)); err != nil {
		return source[core.Pipeline]{}, err
	}
	if v := q.opt("waits_for"); v != nil {
		if f.WaitsFor = core.WaitFor(*v); !slices.Contains(core.AnsweredWaits(), f.WaitsFor) {
			return source[core.Pipeline]{}, failf(http.StatusBadRequest, "waits_for: %q is unknown: use %s", clip(*v), strings.Join(namesOf(core.AnsweredWaits()), ", "))
		}
	}
	return sourceOf(s.engine.Pipelines().List, f), nil
}

func cancelPipeline(_ *http.Request, c *call, b *wire.Reason) (core.PipelineEvent, error) {
	reason, err := reasonOr(*b, "cancelled", c)
	return core.PipelineCancel{Reason: reason}, err
}

func signalPipeline(_ *http.Request, _ *call, b *wire.SignalRequest) (core.PipelineEvent, error) {
	return core.PipelineSignal(*b), nil
}

// approvePipeline answers an approval. Whether it is given must be said: a
// forgotten field decides nothing.
func approvePipeline(_ *http.Request, c *call, b *wire.ApprovalRequest) (core.PipelineEvent, error) {
	switch {
	case b.Phase == "":
		return nil, failf(http.StatusBadRequest, "phase: missing: name the phase that waits for the approval")
	case b.Approved == nil:
		return nil, failf(http.StatusBadRequest, "approved: missing: say true or false")
	}
	return core.PipelineApprove{Phase: b.Phase, By: c.token.signs(or(b.By, "")), Approved: *b.Approved, Comment: b.Comment}, nil
}

func checkpointPipeline(_ *http.Request, _ *call, b *wire.CheckpointRequest) (core.PipelineEvent, error) {
	return core.PipelineCheckpoint(*b), nil
}

func completePhase(r *http.Request, _ *call, b *wire.PhaseCompleteRequest) (core.PipelineEvent, error) {
	return core.PhaseComplete{Phase: r.PathValue("phase"), Attempt: b.Attempt, Result: b.Result}, nil
}

func failPhase(r *http.Request, c *call, b *wire.PhaseFailRequest) (core.PipelineEvent, error) {
	b.Error = cmp.Or(b.Error, "failed by "+c.actor)
	return core.PhaseFailed{Phase: r.PathValue("phase"), Attempt: b.Attempt, Error: b.Error, Permanent: b.Permanent}, nil
}

func (s *Server) strategyRoutes() []route {
	strategies, send := s.strategies(), s.engine.Strategies().Send
	return []route{
		{"POST", "/v1/strategies", writingToken, create(s, "/v1/strategies/", madeHere, s.createStrategy)},
		{"GET", "/v1/strategies", anyToken | lists, strategies.page(s, "strategies")},
		{"GET", "/v1/strategies/{id}", anyToken, strategies.await(s, s.engine.Strategies().Wait)},
		{"POST", "/v1/strategies/{id}/cancel", writingToken, tell(strategies, send, bodied(s, true, cancelStrategy))},
		{"POST", "/v1/strategies/{id}/evaluate", writingToken, tell(strategies, send, bodied(s, false, evaluateStrategy))},
	}
}

func (s *Server) createStrategy(r *http.Request, c *call, b *wire.StrategyRequest) (strategy core.Strategy, err error) {
	id, scope, err := s.idAndScope(r, c, b.ID, b.Namespace, b.Tenant, func(scope shell.Scope) error {
		return s.permitUses(r.Context(), c.token, scope, usesOfStrategy(b.Approaches))
	})
	if err != nil {
		return strategy, err
	}
	if err := s.within(r.Context(), c.token, scope, want{strategies: 1, asked: map[string]any{"approaches": b.Approaches}}); err != nil {
		return strategy, err
	}
	return s.engine.Strategies().Create(r.Context(), core.StrategySpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(b.Label, ""), Approaches: b.Approaches,
	})
}

func (s *Server) seesStrategy(ctx context.Context, t *Token, st core.Strategy) bool {
	return s.seesUses(ctx, t, st.Namespace, st.Tenant, usesOfStrategy(st.Approaches))
}

func summaryOfStrategy(s core.Strategy) wire.StrategySummary {
	out := wire.StrategySummary{
		ID: s.ID, Namespace: s.Namespace, Tenant: s.Tenant, Label: s.Label, PipelineID: s.PipelineID, Status: s.Status,
		Current: s.Current, Approaches: len(s.Approaches), Error: s.Error,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, FinishedAt: s.FinishedAt,
	}
	if int(s.Current) < len(s.Approaches) {
		out.Approach = s.Approaches[s.Current].Name
	}
	return out
}

// strategies says how strategies are served.
func (s *Server) strategies() machines[core.Strategy, wire.StrategySummary] {
	return machines[core.Strategy, wire.StrategySummary]{
		what: "strategy", get: s.engine.Strategies().Get, id: idOfPath,
		listing: listing[core.Strategy, wire.StrategySummary]{
			params: []string{"status"}, timed: true, fails: true,
			find:  byStatus(s.engine.Strategies().List, core.Statuses(core.KindStrategy)...),
			scope: func(s core.Strategy) (string, string) { return s.Namespace, s.Tenant },
			sees:  s.seesStrategy,
			out:   plain(summaryOfStrategy),
			size:  func(s core.Strategy) int { return 4096*(1+len(s.Approaches)) + len(s.Output) },
		},
	}
}

func cancelStrategy(_ *http.Request, c *call, b *wire.Reason) (core.StrategyEvent, error) {
	reason, err := reasonOr(*b, "cancelled", c)
	return core.StrategyCancel{Reason: reason}, err
}

// evaluateStrategy says how the present approach came out. Which approach is meant
// must be said: another one may have begun meanwhile.
func evaluateStrategy(_ *http.Request, _ *call, b *wire.EvaluateRequest) (core.StrategyEvent, error) {
	switch {
	case b.N == nil:
		return nil, failf(http.StatusBadRequest, "n: missing: give the strategy's n, so that no other approach is meant")
	case b.Success == nil:
		return nil, failf(http.StatusBadRequest, "success: missing: say true or false")
	}
	return core.StrategyEvaluate{N: *b.N, Success: *b.Success, Output: b.Output, Error: b.Error}, nil
}

func (s *Server) taskRoutes() []route {
	tasks, send := s.tasks(), s.engine.Tasks().Send
	return []route{
		{"POST", "/v1/tasks", writingToken, create(s, "/v1/tasks/", madeHere, s.createTask)},
		{"GET", "/v1/tasks", anyToken | lists, tasks.page(s, "tasks")},
		{"GET", "/v1/tasks/{id}", anyToken, tasks.await(s, s.engine.Tasks().Wait)},
		{"GET", "/v1/tasks/{id}/screen", anyToken, tasks.act(s.showScreen)},
		{"POST", "/v1/tasks/{id}/heartbeat", writingToken, tell(tasks, send, bodied(s, true, heartbeatTask))},
		{"POST", "/v1/tasks/{id}/complete", writingToken, tell(tasks, send, bodied(s, true, completeTask))},
		{"POST", "/v1/tasks/{id}/fail", writingToken, tell(tasks, send, bodied(s, true, failTask))},
		{"POST", "/v1/tasks/{id}/cancel", writingToken, tell(tasks, send, bodied(s, true, cancelTask))},
		{"POST", "/v1/tasks/{id}/recover", writingToken, tell(tasks, send, bodied(s, false, recoverTask))},
		{"POST", "/v1/tasks/{id}/input", writingToken, tell(tasks, send, bodied(s, false, inputTask))},
	}
}

// createTask makes a task. A task with a command runs it on this machine, which no list of tools
// says: only a token with the right to sessions may make one.
func (s *Server) createTask(r *http.Request, c *call, b *wire.TaskRequest) (task core.Task, err error) {
	id, scope, err := s.idAndScope(r, c, b.ID, b.Namespace, b.Tenant, func(shell.Scope) error {
		return mayCreateTasks(c)
	})
	if err != nil {
		return task, err
	}
	if err := s.within(r.Context(), c.token, scope, want{tasks: 1, asked: map[string]any{"config": b.Config}}); err != nil {
		return task, err
	}
	return s.engine.Tasks().Create(r.Context(), core.TaskSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(b.Label, ""), Workspace: b.Workspace,
		Command: b.Command, Env: b.Env, Prompt: b.Prompt, Config: or(b.Config, core.TaskConfig{}),
	})
}

func seesTask(_ context.Context, t *Token, k core.Task) bool {
	return (len(t.Tools) == 0 || t.Sessions) && t.seesScope(k.Namespace, k.Tenant)
}

func summaryOfTask(t core.Task) wire.TaskSummary {
	t.State.Result.Output = nil // up to a megabyte
	return wire.TaskSummary{
		ID: t.ID, Namespace: t.Namespace, Tenant: t.Tenant, Label: t.Label, PipelineID: t.PipelineID, SessionID: t.SessionID, Home: t.Home,
		State: t.State, Progress: t.Progress, LastHeartbeat: t.LastHeartbeat, LastProgress: t.LastProgress,
		RecoveryAttempts: t.RecoveryAttempts, Restarts: t.Restarts,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, FinishedAt: t.FinishedAt,
	}
}

// tasks says how tasks are served.
func (s *Server) tasks() machines[core.Task, wire.TaskSummary] {
	return machines[core.Task, wire.TaskSummary]{
		what: "task", get: s.engine.Tasks().Get, id: idOfPath,
		listing: listing[core.Task, wire.TaskSummary]{
			params: []string{"status"}, timed: true, fails: true,
			find:  byStatus(s.engine.Tasks().List, core.Statuses(core.KindTask)...),
			scope: func(t core.Task) (string, string) { return t.Namespace, t.Tenant },
			sees:  seesTask,
			out:   plain(summaryOfTask),
			size:  func(t core.Task) int { return 4096 + len(t.Screen) + len(t.Prompt) + len(t.State.Result.Output) },
		},
	}
}

// showScreen shows what the session of a task shows. Whoever sees the task has the end of it that its record holds; it is looked
// at live, where what is typed stands too, by those alone who may type into it.
func (s *Server) showScreen(_ http.ResponseWriter, r *http.Request, c *call, t core.Task) (any, error) {
	if err := c.token.startSessions("see them live"); err != nil && len(t.Command) > 0 && t.State.Type != core.TaskDone {
		return wire.TaskScreen{SessionID: t.SessionID, At: t.LastHeartbeat, Why: "the token sees no sessions live: that takes sessions = true for it", Screen: t.Screen}, nil
	}
	of, err := s.engine.TaskScreen(r.Context(), t.ID)
	if err != nil {
		return nil, err
	}
	return wire.TaskScreen{
		SessionID: of.Session, Live: of.Live, At: of.At, Why: of.Why, Screen: of.Screen.Text, Title: of.Screen.Title,
		Rows: of.Screen.Rows, Columns: of.Screen.Columns, CursorRow: of.Screen.CursorRow, CursorColumn: of.Screen.CursorColumn,
	}, nil
}

func heartbeatTask(_ *http.Request, _ *call, b *wire.HeartbeatRequest) (core.TaskEvent, error) {
	b.Status = cmp.Or(b.Status, core.LivenessActive)
	return core.TaskHeartbeat(*b), nil
}

func completeTask(_ *http.Request, _ *call, b *wire.TaskCompleteRequest) (core.TaskEvent, error) {
	return core.TaskComplete(*b), nil
}

func failTask(_ *http.Request, c *call, b *wire.TaskFailRequest) (core.TaskEvent, error) {
	return core.TaskFail{Error: cmp.Or(b.Error, "failed by "+c.actor)}, nil
}

func cancelTask(_ *http.Request, c *call, b *wire.Reason) (core.TaskEvent, error) {
	reason, err := reasonOr(*b, "cancelled", c)
	return core.TaskCancel{Reason: reason}, err
}

func recoverTask(_ *http.Request, c *call, b *wire.RecoverRequest) (core.TaskEvent, error) {
	return core.TaskRecover(*b), mayRecoverTasks(c)
}

func inputTask(_ *http.Request, c *call, b *wire.InputRequest) (core.TaskEvent, error) {
	return core.TaskInput(*b), mayTypeIntoTasks(c)
}

func mayCreateTasks(c *call) error { return c.token.startSessions("create tasks") }

func mayRecoverTasks(c *call) error { return c.token.startSessions("recover tasks") }

func mayTypeIntoTasks(c *call) error { return c.token.startSessions("type into the sessions of tasks") }

func (s *Server) workerRoutes() []route {
	return []route{
		{"GET", "/v1/workers", anyToken | lists, s.listWorkers()},
		{"GET", "/v1/workers/{name}", anyToken, s.showWorker},
		{"PUT", "/v1/workers/{name}", writingToken | edits, s.putWorker},
		{"DELETE", "/v1/workers/{name}", writingToken | edits, tellNamed(s.workers(http.StatusAccepted), true, deleteWorker)},
		{"POST", "/v1/workers/{name}/pause", writingToken, s.tellWorker(core.WorkerPause{})},
		{"POST", "/v1/workers/{name}/resume", writingToken, s.tellWorker(core.WorkerResume{})},
		{"POST", "/v1/workers/{name}/wake", writingToken, s.tellWorker(core.WorkerWake{})},
	}
}

// workers says how workers are served; remains is the status of an answer with a worker that
// still exists.
func (s *Server) workers(remains int) namedMachines[core.Worker, core.WorkerEvent] {
	return namedMachines[core.Worker, core.WorkerEvent]{
		s: s, what: "worker", get: s.engine.Workers().Get, send: s.engine.Workers().Send, sees: s.seesWorker, remains: remains,
	}
}

func (s *Server) listWorkers() handler {
	return listing[core.Worker, core.Worker]{
		find:  byStatus(s.engine.Workers().List),
		scope: func(w core.Worker) (string, string) { return w.Namespace, w.Tenant },
		sees:  s.seesWorker,
		out:   asItIs[core.Worker],
		size:  func(w core.Worker) int { return 16<<10 + 256*len(w.Running) },
	}.page(s, "workers")
}

// tellWorker serves an event that has nothing to say but its name.
func (s *Server) tellWorker(ev core.WorkerEvent) handler {
	return tellNamed(s.workers(http.StatusOK), true, func(*call, named, *struct{}) (core.WorkerEvent, error) { return ev, nil })
}

// showWorker shows a worker, and which set owns it.
func (s *Server) showWorker(w http.ResponseWriter, r *http.Request, c *call) error {
	m, _, err := s.workers(http.StatusOK).visible(r, c)
	if err != nil {
		return err
	}
	c.tag(w, r, m)
	by, err := s.declaredBy(r.Context(), m.Ref(), "")
	return reply(w, wire.WorkerDetail{Worker: m, Declared: by}, err)
}

// deleteWorker deletes a worker. With drain it still exists for as long as it has something in hand.
func deleteWorker(_ *call, _ named, b *wire.WorkerDeleteRequest) (core.WorkerEvent, error) {
	return core.WorkerDelete(*b), nil
}

func (s *Server) seesWorker(ctx context.Context, t *Token, w core.Worker) bool {
	return s.seesUses(ctx, t, w.Namespace, w.Tenant, usesOfWorker(w.Do))
}

// putWorker declares a worker or replaces what was declared.
func (s *Server) putWorker(w http.ResponseWriter, r *http.Request, c *call) error {
	n, _, err := byName.of(r, c)
	if err != nil {
		return err
	}
	var body wire.WorkerRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, madeHere)
	}
	if err := s.permitUses(r.Context(), c.token, n.Scope, usesOfWorker(body.Do)); err != nil {
		return err
	}
	if err := s.within(r.Context(), c.token, n.Scope, want{asked: map[string]any{"do": body.Do}}); err != nil {
		return err
	}
	k, err := s.engine.Workers().Send(r.Context(), n.Scope, n.name, core.WorkerConfigure{Spec: core.WorkerSpec{
		Namespace: n.Namespace, Tenant: n.Tenant, Name: n.name,
		Queue: body.Queue, Concurrency: body.Concurrency, PollMS: body.PollMS, Do: body.Do,
	}})
	if err == nil {
		c.tag(w, r, k)
	}
	return reply(w, k, err)
}
