package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
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

// taskRequest is the body of POST /v1/tasks: the fields of [core.TaskSpec] that
// may come from outside.
type taskRequest struct {
	ID        *string           `json:"id"`
	Namespace *string           `json:"namespace"`
	Tenant    *string           `json:"tenant"`
	Label     *string           `json:"label"`
	Workspace string            `json:"workspace"`
	Command   []string          `json:"command"`
	Env       map[string]string `json:"env"`
	Prompt    string            `json:"prompt"`
	Config    *core.TaskConfig  `json:"config"`
}

// createTask makes a task. One with a command runs it on this machine, as no
// list of tools says: that takes a token that is bound to none.
func (s *Server) createTask(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	var body taskRequest
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

// taskSummary is a task as lists show it: without its prompt and its screen.
type taskSummary struct {
	ID               uuid.UUID      `json:"id"`
	Namespace        string         `json:"namespace"`
	Tenant           string         `json:"tenant"`
	Label            string         `json:"label"`
	PipelineID       uuid.UUID      `json:"pipeline_id"`
	SessionID        string         `json:"session_id"`
	State            core.TaskState `json:"state"`
	Progress         string         `json:"progress"`
	LastHeartbeat    core.Time      `json:"last_heartbeat"`
	LastProgress     core.Time      `json:"last_progress"`
	RecoveryAttempts uint32         `json:"recovery_attempts"`
	Restarts         uint32         `json:"restarts"`
	CreatedAt        core.Time      `json:"created_at"`
	UpdatedAt        core.Time      `json:"updated_at"`
	FinishedAt       core.Time      `json:"finished_at"`
}

func summaryOfTask(t core.Task) taskSummary {
	t.State.Result.Output = nil // up to a megabyte
	return taskSummary{
		ID: t.ID, Namespace: t.Namespace, Tenant: t.Tenant, Label: t.Label, PipelineID: t.PipelineID, SessionID: t.SessionID,
		State: t.State, Progress: t.Progress, LastHeartbeat: t.LastHeartbeat, LastProgress: t.LastProgress,
		RecoveryAttempts: t.RecoveryAttempts, Restarts: t.Restarts,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, FinishedAt: t.FinishedAt,
	}
}

type taskList struct {
	Tasks         []taskSummary `json:"tasks"`
	NextPageToken string        `json:"next_page_token"`
}

// tasks says how tasks are served.
func (s *Server) tasks() runs[core.Task, core.TaskEvent, taskSummary] {
	return runs[core.Task, core.TaskEvent, taskSummary]{
		lister: lister[core.Task, taskSummary]{
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
	return writeJSON(w, http.StatusOK, taskList{Tasks: list, NextPageToken: next})
}

type heartbeatRequest struct {
	Status   core.Liveness `json:"status"`
	Session  string        `json:"session"`
	IdleMS   int64         `json:"idle_ms"`
	ExitCode *int32        `json:"exit_code"`
	Output   string        `json:"output"`
	Progress string        `json:"progress"`
}

func (s *Server) heartbeatTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b heartbeatRequest
	err := s.decode(w, r, &b, true)
	if b.Status == "" {
		b.Status = core.LivenessActive
	}
	return core.TaskHeartbeat{Status: b.Status, Session: b.Session, IdleMS: b.IdleMS, ExitCode: b.ExitCode, Output: b.Output, Progress: b.Progress}, err
}

type taskCompleteRequest struct {
	Output json.RawMessage `json:"output"`
}

func (s *Server) completeTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b taskCompleteRequest
	err := s.decode(w, r, &b, true)
	return core.TaskComplete{Output: b.Output}, err
}

type taskFailRequest struct {
	Error string `json:"error"`
}

func (s *Server) failTask(w http.ResponseWriter, r *http.Request, c *call) (core.TaskEvent, error) {
	var b taskFailRequest
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

type recoverRequest struct {
	Action  core.RecoveryAction `json:"action"`
	Message string              `json:"message"`
}

func (s *Server) recoverTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b recoverRequest
	err := s.decode(w, r, &b, false)
	return core.TaskRecover{Action: b.Action, Message: b.Message}, err
}

type inputRequest struct {
	Text string `json:"text"`
}

func (s *Server) inputTask(w http.ResponseWriter, r *http.Request, _ *call) (core.TaskEvent, error) {
	var b inputRequest
	err := s.decode(w, r, &b, false)
	return core.TaskInput{Text: b.Text}, err
}
