package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) strategyRoutes() []route {
	k := s.strategies()
	return []route{
		{"POST", "/v1/strategies", writing, s.createStrategy},
		{"GET", "/v1/strategies", reading, s.listStrategies},
		{"GET", "/v1/strategies/{id}", reading, k.show},
		{"POST", "/v1/strategies/{id}/cancel", writing, k.tell(s.cancelStrategy)},
		{"POST", "/v1/strategies/{id}/evaluate", writing, k.tell(s.evaluateStrategy)},
	}
}

func (s *Server) createStrategy(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	var body wire.StrategyRequest
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
	if err := s.permitUses(r.Context(), c.token, scope, usesOfStrategy(body.Approaches)); err != nil {
		return err
	}
	if id != uuid.Nil {
		if err := s.idIsFree(r.Context(), id); err != nil {
			return err
		}
	}
	st, err := s.engine.Strategies().Create(r.Context(), core.StrategySpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant, Label: or(body.Label, ""), Approaches: body.Approaches,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/strategies/"+st.ID.String())
	return writeJSON(w, http.StatusCreated, st)
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
func (s *Server) strategies() runs[core.Strategy, core.StrategyEvent, wire.StrategySummary] {
	return runs[core.Strategy, core.StrategyEvent, wire.StrategySummary]{
		lister: lister[core.Strategy, wire.StrategySummary]{
			statuses: []string{"running", "succeeded", "exhausted", "cancelled"},
			list:     s.engine.Strategies().List,
			scope:    func(s core.Strategy) (string, string) { return s.Namespace, s.Tenant },
			sees:     s.seesStrategy,
			out:      summaryOfStrategy,
			size:     func(s core.Strategy) int { return 4096*(1+len(s.Approaches)) + len(s.Output) },
		},
		s: s, what: "strategy",
		read: s.engine.Strategies().Get, wait: s.engine.Strategies().Wait, send: s.engine.Strategies().Send,
	}
}

func (s *Server) listStrategies(w http.ResponseWriter, r *http.Request, c *call) error {
	list, next, err := s.strategies().page(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.StrategyList{Strategies: list, NextPageToken: next})
}

func (s *Server) cancelStrategy(w http.ResponseWriter, r *http.Request, c *call) (core.StrategyEvent, error) {
	reason, err := s.reason(w, r, c, "cancelled")
	return core.StrategyCancel{Reason: reason}, err
}

// evaluateStrategy says how the present approach came out. Which one is meant
// must be said: another one may have begun meanwhile.
func (s *Server) evaluateStrategy(w http.ResponseWriter, r *http.Request, _ *call) (core.StrategyEvent, error) {
	var b wire.EvaluateRequest
	if err := s.decode(w, r, &b, false); err != nil {
		return nil, err
	}
	switch {
	case b.N == nil:
		return nil, failf(http.StatusBadRequest, "n: missing: give the strategy's n, so that no other approach is meant")
	case b.Success == nil:
		return nil, failf(http.StatusBadRequest, "success: missing: say true or false")
	}
	return core.StrategyEvaluate{N: *b.N, Success: *b.Success, Output: b.Output, Error: b.Error}, nil
}
