package jobs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/webhook"
)

// WebhookFeed posts what becomes of runs to web servers: {"updates":[…]} as a
// [JobStateSyncer], {"metrics":[…]} as a [StatsCollector]. An answer that is no success
// has the batch come again. Redirects are not followed: the operator has named the
// servers, and nobody has named where a redirect leads. A URL may hold a secret: errors
// name its server alone.
type WebhookFeed struct {
	Updates, Metrics *url.URL                  // of web servers; nil: what goes there is not to be posted
	Signer           *standardwebhooks.Webhook // signs each batch (Standard Webhooks); nil: nobody does
	UserAgent        string
}

// webhookFeedTimeout bounds one delivery of a batch.
const webhookFeedTimeout = 30 * time.Second

// deliveryID derives the ids of deliveries from what is in them: after a crash a batch may
// come again with more in it, and is another one then.
var deliveryID = uuid.MustParse("5a9b6d2e-0f57-4c0b-9d4b-8f2f6d0c6a11")

// Sync implements [JobStateSyncer].
func (f *WebhookFeed) Sync(ctx context.Context, updates []core.JobRunUpdate) error {
	return f.post(ctx, f.Updates, map[string]any{"updates": updates})
}

// Collect implements [StatsCollector].
func (f *WebhookFeed) Collect(ctx context.Context, metrics []core.OrchestratorMetrics) error {
	return f.post(ctx, f.Metrics, map[string]any{"metrics": metrics})
}

// post sends one batch.
func (f *WebhookFeed) post(ctx context.Context, to *url.URL, batch any) error {
	body, err := plainjson.Marshal(batch)
	if err != nil {
		return fmt.Errorf("encode the batch: %w", err)
	}
	p := webhook.Post{
		Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		URL:    to, Header: webhook.NewHeader(map[string]string{"User-Agent": f.UserAgent}), Body: body,
		Timeout: webhookFeedTimeout, MaxAnswer: 64 << 10,
	}
	if err := webhook.Sign(p.Header, f.Signer, uuid.NewSHA1(deliveryID, body).String(), time.Now(), body); err != nil {
		return fmt.Errorf("sign the batch: %w", err)
	}
	answer, err := p.Do(ctx)
	if err != nil || answer.OK() {
		return err
	}
	return answer.Refused(to)
}
