package httpapi

import (
	"context"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) strategyRoutes() []route {
	strategies, send := s.strategies(), s.engine.Strategies().Send
	return []route{
		{"POST", "/v1/strategies", writingToken, create(s, "/v1/strategies/", madeHere, s.createStrategy)},
		{"GET", "/v1/strategies", anyToken, strategies.page(func(l []wire.StrategySummary, next string) any {
			return wire.StrategyList{Strategies: l, NextPageToken: next}
		})},
		{"GET", "/v1/strategies/{id}", anyToken, strategies.await(s, s.engine.Strategies().Wait)},
		{"POST", "/v1/strategies/{id}/cancel", writingToken, tell(strategies, send, bodied(s, true, cancelStrategy))},
		{"POST", "/v1/strategies/{id}/evaluate", writingToken, tell(strategies, send, bodied(s, false, evaluateStrategy))},
	}
}

func (s *Server) createStrategy(r *http.Request, c *call, b *wire.StrategyRequest) (strategy core.Strategy, err error) {
	id, scope, err := s.newcomer(r, c, b.ID, b.Namespace, b.Tenant, func(scope shell.Scope) error {
		return s.permitUses(r.Context(), c.token, scope, usesOfStrategy(b.Approaches))
	})
	if err != nil {
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
		what: "strategy", get: s.engine.Strategies().Get,
		listing: listing[core.Strategy, wire.StrategySummary]{
			params: []string{"status"},
			find:   byStatus(s.engine.Strategies().List, "running", "succeeded", "exhausted", "cancelled"),
			scope:  func(s core.Strategy) (string, string) { return s.Namespace, s.Tenant },
			sees:   s.seesStrategy,
			out:    plain(summaryOfStrategy),
			size:   func(s core.Strategy) int { return 4096*(1+len(s.Approaches)) + len(s.Output) },
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
