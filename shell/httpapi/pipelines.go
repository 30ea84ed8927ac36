package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) pipelineRoutes() []route {
	k := s.pipelines()
	return []route{
		{"POST", "/v1/pipelines", writing, s.createPipeline},
		{"GET", "/v1/pipelines", reading, s.listPipelines},
		{"GET", "/v1/pipelines/{id}", reading, k.show},
		{"POST", "/v1/pipelines/{id}/start", writing, k.tell(s.bare(core.PipelineStart{}))},
		{"POST", "/v1/pipelines/{id}/retry", writing, k.tell(s.bare(core.PipelineRetry{}))},
		{"POST", "/v1/pipelines/{id}/unblock", writing, k.tell(s.bare(core.PipelineUnblock{}))},
		{"POST", "/v1/pipelines/{id}/cancel", writing, k.tell(s.cancelPipeline)},
		{"POST", "/v1/pipelines/{id}/signal", writing, k.tell(s.signalPipeline)},
		{"POST", "/v1/pipelines/{id}/approve", writing, k.tell(s.approvePipeline)},
		{"POST", "/v1/pipelines/{id}/checkpoint", writing, k.tell(s.checkpointPipeline)},
		{"POST", "/v1/pipelines/{id}/phases/{phase}/complete", writing, k.tell(s.completePhase)},
		{"POST", "/v1/pipelines/{id}/phases/{phase}/fail", writing, k.tell(s.failPhase)},
	}
}

// madeHere says why some fields of a stored machine cannot be given.
var madeHere = map[string]string{
	"owner": "is set by machines alone", "pipeline_id": "is set by a pipeline alone",
	"phase": "is decided here", "state": "is decided here", "status": "is decided here",
	"created_at": "is decided here", "updated_at": "is decided here", "attempt": "is decided here",
	"session_id": "is decided here", "current": "is decided here",
}

func (s *Server) createPipeline(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	var body wire.PipelineRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, madeHere)
	}
	if body.Definition == nil {
		return failf(http.StatusBadRequest, "definition: missing: give a name and phases")
	}
	id, err := createdID(body.ID)
	if err != nil {
		return err
	}
	scope, err := c.token.homeOf(body.Namespace, body.Tenant)
	if err != nil {
		return err
	}
	if err := s.permitUses(r.Context(), c.token, scope, usesOf("definition", *body.Definition)); err != nil {
		return err
	}
	if err := body.Definition.ValidateWith(slices.Sorted(maps.Keys(body.Context))...); err != nil {
		return failf(http.StatusBadRequest, "definition: %s", oneLine(err.Error())) // the machine says the same, but not where
	}
	spec := core.PipelineSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(body.Label, ""), Runbook: or(body.Runbook, ""),
		Definition: *body.Definition, Context: body.Context, Hold: or(body.Hold, false),
	}
	if spec.DependsOn, err = s.dependencies(r.Context(), c, body.DependsOn); err != nil {
		return err
	}
	if id != uuid.Nil {
		if err := s.idIsFree(r.Context(), id); err != nil {
			return err
		}
	}
	p, err := s.engine.Pipelines().Create(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/pipelines/"+p.ID.String())
	return writeJSON(w, http.StatusCreated, p)
}

// dependencies reads the ids of pipelines that must be done first. The result of
// one is told to who waits for it, so the caller must be able to see it.
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
	return s.seesUses(ctx, t, p.Namespace, p.Tenant, usesOf("definition", p.Definition))
}

func summaryOfPipeline(p core.Pipeline) wire.PipelineSummary {
	return wire.PipelineSummary{
		ID: p.ID, Namespace: p.Namespace, Tenant: p.Tenant, Label: p.Label, Runbook: p.Runbook, Name: p.Definition.Name,
		Phase: p.Phase, PhaseStartedAt: p.PhaseStartedAt, Attempt: p.Attempt, WaitsFor: p.Waiting.For,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, StartedAt: p.StartedAt, FinishedAt: p.FinishedAt,
	}
}

