package constraints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/retryafter"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/internal/webhook"
)

const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 10 * time.Minute
	defaultRetries = 3
	maxRetries     = 10
	firstWait      = 500 * time.Millisecond
	maxWait        = 30 * time.Second
	maxAnswer      = 64 << 10
)

// webhookConfig is the action webhook: it posts what happened as JSON.
type webhookConfig struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	// Data is put into the body as it is, under "data".
	Data json.RawMessage `json:"data"`
	// Secret is the name of a key of [Options.Secrets].
	Secret  string `json:"secret"`
	Timeout span   `json:"timeout"` // of one request
	Retries *int   `json:"retries"`

	url     *url.URL
	checker *Checker
}

func newWebhook(at string, raw json.RawMessage) (*webhookConfig, error) {
	w := &webhookConfig{Timeout: span(defaultTimeout)}
	if err := strictjson.DecodeAt(at, raw, w); err != nil {
		return w, err
	}
	var err error
	if w.url, err = parseURL(at+".url", w.URL); err != nil {
		return w, err
	}
	if err := checkHeaders(at+".headers", w.Headers); err != nil {
		return w, err
	}
	if time.Duration(w.Timeout) > maxTimeout {
		return w, fmt.Errorf("%s.timeout: %v is more than %v", at, time.Duration(w.Timeout), maxTimeout)
	}
	if w.Retries != nil && (*w.Retries < 0 || *w.Retries > maxRetries) {
		return w, fmt.Errorf("%s.retries: %d is not between 0 and %d", at, *w.Retries, maxRetries)
	}
	return w, nil
}

// parseURL reads the URL of a web server. It may hold a secret: errors never show
// it.
func parseURL(at, text string) (*url.URL, error) {
	if text == "" {
		return nil, fmt.Errorf("%s: is missing: want one such as \"https://example.com/hook\"", at)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s: it is not the URL of a web server: want one such as \"https://example.com/hook\"", at)
	case u.User != nil:
		return nil, fmt.Errorf("%s: it has a user or password in it: use the header Authorization", at)
	case len(text) > 8<<10:
		return nil, fmt.Errorf("%s: %d bytes is more than %d", at, len(text), 8<<10)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// ownHeaders are those that are not a job's to set.
var ownHeaders = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Upgrade": true, "Te": true, "Trailer": true,
	"Idempotency-Key": true, "Webhook-Id": true, "Webhook-Timestamp": true, "Webhook-Signature": true,
}

func checkHeaders(at string, headers map[string]string) error {
	for name, value := range headers {
		switch {
		case !webhook.IsHeaderName(name):
			return fmt.Errorf("%s: %q is not the name of a header", at, clip.Text(name, maxQuoted))
		case ownHeaders[http.CanonicalHeaderKey(name)]:
			return fmt.Errorf("%s: %q cannot be set", at, clip.Text(name, maxQuoted))
		case !webhook.IsHeaderValue(value): // which may be a secret
			return fmt.Errorf("%s: the value of %q has a character that no header can have", at, clip.Text(name, maxQuoted))
		}
	}
	return nil
}

// runFacts are what the other side of a webhook is told of a run.
type runFacts struct {
	RunID       string             `json:"run_id"`
	JobID       string             `json:"job_id"`
	JobName     string             `json:"job_name"`
	Namespace   string             `json:"namespace"`
	Tenant      string             `json:"tenant"`
	ScheduledAt core.Time          `json:"scheduled_at"`
	Attempt     uint32             `json:"attempt"`
	Phase       effects.CheckPhase `json:"phase"`
	State       string             `json:"state"`
	ExitCode    *int32             `json:"exit_code"`
}

func factsOf(run core.Orchestrator, phase effects.CheckPhase) runFacts {
	return runFacts{
		RunID: run.RunID, JobID: run.JobID, JobName: run.Config.Name, Namespace: run.Namespace, Tenant: run.Tenant,
		ScheduledAt: run.ScheduledAt, Attempt: run.RetryAttempt, Phase: phase, State: string(run.State), ExitCode: run.Pod.ExitCode,
	}
}

