package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// receiveWebhook stores a request raw, and answers once it is durable (B4). A
// delivery that was taken before is answered as it was then, and not stored
// again.
func (s *Server) receiveWebhook(w http.ResponseWriter, r *http.Request, c *call) error {
	name := r.PathValue("route")
	h, ok := s.hooks[name]
	if !ok {
		return failf(http.StatusNotFound, "webhook route %q not found", clip(name))
	}
	body, err := readBody(w, r, s.o.MaxWebhookBytes)
	if err != nil {
		return err
	}
	delivery, err := h.verify(body, r.Header)
	if err != nil {
		s.metrics.rejected.WithLabelValues(name).Inc()
		return err
	}
	c.actor = "webhook:" + name
	ctx := withActor(r.Context(), c.actor)
	store := func() (uuid.UUID, error) {
		// A sender that hangs up leaves no doubt whether its delivery was stored:
		// it will come again, and must find the answer to the first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.RequestTimeout)
		defer cancel()
		return s.engine.Webhooks().Receive(ctx, name, safeHeader(r.Header), body)
	}
	var id uuid.UUID
	if delivery == "" {
		id, err = store()
	} else {
		var replayed bool
		id, replayed, err = s.replays.once(ctx, name+"\x00"+delivery, store)
		if replayed {
			s.metrics.replayed.WithLabelValues(name).Inc()
		}
	}
	if err != nil {
		return notFound("webhook route", err)
	}
	return writeJSON(w, http.StatusAccepted, wire.WebhookAccepted{WebhookID: id, ActionID: id})
}

// Headers that are kept with a webhook: what its handler may need to read the
// body. Credentials and cookies are never among them.
var (
	keptHeaders  = []string{"Content-Type", "Content-Encoding", "User-Agent", "X-Request-Id", "X-Correlation-Id", "Traceparent", "X-Hub-Signature-256"}
	keptPrefixes = []string{"Webhook-", "X-Github-", "X-Gitlab-Event", "X-Gitea-", "Ce-"}
)

// maxKeptHeader bounds one kept value.
const maxKeptHeader = 1 << 10

func safeHeader(h http.Header) map[string]string {
	out := make(map[string]string)
	for k, v := range h {
		kept := slices.Contains(keptHeaders, k) || slices.ContainsFunc(keptPrefixes, func(p string) bool { return strings.HasPrefix(k, p) })
		if !kept {
			continue
		}
		value := strings.ToValidUTF8(strings.Join(v, ", "), "\uFFFD")
		if len(value) > maxKeptHeader {
			continue // cut, it would be another value
		}
		out[strings.ToLower(k)] = value
	}
	return out
}
