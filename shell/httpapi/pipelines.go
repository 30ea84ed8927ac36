package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) pipelineRoutes() []route {
	pipelines, send := s.pipelines(), s.engine.Pipelines().Send
	return []route{
		{"POST", "/v1/pipelines", writingToken, create(s, "/v1/pipelines/", madeHere, s.createPipeline)},
		{"GET", "/v1/pipelines", anyToken, pipelines.page(func(l []wire.PipelineSummary, next string) any {
			return wire.PipelineList{Pipelines: l, NextPageToken: next}
		})},
		{"GET", "/v1/pipelines/{id}", anyToken, pipelines.await(s, s.engine.Pipelines().Wait)},
		{"POST", "/v1/pipelines/{id}/start", writingToken, tell(pipelines, send, bare[core.PipelineEvent](s, core.PipelineStart{}))},
		{"POST", "/v1/pipelines/{id}/retry", writingToken, tell(pipelines, send, bare[core.PipelineEvent](s, core.PipelineRetry{}))},
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
	id, scope, err := s.newcomer(r, c, b.ID, b.Namespace, b.Tenant, func(scope shell.Scope) (err error) {
		if err := s.permitUses(r.Context(), c.token, scope, usesOf("definition", *b.Definition)); err != nil {
			return err
		}
		if err := b.Definition.ValidateWith(slices.Sorted(maps.Keys(b.Context))...); err != nil {
			return failf(http.StatusBadRequest, "definition: %s", oneLine(err.Error())) // the machine reports the same fault, but not the field
		}
		dependsOn, err = s.dependencies(r.Context(), c, b.DependsOn)
		return err
	})
	if err != nil {
		return pipeline, err
	}
	return s.engine.Pipelines().Create(r.Context(), core.PipelineSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(b.Label, ""), Runbook: or(b.Runbook, ""),
		Definition: *b.Definition, Context: b.Context, DependsOn: dependsOn, Hold: or(b.Hold, false),
	})
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
func (s *Server) pipelines() machines[core.Pipeline, wire.PipelineSummary] {
	return machines[core.Pipeline, wire.PipelineSummary]{
		what: "pipeline", get: s.engine.Pipelines().Get,
		listing: listing[core.Pipeline, wire.PipelineSummary]{
			params: []string{"status"},
			find:   byStatus(s.engine.Pipelines().List, "init", "blocked", "running", "done", "failed", "cancelled"),
			scope:  func(p core.Pipeline) (string, string) { return p.Namespace, p.Tenant },
			sees:   s.seesPipeline,
			out:    plain(summaryOfPipeline),
			size:   func(p core.Pipeline) int { return 4096 + 512*len(p.Definition.Phases) },
		},
	}
}

func cancelPipeline(_ *http.Request, c *call, b *wire.Reason) (core.PipelineEvent, error) {
	reason, err := reasonOr(*b, "cancelled", c)
	return core.PipelineCancel{Reason: reason}, err
}

func signalPipeline(_ *http.Request, _ *call, b *wire.SignalRequest) (core.PipelineEvent, error) {
	return core.PipelineSignal{Name: b.Name, Payload: b.Payload}, nil
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
	return core.PipelineCheckpoint{Message: b.Message}, nil
}

func completePhase(r *http.Request, _ *call, b *wire.PhaseCompleteRequest) (core.PipelineEvent, error) {
	return core.PhaseComplete{Phase: r.PathValue("phase"), Attempt: b.Attempt, Result: b.Result}, nil
}

func failPhase(r *http.Request, c *call, b *wire.PhaseFailRequest) (core.PipelineEvent, error) {
	if b.Error == "" {
		b.Error = "failed by " + c.actor
	}
	return core.PhaseFailed{Phase: r.PathValue("phase"), Attempt: b.Attempt, Error: b.Error, Permanent: b.Permanent}, nil
}
