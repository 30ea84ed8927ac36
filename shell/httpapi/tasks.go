package httpapi

import (
	"context"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) taskRoutes() []route {
	tasks, send := s.tasks(), s.engine.Tasks().Send
	return []route{
		{"POST", "/v1/tasks", writingToken, create(s, "/v1/tasks/", madeHere, s.createTask)},
		{"GET", "/v1/tasks", anyToken, tasks.page(func(l []wire.TaskSummary, next string) any { return wire.TaskList{Tasks: l, NextPageToken: next} })},
		{"GET", "/v1/tasks/{id}", anyToken, tasks.await(s, s.engine.Tasks().Wait)},
		{"POST", "/v1/tasks/{id}/heartbeat", writingToken, tell(tasks, send, bodied(s, true, heartbeatTask))},
		{"POST", "/v1/tasks/{id}/complete", writingToken, tell(tasks, send, bodied(s, true, completeTask))},
		{"POST", "/v1/tasks/{id}/fail", writingToken, tell(tasks, send, bodied(s, true, failTask))},
		{"POST", "/v1/tasks/{id}/cancel", writingToken, tell(tasks, send, bodied(s, true, cancelTask))},
		{"POST", "/v1/tasks/{id}/recover", writingToken, tell(tasks, send, bodied(s, false, recoverTask))},
		{"POST", "/v1/tasks/{id}/input", writingToken, tell(tasks, send, bodied(s, false, inputTask))},
	}
}

// createTask makes a task. A task with a command runs it on this machine, which no list of tools
// says: only a token that is not bound to tools may make one.
func (s *Server) createTask(r *http.Request, c *call, b *wire.TaskRequest) (task core.Task, err error) {
	id, scope, err := s.newcomer(r, c, b.ID, b.Namespace, b.Tenant, func(shell.Scope) error {
		return c.token.notBoundToTools("create tasks")
	})
	if err != nil {
		return task, err
	}
	return s.engine.Tasks().Create(r.Context(), core.TaskSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(b.Label, ""), Workspace: b.Workspace,
		Command: b.Command, Env: b.Env, Prompt: b.Prompt, Config: or(b.Config, core.TaskConfig{}),
	})
}

func seesTask(_ context.Context, t *Token, k core.Task) bool {
	return len(t.Tools) == 0 && t.seesScope(k.Namespace, k.Tenant)
}

func summaryOfTask(t core.Task) wire.TaskSummary {
	t.State.Result.Output = nil // up to a megabyte
	return wire.TaskSummary{
		ID: t.ID, Namespace: t.Namespace, Tenant: t.Tenant, Label: t.Label, PipelineID: t.PipelineID, SessionID: t.SessionID,
		State: t.State, Progress: t.Progress, LastHeartbeat: t.LastHeartbeat, LastProgress: t.LastProgress,
		RecoveryAttempts: t.RecoveryAttempts, Restarts: t.Restarts,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, FinishedAt: t.FinishedAt,
	}
}

// tasks says how tasks are served.
func (s *Server) tasks() machines[core.Task, wire.TaskSummary] {
	return machines[core.Task, wire.TaskSummary]{
		what: "task", get: s.engine.Tasks().Get,
		listing: listing[core.Task, wire.TaskSummary]{
			params: []string{"status"},
			find:   byStatus(s.engine.Tasks().List, "pending", "running", "stuck", "done"),
			scope:  func(t core.Task) (string, string) { return t.Namespace, t.Tenant },
			sees:   seesTask,
			out:    plain(summaryOfTask),
			size:   func(t core.Task) int { return 4096 + len(t.Screen) + len(t.Prompt) + len(t.State.Result.Output) },
		},
	}
}

func heartbeatTask(_ *http.Request, _ *call, b *wire.HeartbeatRequest) (core.TaskEvent, error) {
	if b.Status == "" {
		b.Status = core.LivenessActive
	}
	return core.TaskHeartbeat{Status: b.Status, Session: b.Session, IdleMS: b.IdleMS, ExitCode: b.ExitCode, Output: b.Output, Progress: b.Progress}, nil
}

func completeTask(_ *http.Request, _ *call, b *wire.TaskCompleteRequest) (core.TaskEvent, error) {
	return core.TaskComplete{Output: b.Output}, nil
}

func failTask(_ *http.Request, c *call, b *wire.TaskFailRequest) (core.TaskEvent, error) {
	if b.Error == "" {
		b.Error = "failed by " + c.actor
	}
	return core.TaskFail{Error: b.Error}, nil
}

func cancelTask(_ *http.Request, c *call, b *wire.Reason) (core.TaskEvent, error) {
	reason, err := reasonOr(*b, "cancelled", c)
	return core.TaskCancel{Reason: reason}, err
}

func recoverTask(_ *http.Request, _ *call, b *wire.RecoverRequest) (core.TaskEvent, error) {
	return core.TaskRecover{Action: b.Action, Message: b.Message}, nil
}

func inputTask(_ *http.Request, _ *call, b *wire.InputRequest) (core.TaskEvent, error) {
	return core.TaskInput{Text: b.Text}, nil
}