// pipelines says how pipelines are served.
func (s *Server) pipelines() runs[core.Pipeline, core.PipelineEvent, wire.PipelineSummary] {
	return runs[core.Pipeline, core.PipelineEvent, wire.PipelineSummary]{
		lister: lister[core.Pipeline, wire.PipelineSummary]{
			statuses: []string{"init", "blocked", "running", "done", "failed", "cancelled"},
			list:     s.engine.Pipelines().List,
			scope:    func(p core.Pipeline) (string, string) { return p.Namespace, p.Tenant },
			sees:     s.seesPipeline,
			out:      summaryOfPipeline,
			size:     func(p core.Pipeline) int { return 4096 + 512*len(p.Definition.Phases) },
		},
		s: s, what: "pipeline",
		read: s.engine.Pipelines().Get, wait: s.engine.Pipelines().Wait, send: s.engine.Pipelines().Send,
	}
}

func (s *Server) listPipelines(w http.ResponseWriter, r *http.Request, c *call) error {
	list, next, err := s.pipelines().page(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.PipelineList{Pipelines: list, NextPageToken: next})
}

// bare is an event that has nothing to say but its name.
func (s *Server) bare(ev core.PipelineEvent) reader[core.PipelineEvent] {
	return func(w http.ResponseWriter, r *http.Request, _ *call) (core.PipelineEvent, error) {
		return ev, s.noBody(w, r)
	}
}

// reason reads the optional body of cancel and its like; without one it says
// who did it.
func (s *Server) reason(w http.ResponseWriter, r *http.Request, c *call, did string) (string, error) {
	var body wire.Reason
	if err := s.decode(w, r, &body, true); err != nil {
		return "", err
	}
	reason, err := reasonText(body)
	if err == nil && reason == "" {
		reason = fmt.Sprintf("%s by %s", did, c.actor)
	}
	return reason, err
}

func (s *Server) cancelPipeline(w http.ResponseWriter, r *http.Request, c *call) (core.PipelineEvent, error) {
	reason, err := s.reason(w, r, c, "cancelled")
	return core.PipelineCancel{Reason: reason}, err
}

func (s *Server) signalPipeline(w http.ResponseWriter, r *http.Request, _ *call) (core.PipelineEvent, error) {
	var body wire.SignalRequest
	err := s.decode(w, r, &body, false)
	return core.PipelineSignal{Name: body.Name, Payload: body.Payload}, err
}

// approvePipeline answers an approval. Whether it is given must be said: a
// forgotten field decides nothing.
func (s *Server) approvePipeline(w http.ResponseWriter, r *http.Request, c *call) (core.PipelineEvent, error) {
	var body wire.ApprovalRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return nil, err
	}
	switch {
	case body.Phase == "":
		return nil, failf(http.StatusBadRequest, "phase: missing: name the phase that waits for the approval")
	case body.Approved == nil:
		return nil, failf(http.StatusBadRequest, "approved: missing: say true or false")
	}
	return core.PipelineApprove{Phase: body.Phase, By: c.token.signs(or(body.By, "")), Approved: *body.Approved, Comment: body.Comment}, nil
}

func (s *Server) checkpointPipeline(w http.ResponseWriter, r *http.Request, _ *call) (core.PipelineEvent, error) {
	var body wire.CheckpointRequest
	err := s.decode(w, r, &body, false)
	return core.PipelineCheckpoint{Message: body.Message}, err
}

func (s *Server) completePhase(w http.ResponseWriter, r *http.Request, _ *call) (core.PipelineEvent, error) {
	var body wire.PhaseCompleteRequest
	err := s.decode(w, r, &body, true)
	return core.PhaseComplete{Phase: r.PathValue("phase"), Attempt: body.Attempt, Result: body.Result}, err
}

func (s *Server) failPhase(w http.ResponseWriter, r *http.Request, c *call) (core.PipelineEvent, error) {
	var body wire.PhaseFailRequest
	err := s.decode(w, r, &body, true)
	if body.Error == "" {
		body.Error = "failed by " + c.actor
	}
	return core.PhaseFailed{Phase: r.PathValue("phase"), Attempt: body.Attempt, Error: body.Error, Permanent: body.Permanent}, err
}
