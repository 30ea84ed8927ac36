package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) taskRoutes() []route {
	k := s.tasks()
	return []route{
		{"POST", "/v1/tasks", writing, s.createTask},
		{"GET", "/v1/tasks", reading, s.listTasks},
		{"GET", "/v1/tasks/{id}", reading, k.show},
		{"POST", "/v1/tasks/{id}/heartbeat", writing, k.tell(s.heartbeatTask)},
		{"POST", "/v1/tasks/{id}/complete", writing, k.tell(s.completeTask)},
		{"POST", "/v1/tasks/{id}/fail", writing, k.tell(s.failTask)},
		{"POST", "/v1/tasks/{id}/cancel", writing, k.tell(s.cancelTask)},
		{"POST", "/v1/tasks/{id}/recover", writing, k.tell(s.recoverTask)},
		{"POST", "/v1/tasks/{id}/input", writing, k.tell(s.inputTask)},
	}
}

// createTask makes a task. One with a command runs it on this machine, as no
// list of tools says: that takes a token that is bound to none.
func (s *Server) createTask(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	var body wire.TaskRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, madeHere)
	}
	id, err := createdID(body.ID)
	if err != nil {
		return err
	}
	scope, err := c.token.homeOf(body.Namespace, body.Tenant)
	if err != nil {
		return err
	}
	if len(c.token.Tools) > 0 {
		return failf(http.StatusForbidden, "token: %q is bound to tools: a task is none", c.token.Name)
	}
	if id != uuid.Nil {
		if err := s.idIsFree(r.Context(), id); err != nil {
			return err
		}
	}
	t, err := s.engine.Tasks().Create(r.Context(), core.TaskSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(body.Label, ""), Workspace: body.Workspace,
		Command: body.Command, Env: body.Env, Prompt: body.Prompt, Config: or(body.Config, core.TaskConfig{}),
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/tasks/"+t.ID.String())
	return writeJSON(w, http.StatusCreated, t)
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
func (s *Server) tasks() runs[core.Task, core.TaskEvent, wire.TaskSummary] {
	return runs[core.Task, core.TaskEvent, wire.TaskSummary]{
		lister: lister[core.Task, wire.TaskSummary]{
			statuses: []string{"pending", "running", "stuck", "done"},
			list:     s.engine.Tasks().List,
			scope:    func(t core.Task) (string, string) { return t.Namespace, t.Tenant },
			sees:     seesTask,
			out:      summaryOfTask,
			size:     func(t core.Task) int { return 4096 + len(t.Screen) + len(t.Prompt) + len(t.State.Result.Output) },
		},
		s: s, what: "task",
		read: s.engine.Tasks().Get, wait: s.engine.Tasks().Wait, send: s.engine.Tasks().Send,
	}
}

func (s *Server) listTasks(w http.ResponseWriter, r *http.Request, c *call) error {
	list, next, err := s.tasks().page(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.TaskList{Tasks: list, NextPageToken: next})
}

func (s *Server) heartbeatTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b wire.HeartbeatRequest
	err := s.decode(w, r, &b, true)
	if b.Status == "" {
		b.Status = core.LivenessActive
	}
	return core.TaskHeartbeat{Status: b.Status, Session: b.Session, IdleMS: b.IdleMS, ExitCode: b.ExitCode, Output: b.Output, Progress: b.Progress}, err
}

func (s *Server) completeTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b wire.TaskCompleteRequest
	err := s.decode(w, r, &b, true)
	return core.TaskComplete{Output: b.Output}, err
}

func (s *Server) failTask(w http.ResponseWriter, r *http.Request, c *call) (core.TaskEvent, error) {
	var b wire.TaskFailRequest
	err := s.decode(w, r, &b, true)
	if b.Error == "" {
		b.Error = "failed by " + c.actor
	}
	return core.TaskFail{Error: b.Error}, err
}

func (s *Server) cancelTask(w http.ResponseWriter, r *http.Request, c *call) (core.TaskEvent, error) {
	reason, err := s.reason(w, r, c, "cancelled")
	return core.TaskCancel{Reason: reason}, err
}

func (s *Server) recoverTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b wire.RecoverRequest
	err := s.decode(w, r, &b, false)
	return core.TaskRecover{Action: b.Action, Message: b.Message}, err
}

func (s *Server) inputTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b wire.InputRequest
	err := s.decode(w, r, &b, false)
	return core.TaskInput{Text: b.Text}, err
}
