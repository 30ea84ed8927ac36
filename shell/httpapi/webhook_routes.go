package httpapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// webhookCounts count what became of the requests of a route since the process began.
type webhookCounts struct {
	accepted atomic.Uint64 // stored
	rejected atomic.Uint64 // for their signature
	replayed atomic.Uint64 // they came again
	ignored  atomic.Uint64 // by the filter
}

var (
	descAccepted = desc("orrery_webhooks_accepted_total", "Webhooks that were stored, by route.", "route")
	descRejected = desc("orrery_webhooks_rejected_total", "Webhooks whose signature was missing, wrong or too old.", "route")
	descReplayed = desc("orrery_webhooks_replayed_total", "Webhooks that came again and were answered as before.", "route")
	descIgnored  = desc("orrery_webhooks_ignored_total", "Webhooks that their route's filter left out.", "route")
)

// collectWebhooks reads the counts of all routes: from 0 on, since a rate needs something to rise from.
func (s *Server) collectWebhooks(_ context.Context, ch samples) {
	for _, route := range slices.Sorted(maps.Keys(s.hooks)) {
		n := &s.hooks[route].counts
		ch.counter(descAccepted, n.accepted.Load(), route)
		ch.counter(descRejected, n.rejected.Load(), route)
		ch.counter(descReplayed, n.replayed.Load(), route)
		ch.counter(descIgnored, n.ignored.Load(), route)
	}
}

// listWebhooks shows the routes whose actions the token sees, without their secrets. A route that only one of
// Options.Webhooks and the engine's options has takes nothing, and is not shown.
func (s *Server) listWebhooks(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant")
	if err != nil {
		return err
	}
	if _, _, err := c.scopeOf(q); err != nil {
		return err
	}
	out := wire.WebhookRouteList{Routes: []wire.WebhookRoute{}}
	for _, name := range slices.Sorted(maps.Keys(s.hooks)) {
		of, ok := s.engine.Webhooks().Route(name)
		if !ok || !c.token.sees(of.Namespace, of.Tenant, of.Tool) || !matches(q, of.Namespace, of.Tenant) {
			continue
		}
		h := s.hooks[name]
		shown := wire.WebhookRoute{
			Name: name, Namespace: of.Namespace, Tenant: of.Tenant, Tool: of.Tool, ActionType: of.ActionType, Label: of.Label,
			Signature: string(h.scheme), Events: []string{}, Match: []wire.WebhookMatch{},
			Accepted: h.counts.accepted.Load(), Rejected: h.counts.rejected.Load(), Replayed: h.counts.replayed.Load(), Ignored: h.counts.ignored.Load(),
		}
		filter := s.o.WebhookFilters[name]
		shown.Events = append(shown.Events, filter.Events...)
		for _, m := range filter.Match {
			shown.Match = append(shown.Match, wire.WebhookMatch{Path: m.Path, Values: append([]string{}, m.Values...)})
		}
		out.Routes = append(out.Routes, shown)
	}
	return writeJSON(w, http.StatusOK, out)
}
