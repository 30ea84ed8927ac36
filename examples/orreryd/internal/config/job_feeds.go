package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/core"
)

// feedTimeout bounds one delivery of a batch.
const feedTimeout = 30 * time.Second

// feedID derives the ids of deliveries from what is in them: after a crash a batch may
// come again with more in it, and is another one then.
var feedID = uuid.MustParse("5a9b6d2e-0f57-4c0b-9d4b-8f2f6d0c6a11")

// Feeds post what becomes of runs to a web server: they are a job state syncer and a
// stats collector (004). An answer that is no success has the batch come again.
type Feeds struct {
	client  *http.Client
	key     *standardwebhooks.Webhook // nil: unsigned
	updates string                    // URLs; empty: none
	metrics string
}

// Sync implements [jobs.JobStateSyncer].
func (f *Feeds) Sync(ctx context.Context, updates []core.JobRunUpdate) error {
	return f.post(ctx, f.updates, map[string]any{"updates": updates})
}

// Collect implements [jobs.StatsCollector].
func (f *Feeds) Collect(ctx context.Context, metrics []core.OrchestratorMetrics) error {
	return f.post(ctx, f.metrics, map[string]any{"metrics": metrics})
}

// post sends one batch. The URL may hold a secret: errors name its host alone.
func (f *Feeds) post(ctx context.Context, to string, v any) error {
	body, err := text.PlainJSON(v)
	if err != nil {
		return fmt.Errorf("encode the batch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("make the request: the URL cannot be right")
	}
	id, now := uuid.NewSHA1(feedID, body).String(), time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "orreryd/"+version.String())
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()))
	if f.key != nil {
		signature, err := f.key.Sign(id, now, body)
		if err != nil {
			return errors.New("sign the request: the key cannot be right")
		}
		req.Header.Set("Webhook-Signature", signature)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return fmt.Errorf("post to %s: %w", req.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("post to %s: it answered %q", req.URL.Host, resp.Status)
	}
	return nil
}

// MakeFeeds makes what posts to the URLs of the configuration; nil: there are none.
func (j jobsConfig) MakeFeeds() (*Feeds, error) {
	for key, v := range map[string]string{"jobs.updates_url": j.UpdatesURL, "jobs.metrics_url": j.MetricsURL} {
		if u, err := url.Parse(v); v != "" && (err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("%s: it is not the URL of a web server: want one such as \"https://example.com/runs\"", key)
		}
	}
	f := &Feeds{updates: j.UpdatesURL, metrics: j.MetricsURL, client: &http.Client{
		// The operator has named the address: it may be a private one. Where a redirect
		// leads, nobody has named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if name := j.FeedSecret; name != "" {
		s, ok := j.Secrets[name]
		if !ok {
			return nil, fmt.Errorf("jobs.feed_secret: there is no [jobs.secrets.%s]", text.Clip(name, 40))
		}
		secret, err := s.key("jobs.secrets." + name)
		if err != nil {
			return nil, err
		}
		if f.key, err = standardwebhooks.NewWebhook(secret); err != nil {
			return nil, fmt.Errorf("jobs.feed_secret: the key %q is not base64", text.Clip(name, 40))
		}
	}
	return f, nil
}