// Take implements [Action]: it tries again, in the same words and under the same
// key, until it is taken, refused for good, or has been tried often enough.
func (w *webhookConfig) Take(ctx context.Context, in *ActionInput) error {
	body, err := plainjson.Marshal(struct {
		Type       string          `json:"type"`
		Constraint string          `json:"constraint"`
		Message    string          `json:"message"`
		Run        runFacts        `json:"run"`
		Data       json.RawMessage `json:"data,omitempty"`
	}{"constraint." + metText(in.Met), in.Constraint, in.Message, factsOf(in.Run, in.Phase), w.Data})
	if err != nil {
		return permanent("webhook: encode the body: %w", err)
	}
	retries := defaultRetries
	if w.Retries != nil {
		retries = *w.Retries
	}
	p := newPost(w.checker, w.url, w.Headers, in.Key, body, time.Duration(w.Timeout))
	if w.Secret != "" {
		if p.signer = w.checker.signer(in.Job, w.Secret); p.signer == nil {
			return permanent("webhook: there is no secret %q", clip.Text(w.Secret, maxQuoted))
		}
	}
	_, err = p.send(ctx, retries)
	return err
}

// waitBefore is the wait before the n-th repetition, from 0: it doubles, and is at
// least what the server asks for, within limits.
func waitBefore(n int, asked time.Duration) time.Duration {
	return min(max(firstWait<<min(n, 10), asked), maxWait)
}

func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// post is a request under a key.
type post struct {
	webhook.Post
	key    string
	signer *standardwebhooks.Webhook // nil: it is not signed
	now    func() time.Time
}

func newPost(c *Checker, to *url.URL, headers map[string]string, key string, body []byte, timeout time.Duration) post {
	p := post{key: key, now: c.o.Now, Post: webhook.Post{
		Client: c.o.Client, URL: to, Header: webhook.NewHeader(headers), Body: body, Timeout: timeout, MaxAnswer: maxAnswer,
	}}
	p.Header.Set("Idempotency-Key", key)
	return p
}

// send makes the request until it is taken, refused for good, or was repeated often
// enough.
func (p post) send(ctx context.Context, retries int) (answer []byte, err error) {
	for n := 0; ; n++ {
		answer, after, err := p.try(ctx)
		if err == nil || isPermanent(err) || n >= retries || ctx.Err() != nil {
			return answer, err
		}
		if cause := pause.For(ctx, waitBefore(n, after)); cause != nil {
			return nil, fmt.Errorf("%w: %w", err, cause)
		}
	}
}

// try makes it once. after is how long the server asks to wait.
func (p post) try(ctx context.Context) (answer []byte, after time.Duration, err error) {
	if err := p.sign(); err != nil {
		return nil, 0, permanent("webhook: sign it: %w", err)
	}
	a, err := p.Do(ctx)
	if err == nil && a.OK() {
		err = a.Broken
	}
	switch {
	case err != nil:
		err = fmt.Errorf("webhook: %w", err)
		if _, ok := errors.AsType[*httpcall.AddressError](err); ok {
			err = shell.Permanent(err)
		}
		return nil, 0, err
	case a.OK():
		return a.Body, 0, nil
	case a.Final(true): // it has a key
		return nil, 0, permanent("webhook: %w", a.Refused(p.URL))
	default:
		after, _ := retryafter.Of(a.Header, p.now())
		return nil, after, fmt.Errorf("webhook: %w", a.Refused(p.URL))
	}
}

// sign signs it as of now, each time that it is made: whoever gets it refuses what
// was signed minutes ago (Standard Webhooks).
func (p post) sign() error {
	if p.signer == nil {
		return nil
	}
	now := p.now()
	signature, err := p.signer.Sign(p.key, now, p.Body)
	if err != nil {
		return err
	}
	p.Header.Set(standardwebhooks.HeaderWebhookID, p.key)
	p.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	p.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}
